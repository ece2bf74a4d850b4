/* The processes in a sandbox, seen from outside. */
#ifndef PINFOLD_CLI_PROCESSES_H
#define PINFOLD_CLI_PROCESSES_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

struct process {
	pid_t pid, parent; /* in the caller's own pid namespace */
	char state;	   /* R, S, D, T, Z ... as /proc says */
	char comm[16];	   /* as the process claims */
	int depth;	   /* below the keeper; -1: not below it */
};

/*
 * The processes below the keeper that holds the lock of this task, the keeper
 * and its own helpers left out; *ret is the caller's to free. None when the
 * keeper cannot be found or looked into. 0 or negative.
 */
int processes_of(int task_fd, struct process **ret, size_t *ret_n,
		 struct error *err);

#endif
