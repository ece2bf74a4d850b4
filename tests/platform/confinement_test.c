/*
 * Landlock and seccomp: what a domain denies beside mounts, and how a filter's
 * notifications reach the process that watches.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NR_CREATE_RULESET 444
#define NR_ADD_RULE 445
#define NR_RESTRICT_SELF 446
#define RIGHT_READ_FILE (1ull << 2)
#define RIGHT_WRITE_FILE (1ull << 1)
#define RIGHT_READ_DIR (1ull << 3)
#define NEEDS_USERNS "no user namespaces here"

static int landlock_abi(void)
{
	return (int)syscall(NR_CREATE_RULESET, NULL, 0, 1);
}

/* Forbids reading and writing of files everywhere but below path. */
static int restrict_to(const char *path)
{
	const uint64_t handled[1] = {RIGHT_READ_FILE | RIGHT_WRITE_FILE};
	struct {
		uint64_t allowed;
		int32_t fd;
	} __attribute__((packed)) rule = {RIGHT_READ_FILE | RIGHT_WRITE_FILE,
					  -1};
	int ruleset = (int)syscall(NR_CREATE_RULESET, handled, sizeof(handled),
				   0);

	if (ruleset < 0)
		return -errno;
	rule.fd = open(path, O_PATH | O_CLOEXEC);
	if (syscall(NR_ADD_RULE, ruleset, 1, &rule, 0) < 0)
		return -errno;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(NR_RESTRICT_SELF, ruleset, 0) < 0 ? -errno : 0;
}

static int landlock_is_there(void)
{
	return fact_is(landlock_abi() >= 1, "ABI %d", landlock_abi());
}

static int landlock_denies_reading(void)
{
	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (restrict_to(fact_directory()) < 0)
		return fact_works(-1, "restrict");
	return fact_fails(open("/etc/passwd", O_RDONLY), EACCES, "open");
}

static int landlock_denies_inherited_directory(void)
{
	int dir = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (restrict_to(fact_directory()) < 0)
		return fact_works(-1, "restrict");
	return fact_fails(openat(dir, "passwd", O_RDONLY), EACCES, "openat");
}

static int landlock_leaves_open_files(void)
{
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	char byte;

	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (restrict_to(fact_directory()) < 0)
		return fact_works(-1, "restrict");
	return fact_works(read(fd, &byte, 1), "read");
}

static int landlock_refuses_mounts(void)
{
	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0 ||
	    restrict_to(fact_directory()) < 0)
		return fact_works(-1, "restrict");
	return fact_fails(mount("tmpfs", fact_directory(), "tmpfs", 0, NULL),
			  EPERM, "mount");
}

static int landlock_refuses_move_mount(void)
{
	long tree;

	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return fact_works(-1, "unshare");
	tree = syscall(SYS_open_tree, AT_FDCWD, "/etc", 1 | O_CLOEXEC);
	if (tree < 0 || restrict_to(fact_directory()) < 0)
		return fact_works(-1, "restrict");
	return fact_fails(syscall(SYS_move_mount, tree, "", AT_FDCWD,
				  fact_directory(), 4), EPERM, "move_mount");
}

static int landlock_stacks_sixteen(void)
{
	int layers = 0;

	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	while (layers < 20 && restrict_to("/") == 0)
		layers++;
	return fact_is(layers == 16, "%d layers", layers);
}

static int landlock_refuses_tracing_outwards(void)
{
	int ends[2];
	char byte;
	int pid, status;

	if (landlock_abi() < 1)
		return fact_skip("no Landlock");
	if (pipe(ends) < 0)
		return fact_works(-1, "pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PTRACER, -1, 0, 0, 0);
		if (write(ends[1], "x", 1) < 0)
			_exit(1);
		pause();
	}
	if (read(ends[0], &byte, 1) != 1 || restrict_to("/") < 0)
		return fact_works(-1, "restrict");
	status = fact_fails(ptrace(PTRACE_SEIZE, pid, NULL, NULL), EPERM,
			    "ptrace");
	kill(pid, SIGKILL);
	return status;
}

/* A filter that notifies getppid; the listener, or -errno. */
static int notify_getppid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	long fd;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		     SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return fd < 0 ? -errno : (int)fd;
}

/* Answers one notification with an errno. 0 or -errno. */
static int answer_one(int listener, int error)
{
	struct seccomp_notif request;
	struct seccomp_notif_resp answer;

	memset(&request, 0, sizeof(request));
	memset(&answer, 0, sizeof(answer));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return -errno;
	answer.id = request.id;
	answer.error = -error;
	if (error == 0)
		answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0 ?
		       -errno : 0;
}

