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

void paths_normalise(struct strlist *paths)
{
	size_t kept = 0;

	if (paths->n == 0)
		return;
	qsort(paths->items, paths->n, sizeof(*paths->items), compare);
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
