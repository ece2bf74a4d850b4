/*
 * Attacks on the limit of /proc and /sys: they show the sandbox's own processes
 * alone, and nothing in them changes the host.
 */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static ssize_t read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, text, size - 1);
	if (got < 0)
		got = -errno;
	close(fd);
	text[got > 0 ? got : 0] = 0;
	return got;
}

static int open_to_write(const struct attack *a)
{
	return attack_result(open(attack_path(a->s), O_WRONLY | O_CLOEXEC));
}

/* Reading at least a byte is the success; an empty file tells nothing. */
static int read_some(const struct attack *a)
{
	char text[256];
	ssize_t got = read_text(attack_path(a->s), text, sizeof(text));

	return got < 0 ? (int)got : got == 0 ? -ENODATA : 0;
}

/* Builds what the host's process alone has: this one's arguments name it too,
 * but not behind "sleep" or "MARK=". */
static size_t sentinel_mark(bool in_environment, char *mark, size_t size)
{
	int len;

	if (in_environment)
		len = snprintf(mark, size, "MARK=%s", attack_arg("marker"));
	else
		len = snprintf(mark, size, "sleep%c%s", 0,
			       attack_arg("sleeptime"));
	return (size_t)len;
}

static int see_sentinel(const struct attack *a)
{
	char mark[256];
	size_t len = sentinel_mark(a->n, mark, sizeof(mark));
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[300];
		char text[4096];
		ssize_t got;

		snprintf(name, sizeof(name), "/proc/%s/%s", entry->d_name, a->s);
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		got = read_text(name, text, sizeof(text));
		if (got > 0 && memmem(text, (size_t)got, mark, len))
			return 0;
	}
	return -ESRCH;
}

static int find_foreign_process(const struct attack *a)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%ld/%s", attack_number("sentinel"),
		 a->s);
	return attack_result(access(name, F_OK));
}

/* More processes than the sandbox can hold are the host's. */
static int count_processes(const struct attack *a)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	long seen = 0;

	while (dir && (entry = readdir(dir)))
		seen += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
	attack_note("%ld processes", seen);
	return seen > a->n ? 0 : -ESRCH;
}

static int environ_of_init(const struct attack *a)
{
	char text[8192];
	ssize_t got = read_text("/proc/1/environ", text, sizeof(text));

	(void)a;
	return got < 0 ? (int)got : got == 0 ? -ENODATA : 0;
}

static int list_links(const struct attack *a)
{
	DIR *dir = opendir(a->s);
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			return 0;
	return -ENODATA;
}

static int follow_link(const struct attack *a)
{
	char target[4096];

	return attack_result(readlink(a->s, target, sizeof(target)));
}

static int lower_oom_score(const struct attack *a)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)a;
	if (fd < 0)
		return -errno;
	return attack_result(write(fd, "-900", 4));
}

static int loosen_other_oom(const struct attack *a)
{
	int fd = open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)a;
	return attack_result(fd);
}

static int kernel_addresses(const struct attack *a)
{
	char text[256];
	ssize_t got = read_text("/proc/kallsyms", text, sizeof(text));

	(void)a;
	if (got <= 0)
		return got < 0 ? (int)got : -ENODATA;
	attack_note("%.30s", text);
	return strncmp(text, "0000000000000000 ", 17) ? 0 : -EPERM;
}

static int make_directory(const struct attack *a)
{
	if (mkdir(a->s, 0700) < 0)
		return -errno;
	rmdir(a->s);
	return 0;
}

static int maps_file_write(const struct attack *a)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/%ld/mem", a->n);
	fd = open(name, O_RDWR | O_CLOEXEC);
	return attack_result(fd);
}

