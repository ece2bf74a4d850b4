/*
 * Starting processes: the vfork-like clone that shares memory until the child
 * execs, and pinning of the parent's death.
 */
#ifndef PINFOLD_CONFINE_START_H
#define PINFOLD_CONFINE_START_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Runs fn(arg) in a new child that shares this process's memory; the caller is
 * suspended until the child has called execve or _exit. Signal handlers are
 * reset in the child (CLONE_CLEAR_SIGHAND), the signal mask is the caller's.
 * flags are CLONE_NEW* and the like, added to CLONE_VM and CLONE_VFORK; cgroup
 * is a cgroup v2 directory for CLONE_INTO_CGROUP or -1. fn must not return
 * into the caller's frames: it ends with execve or _exit. Returns the child's
 * pid; ret_pidfd (may be NULL) gets its pidfd. -1 and errno on failure.
 */
pid_t start_vfork(int (*fn)(void *), void *arg, uint64_t flags, int cgroup,
		  int *ret_pidfd);

/*
 * The same without waiting: the child goes on beside its parent, in the same
 * memory, on the caller's stack of size bytes, which must stay as it is until
 * the child has called execve or is gone. errno is shared too: in the child no
 * call may fail but the last, and fn allocates nothing.
 */
pid_t start_beside(int (*fn)(void *), void *arg, uint64_t flags, int cgroup,
		   void *stack, size_t size, int *ret_pidfd);

/*
 * Makes this process die with the process on the other side of parent_fd (a
 * pidfd opened by the parent for itself) and ends it at once if that one is
 * gone already. Called after the last change of ids, which would undo it.
 */
void start_die_with_parent(int parent_pidfd);

/* Sets both values of a limit (RLIMIT_...), or what is less. 0 or -errno. */
int start_limit(int resource, uint64_t max);

/*
 * Raises this process's soft limit to want, or as far as the hard one lets it.
 * Returns what holds then; never lowers it.
 */
uint64_t start_raise(int resource, uint64_t want);

/* Closes every descriptor from first on. */
void start_close_from(int first);

#endif
