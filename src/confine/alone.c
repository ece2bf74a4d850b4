#include "confine/alone.h"

#include "base/cleanup.h"
#include "confine/landlock.h"
#include "confine/start.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int set_limits(const struct alone *a)
{
	/* A sanitizer maps terabytes of address space for itself. */
	int r = SANITIZED ? 0 : start_limit(RLIMIT_AS, a->memory_max);

	if (r == 0)
		r = start_limit(RLIMIT_CPU, a->cpu_seconds);
	if (r == 0)
		r = start_limit(RLIMIT_CORE, 0);
	return r == 0 ? start_limit(RLIMIT_NOFILE, a->open_max) : r;
}

/* The filter lets nothing be opened; this is the second wall. */
static int enter_landlock(void)
{
	AUTO_CLOSE int ruleset = -1;
	struct error err = {0};

	if (landlock_abi() < 1)
		return 0;
	ruleset = landlock_ruleset(NULL, 0, 1, &err);
	return ruleset < 0 ? ruleset : landlock_enter(ruleset);
}

int alone_enter(const struct alone *a)
{
	int r;

	start_close_from(a->keep_below);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	r = set_limits(a);
	if (r == 0)
		r = enter_landlock();
	return r == 0 ? seccomp_load(a->filter) : r;
}
