/*
 * The end of an exec: every process of its session is killed, in passes over
 * /proc between which init goes on with its work. Who has SIGKILL pending can
 * neither run nor fork, so each pass leaves only what was born during it; two
 * passes that find nobody end it. Processes that are born faster than a pass
 * kills them have END_MS; then the sandbox ends, and with it all of them.
 */
#include "task/init.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define END_MS 5000u
#define CLEAN_PASSES 2
/* Between two passes: those that were killed take time to die, too. */
#define REST_MS 2
/* Of the kernel's include/linux/sched.h: it is in its exit already. */
#define PF_EXITING 0x4u
#define BIT_OF_SIGKILL 0x100u

struct process {
	char state;
	long session;
	unsigned flags;
	long threads;
	unsigned long pending;
};

/* Fields 3, 6, 9, 20 and 31 of proc_pid_stat(5). False: there is none. */
static bool read_process(int proc_fd, const char *pid, struct process *ret)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	char path[64];
	const char *at;

	if (snprintf(path, sizeof(path), "%s/stat", pid) >=
		    (int)sizeof(path) ||
	    io_read_file(proc_fd, path, &b) < 0)
		return false;
	/* The name may hold anything; the last ")" ends it. */
	at = strrchr(buf_str(&b), ')');
	return at &&
	       sscanf(at, ") %c %*d %*d %ld %*d %*d %u %*u %*u %*u %*u %*u "
			  "%*u %*d %*d %*d %*d %ld %*d %*u %*u %*d %*u %*u "
			  "%*u %*u %*u %*u %lu",
		      &ret->state, &ret->session, &ret->flags, &ret->threads,
		      &ret->pending) == 5;
}

static struct init_kill *kill_of(struct init *in, long session)
{
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		if (session > 1 && in->kills[i].session == session)
			return &in->kills[i];
	}
	return NULL;
}

/* One process; its session's kill is not clean if it may still do something. */
static void look_at(struct init *in, int proc_fd, const char *name)
{
	struct init_kill *k;
	struct process p;
	uint64_t pid;

	if (num_parse_u64(name, &pid) < 0 || pid <= 1 ||
	    !read_process(proc_fd, name, &p))
		return;
	k = kill_of(in, p.session);
	/* A zombie whose other threads go on is none. */
	if (!k || (p.state == 'Z' && p.threads <= 1))
		return;
	kill((pid_t)pid, SIGKILL);
	if (!(p.pending & BIT_OF_SIGKILL) &&
	    !(p.flags & PF_EXITING && p.threads <= 1))
		k->clean = 0;
}

static int pass(struct init *in)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *entry;

	if (io_open_dir(AT_FDCWD, "/proc", &dir) < 0)
		return -1;
	for (size_t i = 0; i < INIT_EXECS_MAX; i++)
		in->kills[i].clean++;
	while ((entry = readdir(dir)))
		look_at(in, dirfd(dir), entry->d_name);
	return 0;
}

int init_kill_turn(struct init *in)
{
	bool any = false;

	for (size_t i = 0; i < INIT_EXECS_MAX && !any; i++)
		any = in->kills[i].session != 0;
	if (!any)
		return -1;
	if (pass(in) < 0)
		init_fail(in, -EMFILE, "cannot look for processes to end");
	any = false;
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		struct init_kill *k = &in->kills[i];

		if (k->session == 0)
			continue;
		if (k->clean >= CLEAN_PASSES)
			*k = (struct init_kill){0};
		else if (time_mono_us() >= k->until_us)
			init_fail(in, -ETIMEDOUT,
				  "processes of a command could not be ended: "
				  "they start others faster than they die");
		any |= k->session != 0;
	}
	return any ? REST_MS : -1;
}

void init_exec_kill(struct init *in, const struct init_exec *e)
{
	pid_t leader = e->leader ? e->leader : e->pid;

	if (leader <= 1 || kill_of(in, leader))
		return;
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		struct init_kill *k = &in->kills[i];

		if (k->session != 0)
			continue;
		k->session = leader;
		k->until_us = time_mono_us() + END_MS * 1000u;
		return;
	}
	init_fail(in, -EAGAIN, "too many commands are being ended");
}
