/*
 * git's locks. Who changes a reference or the index makes a file of its name
 * with ".lock" behind it, by O_EXCL; who cannot waits or gives up. Ours are
 * moved there from the stage by RENAME_NOREPLACE, which comes to the same, and
 * are known by their inode, so that a crash leaves none that is not taken away.
 */
#include "workspace/place.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "workspace/place_private.h"
#include "workspace/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often, and for how long, somebody else's lock is waited for. */
#define TRIES 20
#define PAUSE_NS 50000000

static int look(struct tree *t, const struct journal_entry *e,
		struct stat *st, int *ret_dir, const char **ret_name)
{
	*st = (struct stat){0};
	*ret_dir = tree_parent(t, e->path, ret_name);
	if (*ret_dir < 0)
		return *ret_dir;
	if (fstatat(*ret_dir, *ret_name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	*st = (struct stat){0};
	return errno == ENOENT ? 0 : -errno;
}

static int locked(const struct journal_entry *e, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, e->path, 400);
	return error_set(err, -EBUSY,
			 "another git is at work in the repository (%s is "
			 "there): try again when it has ended, or remove that "
			 "file if none is",
			 buf_str(&quoted));
}

static int lock_one(struct tree *t, const struct journal_entry *e,
		    int stage_fd, struct error *err)
{
	char number[STAGE_NAME_SIZE];
	struct stat st;
	const char *name;
	int dir_fd, r = look(t, e, &st, &dir_fd, &name);

	if (r < 0)
		return place_fail(err, r, "lock", e);
	if (st.st_ino && st.st_ino == e->new_ino)
		return 0;
	stage_name(e->number, number);
	for (int i = 0; i < TRIES; i++) {
		const struct timespec pause = {.tv_nsec = PAUSE_NS};

		r = place_rename(stage_fd, number, dir_fd, name,
				 RENAME_NOREPLACE);
		if (r != -EEXIST)
			return r < 0 ? place_fail(err, r, "lock", e) : 0;
		nanosleep(&pause, NULL);
	}
	return locked(e, err);
}

/* Is it what was planned for, or already what was planned? */
static int check_one(struct tree *t, const struct journal_entry *e,
		     struct error *err)
{
	struct stat st;
	const char *name;
	int dir_fd, r = look(t, e, &st, &dir_fd, &name);

	if (r < 0 && !place_is_lost(r))
		return place_fail(err, r, "read", e);
	if (st.st_ino == 0 ? e->old_ino == 0
			   : place_is_old(e, &st) ||
				     (e->new_ino && st.st_ino == e->new_ino))
		return 0;
	return error_set(err, -ESTALE,
			 "the repository was changed on the host meanwhile "
			 "(%s): look again",
			 e->path);
}

static bool is_checked(const struct journal_entry *e)
{
	return e->part != PART_NOT && e->part != PART_PACK &&
	       e->part != PART_DIR && e->act != ACT_LOCK &&
	       e->act != ACT_LEAVE;
}

int place_lock(struct journal *j, int source_fd, int stage_fd, bool first,
	       struct error *err)
{
	AUTO_TREE struct tree tree;
	int r = 0;

	tree_init(&tree, source_fd);
	for (struct journal_entry *e = journal_next(j, NULL); e && r == 0;
	     e = journal_next(j, e)) {
		if (e->part == PART_DIR)
			r = place_directory(&tree, e, stage_fd, err);
		else if (e->act == ACT_LOCK)
			r = lock_one(&tree, e, stage_fd, err);
	}
	for (struct journal_entry *e = journal_next(j, NULL);
	     e && r == 0 && first; e = journal_next(j, e)) {
		if (is_checked(e))
			r = check_one(&tree, e, err);
	}
	return r;
}

/* Is the lock of the entry in its place, and ours? 1, 0 or negative. */
static int is_held(struct tree *tree, const struct journal_entry *e,
		   int *ret_dir_fd, const char **ret_name)
{
	struct stat st;
	int r = look(tree, e, &st, ret_dir_fd, ret_name);

	return r < 0 ? r : st.st_ino && st.st_ino == e->new_ino;
}

int place_unlock(struct journal *j, int source_fd, int stage_fd,
		 struct error *err)
{
	AUTO_TREE struct tree tree;
	int r = 0;

	tree_init(&tree, source_fd);
	for (struct journal_entry *e = journal_next(j, NULL); e && r == 0;
	     e = journal_next(j, e)) {
		char number[STAGE_NAME_SIZE];
		const char *name;
		int dir_fd;

		if (e->act != ACT_LOCK)
			continue;
		r = is_held(&tree, e, &dir_fd, &name);
		if (r > 0) {
			stage_name(e->number, number);
			r = place_rename(dir_fd, name, stage_fd, number,
					 RENAME_NOREPLACE);
		}
		r = r < 0 && !place_is_lost(r)
			    ? place_fail(err, r, "unlock", e)
			    : 0;
	}
	return r;
}

bool place_needs_lock(struct journal *j, int source_fd)
{
	AUTO_TREE struct tree tree;
	bool needs = false;

	tree_init(&tree, source_fd);
	for (struct journal_entry *e = journal_next(j, NULL); e && !needs;
	     e = journal_next(j, e)) {
		struct stat st;
		const char *name;
		int dir_fd;

		if (!is_checked(e) || e->act == ACT_CHECK ||
		    look(&tree, e, &st, &dir_fd, &name) < 0)
			continue;
		needs = e->act == ACT_DELETE ? st.st_ino == 0
					     : st.st_ino == e->new_ino;
	}
	return needs;
}

int place_renew_locks(struct journal *j, int source_fd, int stage_fd)
{
	AUTO_TREE struct tree tree;
	int r = 0;

	tree_init(&tree, source_fd);
	for (struct journal_entry *e = journal_next(j, NULL); e && r == 0;
	     e = journal_next(j, e)) {
		char number[STAGE_NAME_SIZE];
		struct stat st;
		const char *name;
		int dir_fd;

		if (e->act != ACT_LOCK ||
		    is_held(&tree, e, &dir_fd, &name) > 0)
			continue;
		/* One may have been made, and not been noted. */
		stage_name(e->number, number);
		if ((mknodat(stage_fd, number, S_IFREG | 0644, 0) < 0 &&
		     errno != EEXIST) ||
		    fstatat(stage_fd, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = -errno;
		else
			e->new_ino = st.st_ino;
	}
	return r;
}
