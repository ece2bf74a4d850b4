/* Who a command is, inside its sandbox and as the host sees it. */
#ifndef PINFOLD_CLI_IDENTITY_H
#define PINFOLD_CLI_IDENTITY_H

#include "base/error.h"
#include "tier/spec.h"

/*
 * Fills ids, maps, user name and home for the caller. id is the task's: each
 * task of root has a host id of its own. -ENOENT where identity "range" lacks
 * subordinate ids (the text gives the line to add).
 */
int identity_fill(struct sandbox_spec *s, enum policy_identity identity,
		  const char *id, struct error *err);

/* User name and home inside alone; what a later exec needs. 0 or -ENOMEM. */
int identity_names(struct sandbox_spec *s, struct error *err);

/* The caller's home with links resolved; "/nonexistent" when there is none. */
const char *launch_home(void);

#endif
