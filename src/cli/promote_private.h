/* Shared by the two files that implement pinfold promote. */
#ifndef PINFOLD_CLI_PROMOTE_PRIVATE_H
#define PINFOLD_CLI_PROMOTE_PRIVATE_H

#include "cli/held.h"
#include "cli/promote_ref.h"
#include "cli/report.h"
#include "cli/words.h"
#include "schema/json.h"

/* One layer on its way. */
struct step {
	struct promotion promotion;
	struct strlist only, held; /* below this layer */
	struct promote_want want;
	struct promote_counts counts;
	bool wanted;
	bool begun;
};

struct promote {
	struct state state;
	struct pick pick;
	struct words words; /* paths to promote; none: all */
	struct layers layers;
	struct step *steps;
	struct report report;
	struct json_writer json;
	unsigned number;
	struct promote_counts total;
	bool merge; /* what the host has changed too */
	bool dry;   /* it is only shown */
	bool asked; /* the plan was shown */
	struct buf folded; /* a repository of which one line was shown */
	bool done;
};

/* How many changes are, or were, to be promoted. */
uint64_t promote_to_do(const struct promote *p);

/* Shows the plan and asks. 1: go on, 0: no, negative: there is nobody to ask. */
int promote_ask(struct promote *p, struct error *err);

/*
 * A path or pattern that means no change may have been mistyped: -ENOENT by its
 * name. After planning.
 */
int promote_check_only(struct promote *p, struct error *err);

/* -ENOENT with a text for a path of --held that is no change. */
int promote_check_held(struct promote *p, struct error *err);

/* Says of what --held names why it would have stayed, or why it stays. */
int promote_warn(struct promote *p, struct error *err);

/* What was done and what not. Returns the exit status of the output. */
int promote_show(struct promote *p);

#endif
