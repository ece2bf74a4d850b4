/*
 * System call filters. They are made at build time (seccomp_gen.c) as plain
 * BPF; loading one needs nothing but the C library.
 */
#ifndef PINFOLD_CONFINE_SECCOMP_H
#define PINFOLD_CONFINE_SECCOMP_H

#include "base/error.h"

enum seccomp_filter {
	/* For commands: known calls only, unknown ones fail with ENOSYS. */
	SECCOMP_COMMAND,
	/* The same, with what sandboxes of browsers and agents need. */
	SECCOMP_COMMAND_NESTING,
	/*
	 * For init, and so for all below it: what commands may do, what init
	 * itself does, and a notification of connect and of sendto with an
	 * address.
	 */
	SECCOMP_INIT,
	SECCOMP_INIT_NESTING,
	/* Our own programs once they are ready. */
	SECCOMP_KEEPER,
	SECCOMP_WATCH,
	/* For who waits until watch is needed, and so for watch too. */
	SECCOMP_WAITER,
	SECCOMP_POLICY,
	SECCOMP_DIFF,
	/* For git on what an agent wrote: files and memory. */
	SECCOMP_GIT,
};

/*
 * Loads a filter for the calling thread and all it starts. Needs no_new_privs
 * or CAP_SYS_ADMIN. The filters of init return the listener's descriptor
 * (close-on-exec), the others 0; a negative errno on failure.
 */
int seccomp_load(enum seccomp_filter filter);

#endif
