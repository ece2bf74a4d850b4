/* Shared by direct*.c alone. */
#ifndef PINFOLD_WORKSPACE_DIRECT_PRIVATE_H
#define PINFOLD_WORKSPACE_DIRECT_PRIVATE_H

#include "base/error.h"
#include "base/str.h"
#include "workspace/tree.h"

/* -E2BIG, with a text that says what else there is. */
int direct_too_many(struct error *err);

/*
 * Moves paths out of a source into the layer task_fd/upper. Within one mount each
 * is renamed at once. Between two it is copied, and stays in the source until
 * mover_flush.
 */
struct mover {
	int task_fd, source_fd; /* not owned */
	int upper_fd;
	struct tree tree;    /* of the source */
	struct strlist gone; /* "INODE PATH": copied, and to be removed */
	struct error *err;
};


/*
 * Opens the layer, which may be missing, and ends what an earlier mover had begun
 * to remove. 0 or negative.
 */
int mover_init(struct mover *m, int task_fd, int source_fd, struct error *err);
void mover_done(struct mover *m);

/* name in dir_fd is path. One that is missing is success. 0 or an error. */
int mover_move(struct mover *m, int dir_fd, const char *name, const char *path);

/* Removes from the source what was copied, once that is on the disk. */
int mover_flush(struct mover *m);

/* "cannot WHAT PATH: reason"; returns code. */
int mover_fail(const struct mover *m, int code, const char *what,
	       const char *path);

/*
 * Copies name of from_fd, a tree of any shape, to to_name, which does not exist,
 * in to_fd: owners, permissions without set-id bits, times, user.* attributes
 * (those of overlayfs left out), holes and hard links; sockets and FIFOs as new
 * ones. 0 or an error.
 */
int direct_copy(int from_fd, const char *name, int to_fd, const char *to_name,
		struct error *err);

#endif
