/*
 * Which files of its source a task did not see although neither their names nor
 * its policy tell so: other names of a secret, and what a link of a secret's name
 * leads to. Kept beside upper/, where no sandbox sees it, for as long as the task
 * has changes, so that none of them is promoted over such a file.
 */
#ifndef PINFOLD_WORKSPACE_HIDDEN_H
#define PINFOLD_WORKSPACE_HIDDEN_H

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>

#define HIDDEN_FILE "hidden"
#define HIDDEN_MORE "hidden.more" /* what a refresh has added */

struct hidden {
	struct strlist paths; /* relative to the source; normalised */
	bool lost; /* there was a list, and it cannot be read */
};

void hidden_done(struct hidden *h);

/* Is it known by the path alone, to whoever promotes, that it was hidden? */
bool hidden_is_implied(const char *path);

/*
 * Writes the list of a new task; ret_digest is what hidden_read is to be given.
 * An empty list is no file, and its digest "". 0 or an error.
 */
int hidden_write(int task_fd, const struct hidden *h,
		 char ret_digest[SHA256_HEX_SIZE], struct error *err);

/*
 * Reads it. A list that is missing, or is not the one with this digest, is lost:
 * then anything may have been hidden.
 */
void hidden_read(struct hidden *h, int task_fd, const char *digest);

/*
 * Adds to what is hidden from a task that runs, whole and on the disk before
 * more is hidden from it. 0 or an error.
 */
int hidden_add(int task_fd, const struct hidden *more, struct error *err);

/* Is the path one of the list, or below one? */
bool hidden_has(const struct hidden *h, const char *path);

#endif
