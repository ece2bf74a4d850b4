/* "Did you mean": the word of a list that was most likely meant. */
#ifndef PINFOLD_BASE_NEAR_H
#define PINFOLD_BASE_NEAR_H

#include <stddef.h>

/* Words longer than this are never near anything. */
#define NEAR_WORD_MAX 64

/*
 * How many single letters have to be inserted, removed, replaced or swapped
 * with their neighbour to make b of a; NEAR_WORD_MAX + 1 if one is too long.
 * Case, and which of "-" and "_" it is, make no difference.
 */
size_t near_distance(const char *a, const char *b);

/*
 * Keeps in *best the candidate that is nearest to word, if it is near enough
 * to be meant: at most a third of the word's letters differ, and one always
 * may; or it begins with the word, of three letters at least. *best starts as NULL; the first of equally near ones stays.
 */
void near_consider(const char *word, const char *candidate, const char **best);

#endif
