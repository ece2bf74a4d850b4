/*
 * Owner, group and access list of what comes into the source (stage.h). Names
 * in the stage are ours; names in the source are read below a held directory.
 */
#include "workspace/stage.h"

#include "base/cleanup.h"
#include "workspace/place_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"
#define LINK_SIZE (NAME_MAX + 64)

void dresser_init(struct dresser *d, int source_fd, int stage_fd)
{
	*d = (struct dresser){
		.stage_fd = stage_fd,
		.parent_fd = -1,
		.lists = true,
		.root = geteuid() == 0,
	};
	tree_init(&d->tree, source_fd);
}

void dresser_done(struct dresser *d)
{
	tree_done(&d->tree);
}

/* A held directory, or one name in it, for calls that take paths alone. */
static void path_of(int dir_fd, const char *name, char link[LINK_SIZE])
{
	snprintf(link, LINK_SIZE, "/proc/self/fd/%d%s%s", dir_fd,
		 name ? "/" : "", name ? name : "");
}

/* Reads a list; its length, 0 where there is none. */
static ssize_t read_list(struct dresser *d, int dir_fd, const char *name,
			 const char *attribute, char *list, size_t size)
{
	char link[LINK_SIZE];
	ssize_t n;

	if (!d->lists)
		return 0;
	path_of(dir_fd, name, link);
	n = name ? lgetxattr(link, attribute, list, size)
		 : getxattr(link, attribute, list, size);
	if (n < 0 && errno == EOPNOTSUPP)
		d->lists = false;
	if (n >= 0)
		return n;
	return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
}

/* 1, 0 if it is refused, or negative. */
static int may_access(int dir_fd, const char *name, int mode)
{
	if (faccessat(dir_fd, name, mode, AT_EACCESS) == 0)
		return 1;
	return errno == EACCES || errno == EPERM || errno == EROFS ||
			       errno == ENOENT
		       ? 0
		       : -errno;
}

