/*
 * The confinement of our programs that look at what others wrote: no files, no
 * new process, no network, bounded memory and time.
 */
#ifndef PINFOLD_CONFINE_ALONE_H
#define PINFOLD_CONFINE_ALONE_H

#include "confine/seccomp.h"

#include <stdint.h>

struct alone {
	int keep_below;	   /* descriptors from here on are closed */
	unsigned open_max; /* descriptors at once */
	uint64_t memory_max;
	uint64_t cpu_seconds;
	enum seccomp_filter filter;
};

/*
 * Closes descriptors, dies with the parent, and gives up everything but what is
 * left open. To be called before the first byte is read. 0 or negative.
 */
int alone_enter(const struct alone *a);

#endif
