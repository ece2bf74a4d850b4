/* A source that is written at once (files.workspace: direct). */
#ifndef PINFOLD_CLI_DIRECT_H
#define PINFOLD_CLI_DIRECT_H

#include "cli/launch.h"
#include "cli/pick.h"

/*
 * Refuses what cannot be had; finds what is to be pinned and covered and puts it
 * into the plan, and into the task's directory and the list of what is to be
 * finished. 0 or negative.
 */
int direct_prepare(struct launch *l, struct error *err);

/*
 * Writes the task's policy.json, from which on a command may have run: whole, and
 * with all that direct_prepare wrote on the disk. 0 or negative.
 */
int direct_begin(const struct launch *l, struct error *err);

/*
 * Moves what is held back out of the source, and says so, for a run whose
 * processes have ended. 0 or negative: then the next command tries again.
 */
int direct_finish(const struct launch *l, struct error *err);

/*
 * The same for a task that nobody finished, and of which pick_policy has been
 * called. The caller holds its lock. -ENODEV: its source is not there.
 */
int direct_recover(const struct pick *p, struct error *err);

/* -EBUSY, with a text, for one of which that has failed. */
int direct_check_settled(const struct pick *p, struct error *err);

/* Is the task one that writes its source at once? Says so, if it is. */
bool direct_is(const struct pick *p);
void direct_say(const struct pick *p);

#endif
