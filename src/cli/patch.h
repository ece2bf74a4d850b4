/*
 * Changes as a patch: opens the files of each, which it does not look into, and
 * has pinfold-diff compare them. If that dies of a file, the file is told as not
 * compared, and another one goes on with the next.
 */
#ifndef PINFOLD_CLI_PATCH_H
#define PINFOLD_CLI_PATCH_H

#include "base/error.h"
#include "workspace/changes.h"
#include "workspace/tree.h"

#include <stdbool.h>
#include <sys/types.h>

struct patcher {
	struct tree upper, below;
	bool has_below;
	char *program;
	int channel; /* -1: none runs */
	pid_t pid;
	unsigned deaths;
	struct error *err;
};

#define PATCHER_INIT {.channel = -1}
#define AUTO_PATCHER __attribute__((cleanup(patcher_done)))

/* What is shown of a change beside itself; NULL where there is none. */
struct patch_notes {
	const char *held;
	const char *from; /* the path that a file was moved from */
};

/*
 * upper_fd and below_fd (-1: none) are the two trees; they stay the caller's. 0
 * or negative.
 */
int patcher_init(struct patcher *p, int upper_fd, int below_fd,
		 struct error *err);
void patcher_done(struct patcher *p);

/* Appends the text of one change. 0, or negative with a text in err. */
int patcher_add(struct patcher *p, const struct change *c,
		const struct patch_notes *notes, struct buf *out,
		struct error *err);

/*
 * Calls fn for each file and link that a deleted directory had, as deleted. 0,
 * what fn returned, or negative.
 */
int patcher_each_below(struct patcher *p, const struct change *dir,
		       change_fn *fn, void *arg, struct error *err);

#endif
