/*
 * Takes a task's changes over into its source, and takes that back. The theory
 * is in docs/design/workspace.md; in short: what comes is made ready beside the
 * source (stage.h), a journal says what is to be done (journal.h), renames do
 * it (place.h). The layer itself is never changed, so that what was promoted is
 * known by the journal alone (taken.h), and an undo has nothing to bring back.
 *
 * The caller holds the task's lock.
 */
#ifndef PINFOLD_WORKSPACE_PROMOTE_H
#define PINFOLD_WORKSPACE_PROMOTE_H

#include "base/error.h"
#include "base/str.h"
#include "workspace/journal.h"
#include "workspace/protect.h"

#include <stdbool.h>
#include <stdint.h>

struct promote_git; /* workspace/git_lab.h */

/* One layer of a task, and what it lies over. */
struct promote_layer {
	int fd;		    /* holds upper/, and held/ once it is promoted */
	int source_fd;	    /* O_PATH */
	const char *source; /* its path */
	bool copied;
	bool is_git; /* a repository, or in one: nothing comes by file */
	/* What has a later change time was changed after the task began. */
	int64_t since_ns;
	/* Of the source's top, before a promotion made its stage in it. */
	int64_t top_ctime_ns;
	const struct protect *protect;
	const struct strlist *deny; /* below it, hidden from the task */
	/* For the source's repository; NULL: it is not taken over. */
	const struct promote_git *git;
};

struct promote_want {
	const struct strlist *only; /* globs; none: all */
	const struct strlist *held; /* paths that are promoted all the same */
	bool merge; /* text files that the host has changed too */
};

struct promote_counts {
	uint64_t added, modified, deleted; /* to be promoted, or promoted */
	uint64_t left[LEAVE_CLASSES];	   /* by enum journal_class */
	uint64_t skipped;    /* changed on the host while it was promoted */
	uint64_t unselected; /* not asked for */
	uint64_t merged;     /* of those modified */
	uint64_t both;	     /* in conflict: files that both sides changed */
	uint64_t bytes;	     /* of what comes */
	uint64_t away;	     /* the host has another branch checked out */
	uint64_t digest;     /* of the decisions: equal plans have equal ones */
};

struct promotion {
	struct journal journal;
	struct journal_head head;
	int held_fd, dir_fd, stage_fd;
	unsigned number;
};

#define PROMOTION_INIT                                                         \
	{.journal = JOURNAL_INIT, .held_fd = -1, .dir_fd = -1, .stage_fd = -1}
#define AUTO_PROMOTION __attribute__((cleanup(promotion_done)))

/*
 * Makes LAYER/held/number. -EOPNOTSUPP where the source's file system cannot
 * exchange two names.
 */
int promote_begin(struct promotion *p, const struct promote_layer *l,
		  unsigned number, struct error *err);
void promotion_done(struct promotion *p);

/*
 * Decides for each change and writes the journal (p->journal is mapped then).
 * copy: also makes ready what comes. May be called again. Reads the layer: an
 * ordinary user does this in its own user namespace, and then only this.
 */
int promote_plan(struct promotion *p, const struct promote_layer *l,
		 const struct promote_want *want, bool copy,
		 struct promote_counts *ret, struct error *err);

/* Maps the journal that another process has written by promote_plan. */
int promote_take_plan(struct promotion *p, struct error *err);

/*
 * Does what the plan says. On an error all of it was taken back (or will be, by
 * promote_recover). What the source changed meanwhile is left alone: such
 * entries are STATE_SKIPPED, and counted in ret.
 */
int promote_commit(struct promotion *p, const struct promote_layer *l,
		   struct promote_counts *ret, struct error *err);

/* Removes a promotion that never began. */
int promote_drop(struct promotion *p, const struct promote_layer *l,
		 struct error *err);

/*
 * Finishes or takes back what was interrupted. 0 with *ret_found: JOURNAL_NONE,
 * or the phase in which it was found. -ENODEV if that needs the source, and it
 * is not there (l->source_fd is -1).
 */
int promote_recover(const struct promote_layer *l,
		    enum journal_phase *ret_found, struct error *err);

/*
 * Takes promotion number of this layer back. p holds its journal then; entries
 * that are STATE_PLACED still could not be, and say why. *ret_left counts them.
 */
int promote_undo(struct promotion *p, const struct promote_layer *l,
		 unsigned number, uint64_t *ret_left, struct error *err);

/* Removes LAYER/held, and what it has in the source. */
int promote_forget(int layer_fd, struct error *err);

#endif