/* A filtered child that sends its listener here; its pid, or -1. */
static int start_filtered(int *ret_listener, bool grandchild, int expected)
{
	int ends[2];
	int pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int fd = notify_getppid();

		if (fd < 0 || fact_send(ends[1], fd) < 0)
			_exit(9);
		close(fd);
		if (grandchild && (pid = fork()) != 0)
			_exit(WEXITSTATUS(fact_wait(pid)));
		errno = 0;
		/* The call itself: no C library answers it from a copy. */
		if (syscall(SYS_getppid) < 0)
			_exit(errno == expected ? 0 : 2);
		_exit(expected == 0 ? 0 : 3);
	}
	*ret_listener = fact_take(ends[0]);
	return pid;
}

static int notification_with_errno(void)
{
	int listener, r;
	int pid = start_filtered(&listener, false, ENETUNREACH);

	r = answer_one(listener, ENETUNREACH);
	return fact_is(r == 0 && fact_wait(pid) == 0, "answer %d", r);
}

static int notification_continues(void)
{
	int listener, r;
	int pid = start_filtered(&listener, false, 0);

	r = answer_one(listener, 0);
	return fact_is(r == 0 && fact_wait(pid) == 0, "answer %d", r);
}

static int notification_of_children(void)
{
	int listener, r;
	int pid = start_filtered(&listener, true, EACCES);

	r = answer_one(listener, EACCES);
	return fact_is(r == 0 && fact_wait(pid) == 0, "answer %d", r);
}

static int listener_hangs_up(void)
{
	int listener;
	int pid = start_filtered(&listener, false, 0);
	struct pollfd p = {.fd = listener, .events = POLLIN};

	if (answer_one(listener, 0) < 0)
		return fact_works(-1, "answer");
	fact_wait(pid);
	return fact_is(poll(&p, 1, 5000) == 1 && p.revents & POLLHUP,
		       "events %x", (unsigned)p.revents);
}

static int closed_listener_is_enosys(void)
{
	int listener;
	int pid = start_filtered(&listener, false, ENOSYS);

	usleep(100000);
	close(listener);
	return fact_is(fact_wait(pid) == 0, "the call had another result");
}

static int second_listener_is_ebusy(void)
{
	if (notify_getppid() < 0)
		return fact_works(-1, "seccomp");
	errno = -notify_getppid();
	return fact_fails(errno > 0 ? -1 : 0, EBUSY, "second listener");
}

static int strictest_filter_wins(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K,
					    SECCOMP_RET_ALLOW);
	struct sock_filter deny[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog one = {4, deny}, two = {1, &allow};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &one) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &two) < 0)
		return fact_works(-1, "prctl");
	return fact_fails(syscall(SYS_getppid), EPERM, "getppid");
}

static int watcher_reads_memory(void)
{
	static char text[] = "argument";
	char seen[16] = {0};
	struct iovec here = {seen, sizeof(text)}, there = {text, sizeof(text)};
	int pid = fork();
	int r;

	if (pid == 0) {
		pause();
		_exit(0);
	}
	r = (int)process_vm_readv(pid, &here, 1, &there, 1, 0);
	kill(pid, SIGKILL);
	return fact_is(r == (int)sizeof(text) && !strcmp(seen, text),
		       "read %d", r);
}

static const struct fact table[] = {
	{"the kernel has Landlock", landlock_is_there},
	{"a domain denies reading with EACCES", landlock_denies_reading},
	{"a domain denies opening below an inherited directory",
	 landlock_denies_inherited_directory},
	{"a domain leaves files that were open before",
	 landlock_leaves_open_files},
	{"mount is refused under any domain", landlock_refuses_mounts},
	{"move_mount is refused under any domain",
	 landlock_refuses_move_mount},
	{"exactly 16 domains stack", landlock_stacks_sixteen},
	{"a process in a domain cannot trace one outside of it",
	 landlock_refuses_tracing_outwards},
	{"a notified call gets the watcher's errno", notification_with_errno},
	{"a notified call can be let through", notification_continues},
	{"a listener gets the calls of children, too",
	 notification_of_children},
	{"a listener hangs up when its processes are gone", listener_hangs_up},
	{"a notified call without a listener is ENOSYS",
	 closed_listener_is_enosys},
	{"a process has one listener, a second is EBUSY",
	 second_listener_is_ebusy},
	{"an allowing filter on top opens nothing", strictest_filter_wins},
	{"a process reads its child's memory by process_vm_readv",
	 watcher_reads_memory},
};

int main(void)
{
	return fact_main(FACTS(table));
}
