/*
 * Changes in the order of their paths, however many there are: in memory up to
 * SORTED_MEMORY, beyond that as sorted runs in a file without a name, which are
 * merged when they are read. Memory is SORTED_MEMORY, SORTED_READ for each of
 * at most SORTED_RUNS runs, and the longest path for each.
 */
#ifndef PINFOLD_CLI_SORTED_H
#define PINFOLD_CLI_SORTED_H

#include "workspace/changes.h"

#include <stddef.h>
#include <sys/types.h>

#define SORTED_MEMORY (8u << 20)
#define SORTED_READ 65536u
#define SORTED_RUNS 64

struct sorted_run {
	off_t at, end; /* in the file */
};

struct sorted {
	int dir_fd; /* where the file is made; the caller's */
	int file;   /* -1: everything is in memory */
	off_t file_end;
	char *data; /* packed changes */
	size_t len, cap;
	size_t *order; /* where each begins in data */
	size_t n, order_cap;
	struct sorted_run runs[SORTED_RUNS];
	size_t n_runs;
	size_t memory; /* SORTED_MEMORY; less in tests */
	int (*compare)(const char *a, const char *b); /* strcmp, or path_compare */
	int failed; /* what sorted_add returned first, if not 0 */
};

#define AUTO_SORTED __attribute__((cleanup(sorted_done)))

void sorted_init(struct sorted *s, int dir_fd);
void sorted_done(struct sorted *s);

/* A change_fn: arg is the struct sorted. 0 or a negative errno, which every
 * later call and sorted_each return too. */
int sorted_add(void *arg, const struct change *c);

/*
 * Calls fn for every change, ordered by the bytes of the path (or compare). What fn returned
 * if not 0, or a negative errno.
 */
int sorted_each(struct sorted *s, change_fn *fn, void *arg);

#endif
