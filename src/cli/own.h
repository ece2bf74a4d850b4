/*
 * Reaching one's own files whatever their modes: an agent can leave directories
 * that it closed to everybody, its user included.
 */
#ifndef PINFOLD_CLI_OWN_H
#define PINFOLD_CLI_OWN_H

#include "base/error.h"

/*
 * Puts this process, which must have one thread, into a user namespace of its
 * own in which the caller's user and group are mapped to themselves: there it
 * may read and search all files of that user and group, and nothing more than
 * before. 0, or negative where user namespaces are blocked.
 */
int own_enter(struct error *err);

/*
 * Runs fn in a process apart that has done so, and waits for it: what fn leaves in
 * memory is lost but what is shared. Where namespaces are blocked fn runs there
 * all the same, and a closed file is an error, by name. What fn returned, or an
 * error of ours.
 */
int own_apart(int (*fn)(void *arg, struct error *err), void *arg,
	      struct error *err);

#endif
