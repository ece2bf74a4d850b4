#include "cli/sorted.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A packed change: this, then the path with its NUL. */
struct head {
	uint32_t path_size; /* with its NUL */
	uint32_t kind, mode, mode_before;
	uint64_t size;
};

/* One run that is being read. */
struct reader {
	off_t at, end; /* what is still in the file */
	char *data;
	size_t pos, len, cap;
	struct head head; /* the change that is next */
	const char *path; /* NULL: there is none */
};

void sorted_init(struct sorted *s, int dir_fd)
{
	*s = (struct sorted){.dir_fd = dir_fd, .file = -1,
			     .memory = SORTED_MEMORY, .compare = strcmp};
}

void sorted_done(struct sorted *s)
{
	close_fd(s->file);
	free(s->data);
	free(s->order);
	sorted_init(s, -1);
}

static const char *path_at(const struct sorted *s, size_t at)
{
	return s->data + at + sizeof(struct head);
}

static int by_path(const void *a, const void *b, void *arg)
{
	const struct sorted *s = arg;

	return s->compare(path_at(s, *(const size_t *)a),
			  path_at(s, *(const size_t *)b));
}

static void sort(struct sorted *s)
{
	if (s->n > 1)
		qsort_r(s->order, s->n, sizeof(*s->order), by_path, s);
}

/* A file without a name; not every file system makes one in one step. */
static int make_file(int dir_fd)
{
	static const char name[] = ".sorted";
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || errno == ENOSPC || errno == EDQUOT)
		return fd < 0 ? -errno : fd;
	unlinkat(dir_fd, name, 0);
	fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlinkat(dir_fd, name, 0);
	return fd;
}

/* Writes at the file's end; makes it first. */
static int put(struct sorted *s, const void *data, size_t len)
{
	int r;

	if (s->file < 0)
		s->file = make_file(s->dir_fd);
	if (s->file < 0)
		return s->file;
	r = io_write_all(s->file, data, len);
	if (r == 0)
		s->file_end += (off_t)len;
	return r;
}

static size_t size_at(const struct sorted *s, size_t at)
{
	struct head h;

	memcpy(&h, s->data + at, sizeof(h));
	return sizeof(h) + h.path_size;
}

/* ---- reading runs ---- */

/* Has r->len - r->pos bytes of the run ready, n at least. */
static int fill(const struct sorted *s, struct reader *r, size_t n)
{
	if (r->len - r->pos >= n)
		return 0;
	memmove(r->data, r->data + r->pos, r->len - r->pos);
	r->len -= r->pos;
	r->pos = 0;
	if (n > r->cap) {
		char *data = realloc(r->data, n);

		if (!data)
			return -ENOMEM;
		r->data = data;
		r->cap = n;
	}
	while (r->len < n) {
		size_t want = r->cap - r->len;
		ssize_t got;

		if ((off_t)want > r->end - r->at)
			want = (size_t)(r->end - r->at);
		got = pread(s->file, r->data + r->len, want, r->at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		r->len += (size_t)got;
		r->at += got;
	}
	return 0;
}

/* Goes on to the next change of the run; path is NULL at its end. */
static int advance(const struct sorted *s, struct reader *r)
{
	int e;

	r->path = NULL;
	if (r->at == r->end && r->pos == r->len)
		return 0;
	e = fill(s, r, sizeof(r->head));
	if (e < 0)
		return e;
	memcpy(&r->head, r->data + r->pos, sizeof(r->head));
	r->pos += sizeof(r->head);
	e = fill(s, r, r->head.path_size);
	if (e < 0)
		return e;
	r->path = r->data + r->pos;
	r->pos += r->head.path_size;
	return 0;
}

static int call(const struct head *h, const char *path, change_fn *fn,
		void *arg)
{
	const struct change c = {
		.path = path,
		.kind = (enum change_kind)h->kind,
		.mode = h->mode,
		.mode_before = h->mode_before,
		.size = h->size,
	};

	return fn(arg, &c);
}

/* Takes the least of all runs again and again. */
static int merge(const struct sorted *s, struct reader *readers, size_t n,
		 change_fn *fn, void *arg)
{
	for (;;) {
		struct reader *least = NULL;
		int r;

		for (size_t i = 0; i < n; i++) {
			if (readers[i].path &&
			    (!least ||
			     s->compare(readers[i].path, least->path) < 0))
				least = &readers[i];
		}
		if (!least)
			return 0;
		r = call(&least->head, least->path, fn, arg);
		if (r == 0)
			r = advance(s, least);
		if (r != 0)
			return r;
	}
}

static int merge_runs(const struct sorted *s, change_fn *fn, void *arg)
{
	AUTO_FREE struct reader *readers = calloc(s->n_runs, sizeof(*readers));
	int r = readers ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < s->n_runs; i++) {
		readers[i].at = s->runs[i].at;
		readers[i].end = s->runs[i].end;
		readers[i].cap = SORTED_READ;
		readers[i].data = malloc(SORTED_READ);
		r = readers[i].data ? advance(s, &readers[i]) : -ENOMEM;
	}
	if (r == 0)
		r = merge(s, readers, s->n_runs, fn, arg);
	for (size_t i = 0; readers && i < s->n_runs; i++)
		free(readers[i].data);
	return r;
}

