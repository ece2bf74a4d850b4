#include "base/near.h"

#include <stdbool.h>
#include <string.h>

#define PREFIX_MIN 3

/* Case, and which of "-" and "_" it is, make no difference. */
static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

static size_t min3(size_t a, size_t b, size_t c)
{
	if (b < a)
		a = b;
	return c < a ? c : a;
}

/* Optimal string alignment, kept in the last three rows of its table. */
size_t near_distance(const char *a, const char *b)
{
	size_t rows[3][NEAR_WORD_MAX + 1];
	size_t *above2 = rows[0], *above = rows[1], *row = rows[2];
	size_t n = strlen(a), m = strlen(b);

	if (n > NEAR_WORD_MAX || m > NEAR_WORD_MAX)
		return NEAR_WORD_MAX + 1;
	memset(rows, 0, sizeof(rows));
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *freed = above2;

		above2 = above;
		above = row;
		row = freed;
		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			char x = fold(a[i - 1]), y = fold(b[j - 1]);

			row[j] = min3(above[j - 1] + (x != y), above[j] + 1,
				      row[j - 1] + 1);
			if (i > 1 && j > 1 && x == fold(b[j - 2]) &&
			    y == fold(a[i - 2]) && above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return row[m];
}

/* Who writes the beginning of a word has not mistyped the rest. */
static bool begins(const char *word, const char *candidate)
{
	size_t n = 0;

	while (word[n] && fold(word[n]) == fold(candidate[n]))
		n++;
	return n >= PREFIX_MIN && !word[n];
}

void near_consider(const char *word, const char *candidate, const char **best)
{
	size_t allowed = strlen(word) / 3;
	size_t distance = near_distance(word, candidate);

	if (!begins(word, candidate) &&
	    (distance > (allowed > 0 ? allowed : 1) ||
	     distance >= strlen(candidate)))
		return;
	if (!*best || distance < near_distance(word, *best))
		*best = candidate;
}
