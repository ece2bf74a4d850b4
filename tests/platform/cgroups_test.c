/*
 * Control groups of either version, as root where they can be written: what
 * counts, what is stopped, and the trap of a group that was killed.
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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP2_MAGIC 0x63677270
#define MIB (1L << 20)

static char group[300];

/* Where version 2 is mounted here, or NULL. */
static const char *unified(void)
{
	static const char *const places[] = {"/sys/fs/cgroup",
					     "/sys/fs/cgroup/unified"};
	struct statfs fs;

	for (size_t i = 0; i < 2; i++)
		if (statfs(places[i], &fs) == 0 && fs.f_type == CGROUP2_MAGIC)
			return places[i];
	return NULL;
}

static const char *in_group(const char *file)
{
	static char path[400];

	snprintf(path, sizeof(path), "%s/%s", group, file);
	return path;
}

/* Makes a group of the test's own below top. */
static int make_group(const char *top)
{
	if (!top)
		return -ENOENT;
	snprintf(group, sizeof(group), "%s/pinfold-fact-%d", top, getpid());
	return mkdir(group, 0755) < 0 ? -errno : 0;
}

static void remove_group(void)
{
	for (int i = 0; i < 200 && rmdir(group) < 0; i++)
		usleep(10000);
}

static int make_v1(const char *controller)
{
	char top[64];

	snprintf(top, sizeof(top), "/sys/fs/cgroup/%s", controller);
	return make_group(top);
}

static long read_number(const char *path, const char *key)
{
	char text[4096] = {0};
	char *at = text;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return -1;
	close(fd);
	if (key)
		at = strstr(text, key);
	return at ? strtol(at + (key ? strlen(key) : 0), NULL, 10) : -1;
}

static int in_group_run(int (*run)(void))
{
	int pid = fork();

	if (pid != 0)
		return fact_wait(pid);
	if (fact_write(in_group("cgroup.procs"), "0") < 0)
		_exit(99);
	_exit(run());
}

/* How many of 60 forks work. */
static int fork_many(void)
{
	int made = 0;

	while (made < 60) {
		int pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			pause();
			_exit(0);
		}
		made++;
	}
	if (made < 60 && errno != EAGAIN)
		made = 98;
	kill(0, SIGTERM);
	return made;
}

static int own_group_forks(void)
{
	setpgid(0, 0);
	signal(SIGTERM, SIG_IGN);
	return fork_many();
}

static int pids_v1(void)
{
	int made;

	if (make_v1("pids") < 0)
		return fact_skip("no writable version 1 pids group");
	if (fact_write(in_group("pids.max"), "20") < 0)
		return fact_works(-1, "pids.max");
	/* The children ignore SIGTERM, too: the group is emptied by a kill. */
	made = WEXITSTATUS(in_group_run(own_group_forks));
	for (int tries = 0; tries < 5; tries++) {
		FILE *file = fopen(in_group("cgroup.procs"), "re");
		int pid;

		while (file && fscanf(file, "%d", &pid) == 1)
			kill(pid, SIGKILL);
		if (file)
			fclose(file);
		usleep(20000);
	}
	if (read_number(in_group("pids.events"), "max ") < 1)
		return fact_is(false, "pids.events counts nothing");
	remove_group();
	return fact_is(made == 19, "%d forks", made);
}

static int use_memory(void)
{
	for (int i = 0; i < 16; i++) {
		char *area = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (area == MAP_FAILED)
			return 1;
		memset(area, 1, 8 * MIB);
	}
	return 0;
}

static int memory_v1(void)
{
	int status;
	long kills, fails;

	if (make_v1("memory") < 0)
		return fact_skip("no writable version 1 memory group");
	if (fact_write(in_group("memory.limit_in_bytes"), "33554432") < 0)
		return fact_works(-1, "memory.limit_in_bytes");
	status = in_group_run(use_memory);
	kills = read_number(in_group("memory.oom_control"), "oom_kill ");
	fails = read_number(in_group("memory.failcnt"), NULL);
	remove_group();
	return fact_is(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		       kills >= 1 && fails >= 1,
		       "status %d, oom_kill %ld, failcnt %ld", status, kills,
		       fails);
}

