/*
 * git's index of a sandbox that is refreshed. An index belongs to the commit that
 * is checked out. Where the host has checked out another one since, and the task
 * has none of its own, an index of the task's, which every git status makes,
 * would be of a commit that neither has any more: the next commit would take the
 * host's back. So it makes room for the host's, and is kept beside it.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "cli/refresh_private.h"
#include "workspace/copy_file.h"
#include "workspace/layer.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX "index"
#define KEPT "index.task"
#define FRESH "index.refresh"
#define HEAD_MAX 4096

/* The reference that is checked out on the host, below .git; "": none. */
static void read_head(int source_fd, struct buf *ret)
{
	AUTO_CLOSE int git = walk_open_at(source_fd, ".git",
					  O_PATH | O_DIRECTORY);
	AUTO_CLOSE int fd = git < 0 ? -1
				    : walk_open_at(git, "HEAD",
						   O_RDONLY | O_NONBLOCK);
	AUTO_BUF struct buf text = BUF_INIT(HEAD_MAX);
	const char *at;

	buf_reset(ret);
	if (fd < 0 || io_read_all(fd, &text) < 0)
		return;
	at = buf_str(&text);
	if (str_starts(at, "ref: "))
		buf_add(ret, at + 5, strcspn(at + 5, "\n"));
}

void refresh_git_begin(struct refresh *x)
{
	read_head(x->layers.items[0].source_fd, &x->head);
}

static bool is_newer(int git, const char *path, int64_t since_ns, bool *ret)
{
	struct stat st;

	if (fstatat(git, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*ret = *ret || time_ns(&st.st_ctim) > since_ns;
	return true;
}

/*
 * Has the host checked out another commit since? The log of HEAD tells; where
 * there is none, its file and that of the reference.
 */
static bool has_moved(const struct refresh *x, int64_t since_ns)
{
	AUTO_CLOSE int git = walk_open_at(x->layers.items[0].source_fd, ".git",
					  O_PATH | O_DIRECTORY);
	bool moved = false;

	if (git < 0 || is_newer(git, "logs/HEAD", since_ns, &moved))
		return moved;
	is_newer(git, "HEAD", since_ns, &moved);
	if (x->head.len == 0 ||
	    !is_newer(git, buf_str(&x->head), since_ns, &moved))
		is_newer(git, "packed-refs", since_ns, &moved);
	return moved;
}

void refresh_git_note(struct refresh *x, const struct judge *j,
		      const char *rest)
{
	static const char *const busy[] = {"MERGE_HEAD", "CHERRY_PICK_HEAD",
					   "REVERT_HEAD", "BISECT_LOG", "HEAD",
					   "packed-refs"};

	if (str_eq(rest, INDEX))
		x->index = has_moved(x, judge_since(j, ".git/" INDEX));
	for (size_t i = 0; i < ARRAY_SIZE(busy); i++)
		x->own_head = x->own_head || str_eq(rest, busy[i]);
	if (str_starts(rest, "rebase-") ||
	    (x->head.len > 0 && str_eq(rest, buf_str(&x->head))))
		x->own_head = true;
}

/* The host's, complete, beside the task's. */
static int make_fresh(int from, int git, const struct stat *old)
{
	AUTO_CLOSE int to = -1;
	bool no_clone = true, cloned;
	struct stat st;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	r = layer_remove(git, FRESH, NULL);
	if (r < 0)
		return r;
	to = openat(git, FRESH,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_content(from, to, (uint64_t)st.st_size, false, &no_clone,
			 &cloned, NULL, NULL);
	return r == 0 ? copy_dress(git, FRESH, old, &st, old->st_mode & 0777)
		      : r;
}

static int give_index(int source_git, int git)
{
	AUTO_CLOSE int from = walk_open_at(source_git, INDEX,
					   O_RDONLY | O_NONBLOCK);
	struct stat old;
	int r;

	if (from < 0)
		return from == -ENOENT ? 0 : from;
	if (fstatat(git, INDEX, &old, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(old.st_mode))
		return 0;
	r = make_fresh(from, git, &old);
	/* Whatever the task has made of that name. */
	if (r == 0)
		r = layer_remove(git, KEPT, NULL);
	if (r < 0)
		return r;
	if (linkat(git, INDEX, git, KEPT, 0) < 0 ||
	    renameat(git, FRESH, git, INDEX) < 0)
		return -errno;
	return 1;
}

int refresh_git_index(struct refresh *x, int top_fd, struct error *err)
{
	AUTO_CLOSE int host = -1;
	AUTO_CLOSE int git = -1;
	int r;

	if (!x->index || x->own_head)
		return 0;
	host = walk_open_at(x->layers.items[0].source_fd, ".git",
			    O_PATH | O_DIRECTORY);
	git = walk_open_at(top_fd, ".git", O_PATH | O_DIRECTORY);
	if (host < 0 || git < 0)
		return 0;
	r = give_index(host, git);
	if (r < 0)
		return error_set(err, r, "cannot give the sandbox the host's "
				 ".git/index: %s", strerror(-r));
	x->done->index = r > 0;
	return 0;
}
