/* The logs of references (reflogs), of which the stash's is the stash itself. */
#ifndef PINFOLD_WORKSPACE_GIT_LOG_H
#define PINFOLD_WORKSPACE_GIT_LOG_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Is all of text lines "OLD NEW WHO <MAIL> TIME ZONE[\tWORDS]", at most max of
 * them, the last one with this new id?
 */
bool git_log_is_one(const struct buf *text, size_t id_len, const char *last,
		    size_t max);

/* How many lines it has. */
size_t git_log_lines(const struct buf *text);

/* Appends "ID\n" for the new id of each line of such a text. 0 or negative. */
int git_log_ids(const struct buf *text, size_t id_len, struct buf *out);

/*
 * Appends a line: from old ("": none) to new ("": none), now, in words that say
 * which task it was. 0 or negative.
 */
int git_log_add(struct buf *text, size_t id_len, const char *old,
		const char *new, const char *task);

#endif
