/*
 * Theory: every entry of the journal names what comes by its inode (new_ino)
 * and what goes by its own (old_ino). Both stay alive, in the source or in the
 * stage, for as long as the journal does, so that neither number is used again:
 * which of the two a path has tells whether its step was done.
 */
#include "workspace/place.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/layer.h"
#include "workspace/place_private.h"
#include "workspace/stage.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ERROR_PATH_MAX 400

int place_rename(int from_fd, const char *from, int to_fd, const char *to,
		 unsigned flags)
{
	return syscall(SYS_renameat2, from_fd, from, to_fd, to, flags) < 0
		       ? -errno
		       : 0;
}

int place_fail(struct error *err, int code, const char *what,
	       const struct journal_entry *e)
{
	AUTO_BUF struct buf quoted = BUF_INIT(ERROR_TEXT_MAX * 4);

	str_quote(&quoted, e->path, ERROR_PATH_MAX);
	return error_set(err, code, "cannot %s %s: %s", what, buf_str(&quoted),
			 strerror(-code));
}

bool place_is_lost(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP ||
	       code == -EXDEV;
}

bool place_is_old(const struct journal_entry *e, const struct stat *st)
{
	return st->st_ino == e->old_ino &&
	       (st->st_mode & S_IFMT) == (e->old_mode & S_IFMT) &&
	       time_ns(&st->st_mtim) == e->old_mtime_ns &&
	       (S_ISDIR(st->st_mode) || (uint64_t)st->st_size == e->old_size);
}

bool place_makes_directory(const struct journal_entry *e)
{
	return S_ISDIR(e->mode) && (e->act == ACT_ADD ||
				    e->act == ACT_REPLACE ||
				    e->act == ACT_MODE);
}

int place_set_mode(int dir_fd, const char *name, ino_t ino, mode_t mode,
		   const struct timespec *mtime)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name, O_PATH | O_DIRECTORY);
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  mtime ? *mtime : times[0]};
	char link[64];
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (ino && st.st_ino != ino)
		return -ESTALE;
	/* Not by name: that would follow a link put there meanwhile. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if ((st.st_mode & 07777) != mode && chmod(link, mode) < 0)
		return -errno;
	if (mtime && utimensat(AT_FDCWD, link, times, 0) < 0)
		return -errno;
	return 0;
}

static int skip(struct journal_entry *e, enum journal_skip why)
{
	e->state = STATE_SKIPPED;
	e->why = (uint8_t)why;
	return 0;
}

static int placed(struct journal_entry *e, const struct stat *st)
{
	e->state = STATE_PLACED;
	e->ctime_ns = st ? time_ns(&st->st_ctim) : 0;
	return 0;
}

static int place_new(struct journal_entry *e, int stage_fd, const char *from,
		     int dir_fd, const char *name)
{
	struct stat st;
	int r = place_rename(stage_fd, from, dir_fd, name, RENAME_NOREPLACE);

	if (r < 0 && r != -EEXIST && r != -ENOENT)
		return r;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		/* It was placed, and somebody took it away. */
		return errno == ENOENT ? skip(e, SKIP_CHANGED) : -errno;
	return st.st_ino == e->new_ino ? placed(e, &st)
				       : skip(e, SKIP_CHANGED);
}

/* What came into the stage is not what was planned: it goes back. */
static int give_back(struct journal_entry *e, int stage_fd, const char *from,
		     int dir_fd, const char *name, unsigned flags)
{
	int r = place_rename(stage_fd, from, dir_fd, name, flags);

	return r < 0 ? r : skip(e, SKIP_CHANGED);
}

