#include "task/init_child.h"

#include "confine/caps.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"
#include "confine/sys.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

/* The kernel's set of signals; the C libraries' is larger. */
static const uint64_t no_signals;

#define RAW(nr, ...) RAW_(SYS_##nr, __VA_ARGS__, 0, 0, 0, 0, 0)
#define RAW_(nr, a, b, c, d, e, ...)                                           \
	sys_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

static int give_up(struct init_child *c, enum exec_stage stage, long result)
{
	c->stage = stage;
	c->error = (int)-result;
	RAW(exit_group, 127);
	return 127;
}

/* The limit of open files: the kernel's struct rlimit64. */
static long limit_files(uint64_t most)
{
	uint64_t files[2] = {0, 0};
	long r;

	if (most == UINT64_MAX)
		return 0;
	r = RAW(prlimit64, 0, RLIMIT_NOFILE, NULL, files);
	if (most < files[1])
		files[1] = most;
	files[0] = files[1];
	return r < 0 ? r : RAW(prlimit64, 0, RLIMIT_NOFILE, files, NULL);
}

int init_child_confine(const struct init *in)
{
	const struct init_config *c = &in->config;
	long r = limit_files(c->open_files);

	/* The raw calls: the C library's would signal threads there are not. */
	if (r == 0)
		r = RAW(setresgid, c->gid, c->gid, c->gid);
	if (r == 0)
		r = RAW(setresuid, c->uid, c->uid, c->uid);
	if (r == 0)
		r = caps_drop_all();
	if (r == 0 && in->ruleset >= 0)
		r = landlock_enter(in->ruleset);
	if (r == 0)
		r = seccomp_load(c->nesting ? SECCOMP_COMMAND_NESTING
					    : SECCOMP_COMMAND);
	return (int)r;
}

static const char *find_path(char *const envp[])
{
	for (; *envp; envp++) {
		if (!strncmp(*envp, "PATH=", 5))
			return *envp + 5;
	}
	return "/usr/local/bin:/usr/bin:/bin";
}

/* execve along PATH, as execvpe(3) does but for scripts without "#!". */
static long exec_along_path(char *const argv[], char *const envp[])
{
	const char *name = argv[0];
	const char *at = find_path(envp);
	long result = -ENOENT;
	char full[PATH_MAX];

	if (!*name)
		return -ENOENT;
	if (strchr(name, '/'))
		return RAW(execve, name, argv, envp);
	while (*at) {
		size_t n = strcspn(at, ":");

		if (n > 0 && n + strlen(name) + 2 <= sizeof(full)) {
			long r;

			memcpy(full, at, n);
			full[n] = '/';
			strcpy(full + n + 1, name);
			r = RAW(execve, full, argv, envp);
			if (r == -EACCES)
				result = -EACCES;
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		at += n + (at[n] == ':');
	}
	return result;
}

/* A session, or under a pty the group in the foreground of one. */
static long lead(const struct init_child *c)
{
	int self;
	long r;

	if (!c->tty)
		return RAW(setsid, 0);
	r = RAW(setpgid, 0, 0);
	if (r < 0)
		return r;
	/* Blocked SIGTTOU: a background group may do this then. */
	self = (int)RAW(getpid, 0);
	return RAW(ioctl, c->stdio[0], TIOCSPGRP, &self);
}

int init_child_run(void *child)
{
	struct init_child *c = child;
	long r = lead(c);

	for (int i = 0; i < 3 && r >= 0; i++)
		r = RAW(dup3, c->stdio[i], i, 0);
	if (r < 0)
		return give_up(c, STAGE_STREAMS, r);
	r = RAW(chdir, c->args.workdir);
	if (r < 0)
		return give_up(c, STAGE_WORKDIR, r);
	if (!c->confined)
		r = init_child_confine(c->in);
	/* Not before the exec, which the end of our pipe tells of. */
	if (r == 0)
		r = RAW(close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
	if (r == 0)
		r = RAW(rt_sigprocmask, SIG_SETMASK, &no_signals, NULL,
			sizeof(no_signals));
	if (r < 0)
		return give_up(c, STAGE_CONFINE, r);
	return give_up(c, STAGE_EXEC,
		       exec_along_path(c->args.argv, c->args.envp));
}
