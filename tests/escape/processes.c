/*
 * Attacks on other processes: pid 1 of the sandbox, which holds more rights than
 * the command, and the processes of the host.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* Of the kernel's linux/ioprio.h; the last is the lowest of its second class. */
#define IOPRIO_PROCESS 1
#define IOPRIO_USER 3
#define IOPRIO_LOWEST (2 << 13 | 7)

/* The host's process that is attacked, or pid 1 where a->n says so. */
static pid_t target(const struct attack *a)
{
	return a->n ? (pid_t)a->n : (pid_t)attack_number("sentinel");
}

static int seize(const struct attack *a)
{
	pid_t pid = target(a);
	long r = ptrace(PTRACE_SEIZE, pid, NULL, NULL);

	return attack_result(r);
}

static int read_memory(const struct attack *a)
{
	char byte;
	struct iovec here = {&byte, 1};
	struct iovec there = {(void *)0x400000, 1};

	return attack_result(process_vm_readv(target(a), &here, 1, &there, 1,
					      0));
}

static int write_memory(const struct attack *a)
{
	char byte = 0;
	struct iovec here = {&byte, 1};
	struct iovec there = {(void *)0x10, 1};

	return attack_result(process_vm_writev(target(a), &here, 1, &there, 1,
					       0));
}

static int take_descriptor(const struct attack *a)
{
	long fd = syscall(SYS_pidfd_open, target(a), 0);

	if (fd < 0)
		return -errno;
	for (int n = 0; n < 16; n++)
		if (syscall(SYS_pidfd_getfd, fd, n, 0) >= 0)
			return 0;
	return -errno;
}

static int compare_kernel_objects(const struct attack *a)
{
	return attack_result(syscall(SYS_kcmp, target(a), getpid(), 2, 0, 0));
}

static int send_signal(const struct attack *a)
{
	return attack_result(kill(target(a), 0));
}

static int send_signal_to_group(const struct attack *a)
{
	return attack_result(kill(-target(a), 0));
}

static int queue_signal(const struct attack *a)
{
	const union sigval value = {.sival_int = 0};

	return attack_result(sigqueue(target(a), 0, value));
}

