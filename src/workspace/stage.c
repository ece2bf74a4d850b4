/*
 * Copies single entries out of a layer that an agent made. Each is opened once,
 * never through a link, and what was opened is what is copied. Nothing of the
 * source is touched here.
 */
#include "workspace/stage.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "workspace/copy_file.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void stage_done(struct stage *s)
{
	links_done(&s->links);
}

void stage_name(uint64_t number, char name[STAGE_NAME_SIZE])
{
	snprintf(name, STAGE_NAME_SIZE, "%llu", (unsigned long long)number);
}

static void note(struct journal_entry *e, const struct stat *st)
{
	e->new_ino = st->st_ino;
	e->new_uid = st->st_uid;
	e->new_gid = st->st_gid;
	e->new_size = (uint64_t)st->st_size;
	e->mtime_ns = time_ns(&st->st_mtim);
}

/* 1 if it was staged before under another name. */
static int stage_link(struct stage *s, const struct stat *from,
		      const char *name, struct journal_entry *e)
{
	const char *first = links_find(&s->links, from->st_dev, from->st_ino);
	struct stat st;

	e->linked = 1;
	if (!first)
		return links_add(&s->links, from->st_dev, from->st_ino, name);
	/* Too many links: a file of its own. */
	if (linkat(s->fd, first, s->fd, name, 0) < 0)
		return errno == EMLINK ? 0 : -errno;
	if (fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	note(e, &st);
	return 1;
}

static int fill(struct stage *s, int from, const struct stat *st, int to,
		mode_t mode, struct journal_entry *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	uint64_t size = (uint64_t)st->st_size;
	struct stat made;
	bool cloned;
	int r = copy_content(from, to, size,
			     (uint64_t)st->st_blocks * 512 < size,
			     &s->no_clone, &cloned, NULL, NULL);

	if (r == 0)
		r = copy_attributes(from, to);
	if (r < 0)
		return r;
	if (fchmod(to, mode & 0777) < 0 || futimens(to, times) < 0 ||
	    fstat(to, &made) < 0)
		return -errno;
	note(e, &made);
	return 0;
}

static int fill_text(int from, int to, mode_t mode, const struct buf *text,
		     struct journal_entry *e)
{
	struct stat made;
	int r = io_write_all(to, buf_str(text), text->len);

	if (r == 0)
		r = copy_attributes(from, to);
	if (r < 0)
		return r;
	if (fchmod(to, mode & 0777) < 0 || fstat(to, &made) < 0)
		return -errno;
	note(e, &made);
	return 0;
}

static int open_file(const struct change_place *at, struct stat *st)
{
	AUTO_CLOSE int fd = walk_open_at(at->upper_fd, at->name,
					 O_RDONLY | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return fd == -ELOOP || fd == -ENOENT ? -ESTALE : fd;
	if (fstat(fd, st) < 0)
		return -errno;
	return S_ISREG(st->st_mode) ? steal_fd(&fd) : -ESTALE;
}

/* text: its content instead of its own; or NULL. */
static int stage_file(struct stage *s, const struct change_place *at,
		      mode_t mode, const char *name, const struct buf *text,
		      struct journal_entry *e)
{
	struct stat st;
	AUTO_CLOSE int from = open_file(at, &st);
	AUTO_CLOSE int to = -1;
	int r;

	if (from < 0)
		return from;
	if (st.st_nlink > 1 && !text) {
		r = stage_link(s, &st, name, e);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	to = openat(s->fd, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (to < 0)
		return -errno;
	return text ? fill_text(from, to, mode, text, e)
		    : fill(s, from, &st, to, mode, e);
}

static int stage_symlink(struct stage *s, const struct change_place *at,
			 const char *name, struct journal_entry *e)
{
	char target[PATH_MAX];
	struct timespec times[2];
	struct stat st;
	ssize_t n = readlinkat(at->upper_fd, at->name, target,
			       sizeof(target) - 1);

	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? -ESTALE : -errno;
	target[n] = '\0';
	if (fstatat(at->upper_fd, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    symlinkat(target, s->fd, name) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (utimensat(s->fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	note(e, &st);
	return 0;
}

static int stage_directory(struct stage *s, const struct change_place *at,
			   mode_t mode, const char *name,
			   struct journal_entry *e)
{
	AUTO_CLOSE int from = walk_open_at(at->upper_fd, at->name,
					   O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	AUTO_CLOSE int to = -1;
	struct stat st, made;
	int r;

	if (from < 0)
		return from == -ELOOP || from == -ENOTDIR ? -ESTALE : from;
	if (mkdirat(s->fd, name, 0700) < 0)
		return -errno;
	to = walk_open_at(s->fd, name, O_RDONLY | O_DIRECTORY);
	if (to < 0)
		return to;
	r = copy_attributes(from, to);
	if (r < 0)
		return r;
	if (fstat(from, &st) < 0 || fchmod(to, (mode & 01777) | 0700) < 0 ||
	    fstat(to, &made) < 0)
		return -errno;
	note(e, &made);
	e->mtime_ns = time_ns(&st.st_mtim);
	return 0;
}

int stage_copy(struct stage *s, const struct change_place *at, mode_t mode,
	       struct journal_entry *e)
{
	char name[STAGE_NAME_SIZE];

	stage_name(e->number, name);
	if (S_ISREG(mode))
		return stage_file(s, at, mode, name, NULL, e);
	if (S_ISLNK(mode))
		return stage_symlink(s, at, name, e);
	return stage_directory(s, at, mode, name, e);
}

int stage_text(struct stage *s, const struct change_place *at, mode_t mode,
	       const struct buf *text, struct journal_entry *e)
{
	char name[STAGE_NAME_SIZE];

	stage_name(e->number, name);
	return stage_file(s, at, mode, name, text, e);
}
