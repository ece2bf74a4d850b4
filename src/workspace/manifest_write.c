/*
 * Writes the manifest of a copied source. Memory: one buffer, and 8 bytes for
 * each entry of the directories on the way down to the current one.
 */
#include "workspace/manifest.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_SIZE 65536

void manifest_writer_done(struct manifest_writer *w)
{
	close_fd(w->fd);
	free(w->buf);
	free(w->offsets);
	*w = (struct manifest_writer){.fd = -1};
}

static int flush(struct manifest_writer *w)
{
	int r = io_write_all(w->fd, w->buf, w->used);

	w->flushed += w->used;
	w->used = 0;
	return r;
}

/* Appends, and pads to a multiple of 8. Returns the offset, or negative. */
static int64_t append(struct manifest_writer *w, const void *data, size_t len)
{
	size_t padded = (len + 7) / 8 * 8;
	int64_t offset;
	int r;

	if (padded > BUFFER_SIZE - w->used) {
		r = flush(w);
		if (r < 0)
			return r;
	}
	offset = (int64_t)(w->flushed + w->used);
	memcpy(w->buf + w->used, data, len);
	memset(w->buf + w->used + len, 0, padded - len);
	w->used += padded;
	return offset;
}

int manifest_writer_init(struct manifest_writer *w, int dir_fd,
			 const char *name)
{
	const struct manifest_head head = {.magic = MANIFEST_MAGIC};
	int64_t r;

	*w = (struct manifest_writer){.fd = -1};
	w->buf = malloc(BUFFER_SIZE);
	if (!w->buf)
		return -ENOMEM;
	w->fd = openat(dir_fd, name,
		       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (w->fd < 0)
		return -errno;
	r = append(w, &head, sizeof(head));
	return r < 0 ? (int)r : 0;
}

int manifest_add(struct manifest_writer *w, const struct manifest_entry *e,
		 const char *name)
{
	struct manifest_entry fixed = *e;
	char whole[sizeof(fixed) + NAME_MAX + 1];
	size_t len = strlen(name);
	int64_t offset;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 256;
		uint64_t *grown =
			reallocarray(w->offsets, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		w->offsets = grown;
		w->cap = cap;
	}
	fixed.name_len = (uint32_t)len;
	memcpy(whole, &fixed, sizeof(fixed));
	memcpy(whole + sizeof(fixed), name, len + 1);
	offset = append(w, whole, sizeof(fixed) + len + 1);
	if (offset < 0)
		return (int)offset;
	w->offsets[w->n++] = (uint64_t)offset;
	return 0;
}

static const char *name_at(const char *data, uint64_t offset)
{
	const void *at = data + offset;
	const struct manifest_entry *e = at;

	return e->name;
}

/* Merges two sorted runs; the names are in the mapped file. */
static void merge(const char *data, uint64_t *to, const uint64_t *a, size_t n_a,
		  const uint64_t *b, size_t n_b)
{
	while (n_a > 0 && n_b > 0) {
		if (strcmp(name_at(data, *a), name_at(data, *b)) <= 0) {
			*to++ = *a++;
			n_a--;
		} else {
			*to++ = *b++;
			n_b--;
		}
	}
	memcpy(to, n_a ? a : b, (n_a + n_b) * sizeof(*to));
}

/* Bottom-up merge sort; spare has room for n. The result is in list. */
static void sort(const char *data, uint64_t *list, uint64_t *spare, size_t n)
{
	for (size_t run = 1; run < n; run *= 2) {
		for (size_t i = 0; i < n; i += 2 * run) {
			size_t n_a = n - i < run ? n - i : run;
			size_t n_b = n - i - n_a < run ? n - i - n_a : run;

			merge(data, spare + i, list + i, n_a, list + i + n_a,
			      n_b);
		}
		memcpy(list, spare, n * sizeof(*list));
	}
}

static int sort_names(struct manifest_writer *w, uint64_t *list, size_t n)
{
	AUTO_FREE uint64_t *spare = NULL;
	void *data;
	int r;

	if (n < 2)
		return 0;
	spare = reallocarray(NULL, n, sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	r = flush(w);
	if (r < 0)
		return r;
	data = mmap(NULL, w->flushed, PROT_READ, MAP_SHARED, w->fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	sort(data, list, spare, n);
	munmap(data, w->flushed);
	return 0;
}

int manifest_end(struct manifest_writer *w, size_t start, uint64_t *ret_block)
{
	struct manifest_block block = {.n = w->n - start};
	int64_t offset;
	int r = sort_names(w, w->offsets + start, w->n - start);

	if (r < 0)
		return r;
	block.index = w->flushed + w->used;
	for (size_t i = start; i < w->n; i++) {
		offset = append(w, &w->offsets[i], sizeof(w->offsets[i]));
		if (offset < 0)
			return (int)offset;
	}
	w->n = start;
	offset = append(w, &block, sizeof(block));
	if (offset < 0)
		return (int)offset;
	*ret_block = (uint64_t)offset;
	return 0;
}

int manifest_finish(struct manifest_writer *w, uint64_t top)
{
	const struct manifest_head head = {
		.magic = MANIFEST_MAGIC,
		.top = top,
	};
	int r = flush(w);

	if (r < 0)
		return r;
	if (pwrite(w->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return errno ? -errno : -EIO;
	return 0;
}
