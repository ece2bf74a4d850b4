/*
 * Under a pty a small parent leads the session (the leader, a fork of init that
 * confines itself first) and the command has a process group of its own, because
 * the kernel lets Ctrl-Z stop only a group that has a parent elsewhere in its
 * session. The leader tells init what happens through a pipe.
 */
#include "task/init_child.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "confine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(int fd, const struct leader_event *event)
{
	if (write(fd, event, sizeof(*event)) != (ssize_t)sizeof(*event))
		_exit(125);
}

/* Waits for the command and tells init of each stop and of the end. */
_Noreturn static void attend(pid_t pid, int events)
{
	for (;;) {
		struct leader_event event = {0};
		struct rusage ru;
		int status;

		if (wait4(pid, &status, WUNTRACED, &ru) < 0) {
			if (errno == EINTR)
				continue;
			_exit(125);
		}
		event.kind = WIFSTOPPED(status) ? LEADER_STOPPED : LEADER_ENDED;
		event.value = WIFSTOPPED(status) ? WSTOPSIG(status) : status;
		event.cpu_us = time_rusage_us(&ru);
		tell(events, &event);
		if (event.kind == LEADER_ENDED)
			_exit(0);
	}
}

_Noreturn static void leader_main(struct init_child *c, int events)
{
	struct leader_event event = {.kind = LEADER_FAILED};
	sigset_t all;
	pid_t pid = -1;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	r = setsid() < 0 || ioctl(c->stdio[0], TIOCSCTTY, 0) < 0 ? -errno : 0;
	event.stage = STAGE_STREAMS;
	if (r == 0) {
		event.stage = STAGE_CONFINE;
		r = init_child_confine(c->in);
	}
	if (r == 0) {
		c->confined = true;
		pid = start_vfork(init_child_run, c, 0, -1, NULL);
		r = pid < 0 ? -errno : -c->error;
		event.stage = pid < 0 ? STAGE_STREAMS : (int)c->stage;
	}
	if (r < 0) {
		event.value = -r;
		tell(events, &event);
		_exit(127);
	}
	event.kind = LEADER_STARTED;
	event.value = pid;
	tell(events, &event);
	/* The terminal and init's channel are the command's and init's. */
	dup2(events, 0);
	start_close_from(1);
	attend(pid, 0);
}

int init_leader_start(struct init_exec *e, struct init_child *c)
{
	int events[2];
	pid_t pid;

	if (pipe2(events, O_CLOEXEC) < 0)
		return -errno;
	/* Only our end: whoever is stopped must not hold us. */
	pid = fcntl(events[0], F_SETFL, O_NONBLOCK) < 0 ? -1 : fork();
	if (pid == 0)
		leader_main(c, events[1]);
	close_fd(events[1]);
	if (pid < 0) {
		close_fd(events[0]);
		return -errno;
	}
	e->leader = pid;
	e->events = events[0];
	return 0;
}
