/*
 * The layer that hides (workspace/hide.h) of a task that runs and is given the
 * host's newer files: what is to be hidden may be other files now.
 */
#ifndef PINFOLD_WORKSPACE_HIDE_RENEW_H
#define PINFOLD_WORKSPACE_HIDE_RENEW_H

#include "base/error.h"
#include "workspace/hide.h"

/*
 * Makes the layer dir_fd/name one for h: each name at its top changes places
 * with a new one that was made whole, so that at no moment anything is shown that
 * both hide. 0 or an error that names a path.
 */
int hide_renew(int dir_fd, const char *name, const struct hide *h,
	       const struct hide_ids *ids, struct error *err);

/*
 * Does the layer hide all of h already? Another layer is no way out where
 * this one is used by others too. *ret_path: what it does not; valid as h is.
 */
bool hide_covers(int layer_fd, const struct hide *h, const char **ret_path);

#endif
