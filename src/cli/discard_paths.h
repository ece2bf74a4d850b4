/* pinfold discard with paths: a part of what one task changed. */
#ifndef PINFOLD_CLI_DISCARD_PATHS_H
#define PINFOLD_CLI_DISCARD_PATHS_H

#include "base/error.h"
#include "cli/pick.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Gives the n words, paths of p's task, back to the state of the source. Asks,
 * unless yes. 1 with the number of changes in ret_n, 0 when the answer was no, or
 * negative: a word without a change is -ENOENT and nothing is done.
 */
int discard_paths(struct pick *p, char *const *words, size_t n, bool yes,
		  uint64_t *ret_n, struct error *err);

#endif
