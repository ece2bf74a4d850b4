/*
 * Reaching paths below one directory, in the order of a walk: the directory
 * that was reached last is held, so that the next path costs the difference.
 * Never through a link or into another mount; paths may be longer than
 * PATH_MAX.
 */
#ifndef PINFOLD_WORKSPACE_TREE_H
#define PINFOLD_WORKSPACE_TREE_H

#include "base/buf.h"

struct tree {
	int top_fd; /* not owned */
	int dir_fd; /* of path; -1: none is held */
	struct buf path;
	unsigned long moves; /* counts how often another one was reached */
};

#define AUTO_TREE __attribute__((cleanup(tree_done)))

void tree_init(struct tree *t, int top_fd);
void tree_done(struct tree *t);

/*
 * The directory that holds path (O_PATH, owned by t, valid until the next call)
 * and path's name in it, which points into path. "." is the top itself.
 * Descriptor or negative errno: -ENOTDIR or -ELOOP where there is no directory
 * any more, -EXDEV for another mount.
 */
int tree_parent(struct tree *t, const char *path, const char **ret_name);

/* Forgets the directory that is held: something above it was moved. */
void tree_forget(struct tree *t);

#endif
