/*
 * Writes and reads the journal of a promotion. The file is ours alone, yet
 * every offset is checked before it is used: a full disk or a power cut may
 * have left a part of it.
 */
#include "workspace/journal.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_SIZE 65536

static const char *const names[] = {
	[JOURNAL_NEW] = "journal.new",	 [JOURNAL_GO] = "journal.go",
	[JOURNAL_BACK] = "journal.back", [JOURNAL_DONE] = "journal.done",
	[JOURNAL_UNDONE] = "journal.undone",
};

static const char *const skip_texts[] = {
	[SKIP_NOT] = "",
	[SKIP_CHANGED] = "changed on the host meanwhile",
	[SKIP_PARENT] = "its directory was removed or replaced on the host",
	[SKIP_CLOSED] = "its directory cannot be written",
	[SKIP_READ_ONLY] = "a directory that you may not write",
	[SKIP_OWNER] = "another user's, and would not stay that user's",
	[SKIP_GROUP] = "it belongs to a group that you are not in",
	[SKIP_NOT_EMPTY] = "it holds files that were not promoted",
};

const char *journal_skip_text(uint8_t why)
{
	return why < ARRAY_SIZE(skip_texts) ? skip_texts[why] : "";
}

const char *journal_reason(const struct journal_entry *e)
{
	return e->path + e->path_len + 1;
}

void journal_done(struct journal *j)
{
	if (j->data)
		munmap(j->data, j->len);
	free(j->buf);
	close_fd(j->fd);
	close_fd(j->dir_fd);
	*j = (struct journal)JOURNAL_INIT;
}