/* A map of ids can be written once; a second write would widen it. */
static int rewrite_id_map(const struct attack *a)
{
	int fd = open(a->s, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return attack_result(write(fd, "0 0 4294967295\n", 15));
}

static int host_mounts_visible(const struct attack *a)
{
	const char *mark = attack_arg("outside");
	static char text[65536];
	ssize_t got = read_text(a->s, text, sizeof(text));

	if (got < 0)
		return (int)got;
	return strstr(text, mark) ? 0 : -ENOENT;
}

/* The command's own cgroup path must not tell where the host keeps it. */
static int cgroup_path_visible(const struct attack *a)
{
	static char text[8192];
	ssize_t got = read_text("/proc/self/cgroup", text, sizeof(text));

	(void)a;
	if (got < 0)
		return (int)got;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		const char *path = strrchr(line, ':');

		attack_note("%.100s", line);
		if (path && strcmp(path, ":/"))
			return 0;
	}
	return -ENOENT;
}

static int sysctl_userns(const struct attack *a)
{
	int fd = open("/proc/sys/user/max_user_namespaces",
		      O_WRONLY | O_CLOEXEC);

	(void)a;
	if (fd < 0)
		return -errno;
	return attack_result(write(fd, "100", 3));
}

#define NO_WRITE "EROFS EACCES EPERM ENOENT"
#define NOT_ALL "not every kernel has it"
#define NO_RESOURCE "not every root holds CAP_SYS_RESOURCE"
#define NO_READ "EACCES EPERM ENOENT ENODATA"

