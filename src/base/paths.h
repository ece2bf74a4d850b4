/* Sets of relative, normal paths in the order of a walk down a tree. */
#ifndef PINFOLD_BASE_PATHS_H
#define PINFOLD_BASE_PATHS_H

#include "base/str.h"

/*
 * The order in which a directory stands before what lies in it, and all of that
 * before its next neighbour.
 */
int path_compare(const char *a, const char *b);

/* Sorts; drops what occurs twice or lies below another one of the set. */
void paths_normalise(struct strlist *paths);

/* Is path one of a normalised set? */
bool paths_have(const struct strlist *paths, const char *path);

/* Is path, or a directory that it lies in, one of a normalised set? */
bool paths_cover(const struct strlist *paths, const char *path);

#endif
