/*
 * Theory of operation: a command without a terminal is a child of init, leads a
 * session of its own and is started like vfork: it shares init's memory until
 * execve, and reports its failure through that memory. Under a pty a small
 * parent leads the session (the leader, a fork of init that confines itself
 * first) and the command has a process group of its own, because the kernel
 * lets Ctrl-Z stop only a group that has a parent elsewhere in its session. The
 * leader tells init what happens through a pipe.
 */
#include "task/init.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "confine/caps.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"
#include "confine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

/* A child of init while it still shares init's memory. */
struct child {
	const struct init *in;
	const struct exec_args *args;
	int stdio[3];
	bool confined; /* by the leader already */
	bool tty;
	sigset_t mask; /* the command's signal mask: empty */
	/* Written by the child before it gives up. */
	int error;
	enum exec_stage stage;
};

struct leader_event {
	enum { LEADER_STARTED, LEADER_FAILED, LEADER_STOPPED, LEADER_ENDED } kind;
	int value; /* pid, errno, signal, wait status */
	int stage;
	uint64_t cpu_us;
};

static int give_up(struct child *c, enum exec_stage stage, int error)
{
	c->error = error;
	c->stage = stage;
	_exit(127);
}

/* Ids, limits, capabilities, Landlock, filter: in this order. */
static int confine(const struct init *in)
{
	const struct init_config *c = &in->config;
	struct rlimit files;
	int r;

	if (c->open_files != UINT64_MAX) {
		if (getrlimit(RLIMIT_NOFILE, &files) < 0)
			return -errno;
		if (c->open_files < files.rlim_max)
			files.rlim_max = (rlim_t)c->open_files;
		files.rlim_cur = files.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &files) < 0)
			return -errno;
	}
	/* The raw calls: the C library's would signal threads there are not. */
	if (syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 ||
	    syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0)
		return -errno;
	r = caps_drop_all();
	if (r == 0 && in->ruleset >= 0)
		r = landlock_enter(in->ruleset);
	if (r == 0)
		r = seccomp_load(c->nesting ? SECCOMP_COMMAND_NESTING
					    : SECCOMP_COMMAND);
	return r;
}

static const char *find_path(char *const envp[])
{
	for (; *envp; envp++) {
		if (!strncmp(*envp, "PATH=", 5))
			return *envp + 5;
	}
	return "/usr/local/bin:/usr/bin:/bin";
}

/* execve along PATH, as execvpe(3) does but for scripts without "#!". */
static int exec_along_path(char *const argv[], char *const envp[])
{
	const char *name = argv[0];
	const char *at = find_path(envp);
	int result = ENOENT;
	char full[PATH_MAX];

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		execve(name, argv, envp);
		return errno;
	}
	while (*at) {
		size_t n = strcspn(at, ":");

		if (n > 0 && n + strlen(name) + 2 <= sizeof(full)) {
			memcpy(full, at, n);
			full[n] = '/';
			strcpy(full + n + 1, name);
			execve(full, argv, envp);
			if (errno == EACCES)
				result = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		at += n + (at[n] == ':');
	}
	return result;
}

/* In the child; shares init's (or the leader's) memory until execve. */
static int child_run(void *arg)
{
	struct child *c = arg;
	int r;

	if (c->tty) {
		/* Blocked SIGTTOU: a background group may do this then. */
		if (setpgid(0, 0) < 0 ||
		    tcsetpgrp(c->stdio[0], getpid()) < 0)
			return give_up(c, STAGE_STREAMS, errno);
	} else if (setsid() < 0) {
		return give_up(c, STAGE_STREAMS, errno);
	}
	for (int i = 0; i < 3; i++) {
		if (dup2(c->stdio[i], i) < 0)
			return give_up(c, STAGE_STREAMS, errno);
	}
	if (chdir(c->args->workdir) < 0)
		return give_up(c, STAGE_WORKDIR, errno);
	if (!c->confined) {
		r = confine(c->in);
		if (r < 0)
			return give_up(c, STAGE_CONFINE, -r);
	}
	start_close_from(3);
	if (sigprocmask(SIG_SETMASK, &c->mask, NULL) < 0)
		return give_up(c, STAGE_CONFINE, errno);
	return give_up(c, STAGE_EXEC,
		       exec_along_path(c->args->argv, c->args->envp));
}

