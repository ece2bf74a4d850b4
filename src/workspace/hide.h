/*
 * What of its source a task does not see, or sees differently: one layer that lies
 * over the source, with a whiteout for each hidden path and the directories on the
 * way there, as the source has them (an overlay shows a directory as its uppermost
 * layer has it).
 */
#ifndef PINFOLD_WORKSPACE_HIDE_H
#define PINFOLD_WORKSPACE_HIDE_H

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "ipc/codec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HIDE_PATHS_MAX 60000
#define HIDE_DIRS_MAX 200000

struct hide_dir {
	char *path;
	uint32_t mode; /* permissions */
	uint32_t uid, gid;
	uint64_t mtime_ns;
};

struct hide {
	struct strlist paths; /* relative, in order (base/paths.h) */
	char *git_config; /* shown as .git/config; NULL: the source's own */
	struct hide_dir *dirs; /* each after the one that it lies in */
	size_t n_dirs, cap_dirs;
};

#define AUTO_HIDE __attribute__((cleanup(hide_done)))

void hide_done(struct hide *h);
bool hide_is_empty(const struct hide *h);

/* How the ids of files in the source are to be in the layer. */
struct hide_ids {
	uint32_t owner_uid, owner_gid; /* of the source */
	uint32_t layer_uid, layer_gid; /* what these are in the layer */
	uint32_t all; /* other ids can be given; else such a directory gives its
		   * owner and group what it gives to others */
};

/*
 * Fills dirs for paths and git_config. A directory that the source does not have
 * is of its owner uid and gid, 0755. 0; -E2BIG; an error that names the directory.
 */
int hide_look(struct hide *h, int source_fd, uint32_t uid, uint32_t gid,
	      struct error *err);

/* Makes the layer in an empty directory. 0 or an error that names a path. */
int hide_make(int layer_fd, const struct hide *h, const struct hide_ids *ids,
	      struct error *err);

int hide_put(struct buf *b, const struct hide *h);
void hide_get(struct codec_reader *r, struct hide *h);

#endif
