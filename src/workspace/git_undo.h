/* What an undo has to know of a repository. */
#ifndef PINFOLD_WORKSPACE_GIT_UNDO_H
#define PINFOLD_WORKSPACE_GIT_UNDO_H

#include "workspace/journal.h"
#include "workspace/promote.h"

/*
 * A host's index is written anew by every look at the tree. So what goes back
 * into its place is made now: the index as it is, with the commits exchanged.
 * Where the host has moved on, it is left alone. Changes the journal's entry
 * and what is staged for it. 0 or negative.
 */
int git_undo_prepare(struct journal *j, const struct promote_layer *l,
		     int stage_fd, struct error *err);

#endif
