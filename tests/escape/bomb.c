/*
 * Uses up one resource as fast as it can, bounded, and then waits: a task whose
 * limit holds does not get as far as printing "survived". Argument: which.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1L << 20)
#define WAIT_S 15

static void wait_seconds(long seconds)
{
	const struct timespec t = {seconds, 0};

	nanosleep(&t, NULL);
}

/* 500 processes that only wait, tried for as long as it takes. */
static int bomb_fork(void)
{
	for (int made = 0, tries = 0; made < 500 && tries < 2000; tries++) {
		pid_t pid = fork();

		if (pid == 0) {
			wait_seconds(WAIT_S + 5);
			_exit(0);
		}
		if (pid > 0)
			made++;
		else
			usleep(5000);
	}
	return 0;
}

/* Every process forks, and its children do: there is no parent to kill. */
static int bomb_refork(void)
{
	time_t end = time(NULL) + WAIT_S;

	while (time(NULL) < end)
		if (fork() < 0)
			usleep(1000);
	return 0;
}

/* Each process starts the next one and is gone: hard to find, hard to kill. */
static int bomb_chains(void)
{
	time_t end = time(NULL) + 4 * WAIT_S;

	for (int i = 0; i < 30; i++) {
		if (fork() != 0)
			continue;
		while (time(NULL) < end)
			if (fork() > 0)
				_exit(0);
		_exit(0);
	}
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void *sleeper(void *unused)
{
	wait_seconds(WAIT_S + 5);
	return unused;
}

static int bomb_threads(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (int made = 0, tries = 0; made < 500 && tries < 2000; tries++) {
		if (pthread_create(&thread, &attr, sleeper, NULL) == 0)
			made++;
		else
			usleep(5000);
	}
	return 0;
}

static int fill_mapping(int flags)
{
	for (int i = 0; i < 64; i++) {
		char *area = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
				  flags | MAP_ANONYMOUS, -1, 0);

		if (area == MAP_FAILED)
			return errno;
		memset(area, 'x', 16 * MIB);
	}
	return 0;
}

static int bomb_memory(void)
{
	return fill_mapping(MAP_PRIVATE);
}

static int bomb_shared_memory(void)
{
	return fill_mapping(MAP_SHARED);
}

static int write_megabytes(int fd, long count)
{
	static char block[65536];

	memset(block, 'x', sizeof(block));
	for (long i = 0; i < count * 16; i++)
		if (write(fd, block, sizeof(block)) < 0)
			return errno;
	return 0;
}

static int bomb_memfd(void)
{
	int fd = (int)syscall(SYS_memfd_create, "bomb", 0);

	return fd < 0 ? errno : write_megabytes(fd, 1024);
}

static int fill_file(const char *directory, long megabytes)
{
	char name[4096];
	int fd;

	snprintf(name, sizeof(name), "%s/bomb", directory);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? errno : write_megabytes(fd, megabytes);
}

static int bomb_disk_source(void)
{
	return fill_file(".", 256);
}

static int bomb_disk_home(void)
{
	return fill_file(getenv("HOME") ? getenv("HOME") : "/", 256);
}

static int bomb_disk_tmp(void)
{
	return fill_file("/tmp", 256);
}

/* Without a name the usage of a directory does not show it. */
static int bomb_disk_deleted(void)
{
	int fd = open("bomb-deleted", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	unlink("bomb-deleted");
	return write_megabytes(fd, 256);
}

static int bomb_disk_fallocate(void)
{
	int fd = open("bomb-reserved", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	return posix_fallocate(fd, 0, 256 * MIB);
}

static int bomb_inodes(void)
{
	for (int i = 0; i < 20000; i++) {
		char name[64];
		int fd;

		if (i % 500 == 0) {
			snprintf(name, sizeof(name), "many-%d", i / 500);
			mkdir(name, 0700);
		}
		snprintf(name, sizeof(name), "many-%d/%d", i / 500, i);
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return errno;
		close(fd);
	}
	return 0;
}

static int bomb_output(void)
{
	return write_megabytes(1, 64);
}

static int bomb_error_output(void)
{
	return write_megabytes(2, 64);
}

static int bomb_cpu(void)
{
	time_t end = time(NULL) + WAIT_S;

	while (time(NULL) < end)
		;
	return 0;
}

/* Many short processes: a limit for each process alone never holds them. */
static int bomb_cpu_children(void)
{
	time_t end = time(NULL) + WAIT_S;

	while (time(NULL) < end) {
		pid_t pid = fork();

		if (pid == 0) {
			for (volatile long i = 0; i < 30000000; i++)
				;
			_exit(0);
		}
		if (pid > 0)
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
	}
	return 0;
}

static int bomb_sleep(void)
{
	return 0;
}

/* Refused, not stopped: prints how many there were. */
static int bomb_descriptors(void)
{
	int made = 0;

	while (made < 100000 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		made++;
	printf("descriptors %d %s\n", made, errno == EMFILE ? "EMFILE" :
	       strerror(errno));
	fflush(stdout);
	_exit(errno == EMFILE ? 0 : 1);
}

static const struct {
	const char *name;
	int (*run)(void);
} bombs[] = {
	{"fork", bomb_fork}, {"refork", bomb_refork}, {"chains", bomb_chains},
	{"threads", bomb_threads}, {"memory", bomb_memory},
	{"shared-memory", bomb_shared_memory}, {"memfd", bomb_memfd},
	{"disk-source", bomb_disk_source}, {"disk-home", bomb_disk_home},
	{"disk-tmp", bomb_disk_tmp}, {"disk-deleted", bomb_disk_deleted},
	{"disk-fallocate", bomb_disk_fallocate}, {"inodes", bomb_inodes},
	{"output", bomb_output}, {"error-output", bomb_error_output},
	{"cpu", bomb_cpu}, {"cpu-children", bomb_cpu_children},
	{"sleep", bomb_sleep}, {"descriptors", bomb_descriptors},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++)
		if (argc > 1 && !strcmp(argv[1], bombs[i].name)) {
			int error = bombs[i].run();

			wait_seconds(WAIT_S);
			printf("survived %s: %s\n", argv[1],
			       error ? strerror(error) : "nothing refused");
			return 0;
		}
	fprintf(stderr, "no such bomb\n");
	return 2;
}
