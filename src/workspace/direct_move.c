/*
 * Theory of a move between two mounts. A path is copied to moving/, the copy is
 * renamed into the layer, and the path is remembered. At the flush the copies are
 * made durable, then the list "moved" of what is to go is, and only then the
 * source's side is removed; the list goes when that is durable, too. So:
 *
 *   no list     each path is whole in the source; a copy of it is made again
 *   a list      each path of it is whole in the layer; what is left of it in the
 *               source is removed, if it is the inode that was copied
 */
#include "workspace/direct_private.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/layer.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST "moved"
#define LIST_MAX (64u << 20)
#define GONE_MAX 4096 /* paths that are copied before they are removed */
#define PLACE "moving"
#define PATH_SHOWN 400

int mover_fail(const struct mover *m, int code, const char *what,
	       const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(ERROR_TEXT_MAX * 4);

	str_quote(&quoted, path, PATH_SHOWN);
	return error_set(m->err, code, "cannot %s %s: %s", what,
			 buf_str(&quoted), strerror(-code));
}

void mover_done(struct mover *m)
{
	tree_done(&m->tree);
	strlist_done(&m->gone);
	close_fd(m->upper_fd);
	m->upper_fd = -1;
}

/* ---- the layer ---- */

/*
 * Makes and opens a directory of the layer, as the source has it: one that is
 * merely on the way is no change. Takes neither descriptor.
 */
