/*
 * Finds paths in the journals of finished promotions by a table of pointers
 * into them. Relies on promote.c, which finishes or takes back what was
 * interrupted before anybody looks.
 */
#include "workspace/taken.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void taken_done(struct taken *t)
{
	for (size_t i = 0; i < t->n_journals; i++)
		journal_done(&t->journals[i]);
	free(t->journals);
	free(t->table);
	*t = (struct taken){0};
}

static uint64_t hash_of(const char *path)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 0x100000001b3u;
	return h ^ h >> 29;
}

static size_t slot(const struct taken *t, const char *path)
{
	size_t i = (size_t)hash_of(path) & (t->cap - 1);

	while (t->table[i] && !str_eq(t->table[i]->path, path))
		i = (i + 1) & (t->cap - 1);
	return i;
}

static int grow(struct taken *t)
{
	struct taken bigger = {.cap = t->cap ? t->cap * 2 : 64};

	bigger.table = calloc(bigger.cap, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++) {
		if (t->table[i])
			bigger.table[slot(&bigger, t->table[i]->path)] =
				t->table[i];
	}
	free(t->table);
	t->table = bigger.table;
	t->cap = bigger.cap;
	return 0;
}

static int add(struct taken *t, const struct journal_entry *e)
{
	size_t i;

	if (e->act == ACT_LEAVE ||
	    (e->state != STATE_PLACED && e->state != STATE_RESTORED &&
	     e->state != STATE_OVER))
		return 0;
	if (t->n * 2 >= t->cap && grow(t) < 0)
		return -ENOMEM;
	i = slot(t, e->path);
	t->n += !t->table[i];
	t->table[i] = e; /* The latest promotion is right. */
	return 0;
}

static int add_journal(struct taken *t, int dir_fd)
{
	struct journal *j = &t->journals[t->n_journals];
	int r = journal_open(j, dir_fd);

	if (r == 0 && j->phase != JOURNAL_DONE && j->phase != JOURNAL_UNDONE)
		r = -ENOENT; /* Interrupted: nothing of it counts. */
	if (r < 0) {
		journal_done(j);
		return r == -ENOENT ? 0 : r;
	}
	close_fd(steal_fd(&j->fd));
	close_fd(steal_fd(&j->dir_fd));
	t->n_journals++;
	for (struct journal_entry *e = journal_next(j, NULL); e && r == 0;
	     e = journal_next(j, e))
		r = add(t, e);
	return r;
}

static int compare(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

/* The numbers of all promotions in order. */
static int read_numbers(int held_fd, unsigned **ret, size_t *ret_n)
{
	AUTO_FREE unsigned *numbers = NULL;
	AUTO_DIR DIR *dir = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;
	int r = io_dir_of(walk_open_at(held_fd, ".", O_RDONLY | O_DIRECTORY),
			  &dir);

	if (r < 0)
		return r;
	while (errno = 0, (e = readdir(dir))) {
		unsigned number = (unsigned)strtoul(e->d_name, NULL, 10);

		if (number == 0)
			continue;
		if (n == cap) {
			unsigned *grown;

			cap = cap ? cap * 2 : 16;
			grown = reallocarray(numbers, cap, sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			numbers = grown;
		}
		numbers[n++] = number;
	}
	if (errno)
		return -errno;
	if (n > 1)
		qsort(numbers, n, sizeof(*numbers), compare);
	*ret = steal_ptr(&numbers);
	*ret_n = n;
	return 0;
}

static int open_number(int held_fd, unsigned number)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", number);
	return walk_open_at(held_fd, name, O_RDONLY | O_DIRECTORY);
}

static int load(struct taken *t, int held_fd, unsigned *ret_bad)
{
	AUTO_FREE unsigned *numbers = NULL;
	size_t n = 0;
	int r = read_numbers(held_fd, &numbers, &n);

	if (r < 0 || n == 0)
		return r;
	t->journals = calloc(n, sizeof(*t->journals));
	if (!t->journals)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		int fd = open_number(held_fd, numbers[i]);

		if (fd >= 0)
			r = add_journal(t, fd);
		else
			r = fd == -ENOENT ? 0 : fd;
		*ret_bad = numbers[i];
	}
	return r;
}

int taken_load(struct taken *t, int layer_fd, struct error *err)
{
	AUTO_CLOSE int held = walk_open_at(layer_fd, "held",
					   O_RDONLY | O_DIRECTORY);
	unsigned number = 0;
	int r;

	*t = (struct taken){0};
	if (held == -ENOENT)
		return 0;
	r = held < 0 ? held : load(t, held, &number);
	if (r < 0) {
		taken_done(t);
		return r == -EUCLEAN ? journal_damaged(number, err) :
				       error_set(err, r, "cannot read what was promoted: %s",
				 strerror(-r));
	}
	return 0;
}

static const struct journal_entry *find(const struct taken *t, const char *path)
{
	return t->cap ? t->table[slot(t, path)] : NULL;
}

bool taken_has(const struct taken *t, const char *path)
{
	const struct journal_entry *e = find(t, path);

	return e && e->state == STATE_PLACED && journal_is_shown(e);
}

bool taken_restored(const struct taken *t, const char *path,
		    const struct stat *st)
{
	const struct journal_entry *e = find(t, path);

	return e && e->state != STATE_PLACED && e->ctime_ns && !e->over_host &&
	       e->old_ino == st->st_ino &&
	       e->ctime_ns == time_ns(&st->st_ctim);
}

bool taken_merged(const struct taken *t, const char *path,
		  const struct stat *upper)
{
	const struct journal_entry *e = find(t, path);

	return e && e->state == STATE_PLACED && e->merged &&
	       time_ns(&upper->st_ctim) <= e->ctime_ns;
}

bool taken_was_new(const struct taken *t, const char *path)
{
	const struct journal_entry *e = find(t, path);

	return e && e->state != STATE_PLACED && e->act == ACT_ADD;
}

static bool has(int held_fd, unsigned number, const char *name)
{
	AUTO_CLOSE int fd = open_number(held_fd, number);

	return fd >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int last_that(int layer_fd,
		     bool (*fits)(int held_fd, unsigned number), unsigned *ret)
{
	AUTO_CLOSE int held = walk_open_at(layer_fd, "held",
					   O_RDONLY | O_DIRECTORY);
	AUTO_FREE unsigned *numbers = NULL;
	size_t n = 0;
	int r;

	*ret = 0;
	if (held < 0)
		return held == -ENOENT ? 0 : held;
	r = read_numbers(held, &numbers, &n);
	for (; r == 0 && n > 0 && *ret == 0; n--) {
		if (fits(held, numbers[n - 1]))
			*ret = numbers[n - 1];
	}
	return r;
}

static bool any(int held_fd, unsigned number)
{
	(void)held_fd;
	return number > 0;
}

static bool is_done(int held_fd, unsigned number)
{
	return has(held_fd, number, "journal.done");
}

static bool is_unfinished(int held_fd, unsigned number)
{
	return !is_done(held_fd, number) &&
	       !has(held_fd, number, "journal.undone");
}

int taken_last(int layer_fd, bool finished, unsigned *ret)
{
	return last_that(layer_fd, finished ? is_done : any, ret);
}

int taken_unfinished(int layer_fd, unsigned *ret)
{
	return last_that(layer_fd, is_unfinished, ret);
}
