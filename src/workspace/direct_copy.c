/*
 * Copies what an agent made from one mount into another. The host may change it
 * meanwhile: all of it goes by held descriptors. The copy is nobody else's yet, so
 * names in it are safe.
 */
#include "workspace/direct_private.h"

#include "base/cleanup.h"
#include "workspace/copy_file.h"
#include "workspace/links.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
	struct walk walk; /* its counterpart is the copy */
	struct links links;
	int top; /* of the copy; not owned */
	bool no_clone;
	struct error *err;
};

static void copy_done(struct copy *c)
{
	walk_done(&c->walk);
	links_done(&c->links);
}

static int fail(struct copy *c, int code, const char *name)
{
	return walk_error(&c->walk, c->err, code, "cannot copy", name);
}

/* Owner, permissions and times. What cannot be given here stays ours. */
static int dress(int to_fd, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (geteuid() == 0 &&
	    fchownat(to_fd, name, st->st_uid, st->st_gid,
		     AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno != EINVAL && errno != EPERM)
		return -errno;
	if (!S_ISLNK(st->st_mode) &&
	    fchmodat(to_fd, name,
		     st->st_mode & (S_ISDIR(st->st_mode) ? 03777 : 01777),
		     0) < 0)
		return -errno;
	return utimensat(to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
								      : 0;
}

static int copy_symlink(int from_fd, const char *name, int to_fd,
			const char *to_name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_fd, to_name) < 0 ? -errno : 0;
}

static int copy_file(int from_fd, const char *name, int to_fd,
		     const char *to_name, bool *no_clone)
{
	AUTO_CLOSE int from = walk_open_at(from_fd, name,
					   O_RDONLY | O_NONBLOCK | O_NOCTTY);
	AUTO_CLOSE int to = -1;
	struct stat st;
	bool cloned;
	int r;

	if (from < 0)
		return from;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ESTALE;
	to = openat(to_fd, to_name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_content(from, to, (uint64_t)st.st_size,
			 st.st_blocks * 512 < st.st_size, no_clone, &cloned,
			 NULL, NULL);
	return r == 0 ? copy_attributes(from, to) : r;
}

/* What is no directory. */
static int copy_one(int from_fd, const char *name, int to_fd,
		    const char *to_name, const struct stat *st, bool *no_clone)
{
	int r;

	if (S_ISREG(st->st_mode))
		r = copy_file(from_fd, name, to_fd, to_name, no_clone);
	else if (S_ISLNK(st->st_mode))
		r = copy_symlink(from_fd, name, to_fd, to_name);
	else
		r = mknodat(to_fd, to_name, st->st_mode & S_IFMT, 0) < 0
			    ? -errno
			    : 0;
	return r < 0 ? r : dress(to_fd, to_name, st);
}

/* ---- a tree ---- */

static int path_of(const struct copy *c, const char *name, struct buf *ret)
{
	if (c->walk.path.len > 0)
		buf_addf(ret, "%s/", buf_str(&c->walk.path));
	return buf_add_str(ret, name);
}

/* 1 if it was made as another name of what was copied before. */
static int copy_as_link(struct copy *c, const char *name, const struct stat *st)
{
	AUTO_BUF struct buf path = BUF_INIT(WALK_PATH_MAX);
	const char *first = links_find(&c->links, st->st_dev, st->st_ino);
	int r;

	/* One with too long a path, or too many names, is a file of its own. */
	if (first)
		return linkat(c->top, first, walk_top(&c->walk)->other, name,
			      0) == 0;
	r = path_of(c, name, &path);
	return r < 0 ? r
		     : links_add(&c->links, st->st_dev, st->st_ino,
				 buf_str(&path));
}

static int copy_entry(struct copy *c, const char *name)
{
	int from = walk_fd(&c->walk), to = walk_top(&c->walk)->other, r = 0;
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(c, -errno, name);
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(to, name, 0700) < 0)
			return fail(c, -errno, name);
		return walk_enter(&c->walk, name, true, c->err);
	}
	if (!S_ISLNK(st.st_mode) && st.st_nlink > 1)
		r = copy_as_link(c, name, &st);
	if (r == 0)
		r = copy_one(from, name, to, name, &st, &c->no_clone);
	return r < 0 ? fail(c, r, name) : 0;
}

/* The current directory was read to its end. Its copy is "." of the other. */
static int finish_directory(struct copy *c)
{
	AUTO_CLOSE int to = walk_open_at(walk_top(&c->walk)->other, ".",
					 O_RDONLY | O_DIRECTORY);
	struct stat st;
	int r = to < 0 ? to : copy_attributes(walk_fd(&c->walk), to);

	if (r == 0 && fstat(walk_fd(&c->walk), &st) < 0)
		r = -errno;
	if (r == 0)
		r = dress(to, ".", &st);
	return r < 0 ? fail(c, r, NULL) : 0;
}

static int copy_tree(int from_fd, const char *name, int to_fd,
		     const char *to_name, struct error *err)
{
	__attribute__((cleanup(copy_done))) struct copy c = {.err = err};
	AUTO_CLOSE int top = -1;
	int r;

	if (mkdirat(to_fd, to_name, 0700) < 0)
		return error_errno(err, "cannot make a directory");
	top = walk_open_at(to_fd, to_name, O_PATH | O_DIRECTORY);
	if (top < 0)
		return error_set(err, top, "cannot open a directory: %s",
				 strerror(-top));
	c.top = top;
	r = walk_init(&c.walk, from_fd, name, top, err);
	while (r == 0) {
		struct dirent *e;

		r = walk_next(&c.walk, &e, err);
		if (r > 0) {
			r = copy_entry(&c, e->d_name);
			continue;
		}
		if (r == 0)
			r = finish_directory(&c);
		if (r < 0 || c.walk.depth == 1)
			break;
		r = walk_leave(&c.walk, err);
	}
	return r;
}

int direct_copy(int from_fd, const char *name, int to_fd, const char *to_name,
		struct error *err)
{
	bool no_clone = false;
	struct stat st;
	int r;

	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, "cannot look at what is moved");
	if (S_ISDIR(st.st_mode))
		return copy_tree(from_fd, name, to_fd, to_name, err);
	r = copy_one(from_fd, name, to_fd, to_name, &st, &no_clone);
	return r < 0 ? error_set(err, r, "cannot copy it: %s", strerror(-r))
		     : 0;
}