static int enter_upper(int upper, int below, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstat(below, &st) < 0)
		return -errno;
	if (mkdirat(upper, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = walk_open_at(upper, name, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	/* An owner that is not known here is none that could be given. */
	if (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) < 0 &&
	    errno != EINVAL && errno != EPERM)
		return -errno;
	if (fchmod(fd, st.st_mode & 07777 & ~(mode_t)S_ISUID) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* The layer's directory for path, and path's name in it. */
static int upper_parent(const struct mover *m, const char *path,
			const char **ret_name)
{
	AUTO_CLOSE int upper = fcntl(m->upper_fd, F_DUPFD_CLOEXEC, 3);
	AUTO_CLOSE int below = fcntl(m->source_fd, F_DUPFD_CLOEXEC, 3);

	for (;;) {
		size_t n = strcspn(path, "/");
		char name[NAME_MAX + 1];
		int next, next_below;

		if (upper < 0 || below < 0)
			return -EMFILE;
		*ret_name = path;
		if (path[n] == '\0')
			return steal_fd(&upper);
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		next_below = walk_open_at(below, name, O_PATH | O_DIRECTORY);
		if (next_below < 0)
			return next_below;
		close_fd(below);
		below = next_below;
		next = enter_upper(upper, below, name);
		if (next < 0)
			return next;
		close_fd(upper);
		upper = next;
		path += n + 1;
	}
}

/* What an earlier sweep has put there was made anew since: the newer counts. */
static int rename_over(int from, const char *name, int to, const char *to_name,
		       struct error *err)
{
	if (renameat(from, name, to, to_name) == 0)
		return 0;
	if (errno != EEXIST && errno != ENOTEMPTY && errno != EISDIR &&
	    errno != ENOTDIR)
		return -errno;
	if (layer_remove(to, to_name, err) < 0)
		return -EEXIST;
	return renameat(from, name, to, to_name) < 0 ? -errno : 0;
}

/* ---- from one mount into another ---- */

static int remember(struct mover *m, int dir_fd, const char *name,
		    const char *path)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return strlist_take(&m->gone, str_format("%ju %s",
						 (uintmax_t)st.st_ino, path));
}

static int copy_over(struct mover *m, int dir_fd, const char *name, int to,
		     const char *to_name, const char *path)
{
	int r = remember(m, dir_fd, name, path);

	if (r < 0)
		return r == -ENOENT ? r
				    : mover_fail(m, r, "move", path);
	r = layer_remove(m->task_fd, PLACE, m->err);
	if (r == 0)
		r = direct_copy(dir_fd, name, m->task_fd, PLACE, m->err);
	if (r < 0)
		return error_prefix(m->err, "what is protected cannot be moved "
					    "out of the source");
	r = rename_over(m->task_fd, PLACE, to, to_name, m->err);
	return r < 0 ? mover_fail(m, r, "move into the layer", path) : 0;
}

/* One of the list: what is left of it, if it is what was copied. */
static int remove_one(struct mover *m, const char *line)
{
	const char *path, *name;
	uintmax_t ino;
	struct stat st;
	int n = 0, dir, r;

	if (sscanf(line, "%ju %n", &ino, &n) < 1 || n == 0)
		return error_set(m->err, -EBADMSG,
				 "the list of what was moved out of the source "
				 "is damaged");
	path = line + n;
	dir = tree_parent(&m->tree, path, &name);
	if (dir == -ENOENT || dir == -ENOTDIR)
		return 0;
	if (dir < 0)
		return mover_fail(m, dir, "reach", path);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : mover_fail(m, -errno, "look at", path);
	if (st.st_ino != ino)
		return 0;
	r = layer_remove(dir, name, m->err);
	return r < 0 ? error_prefix(m->err, "what is protected cannot be "
					    "removed from the source")
		     : 0;
}

static int sync_of(const struct mover *m, int dir_fd)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, ".", O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? fd : syncfs(fd) < 0 ? -errno : 0;

	return r < 0 ? error_set(m->err, r, "cannot bring to the disk what was "
					    "moved: %s",
				 strerror(-r))
		     : 0;
}

static int remove_listed(struct mover *m)
{
	int r = 0;

	for (size_t i = 0; i < m->gone.n && r == 0; i++)
		r = remove_one(m, m->gone.items[i]);
	if (r == 0)
		r = sync_of(m, m->source_fd);
	if (r == 0 && unlinkat(m->task_fd, LIST, 0) < 0)
		r = error_errno(m->err, "cannot remove the list of what was "
					"moved");
	strlist_done(&m->gone);
	return r;
}

static int write_list(struct mover *m)
{
	AUTO_BUF struct buf b = BUF_INIT(LIST_MAX);
	int r;

	for (size_t i = 0; i < m->gone.n; i++)
		buf_add(&b, m->gone.items[i], strlen(m->gone.items[i]) + 1);
	r = b.failed ? b.failed
		     : io_replace_file(m->task_fd, LIST, b.data, b.len, 0600);
	return r < 0 ? error_set(m->err, r, "cannot write down what was moved: "
					    "%s",
				 strerror(-r))
		     : 0;
}

int mover_flush(struct mover *m)
{
	int r;

	if (m->gone.n == 0)
		return 0;
	r = sync_of(m, m->task_fd);
	if (r == 0)
		r = write_list(m);
	if (r == 0)
		r = sync_of(m, m->task_fd);
	return r < 0 ? r : remove_listed(m);
}

/* What another one had begun to remove. */
static int resume(struct mover *m)
{
	AUTO_BUF struct buf b = BUF_INIT(LIST_MAX);
	int r = io_read_file(m->task_fd, LIST, &b);
	const char *at = buf_str(&b), *end = at + b.len;

	if (r == -ENOENT)
		return 0;
	while (r == 0 && at < end) {
		r = strlist_add(&m->gone, at);
		at += strlen(at) + 1;
	}
	return r < 0 ? error_set(m->err, r, "cannot read the list of what was "
					    "moved: %s",
				 strerror(-r))
		     : remove_listed(m);
}

/* ---- */

int mover_init(struct mover *m, int task_fd, int source_fd, struct error *err)
{
	*m = (struct mover){.task_fd = task_fd, .source_fd = source_fd,
			    .err = err};
	tree_init(&m->tree, source_fd);
	/* Of a task that died an empty one was removed. */
	m->upper_fd = enter_upper(task_fd, source_fd, "upper");
	if (m->upper_fd < 0)
		return error_set(err, m->upper_fd, "cannot open the layer of "
						   "what is held back: %s",
				 strerror(-m->upper_fd));
	return resume(m);
}

int mover_move(struct mover *m, int dir_fd, const char *name, const char *path)
{
	const char *to_name;
	AUTO_CLOSE int to = upper_parent(m, path, &to_name);
	int r = to < 0 ? to : rename_over(dir_fd, name, to, to_name, m->err);

	if (to >= 0 && r == -EXDEV) {
		r = copy_over(m, dir_fd, name, to, to_name, path);
		if (r == 0 && m->gone.n >= GONE_MAX)
			r = mover_flush(m);
		return r == -ENOENT ? 0 : r;
	}
	if (r == 0 || r == -ENOENT)
		return 0;
	return mover_fail(m, r, "move what is protected out of the source:",
			  path);
}
