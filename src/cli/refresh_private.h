/* Between the files of pinfold refresh. */
#ifndef PINFOLD_CLI_REFRESH_PRIVATE_H
#define PINFOLD_CLI_REFRESH_PRIVATE_H

#include "cli/held.h"
#include "cli/launch.h"
#include "workspace/judge.h"
#include "workspace/refresh_copy.h"

/* What the process that makes the view new has come to; shared with it. */
struct renewed {
	int r;
	struct error err;
	uint64_t kept;	   /* changes of the task's, which stay */
	uint64_t conflicts; /* of these, what the host has changed too */
	struct refresh_counts copied; /* copy mode */
	bool index; /* git's index is the host's now, and the task's kept */
};

struct refresh {
	struct pick pick;
	struct layers layers;
	struct launch launch; /* of it policy, source, state and what is hidden */
	struct front front;
	struct refresh_view view;
	int fds[VIEW_FD_COUNT];
	/* Directories whose mounts are made new: the source, unless it is a
	 * copy, those that may be written, then those that may be read. */
	struct strlist mounts;
	size_t n_writable;
	/* Of git: what the host has checked out; whether the task has a HEAD,
	 * or a value of that, of its own; whether it has an index of its own
	 * from before the host has checked out another commit. */
	struct buf head;
	bool own_head, index;
	int list; /* paths and reasons of the conflicts, in turn (codec) */
	uint64_t until_us; /* monotonic: the view is made until then, or not */
	struct renewed *done;
};

/* In a process of its own, which ends with this: fills x->done and x->list. */
void refresh_view(struct refresh *x);

/*
 * refresh_git.c: what the host has checked out; a change of the task's in .git
 * (rest is its path there); then, with the sandbox's source at top_fd, the
 * index. 0 or negative.
 */
void refresh_git_begin(struct refresh *x);
void refresh_git_note(struct refresh *x, const struct judge *j,
		      const char *rest);
int refresh_git_index(struct refresh *x, int top_fd, struct error *err);

/* More than anybody reads is counted alone. */
#define REFRESH_LISTED_MAX 10000u
#define REFRESH_LIST_MAX (64u << 20)

#endif
