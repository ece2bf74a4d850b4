/*
 * Attacks on the limit of system calls: what administers the machine, or opens
 * a large part of the kernel that no command needs, is not there. Calls that
 * would do harm outside are made with arguments that the kernel rejects after
 * it has checked the right to call them ("past").
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

struct call {
	long nr;
	long args[6];
};

/* Plain calls, by their place in this table (the n of the attack). */
enum {
	CALL_ADD_KEY, CALL_REQUEST_KEY, CALL_KEYCTL_SESSION, CALL_KEYCTL_JOIN,
	CALL_KEXEC, CALL_KEXEC_FILE, CALL_INIT_MODULE, CALL_FINIT_MODULE,
	CALL_DELETE_MODULE, CALL_SWAPON, CALL_SWAPOFF, CALL_REBOOT,
	CALL_SETTIMEOFDAY, CALL_CLOCK_SETTIME, CALL_ACCT, CALL_SYSLOG_READ,
	CALL_SYSLOG_CLEAR, CALL_QUOTACTL, CALL_QUOTACTL_FD, CALL_USERFAULTFD,
	CALL_IOPL, CALL_IOPERM, CALL_LOOKUP_DCOOKIE, CALL_NFSSERVCTL,
	CALL_VHANGUP, CALL_FANOTIFY, CALL_MIGRATE_PAGES, CALL_MOVE_PAGES,
	CALL_MBIND, CALL_SET_MEMPOLICY, CALL_MODIFY_LDT, CALL_USELIB,
	CALL_USTAT, CALL_SYSFS, CALL_CREATE_MODULE, CALL_UNKNOWN_1000,
	CALL_UNKNOWN_HUGE, CALL_UNKNOWN_NEGATIVE, CALL_X32_GETPID,
	CALL_IO_URING_ENTER, CALL_IO_URING_REGISTER, CALL_PERSONALITY_ZERO,
	CALL_PERSONALITY_BSD, CALL_MEMFD_SECRET, CALL_PIDFD_OPEN_0,
	CALL_SETDOMAINNAME, CALL_ADJTIMEX, CALL_RTAS_LIKE, CALL_LSM_SET,
};

static struct timeval bad_time;
static struct {
	unsigned modes;
	char rest[300];
} adjust = {0x4000, {0}}; /* ADJ_TICK with a tick of 0: EINVAL */

