/*
 * Moves out of a source what is protected and was not pinned, after the task
 * that could write there has ended. Everything goes by one name below a held
 * directory; a path that a link or another mount has come into is an error.
 */
#include "workspace/direct.h"

#include "base/cleanup.h"
#include "base/paths.h"
#include "base/time.h"
#include "workspace/direct_private.h"
#include "workspace/judge.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SET_IDS (S_ISUID | S_ISGID)
#define OVERLAY "user.overlay."
#define NAMES_MAX 65536

struct sweep {
	struct walk walk;
	struct mover mover;
	int source_fd;
	const struct direct_want *want;
	struct protect protect;
	struct direct_swept *ret;
	struct error *err;
};

static void sweep_done(struct sweep *s)
{
	walk_done(&s->walk);
	mover_done(&s->mover);
	protect_done(&s->protect);
}

void direct_swept_done(struct direct_swept *s)
{
	free(s->first_moved);
	free(s->first_set_id);
	free(s->first_special);
	*s = (struct direct_swept){0};
}

static void note(uint64_t *count, char **first, const char *path)
{
	if (++*count == 1)
		*first = strdup(path);
}

static int move(struct sweep *s, int dir_fd, const char *name, const char *path)
{
	int r = mover_move(&s->mover, dir_fd, name, path);

	if (r == 0)
		note(&s->ret->moved, &s->ret->first_moved, path);
	return r;
}

/* ---- what was there and is changed ---- */

static bool is_link_to(int dir_fd, const char *name, const char *target)
{
	char now[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, now, sizeof(now) - 1);

	if (n < 0)
		return false;
	now[n] = '\0';
	return str_eq(now, target);
}

/* The directory of path; 0 with -1: the host took it away. Or negative. */
static int reach(struct sweep *s, const char *path, int *ret_dir,
		 const char **ret_name)
{
	int dir = tree_parent(&s->mover.tree, path, ret_name);

	*ret_dir = -1;
	if (dir == -ENOENT || dir == -ENOTDIR)
		return 0;
	if (dir < 0)
		return mover_fail(&s->mover, dir, "reach", path);
	*ret_dir = dir;
	return 0;
}

/* 1 if it is there, 0, or negative. */
static int look(const struct sweep *s, int dir, const char *name,
		const char *path, struct stat *st)
{
	if (dir < 0)
		return 0;
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0
			       : mover_fail(&s->mover, -errno, "look at", path);
}

static int put_link_back(struct sweep *s, const char *path, const char *target)
{
	const char *name;
	struct stat st;
	int dir, r = reach(s, path, &dir, &name);

	if (r < 0 || dir < 0 || is_link_to(dir, name, target))
		return r;
	r = look(s, dir, name, path, &st);
	if (r > 0)
		r = move(s, dir, name, path);
	if (r == 0)
		r = mover_flush(&s->mover);
	if (r < 0)
		return r;
	if (symlinkat(target, dir, name) < 0)
		return mover_fail(&s->mover, -errno, "put back the link", path);
	s->ret->restored++;
	return 0;
}

/* What has come where a link had led to nothing. */
static int take_absent(struct sweep *s, const char *path)
{
	const char *name;
	struct stat st;
	int dir, r = reach(s, path, &dir, &name);

	if (r == 0)
		r = look(s, dir, name, path, &st);
	return r > 0 ? move(s, dir, name, path) : r;
}

static int check_shared(struct sweep *s, const char *line)
{
	uintmax_t ino;
	intmax_t ctime;
	int n = 0, dir, r;
	const char *name, *path;
	struct stat st;

	if (sscanf(line, "%ju %jd %n", &ino, &ctime, &n) < 2 || n == 0)
		return error_set(s->err, -EBADMSG,
				 "the note of what was pinned is damaged");
	path = line + n;
	r = reach(s, path, &dir, &name);
	if (r == 0)
		r = look(s, dir, name, path, &st);
	if (r <= 0 || (st.st_ino == ino && time_ns(&st.st_ctim) == ctime))
		return r < 0 ? r : 0;
	return move(s, dir, name, path);
}

static int sweep_noted(struct sweep *s)
{
	const struct direct *d = s->want->d;
	int r = 0;

	for (size_t i = 0; i < d->links.n && r == 0; i++)
		r = put_link_back(s, d->links.items[i], d->targets.items[i]);
	for (size_t i = 0; i < d->absent.n && r == 0; i++)
		r = take_absent(s, d->absent.items[i]);
	for (size_t i = 0; i < d->shared.n && r == 0; i++)
		r = check_shared(s, d->shared.items[i]);
	return r < 0 ? r : mover_flush(&s->mover);
}

/* ---- what is new ---- */

/* Marks of overlayfs: a later task's overlay would obey them. */
static int drop_marks(const char *proc)
{
	AUTO_FREE char *names = malloc(NAMES_MAX);
	ssize_t n = names ? listxattr(proc, names, NAMES_MAX) : -1;

	if (!names)
		return -ENOMEM;
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *at = names; at < names + n; at += strlen(at) + 1) {
		if (str_starts(at, OVERLAY) && removexattr(proc, at) < 0 &&
		    errno != ENODATA)
			return -errno;
	}
	return 0;
}

/*
 * Takes from a file or directory that was changed what the host would give a
 * meaning to. fd (O_PATH) is the entry st.
 */