static int signal_by_pidfd(const struct attack *a)
{
	long fd = syscall(SYS_pidfd_open, target(a), 0);

	if (fd < 0)
		return -errno;
	return attack_result(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
}

static int change_limits(const struct attack *a)
{
	struct rlimit limit = {0, 0};

	if (a->n == 1 && !attack_is_inside())
		return attack_skip("pid 1 is the host's here");
	if (syscall(SYS_prlimit64, target(a), RLIMIT_NOFILE, NULL, &limit) < 0)
		return -errno;
	if (!a->s)
		return 0;
	return attack_result(syscall(SYS_prlimit64, target(a), RLIMIT_NOFILE,
				     &limit, NULL));
}

static int change_priority(const struct attack *a)
{
	errno = 0;
	if (getpriority(PRIO_PROCESS, (id_t)target(a)) == -1 && errno)
		return -errno;
	return 0;
}

static int change_affinity(const struct attack *a)
{
	unsigned long mask[16];

	return attack_result(syscall(SYS_sched_getaffinity, target(a),
				     sizeof(mask), mask));
}

/*
 * How pid 1 is scheduled, set to what it is: outside that changes nothing, and
 * the right to do it is checked all the same. Pid 1 may be of the same user; it
 * is kept from us by the capabilities that it has and we lack (cap_safe_nice in
 * the kernel's commoncap.c).
 */
static int set_scheduler(const struct attack *a)
{
	const struct sched_param param = {0};
	int policy = sched_getscheduler(1);

	(void)a;
	if (policy < 0)
		return -errno;
	/* The raw calls: a C library may leave some of them out. */
	return attack_result(syscall(SYS_sched_setscheduler, 1, policy,
				     &param));
}

static int set_scheduler_parameter(const struct attack *a)
{
	const struct sched_param param = {0};

	(void)a;
	return attack_result(syscall(SYS_sched_setparam, 1, &param));
}

static int set_scheduler_attributes(const struct attack *a)
{
	uint64_t attr[7] = {0};

	(void)a;
	if (syscall(SYS_sched_getattr, 1, attr, sizeof(attr), 0) < 0)
		return -errno;
	return attack_result(syscall(SYS_sched_setattr, 1, attr, 0));
}

static int set_affinity(const struct attack *a)
{
	unsigned long mask[16] = {0};
	long n = syscall(SYS_sched_getaffinity, 1, sizeof(mask), mask);

	(void)a;
	if (n < 0)
		return -errno;
	return attack_result(syscall(SYS_sched_setaffinity, 1, n, mask));
}

static int set_priority(const struct attack *a)
{
	/* The raw call's result is 20 less the value that is set. */
	long now = syscall(SYS_getpriority, PRIO_PROCESS, 1);

	(void)a;
	if (now < 0)
		return -errno;
	return attack_result(syscall(SYS_setpriority, PRIO_PROCESS, 1,
				     20 - now));
}

static int set_io_priority(const struct attack *a)
{
	long now = syscall(SYS_ioprio_get, IOPRIO_PROCESS, 1);

	(void)a;
	if (now < 0)
		return -errno;
	return attack_result(syscall(SYS_ioprio_set, IOPRIO_PROCESS, 1, now));
}

/* All of our user, of whom pid 1 may be: the others count for nothing. */
static int set_priority_of_user(const struct attack *a)
{
	long before = syscall(SYS_getpriority, PRIO_PROCESS, 1);

	(void)a;
	if (!attack_is_inside())
		return attack_skip("it would change all of the caller's");
	syscall(SYS_setpriority, PRIO_USER, getuid(), 7);
	return syscall(SYS_getpriority, PRIO_PROCESS, 1) == before ? -EPERM : 0;
}

static int set_io_priority_of_user(const struct attack *a)
{
	long before = syscall(SYS_ioprio_get, IOPRIO_PROCESS, 1);

	(void)a;
	if (!attack_is_inside())
		return attack_skip("it would change all of the caller's");
	syscall(SYS_ioprio_set, IOPRIO_USER, getuid(), IOPRIO_LOWEST);
	return syscall(SYS_ioprio_get, IOPRIO_PROCESS, 1) == before ? -EPERM : 0;
}

static int robust_list(const struct attack *a)
{
	void *head;
	size_t len;

	return attack_result(syscall(SYS_get_robust_list, target(a), &head,
				     &len));
}

static void pause_ms(long ms)
{
	const struct timespec t = {0, ms * 1000000};

	nanosleep(&t, NULL);
}

/* Every signal but those that a shell's user may send on purpose. */
static int kill_init(const struct attack *a)
{
	if (!attack_is_inside())
		return attack_skip("pid 1 is the host's here");
	if (kill(1, (int)a->n) < 0)
		return -errno;
	pause_ms(100);
	/* We are still here: pid 1 is, too, or we would be gone with it. */
	if (kill(1, 0) == 0 || errno == EPERM)
		return -EPERM;
	return 0;
}

static int stop_init(const struct attack *a)
{
	char state[256] = {0};
	int fd;

	if (!attack_is_inside())
		return attack_skip("pid 1 is the host's here");
	if (kill(1, (int)a->n) < 0)
		return -errno;
	pause_ms(100);
	fd = open("/proc/1/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, state, sizeof(state) - 1) <= 0)
		return -errno;
	attack_note("%.40s", state);
	return strstr(state, ") T") ? 0 : -EPERM;
}

#define NO "EPERM ENOSYS EACCES ESRCH"
#define GONE "ESRCH EPERM ENOSYS"

static const struct attack table[] = {
	{"ptrace", "traces pid 1", NO, NULL, seize, NULL, 1, NULL},
	{"ptrace", "traces a process of the host", GONE, NULL, seize, NULL, 0,
	 NULL},
	{"ptrace", "reads pid 1's memory by process_vm_readv", NO, "EFAULT",
	 read_memory, NULL, 1, NULL},
	{"ptrace", "reads a host process's memory by process_vm_readv", GONE,
	 "EFAULT", read_memory, NULL, 0, NULL},
	{"ptrace", "writes pid 1's memory by process_vm_writev", NO, "EFAULT",
	 write_memory, NULL, 1, NULL},
	{"ptrace", "writes a host process's memory by process_vm_writev", GONE,
	 "EFAULT", write_memory, NULL, 0, NULL},
	{"descriptors", "takes a descriptor from pid 1", NO, "EBADF",
	 take_descriptor, NULL, 1, NULL},
	{"descriptors", "takes a descriptor from a host process", GONE, "EBADF",
	 take_descriptor, NULL, 0, NULL},
	{"ptrace", "compares its objects with pid 1's", NO, NULL,
	 compare_kernel_objects, NULL, 1, NULL},
	{"ptrace", "compares its objects with a host process's", GONE, NULL,
	 compare_kernel_objects, NULL, 0, NULL},
	{"signals", "signals a host process", "ESRCH", NULL, send_signal, NULL,
	 0, NULL},
	{"signals", "signals a host process's group", "ESRCH", NULL,
	 send_signal_to_group, NULL, 0, NULL},
	{"signals", "queues a signal to a host process", "ESRCH ENOSYS", NULL,
	 queue_signal, NULL, 0, NULL},
	{"signals", "signals a host process by its pidfd", "ESRCH ENOSYS",
	 NULL, signal_by_pidfd, NULL, 0, NULL},
	{"processes", "changes a host process's limits", GONE, NULL,
	 change_limits, "set", 0, NULL},
	{"processes", "reads a host process's limits", GONE, NULL,
	 change_limits, NULL, 0, NULL},
	{"processes", "changes pid 1's limits", NO, NULL, change_limits, "set",
	 1, "outside it would change the host's pid 1"},
	{"processes", "reads a host process's priority", GONE, NULL,
	 change_priority, NULL, 0, NULL},
	{"processes", "reads a host process's affinity", GONE, NULL,
	 change_affinity, NULL, 0, NULL},
	{"processes", "sets pid 1's scheduler", "EPERM", NULL, set_scheduler,
	 NULL, 0, NULL},
	{"processes", "sets pid 1's scheduler's parameter", "EPERM", NULL,
	 set_scheduler_parameter, NULL, 0, NULL},
	{"processes", "sets pid 1's scheduler's attributes", "EPERM", NULL,
	 set_scheduler_attributes, NULL, 0, NULL},
	{"processes", "sets pid 1's affinity", "EPERM", NULL, set_affinity,
	 NULL, 0, NULL},
	{"processes", "sets pid 1's priority", "EPERM", NULL, set_priority,
	 NULL, 0, NULL},
	{"processes", "sets the priority of all of pid 1's user", "EPERM",
	 NULL, set_priority_of_user, NULL, 0,
	 "outside it would change all of the user's processes"},
	{"processes", "sets pid 1's priority of input and output", "EPERM",
	 NULL, set_io_priority, NULL, 0, NULL},
	{"processes", "sets that of all of pid 1's user", "EPERM", NULL,
	 set_io_priority_of_user, NULL, 0,
	 "outside it would change all of the user's processes"},
	{"processes", "reads pid 1's robust futex list", NO, NULL,
	 robust_list, NULL, 1, NULL},
	{"signals", "kills pid 1", "EPERM", NULL, kill_init, NULL, SIGKILL,
	 "the kernel protects every pid 1 from inside"},
	{"signals", "stops pid 1", "EPERM", NULL, stop_init, NULL, SIGSTOP,
	 "the kernel protects every pid 1 from inside"},
	{"signals", "stops pid 1 as a terminal would", "EPERM", NULL,
	 stop_init, NULL, SIGTSTP,
	 "the kernel protects every pid 1 from inside"},
	{"signals", "makes pid 1 abort", "EPERM", NULL, kill_init, NULL,
	 SIGABRT, "the kernel protects every pid 1 from inside"},
	{"signals", "makes pid 1 fault", "EPERM", NULL, kill_init, NULL,
	 SIGSEGV, "the kernel protects every pid 1 from inside"},
	{"signals", "sends pid 1 a user's signal", "EPERM", NULL, kill_init,
	 NULL, SIGUSR1, "the kernel protects every pid 1 from inside"},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
