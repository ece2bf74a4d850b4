/* Shared by the files that implement workspace/place.h, and dress.c. */
#ifndef PINFOLD_WORKSPACE_PLACE_PRIVATE_H
#define PINFOLD_WORKSPACE_PLACE_PRIVATE_H

#include "base/error.h"
#include "workspace/journal.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

int64_t place_time(const struct timespec *t);
int place_rename(int from_fd, const char *from, int to_fd, const char *to,
		 unsigned flags);
int place_fail(struct error *err, int code, const char *what,
	       const struct journal_entry *e);

/* Does code mean that a directory on the way is gone? */
bool place_is_lost(int code);

/* Is it still what the journal wants to replace? */
bool place_is_old(const struct journal_entry *e, const struct stat *st);

/* Is it a directory whose permissions are set last? */
bool place_makes_directory(const struct journal_entry *e);

/*
 * Gives the directory name permissions and, unless it is NULL, a time. -ESTALE
 * if it is not the inode ino (0: any).
 */
int place_set_mode(int dir_fd, const char *name, ino_t ino, mode_t mode,
		   const struct timespec *mtime);

#endif