static const struct call calls[] = {
	[CALL_ADD_KEY] = {SYS_add_key, {(long)"user", (long)"pinfold-escape",
					(long)"x", 1, -2, 0}},
	[CALL_REQUEST_KEY] = {SYS_request_key, {(long)"user",
						(long)"pinfold-escape", 0, 0}},
	[CALL_KEYCTL_SESSION] = {SYS_keyctl, {0, -3, 0}},
	[CALL_KEYCTL_JOIN] = {SYS_keyctl, {1, 0}},
	[CALL_KEXEC] = {SYS_kexec_load, {0, 0, 0, 0xfff0}},
	[CALL_KEXEC_FILE] = {SYS_kexec_file_load, {-1, -1, 0, 0, 0xfff0}},
	[CALL_INIT_MODULE] = {SYS_init_module, {0, 0, (long)""}},
	[CALL_FINIT_MODULE] = {SYS_finit_module, {-1, (long)"", 0}},
	[CALL_DELETE_MODULE] = {SYS_delete_module,
				{(long)"pinfold_escape", 0}},
	[CALL_SWAPON] = {SYS_swapon, {(long)"/nonexistent", 0}},
	[CALL_SWAPOFF] = {SYS_swapoff, {(long)"/nonexistent"}},
	[CALL_REBOOT] = {SYS_reboot, {(long)0xfee1dead, 672274793, 0x12345}},
	[CALL_SETTIMEOFDAY] = {SYS_settimeofday, {0, 0}},
	[CALL_CLOCK_SETTIME] = {SYS_clock_settime, {0, (long)&bad_time}},
	[CALL_ACCT] = {SYS_acct, {(long)"/nonexistent"}},
	[CALL_SYSLOG_READ] = {SYS_syslog, {10, 0, 0}},
	[CALL_SYSLOG_CLEAR] = {SYS_syslog, {8, 0, 0}}, /* level 0: EINVAL */
	[CALL_QUOTACTL] = {SYS_quotactl, {0x80000100, 0, 0, 0}},
	[CALL_QUOTACTL_FD] = {443, {-1, 0x80000100, 0, 0}},
	[CALL_USERFAULTFD] = {SYS_userfaultfd, {O_CLOEXEC | 1}},
	[CALL_IOPL] = {SYS_iopl, {3}},
	[CALL_IOPERM] = {SYS_ioperm, {0x80, 1, 1}},
	[CALL_LOOKUP_DCOOKIE] = {212, {0, 0, 0}},
	[CALL_NFSSERVCTL] = {180, {0, 0, 0}},
	[CALL_VHANGUP] = {SYS_vhangup, {0}},
	[CALL_FANOTIFY] = {SYS_fanotify_init, {0x200, 0}},
	[CALL_MIGRATE_PAGES] = {SYS_migrate_pages, {1, 0, 0, 0}},
	[CALL_MOVE_PAGES] = {SYS_move_pages, {1, 0, 0, 0, 0, 0}},
	[CALL_MBIND] = {SYS_mbind, {0, 0, 0, 0, 0, 0}},
	[CALL_SET_MEMPOLICY] = {SYS_set_mempolicy, {0, 0, 0}},
	[CALL_MODIFY_LDT] = {SYS_modify_ldt, {0, 0, 0}},
	[CALL_USELIB] = {134, {(long)"/nonexistent"}},
	[CALL_USTAT] = {136, {0, 0}},
	[CALL_SYSFS] = {139, {3}},
	[CALL_CREATE_MODULE] = {174, {0, 0}},
	[CALL_UNKNOWN_1000] = {1000, {0}},
	[CALL_UNKNOWN_HUGE] = {0x7ffffff0, {0}},
	[CALL_UNKNOWN_NEGATIVE] = {-7, {0}},
	[CALL_X32_GETPID] = {0x40000000 + 39, {0}},
	[CALL_IO_URING_ENTER] = {426, {-1, 0, 0, 0, 0, 0}},
	[CALL_IO_URING_REGISTER] = {427, {-1, 0, 0, 0}},
	[CALL_PERSONALITY_ZERO] = {SYS_personality, {0x0100000}},
	[CALL_PERSONALITY_BSD] = {SYS_personality, {0x0006}},
	[CALL_MEMFD_SECRET] = {447, {0}},
	[CALL_PIDFD_OPEN_0] = {434, {0, 0}},
	[CALL_SETDOMAINNAME] = {SYS_setdomainname, {0, 65}},
	[CALL_ADJTIMEX] = {SYS_adjtimex, {(long)&adjust}},
	[CALL_RTAS_LIKE] = {SYS_lookup_dcookie, {-1, 0, 0}},
	[CALL_LSM_SET] = {460, {100, 0, 0, 0}},
};

static int plain(const struct attack *a)
{
	const struct call *c = &calls[a->n];

	return attack_result(syscall(c->nr, c->args[0], c->args[1], c->args[2],
				     c->args[3], c->args[4], c->args[5]));
}

static int same_host_name(const struct attack *a)
{
	struct utsname name;

	(void)a;
	if (uname(&name) < 0)
		return -errno;
	return attack_result(sethostname(name.nodename, strlen(name.nodename)));
}

static int bpf_map(const struct attack *a)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	(void)a;
	return attack_result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr,
				     sizeof(attr)));
}

static int bpf_program(const struct attack *a)
{
	static const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = 2;
	attr.license = (uint64_t)(uintptr_t)"GPL";
	(void)a;
	return attack_result(syscall(SYS_bpf, BPF_PROG_LOAD, &attr,
				     sizeof(attr)));
}

static int perf_event(const struct attack *a)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = sizeof(attr);
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.exclude_kernel = 1;
	return attack_result(syscall(SYS_perf_event_open, &attr, (int)a->n,
				     a->n ? 0 : -1, -1, 0));
}

