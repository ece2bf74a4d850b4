/*
 * Puts what a journal plans into the source, and takes it out again. Each path
 * is changed by one rename, so that whoever looks sees one side or the other;
 * what was there goes into the stage by the same rename. Every step can be
 * repeated: inode numbers tell what was done. What the host changed meanwhile
 * is left as it is and its entry says so.
 */
#ifndef PINFOLD_WORKSPACE_PLACE_H
#define PINFOLD_WORKSPACE_PLACE_H

#include "base/error.h"
#include "workspace/journal.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Does, or finishes, all that the journal plans. first: nothing was done yet;
 * then -EBUSY if a repository is locked, and -ESTALE if a reference of it, or
 * its index, is not what the journal wants to replace. Negative: that, or a
 * system call failed (the text names the path); what was done is still there.
 */
int place_forward(struct journal *j, int source_fd, int stage_fd, bool first,
		  struct error *err);

/*
 * Takes back all that was done, last things first. undo: what changed in the
 * source since it was placed stays (its state stays STATE_PLACED, and why says
 * what happened); else only what was replaced since. *ret_left counts these.
 */
int place_back(struct journal *j, int source_fd, int stage_fd, bool undo,
	       uint64_t *ret_left, struct error *err);

/* Removes the numbered entries of what is in the source again. */
int place_clean(struct journal *j, int stage_fd, struct error *err);

#endif
