/*
 * What of a layer was promoted already, so that it is no change any more, and
 * what an undo put back into the source, so that this is no conflict.
 */
#ifndef PINFOLD_WORKSPACE_TAKEN_H
#define PINFOLD_WORKSPACE_TAKEN_H

#include "base/error.h"
#include "workspace/journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct taken {
	struct journal *journals; /* those that are finished, oldest first */
	size_t n_journals;
	const struct journal_entry **table; /* open addressing, by path */
	size_t cap;
	size_t n;
};

#define AUTO_TAKEN __attribute__((cleanup(taken_done)))

/*
 * Reads layer_fd/held. Memory: 16 bytes for each promoted path. A layer from
 * which nothing was promoted costs one failing open. 0 or negative.
 */
int taken_load(struct taken *t, int layer_fd, struct error *err);
void taken_done(struct taken *t);

/* Is the change of path in the source? */
bool taken_has(const struct taken *t, const char *path);

/*
 * Is what lies at path in the source what an undo put there, and the task's to
 * replace? Not where the host had changed it before.
 */
bool taken_restored(const struct taken *t, const char *path,
		    const struct stat *st);

/*
 * Was it merged with what the host had, and has the task left its file alone
 * since? Then the task's side differs from the source, and yet is in it.
 */
bool taken_merged(const struct taken *t, const char *path,
		  const struct stat *upper);

/*
 * Was path promoted as something new, and taken back? Then nothing of the
 * host's stood there when the task began.
 */
bool taken_was_new(const struct taken *t, const char *path);

/*
 * The highest number of a promotion below layer_fd/held, 0 if there is none;
 * finished: only those that an undo could take back.
 */
int taken_last(int layer_fd, bool finished, unsigned *ret);

/* The number of a promotion that was interrupted; 0 if there is none. */
int taken_unfinished(int layer_fd, unsigned *ret);

#endif
