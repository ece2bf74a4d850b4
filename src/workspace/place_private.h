/* Shared by the files that implement workspace/place.h, and dress.c. */
#ifndef PINFOLD_WORKSPACE_PLACE_PRIVATE_H
#define PINFOLD_WORKSPACE_PLACE_PRIVATE_H

#include "base/error.h"
#include "workspace/journal.h"
#include "workspace/tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

int place_rename(int from_fd, const char *from, int to_fd, const char *to,
		 unsigned flags);
int place_fail(struct error *err, int code, const char *what,
	       const struct journal_entry *e);

/* Does code mean that a directory on the way is gone? */
bool place_is_lost(int code);

/* Is it still what the journal wants to replace? */
bool place_is_old(const struct journal_entry *e, const struct stat *st);

/*
 * Takes the locks that the journal names, by git's own protocol, and makes the
 * directories that they need. first: also checks, under them, that all of the
 * repository is as it was planned. place_unlock gives them back.
 */
int place_lock(struct journal *j, int source_fd, int stage_fd, bool first,
	       struct error *err);
int place_unlock(struct journal *j, int source_fd, int stage_fd,
		 struct error *err);

/* Is anything of a repository in the source that has to be taken back? */
bool place_needs_lock(struct journal *j, int source_fd);

/* Makes ready again what the locks are made of, for a way back. */
int place_renew_locks(struct journal *j, int source_fd, int stage_fd);

/* Places one directory. */
int place_directory(struct tree *t, struct journal_entry *e, int stage_fd,
		    struct error *err);

/* Is it a directory whose permissions are set last? */
bool place_makes_directory(const struct journal_entry *e);

/*
 * Gives the directory name permissions and, unless it is NULL, a time. -ESTALE
 * if it is not the inode ino (0: any).
 */
int place_set_mode(int dir_fd, const char *name, ino_t ino, mode_t mode,
		   const struct timespec *mtime);

#endif