static int io_uring(const struct attack *a)
{
	struct io_uring_params params;

	memset(&params, 0, sizeof(params));
	(void)a;
	return attack_result(syscall(SYS_io_uring_setup, 4, &params));
}

/* getpid of the 32-bit interface: its table of calls is another one. */
static int call_i386(const struct attack *a)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(a->n), "b"(0L), "c"(0L), "d"(0L)
			 : "memory", "r8", "r9", "r10", "r11");
	attack_note("returned %ld", r);
	return r < 0 ? (int)r : 0;
}

static int real_time_priority(const struct attack *a)
{
	const struct sched_param param = {.sched_priority = 50};

	return attack_result(syscall(SYS_sched_setscheduler, 0, (int)a->n,
				     &param));
}

static int raise_priority(const struct attack *a)
{
	(void)a;
	errno = 0;
	return nice(-10) == -1 && errno ? -errno : 0;
}

static int lock_memory(const struct attack *a)
{
	void *area = mmap(NULL, (size_t)a->n, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return -errno;
	return attack_result(mlock(area, (size_t)a->n));
}

#define DENIED "EPERM ENOSYS EACCES"
#define CALL(limit, what, n, past, bare)                                       \
	{limit, what, DENIED, past, plain, NULL, n, bare}

static const struct attack table[] = {
	CALL("keys", "adds a key to the kernel's rings", CALL_ADD_KEY, NULL,
	     NULL),
	CALL("keys", "requests a key, which starts a program outside",
	     CALL_REQUEST_KEY, "ENOENT ENOKEY", "a host may have no helper"),
	CALL("keys", "finds the caller's session ring", CALL_KEYCTL_SESSION,
	     NULL, NULL),
	CALL("keys", "joins a new session ring", CALL_KEYCTL_JOIN, NULL, NULL),
	{"system calls", "makes a BPF map", DENIED, NULL, bpf_map, NULL, 0,
	 NULL},
	{"system calls", "loads a BPF program", DENIED, NULL, bpf_program,
	 NULL, 0, NULL},
	{"system calls", "counts its own events by perf", DENIED, NULL,
	 perf_event, NULL, 0, NULL},
	{"system calls", "samples all processes by perf", DENIED, NULL,
	 perf_event, NULL, -1, NULL},
	{"system calls", "makes an io_uring", DENIED, NULL, io_uring, NULL, 0,
	 NULL},
	CALL("system calls", "enters an io_uring", CALL_IO_URING_ENTER,
	     "EBADF", NULL),
	CALL("system calls", "registers with an io_uring",
	     CALL_IO_URING_REGISTER, "EBADF EINVAL", NULL),
	CALL("system calls", "handles its own page faults", CALL_USERFAULTFD,
	     NULL, NULL),
	CALL("system calls", "loads another kernel", CALL_KEXEC, "EINVAL",
	     "not every kernel has kexec"),
	CALL("system calls", "loads another kernel from a file",
	     CALL_KEXEC_FILE, "EINVAL EBADF", "not every kernel has kexec"),
	CALL("system calls", "loads a module", CALL_INIT_MODULE,
	     "ENOEXEC EFAULT", "not every kernel has modules"),
	CALL("system calls", "loads a module from a file", CALL_FINIT_MODULE,
	     "EBADF", "not every kernel has modules"),
	CALL("system calls", "removes a module", CALL_DELETE_MODULE, "ENOENT",
	     "not every kernel has modules"),
	CALL("system calls", "adds swap", CALL_SWAPON, "ENOENT", NULL),
	CALL("system calls", "removes swap", CALL_SWAPOFF, "ENOENT", NULL),
	CALL("system calls", "reboots", CALL_REBOOT, "EINVAL", NULL),
	CALL("system calls", "sets the clock by settimeofday",
	     CALL_SETTIMEOFDAY, NULL, NULL),
	CALL("system calls", "sets the clock by clock_settime",
	     CALL_CLOCK_SETTIME, "EINVAL", NULL),
	CALL("system calls", "slews the clock by adjtimex", CALL_ADJTIMEX,
	     "EINVAL", NULL),
	CALL("system calls", "starts accounting", CALL_ACCT, "ENOENT",
	     "not every kernel has accounting"),
	CALL("system calls", "reads the kernel's messages", CALL_SYSLOG_READ,
	     NULL, NULL),
	CALL("system calls", "changes the console's level", CALL_SYSLOG_CLEAR,
	     "EINVAL", NULL),
	CALL("system calls", "asks for quotas", CALL_QUOTACTL,
	     "EINVAL ENOENT ENODEV ESRCH", "not every kernel has quotas"),
	CALL("system calls", "asks for quotas by descriptor",
	     CALL_QUOTACTL_FD, "EBADF EINVAL", "not every kernel has quotas"),
	CALL("system calls", "raises the I/O privilege level", CALL_IOPL, NULL,
	     "not every kernel has the call"),
	CALL("system calls", "opens an I/O port", CALL_IOPERM, NULL,
	     "not every kernel has the call"),
	CALL("system calls", "hangs up the terminal", CALL_VHANGUP, NULL,
	     NULL),
	CALL("system calls", "listens to all files by fanotify",
	     CALL_FANOTIFY, NULL, NULL),
	CALL("system calls", "moves pid 1's pages", CALL_MIGRATE_PAGES,
	     "EINVAL EFAULT", "not every kernel has memory nodes"),
	CALL("system calls", "asks where pid 1's pages are", CALL_MOVE_PAGES,
	     NULL, "not every kernel has memory nodes"),
	CALL("system calls", "loads a shared library by uselib", CALL_USELIB,
	     "ENOENT", "not every kernel has the call"),
	CALL("system calls", "lists the kernel's file systems", CALL_SYSFS,
	     NULL, "not every kernel has the call"),
	CALL("system calls", "reads a descriptor local table by modify_ldt",
	     CALL_MODIFY_LDT, "EFAULT", NULL),
	CALL("system calls", "looks a profiler's cookie up",
	     CALL_LOOKUP_DCOOKIE, "EINVAL", "not every kernel has the call"),
	CALL("system calls", "maps the zero page by personality",
	     CALL_PERSONALITY_ZERO, NULL, NULL),
	CALL("system calls", "takes another system's personality",
	     CALL_PERSONALITY_BSD, NULL, NULL),
	CALL("system calls", "sets the domain's name", CALL_SETDOMAINNAME,
	     "EINVAL", NULL),
	{"system calls", "sets the host's name", DENIED, NULL, same_host_name,
	 NULL, 0, NULL},
	{"system calls", "calls a number that no kernel knows", "ENOSYS", NULL,
	 plain, NULL, CALL_UNKNOWN_1000, "the kernel's answer is the same"},
	{"system calls", "calls a number near the largest", "ENOSYS", NULL,
	 plain, NULL, CALL_UNKNOWN_HUGE, "the kernel's answer is the same"},
	{"system calls", "calls a negative number", "ENOSYS", NULL, plain,
	 NULL, CALL_UNKNOWN_NEGATIVE, "the kernel's answer is the same"},
	{"system calls", "calls getpid by the x32 interface",
	 "ENOSYS EPERM SIGSYS", NULL, plain, NULL, CALL_X32_GETPID,
	 "not every kernel has x32"},
	/* A kernel without this interface sends SIGSEGV. */
	{"system calls", "calls getpid by the i386 interface",
	 "ENOSYS EPERM SIGSYS SIGSEGV", NULL, call_i386, NULL, 20, NULL},
	{"system calls", "calls mount by the i386 interface",
	 "ENOSYS EPERM SIGSYS SIGSEGV", "EFAULT", call_i386, NULL, 21, NULL},
	{"system calls", "takes real-time priority", DENIED, NULL,
	 real_time_priority, NULL, SCHED_FIFO, NULL},
	{"system calls", "raises its priority", DENIED, NULL, raise_priority,
	 NULL, 0, NULL},
	{"system calls", "locks a GiB of memory", DENIED " ENOMEM", NULL,
	 lock_memory, NULL, 1L << 30, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
