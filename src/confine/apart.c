#include "confine/apart.h"

#include "base/cleanup.h"
#include "confine/caps.h"
#include "confine/ids.h"
#include "confine/seccomp.h"
#include "confine/start.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYSTEM_MAX 16
#define OPEN_MAX 256
/* Above all that it gets in the end. */
#define ASIDE 64
/* Its mappings of files, which are not memory of its own. */
#define ADDRESS_SPACE ((uint64_t)64 << 30)

struct child {
	const struct apart *a;
	int ruleset;
	uint64_t flags;
	uid_t uid; /* as outside */
	gid_t gid;
	struct error *err; /* shared with the parent */
	int failed;
};

/* ---- in the child, which shares our memory ---- */

static int fail(struct child *c, int code, const char *what)
{
	if (c->err->code == 0)
		error_set(c->err, code, "cannot confine %s: %s: %s",
			  c->a->program, what, strerror(-code));
	c->failed = code;
	return code;
}

static int set_limits(const struct apart *a)
{
	int r = start_limit(RLIMIT_DATA, a->memory_max);

	if (r == 0)
		r = start_limit(RLIMIT_AS, ADDRESS_SPACE);
	if (r == 0)
		r = start_limit(RLIMIT_FSIZE, a->file_max);
	if (r == 0)
		r = start_limit(RLIMIT_CPU, a->seconds);
	if (r == 0)
		r = start_limit(RLIMIT_CORE, 0);
	return r == 0 ? start_limit(RLIMIT_NOFILE, OPEN_MAX) : r;
}

/* Gives it its descriptors, at their numbers, and no others. */
static int place_fds(const struct apart *a)
{
	int n = 3 + (int)a->n_dirs;

	for (int i = 0; i < n; i++) {
		int fd = i < 3 ? a->fds[i] : a->dirs[i - 3];

		if (dup2(fd, ASIDE + i) < 0)
			return -errno;
	}
	for (int i = 0; i < n; i++) {
		if (dup2(ASIDE + i, i) < 0)
			return -errno;
	}
	start_close_from(n);
	return 0;
}

static int enter_namespace(struct child *c)
{
	const struct id_extent uid = {c->uid, c->uid, 1};
	const struct id_extent gid = {c->gid, c->gid, 1};

	return c->flags & CLONE_NEWUSER
		       ? ids_write_maps(0, true, &uid, 1, &gid, 1, c->err)
		       : 0;
}

static int give_up(struct child *c)
{
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(c, -errno, "privileges");
	r = caps_keep_one(CAP_DAC_READ_SEARCH);
	if (r < 0)
		return fail(c, r, "capabilities");
	r = landlock_enter(c->ruleset);
	if (r < 0)
		return fail(c, r, "Landlock");
	r = place_fds(c->a);
	if (r == 0 && fchdir(3) < 0)
		r = -errno;
	if (r < 0)
		return fail(c, r, "descriptors");
	r = set_limits(c->a);
	if (r < 0)
		return fail(c, r, "limits");
	r = seccomp_load(SECCOMP_GIT);
	return r < 0 ? fail(c, r, "system calls") : 0;
}

static int child_main(void *arg)
{
	struct child *c = arg;

	if (enter_namespace(c) < 0) {
		fail(c, -EPERM, "user namespace");
		_exit(127);
	}
	if (give_up(c) == 0) {
		execve(c->a->program, c->a->argv, c->a->env);
		fail(c, -errno, "start");
	}
	_exit(127);
}

/* ---- in the parent ---- */

/* What exists of the system, and the directories by their descriptors. */
static int make_ruleset(const struct apart *a, struct error *err)
{
	struct path_grant grants[SYSTEM_MAX + APART_DIRS_MAX];
	char links[APART_DIRS_MAX][32];
	struct stat st;
	size_t n = 0;

	if (a->n_system > SYSTEM_MAX || a->n_dirs > APART_DIRS_MAX)
		return error_set(err, -E2BIG, "too many directories for %s",
				 a->program);
	for (size_t i = 0; i < a->n_system; i++) {
		if (stat(a->system[i].path, &st) == 0)
			grants[n++] = a->system[i];
	}
	for (size_t i = 0; i < a->n_dirs; i++) {
		snprintf(links[i], sizeof(links[i]), "/proc/self/fd/%d",
			 a->dirs[i]);
		grants[n++] = (struct path_grant){
			links[i], PATH_READ | (i == 0 ? PATH_WRITE : 0u)};
	}
	return landlock_ruleset(grants, n, 1, err);
}

static int start(struct child *c, int *ret_pidfd, pid_t *ret)
{
	c->flags = CLONE_NEWPID;
	*ret = start_vfork(child_main, c, c->flags, -1, ret_pidfd);
	if (*ret < 0 && errno == EPERM) {
		c->flags = CLONE_NEWPID | CLONE_NEWUSER;
		*ret = start_vfork(child_main, c, c->flags, -1, ret_pidfd);
	}
	return *ret < 0 ? -errno : 0;
}

/* 0 when it ended within its time. */
static int wait_for(int pidfd, unsigned seconds)
{
	struct pollfd poller = {.fd = pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&poller, 1, (int)seconds * 1000);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

static int finish(const struct apart *a, pid_t pid, int pidfd,
		  struct error *err)
{
	int status = 0, r = wait_for(pidfd, a->seconds);

	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == -ETIMEDOUT ||
	    (r == 0 && WIFSIGNALED(status) &&
	     (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)))
		return error_set(err, -ETIMEDOUT,
				 "%s did not end within %u seconds",
				 a->program, a->seconds);
	if (r < 0)
		return error_set(err, r, "cannot wait for %s: %s", a->program,
				 strerror(-r));
	if (!WIFEXITED(status))
		return error_set(err, -ECHILD, "%s was ended by signal %d",
				 a->program, WTERMSIG(status));
	return WEXITSTATUS(status);
}

int apart_run(const struct apart *a, struct error *err)
{
	struct error failure = {0};
	AUTO_CLOSE int ruleset = make_ruleset(a, err);
	AUTO_CLOSE int pidfd = -1;
	struct child c = {
		.a = a,
		.ruleset = ruleset,
		.uid = geteuid(),
		.gid = getegid(),
		.err = &failure,
	};
	pid_t pid;
	int r;

	if (ruleset < 0)
		return ruleset;
	r = start(&c, &pidfd, &pid);
	if (r < 0) {
		error_set(err, -EOPNOTSUPP, "cannot confine %s: %s",
			  a->program, strerror(-r));
		return ids_userns_blocked(-EOPNOTSUPP, err);
	}
	r = finish(a, pid, pidfd, err);
	if (c.failed == 0)
		return r;
	if (err)
		*err = failure;
	return c.failed;
}
