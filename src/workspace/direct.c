/*
 * What is pinned of a source that is written at once: the mounts that it takes,
 * and the note of it in the task's directory.
 */
#include "workspace/direct.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "workspace/direct_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "pinned"
#define FILE_MAX (64u << 20)

void direct_done(struct direct *d)
{
	strlist_done(&d->pinned);
	strlist_done(&d->links);
	strlist_done(&d->targets);
	strlist_done(&d->shared);
	strlist_done(&d->absent);
	strlist_done(&d->top);
	strlist_done(&d->where);
}

int direct_too_many(struct error *err)
{
	return error_set(err, -E2BIG,
			 "more than %d mounts would be needed to pin what is "
			 "protected in the source", DIRECT_MOUNTS_MAX);
}

static int add_above(const struct direct *d, const char *path,
		     struct strlist *ret)
{
	for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
		char *dir = strndup(path, (size_t)(at - path));

		if (dir && strlist_has(ret, dir)) {
			free(dir);
			continue;
		}
		if (dir && paths_cover(&d->pinned, dir)) {
			free(dir);
			return 0;
		}
		if (!dir || strlist_take(ret, dir) < 0)
			return -ENOMEM;
	}
	return 0;
}

int direct_anchors(const struct direct *d, struct strlist *ret,
		   struct error *err)
{
	const struct strlist *const lists[] = {&d->pinned, &d->links};

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		for (size_t i = 0; i < lists[k]->n; i++) {
			if (add_above(d, lists[k]->items[i], ret) < 0)
				return error_set(err, -ENOMEM, "out of memory");
			if (ret->n + d->pinned.n > DIRECT_MOUNTS_MAX)
				return direct_too_many(err);
		}
	}
	return 0;
}

/* ---- the note ---- */

static void put_list(struct buf *b, char kind, const struct strlist *list)
{
	for (size_t i = 0; i < list->n; i++) {
		buf_add_char(b, kind);
		buf_add(b, list->items[i], strlen(list->items[i]) + 1);
	}
}

int direct_write(int task_fd, const struct direct *d, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(FILE_MAX);
	AUTO_CLOSE int fd = -1;
	int r;

	put_list(&b, 'P', &d->pinned);
	put_list(&b, 'L', &d->links);
	put_list(&b, 'T', &d->targets);
	put_list(&b, 'S', &d->shared);
	put_list(&b, 'A', &d->absent);
	put_list(&b, 'D', &d->top);
	put_list(&b, 'W', &d->where);
	fd = openat(task_fd, FILE_NAME,
		    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : b.failed;
	if (r == 0)
		r = io_write_all(fd, b.data, b.len);
	return r < 0 ? error_set(err, r, "cannot write down what is pinned: %s",
				 strerror(-r))
		     : 0;
}

static struct strlist *list_of(struct direct *d, char kind)
{
	switch (kind) {
	case 'P':
		return &d->pinned;
	case 'L':
		return &d->links;
	case 'T':
		return &d->targets;
	case 'S':
		return &d->shared;
	case 'A':
		return &d->absent;
	case 'D':
		return &d->top;
	case 'W':
		return &d->where;
	default:
		return NULL;
	}
}

int direct_read(int task_fd, struct direct *ret, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(FILE_MAX);
	int r = io_read_file(task_fd, FILE_NAME, &b);
	const char *at = buf_str(&b), *end = at + b.len;

	while (r == 0 && at < end) {
		struct strlist *list = list_of(ret, *at);

		r = list ? strlist_add(list, at + 1) : -EBADMSG;
		at += strlen(at) + 1;
	}
	if (r == 0 && (ret->links.n != ret->targets.n || ret->top.n != 1 ||
		       ret->where.n != 1))
		r = -EBADMSG;
	if (r < 0)
		return error_set(err, r, "cannot read what was pinned: %s",
				 strerror(-r));
	return 0;
}

bool direct_is_noted(int task_fd)
{
	return faccessat(task_fd, FILE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int direct_forget(int task_fd, struct error *err)
{
	if (unlinkat(task_fd, FILE_NAME, 0) < 0 && errno != ENOENT)
		return error_errno(err, "cannot remove the note of what was "
					"pinned");
	return 0;
}
