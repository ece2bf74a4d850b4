#include "workspace/renames.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 65536
/* Entries looked at below one deleted directory. */
#define WALK_ENTRIES 65536

void renames_init(struct renames *r, int upper_fd, int below_fd)
{
	*r = (struct renames){.has_below = below_fd >= 0};
	tree_init(&r->upper, upper_fd);
	tree_init(&r->below, below_fd);
}

static void files_done(struct renames_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i].path);
	free(files);
}

void renames_done(struct renames *r)
{
	files_done(r->added, r->n_added);
	files_done(r->deleted, r->n_deleted);
	tree_done(&r->upper);
	tree_done(&r->below);
	*r = (struct renames){.has_below = false};
	tree_init(&r->upper, -1);
	tree_init(&r->below, -1);
}

static int note(struct renames_file **files, size_t *n, const char *path,
		uint64_t size)
{
	struct renames_file *f;

	/* An empty file is like any other empty one. */
	if (size == 0 || *n >= RENAMES_MAX)
		return 0;
	if (!*files)
		*files = calloc(RENAMES_MAX, sizeof(**files));
	if (!*files)
		return -ENOMEM;
	f = &(*files)[*n];
	f->path = strdup(path);
	f->size = size;
	if (!f->path)
		return -ENOMEM;
	++*n;
	return 0;
}

static int note_deleted(struct renames *r, int dir_fd, const char *name,
			const char *path)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return 0;
	return note(&r->deleted, &r->n_deleted, path, (uint64_t)st.st_size);
}

static int enter_or_note(struct renames *r, struct walk *w, const char *top,
			 const char *name)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return walk_enter(w, name, false, NULL) == -ENOMEM ? -ENOMEM
								   : 0;
	path = str_format("%s%s%s/%s", top, w->path.len > 0 ? "/" : "",
			  buf_str(&w->path), name);
	return path ? note_deleted(r, walk_fd(w), name, path) : -ENOMEM;
}

/* The files of a deleted directory; an error ends the look at it. */
static int note_tree(struct renames *r, int dir_fd, const char *name,
		     const char *path)
{
	AUTO_WALK struct walk w;
	size_t seen = 0;
	int e = walk_init(&w, dir_fd, name, -1, NULL);

	while (e == 0 && seen++ < WALK_ENTRIES && r->n_deleted < RENAMES_MAX) {
		struct dirent *d;

		e = walk_next(&w, &d, NULL);
		if (e == 0 && w.depth == 1)
			break;
		if (e == 0)
			e = walk_leave(&w, NULL);
		else if (e > 0)
			e = enter_or_note(r, &w, path, d->d_name);
	}
	return e == -ENOMEM ? e : 0;
}

int renames_add(void *arg, const struct change *c)
{
	struct renames *r = arg;
	const char *name;
	int fd;

	/* What git keeps of itself is never moved. */
	if (str_eq(c->path, ".git") || str_starts(c->path, ".git/"))
		return 0;
	if (c->kind == CHANGE_ADDED && S_ISREG(c->mode))
		return note(&r->added, &r->n_added, c->path, c->size);
	if (c->kind != CHANGE_DELETED || !r->has_below)
		return 0;
	fd = tree_parent(&r->below, c->path, &name);
	if (fd < 0)
		return fd == -ENOMEM ? fd : 0;
	return S_ISDIR(c->mode_before)
		       ? note_tree(r, fd, name, c->path)
		       : note_deleted(r, fd, name, c->path);
}

/* ---- pairs ---- */

static int by_size(const void *a, const void *b)
{
	const struct renames_file *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return strcmp(x->path, y->path);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct renames_file *)a)->path,
		      ((const struct renames_file *)b)->path);
}

static bool hash_content(int fd, uint64_t size, struct sha256 *hash)
{
	char chunk[CHUNK];
	uint64_t left = size;

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		/* Another length than it had: it is being written. */
		if (n < 0 || (uint64_t)n > left)
			return false;
		if (n == 0)
			return left == 0;
		sha256_add(hash, chunk, (size_t)n);
		left -= (uint64_t)n;
	}
}

static void digest(struct tree *tree, struct renames_file *f, uint64_t *budget)
{
	AUTO_CLOSE int fd = -1;
	struct sha256 hash;
	const char *name;
	struct stat st;
	int dir;

	if (f->read || f->size > *budget)
		return;
	dir = tree_parent(tree, f->path, &name);
	if (dir < 0)
		return;
	fd = walk_open_at(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	*budget -= f->size;
	sha256_init(&hash);
	f->read = hash_content(fd, f->size, &hash);
	sha256_done(&hash, f->digest);
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The deleted one of the same content, of the same name if there is one. */
static struct renames_file *partner(struct renames *r,
				    const struct renames_file *added,
				    size_t from, size_t to)
{
	struct renames_file *found = NULL;

	for (size_t i = from; i < to; i++) {
		struct renames_file *d = &r->deleted[i];

		if (d->other || !d->read ||
		    memcmp(d->digest, added->digest, SHA256_SIZE) != 0)
			continue;
		if (str_eq(last_name(d->path), last_name(added->path)))
			return d;
		found = found ? found : d;
	}
	return found;
}

/* All files of one size: deleted [d, d_end), added [a, a_end). */
static void pair_up(struct renames *r, size_t a, size_t a_end, size_t d,
		    size_t d_end, uint64_t *budget)
{
	for (size_t i = a; i < a_end; i++)
		digest(&r->upper, &r->added[i], budget);
	for (size_t i = d; i < d_end; i++)
		digest(&r->below, &r->deleted[i], budget);
	for (size_t i = a; i < a_end; i++) {
		struct renames_file *f = &r->added[i], *was;

		was = f->read ? partner(r, f, d, d_end) : NULL;
		if (!was)
			continue;
		f->other = was->path;
		was->other = f->path;
	}
}

static size_t same_size(const struct renames_file *f, size_t from, size_t n)
{
	size_t to = from;

	while (to < n && f[to].size == f[from].size)
		to++;
	return to;
}

void renames_find(struct renames *r)
{
	uint64_t budget = RENAMES_BYTES;
	size_t a = 0, d = 0;

	if (r->n_added == 0 || r->n_deleted == 0)
		return;
	qsort(r->added, r->n_added, sizeof(*r->added), by_size);
	qsort(r->deleted, r->n_deleted, sizeof(*r->deleted), by_size);
	while (a < r->n_added && d < r->n_deleted) {
		size_t a_end = same_size(r->added, a, r->n_added);
		size_t d_end = same_size(r->deleted, d, r->n_deleted);

		if (r->added[a].size < r->deleted[d].size) {
			a = a_end;
		} else if (r->added[a].size > r->deleted[d].size) {
			d = d_end;
		} else {
			pair_up(r, a, a_end, d, d_end, &budget);
			a = a_end;
			d = d_end;
		}
	}
	qsort(r->added, r->n_added, sizeof(*r->added), by_path);
	qsort(r->deleted, r->n_deleted, sizeof(*r->deleted), by_path);
}

static const char *find(const struct renames_file *files, size_t n,
			const char *path)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int r = strcmp(path, files[middle].path);

		if (r == 0)
			return files[middle].other;
		if (r < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

const char *renames_from(const struct renames *r, const char *path)
{
	return find(r->added, r->n_added, path);
}

const char *renames_to(const struct renames *r, const char *path)
{
	return find(r->deleted, r->n_deleted, path);
}
