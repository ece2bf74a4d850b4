#include "base/io.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int io_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int io_read_all(int fd, struct buf *b)
{
	for (;;) {
		size_t room = b->max - b->len;
		size_t want = room < 65536 ? room + 1 : 65536;
		char chunk[4096];
		ssize_t n;

		if (want > sizeof(chunk))
			want = sizeof(chunk);
		n = read(fd, chunk, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return buf_add(b, "", 0);
		if (buf_add(b, chunk, (size_t)n) < 0)
			return b->failed;
	}
}

int io_read_file(int dir_fd, const char *path, struct buf *b)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	return io_read_all(fd, b);
}

int io_write_file(int dir_fd, const char *path, const void *data, size_t len)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, data, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int io_replace_file(int dir_fd, const char *name, const void *data, size_t len,
		    mode_t mode)
{
	AUTO_CLOSE int fd = -1;
	char temp[300];
	int r;

	if (snprintf(temp, sizeof(temp), ".%s.new", name) >= (int)sizeof(temp))
		return -ENAMETOOLONG;
	fd = openat(dir_fd, temp,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    mode);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, data, len);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, temp, 0);
	return r;
}

int io_sealed_memfd(const char *name, const void *data, size_t len)
{
	AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = io_write_all(fd, data, len);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
		return -errno;
	return steal_fd(&fd);
}

int io_dir_of(int fd, DIR **ret)
{
	int r;

	if (fd < 0)
		return fd;
	*ret = fdopendir(fd);
	if (*ret)
		return 0;
	r = -errno;
	close(fd);
	return r;
}

int io_open_dir(int dir_fd, const char *name, DIR **ret)
{
	int fd = openat(dir_fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return io_dir_of(fd < 0 ? -errno : fd, ret);
}

char *io_fd_path(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	return n > 0 && n < (ssize_t)sizeof(path) ? strndup(path, (size_t)n)
						  : NULL;
}

int io_map_sealed(int fd, size_t max, const char **ret_data, size_t *ret_len)
{
	struct stat st;
	void *data;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & ALL_SEALS) != ALL_SEALS)
		return -EPERM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0)
		return -EINVAL;
	if ((uintmax_t)st.st_size > max)
		return -EFBIG;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret_data = data;
	*ret_len = (size_t)st.st_size;
	return 0;
}
