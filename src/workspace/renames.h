/*
 * Which added files are deleted ones under another name, by their content. The
 * work is bounded: RENAMES_MAX files of each kind and RENAMES_BYTES of content
 * are looked at; what lies beyond is told as added and deleted.
 */
#ifndef PINFOLD_WORKSPACE_RENAMES_H
#define PINFOLD_WORKSPACE_RENAMES_H

#include "base/sha256.h"
#include "workspace/changes.h"
#include "workspace/tree.h"

#include <stddef.h>
#include <stdint.h>

#define RENAMES_MAX 8192
#define RENAMES_BYTES ((uint64_t)128 << 20)

struct renames_file {
	char *path;
	uint64_t size;
	bool read;
	uint8_t digest[SHA256_SIZE];
	const char *other; /* the path of its counterpart, or NULL */
};

struct renames {
	struct tree upper, below;
	bool has_below;
	struct renames_file *added, *deleted;
	size_t n_added, n_deleted;
};

#define AUTO_RENAMES __attribute__((cleanup(renames_done)))

/* upper_fd and below_fd (-1: none) are the two trees; they stay the caller's. */
void renames_init(struct renames *r, int upper_fd, int below_fd);
void renames_done(struct renames *r);

/*
 * A change_fn: arg is the struct renames. Notes what may be a side of a rename;
 * of a deleted directory, the files that it had. 0 or -ENOMEM.
 */
int renames_add(void *arg, const struct change *c);

/* Finds the pairs, when all was added. */
void renames_find(struct renames *r);

/* What an added file was called before; what a deleted one is called now. */
const char *renames_from(const struct renames *r, const char *path);
const char *renames_to(const struct renames *r, const char *path);

#endif
