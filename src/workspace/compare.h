/* Is a file still what it was? By content, within a budget. */
#ifndef PINFOLD_WORKSPACE_COMPARE_H
#define PINFOLD_WORKSPACE_COMPARE_H

#include <stdint.h>

/*
 * Compares the regular files a_fd/name and b_fd/name of size bytes each. 1 if
 * they are equal, 0 if not or if it cannot be told: one is no regular file of
 * that size any more, cannot be read, or is beyond per_file or *budget, from
 * which what was read is taken.
 */
int compare_files(int a_fd, int b_fd, const char *name, uint64_t size,
		  uint64_t per_file, uint64_t *budget);

/* Likewise the targets of two symbolic links. */
int compare_links(int a_fd, int b_fd, const char *name);

#endif
