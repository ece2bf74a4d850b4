/*
 * Runs when pinfold is built: turns the lists of system calls below into BPF
 * and prints it as a C header. What is not listed for a filter fails there with
 * ENOSYS, as if the kernel were older, so that C libraries fall back.
 *
 * Theory of operation: every call number gets an action; runs of numbers with
 * the same action become the leaves of a binary tree of comparisons, so that a
 * program is short (loading costs time at each start) and decides in about
 * seven steps. Libseccomp gives the numbers of the calls.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TIOCLINUX_REQUEST 0x541c
#define NETLINK_ROUTE_PROTOCOL 0
/* Every CLONE_NEW* flag, the one of time namespaces included. */
#define CLONE_NEW_ALL 0x7e020080u
#define PERSONALITY_QUERY 0xffffffffu
#define PERSONALITY_LINUX32 0x0008u

/* Call numbers above this are of another interface (x32) or unknown. */
#define NUMBERS 512
#define CODE_MAX 1024

/* Ordinary programs: files, memory, processes, signals, time, sockets. */
static const char *const common[] = {
	"read", "write", "open", "close", "stat", "fstat", "lstat", "poll",
	"lseek", "mmap", "mprotect", "munmap", "brk", "rt_sigaction",
	"rt_sigprocmask", "rt_sigreturn", "pread64", "pwrite64", "readv",
	"writev", "access", "pipe", "select", "sched_yield", "mremap", "msync",
	"mincore", "madvise", "shmget", "shmat", "shmctl", "dup", "dup2",
	"pause", "nanosleep", "getitimer", "alarm", "setitimer", "getpid",
	"sendfile", "accept", "sendmsg", "recvfrom", "recvmsg", "shutdown",
	"bind", "listen", "getsockname", "getpeername", "socketpair",
	"setsockopt", "getsockopt", "fork", "vfork", "execve", "exit", "wait4",
	"kill", "uname", "semget", "semop", "semctl", "shmdt", "msgget",
	"msgsnd", "msgrcv", "msgctl", "fcntl", "flock", "fsync", "fdatasync",
	"truncate", "ftruncate", "getdents", "getcwd", "chdir", "fchdir",
	"rename", "mkdir", "rmdir", "creat", "link", "unlink", "symlink",
	"readlink", "chmod", "fchmod", "chown", "fchown", "lchown", "umask",
	"gettimeofday", "getrlimit", "getrusage", "sysinfo", "times", "getuid",
	"getgid", "setuid", "setgid", "geteuid", "getegid", "setpgid",
	"getppid", "getpgrp", "setsid", "setreuid", "setregid", "getgroups",
	"setgroups", "setresuid", "getresuid", "setresgid", "getresgid",
	"getpgid", "setfsuid", "setfsgid", "getsid", "capget", "capset",
	"rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo",
	"rt_sigsuspend", "sigaltstack", "utime", "mknod", "statfs", "fstatfs",
	"getpriority", "setpriority", "sched_setparam", "sched_getparam",
	"sched_setscheduler", "sched_getscheduler", "sched_get_priority_max",
	"sched_get_priority_min", "sched_rr_get_interval", "mlock", "munlock",
	"mlockall", "munlockall", "prctl", "arch_prctl", "setrlimit", "sync",
	"gettid", "readahead", "setxattr", "lsetxattr", "fsetxattr",
	"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr",
	"flistxattr", "removexattr", "lremovexattr", "fremovexattr", "tkill",
	"time", "futex", "sched_setaffinity", "sched_getaffinity",
	"set_thread_area", "io_setup", "io_destroy", "io_getevents",
	"io_submit", "io_cancel", "get_thread_area", "epoll_create",
	"getdents64", "set_tid_address", "restart_syscall", "semtimedop",
	"fadvise64", "timer_create", "timer_settime", "timer_gettime",
	"timer_getoverrun", "timer_delete", "clock_gettime", "clock_getres",
	"clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl", "tgkill",
	"utimes", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive",
	"mq_notify", "mq_getsetattr", "waitid", "ioprio_set", "ioprio_get",
	"inotify_init", "inotify_add_watch", "inotify_rm_watch", "openat",
	"mkdirat", "mknodat", "fchownat", "futimesat", "newfstatat",
	"unlinkat", "renameat", "linkat", "symlinkat", "readlinkat",
	"fchmodat", "faccessat", "pselect6", "ppoll", "set_robust_list",
	"get_robust_list", "splice", "tee", "sync_file_range", "vmsplice",
	"utimensat", "epoll_pwait", "signalfd", "timerfd_create", "eventfd",
	"fallocate", "timerfd_settime", "timerfd_gettime", "accept4",
	"signalfd4", "eventfd2", "epoll_create1", "dup3", "pipe2",
	"inotify_init1", "preadv", "pwritev", "rt_tgsigqueueinfo", "recvmmsg",
	"syncfs", "sendmmsg", "getcpu", "sched_setattr",
	"sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create",
	"execveat", "membarrier", "mlock2", "copy_file_range", "preadv2",
	"pwritev2", "pkey_mprotect", "pkey_alloc", "pkey_free", "statx",
	"rseq", "pidfd_send_signal", "pidfd_open", "clone3", "close_range",
	"openat2", "faccessat2", "epoll_pwait2", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self", "memfd_secret",
	"process_mrelease", "futex_waitv", "ptrace", "process_vm_readv",
	"process_vm_writev", "process_madvise", "pidfd_getfd", "get_mempolicy",
	"set_mempolicy", "mbind", "name_to_handle_at", "ugetrlimit",
};

