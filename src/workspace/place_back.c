/*
 * The way back (place.h): last things first, each by one rename. Whatever the
 * host has changed since stays.
 */
#include "workspace/place.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/layer.h"
#include "workspace/place_private.h"
#include "workspace/stage.h"
#include "workspace/tree.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <unistd.h>

struct back {
	struct tree tree;
	int stage_fd;
	bool undo;
	uint64_t left;
};

static int restored(struct journal_entry *e)
{
	e->state = STATE_RESTORED;
	e->why = SKIP_NOT;
	e->ctime_ns = 0;
	return 0;
}

static int keep(struct back *b, struct journal_entry *e, enum journal_skip why)
{
	/* A log says what was, and directories without a use are git's own. */
	if (e->part == PART_LOG || e->part == PART_DIR)
		return restored(e);
	e->state = STATE_PLACED;
	e->why = (uint8_t)why;
	b->left++;
	return 0;
}

/*
 * What was replaced is at its place. Its change time is noted where it is as it
 * was: then a later promotion finds no conflict in it.
 */
static int now_there(struct journal_entry *e, int dir_fd, const char *name)
{
	struct stat st;
	bool is = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (!is && errno != ENOENT)
		return -errno;
	restored(e);
	if (is && place_is_old(e, &st))
		e->ctime_ns = time_ns(&st.st_ctim);
	return 0;
}

static int is_empty(int dir_fd, const char *name)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int r = io_dir_of(walk_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY),
			  &dir);

	if (r < 0)
		return r;
	while (errno = 0, (e = readdir(dir))) {
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			return 0;
	}
	return errno ? -errno : 1;
}

/* SKIP_NOT if what was placed may go; else why not. Negative: an error. */
static int may_go(const struct back *b, const struct journal_entry *e,
		  const struct stat *st, int dir_fd, const char *name)
{
	int r;

	if (st->st_ino != e->new_ino)
		return SKIP_CHANGED;
	if (S_ISDIR(st->st_mode)) {
		r = is_empty(dir_fd, name);
		return r < 0 ? r : r > 0 ? SKIP_NOT : SKIP_NOT_EMPTY;
	}
	if (!b->undo)
		return SKIP_NOT;
	/* The change time of a file of several links is that of all. */
	if (!e->linked && e->ctime_ns &&
	    time_ns(&st->st_ctim) != e->ctime_ns)
		return SKIP_CHANGED;
	return (uint64_t)st->st_size != e->new_size ||
			       time_ns(&st->st_mtim) != e->mtime_ns
		       ? SKIP_CHANGED
		       : SKIP_NOT;
}

/* Is what comes not in the source: never placed, or taken back already? */
static bool is_staged(const struct back *b, const struct journal_entry *e,
		      const char *number)
{
	struct stat st;

	return fstatat(b->stage_fd, number, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino == e->new_ino;
}

static int remove_new(struct back *b, struct journal_entry *e,
		      const char *number, int dir_fd, const char *name)
{
	struct stat st;
	int why, r;

	if (is_staged(b, e, number))
		return restored(e);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? restored(e) : -errno;
	why = may_go(b, e, &st, dir_fd, name);
	if (why != SKIP_NOT)
		return why < 0 ? why : keep(b, e, (enum journal_skip)why);
	r = place_rename(dir_fd, name, b->stage_fd, number, RENAME_NOREPLACE);
	return r < 0 ? r : restored(e);
}

static int exchange_back(struct back *b, struct journal_entry *e,
			 const char *number, int dir_fd, const char *name)
{
	struct stat st;
	int why, r;

	if (is_staged(b, e, number))
		return now_there(e, dir_fd, name);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? keep(b, e, SKIP_CHANGED) : -errno;
	if (st.st_ino == e->old_ino)
		return now_there(e, dir_fd, name);
	why = may_go(b, e, &st, dir_fd, name);
	if (why != SKIP_NOT)
		return why < 0 ? why : keep(b, e, (enum journal_skip)why);
	r = place_rename(b->stage_fd, number, dir_fd, name, RENAME_EXCHANGE);
	if (r == -ENOENT)
		return keep(b, e, SKIP_CHANGED);
	return r < 0 ? r : now_there(e, dir_fd, name);
}

static int bring_back(struct back *b, struct journal_entry *e,
		      const char *number, int dir_fd, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(b->stage_fd, number, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		/* It is back, or was never taken away. */
		return now_there(e, dir_fd, name);
	}
	r = place_rename(b->stage_fd, number, dir_fd, name, RENAME_NOREPLACE);
	if (r == -EEXIST)
		return keep(b, e, SKIP_CHANGED);
	return r < 0 ? r : now_there(e, dir_fd, name);
}

static bool is_done(const struct back *b, const struct journal_entry *e)
{
	if (e->act == ACT_LEAVE || e->act == ACT_MODE ||
	    e->act == ACT_LOCK || e->state == STATE_SKIPPED ||
	    e->state == STATE_OVER)
		return true;
	/* An undo has nothing to do with what was never done. */
	return b->undo && e->state == STATE_PLANNED;
}

static int back_one(struct back *b, struct journal_entry *e, struct error *err)
{
	char number[STAGE_NAME_SIZE];
	const char *name;
	int r, dir_fd;

	if (is_done(b, e))
		return 0;
	/* Somebody may have built upon the objects: they stay. */
	if (e->act == ACT_CHECK || e->part == PART_PACK)
		return e->state == STATE_PLACED ? restored(e) : 0;
	dir_fd = tree_parent(&b->tree, e->path, &name);
	if (place_is_lost(dir_fd))
		return e->act == ACT_ADD ? restored(e)
					 : keep(b, e, SKIP_PARENT);
	if (dir_fd < 0)
		return place_fail(err, dir_fd, "reach", e);
	stage_name(e->number, number);
	if (e->act == ACT_ADD)
		r = remove_new(b, e, number, dir_fd, name);
	else if (e->act == ACT_REPLACE)
		r = exchange_back(b, e, number, dir_fd, name);
	else
		r = bring_back(b, e, number, dir_fd, name);
	return r < 0 ? place_fail(err, r, "take back", e) : 0;
}

/* A directory's permissions, unless the host has changed them since. */
static int set_old_mode(struct back *b, struct journal_entry *e, int dir_fd,
			const char *name)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_ino != e->old_ino ||
	    (st.st_mode != e->mode && st.st_mode != e->old_mode))
		return keep(b, e, SKIP_CHANGED);
	r = place_set_mode(dir_fd, name, e->old_ino, e->old_mode & 07777,
			   NULL);
	return r < 0 ? r : now_there(e, dir_fd, name);
}

