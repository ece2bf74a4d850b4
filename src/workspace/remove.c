/*
 * Removes a tree of any shape that an agent made. Theory: directories are
 * emptied on a stack of at most STACK_MAX open descriptors; a directory that
 * lies deeper is moved up into the top of the tree and emptied when the top is
 * read again. So depth costs neither memory nor descriptors. Nothing is ever
 * opened through a link or in another mount: a mount that was left inside is
 * an error, not something whose content is deleted.
 */
#include "workspace/layer.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_MAX 32
/* Passes over one directory, after which somebody else is filling it. */
#define PASSES_MAX 64

struct level {
	DIR *dir;
	char name[NAME_MAX + 1]; /* in the level above, or in dir_fd */
	bool grew;	 /* directories were moved here in this pass */
	unsigned passes; /* in a row without that */
};

struct removal {
	int dir_fd;
	struct level levels[STACK_MAX];
	size_t depth;
	uint64_t moved; /* numbers the names of moved directories */
};

static void removal_done(struct removal *m)
{
	for (size_t i = 0; i < m->depth; i++)
		closedir(m->levels[i].dir);
}

#define AUTO_REMOVAL __attribute__((cleanup(removal_done)))

static int fail(struct error *err, int code, const char *what, const char *name)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, name, NAME_MAX);
	return error_set(err, code, "cannot %s %s: %s", what, buf_str(&quoted),
			 strerror(-code));
}

/* Gives the owner all rights to a directory that cannot be opened. */
static int make_accessible(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = -1;
	char link[64];
	struct stat st;

	fd = walk_open_at(dir_fd, name, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	/* Not chmod by name: it would follow a link put there meanwhile. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return chmod(link, 0700) < 0 ? -errno : 0;
}

/* Opens a directory so that its entries can be read and removed. */
static int open_for_removal(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int r;

	fd = walk_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	if (fd == -EACCES) {
		r = make_accessible(dir_fd, name);
		if (r < 0)
			return r;
		fd = walk_open_at(dir_fd, name,
				  O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* If this is refused, removing the first entry is too and says so. */
	if ((st.st_mode & 0700) != 0700)
		(void)!fchmod(fd, 0700);
	return steal_fd(&fd);
}

static int push(struct removal *m, int dir_fd, const char *name)
{
	struct level *l = &m->levels[m->depth];
	AUTO_CLOSE int fd = open_for_removal(dir_fd, name);

	if (fd < 0)
		return fd;
	*l = (struct level){0};
	l->dir = fdopendir(fd);
	if (!l->dir)
		return -errno;
	steal_fd(&fd);
	snprintf(l->name, sizeof(l->name), "%s", name);
	m->depth++;
	return 0;
}

/* Moves a directory that lies too deep into the top of the tree. */
static int move_up(struct removal *m, int dir_fd, const char *name)
{
	int top = dirfd(m->levels[0].dir);
	AUTO_CLOSE int fd = -1;
	char fresh[64];

	/* A directory can only be moved by who may write it. */
	fd = open_for_removal(dir_fd, name);
	if (fd < 0)
		return fd;
	for (;;) {
		snprintf(fresh, sizeof(fresh), ".moved-%llu",
			 (unsigned long long)m->moved++);
		if (syscall(SYS_renameat2, dir_fd, name, top, fresh,
			    RENAME_NOREPLACE) == 0)
			break;
		if (errno != EEXIST)
			return -errno;
	}
	m->levels[0].grew = true;
	return 0;
}

/* Removes what is no directory. 0, -EISDIR if it is one, or negative. */
static int remove_file(int dir_fd, const char *name, unsigned char type)
{
	if (type == DT_DIR)
		return -EISDIR;
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* EPERM is what POSIX has for a directory. */
	return type == DT_UNKNOWN && errno == EPERM ? -EISDIR : -errno;
}

/* Deals with one entry of the directory on top of the stack. */
static int remove_entry(struct removal *m, const struct dirent *e,
			struct error *err)
{
	int fd = dirfd(m->levels[m->depth - 1].dir);
	int r = remove_file(fd, e->d_name, e->d_type);

	if (r == 0)
		return 0;
	if (r != -EISDIR)
		return fail(err, r, "remove", e->d_name);
	r = m->depth < STACK_MAX ? push(m, fd, e->d_name)
				 : move_up(m, fd, e->d_name);
	/* It went, or was replaced by something that the next pass sees. */
	if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	return fail(err, r, "remove directory", e->d_name);
}

/* The top of the stack was read to its end: removes it, or reads it again. */
static int finish_level(struct removal *m, struct error *err)
{
	struct level *l = &m->levels[m->depth - 1];
	int above = m->depth > 1 ? dirfd(m->levels[m->depth - 2].dir)
				 : m->dir_fd;

	if (unlinkat(above, l->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		closedir(l->dir);
		m->depth--;
		return 0;
	}
	if (errno != ENOTEMPTY && errno != EEXIST)
		return fail(err, -errno, "remove directory", l->name);
	l->passes = l->grew ? 0 : l->passes + 1;
	if (l->passes > PASSES_MAX)
		return fail(err, -ENOTEMPTY, "remove directory", l->name);
	l->grew = false;
	rewinddir(l->dir);
	return 0;
}

static bool is_dots(const char *name)
{
	return str_eq(name, ".") || str_eq(name, "..");
}

/* Takes one step: an entry, or the end of a directory. */
static int step(struct removal *m, struct error *err)
{
	struct level *l = &m->levels[m->depth - 1];
	struct dirent *e;

	errno = 0;
	e = readdir(l->dir);
	if (!e && errno)
		return fail(err, -errno, "read directory", l->name);
	if (!e)
		return finish_level(m, err);
	return is_dots(e->d_name) ? 0 : remove_entry(m, e, err);
}

int layer_remove(int dir_fd, const char *name, struct error *err)
{
	AUTO_REMOVAL struct removal m = {.dir_fd = dir_fd};
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return fail(err, -errno, "remove", name);
	r = push(&m, dir_fd, name);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return fail(err, r, "remove", name);
	while (m.depth > 0 && r == 0)
		r = step(&m, err);
	return r;
}