static struct init_exec *free_slot(struct init *in)
{
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		if (in->execs[i].id == 0)
			return &in->execs[i];
	}
	return NULL;
}

void init_exec_ended(struct init *in, struct init_exec *e,
		     const struct exec_done *done)
{
	close_fd(e->events);
	*e = (struct init_exec){.events = -1};
	if (channel_send(in->channel, INIT_EXITED, done, sizeof(*done), NULL,
			 0) < 0)
		_exit(125);
}

static void not_started(struct init *in, struct init_exec *e, uint32_t id,
			int error, enum exec_stage stage)
{
	struct exec_done done = {.id = id,
				 .status = -1,
				 .exec_errno = error,
				 .stage = stage};

	init_exec_ended(in, e, &done);
}

static void started(struct init *in, struct init_exec *e)
{
	struct exec_head head = {.id = e->id, .flags = e->flags};

	if (channel_send(in->channel, INIT_STARTED, &head, sizeof(head), NULL,
			 0) < 0)
		_exit(125);
}

/* Pipes belong to the command's ids: it may open /dev/stderr anew. */
static int make_pipes(const struct init *in, uint32_t flags, int inner[3],
		      int outer[3])
{
	int p[2], n = 0, r = 0;

	setfsgid(in->config.gid);
	setfsuid(in->config.uid);
	if (flags & EXEC_NO_STDIN) {
		inner[0] = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
		r = inner[0] < 0 ? -errno : 0;
	} else if (pipe2(p, O_CLOEXEC) == 0) {
		inner[0] = p[0];
		outer[n++] = p[1];
	} else {
		r = -errno;
	}
	for (int i = 1; r == 0 && i < 3; i++) {
		if (i == 2 && (flags & EXEC_MERGE)) {
			inner[2] = dup(inner[1]);
			r = inner[2] < 0 ? -errno : 0;
		} else if (pipe2(p, O_CLOEXEC) == 0) {
			inner[i] = p[1];
			outer[n++] = p[0];
		} else {
			r = -errno;
		}
	}
	setfsuid(geteuid());
	setfsgid(getegid());
	return r < 0 ? r : n;
}

static int make_pty(const struct init *in, const struct exec_head *head,
		    int inner[3], int outer[3])
{
	struct winsize size = {.ws_row = head->rows, .ws_col = head->cols};
	int unlock = 0;
	int master, slave;

	setfsgid(in->config.gid);
	setfsuid(in->config.uid);
	master = openat(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	setfsuid(geteuid());
	setfsgid(getegid());
	if (master < 0)
		return -errno;
	outer[0] = master;
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	inner[0] = slave;
	if (head->rows && head->cols)
		ioctl(master, TIOCSWINSZ, &size);
	return 1;
}

static void leader_tell(int fd, const struct leader_event *event)
{
	if (write(fd, event, sizeof(*event)) != (ssize_t)sizeof(*event))
		_exit(125);
}

/* Waits for the command and tells init of each stop and of the end. */
_Noreturn static void leader_wait(pid_t pid, int events)
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
		leader_tell(events, &event);
		if (event.kind == LEADER_ENDED)
			_exit(0);
	}
}

