/*
 * Theory, overlay: removing what the upper tree has of a path lets the source's
 * shine through, unless a directory on the way hides the source (opaque, or
 * deleted as a whole). Such a directory is first opened up: for each name that
 * only the source has a whiteout is made, directories that both have become
 * opaque themselves, and last the mark is taken away; at every moment the tree
 * means the same.
 */
#include "workspace/restore.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "workspace/layer.h"
#include "workspace/restore_copy.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

/* The directory that the way has come to, in both trees. */
struct place {
	int upper;
	int below; /* -1: the source has no directory there */
};

static void place_done(struct place *p)
{
	close_fd(p->upper);
	close_fd(p->below);
}

#define AUTO_PLACE __attribute__((cleanup(place_done)))

static int open_directory(int at, const char *name)
{
	return walk_open_at(at, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
}

static bool is_opaque(int fd)
{
	char value[8];

	return fgetxattr(fd, OPAQUE, value, sizeof(value)) == 1 &&
	       value[0] == 'y';
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* What the source's name needs in an opaque directory that is opened up. */
static int cover(const struct place *p, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat upper, below;

	if (fstatat(p->upper, name, &upper, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		return mknodat(p->upper, name, S_IFCHR | 0600, makedev(0, 0)) <
				       0
			       ? -errno
			       : 0;
	}
	if (!S_ISDIR(upper.st_mode) ||
	    fstatat(p->below, name, &below, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(below.st_mode))
		return 0;
	fd = open_directory(p->upper, name);
	if (fd < 0)
		return fd;
	return fsetxattr(fd, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

static int cover_all(const struct place *p)
{
	AUTO_DIR DIR *dir = NULL;
	int r = io_dir_of(open_directory(p->below, "."), &dir);

	while (r == 0) {
		struct dirent *e;

		errno = 0;
		e = readdir(dir);
		if (!e)
			return -errno;
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			r = cover(p, e->d_name);
	}
	return r;
}

static int open_up(const struct place *p)
{
	int r;

	if (!is_opaque(p->upper))
		return 0;
	r = p->below >= 0 ? cover_all(p) : 0;
	if (r == 0 && fremovexattr(p->upper, OPAQUE) < 0)
		r = -errno;
	return r;
}

/* An empty directory that hides the source's, for the whiteout of it. */
static int uncover(const struct place *p, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat parent, below;

	if (fstat(p->upper, &parent) < 0 ||
	    fstatat(p->below, name, &below, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (unlinkat(p->upper, name, 0) < 0 ||
	    mkdirat(p->upper, name, 0700) < 0)
		return -errno;
	fd = open_directory(p->upper, name);
	if (fd < 0)
		return fd;
	if (fsetxattr(fd, OPAQUE, "y", 1, 0) < 0 ||
	    fchown(fd, parent.st_uid, parent.st_gid) < 0 ||
	    fchmod(fd, below.st_mode & 01777) < 0)
		return -errno;
	return 0;
}

static bool has_directory(int below, const char *name)
{
	struct stat st;

	return below >= 0 &&
	       fstatat(below, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* 1 if there is a directory to go into, 0 if nothing below is a change. */
static int make_way(const struct place *p, const char *name, bool has_below)
{
	struct stat st;
	int r;

	if (fstatat(p->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!is_whiteout(&st))
		return 1;
	if (!has_below)
		return 0;
	r = uncover(p, name);
	return r < 0 ? r : 1;
}

/* Goes down by one name. 1, 0: nothing below it is a change, or negative. */
static int go_down(struct place *p, const char *name)
{
	AUTO_PLACE struct place next = {-1, -1};
	bool has_below = has_directory(p->below, name);
	int r = make_way(p, name, has_below);

	if (r <= 0)
		return r;
	next.upper = open_directory(p->upper, name);
	if (next.upper < 0)
		return next.upper == -ELOOP ? -ENOTDIR : next.upper;
	if (has_below)
		next.below = walk_open_at(p->below, name,
					  O_PATH | O_DIRECTORY);
	if (has_below && next.below < 0)
		return next.below;
	place_done(p);
	*p = next;
	next = (struct place){-1, -1};
	return 1;
}

static int restore_all(int upper, int below, struct error *err)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	struct stat st;
	int r = io_dir_of(open_directory(upper, "."), &dir);

	if (r < 0) {
		errno = -r;
		return error_errno(err, "cannot read the layer");
	}
	while (r == 0 && (e = readdir(dir))) {
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			r = layer_remove(upper, e->d_name, err);
	}
	if (r == 0 && below >= 0 &&
	    (fstat(below, &st) < 0 || fchmod(upper, st.st_mode & 07777) < 0))
		r = error_errno(err, "cannot give back the permissions");
	return r;
}

static int restore_overlay(struct place *p, const char *path, struct error *err)
{
	int r = open_up(p);

	while (r == 0) {
		const char *slash = strchr(path, '/');
		char name[NAME_MAX + 1];
		size_t n = slash ? (size_t)(slash - path) : 0;

		if (!slash)
			return layer_remove(p->upper, path, err);
		if (n > NAME_MAX)
			return error_set(err, -ENAMETOOLONG, "%s",
					 strerror(ENAMETOOLONG));
		memcpy(name, path, n);
		name[n] = '\0';
		r = go_down(p, name);
		if (r == 0)
			return 0;
		if (r > 0)
			r = open_up(p);
		path = slash + 1;
	}
	return error_set(err, r, "%s", strerror(-r));
}

int restore_path(int layer_fd, int source_fd, bool copied, const char *path,
		 struct error *err)
{
	AUTO_PLACE struct place p = {-1, -1};
	AUTO_BUF struct buf quoted = BUF_INIT(65536);
	int r;

	if (copied)
		return restore_copy(layer_fd, source_fd, path, err);
	p.upper = open_directory(layer_fd, "upper");
	if (p.upper < 0)
		return error_set(err, p.upper, "cannot open the layer: %s",
				 strerror(-p.upper));
	if (source_fd >= 0)
		p.below = fcntl(source_fd, F_DUPFD_CLOEXEC, 3);
	r = *path ? restore_overlay(&p, path, err)
		  : restore_all(p.upper, p.below, err);
	if (r == 0)
		return 0;
	str_quote(&quoted, *path ? path : ".", 400);
	return error_prefix(err, "cannot restore %s", buf_str(&quoted));
}
