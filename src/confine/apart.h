/*
 * Runs a program of the host on what somebody untrusted wrote: without network,
 * without a way to other processes, with a few directories and bounded memory,
 * disk and time. For programs that are not ours; ours confine themselves
 * (confine/alone.h).
 */
#ifndef PINFOLD_CONFINE_APART_H
#define PINFOLD_CONFINE_APART_H

#include "base/error.h"
#include "confine/landlock.h"

#include <stddef.h>
#include <stdint.h>

#define APART_DIRS_MAX 16

struct apart {
	const char *program; /* absolute */
	char *const *argv, *const *env;
	int fds[3]; /* its standard input, output and error output */
	/*
	 * Directories, which are its descriptors 3, 4, and so on. The first one
	 * it starts in and may write; the others it may read.
	 */
	const int *dirs;
	size_t n_dirs;
	/* What it needs of the system; a path that does not exist is none. */
	const struct path_grant *system;
	size_t n_system;
	uint64_t memory_max, file_max; /* bytes; of one file */
	unsigned seconds; /* of the processor, and by the clock */
};

/*
 * Runs it to its end. It reaches files by Landlock's leave alone, is process 1
 * of a namespace of its own, has the system calls of SECCOMP_GIT, and of the
 * caller's capabilities the one to read and search the directories above. Its
 * exit status; -ETIMEDOUT; -ECHILD when a signal ended it; -EOPNOTSUPP where it
 * cannot be confined; or another negative errno.
 */
int apart_run(const struct apart *a, struct error *err);

#endif