/* Opens again what was closed last. */
static int reopen(struct back *b, struct journal_entry *e, struct error *err)
{
	const char *name;
	int r, dir_fd;

	if (!place_makes_directory(e) || e->state == STATE_SKIPPED ||
	    e->state == STATE_OVER)
		return 0;
	dir_fd = tree_parent(&b->tree, e->path, &name);
	if (dir_fd < 0)
		r = dir_fd;
	else if (e->act != ACT_MODE)
		r = place_set_mode(dir_fd, name, e->new_ino,
				   (e->mode & 07777) | 0700, NULL);
	else
		r = set_old_mode(b, e, dir_fd, name);
	return r != 0 && r != -ESTALE && !place_is_lost(r)
		       ? place_fail(err, r, "take back", e)
		       : 0;
}

static int close_again(struct back *b, const struct journal_entry *e,
		       struct error *err)
{
	const char *name;
	int r, dir_fd;

	if (!place_makes_directory(e) || e->act == ACT_MODE ||
	    e->state != STATE_PLACED)
		return 0;
	dir_fd = tree_parent(&b->tree, e->path, &name);
	r = dir_fd < 0 ? dir_fd
		       : place_set_mode(dir_fd, name, e->new_ino,
					e->mode & 07777, NULL);
	return r != 0 && r != -ESTALE && !place_is_lost(r)
		       ? place_fail(err, r, "close again", e)
		       : 0;
}

int place_back(struct journal *j, int source_fd, int stage_fd, bool undo,
	       uint64_t *ret_left, struct error *err)
{
	struct back b = {.stage_fd = stage_fd, .undo = undo};
	AUTO_FREE size_t *index = NULL;
	size_t n = 0;
	int r = journal_index(j, &index, &n);

	if (r < 0)
		return error_set(err, r, "out of memory");
	if (place_needs_lock(j, source_fd))
		r = place_lock(j, source_fd, stage_fd, false, err);
	tree_init(&b.tree, source_fd);
	for (size_t i = 0; i < n && r == 0; i++)
		r = reopen(&b, journal_at(j, index[i]), err);
	tree_forget(&b.tree);
	for (size_t i = n; i > 0 && r == 0; i--)
		r = back_one(&b, journal_at(j, index[i - 1]), err);
	/* What stays is closed again as it was. */
	for (size_t i = n; i > 0 && r == 0 && b.left > 0; i--)
		r = close_again(&b, journal_at(j, index[i - 1]), err);
	tree_done(&b.tree);
	*ret_left = b.left;
	return r == 0 ? place_unlock(j, source_fd, stage_fd, err) : r;
}

int place_clean(struct journal *j, int stage_fd, struct error *err)
{
	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e)) {
		char number[STAGE_NAME_SIZE];
		int r;

		if (e->act == ACT_LEAVE || e->state == STATE_PLACED)
			continue;
		stage_name(e->number, number);
		if (unlinkat(stage_fd, number, 0) == 0 || errno == ENOENT)
			continue;
		r = layer_remove(stage_fd, number, err);
		if (r < 0)
			return r;
	}
	return 0;
}