/* Known and denied: these fail with EPERM, as without the capability. */
static const char *const denied[] = {
	"mount", "umount2", "pivot_root", "chroot", "setns", "open_tree",
	"move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "open_by_handle_at", "add_key", "request_key",
	"keyctl", "bpf", "perf_event_open", "userfaultfd", "fanotify_init",
	"fanotify_mark", "kexec_load", "kexec_file_load", "init_module",
	"finit_module", "delete_module", "iopl", "ioperm", "swapon", "swapoff",
	"reboot", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
	"acct", "quotactl", "quotactl_fd", "syslog", "sethostname",
	"setdomainname", "vhangup", "kcmp", "lookup_dcookie", "migrate_pages",
	"move_pages", "modify_ldt",
};

/* Lifted by nesting: what a sandbox inside the sandbox is built with. */
static const char *const nesting[] = {
	"mount", "umount2", "pivot_root", "chroot", "setns", "open_tree",
	"move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "sethostname", "setdomainname", "unshare", "clone",
	"kcmp",
};

/* What init itself needs beside the commands. */
static const char *const init_own[] = {
	"move_mount",
};

/* The keeper once the sandbox is built: watch, relay, kill, clean up. */
static const char *const keeper[] = {
	"read", "write", "close", "fstat", "newfstatat", "statx", "lseek",
	"poll", "ppoll", "mmap", "munmap", "mremap", "brk", "mprotect",
	"madvise", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
	"restart_syscall", "nanosleep", "clock_nanosleep", "clock_gettime",
	"gettimeofday", "getpid", "gettid", "getppid", "getuid", "geteuid",
	"getgid", "getegid", "kill", "tgkill", "tkill", "exit", "exit_group",
	"futex", "wait4", "waitid", "pidfd_send_signal", "pidfd_open",
	"sendmsg", "recvmsg", "sendto", "recvfrom", "accept4", "getsockopt",
	"shutdown", "open", "openat", "openat2", "pread64", "pwrite64",
	"readv", "writev", "splice", "tee", "pipe2", "dup", "dup3", "fcntl",
	"ioctl", "ftruncate", "fchmod", "fchmodat", "rename", "renameat",
	"renameat2", "unlink", "unlinkat", "rmdir", "mkdirat", "getdents64",
	"statfs", "fstatfs", "fsync", "fdatasync", "getrandom", "uname",
	"sched_setaffinity", "sched_getaffinity", "set_tid_address",
	"set_robust_list", "rseq", 
	"close_range", "dup2", "arch_prctl",
	"access", "faccessat", "readlink", "readlinkat",
	
	"flock",
};

static const char *const watch[] = {
	"read", "write", "close", "poll", "ppoll", "ioctl", "sendmsg",
	"process_vm_readv", "mmap", "munmap", "brk", "rt_sigreturn",
	"rt_sigprocmask", "exit", "exit_group", "clock_gettime", "openat",
	"open", "restart_syscall", "getpid",
};

