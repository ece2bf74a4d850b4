/*
 * Reads the manifest of a copied source; copy.c writes it. Every offset is
 * checked against the file before it is used.
 */
#include "workspace/manifest.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

void manifest_done(struct manifest *m)
{
	if (m->data)
		munmap((void *)(uintptr_t)m->data, m->len);
	*m = (struct manifest){0};
}

static const void *at(const struct manifest *m, uint64_t offset, uint64_t size)
{
	if (offset % 8 != 0 || offset > m->len || size > m->len - offset)
		return NULL;
	return m->data + offset;
}

int manifest_map(int dir_fd, const char *name, struct manifest *ret)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK);
	AUTO_MANIFEST struct manifest m = {0};
	const struct manifest_head *head;
	struct stat st;
	void *data;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(*head))
		return -EBADMSG;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	m = (struct manifest){.data = data, .len = (size_t)st.st_size};
	head = at(&m, 0, sizeof(*head));
	if (memcmp(head->magic, MANIFEST_MAGIC, sizeof(head->magic)) != 0 ||
	    !head->top || !at(&m, head->top, sizeof(struct manifest_block)))
		return -EBADMSG;
	*ret = m;
	m = (struct manifest){0};
	return 0;
}

int manifest_open(int task_fd, struct manifest *ret, struct error *err)
{
	int r = manifest_map(task_fd, MANIFEST_FILE, ret);

	if (r == -EBADMSG)
		return error_set(err, r, "the manifest of the copy is damaged");
	return r < 0 ? error_set(err, r, "cannot open the manifest of the "
				 "copy: %s", strerror(-r))
		     : 0;
}

uint64_t manifest_top(const struct manifest *m)
{
	const struct manifest_head *head = at(m, 0, sizeof(*head));

	return head->top;
}

bool manifest_is_source(const struct manifest_entry *e, const struct stat *st)
{
	if (((st->st_mode ^ e->mode) & S_IFMT) != 0)
		return false;
	return S_ISDIR(st->st_mode) ||
	       (time_ns(&st->st_ctim) == e->source_ctime_ns &&
		time_ns(&st->st_mtim) == e->mtime_ns &&
		(uint64_t)st->st_size == e->size);
}

bool manifest_is_copy(const struct manifest_entry *e, const struct stat *st)
{
	if (st->st_mode != (mode_t)e->mode)
		return false;
	return S_ISDIR(st->st_mode) ||
	       (time_ns(&st->st_ctim) == e->ctime_ns &&
		time_ns(&st->st_mtim) == e->mtime_ns &&
		(uint64_t)st->st_size == e->size);
}

uint64_t manifest_count(const struct manifest *m, uint64_t block)
{
	const struct manifest_block *b = at(m, block, sizeof(*b));

	return b ? b->n : 0;
}

const struct manifest_entry *manifest_at(const struct manifest *m,
					 uint64_t block, uint64_t i)
{
	const struct manifest_block *b = at(m, block, sizeof(*b));
	const struct manifest_entry *e;
	const uint64_t *index;

	if (!b || i >= b->n || b->n > m->len / sizeof(*index))
		return NULL;
	index = at(m, b->index, b->n * sizeof(*index));
	if (!index)
		return NULL;
	e = at(m, index[i], sizeof(*e));
	if (!e || !at(m, index[i], sizeof(*e) + (uint64_t)e->name_len + 1) ||
	    e->name[e->name_len] != '\0')
		return NULL;
	return e;
}

const struct manifest_entry *manifest_find(const struct manifest *m,
					   uint64_t block, const char *name)
{
	uint64_t low = 0, high = manifest_count(m, block);

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		const struct manifest_entry *e = manifest_at(m, block, middle);
		int order = e ? strcmp(name, e->name) : 0;

		if (!e || order == 0)
			return e;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
