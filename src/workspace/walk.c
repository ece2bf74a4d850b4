/*
 * Guarantees: nothing outside the tree is ever opened, whatever races with the
 * walk; descriptors are bounded by WALK_WINDOW (two a level, and one more).
 * Relies on: directory positions (telldir) that survive closing, which every
 * Linux file system that can be exported by NFS gives.
 */
#include "workspace/walk.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ERROR_PATH_MAX 400

int walk_open_at(int dir_fd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	long fd;

	fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

int walk_error(struct walk *w, struct error *err, int code, const char *what,
	       const char *name)
{
	AUTO_BUF struct buf whole = BUF_INIT(WALK_PATH_MAX + 512);
	AUTO_BUF struct buf quoted = BUF_INIT(ERROR_TEXT_MAX * 4);

	if (w->path.len > 0)
		buf_add(&whole, w->path.data, w->path.len);
	if (w->path.len > 0 && name)
		buf_add_char(&whole, '/');
	if (name)
		buf_add_str(&whole, name);
	str_quote(&quoted, whole.len > 0 ? buf_str(&whole) : ".",
		  ERROR_PATH_MAX);
	return error_set(err, code, "%s %s: %s", what, buf_str(&quoted),
			 strerror(-code));
}

struct walk_level *walk_top(struct walk *w)
{
	assert(w->depth > 0);
	return &w->levels[w->depth - 1];
}

int walk_fd(const struct walk *w)
{
	return dirfd(w->levels[w->depth - 1].dir);
}

static void level_done(struct walk_level *l)
{
	if (l->dir)
		closedir(l->dir);
	close_fd(l->other);
	l->dir = NULL;
	l->other = -1;
}

void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->depth; i++)
		level_done(&w->levels[i]);
	free(w->levels);
	buf_done(&w->path);
	*w = (struct walk){0};
}

/* Puts a level on top; takes dir_fd and other in any case. */
static int push(struct walk *w, int dir_fd, int other)
{
	AUTO_CLOSE int owned = dir_fd;
	AUTO_CLOSE int owned_other = other;
	DIR *dir;

	if (w->depth == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 32;
		struct walk_level *levels =
			reallocarray(w->levels, cap, sizeof(*levels));

		if (!levels)
			return -ENOMEM;
		w->levels = levels;
		w->cap = cap;
	}
	dir = fdopendir(owned);
	if (!dir)
		return -errno;
	steal_fd(&owned);
	w->levels[w->depth++] = (struct walk_level){
		.dir = dir,
		.other = steal_fd(&owned_other),
		.has_other = other >= 0,
		.path_len = w->path.len,
	};
	return 0;
}

