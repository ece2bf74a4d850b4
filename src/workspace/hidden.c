/*
 * The list is written whole before a command runs and never changed. That it was
 * written, and that it is whole, is told by its digest, which the task's record
 * has. What a refresh hides beside it is another list, which is there before the
 * refresh is.
 */
#include "workspace/hidden.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "ipc/codec.h"
#include "workspace/hide.h"
#include "workspace/judge.h"
#include "workspace/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX (64u << 20)

void hidden_done(struct hidden *h)
{
	strlist_done(&h->paths);
	*h = (struct hidden){0};
}

bool hidden_is_implied(const char *path)
{
	return protect_is_secret(path) || judge_is_git(path);
}

int hidden_write(int task_fd, const struct hidden *h,
		 char ret_digest[SHA256_HEX_SIZE], struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(LIST_MAX);
	AUTO_CLOSE int fd = -1;
	int r;

	ret_digest[0] = '\0';
	if (h->paths.n == 0)
		return 0;
	codec_put_list(&text, &h->paths);
	if (text.failed)
		return error_set(err, text.failed, "cannot list what is hidden "
				 "from the task: %s", strerror(-text.failed));
	fd = openat(task_fd, HIDDEN_FILE,
		    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, "cannot make the list of what is "
					"hidden from the task");
	r = io_write_all(fd, text.data, text.len);
	if (r < 0)
		return error_set(err, r, "cannot write the list of what is "
				 "hidden from the task: %s", strerror(-r));
	sha256_hex(text.data, text.len, ret_digest);
	return 0;
}

static bool parse_list(struct buf *text, struct strlist *ret)
{
	struct codec_reader reader = {.data = text->data, .len = text->len};

	codec_get_list(&reader, HIDE_PATHS_MAX, ret);
	return codec_end(&reader) == 0;
}

static bool read_list(struct hidden *h, int task_fd, const char *digest)
{
	AUTO_BUF struct buf text = BUF_INIT(LIST_MAX);
	char found[SHA256_HEX_SIZE];

	if (io_read_file(task_fd, HIDDEN_FILE, &text) < 0)
		return false;
	sha256_hex(buf_str(&text), text.len, found);
	return str_eq(found, digest) && parse_list(&text, &h->paths);
}

/* No file: there was no refresh that hid anything of the kind. */
static int read_more(int task_fd, struct strlist *ret)
{
	AUTO_BUF struct buf text = BUF_INIT(LIST_MAX);
	int r = io_read_file(task_fd, HIDDEN_MORE, &text);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : parse_list(&text, ret) ? 0 : -EBADMSG;
}

void hidden_read(struct hidden *h, int task_fd, const char *digest)
{
	AUTO_STRLIST struct strlist more = {0};

	*h = (struct hidden){0};
	h->lost = (digest[0] && !read_list(h, task_fd, digest)) ||
		  read_more(task_fd, &more) < 0;
	for (size_t i = 0; i < more.n && !h->lost; i++)
		h->lost = strlist_add(&h->paths, more.items[i]) < 0;
	paths_normalise(&h->paths);
}

static int write_more(int task_fd, const struct strlist *all)
{
	static const char name[] = HIDDEN_MORE ".new";
	AUTO_BUF struct buf text = BUF_INIT(LIST_MAX);
	AUTO_CLOSE int fd = -1;
	int r;

	codec_put_list(&text, all);
	if (text.failed)
		return text.failed;
	fd = openat(task_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW |
					   O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, text.data, text.len);
	if (r < 0)
		return r;
	return fsync(fd) < 0 || renameat(task_fd, name, task_fd,
					 HIDDEN_MORE) < 0 ||
			       fsync(task_fd) < 0
		       ? -errno
		       : 0;
}

int hidden_add(int task_fd, const struct hidden *more, struct error *err)
{
	AUTO_STRLIST struct strlist all = {0};
	int r = more->paths.n == 0 ? 0 : read_more(task_fd, &all);

	for (size_t i = 0; i < more->paths.n && r == 0; i++)
		r = strlist_add(&all, more->paths.items[i]);
	paths_normalise(&all);
	if (r == 0 && all.n > 0)
		r = all.n > HIDE_PATHS_MAX ? -E2BIG : write_more(task_fd, &all);
	return r < 0 ? error_set(err, r, "cannot list what is hidden from the "
				 "task: %s", strerror(-r))
		     : 0;
}

bool hidden_has(const struct hidden *h, const char *path)
{
	return h->lost || paths_cover(&h->paths, path);
}