int journal_create(struct journal *j, int dir_fd,
		   const struct journal_head *head)
{
	*j = (struct journal){.dir_fd = dir_fd, .fd = -1};
	j->buf = malloc(BUFFER_SIZE);
	if (!j->buf)
		return -ENOMEM;
	j->fd = openat(dir_fd, names[JOURNAL_NEW],
		       O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (j->fd < 0)
		return -errno;
	return io_write_all(j->fd, head, sizeof(*head));
}

static int flush(struct journal *j)
{
	int r = io_write_all(j->fd, j->buf, j->used);

	j->used = 0;
	return r;
}

static int append(struct journal *j, const void *data, size_t len)
{
	const char *from = data;
	int r;

	while (len > 0) {
		size_t n = BUFFER_SIZE - j->used < len ? BUFFER_SIZE - j->used
						       : len;

		memcpy(j->buf + j->used, from, n);
		j->used += n;
		from += n;
		len -= n;
		r = j->used == BUFFER_SIZE ? flush(j) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

int journal_add(struct journal *j, const struct journal_entry *e,
		const char *path, const char *reason)
{
	static const char zeros[8];
	struct journal_entry fixed = *e;
	size_t path_len = strlen(path), reason_len = strlen(reason);
	size_t len = sizeof(fixed) + path_len + reason_len + 2;
	int r;

	if (len > UINT32_MAX / 2)
		return -ENAMETOOLONG;
	fixed.size = (uint32_t)((len + 7) / 8 * 8);
	fixed.path_len = (uint32_t)path_len;
	r = append(j, &fixed, sizeof(fixed));
	if (r == 0)
		r = append(j, path, path_len + 1);
	if (r == 0)
		r = append(j, reason, reason_len + 1);
	if (r == 0)
		r = append(j, zeros, fixed.size - len);
	j->n++;
	return r;
}

static int map(struct journal *j)
{
	struct stat st;
	void *data;

	if (fstat(j->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) ||
	    st.st_size < (off_t)sizeof(struct journal_head))
		return -EBADMSG;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
		    MAP_SHARED, j->fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	j->data = data;
	j->len = (size_t)st.st_size;
	if (memcmp(journal_head(j)->magic, JOURNAL_MAGIC, 8) != 0 ||
	    journal_head(j)->layout != JOURNAL_LAYOUT)
		return -EBADMSG;
	return 0;
}

int journal_finish(struct journal *j)
{
	int r = flush(j);

	if (r == 0 &&
	    pwrite(j->fd, &j->n, sizeof(j->n),
		   offsetof(struct journal_head, n)) != (ssize_t)sizeof(j->n))
		r = errno ? -errno : -EIO;
	return r < 0 ? r : map(j);
}

/* Are there as many entries as the head says, and nothing behind them? */
static bool is_whole(const struct journal *j)
{
	size_t end = sizeof(struct journal_head);
	uint64_t n = 0;

	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e)) {
		end = (size_t)((char *)e - j->data) + e->size;
		n++;
	}
	return n == journal_head(j)->n && end == j->len;
}

/* What it has begun is known by a whole journal alone. */
static int map_begun(struct journal *j)
{
	int r = map(j);

	return r == -EBADMSG || (r == 0 && !is_whole(j)) ? -EUCLEAN : r;
}

int journal_damaged(unsigned number, struct error *err)
{
	return error_set(err, -EUCLEAN,
			 "the journal of promotion %u is cut short or damaged, "
			 "and nothing was done; what the promotion replaced is "
			 "in held/%u of the task's directory",
			 number, number);
}

int journal_open(struct journal *j, int dir_fd)
{
	*j = (struct journal){.dir_fd = dir_fd, .fd = -1};
	for (int phase = JOURNAL_NEW; phase < JOURNAL_NONE; phase++) {
		j->fd = openat(dir_fd, names[phase],
			       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		j->phase = (enum journal_phase)phase;
		if (j->fd >= 0)
			return phase == JOURNAL_NEW ? map(j) : map_begun(j);
		if (errno != ENOENT)
			return -errno;
	}
	j->phase = JOURNAL_NONE;
	return -ENOENT;
}

int journal_open_new(struct journal *j, int dir_fd)
{
	int r = journal_open(j, dir_fd);

	if (r == 0 && j->phase != JOURNAL_NEW)
		return -ESTALE;
	return r == 0 && !is_whole(j) ? -EBADMSG : r;
}

int journal_enter(struct journal *j, enum journal_phase phase, bool synced)
{
	/* What was stored into the map is part of the file already. */
	if (!synced && fsync(j->fd) < 0)
		return -errno;
	if (renameat(j->dir_fd, names[j->phase], j->dir_fd, names[phase]) < 0)
		return -errno;
	j->phase = phase;
	return fsync(j->dir_fd) < 0 ? -errno : 0;
}

struct journal_head *journal_head(const struct journal *j)
{
	return (void *)j->data;
}

struct journal_entry *journal_at(const struct journal *j, size_t offset)
{
	struct journal_entry *e = (void *)(j->data + offset);

	if (offset % 8 != 0 || offset > j->len ||
	    j->len - offset < sizeof(*e) || e->size > j->len - offset ||
	    e->size % 8 != 0 ||
	    e->size < sizeof(*e) + (uint64_t)e->path_len + 2 ||
	    e->path[e->path_len] != '\0' || ((char *)e)[e->size - 1] != '\0')
		return NULL;
	return e;
}

struct journal_entry *journal_next(const struct journal *j,
				   const struct journal_entry *e)
{
	size_t offset = sizeof(struct journal_head);

	if (e)
		offset = (size_t)((const char *)e - j->data) + e->size;
	return journal_at(j, offset);
}

int journal_index(const struct journal *j, size_t **ret, size_t *ret_n)
{
	size_t n = 0, max = j->len / sizeof(struct journal_entry) + 1;
	AUTO_FREE size_t *index = malloc(max * sizeof(*index));

	if (!index)
		return -ENOMEM;
	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e))
		index[n++] = (size_t)((char *)e - j->data);
	*ret = steal_ptr(&index);
	*ret_n = n;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	const struct journal_entry *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

int journal_sorted(const struct journal *j, struct journal_entry ***ret,
		   size_t *ret_n)
{
	size_t n = 0, max = j->len / sizeof(struct journal_entry) + 1;
	struct journal_entry **all = calloc(max, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e))
		all[n++] = e;
	if (n > 1)
		qsort(all, n, sizeof(*all), compare_paths);
	*ret = all;
	*ret_n = n;
	return 0;
}
