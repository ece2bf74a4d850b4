/*
 * The list is written whole before a command runs and never changed. That it was
 * written, and that it is whole, is told by its digest, which the task's record
 * has.
 */
#include "workspace/hidden.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "ipc/codec.h"
#include "workspace/hide.h"
#include "workspace/judge.h"
#include "workspace/protect.h"

#include <fcntl.h>
#include <string.h>

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

static bool read_list(struct hidden *h, int task_fd, const char *digest)
{
	AUTO_BUF struct buf text = BUF_INIT(LIST_MAX);
	struct codec_reader reader;
	char found[SHA256_HEX_SIZE];

	if (io_read_file(task_fd, HIDDEN_FILE, &text) < 0)
		return false;
	sha256_hex(buf_str(&text), text.len, found);
	if (!str_eq(found, digest))
		return false;
	reader = (struct codec_reader){.data = text.data, .len = text.len};
	codec_get_list(&reader, HIDE_PATHS_MAX, &h->paths);
	return codec_end(&reader) == 0;
}

void hidden_read(struct hidden *h, int task_fd, const char *digest)
{
	*h = (struct hidden){0};
	h->lost = digest[0] && !read_list(h, task_fd, digest);
}

bool hidden_has(const struct hidden *h, const char *path)
{
	return h->lost || paths_cover(&h->paths, path);
}
