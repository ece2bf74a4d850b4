#include "task/init.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Enough for a session that forks while it is being killed. */
#define PASSES 50

/* The session of a living process pid, or -1. Field 6 of proc_pid_stat(5). */
static long session_of(int proc_fd, const char *pid)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	char path[64];
	const char *at;
	long session;

	char state;

	if (snprintf(path, sizeof(path), "%s/stat", pid) >=
		    (int)sizeof(path) ||
	    io_read_file(proc_fd, path, &b) < 0)
		return -1;
	/* The name may hold anything; the last ")" ends it. */
	at = strrchr(buf_str(&b), ')');
	if (!at || sscanf(at, ") %c %*d %*d %ld", &state, &session) != 2 ||
	    state == 'Z')
		return -1;
	return session;
}

static int kill_pass(int proc_fd, long session)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *entry;
	int killed = 0;
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		close_fd(fd);
		return 0;
	}
	while ((entry = readdir(dir))) {
		uint64_t pid;

		if (num_parse_u64(entry->d_name, &pid) < 0 || pid <= 1 ||
		    session_of(proc_fd, entry->d_name) != session)
			continue;
		if (kill((pid_t)pid, SIGKILL) == 0)
			killed++;
	}
	return killed;
}

void init_exec_kill(struct init *in, struct init_exec *e)
{
	long session = e->leader ? e->leader : e->pid;
	AUTO_CLOSE int proc =
		open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)in;
	if (session <= 1 || proc < 0)
		return;
	for (int i = 0; i < PASSES; i++) {
		if (kill_pass(proc, session) == 0)
			break;
	}
}