static int place_instead(struct journal_entry *e, int stage_fd,
			 const char *from, int dir_fd, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? skip(e, SKIP_CHANGED) : -errno;
	if (st.st_ino == e->new_ino)
		return placed(e, &st);
	if (!place_is_old(e, &st))
		return skip(e, SKIP_CHANGED);
	r = place_rename(stage_fd, from, dir_fd, name, RENAME_EXCHANGE);
	if (r == -ENOENT)
		return skip(e, SKIP_CHANGED);
	if (r < 0)
		return r;
	/* Between the look and the rename an editor may have saved. */
	if (fstatat(stage_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!place_is_old(e, &st))
		return give_back(e, stage_fd, from, dir_fd, name,
				 RENAME_EXCHANGE);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? placed(e, NULL) : -errno;
	return placed(e, &st);
}

static int take_away(struct journal_entry *e, int stage_fd, const char *to,
		     int dir_fd, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		if (fstatat(stage_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return placed(e, NULL);
		return skip(e, SKIP_CHANGED);
	}
	if (!place_is_old(e, &st))
		return skip(e, SKIP_CHANGED);
	r = place_rename(dir_fd, name, stage_fd, to, RENAME_NOREPLACE);
	if (r == -ENOENT)
		return skip(e, SKIP_CHANGED);
	if (r < 0)
		return r;
	if (fstatat(stage_fd, to, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!place_is_old(e, &st))
		return give_back(e, stage_fd, to, dir_fd, name,
				 RENAME_NOREPLACE);
	return placed(e, NULL);
}

/* Its permissions come last (settle), for they may close it. */
static int plan_mode(struct journal_entry *e, int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? skip(e, SKIP_CHANGED) : -errno;
	if (st.st_ino != e->old_ino || !S_ISDIR(st.st_mode) ||
	    (st.st_mode != e->old_mode && st.st_mode != e->mode))
		return skip(e, SKIP_CHANGED);
	return placed(e, NULL);
}

static int place_one(struct tree *t, struct journal_entry *e, int stage_fd,
		     struct error *err)
{
	char number[STAGE_NAME_SIZE];
	const char *name;
	int r, dir_fd;

	if (e->act == ACT_LEAVE || e->act == ACT_LOCK ||
	    e->state == STATE_SKIPPED)
		return 0;
	if (e->act == ACT_CHECK)
		return e->part == PART_REF ? placed(e, NULL) : 0;
	dir_fd = tree_parent(t, e->path, &name);
	if (place_is_lost(dir_fd))
		return skip(e, SKIP_PARENT);
	if (dir_fd < 0)
		return place_fail(err, dir_fd, "reach", e);
	stage_name(e->number, number);
	switch (e->act) {
	case ACT_ADD:
		r = place_new(e, stage_fd, number, dir_fd, name);
		break;
	case ACT_REPLACE:
		r = place_instead(e, stage_fd, number, dir_fd, name);
		break;
	case ACT_DELETE:
		r = take_away(e, stage_fd, number, dir_fd, name);
		break;
	default:
		r = plan_mode(e, dir_fd, name);
		break;
	}
	return r < 0 ? place_fail(err, r, "promote", e) : 0;
}

/* Permissions and times of directories, once all is in them. */
static int settle_one(struct tree *t, struct journal_entry *e,
		      struct error *err)
{
	struct timespec mtime = {e->mtime_ns / 1000000000,
				 e->mtime_ns % 1000000000};
	bool comes = e->act != ACT_MODE;
	const char *name;
	int r, dir_fd;

	if (e->state != STATE_PLACED || !place_makes_directory(e))
		return 0;
	dir_fd = tree_parent(t, e->path, &name);
	r = dir_fd < 0 ? dir_fd
		       : place_set_mode(dir_fd, name,
					comes ? e->new_ino : e->old_ino,
					e->mode & 07777,
					comes ? &mtime : NULL);
	return r == 0 || r == -ESTALE || place_is_lost(r)
		       ? 0
		       : place_fail(err, r, "set the permissions of", e);
}

int place_directory(struct tree *t, struct journal_entry *e, int stage_fd,
		    struct error *err)
{
	return place_one(t, e, stage_fd, err);
}

int place_forward(struct journal *j, int source_fd, int stage_fd, bool first,
		  struct error *err)
{
	AUTO_FREE size_t *index = NULL;
	AUTO_TREE struct tree tree;
	size_t n = 0;
	int r;

	tree_init(&tree, source_fd);
	r = journal_index(j, &index, &n);
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = place_lock(j, source_fd, stage_fd, first, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = place_one(&tree, journal_at(j, index[i]), stage_fd, err);
	tree_forget(&tree);
	for (size_t i = n; i > 0 && r == 0; i--)
		r = settle_one(&tree, journal_at(j, index[i - 1]), err);
	/* A failure is taken back under the same locks. */
	return r == 0 ? place_unlock(j, source_fd, stage_fd, err) : r;
}
