/*
 * Taking back single paths of a task's changes: what the layer has of a path is
 * removed, and where that would not show what the source has, the layer is made
 * to.
 */
#ifndef PINFOLD_WORKSPACE_RESTORE_H
#define PINFOLD_WORKSPACE_RESTORE_H

#include "base/error.h"

#include <stdbool.h>

/*
 * Gives path (relative, normal; "" for all) below layer_fd/upper back to the
 * state of the source (source_fd; -1: there is none), with all that lies below
 * it. The task must have ended and its lock be held: nobody else writes there,
 * but nothing of what the task made is trusted. In copy mode what is restored is
 * copied from the source; a file that the host has changed since the copy was
 * made is an error (-ESTALE), and the layer stays as it was. A path that is no
 * change is success. -ENOTDIR where a part of path is a file in the layer. An
 * interruption leaves each path at one side or the other; of a directory that
 * was deleted as a whole it may have given back all.
 */
int restore_path(int layer_fd, int source_fd, bool copied, const char *path,
		 struct error *err);

#endif