/* ---- making runs ---- */

static int put_change(void *arg, const struct change *c)
{
	struct sorted *s = arg;
	struct head h = {
		.path_size = (uint32_t)strlen(c->path) + 1,
		.kind = c->kind,
		.mode = c->mode,
		.mode_before = c->mode_before,
		.size = c->size,
	};
	int r = put(s, &h, sizeof(h));

	return r < 0 ? r : put(s, c->path, h.path_size);
}

/* Too many runs become one, behind them. */
static int join(struct sorted *s)
{
	off_t at = s->file_end;
	int r = merge_runs(s, put_change, s);

	if (r < 0)
		return r;
	s->runs[0] = (struct sorted_run){at, s->file_end};
	s->n_runs = 1;
	return 0;
}

/* Writes what is in memory as one more run. */
static int spill(struct sorted *s)
{
	off_t at;
	int r = s->n_runs == SORTED_RUNS ? join(s) : 0;

	if (r < 0)
		return r;
	at = s->file_end;
	sort(s);
	for (size_t i = 0; i < s->n; i++) {
		r = put(s, s->data + s->order[i], size_at(s, s->order[i]));
		if (r < 0)
			return r;
	}
	s->runs[s->n_runs++] = (struct sorted_run){at, s->file_end};
	s->n = s->len = 0;
	return 0;
}

/* Makes room for one change of this size. */
static int grow(struct sorted *s, size_t size)
{
	if (s->len + size > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 65536;
		char *data;

		while (cap < s->len + size)
			cap *= 2;
		data = realloc(s->data, cap);
		if (!data)
			return -ENOMEM;
		s->data = data;
		s->cap = cap;
	}
	if (s->n == s->order_cap) {
		size_t cap = s->order_cap ? s->order_cap * 2 : 1024;
		size_t *order = reallocarray(s->order, cap, sizeof(*order));

		if (!order)
			return -ENOMEM;
		s->order = order;
		s->order_cap = cap;
	}
	return 0;
}

static int add(struct sorted *s, const struct change *c)
{
	struct head h = {
		.path_size = (uint32_t)strlen(c->path) + 1,
		.kind = c->kind,
		.mode = c->mode,
		.mode_before = c->mode_before,
		.size = c->size,
	};
	size_t size = sizeof(h) + h.path_size;
	int r = s->failed;

	if (r == 0 && s->n > 0 &&
	    s->len + size + (s->n + 1) * sizeof(*s->order) > s->memory)
		r = spill(s);
	if (r == 0)
		r = grow(s, size);
	if (r < 0)
		return r;
	s->order[s->n++] = s->len;
	memcpy(s->data + s->len, &h, sizeof(h));
	memcpy(s->data + s->len + sizeof(h), c->path, h.path_size);
	s->len += size;
	return 0;
}

int sorted_add(void *arg, const struct change *c)
{
	struct sorted *s = arg;
	int r = add(s, c);

	s->failed = s->failed ? s->failed : r;
	return r;
}

int sorted_each(struct sorted *s, change_fn *fn, void *arg)
{
	int r;

	if (s->failed)
		return s->failed;
	if (s->n_runs > 0) {
		r = s->n > 0 ? spill(s) : 0;
		return r < 0 ? r : merge_runs(s, fn, arg);
	}
	sort(s);
	for (size_t i = 0; i < s->n; i++) {
		struct head h;

		memcpy(&h, s->data + s->order[i], sizeof(h));
		r = call(&h, path_at(s, s->order[i]), fn, arg);
		if (r != 0)
			return r;
	}
	return 0;
}
