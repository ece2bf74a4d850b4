#include "workspace/copy_file.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHUNK 65536
/* What is copied between two steps. */
#define PIECE (8u << 20)
#define NAMES_MAX 65536 /* XATTR_LIST_MAX */
#define VALUE_MAX 65536 /* XATTR_SIZE_MAX */

/* By read and write; for small files, and where the kernel has no better. */
static int copy_by_hand(int from_fd, int to_fd, uint64_t at, uint64_t end)
{
	char chunk[CHUNK];

	while (at < end) {
		size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		ssize_t n = pread(from_fd, chunk, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0; /* It was cut short meanwhile. */
		for (ssize_t done = 0; done < n;) {
			ssize_t m = pwrite(to_fd, chunk + done,
					   (size_t)(n - done),
					   (off_t)at + done);

			if (m < 0 && errno != EINTR)
				return -errno;
			done += m < 0 ? 0 : m;
		}
		at += (uint64_t)n;
	}
	return 0;
}

/* By the kernel alone where it can. */
static int copy_piece(int from_fd, int to_fd, uint64_t at, uint64_t size)
{
	uint64_t end = at + size;

	while (size > CHUNK && at < end) {
		off_t from = (off_t)at, to = (off_t)at;
		ssize_t n = copy_file_range(from_fd, &from, to_fd, &to,
					    (size_t)(end - at), 0);

		if (n < 0 && errno == EINTR)
			continue;
		/* Refused for these files, or (0) for this file system. */
		if (n <= 0 && !(errno == ENOSPC && n < 0))
			break;
		if (n < 0)
			return -ENOSPC;
		at += (uint64_t)n;
	}
	return copy_by_hand(from_fd, to_fd, at, end);
}

static int copy_range(int from_fd, int to_fd, uint64_t at, uint64_t end,
		      copy_step_fn *step, void *arg)
{
	while (at < end) {
		uint64_t size = end - at < PIECE ? end - at : PIECE;
		int r = copy_piece(from_fd, to_fd, at, size);

		if (r == 0 && step)
			r = step(arg, size);
		if (r != 0)
			return r;
		at += size;
	}
	return 0;
}

static int copy_sparse(int from_fd, int to_fd, uint64_t size,
		       copy_step_fn *step, void *arg)
{
	off_t data = 0, hole;
	int r;

	while ((uint64_t)data < size) {
		data = lseek(from_fd, data, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if ((uint64_t)hole > size)
			hole = (off_t)size;
		if (hole <= data)
			break;
		r = copy_range(from_fd, to_fd, (uint64_t)data, (uint64_t)hole,
			       step, arg);
		if (r != 0)
			return r;
		data = hole;
	}
	return ftruncate(to_fd, (off_t)size) < 0 ? -errno : 0;
}

int copy_content(int from_fd, int to_fd, uint64_t size, bool sparse,
		 bool *no_clone, bool *cloned, copy_step_fn *step, void *arg)
{
	*cloned = false;
	if (size == 0)
		return 0;
	if (!*no_clone) {
		*cloned = ioctl(to_fd, FICLONE, from_fd) == 0;
		if (*cloned)
			return 0;
		*no_clone = errno == EOPNOTSUPP || errno == EXDEV ||
			    errno == ENOTTY || errno == EINVAL;
	}
	if (sparse)
		return copy_sparse(from_fd, to_fd, size, step, arg);
	return copy_range(from_fd, to_fd, 0, size, step, arg);
}

static int copy_attribute(int from_fd, int to_fd, const char *name)
{
	AUTO_FREE char *value = malloc(VALUE_MAX);
	ssize_t n;

	if (!value)
		return -ENOMEM;
	n = fgetxattr(from_fd, name, value, VALUE_MAX);
	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	if (fsetxattr(to_fd, name, value, (size_t)n, 0) < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	return 0;
}

static int copy_named(int from_fd, int to_fd, const char *names, ssize_t len)
{
	for (ssize_t i = 0; i < len; i += (ssize_t)strlen(names + i) + 1) {
		int r;

		if (!str_starts(names + i, "user.") ||
		    str_starts(names + i, "user.overlay."))
			continue;
		r = copy_attribute(from_fd, to_fd, names + i);
		if (r < 0)
			return r;
	}
	return 0;
}

int copy_attributes(int from_fd, int to_fd)
{
	AUTO_FREE char *names = NULL;
	char few[512]; /* what almost every file gets by with */
	ssize_t n = flistxattr(from_fd, few, sizeof(few));

	if (n >= 0 || errno != ERANGE)
		return n <= 0 ? 0 : copy_named(from_fd, to_fd, few, n);
	names = malloc(NAMES_MAX);
	if (!names)
		return -ENOMEM;
	n = flistxattr(from_fd, names, NAMES_MAX);
	return n <= 0 ? 0 : copy_named(from_fd, to_fd, names, n);
}

int copy_make_file(int from_dir, const char *name, const struct stat *st,
		   int to_dir, const char *as)
{
	AUTO_CLOSE int from = walk_open_at(from_dir, name,
					   O_RDONLY | O_NONBLOCK | O_NOCTTY);
	AUTO_CLOSE int to = -1;
	uint64_t size = (uint64_t)st->st_size;
	bool no_clone = false, cloned;
	int r;

	if (from < 0)
		return from;
	to = openat(to_dir, as,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_content(from, to, size, (uint64_t)st->st_blocks * 512 < size,
			 &no_clone, &cloned, NULL, NULL);
	return r == 0 ? copy_attributes(from, to) : r;
}

int copy_make_link(int from_dir, const char *name, int to_dir, const char *as)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_dir, as) < 0 ? -errno : 0;
}

int copy_dress(int dir, const char *name, const struct stat *owner,
	       const struct stat *st, mode_t mode)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchownat(dir, name, owner->st_uid, owner->st_gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st->st_mode) && fchmodat(dir, name, mode, 0) < 0)
		return -errno;
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
								    : 0;
}
