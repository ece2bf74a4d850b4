/*
 * What is to come into the source, made ready beside it: one entry for each
 * number, so that a single rename puts it into its place.
 */
#ifndef PINFOLD_WORKSPACE_STAGE_H
#define PINFOLD_WORKSPACE_STAGE_H

#include "base/buf.h"
#include "workspace/changes.h"
#include "workspace/journal.h"
#include "workspace/links.h"
#include "workspace/tree.h"

#include <stdbool.h>
#include <stdint.h>

#define STAGE_NAME_SIZE 24

struct stage {
	int fd; /* the directory of the numbered entries; not owned */
	struct links links;
	bool no_clone;
};

#define STAGE_INIT {.fd = -1}
#define AUTO_STAGE __attribute__((cleanup(stage_done)))

void stage_done(struct stage *s);
void stage_name(uint64_t number, char name[STAGE_NAME_SIZE]);

/*
 * Copies at's entry, of the type in mode, to number e->number: content with its
 * holes, user.* attributes (those of overlayfs left out), permissions without
 * set-id bits, times. A directory comes empty, and open to its owner. Files that
 * are one file in the layer become one. Fills what e says of what comes. 0, or
 * negative: -ESTALE when it is not of that type any more.
 */
int stage_copy(struct stage *s, const struct change_place *at, mode_t mode,
	       struct journal_entry *e);

/* As stage_copy for a file, with this content instead of its own, and new times. */
int stage_text(struct stage *s, const struct change_place *at, mode_t mode,
	       const struct buf *text, struct journal_entry *e);

/*
 * Gives what was staged the owner, the group and the access list that it has to
 * have: of what it replaces, else of the directory that it comes into; nobody's
 * set-id bits but a directory's own set-group-id. What cannot be had marks the
 * entry as skipped and says why. To be called for the entries in their order. 0
 * or negative.
 */
struct dresser {
	struct tree tree; /* the source */
	int stage_fd;
	int parent_fd; /* the directory of the last entry that exists */
	unsigned long parent_moves; /* of the tree, when it was reached */
	unsigned parent_uid, parent_gid;
	mode_t parent_mode;
	bool parent_closed;
	bool root; /* may give files to others */
	bool lists;	    /* the file systems have access lists */
	size_t default_len; /* of that directory's default list */
	char default_list[4096];
};

void dresser_init(struct dresser *d, int source_fd, int stage_fd);
void dresser_done(struct dresser *d);
int dresser_dress(struct dresser *d, struct journal_entry *e);

#endif
