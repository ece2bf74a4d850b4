/*
 * A client that keeps one connection to a started sandbox:
 *
 *   client ROUNDS SOCKET COMMAND [ARGUMENT]...
 *
 * A round runs the command once by fork and exec on the host and once in the
 * sandbox; a line holds both times in microseconds.
 */
#include "task/front.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static int on_the_host(char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0;
}

static int in_the_sandbox(struct front *f, char **argv)
{
	static char path[] = "PATH=/usr/bin:/bin";
	char *envp[] = {path, NULL};
	struct front_outcome outcome = {0};
	struct error err = {0};
	int r = front_exec(f, "/", argv, envp, EXEC_NO_STDIN, &err);

	if (r == 0)
		r = front_attend(f, EXEC_NO_STDIN, false, &outcome, &err);
	if (r < 0)
		fprintf(stderr, "client: %s\n", err.text);
	return r < 0 || !outcome.done_known || outcome.done.status != 0;
}

int main(int argc, char **argv)
{
	struct front f = FRONT_INIT;
	struct error err = {0};

	if (argc < 4)
		return 2;
	if (front_connect(&f, argv[2], &err) < 0) {
		fprintf(stderr, "client: %s\n", err.text);
		return 1;
	}
	for (int i = 0; i < atoi(argv[1]); i++) {
		long long start = now_us(), middle;

		if (on_the_host(argv + 3) != 0)
			return 1;
		middle = now_us();
		if (in_the_sandbox(&f, argv + 3) != 0)
			return 1;
		printf("%lld %lld\n", middle - start, now_us() - middle);
	}
	front_done(&f);
	return 0;
}
