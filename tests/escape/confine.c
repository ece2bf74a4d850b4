/*
 * Attacks on the confinement itself: rights stay dropped, the filter stays, and
 * a Landlock domain is there beside the mounts.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYS_landlock_create_ruleset_nr 444
#define SYS_landlock_restrict_self_nr 446
#define LANDLOCK_LAYERS 16

/* The number after name in /proc/self/status, by the base; -1: not there. */
static long long status_field(const char *name, int base)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long long value = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = (long long)strtoull(line + strlen(name), NULL,
						    base);
	if (file)
		fclose(file);
	return value;
}

static int has_capabilities(const struct attack *a)
{
	long long set = status_field(a->s, 16);

	attack_note("%s %llx", a->s, (unsigned long long)set);
	return set == 0 ? -EPERM : 0;
}

static int lacks_no_new_privs(const struct attack *a)
{
	(void)a;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -EPERM : 0;
}

static int clears_no_new_privs(const struct attack *a)
{
	(void)a;
	return attack_result(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static int lacks_filter(const struct attack *a)
{
	(void)a;
	attack_note("Seccomp: %lld", status_field("Seccomp:", 10));
	return status_field("Seccomp:", 10) == 2 ? -EPERM : 0;
}

static int removes_filter(const struct attack *a)
{
	return attack_result(prctl(PR_SET_SECCOMP, a->n, NULL, 0, 0));
}

/* An allowing filter on top must not open what the lower one denies. */
static int stacks_allowing_filter(const struct attack *a)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	(void)a;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return -errno;
	return attack_result(syscall(SYS_bpf, 0, NULL, 0)) == -EINVAL ?
		       0 : attack_result(syscall(SYS_unshare, 0x20000));
}

static int takes_listener(const struct attack *a)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	(void)a;
	return attack_result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				     SECCOMP_FILTER_FLAG_NEW_LISTENER,
				     &program));
}

static int raises_capability(const struct attack *a)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};

	data[0].effective = 1u << a->n;
	data[0].permitted = 1u << a->n;
	return attack_result(syscall(SYS_capset, &head, data));
}

static int raises_inheritable(const struct attack *a)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};

	data[0].inheritable = 1u << a->n;
	return attack_result(syscall(SYS_capset, &head, data));
}

static int raises_ambient(const struct attack *a)
{
	return attack_result(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, a->n,
				   0, 0));
}

static int bounding_set(const struct attack *a)
{
	(void)a;
	for (int cap = 0; cap <= 40; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) {
			attack_note("capability %d", cap);
			return 0;
		}
	return -EPERM;
}

static int drops_bounding(const struct attack *a)
{
	return attack_result(prctl(PR_CAPBSET_DROP, a->n, 0, 0, 0));
}

static int sets_securebits(const struct attack *a)
{
	return attack_result(prctl(PR_SET_SECUREBITS, a->n, 0, 0, 0));
}

static int sets_keepcaps_and_root(const struct attack *a)
{
	(void)a;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -errno;
	return attack_result(setresuid(0, 0, 0));
}

static int sets_mm_field(const struct attack *a)
{
	/* PR_SET_MM_EXE_FILE of no descriptor: EBADF behind the right. */
	return attack_result(prctl(PR_SET_MM, a->n, -1, 0, 0));
}

/* C libraries disagree about setrlimit's types: the call itself is made. */
static int raises_limit(const struct attack *a)
{
	struct rlimit limit;

	if (syscall(SYS_prlimit64, 0, a->n, NULL, &limit) < 0)
		return -errno;
	if (limit.rlim_max == RLIM_INFINITY)
		return 0;
	limit.rlim_max++;
	return attack_result(syscall(SYS_prlimit64, 0, a->n, &limit, NULL));
}

/* A kernel stacks at most 16 domains: where one is there, 15 fit. */
static int landlock_absent(const struct attack *a)
{
	const uint64_t handled[1] = {1}; /* execute, allowed nowhere: unused */
	int layers = 0;

	(void)a;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	while (layers <= LANDLOCK_LAYERS) {
		int fd = (int)syscall(SYS_landlock_create_ruleset_nr, handled,
				      sizeof(handled), 0);

		if (fd < 0)
			return -errno;
		if (syscall(SYS_landlock_restrict_self_nr, fd, 0) < 0)
			break;
		close(fd);
		layers++;
	}
	attack_note("%d further layers, %s", layers, strerror(errno));
	return layers < LANDLOCK_LAYERS ? -E2BIG : 0;
}

