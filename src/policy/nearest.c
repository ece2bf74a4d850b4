/*
 * "Did you mean": the nearest known name by edit distance (insertions,
 * deletions, replacements, swaps of neighbours), case and '-' or '_' aside.
 */
#include "policy/field.h"

#include <string.h>

#define WORD_MAX 40

static unsigned char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned char)(c - 'A' + 'a');
	return (unsigned char)(c == '-' ? '_' : c);
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Optimal string alignment distance of two words of at most WORD_MAX. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][WORD_MAX + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= m; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *spare = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned char x = fold(a[i - 1]), y = fold(b[j - 1]);

			row[j] = least(last[j] + 1, row[j - 1] + 1,
				       last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == fold(b[j - 2]) &&
			    fold(a[i - 2]) == y && before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[m];
}

bool name_is_near(const char *name, const char *word, unsigned *ret_distance)
{
	size_t n = strlen(name), m = strnlen(word, WORD_MAX + 1);
	size_t longer = n > m ? n : m;

	if (n > WORD_MAX || m > WORD_MAX || m == 0)
		return false;
	*ret_distance = distance(name, n, word, m);
	return *ret_distance <= (longer < 4 ? 1 : longer / 3 < 3 ? longer / 3
								 : 3);
}

const char *name_nearest(const char *const *names, const char *word)
{
	const char *best = NULL;
	unsigned best_distance = 0, d;

	for (size_t i = 0; names[i]; i++) {
		if (!name_is_near(names[i], word, &d) ||
		    (best && d >= best_distance))
			continue;
		best = names[i];
		best_distance = d;
	}
	return best;
}

/* The part of a field's name below section, NULL if it is not directly there. */
static const char *part_below(const char *name, const char *section)
{
	size_t n = strlen(section);

	if (n > 0) {
		if (strncmp(name, section, n) != 0 || name[n] != '.')
			return NULL;
		name += n + 1;
	}
	return strchr(name, '.') ? NULL : name;
}

const char *field_nearest(const char *section, const char *word)
{
	const char *best = NULL;
	unsigned best_distance = 0, d;

	for (size_t i = 0; i < n_policy_fields; i++) {
		const char *name = policy_fields[i].name;
		const char *part = part_below(name, section);

		if (!part || !name_is_near(part, word, &d) ||
		    (best && d >= best_distance))
			continue;
		best = name;
		best_distance = d;
	}
	/* The right name in the wrong place. */
	for (size_t i = 0; !best && i < n_policy_fields; i++) {
		const char *name = policy_fields[i].name;
		const char *dot = strrchr(name, '.');

		if (!strcmp(dot ? dot + 1 : name, word))
			best = name;
	}
	return best;
}
