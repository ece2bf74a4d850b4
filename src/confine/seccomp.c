#include "confine/seccomp.h"

#include "base/cleanup.h"
#include "confine/sys.h"

#include "confine/seccomp_filters.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>

#define PROGRAM(name) {ARRAY_SIZE(name), (struct sock_filter *)(uintptr_t)name}

static const struct sock_fprog programs[] = {
	[SECCOMP_COMMAND] = PROGRAM(filter_command),
	[SECCOMP_COMMAND_NESTING] = PROGRAM(filter_command_nesting),
	[SECCOMP_INIT] = PROGRAM(filter_init),
	[SECCOMP_INIT_NESTING] = PROGRAM(filter_init_nesting),
	[SECCOMP_KEEPER] = PROGRAM(filter_keeper),
	[SECCOMP_WATCH] = PROGRAM(filter_watch),
	[SECCOMP_WAITER] = PROGRAM(filter_waiter),
	[SECCOMP_POLICY] = PROGRAM(filter_policy),
	[SECCOMP_DIFF] = PROGRAM(filter_diff),
	[SECCOMP_GIT] = PROGRAM(filter_git),
};

int seccomp_load(enum seccomp_filter filter)
{
	bool notifies = filter == SECCOMP_INIT ||
			filter == SECCOMP_INIT_NESTING;

	/* The kernel makes the listener close-on-exec. */
	return (int)sys_raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    notifies ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0l,
			    (long)&programs[filter], 0, 0);
}
