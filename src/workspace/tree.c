/*
 * Guarantees: a path is resolved by openat2 below the top or below a directory
 * that was reached that way; components are names alone.
 */
#include "workspace/tree.h"

#include "base/cleanup.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define PIECE 3800 /* below PATH_MAX, and a name fits behind it */

void tree_init(struct tree *t, int top_fd)
{
	*t = (struct tree){
		.top_fd = top_fd,
		.dir_fd = -1,
		.path = BUF_INIT(WALK_PATH_MAX),
	};
}

void tree_done(struct tree *t)
{
	close_fd(t->dir_fd);
	buf_done(&t->path);
	t->dir_fd = -1;
}

void tree_forget(struct tree *t)
{
	close_fd(t->dir_fd);
	t->dir_fd = -1;
	t->moves++;
	buf_reset(&t->path);
}

/* Goes down from fd by path[0..len), in pieces. Descriptor or negative. */
static int descend(int from_fd, const char *path, size_t len)
{
	AUTO_CLOSE int fd = -1;
	char piece[PATH_MAX];

	while (len > 0) {
		size_t n = len;
		int next;

		if (n > PIECE) {
			for (n = PIECE; n > 0 && path[n] != '/'; n--)
				;
			if (n == 0)
				return -ENAMETOOLONG;
		}
		memcpy(piece, path, n);
		piece[n] = '\0';
		next = walk_open_at(fd >= 0 ? fd : from_fd, piece,
				    O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		close_fd(fd);
		fd = next;
		n += n < len; /* the slash */
		path += n;
		len -= n;
	}
	return steal_fd(&fd);
}

static int hold(struct tree *t, int fd, const char *path, size_t len)
{
	close_fd(t->dir_fd);
	t->dir_fd = fd;
	t->moves++;
	buf_reset(&t->path);
	if (buf_add(&t->path, path, len) < 0) {
		tree_forget(t);
		return -ENOMEM;
	}
	return t->dir_fd;
}

/* Is the directory that is held the one of len bytes, or above it? */
static bool leads_to(const struct tree *t, const char *path, size_t len)
{
	size_t held = t->path.len;

	return t->dir_fd >= 0 && held > 0 && held <= len &&
	       memcmp(path, t->path.data, held) == 0 &&
	       (held == len || path[held] == '/');
}

int tree_parent(struct tree *t, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	size_t held = t->path.len;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (len == 0)
		return t->top_fd;
	if (leads_to(t, path, len)) {
		if (held == len)
			return t->dir_fd;
		fd = descend(t->dir_fd, path + held + 1, len - held - 1);
	} else {
		fd = descend(t->top_fd, path, len);
	}
	return fd < 0 ? fd : hold(t, fd, path, len);
}
