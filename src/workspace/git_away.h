/*
 * Has the host another branch, or another commit, checked out than when the task
 * began? Then what the task committed belongs to its own branch and not into
 * the working tree, and these are the paths that it committed. So it is where
 * the host's branch has moved on and the task has left it.
 */
#ifndef PINFOLD_WORKSPACE_GIT_AWAY_H
#define PINFOLD_WORKSPACE_GIT_AWAY_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>

struct judge;

struct git_away {
	bool is;	 /* HEAD is another; where says what it is */
	bool all;	 /* which paths were committed cannot be told */
	bool named;	 /* they come all the same */
	size_t kept;	 /* how many were left for it */
	struct buf where; /* "the host is on other", as it is shown */
	struct strlist paths; /* in order */
};

#define GIT_AWAY_INIT {.where = BUF_INIT(4096)}

void git_away_done(struct git_away *a);

/*
 * Fills j->away for the layer of j, before anything of it is judged. upper_fd is
 * its upper; the look at what was committed happens in stage_fd. A host that is
 * where it was costs a look at HEAD and its branch. 0 or negative.
 */
int git_away_find(struct judge *j, int upper_fd, int stage_fd,
		  struct error *err);

/* Was it committed: path, or where it is a tree something below it? */
bool git_away_has(const struct git_away *a, const char *path, bool tree);

#endif
