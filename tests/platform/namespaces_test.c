/*
 * User namespaces and what is made with them: how a sandbox is built without
 * rights, and what stays impossible inside of it.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL_NEW (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |   \
		 CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET)
#define NEEDS_USERNS "no user namespaces here"

static long clone3(uint64_t flags, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = flags | (ret_pidfd ? CLONE_PIDFD : 0),
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};

	return syscall(SYS_clone3, &args, sizeof(args));
}

static int all_namespaces_at_once(void)
{
	long pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	pid = clone3(ALL_NEW, NULL);
	if (pid == 0)
		_exit(getpid() == 1 ? 0 : 1);
	if (pid < 0)
		return fact_works(pid, "clone3");
	return fact_is(fact_wait((int)pid) == 0, "the child is not pid 1");
}

static int single_map(void)
{
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = fact_enter_userns(0, 1000);
	return fact_is(r == 0 && geteuid() == 1000 && getegid() == 1000,
		       "error %d, uid %u, gid %u", -r, geteuid(), getegid());
}

static int map_is_written_once(void)
{
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = fact_enter_userns(0, 0);
	if (r < 0)
		return fact_is(false, "error %d", -r);
	r = fact_write("/proc/self/uid_map", "1 0 1\n");
	return fact_is(r == -EPERM, "second write: %d", r);
}

static int limit_gives_enospc(void)
{
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = fact_enter_userns(CLONE_NEWNS, 0);
	if (r == 0)
		r = fact_write("/proc/sys/user/max_user_namespaces", "0");
	if (r < 0)
		return fact_is(false, "cannot set the limit: %d", r);
	return fact_fails(unshare(CLONE_NEWUSER), ENOSPC, "unshare");
}

static int limit_leaves_clone3(void)
{
	int r;
	long pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = fact_enter_userns(CLONE_NEWNS, 0);
	if (r == 0)
		r = fact_write("/proc/sys/user/max_user_namespaces", "0");
	if (r < 0)
		return fact_is(false, "cannot set the limit: %d", r);
	pid = clone3(0, NULL);
	if (pid == 0)
		_exit(0);
	if (pid < 0 || fact_wait((int)pid) != 0)
		return fact_works(pid, "clone3");
	return fact_fails(clone3(CLONE_NEWUSER, NULL), ENOSPC, "clone3");
}

/* Inline, because the child may not return from a C function: it runs on the
 * caller's own stack. */
static long raw_call(long nr, const void *first, long second)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(first), "S"(second)
			 : "rcx", "r11", "memory");
	return r;
}

/* The memory is shared and the caller waits, as with vfork. */
static int vfork_like_with_namespaces(void)
{
	static volatile int reached;
	static struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | ALL_NEW,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	pid = raw_call(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		reached = 1;
		raw_call(SYS_exit, NULL, 0);
	}
	return fact_is(pid > 0 && reached, "clone3 %ld, reached %d", pid,
		       reached);
}

static void sleep_forever(void)
{
	for (;;)
		pause();
}

/* How many processes fork makes before it fails, at most 40. */
static int count_forks(void)
{
	int made = 0;

	while (made < 40) {
		int pid = fork();

		if (pid < 0)
			break;
		if (pid == 0)
			sleep_forever();
		made++;
	}
	return made;
}

static int nproc_counts_per_namespace(void)
{
	const struct rlimit limit = {20, 20};
	int outside[30];
	int r, made;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	/* The first root is not counted: any other user is. */
	if (fact_is_root() && setresuid(65534, 65534, 65534) < 0)
		return fact_works(-1, "setresuid");
	prctl(PR_SET_DUMPABLE, 1);
	for (int i = 0; i < 30; i++) {
		outside[i] = fork();
		if (outside[i] == 0)
			sleep_forever();
	}
	r = fact_enter_userns(0, 1000);
	if (r < 0 || setrlimit(RLIMIT_NPROC, &limit) < 0)
		return fact_is(false, "unshare or setrlimit: %d", r);
	made = fork();
	if (made == 0)
		_exit(count_forks());
	r = WEXITSTATUS(fact_wait(made));
	for (int i = 0; i < 30; i++)
		kill(outside[i], SIGKILL);
	return fact_is(r >= 15 && r <= 20, "%d forks beside 30 outside", r);
}

