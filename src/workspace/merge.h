/*
 * Three-way merges of text files that the host has changed as well as the task
 * (promote --merge). What both began from is taken to be what git's index of the
 * source has had for the path since before the task began; git itself, confined
 * (git_lab.h), reads all three.
 */
#ifndef PINFOLD_WORKSPACE_MERGE_H
#define PINFOLD_WORKSPACE_MERGE_H

#include "workspace/git_lab.h"

/* Larger files are not merged, nor more of them in one promotion. */
#define MERGE_FILE_MAX (8u << 20)
#define MERGES_MAX 1000

struct merger {
	struct git_changes git; /* the host's repository alone */
	struct git_lab lab;
	int64_t since_ns; /* what both began from is older: of the next file */
	bool opened;
	const char *missing; /* why there is nothing to merge upon, or NULL */
	unsigned n;
	struct buf host, task, base, text; /* text: the last one merged */
};

#define MERGER_INIT                                                            \
	{.git = GIT_CHANGES_INIT, .lab = {.fd = -1},                           \
	 .host = BUF_INIT(MERGE_FILE_MAX), .task = BUF_INIT(MERGE_FILE_MAX),   \
	 .base = BUF_INIT(MERGE_FILE_MAX),                                     \
	 .text = BUF_INIT(3 * MERGE_FILE_MAX)}

/* Removes what it has in the stage. */
void merger_done(struct merger *m);

/*
 * Merges the file of c with what the host has, which is old. 0: m->text is what
 * both sides have changed; 1: it cannot be, and why was said; or negative.
 */
int merge_file(struct merger *m, const struct promote_layer *l, int stage_fd,
	       const struct change *c, const struct stat *old, struct buf *why,
	       struct error *err);

#endif
