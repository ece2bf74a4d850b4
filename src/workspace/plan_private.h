/* Shared by plan.c and git_take.c, which plans what becomes of .git. */
#ifndef PINFOLD_WORKSPACE_PLAN_PRIVATE_H
#define PINFOLD_WORKSPACE_PLAN_PRIVATE_H

#include "workspace/merge.h"
#include "workspace/plan.h"
#include "workspace/stage.h"

/*
 * What becomes of a directory that is new in the source: one that was not asked
 * for waits for something in it that comes; one that was comes too when nothing
 * in it is left.
 */
enum fate { FATE_COMES, FATE_WAITS, FATE_OPENS, FATE_LEFT };

struct above {
	size_t len; /* of its path */
	enum fate fate;
	enum journal_class class;
	bool holds_left; /* something in it is left */
	/* FATE_WAITS, FATE_OPENS; its path is the trail's. */
	struct journal_entry waiting;
};

struct plan {
	struct judge judge;
	struct stage stage;
	struct journal *journal;
	const struct promote_want *want;
	bool copy;
	struct above *above;
	size_t depth, cap;
	struct buf trail; /* the path of the directory on top */
	struct tree upper;
	int upper_fd;
	uint64_t next;
	struct promote_counts counts;
	const struct promote_layer *layer;
	struct git_changes git;
	struct merger merger;
	struct error *err;
};

/* Was path asked for? */
bool plan_is_selected(const struct plan *p, const char *path);

/* Adds to the digest of the decisions. */
void plan_mix(struct plan *p, const void *data, size_t len);

/* Notes a path that is left. 0 or negative. */
int plan_leave(struct plan *p, const struct change *c,
	       enum journal_class class, const char *reason);

/* After the scan: what becomes of the repository. 0 or negative. */
int plan_git(struct plan *p);

#endif