/* The forked leader of a pty's session. */
_Noreturn static void leader_main(struct child *c, int events)
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
		r = confine(c->in);
	}
	if (r == 0) {
		c->confined = true;
		pid = start_vfork(child_run, c, 0, -1, NULL);
		r = pid < 0 ? -errno : -c->error;
		event.stage = pid < 0 ? STAGE_STREAMS : (int)c->stage;
	}
	if (r < 0) {
		event.value = -r;
		leader_tell(events, &event);
		_exit(127);
	}
	event.kind = LEADER_STARTED;
	event.value = pid;
	leader_tell(events, &event);
	/* The terminal and init's channel are the command's and init's. */
	dup2(events, 0);
	start_close_from(1);
	leader_wait(pid, 0);
}

static int start_leader(struct init_exec *e, struct child *c)
{
	int events[2];
	pid_t pid;

	if (pipe2(events, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
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

/* The command's three ends go to c, ours to the keeper. */
static int hand_out_streams(const struct init *in, const struct exec_head *head,
			    struct child *c)
{
	struct exec_streams streams = {.id = head->id, .flags = head->flags};
	int outer[3] = {-1, -1, -1};
	int n, r;

	if (c->tty) {
		n = make_pty(in, head, c->stdio, outer);
		c->stdio[1] = c->stdio[2] = c->stdio[0];
	} else {
		n = make_pipes(in, head->flags, c->stdio, outer);
	}
	r = n < 0 ? n : channel_send(in->channel, INIT_STREAMS, &streams,
				     sizeof(streams), outer, (size_t)n);
	for (int i = 0; i < 3; i++)
		close_fd(outer[i]);
	return r;
}

static void close_streams(const struct child *c)
{
	close_fd(c->stdio[0]);
	if (c->tty)
		return;
	close_fd(c->stdio[1]);
	close_fd(c->stdio[2]);
}

static int start_child(struct init_exec *e, struct child *c)
{
	if (c->tty)
		return start_leader(e, c);
	e->pid = start_vfork(child_run, c, 0, -1, NULL);
	return e->pid < 0 ? -errno : 0;
}

void init_exec_start(struct init *in, const struct exec_head *head,
		     const struct exec_args *args)
{
	struct child c = {.in = in, .args = args, .stdio = {-1, -1, -1},
			  .tty = head->flags & EXEC_TTY};
	struct init_exec none = {.events = -1};
	struct init_exec *e = free_slot(in);
	int r;

	sigemptyset(&c.mask);
	if (!e) {
		not_started(in, &none, head->id, EAGAIN, STAGE_STREAMS);
		return;
	}
	*e = (struct init_exec){.id = head->id, .flags = head->flags,
				.events = -1};
	r = hand_out_streams(in, head, &c);
	if (r == 0)
		r = start_child(e, &c);
	close_streams(&c);
	if (r < 0)
		not_started(in, e, head->id, -r, STAGE_STREAMS);
	else if (c.error)
		not_started(in, e, head->id, c.error, c.stage);
	else if (!c.tty)
		started(in, e);
}

void init_exec_event(struct init *in, struct init_exec *e)
{
	struct exec_done done = {.id = e->id};
	struct exec_signal stopped = {.id = e->id};
	struct leader_event event;

	if (e->events < 0)
		return;
	while (read(e->events, &event, sizeof(event)) ==
	       (ssize_t)sizeof(event)) {
		switch (event.kind) {
		case LEADER_STARTED:
			e->pid = event.value;
			for (int s = 1; s < 64; s++) {
				if (e->early >> s & 1)
					kill(e->pid, s);
			}
			started(in, e);
			return;
		case LEADER_FAILED:
			not_started(in, e, e->id, event.value,
				    (enum exec_stage)event.stage);
			return;
		case LEADER_STOPPED:
			stopped.signal = event.value;
			if (channel_send(in->channel, INIT_STOPPED, &stopped,
					 sizeof(stopped), NULL, 0) < 0)
				_exit(125);
			return;
		case LEADER_ENDED:
			done.status = event.value;
			done.cpu_us = event.cpu_us;
			init_exec_ended(in, e, &done);
			return;
		}
	}
	/* The leader is gone without a word: its own end will be reaped. */
	close_fd(e->events);
	e->events = -1;
}
