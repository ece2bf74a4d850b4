/*
 * Attacks by races: names are changed between a check and its use, thousands of
 * times in a bounded time. Success is a file that lies outside.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RACE_MS 700
#define EXCHANGE 2

/* Exchanges leave either kind under either name. */
static void clear_name(const char *name)
{
	unlink(name);
	rmdir(name);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int exchange(const char *one, const char *two)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, two,
			    EXCHANGE);
}

/* A process that exchanges two names until it is killed. */
static pid_t start_exchanger(const char *one, const char *two)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	alarm(10);
	for (;;)
		exchange(one, two);
}

static void stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Opens name again and again; the last error, or 0 once it lies outside. */
static int open_until_outside(const char *name, int flags)
{
	long end = now_ms() + RACE_MS;
	struct stat there;
	int last = -ENOENT;

	while (now_ms() < end) {
		int fd = open(name, flags | O_CLOEXEC, 0600);

		if (fd < 0) {
			last = -errno;
			continue;
		}
		/* Only the outside file has this size. */
		if (fstat(fd, &there) == 0 &&
		    there.st_size == attack_number("secretsize")) {
			close(fd);
			return 0;
		}
		close(fd);
	}
	return last;
}

static int directory_against_link(const struct attack *a)
{
	pid_t pid;
	int result;

	clear_name("race-dir");
	clear_name("race-link");
	mkdir("race-dir", 0700);
	if (symlink(attack_path("{outside}"), "race-link") < 0)
		return -errno;
	pid = start_exchanger("race-dir", "race-link");
	result = open_until_outside("race-dir/secret",
				    a->n ? O_WRONLY : O_RDONLY);
	stop(pid);
	return result;
}

static int file_against_link(const struct attack *a)
{
	pid_t pid;
	int result;
	int fd;

	clear_name("race-file");
	clear_name("race-file-link");
	fd = open("race-file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	if (symlink(attack_path("{outside}/secret"), "race-file-link") < 0)
		return -errno;
	pid = start_exchanger("race-file", "race-file-link");
	result = open_until_outside("race-file", a->n ? O_WRONLY : O_RDONLY);
	stop(pid);
	return result;
}

/* A directory that is moved away while it is being climbed out of. */
static int climb_while_moved(const struct attack *a)
{
	long end = now_ms() + RACE_MS;
	pid_t pid;
	int result = -ENOENT;

	(void)a;
	mkdir("race-up", 0700);
	mkdir("race-up/one", 0700);
	mkdir("race-up/one/two", 0700);
	mkdir("race-other", 0700);
	pid = start_exchanger("race-up/one", "race-other");
	while (now_ms() < end && result < 0) {
		int fd = open("race-up/one/two", O_PATH | O_CLOEXEC);
		char up[4200];

		if (fd < 0)
			continue;
		snprintf(up, sizeof(up), "../../../../../../../../../../../..%s",
			 attack_path("{outside}/secret"));
		if (openat(fd, up, O_RDONLY | O_CLOEXEC) >= 0)
			result = 0;
		close(fd);
	}
	stop(pid);
	return result;
}

/* A process that ends while its /proc directory is held open. */
static int reuse_of_a_process_directory(const struct attack *a)
{
	long end = now_ms() + RACE_MS;
	char name[64];

	(void)a;
	while (now_ms() < end) {
		pid_t pid = fork();
		int fd;

		if (pid == 0)
			_exit(0);
		if (pid < 0)
			return -errno;
		snprintf(name, sizeof(name), "/proc/%d", (int)pid);
		fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		waitpid(pid, NULL, 0);
		if (fd < 0)
			continue;
		if (openat(fd, "root/etc/shadow", O_RDONLY | O_CLOEXEC) >= 0)
			return 0;
		close(fd);
	}
	return -ESRCH;
}

/* The link of a standard stream, while the stream is replaced. */
static int stream_link_race(const struct attack *a)
{
	long end = now_ms() + RACE_MS;
	int last = -ENOENT;

	while (now_ms() < end) {
		int fd = open(attack_path(a->s), O_RDWR | O_CREAT | O_CLOEXEC,
			      0600);
		struct stat st;

		if (fd < 0) {
			last = -errno;
			continue;
		}
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return 0;
		close(fd);
		last = -ESPIPE;
	}
	return last;
}

static const struct attack table[] = {
	{"races", "reads outside while a directory and a link change places",
	 "ENOENT EACCES", NULL, directory_against_link, NULL, 0, NULL},
	{"races", "writes outside while a directory and a link change places",
	 "ENOENT EACCES", NULL, directory_against_link, NULL, 1, NULL},
	{"races", "reads outside while a file and a link change places",
	 "ENOENT EACCES", NULL, file_against_link, NULL, 0, NULL},
	{"races", "writes outside while a file and a link change places",
	 "ENOENT EACCES", NULL, file_against_link, NULL, 1, NULL},
	{"races", "climbs out while its directory is moved", "ENOENT EACCES",
	 NULL, climb_while_moved, NULL, 0, NULL},
	{"races", "reads by the directory of a process that has ended",
	 "ESRCH ENOENT EACCES", NULL, reuse_of_a_process_directory, NULL, 0,
	 "the kernel keeps nothing of a dead process"},
	{"races", "reopens the caller's log by /dev/stderr",
	 "ESPIPE ENXIO EACCES ENOENT", NULL, stream_link_race, "/dev/stderr",
	 0, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