/* Until watch is needed: to wait, and to start that static program. */
static const char *const waiter[] = {
	"poll", "ppoll", "execveat", "exit", "exit_group", "restart_syscall",
	"arch_prctl", "set_tid_address", "set_robust_list", "rseq", "brk",
	"mmap", "munmap", "mprotect", "prctl", "seccomp", "close_range",
	"close", "rt_sigprocmask", "rt_sigreturn", "clock_gettime", "getpid",
	"ioctl", "sendmsg", "process_vm_readv",
};

static const char *const policy[] = {
	"read", "write", "close", "fstat", "newfstatat", "lseek", "mmap",
	"munmap", "mremap", "brk", "mprotect", "madvise", "rt_sigreturn",
	"rt_sigprocmask", "exit", "exit_group", "clock_gettime", "futex",
	"getrandom", "getpid", "gettid", "tgkill", "writev", "readv",
	"sendmsg", "recvmsg", "poll",
};

/* Receives files, sends text; memory. */
static const char *const diff[] = {
	"read", "close", "mmap", "munmap", "mremap", "brk", "mprotect",
	"madvise", "rt_sigreturn", "rt_sigprocmask", "exit", "exit_group",
	"clock_gettime", "futex", "getpid", "gettid", "tgkill", "sendmsg",
	"recvmsg",
};

/*
 * A program of the host that reads and writes files, alone: no socket, no new
 * process, nothing done to another one.
 */
static const char *const git[] = {
	"read", "write", "open", "openat", "close", "stat", "fstat", "lstat",
	"newfstatat", "statx", "poll", "lseek", "mmap", "mprotect", "munmap",
	"mremap", "madvise", "brk", "rt_sigaction", "rt_sigprocmask",
	"rt_sigreturn", "sigaltstack", "pread64", "pwrite64", "readv",
	"writev", "access", "faccessat", "faccessat2", "dup", "dup2", "dup3",
	"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid",
	"getegid", "getpgrp", "getpgid", "exit", "exit_group", "execve",
	"uname", "fcntl", "fsync", "fdatasync", "sync_file_range", "truncate",
	"ftruncate", "fallocate", "fadvise64", "getdents", "getdents64",
	"getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2",
	"mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "link", "linkat",
	"chmod", "fchmod", "fchmodat", "umask", "readlink", "readlinkat",
	"utime", "utimes", "utimensat", "statfs", "fstatfs", "gettimeofday",
	"time", "times", "getrusage", "getrlimit", "ugetrlimit", "sysinfo",
	"futex", "set_tid_address", "set_robust_list", "rseq", "arch_prctl",
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep",
	"setitimer", "alarm", "getrandom", "sched_getaffinity", "sched_yield",
	"tgkill", "restart_syscall",
};

enum action {
	UNKNOWN, /* ENOSYS */
	ALLOW,
	DENY, /* EPERM */
	NOTIFY,
	IF_SOCKET,
	IF_IOCTL,
	IF_NO_NAMESPACE,
	IF_PERSONALITY,
	IF_OWN_LIMITS,
	NOTIFY_IF_ADDRESS,
};

struct program {
	enum action action[NUMBERS];
	struct sock_filter code[CODE_MAX];
	unsigned n;
};

static void die(const char *what)
{
	fprintf(stderr, "seccomp_gen: %s\n", what);
	exit(1);
}

static void set(struct program *p, const char *name, enum action action)
{
	int nr = seccomp_syscall_resolve_name(name);

	if (nr == __NR_SCMP_ERROR)
		fprintf(stderr, "seccomp_gen: %s is unknown here\n", name);
	/* Negative: a call that this machine does not have. */
	if (nr >= 0 && nr < NUMBERS)
		p->action[nr] = action;
}

static void set_all(struct program *p, const char *const *names, size_t n,
		    enum action action)
{
	for (size_t i = 0; i < n; i++)
		set(p, names[i], action);
}

#define SET_ALL(p, list, action)                                               \
	set_all(p, list, sizeof(list) / sizeof(*(list)), action)

static void emit(struct program *p, struct sock_filter line)
{
	if (p->n == CODE_MAX)
		die("a filter is too long");
	p->code[p->n++] = line;
}

