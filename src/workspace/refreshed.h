/*
 * What a layer held when its sandbox was last given the host's newer files
 * (pinfold refresh): of these paths the task has not seen what the host made of
 * them since the task began; of all others it has. So this tells for each path
 * since when a change of the host's is a conflict.
 *
 * A file "refreshed" beside upper/, in the form of a manifest, whose time of
 * modification is the time of the refresh. The keeper moves it into place, once
 * the new view is there and before anything runs in it.
 */
#ifndef PINFOLD_WORKSPACE_REFRESHED_H
#define PINFOLD_WORKSPACE_REFRESHED_H

#include "base/error.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stdint.h>

#define REFRESHED_FILE "refreshed"
#define REFRESHED_NEW "refreshed.new"

struct refreshed {
	struct manifest list;
	bool known;	  /* there was a refresh */
	int64_t start_ns; /* when the task began */
	int64_t base_ns;  /* of paths that are not listed */
};

#define AUTO_REFRESHED __attribute__((cleanup(refreshed_done)))

/*
 * Reads the one of a layer. One that is missing or damaged is none: then all
 * that the host has changed since the task began counts.
 */
void refreshed_open(struct refreshed *r, int layer_fd, int64_t start_ns);
void refreshed_done(struct refreshed *r);

/*
 * The time that a change of the host's to path (relative to the source) must be
 * later than to be unknown to the task.
 */
int64_t refreshed_since(const struct refreshed *r, const char *path);

/*
 * The kernel's time, as it gives it to files beside the layer: taken before the
 * view is renewed. 0 or negative.
 */
int refreshed_now(int layer_fd, int64_t *ret_ns, struct error *err);

/*
 * Lists in REFRESHED_NEW what the layer's upper/ holds now, in which nobody
 * writes; was is the list before. Of a copy, whose manifest is given, what of its
 * repository is another than that has: a copy's other files are known by it.
 * anew: a path that is not listed, because it is the host's again; NULL: none.
 * Memory is flat. 0 or negative.
 */
int refreshed_write(int layer_fd, const struct refreshed *was, int64_t now_ns,
		    const struct manifest *copy, const char *anew,
		    struct error *err);

#endif
