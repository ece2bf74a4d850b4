#include "workspace/compare.h"

#include "base/cleanup.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 32768

static int open_regular(int dir_fd, const char *name, uint64_t size)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	fd = walk_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size)
		return -ESTALE;
	return steal_fd(&fd);
}

/* Reads CHUNK bytes, fewer only at the end of the file. */
static ssize_t read_chunk(int fd, char *chunk)
{
	size_t have = 0;

	while (have < CHUNK) {
		ssize_t n = read(fd, chunk + have, CHUNK - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int compare_files(int a_fd, int b_fd, const char *name, uint64_t size,
		  uint64_t per_file, uint64_t *budget)
{
	AUTO_CLOSE int a = -1;
	AUTO_CLOSE int b = -1;
	char chunk_a[CHUNK], chunk_b[CHUNK];

	if (size > per_file || size > *budget)
		return 0;
	a = open_regular(a_fd, name, size);
	if (a < 0)
		return 0;
	b = open_regular(b_fd, name, size);
	if (b < 0)
		return 0;
	for (;;) {
		ssize_t n = read_chunk(a, chunk_a);

		if (n < 0 || n != read_chunk(b, chunk_b))
			return 0;
		if (n == 0)
			return 1;
		/* A file that grows while it is read is not the same. */
		if ((uint64_t)n > *budget)
			return 0;
		*budget -= (uint64_t)n;
		if (memcmp(chunk_a, chunk_b, (size_t)n) != 0)
			return 0;
	}
}

int compare_links(int a_fd, int b_fd, const char *name)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t n = readlinkat(a_fd, name, a, sizeof(a));

	if (n < 0 || n != readlinkat(b_fd, name, b, sizeof(b)))
		return 0;
	return !memcmp(a, b, (size_t)n);
}
