/*
 * What a promotion would do, for who only looks: the same plan, in a directory
 * of its own beside the layer, which goes with it.
 */
#ifndef PINFOLD_WORKSPACE_PLAN_VIEW_H
#define PINFOLD_WORKSPACE_PLAN_VIEW_H

#include "workspace/git_lab.h"
#include "workspace/promote.h"

struct plan_view {
	struct journal journal;
	struct journal_entry **entries; /* in the order of paths */
	size_t n;
	struct promote_counts counts;
	int layer_fd; /* not owned */
	int dir_fd;
	char name[32]; /* of the directory in the layer's; "": none */
};

#define PLAN_VIEW_INIT {.journal = JOURNAL_INIT, .layer_fd = -1, .dir_fd = -1}

/* Plans for the whole layer. 0 or negative; plan_view_done in both cases. */
int plan_view_open(struct plan_view *v, const struct promote_layer *l,
		   struct error *err);
void plan_view_done(struct plan_view *v);

/* What becomes of a path, or NULL: nothing is known of it. */
const struct journal_entry *plan_view_find(const struct plan_view *v,
					   const char *path);

#define COMMITS_SHOWN_MAX (16u << 20)

/* Is the reference .git/NAME, by this path, asked for? */
typedef bool commits_want_fn(void *arg, const char *path);

/*
 * A reference with the log and the patch of the commits that it brings, as git
 * prints them: bytes of others. cut: it is longer than COMMITS_SHOWN_MAX, or git
 * failed on the way. why: git's words where it showed nothing, else NULL.
 */
typedef int commits_show_fn(void *arg, const struct git_ref *r,
			    const struct buf *text, bool cut, const char *why);

/*
 * Shows the references of the layer's repository that the task changed, whether
 * they could be promoted or not, until show returns other than 0. What they hold
 * is read by git, confined, and not checked. 0; 1 when that cannot be, with the
 * reason; or negative.
 */
int commits_show(const struct promote_layer *l, commits_want_fn *want,
		 commits_show_fn *show, void *arg, struct buf *why,
		 struct error *err);

#endif