static int deathsig_is_not_inherited(void)
{
	int pid, got = -1;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	pid = fork();
	if (pid == 0) {
		prctl(PR_GET_PDEATHSIG, &got);
		_exit(got);
	}
	return fact_is(fact_wait(pid) == 0, "the child has it");
}

static int deathsig_is_cleared_by_uid_change(void)
{
	int got = -1;

	if (!fact_is_root())
		return fact_skip("needs root");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setresuid(65534, 65534, 65534) < 0)
		return fact_works(-1, "setresuid");
	prctl(PR_GET_PDEATHSIG, &got);
	return fact_is(got == 0, "signal %d is left", got);
}

static int pidfd_waits_for_whole_namespace(void)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	int ends[2];
	char byte;
	long pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (pipe(ends) < 0)
		return fact_works(-1, "pipe");
	pid = clone3(CLONE_NEWUSER | CLONE_NEWPID, &p.fd);
	if (pid == 0) {
		close(ends[0]);
		for (int i = 0; i < 20; i++)
			if (fork() == 0)
				sleep_forever();
		/* They are made: one byte says so. */
		if (write(ends[1], "x", 1) < 0)
			_exit(1);
		sleep_forever();
	}
	close(ends[1]);
	if (pid < 0 || read(ends[0], &byte, 1) != 1)
		return fact_works(-1, "clone3");
	syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0);
	if (poll(&p, 1, 10000) != 1)
		return fact_is(false, "the pidfd is silent");
	/* All writers are gone, or this would wait. */
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	return fact_is(read(ends[0], &byte, 1) == 0,
		       "a process of the namespace still lives");
}

static int init_ignores_kill_from_inside(void)
{
	long pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	pid = clone3(CLONE_NEWUSER | CLONE_NEWPID, NULL);
	if (pid == 0) {
		int child = fork();

		if (child == 0) {
			kill(1, SIGKILL);
			kill(1, SIGSTOP);
			kill(1, SIGTERM);
			_exit(0);
		}
		fact_wait(child);
		_exit(7);
	}
	if (pid < 0)
		return fact_works(pid, "clone3");
	return fact_is(WEXITSTATUS(fact_wait((int)pid)) == 7, "it died");
}

static int setns_needs_rights(void)
{
	int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (fact_enter_userns(0, 1000) < 0)
		return fact_works(-1, "unshare");
	return fact_fails(setns(fd, 0), EPERM, "setns");
}

static const struct fact table[] = {
	{"one clone3 makes all seven namespaces", all_namespaces_at_once},
	{"a namespace maps one id to another without help", single_map},
	{"an id map is written once", map_is_written_once},
	{"max_user_namespaces 0 makes unshare fail with ENOSPC",
	 limit_gives_enospc},
	{"max_user_namespaces 0 leaves clone3 usable", limit_leaves_clone3},
	{"clone3 shares memory with a child in new namespaces, as vfork does",
	 vfork_like_with_namespaces},
	{"RLIMIT_NPROC counts the processes of a user namespace alone",
	 nproc_counts_per_namespace},
	{"a parent-death signal is not inherited by fork",
	 deathsig_is_not_inherited},
	{"a parent-death signal is cleared by a change of uid",
	 deathsig_is_cleared_by_uid_change},
	{"a pidfd of pid 1 is readable only once all of its namespace are gone",
	 pidfd_waits_for_whole_namespace},
	{"pid 1 of a namespace is not ended from inside",
	 init_ignores_kill_from_inside},
	{"the outer mount namespace cannot be entered from a user namespace",
	 setns_needs_rights},
};

int main(void)
{
	return fact_main(FACTS(table));
}
