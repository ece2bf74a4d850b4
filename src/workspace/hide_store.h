/*
 * Layers that hide (workspace/hide.h), kept on disk under the digest of what is in
 * them: thousands of paths are hidden from the next task at no cost.
 */
#ifndef PINFOLD_WORKSPACE_HIDE_STORE_H
#define PINFOLD_WORKSPACE_HIDE_STORE_H

#include "base/error.h"
#include "base/sha256.h"
#include "workspace/hide.h"

/* Fewer paths are quicker made anew than looked up. */
#define HIDE_STORE_LEAST 64
/* More layers than this are not kept, unless they are in use. */
#define HIDE_STORE_MOST 32

/*
 * The layer for h below dir_fd, made if it is not there. The descriptor holds it:
 * while it, or one by hide_store_hold, is open, nobody removes the layer. A
 * negative errno where a layer cannot be kept there (a file system without
 * whiteouts, no space): then it has to be made elsewhere.
 */
int hide_store_open(int dir_fd, const struct hide *h,
		    const struct hide_ids *ids, char ret_name[SHA256_HEX_SIZE],
		    struct error *err);

/* Holds a layer that somebody else holds, by its path. Descriptor or negative. */
int hide_store_hold(const char *path, struct error *err);

#endif