static int dumpable(const struct attack *a)
{
	(void)a;
	return attack_result(prctl(PR_SET_DUMPABLE, 2, 0, 0, 0));
}

static int traces_after_dumpable(const struct attack *a)
{
	(void)a;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	prctl(PR_SET_PTRACER, -1, 0, 0, 0);
	return attack_result(open("/proc/1/mem", O_RDONLY | O_CLOEXEC));
}

#define NO_RESOURCE "not every root holds CAP_SYS_RESOURCE"
#define DENIED "EPERM EINVAL EACCES ENOSYS"
#define CAPS(set)                                                              \
	{"capabilities", "holds a capability in " set, "EPERM", NULL,          \
	 has_capabilities, set ":", 0, NULL}

static const struct attack table[] = {
	CAPS("CapPrm"),
	CAPS("CapEff"),
	{"capabilities", "holds a capability in CapInh", "EPERM", NULL,
	 has_capabilities, "CapInh:", 0, "no caller has any"},
	CAPS("CapBnd"),
	{"capabilities", "holds a capability in CapAmb", "EPERM", NULL,
	 has_capabilities, "CapAmb:", 0, "no caller has any"},
	{"capabilities", "reads one in its bounding set", "EPERM", NULL,
	 bounding_set, NULL, 0, NULL},
	{"capabilities", "raises CAP_SYS_ADMIN", "EPERM", NULL,
	 raises_capability, NULL, CAP_SYS_ADMIN, NULL},
	{"capabilities", "raises CAP_DAC_OVERRIDE", "EPERM", NULL,
	 raises_capability, NULL, CAP_DAC_OVERRIDE, NULL},
	{"capabilities", "raises an inheritable one", "EPERM", NULL,
	 raises_inheritable, NULL, CAP_NET_RAW, NULL},
	{"capabilities", "raises an ambient one", "EPERM EINVAL", NULL,
	 raises_ambient, NULL, CAP_SYS_ADMIN, "none is inheritable"},
	{"capabilities", "drops from its bounding set", DENIED, NULL,
	 drops_bounding, NULL, CAP_SYS_ADMIN, NULL},
	{"capabilities", "sets its secure bits", DENIED, NULL,
	 sets_securebits, NULL, 1, NULL},
	{"capabilities", "keeps them and becomes root", DENIED, NULL,
	 sets_keepcaps_and_root, NULL, 0, NULL},
	{"confinement", "runs without no_new_privs", "EPERM", NULL,
	 lacks_no_new_privs, NULL, 0, NULL},
	{"confinement", "clears no_new_privs", "EINVAL EPERM ENOSYS", NULL,
	 clears_no_new_privs, NULL, 0, "the kernel never clears it"},
	{"confinement", "runs without a filter", "EPERM", NULL, lacks_filter,
	 NULL, 0, NULL},
	{"confinement", "turns its filter off", DENIED, NULL, removes_filter,
	 NULL, 0, "the kernel never removes one"},
	{"confinement", "changes its filter to strict mode", DENIED, "SIGKILL",
	 removes_filter, NULL, 1, NULL},
	{"confinement", "puts an allowing filter on top", "EPERM ENOSYS EACCES",
	 NULL, stacks_allowing_filter, NULL, 0, NULL},
	{"confinement", "takes notifications of a filter of its own",
	 "EBUSY EPERM ENOSYS EACCES EINVAL", NULL, takes_listener, NULL, 0,
	 NULL},
	{"confinement", "replaces its program's link", DENIED, "EBADF",
	 sets_mm_field, NULL, 13, NO_RESOURCE},
	{"confinement", "makes itself dumpable to root", DENIED, NULL, dumpable,
	 NULL, 0, "the kernel refuses this value"},
	{"confinement", "opens pid 1's memory after it became dumpable",
	 "EACCES EPERM ENOENT", NULL, traces_after_dumpable, NULL, 0, NULL},
	{"confinement", "raises its limit of open files", "EPERM", NULL,
	 raises_limit, NULL, RLIMIT_NOFILE, NO_RESOURCE},
	{"confinement", "raises its limit of core dumps", "EPERM", NULL,
	 raises_limit, NULL, RLIMIT_CORE, NULL},
	{"confinement", "runs without a Landlock domain", "E2BIG", NULL,
	 landlock_absent, NULL, 0, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