static const struct attack table[] = {
	{"proc", "finds the host's process by its arguments", "ESRCH", NULL,
	 see_sentinel, "cmdline", 0, NULL},
	{"proc", "finds the host's process by its environment", "ESRCH", NULL,
	 see_sentinel, "environ", 1, NULL},
	{"proc", "finds the host's process by its number", "ENOENT", NULL,
	 find_foreign_process, "stat", 0, NULL},
	{"proc", "sees more processes than the sandbox has", "ESRCH", NULL,
	 count_processes, NULL, 12, NULL},
	{"proc", "reads pid 1's environment", NO_READ, NULL, environ_of_init,
	 NULL, 0, NULL},
	{"proc", "opens pid 1's memory", "EACCES EPERM ENOENT", NULL,
	 maps_file_write, NULL, 1, NULL},
	{"proc", "lists pid 1's descriptors", NO_READ, NULL, list_links,
	 "/proc/1/fd", 0, NULL},
	{"proc", "follows pid 1's root", NO_READ, NULL, follow_link,
	 "/proc/1/root", 0, NULL},
	{"proc", "follows pid 1's program", NO_READ, NULL, follow_link,
	 "/proc/1/exe", 0, NULL},
	{"proc", "reads pid 1's memory map", NO_READ, NULL, read_some,
	 "/proc/1/maps", 0, NULL},
	{"proc", "reads pid 1's kernel stack", NO_READ, NULL, read_some,
	 "/proc/1/stack", 0, NULL},
	{"proc", "reads pid 1's system call", NO_READ, NULL, read_some,
	 "/proc/1/syscall", 0, NULL},
	{"proc", "sets the core pattern", NO_WRITE, NULL, open_to_write,
	 "/proc/sys/kernel/core_pattern", 0, NULL},
	{"proc", "sets the module loader's path", NO_WRITE, NULL, open_to_write,
	 "/proc/sys/kernel/modprobe", 0, NOT_ALL},
	{"proc", "sets the host's name by sysctl", NO_WRITE, NULL,
	 open_to_write, "/proc/sys/kernel/hostname", 0, NULL},
	{"proc", "sets overcommit", NO_WRITE, NULL, open_to_write,
	 "/proc/sys/vm/overcommit_memory", 0, NULL},
	{"proc", "opens forwarding", NO_WRITE, NULL, open_to_write,
	 "/proc/sys/net/ipv4/ip_forward", 0, NULL},
	{"proc", "sets the limit of open files", NO_WRITE, NULL, open_to_write,
	 "/proc/sys/fs/file-max", 0, NULL},
	{"proc", "lifts the limit of user namespaces", NO_WRITE, NULL,
	 sysctl_userns, NULL, 0, NULL},
	{"proc", "registers an interpreter of programs", NO_WRITE, NULL,
	 open_to_write, "/proc/sys/fs/binfmt_misc/register", 0,
	 "not every host has binfmt_misc mounted"},
	{"proc", "opens the sysrq trigger", NO_WRITE, NULL, open_to_write,
	 "/proc/sysrq-trigger", 0, NOT_ALL},
	{"proc", "opens the kernel's memory image",
	 "EACCES EPERM ENOENT ENODATA", NULL, read_some, "/proc/kcore", 0,
	 NOT_ALL},
	{"proc", "reads the kernel's message buffer", NO_READ, "EAGAIN",
	 read_some, "/proc/kmsg", 0, NULL},
	{"proc", "reads kernel addresses", NO_READ, NULL, kernel_addresses,
	 NULL, 0, NULL},
	{"proc", "reads the list of keys", NO_READ, NULL, read_some,
	 "/proc/keys", 0, NULL},
	{"proc", "reads the timers of the host", NO_READ, NULL, read_some,
	 "/proc/timer_list", 0, NULL},
	{"proc", "reads the allocator's tables", NO_READ, NULL, read_some,
	 "/proc/slabinfo", 0, NULL},
	{"proc", "reads the page flags of the host", NO_READ, "EINVAL", read_some,
	 "/proc/kpageflags", 0, NULL},
	{"proc", "changes interrupt affinity", NO_WRITE, NULL, open_to_write,
	 "/proc/irq/default_smp_affinity", 0, NULL},
	{"proc", "changes memory type ranges", NO_WRITE, NULL, open_to_write,
	 "/proc/mtrr", 0, "not every machine has them"},
	{"proc", "lowers its own out-of-memory score", "EACCES EPERM EROFS",
	 NULL, lower_oom_score, NULL, 0, NO_RESOURCE},
	{"proc", "changes pid 1's out-of-memory score",
	 "EACCES EPERM EROFS", NULL, loosen_other_oom, NULL, 0, NULL},
	{"proc", "rewrites its user id map", "EPERM EACCES EROFS", NULL,
	 rewrite_id_map, "/proc/self/uid_map", 0,
	 "a map is written once in any namespace"},
	{"proc", "rewrites pid 1's user id map", "EPERM EACCES EROFS", NULL,
	 rewrite_id_map, "/proc/1/uid_map", 0,
	 "a map is written once in any namespace"},
	{"proc", "sees the host's mounts in its own mount table", "ENOENT",
	 NULL, host_mounts_visible, "/proc/self/mounts", 0,
	 "only a host that mounts something there"},
	{"proc", "sees its place in the host's cgroups", "ENOENT", NULL,
	 cgroup_path_visible, NULL, 0, "a host may run it in the root group"},
	{"sys", "makes a cgroup", NO_WRITE, NULL, make_directory,
	 "/sys/fs/cgroup/pinfold-escape", 0, NULL},
	{"sys", "makes a cgroup in the pids hierarchy", NO_WRITE, NULL,
	 make_directory, "/sys/fs/cgroup/pids/pinfold-escape", 0,
	 "only hosts with version 1 have it"},
	{"sys", "sets the release agent", NO_WRITE, NULL, open_to_write,
	 "/sys/fs/cgroup/pids/release_agent", 0,
	 "only hosts with version 1 have it"},
	{"sys", "sets the helper of device events", NO_WRITE, NULL,
	 open_to_write, "/sys/kernel/uevent_helper", 0,
	 "not every kernel has it"},
	{"sys", "sends a device event", NO_WRITE, NULL, open_to_write,
	 "/sys/class/mem/null/uevent", 0, NULL},
	{"sys", "sets huge pages", NO_WRITE, NULL, open_to_write,
	 "/sys/kernel/mm/transparent_hugepage/enabled", 0,
	 "not every kernel has it"},
	{"sys", "opens the sleep state", NO_WRITE, NULL, open_to_write,
	 "/sys/power/state", 0, "not every machine can sleep"},
	{"sys", "lists the kernel's debug files", NO_READ, NULL, list_links,
	 "/sys/kernel/debug", 0, "not every host mounts them"},
	{"sys", "lists the kernel's trace files", NO_READ, NULL, list_links,
	 "/sys/kernel/tracing", 0, "not every host mounts them"},
	{"sys", "lists firmware tables", NO_READ, NULL, list_links,
	 "/sys/firmware", 0, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
