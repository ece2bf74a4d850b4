/*
 * Starts commands and takes the time until they have ended. Python would add
 * its own time to each; this adds one fork.
 *
 *   spawn times ROUNDS + COMMAND... [+ COMMAND...]...
 *       a round starts each command once, in turn; a line holds the times of
 *       one round in microseconds
 *   spawn rate MILLISECONDS WORKERS + COMMAND...
 *       starts the command again and again; prints how often it ended
 *
 * A command that does not end with 0 ends the measurement with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS_MAX 32

static int null_fd;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t run_once(char **argv)
{
	int64_t start = now_us();
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		dup2(null_fd, 0);
		dup2(null_fd, 1);
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "spawn: %s failed\n", argv[0]);
		exit(1);
	}
	return now_us() - start;
}

static int times(int rounds, char **commands[], int n)
{
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++)
			printf("%lld%c", (long long)run_once(commands[i]),
			       i == n - 1 ? '\n' : ' ');
	return 0;
}

static int rate(int ms, int workers, char **argv)
{
	int64_t end = now_us() + (int64_t)ms * 1000;
	long *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, failed = 0;

	if (count == MAP_FAILED)
		return 1;
	for (int i = 0; i < workers; i++) {
		if (fork() != 0)
			continue;
		while (now_us() < end) {
			run_once(argv);
			__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	printf("%ld\n", *count);
	return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
	char **commands[COMMANDS_MAX];
	int n = 0, first = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "+") != 0)
			continue;
		argv[i] = NULL;
		first = first ? first : i;
		if (n < COMMANDS_MAX && i + 1 < argc)
			commands[n++] = argv + i + 1;
	}
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (n == 0 || null_fd < 0)
		return 2;
	if (first == 3 && strcmp(argv[1], "times") == 0)
		return times(atoi(argv[2]), commands, n);
	if (first == 4 && strcmp(argv[1], "rate") == 0)
		return rate(atoi(argv[2]), atoi(argv[3]), commands[0]);
	return 2;
}
