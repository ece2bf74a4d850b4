/*
 * The host's newer files for a task that works on a copy, while nothing runs in
 * its sandbox.
 */
#ifndef PINFOLD_WORKSPACE_REFRESH_COPY_H
#define PINFOLD_WORKSPACE_REFRESH_COPY_H

#include "base/error.h"
#include "workspace/hide.h"

#include <stdint.h>

/* Beside upper/: where files are made before they take their place. */
#define REFRESH_STAGE "fresh"

struct refresh_counts {
	uint64_t brought, removed; /* files, links and directories */
};

/*
 * Gives the copy layer_fd/upper what the source has changed since it was made,
 * as far as the task has left its own alone: an entry that both have changed
 * stays as the task has it, and stays in the manifest as what it was, so that a
 * promotion finds the conflict. What hide names is not brought. Each file is
 * the old or the new one at any moment. The manifest of what the copy is then
 * is MANIFEST_NEW, for the keeper to move into place; until it does, what was
 * brought counts as changes that both sides have made alike. 0 or an error.
 */
int refresh_copy(int layer_fd, int source_fd, const struct hide *hide,
		 struct refresh_counts *ret, struct error *err);

#endif