static int look_at_parent(struct dresser *d, int fd)
{
	struct stat st;
	ssize_t n;
	int r;

	if (fd == d->parent_fd && d->parent_moves == d->tree.moves)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	d->parent_fd = fd;
	d->parent_moves = d->tree.moves;
	d->parent_uid = st.st_uid;
	d->parent_gid = st.st_gid;
	d->parent_mode = st.st_mode;
	r = may_access(fd, ".", W_OK | X_OK);
	if (r < 0)
		return r;
	d->parent_closed = r == 0;
	n = read_list(d, fd, NULL, ACL_DEFAULT, d->default_list,
		      sizeof(d->default_list));
	d->default_len = n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

/* Sets a list on what was staged; then the permissions again, as mask. */
static int set_lists(struct dresser *d, const char *name, mode_t mode,
		     const char *list, size_t len)
{
	char link[LINK_SIZE];

	path_of(d->stage_fd, name, link);
	if (len > 0 && lsetxattr(link, ACL_ACCESS, list, len, 0) < 0)
		return -errno;
	if (S_ISDIR(mode) && d->default_len > 0 &&
	    lsetxattr(link, ACL_DEFAULT, d->default_list, d->default_len, 0) <
		    0)
		return -errno;
	return 0;
}

static int skip(struct journal_entry *e, enum journal_skip why)
{
	e->state = STATE_SKIPPED;
	e->why = (uint8_t)why;
	return 0;
}

/* 1 once the entry is skipped. */
static int give(struct dresser *d, const char *name, uid_t uid, gid_t gid,
		struct journal_entry *e)
{
	if (e->new_uid == uid && e->new_gid == gid)
		return 0;
	if (e->new_uid != uid && !d->root) {
		skip(e, SKIP_OWNER);
		return 1;
	}
	if (fchownat(d->stage_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM && errno != EINVAL)
		return -errno;
	skip(e, e->new_uid != uid ? SKIP_OWNER : SKIP_GROUP);
	return 1;
}

/* What the entry is to look like, apart from its owner. */
static int finish(struct dresser *d, const char *name, mode_t group_bit,
		  const char *list, size_t len, struct journal_entry *e)
{
	mode_t mode = e->mode & (S_ISDIR(e->mode) ? 01777 : 0777);
	int r;

	if (S_ISLNK(e->mode))
		return 0;
	r = set_lists(d, name, e->mode, list, len);
	if (r < 0)
		return r;
	if (S_ISDIR(e->mode)) {
		mode |= group_bit;
		e->mode = S_IFDIR | mode;
		mode |= 0700;
	} else if (len == 0) {
		return 0;
	}
	return fchmodat(d->stage_fd, name, mode, 0) < 0 ? -errno : 0;
}

static int dress_new(struct dresser *d, const char *name,
		     struct journal_entry *e)
{
	gid_t gid = d->parent_gid;
	int r;

	/* An ordinary user's files get its own group, as any program's do. */
	if (!d->root && !(d->parent_mode & S_ISGID))
		gid = e->new_gid;
	r = give(d, name, d->root ? d->parent_uid : e->new_uid, gid, e);
	if (r != 0)
		return r < 0 ? r : 0;
	return finish(d, name, d->parent_mode & S_ISGID, d->default_list,
		      d->default_len, e);
}

static int dress_like(struct dresser *d, const char *name, int dir_fd,
		      const char *old_name, struct journal_entry *e)
{
	char list[4096];
	struct stat old = {.st_uid = e->old_uid, .st_gid = e->old_gid,
			   .st_mode = e->old_mode};
	ssize_t n = 0;
	int r;

	/* Who planned for an ordinary user did not know all ids. */
	if (!d->root &&
	    fstatat(dir_fd, old_name, &old, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? skip(e, SKIP_CHANGED) : -errno;
	r = give(d, name, old.st_uid, old.st_gid, e);
	if (r != 0)
		return r < 0 ? r : 0;
	/* A list belongs to the kind of thing that it was made for. */
	if ((old.st_mode & S_IFMT) == (e->mode & S_IFMT) &&
	    !S_ISLNK(old.st_mode))
		n = read_list(d, dir_fd, old_name, ACL_ACCESS, list,
			      sizeof(list));
	if (n < 0)
		return (int)n;
	return finish(d, name, d->parent_mode & S_ISGID, list, (size_t)n, e);
}

static bool moves_directory(const struct journal_entry *e)
{
	return S_ISDIR(e->old_mode) &&
	       (e->act == ACT_REPLACE || e->act == ACT_DELETE);
}

/* A directory has to be written for its ".." to become another. */
static int look_at_directory(struct journal_entry *e, int fd, const char *name)
{
	int r = moves_directory(e) ? may_access(fd, name, W_OK) : 1;

	return r == 0 ? skip(e, SKIP_READ_ONLY) : r < 0 ? r : 0;
}

/* May the names be changed there? */
static int look_around(struct dresser *d, struct journal_entry *e, int fd,
		       const char *name)
{
	int r = 0;

	if (!e->fresh && place_is_lost(fd))
		return skip(e, SKIP_PARENT);
	/* Below a directory that comes with this promotion: as the one above. */
	if (!e->fresh)
		r = fd < 0 ? fd : look_at_parent(d, fd);
	if (r < 0)
		return r;
	if (e->act == ACT_MODE)
		return 0;
	return d->parent_closed ? skip(e, SKIP_CLOSED)
				: look_at_directory(e, fd, name);
}

int dresser_dress(struct dresser *d, struct journal_entry *e)
{
	char name[STAGE_NAME_SIZE];
	const char *old_name = "";
	int fd = e->fresh ? -ENOENT
			  : tree_parent(&d->tree, e->path, &old_name);
	int r = look_around(d, e, fd, old_name);

	if (r < 0 || e->state == STATE_SKIPPED ||
	    (e->act != ACT_ADD && e->act != ACT_REPLACE))
		return r;
	stage_name(e->number, name);
	if (e->act == ACT_ADD)
		return dress_new(d, name, e);
	return dress_like(d, name, fd, old_name, e);
}
