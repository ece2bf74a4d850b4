/*
 * Files of a source that are hidden from a task because they hold secrets: by a
 * built-in list, at the source's top and two levels below, and by the globs of a
 * policy's files.deny.
 */
#ifndef PINFOLD_WORKSPACE_SECRETS_H
#define PINFOLD_WORKSPACE_SECRETS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "workspace/hide.h"

#include <stdbool.h>
#include <stdint.h>

/* What is looked at: directories by the list, entries by globs. */
#define SECRETS_DIRS_MAX 4096
#define SECRETS_ENTRIES_MAX 2000000

struct secrets {
	struct strlist found;  /* by the list */
	struct strlist denied; /* by the globs */
	struct strlist also;   /* other names of what is denied */
	uint64_t dirs;	       /* that were read, or found unchanged */
	bool cut;	       /* the list was not applied to the whole */
	bool cached;	       /* nothing had to be read */
};

#define AUTO_SECRETS __attribute__((cleanup(secrets_done)))

/*
 * Looks through the source. globs: those of files.deny that hold magic, relative
 * to the source; a directory that one of them matches is hidden as a whole. The
 * list leaves out what git tracks (it is in git's objects anyway, and would be
 * missing from the work tree), directories of dependencies and of build results
 * are not entered for it. literal: the other paths of files.deny, likewise; what
 * they and the globs deny is denied by its other names too: hard links anywhere in
 * the source, and for a link what it leads to there (a directory's files are not
 * looked at one by one). cache_fd: a directory of the caller's in which the
 * result is kept with the change times of the directories that it depends on;
 * -1: none. 0; -E2BIG where globs match more than can be hidden or looked at
 * (the text says what to do); an error that names a directory.
 */
int secrets_find(struct secrets *s, int source_fd, const char *source,
		 const struct strlist *globs, const struct strlist *literal,
		 int cache_fd, struct error *err);
void secrets_done(struct secrets *s);

/* Names that are hidden at the top, also when they appear later. NULL-ended. */
extern const char *const secrets_literal[];

/* Does the list say that name holds secrets, in the directory of this path? */
bool secrets_is_file(const char *dir, const char *name);

/*
 * Appends the text of a git configuration without the secrets in it: user names
 * and passwords in URLs of http, passwords in others, values of keys that are
 * called so. 1 if there were any, 0 if not (then out is as it was), or negative.
 */
int secrets_scrub_config(const char *text, size_t len, struct buf *out);

#endif