int walk_init(struct walk *w, int below_fd, const char *name, int other_fd,
	      struct error *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int other = -1;
	int r;

	*w = (struct walk){.path = BUF_INIT(WALK_PATH_MAX)};
	fd = walk_open_at(below_fd, name ? name : ".",
			  O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	if (fd < 0)
		return walk_error(w, err, fd, "cannot open", name);
	if (other_fd >= 0) {
		other = fcntl(other_fd, F_DUPFD_CLOEXEC, 3);
		if (other < 0)
			return error_errno(err, "cannot walk a directory");
	}
	r = push(w, steal_fd(&fd), steal_fd(&other));
	if (r < 0)
		walk_error(w, err, r, "cannot read", name);
	return r;
}

int walk_next(struct walk *w, struct dirent **ret, struct error *err)
{
	DIR *dir = walk_top(w)->dir;
	struct dirent *e;

	for (;;) {
		errno = 0;
		e = readdir(dir);
		if (!e && errno)
			return walk_error(w, err, -errno, "cannot read", NULL);
		if (!e)
			return 0;
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		*ret = e;
		return 1;
	}
}

/*
 * Closes the descriptors of a level, for walk_leave to open them again. Its
 * counterpart stays open where the level below has none to come back from.
 */
static int put_aside(struct walk *w, size_t index)
{
	struct walk_level *l = &w->levels[index];
	struct stat st;

	if (l->dir) {
		if (fstat(dirfd(l->dir), &st) < 0)
			return -errno;
		l->dev = st.st_dev;
		l->ino = st.st_ino;
		l->pos = telldir(l->dir);
		closedir(l->dir);
		l->dir = NULL;
	}
	if (l->other >= 0 && w->levels[index + 1].has_other) {
		if (fstat(l->other, &st) < 0)
			return -errno;
		l->other_dev = st.st_dev;
		l->other_ino = st.st_ino;
		close_fd(steal_fd(&l->other));
	}
	return 0;
}

/* The counterpart of name; *ret is -1 where there is none. */
static int enter_other(const struct walk_level *l, const char *name, int *ret)
{
	int fd = walk_open_at(l->other, name, O_PATH | O_DIRECTORY);

	*ret = fd < 0 ? -1 : fd;
	switch (fd) {
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP: /* a link */
	case -EXDEV: /* another mount */
		return 0;
	default:
		return fd < 0 ? fd : 0;
	}
}

static int add_name(struct walk *w, const char *name)
{
	if (w->path.len > 0)
		buf_add_char(&w->path, '/');
	return buf_add_str(&w->path, name);
}

int walk_enter(struct walk *w, const char *name, bool pair, struct error *err)
{
	struct walk_level *l = walk_top(w);
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int other = -1;
	int r = 0;

	if (w->depth >= WALK_DEPTH_MAX)
		return error_set(err, -ENAMETOOLONG,
				 "the tree is deeper than %d directories",
				 WALK_DEPTH_MAX);
	fd = walk_open_at(walk_fd(w), name,
			  O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	if (fd < 0)
		return walk_error(w, err, fd, "cannot open", name);
	if (pair && l->other >= 0)
		r = enter_other(l, name, &other);
	if (r < 0)
		return walk_error(w, err, r, "cannot open", name);
	r = add_name(w, name);
	if (r < 0)
		return error_set(err, r, "cannot hold a path of %zu bytes",
				 w->path.len);
	r = push(w, steal_fd(&fd), steal_fd(&other));
	if (r == 0 && w->depth > WALK_WINDOW)
		r = put_aside(w, w->depth - 1 - WALK_WINDOW);
	if (r < 0)
		walk_error(w, err, r, "cannot read", NULL);
	return r;
}

/* ".." of child_fd, if that is still the directory it was. */
static int reopen_parent(int child_fd, int flags, dev_t dev, ino_t ino)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	fd = openat(child_fd, "..",
		    flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != dev || st.st_ino != ino)
		return -ESTALE;
	return steal_fd(&fd);
}

static int take_up(struct walk_level *l, const struct walk_level *child)
{
	int fd;

	if (l->has_other && l->other < 0) {
		fd = reopen_parent(child->other, O_PATH, l->other_dev,
				   l->other_ino);
		if (fd < 0)
			return fd;
		l->other = fd;
	}
	if (l->dir)
		return 0;
	fd = reopen_parent(dirfd(child->dir), O_RDONLY | O_NONBLOCK, l->dev,
			   l->ino);
	if (fd < 0)
		return fd;
	l->dir = fdopendir(fd);
	if (!l->dir) {
		close_fd(fd);
		return -errno;
	}
	seekdir(l->dir, l->pos);
	return 0;
}

int walk_leave(struct walk *w, struct error *err)
{
	struct walk_level *l = walk_top(w);
	int r;

	assert(w->depth > 1);
	r = take_up(l - 1, l);
	if (r < 0)
		return walk_error(w, err, r, "cannot come back from", NULL);
	level_done(l);
	w->depth--;
	w->path.len = walk_top(w)->path_len;
	if (w->path.data)
		w->path.data[w->path.len] = '\0';
	return 0;
}
