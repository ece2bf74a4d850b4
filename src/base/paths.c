#include "base/paths.h"

#include <stdlib.h>
#include <string.h>

int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	/* A slash is less than any byte of a name. */
	if (*a == '/' && *b && *b != '/')
		return -1;
	if (*b == '/' && *a && *a != '/')
		return 1;
	return (unsigned char)*a - (unsigned char)*b;
}

static int compare(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

static bool is_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}

/* How many items from the first on are in order. */
static size_t run_length(char *const *items, size_t n)
{
	size_t i = 1;

	while (i < n && path_compare(items[i - 1], items[i]) <= 0)
		i++;
	return i;
}

static void merge(char *const *a, size_t n_a, char *const *b, size_t n_b,
		  char **to)
{
	while (n_a > 0 && n_b > 0) {
		bool first = path_compare(*a, *b) <= 0;

		*to++ = first ? *a++ : *b++;
		n_a -= first;
		n_b -= !first;
	}
	memcpy(to, n_a > 0 ? a : b, (n_a + n_b) * sizeof(*to));
}

/* Merges neighbouring runs once; how many pairs there were. */
static size_t merge_runs(char **items, size_t n, char **room)
{
	size_t pairs = 0;

	for (size_t at = 0; at < n;) {
		size_t a = run_length(items + at, n - at);
		size_t b = n - at - a;

		if (b == 0)
			break;
		b = run_length(items + at + a, b);
		merge(items + at, a, items + at + a, b, room);
		memcpy(items + at, room, (a + b) * sizeof(*items));
		at += a + b;
		pairs++;
	}
	return pairs;
}

/* Sets are mostly made of a few parts that are in order: these are merged. */
static void sort(struct strlist *paths)
{
	char **room;

	if (run_length(paths->items, paths->n) == paths->n)
		return;
	room = reallocarray(NULL, paths->n, sizeof(*room));
	if (!room) {
		qsort(paths->items, paths->n, sizeof(*paths->items), compare);
		return;
	}
	while (merge_runs(paths->items, paths->n, room) > 0)
		;
	free(room);
}

void paths_normalise(struct strlist *paths)
{
	size_t kept = 0;

	if (paths->n == 0)
		return;
	sort(paths);
	for (size_t i = 1; i < paths->n; i++) {
		if (is_within(paths->items[i], paths->items[kept]))
			free(paths->items[i]);
		else
			paths->items[++kept] = paths->items[i];
	}
	paths->n = kept + 1;
	paths->items[paths->n] = NULL;
}

bool paths_have(const struct strlist *paths, const char *path)
{
	return paths->n > 0 && bsearch(&path, paths->items, paths->n,
				       sizeof(*paths->items), compare);
}

bool paths_cover(const struct strlist *paths, const char *path)
{
	size_t low = 0, high = paths->n;

	/* The last one that does not come behind path: it, or what holds it. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (path_compare(paths->items[middle], path) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && is_within(path, paths->items[low - 1]);
}
