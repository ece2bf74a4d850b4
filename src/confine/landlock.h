/*
 * Landlock domains (Linux security module; kernel documentation
 * userspace-api/landlock.rst). A ruleset is made once and entered by each
 * process that it is meant for.
 */
#ifndef PINFOLD_CONFINE_LANDLOCK_H
#define PINFOLD_CONFINE_LANDLOCK_H

#include "base/error.h"

#include <stddef.h>

enum path_access {
	PATH_READ = 1, /* open for reading, list */
	PATH_EXEC = 2,
	PATH_WRITE = 4, /* write, create, remove, rename, link, truncate */
	PATH_IOCTL = 8, /* ioctl on devices */
};

struct path_grant {
	const char *path;
	unsigned access; /* of enum path_access */
};

/* The kernel's ABI version, 0 when there is no Landlock. */
int landlock_abi(void);

/*
 * A ruleset that handles every file right this kernel knows and grants these
 * paths, resolved now. -EOPNOTSUPP when the kernel's ABI is older than
 * abi_min: a weaker domain than asked for is never made. A path that does not
 * exist is an error that names it. Descriptor (close-on-exec) or negative.
 */
int landlock_ruleset(const struct path_grant *grants, size_t n_grants,
		     int abi_min, struct error *err);

/* Confines the calling thread. Needs no_new_privs. 0 or a negative errno. */
int landlock_enter(int ruleset_fd);

#endif