static void load(struct program *p, size_t offset)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     (uint32_t)offset));
}

/* The low half of an argument; little-endian machines only. */
static void load_arg(struct program *p, unsigned i)
{
	load(p, offsetof(struct seccomp_data, args) + 8 * i);
}

static void jump(struct program *p, uint16_t how, uint32_t k, unsigned yes,
		 unsigned no)
{
	if (yes > 255 || no > 255)
		die("a jump is too long");
	emit(p, (struct sock_filter)BPF_JUMP(
			(uint16_t)(BPF_JMP | how | BPF_K), k, (uint8_t)yes,
			(uint8_t)no));
}

static void give(struct program *p, uint32_t result)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, result));
}

static void fail_with(struct program *p, unsigned error)
{
	give(p, SECCOMP_RET_ERRNO | error);
}

/*
 * socket(2): local, TCP, UDP, and the routing part of netlink. Nothing rarer:
 * every protocol is kernel code of its own (MPTCP, SCTP, raw).
 */
static void emit_socket(struct program *p)
{
	load_arg(p, 0);
	jump(p, BPF_JEQ, AF_UNIX, 10, 0);
	jump(p, BPF_JEQ, AF_INET, 4, 0);
	jump(p, BPF_JEQ, AF_INET6, 3, 0);
	jump(p, BPF_JEQ, AF_NETLINK, 0, 8);
	load_arg(p, 2);
	jump(p, BPF_JEQ, NETLINK_ROUTE_PROTOCOL, 5, 6);
	load_arg(p, 2);
	jump(p, BPF_JEQ, 0, 3, 0);
	jump(p, BPF_JEQ, IPPROTO_TCP, 2, 0);
	jump(p, BPF_JEQ, IPPROTO_UDP, 1, 0);
	fail_with(p, EPROTONOSUPPORT);
	give(p, SECCOMP_RET_ALLOW);
	fail_with(p, EAFNOSUPPORT);
}

/*
 * Typing into a terminal, and line disciplines, which load drivers: 32 bits are
 * compared, as the kernel does.
 */
static void emit_ioctl(struct program *p)
{
	load_arg(p, 1);
	jump(p, BPF_JEQ, TIOCSTI, 3, 0);
	jump(p, BPF_JEQ, TIOCLINUX_REQUEST, 2, 0);
	jump(p, BPF_JEQ, TIOCSETD, 1, 0);
	give(p, SECCOMP_RET_ALLOW);
	fail_with(p, EPERM);
}

/* prlimit(2) of the caller itself: others of its user have limits too. */
static void emit_own_limits(struct program *p)
{
	load_arg(p, 0);
	jump(p, BPF_JEQ, 0, 0, 1);
	give(p, SECCOMP_RET_ALLOW);
	fail_with(p, EPERM);
}

static void emit_no_namespace(struct program *p)
{
	load_arg(p, 0);
	jump(p, BPF_JSET, CLONE_NEW_ALL, 1, 0);
	give(p, SECCOMP_RET_ALLOW);
	fail_with(p, EPERM);
}

static void emit_personality(struct program *p)
{
	load_arg(p, 0);
	jump(p, BPF_JEQ, 0, 2, 0);
	jump(p, BPF_JEQ, PERSONALITY_LINUX32, 1, 0);
	jump(p, BPF_JEQ, PERSONALITY_QUERY, 0, 1);
	give(p, SECCOMP_RET_ALLOW);
	fail_with(p, EPERM);
}

/* sendto(2) of a connected socket has no address and is not looked at. */
static void emit_notify_if_address(struct program *p)
{
	load_arg(p, 4);
	jump(p, BPF_JEQ, 0, 0, 3);
	load(p, offsetof(struct seccomp_data, args) + 8 * 4 + 4);
	jump(p, BPF_JEQ, 0, 0, 1);
	give(p, SECCOMP_RET_ALLOW);
	give(p, SECCOMP_RET_USER_NOTIF);
}