static int memory_v2(void)
{
	int status;
	long kills;

	if (make_group(unified()) < 0)
		return fact_skip("no writable version 2 group");
	if (fact_write(in_group("memory.max"), "33554432") < 0) {
		remove_group();
		return fact_skip("version 2 has no memory controller here");
	}
	fact_write(in_group("memory.swap.max"), "0");
	status = in_group_run(use_memory);
	kills = read_number(in_group("memory.events"), "oom_kill ");
	remove_group();
	return fact_is(WIFSIGNALED(status) && kills >= 1,
		       "status %d, oom_kill %ld", status, kills);
}

/* A child born in the group: its wait status, or -1. */
static int born_in_group(int fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (unsigned)fd,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(7);
	return pid < 0 ? -1 : fact_wait((int)pid);
}

static int born_where_it_belongs(void)
{
	int fd, status;

	if (make_group(unified()) < 0)
		return fact_skip("no writable version 2 group");
	fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	status = born_in_group(fd);
	remove_group();
	return fact_is(WIFEXITED(status) && WEXITSTATUS(status) == 7,
		       "status %d", status);
}

static int sleeping(void)
{
	for (int i = 0; i < 20; i++)
		if (fork() == 0)
			pause();
	pause();
	return 0;
}

static int kill_takes_all(void)
{
	int pid;

	if (make_group(unified()) < 0)
		return fact_skip("no writable version 2 group");
	if (access(in_group("cgroup.kill"), W_OK) < 0) {
		remove_group();
		return fact_skip("this kernel has no cgroup.kill");
	}
	pid = fork();
	if (pid == 0)
		_exit(in_group_run(sleeping));
	usleep(200000);
	if (fact_write(in_group("cgroup.kill"), "1") < 0)
		return fact_works(-1, "cgroup.kill");
	fact_wait(pid);
	for (int i = 0; i < 200; i++) {
		if (read_number(in_group("cgroup.events"), "populated ") == 0)
			break;
		usleep(10000);
	}
	pid = (int)read_number(in_group("cgroup.events"), "populated ");
	remove_group();
	return fact_is(pid == 0, "populated %d", pid);
}

/*
 * What the product must live with: a group that was killed once may give a
 * child that is dead at birth. It holds on the kernels that have the fault and
 * on those that have not, as long as a new group is always sound.
 */
static int new_group_after_a_kill(void)
{
	int fd, killed, fresh;

	if (make_group(unified()) < 0)
		return fact_skip("no writable version 2 group");
	fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fact_write(in_group("cgroup.kill"), "1") < 0) {
		remove_group();
		return fact_skip("this kernel has no cgroup.kill");
	}
	killed = born_in_group(fd);
	close(fd);
	remove_group();
	if (make_group(unified()) < 0)
		return fact_works(-1, "mkdir");
	fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fresh = born_in_group(fd);
	remove_group();
	return fact_is(WIFEXITED(fresh) && WEXITSTATUS(fresh) == 7,
		       "killed group %d, fresh group %d", killed, fresh);
}

static int frozen_v1_needs_thaw(void)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	int pid, early, late;

	if (make_v1("freezer") < 0)
		return fact_skip("no writable version 1 freezer");
	pid = fork();
	if (pid == 0) {
		fact_write(in_group("cgroup.procs"), "0");
		pause();
	}
	usleep(100000);
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	fact_write(in_group("freezer.state"), "FROZEN");
	usleep(200000);
	kill(pid, SIGKILL);
	early = poll(&p, 1, 300);
	fact_write(in_group("freezer.state"), "THAWED");
	late = poll(&p, 1, 5000);
	fact_wait(pid);
	remove_group();
	return fact_is(early == 0 && late == 1, "early %d, late %d", early,
		       late);
}

static int pressure_trigger(void)
{
	int fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return fact_skip("no pressure files here");
	return fact_works(write(fd, "some 100000 2000000", 20), "write");
}

static const struct fact table[] = {
	{"version 1 pids.max makes fork fail with EAGAIN and counts it",
	 pids_v1},
	{"version 1 memory limits kill and count it", memory_v1},
	{"version 2 memory limits kill and count it", memory_v2},
	{"a child can be born in a group of version 2", born_where_it_belongs},
	{"cgroup.kill ends every process of a group", kill_takes_all},
	{"a new group is sound after one of the same name was killed",
	 new_group_after_a_kill},
	{"a killed process of a frozen version 1 group waits for the thaw",
	 frozen_v1_needs_thaw},
	{"anyone may ask to be told of memory pressure", pressure_trigger},
};

int main(void)
{
	return fact_main(FACTS(table));
}