static int clean(struct sweep *s, int fd, const struct stat *st,
		 const char *path)
{
	char proc[40];
	int r;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	r = drop_marks(proc);
	if (r < 0)
		return mover_fail(&s->mover, r, "take attributes from", path);
	if (!S_ISREG(st->st_mode) || !(st->st_mode & SET_IDS))
		return 0;
	if (chmod(proc, st->st_mode & 01777) < 0)
		return mover_fail(&s->mover, -errno,
				  "take the set-id bits from", path);
	note(&s->ret->set_ids, &s->ret->first_set_id, path);
	return 0;
}

static bool is_changed(const struct sweep *s, const struct stat *st)
{
	return time_ns(&st->st_ctim) >= s->want->since_ns;
}

static int clean_entry(struct sweep *s, const char *name, const char *path,
		       const struct stat *st)
{
	AUTO_CLOSE int fd = -1;
	struct stat now;

	if (!is_changed(s, st))
		return 0;
	fd = walk_open_at(walk_fd(&s->walk), name, O_PATH);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &now) < 0 || now.st_ino != st->st_ino)
		return mover_fail(&s->mover, fd < 0 ? fd : -ESTALE, "look at",
				  path);
	return clean(s, fd, &now, path);
}

/* Neither could the command search it: see direct_look. */
static bool is_closed(const struct sweep *s, const char *name,
		      const struct stat *st)
{
	return st->st_uid != geteuid() &&
	       faccessat(walk_fd(&s->walk), name, X_OK,
			 AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0;
}

static int sweep_directory(struct sweep *s, const char *name, const char *path,
			   const struct stat *st)
{
	int r = clean_entry(s, name, path, st);

	if (r == 0)
		r = walk_enter(&s->walk, name, false, s->err);
	return r == -ENOENT || (r == -EACCES && is_closed(s, name, st)) ? 0 : r;
}

static int sweep_entry(struct sweep *s, const char *name, const char *path,
		       const struct stat *st)
{
	const struct direct *d = s->want->d;
	const struct change c = {.path = path, .kind = CHANGE_ADDED,
				 .mode = st->st_mode};

	if (paths_have(&d->pinned, path) ||
	    (S_ISLNK(st->st_mode) && strlist_has(&d->links, path)))
		return 0;
	if (protect_reason(&s->protect, &c) ||
	    judge_is_denied(s->want->deny, path))
		return move(s, walk_fd(&s->walk), name, path);
	if (S_ISDIR(st->st_mode))
		return sweep_directory(s, name, path, st);
	if (S_ISREG(st->st_mode))
		return clean_entry(s, name, path, st);
	if (!S_ISLNK(st->st_mode))
		note(&s->ret->special, &s->ret->first_special, path);
	return 0;
}

static int sweep_at(struct sweep *s, const char *name)
{
	AUTO_BUF struct buf path = BUF_INIT(WALK_PATH_MAX);
	struct stat st;

	if (s->walk.path.len > 0)
		buf_addf(&path, "%s/", buf_str(&s->walk.path));
	buf_add_str(&path, name);
	if (path.failed)
		return error_set(s->err, path.failed, "out of memory");
	if (fstatat(walk_fd(&s->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : mover_fail(&s->mover, -errno, "look at",
					    buf_str(&path));
	return sweep_entry(s, name, buf_str(&path), &st);
}

static int sweep_tree(struct sweep *s)
{
	int r = walk_init(&s->walk, s->source_fd, NULL, -1, s->err);

	while (r == 0) {
		struct dirent *e;

		r = walk_next(&s->walk, &e, s->err);
		if (r > 0)
			r = sweep_at(s, e->d_name);
		else if (r == 0 && s->walk.depth > 1)
			r = walk_leave(&s->walk, s->err);
		else
			break;
	}
	return r < 0 ? r : mover_flush(&s->mover);
}

/*
 * A repository that was made is not to say where this source's hooks lie, so it
 * goes before what protects is read.
 */
static int sweep_repository(struct sweep *s)
{
	const struct direct *d = s->want->d;
	struct stat st;
	int r;

	if (paths_have(&d->pinned, ".git") || strlist_has(&d->links, ".git"))
		return 0;
	r = look(s, s->source_fd, ".git", ".git", &st);
	if (r > 0)
		r = move(s, s->source_fd, ".git", ".git");
	return r < 0 ? r : mover_flush(&s->mover);
}

static int sweep_top(struct sweep *s)
{
	char number[32];
	struct stat st;

	if (fstat(s->source_fd, &st) < 0)
		return error_errno(s->err, "cannot look at the source");
	snprintf(number, sizeof(number), "%ju", (uintmax_t)st.st_ino);
	if (!strlist_has(&s->want->d->top, number))
		return error_set(s->err, -ESTALE,
				 "the source was replaced since the task wrote "
				 "to it: what is protected was not looked for");
	return is_changed(s, &st) ? clean(s, s->source_fd, &st, ".") : 0;
}

int direct_sweep(int task_fd, int source_fd, const struct direct_want *want,
		 struct direct_swept *ret, struct error *err)
{
	__attribute__((cleanup(sweep_done))) struct sweep s = {
		.mover = {.upper_fd = -1, .tree = {.dir_fd = -1}, .err = err},
		.source_fd = source_fd, .want = want, .protect = PROTECT_INIT,
		.ret = ret, .err = err};
	int r = sweep_top(&s);

	if (r == 0)
		r = mover_init(&s.mover, task_fd, source_fd, err);
	if (r == 0)
		r = sweep_repository(&s);
	if (r == 0)
		r = protect_init(&s.protect, want->globs, source_fd, err);
	if (r == 0)
		r = sweep_noted(&s);
	return r < 0 ? r : sweep_tree(&s);
}