static void emit_action(struct program *p, enum action action)
{
	switch (action) {
	case UNKNOWN:
		fail_with(p, ENOSYS);
		break;
	case ALLOW:
		give(p, SECCOMP_RET_ALLOW);
		break;
	case DENY:
		fail_with(p, EPERM);
		break;
	case NOTIFY:
		give(p, SECCOMP_RET_USER_NOTIF);
		break;
	case IF_SOCKET:
		emit_socket(p);
		break;
	case IF_IOCTL:
		emit_ioctl(p);
		break;
	case IF_NO_NAMESPACE:
		emit_no_namespace(p);
		break;
	case IF_PERSONALITY:
		emit_personality(p);
		break;
	case IF_OWN_LIMITS:
		emit_own_limits(p);
		break;
	case NOTIFY_IF_ADDRESS:
		emit_notify_if_address(p);
		break;
	}
}

/* Decides among runs first to last-1, whose starts are in start[]. */
static void emit_tree(struct program *p, const unsigned *start, unsigned first,
		      unsigned last)
{
	unsigned middle = first + (last - first) / 2;
	unsigned at = p->n;

	if (last - first == 1) {
		emit_action(p, p->action[start[first]]);
		return;
	}
	jump(p, BPF_JGE, start[middle], 0, 0);
	emit_tree(p, start, first, middle);
	if (p->n - at - 1 > 255)
		die("a jump is too long");
	p->code[at].jt = (uint8_t)(p->n - at - 1);
	emit_tree(p, start, middle, last);
}

static void print(struct program *p, const char *name)
{
	unsigned start[NUMBERS + 1], n = 0;

	for (unsigned i = 0; i < NUMBERS; i++) {
		if (i == 0 || p->action[i] != p->action[i - 1])
			start[n++] = i;
	}
	load(p, offsetof(struct seccomp_data, arch));
	jump(p, BPF_JEQ, seccomp_arch_native(), 1, 0);
	fail_with(p, ENOSYS);
	load(p, offsetof(struct seccomp_data, nr));
	jump(p, BPF_JGE, NUMBERS, 0, 1);
	fail_with(p, ENOSYS);
	emit_tree(p, start, 0, n);
	printf("static const struct sock_filter filter_%s[] = {\n", name);
	for (unsigned i = 0; i < p->n; i++)
		printf("\t{0x%04x, %u, %u, 0x%08x},\n", p->code[i].code,
		       p->code[i].jt, p->code[i].jf, p->code[i].k);
	printf("};\n\n");
}

static void set_command(struct program *p, bool nested)
{
	SET_ALL(p, common, ALLOW);
	SET_ALL(p, denied, DENY);
	set(p, "connect", ALLOW);
	set(p, "sendto", ALLOW);
	set(p, "socket", IF_SOCKET);
	set(p, "ioctl", IF_IOCTL);
	set(p, "clone", IF_NO_NAMESPACE);
	set(p, "unshare", IF_NO_NAMESPACE);
	set(p, "personality", IF_PERSONALITY);
	set(p, "prlimit64", IF_OWN_LIMITS);
	if (nested)
		SET_ALL(p, nesting, ALLOW);
}

static void set_init(struct program *p, bool nested)
{
	set_command(p, nested);
	SET_ALL(p, init_own, ALLOW);
	set(p, "connect", NOTIFY);
	set(p, "sendto", NOTIFY_IF_ADDRESS);
}

int main(void)
{
	static struct program p[10];

	printf("/* Generated by seccomp_gen. */\n"
	       "#include <linux/filter.h>\n\n");
	set_command(&p[0], false);
	print(&p[0], "command");
	set_command(&p[1], true);
	print(&p[1], "command_nesting");
	set_init(&p[2], false);
	print(&p[2], "init");
	set_init(&p[3], true);
	print(&p[3], "init_nesting");
	SET_ALL(&p[4], keeper, ALLOW);
	print(&p[4], "keeper");
	SET_ALL(&p[5], watch, ALLOW);
	print(&p[5], "watch");
	SET_ALL(&p[6], policy, ALLOW);
	print(&p[6], "policy");
	SET_ALL(&p[7], diff, ALLOW);
	print(&p[7], "diff");
	SET_ALL(&p[8], waiter, ALLOW);
	print(&p[8], "waiter");
	SET_ALL(&p[9], git, ALLOW);
	set(&p[9], "prlimit64", IF_OWN_LIMITS);
	print(&p[9], "git");
	return fflush(stdout) == 0 ? 0 : 1;
}
