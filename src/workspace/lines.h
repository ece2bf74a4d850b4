/*
 * Which lines of two texts differ: the shortest way from one to the other where
 * it is found with bounded work, some way where it is not. Pure: touches nothing
 * but memory.
 */
#ifndef PINFOLD_WORKSPACE_LINES_H
#define PINFOLD_WORKSPACE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More lines on one side are not compared (-EFBIG). */
#define LINES_MAX 1000000

struct lines {
	const char *text; /* not owned */
	uint32_t *start;  /* of line i; start[n] is the end of the text */
	bool *changed;	  /* line i is not in the other text */
	uint32_t *id;	  /* equal for equal lines of both texts */
	uint32_t n;
};

#define AUTO_LINES __attribute__((cleanup(lines_done)))

/*
 * Splits both texts (below 2 GiB; a line ends with its newline, the last one may
 * have none) and marks what differs: the lines that are not marked are the same
 * in the same order. Work and memory grow with the number of lines times a
 * constant, however the texts are made. 0, -ENOMEM or -EFBIG; a and b are to be
 * done with in any case.
 */
int lines_compare(struct lines *a, const char *a_text, size_t a_len,
		  struct lines *b, const char *b_text, size_t b_len);
void lines_done(struct lines *l);

#endif
