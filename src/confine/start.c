#include "confine/start.h"

#include "base/cleanup.h"
#include "confine/sys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Room for the child's own frames; our start functions use far less. */
#define STACK_SIZE (128u << 10)

#if defined(__x86_64__)
/*
 * clone3 with a stack of its own and a call of fn there. The kernel starts the
 * child on the new stack with every register kept, so fn and arg wait in
 * registers that a system call does not touch.
 */
static long clone3_call(struct clone_args *args, int (*fn)(void *), void *arg)
{
	register long nr __asm__("rax") = SYS_clone3;
	register struct clone_args *a __asm__("rdi") = args;
	register unsigned long size __asm__("rsi") = sizeof(*args);
	register int (*f)(void *) __asm__("r12") = fn;
	register void *p __asm__("r13") = arg;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:\n\t"
			 : "+r"(nr)
			 : "r"(a), "r"(size), "r"(f), "r"(p),
			   [exit] "i"(SYS_exit_group)
			 : "rcx", "r11", "memory", "cc");
	return nr;
}
#elif defined(__aarch64__)
static long clone3_call(struct clone_args *args, int (*fn)(void *), void *arg)
{
	register long nr __asm__("x8") = SYS_clone3;
	register long a __asm__("x0") = (long)args;
	register unsigned long size __asm__("x1") = sizeof(*args);
	register int (*f)(void *) __asm__("x20") = fn;
	register void *p __asm__("x21") = arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x21\n\t"
			 "blr x20\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc #0\n\t"
			 "brk #0\n"
			 "1:\n\t"
			 : "+r"(a)
			 : "r"(nr), "r"(size), "r"(f), "r"(p),
			   [exit] "i"(SYS_exit_group)
			 : "memory", "cc", "x30");
	return a;
}
#else
#error "pinfold is written for x86-64 and arm64"
#endif

pid_t start_beside(int (*fn)(void *), void *arg, uint64_t flags, int cgroup,
		   void *stack, size_t size, int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = flags | CLONE_VM | CLONE_CLEAR_SIGHAND,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)stack,
		.stack_size = size,
	};
	long pid;

	if (ret_pidfd) {
		args.flags |= CLONE_PIDFD;
		args.pidfd = (uint64_t)(uintptr_t)&pidfd;
	}
	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (__u64)(unsigned)cgroup;
	}
	pid = clone3_call(&args, fn, arg);
	if (pid < 0) {
		errno = (int)-pid;
		return -1;
	}
	if (ret_pidfd)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

pid_t start_vfork(int (*fn)(void *), void *arg, uint64_t flags, int cgroup,
		  int *ret_pidfd)
{
	void *stack;
	pid_t pid;
	int saved;

	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -1;
	pid = start_beside(fn, arg, flags | CLONE_VFORK, cgroup, stack,
			   STACK_SIZE, ret_pidfd);
	saved = errno;
	munmap(stack, STACK_SIZE);
	errno = saved;
	return pid;
}

void start_die_with_parent(int parent_pidfd)
{
	struct pollfd p = {.fd = parent_pidfd, .events = POLLIN};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&p, 1, 0) != 0)
		_exit(125);
}

void start_close_from(int first)
{
	if (sys_close_range((unsigned)first, ~0u, 0) == 0)
		return;
	for (int fd = first; fd < 65536; fd++)
		close(fd);
}

int start_limit(int resource, uint64_t max)
{
	struct rlimit now, want;

	/* The two C libraries differ in the type of setrlimit's number. */
	if (syscall(SYS_prlimit64, 0, resource, NULL, &now) < 0)
		return -errno;
	want.rlim_cur = want.rlim_max =
		max < now.rlim_max ? (rlim_t)max : now.rlim_max;
	return syscall(SYS_prlimit64, 0, resource, &want, NULL) < 0 ? -errno
								    : 0;
}

uint64_t start_raise(int resource, uint64_t want)
{
	struct rlimit now, more;

	if (syscall(SYS_prlimit64, 0, resource, NULL, &now) < 0)
		return 0;
	more = now;
	more.rlim_cur = want < now.rlim_max ? (rlim_t)want : now.rlim_max;
	if (more.rlim_cur <= now.rlim_cur ||
	    syscall(SYS_prlimit64, 0, resource, &more, NULL) < 0)
		return now.rlim_cur;
	return more.rlim_cur;
}
