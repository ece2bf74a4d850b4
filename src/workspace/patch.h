/*
 * One change as text that git apply takes: a unified diff with git's headers.
 * Pure. What such a text cannot say (sizes of binary files, permissions beyond
 * the executable bit, pipes and sockets) stands before it in lines that begin
 * with "# ", which git apply passes over.
 */
#ifndef PINFOLD_WORKSPACE_PATCH_H
#define PINFOLD_WORKSPACE_PATCH_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/types.h>

/* Larger files are told as binary ones, with their size. */
#define PATCH_FILE_MAX (8u << 20)

struct patch_side {
	mode_t mode;	  /* 0: there is none */
	uint64_t size;	  /* of a regular file */
	const char *data; /* content, or a link's target; NULL: see omitted */
	size_t len;
	const char *omitted; /* why there is no content, or NULL */
};

struct patch_change {
	const char *path;
	const char *path_before; /* of the file it was moved from, or NULL */
	const char *held;	 /* why it is held back, or NULL */
	struct patch_side before, after;
};

/* Appends the text of c. 0, -ENOMEM, or -EFBIG when out is full. */
int patch_write(struct buf *out, const struct patch_change *c);

/*
 * Appends a path as git writes it: in double quotes with escapes where a byte
 * is no printable ASCII character, a quote or a backslash. prefix stands before
 * it, inside the quotes.
 */
int patch_path(struct buf *out, const char *prefix, const char *path);

#endif
