/*
 * Theory of operation: a command without a terminal is a child of init and leads
 * a session of its own. Until it execs it runs in init's memory, which copies
 * nothing, and init goes on beside it: the child may be stopped there by another
 * command. It holds the other end of a pipe that its exec, or its end, closes;
 * what it reports of a failure it wrote before. With a terminal see init_leader.c.
 */
#include "task/init_child.h"

#include "base/cleanup.h"
#include "confine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif
/* Room for the frames of init_child_run, a path among them. */
#define STACK_SIZE (24u << 10)

/* Of each exec until its child has settled; pages come with their first use. */
static struct start {
	struct init_child child;
	_Alignas(16) char stack[STACK_SIZE];
} starts[INIT_EXECS_MAX];

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

/* The command's three ends go to c, ours to the keeper. */
static int hand_out_streams(const struct init *in, const struct exec_head *head,
			    struct init_child *c)
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

static void close_streams(const struct init_child *c)
{
	close_fd(c->stdio[0]);
	if (c->tty)
		return;
	close_fd(c->stdio[1]);
	close_fd(c->stdio[2]);
}

/* Its stack and arguments are left alone until its pipe says that it is off. */
static int start_beside_us(struct init_exec *e, struct start *s)
{
	int off[2];

	if (pipe2(off, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	e->pid = start_beside(init_child_run, &s->child, 0, -1, s->stack,
			      sizeof(s->stack), NULL);
	close_fd(off[1]);
	if (e->pid < 0) {
		close_fd(off[0]);
		return -errno;
	}
	e->events = off[0];
	return 0;
}

void init_exec_start(struct init *in, const struct exec_head *head,
		     struct exec_args *args)
{
	struct init_exec none = {.events = -1};
	struct init_exec *e = free_slot(in);
	struct start *s = e ? &starts[e - in->execs] : NULL;
	int r;

	if (!e) {
		exec_args_done(args);
		not_started(in, &none, head->id, EAGAIN, STAGE_STREAMS);
		return;
	}
	*e = (struct init_exec){.id = head->id, .flags = head->flags,
				.events = -1};
	s->child = (struct init_child){.in = in, .args = *args,
				       .stdio = {-1, -1, -1},
				       .tty = head->flags & EXEC_TTY};
	r = hand_out_streams(in, head, &s->child);
	if (r == 0)
		r = s->child.tty ? init_leader_start(e, &s->child)
				 : start_beside_us(e, s);
	close_streams(&s->child);
	/* A leader has a copy of them. */
	if (r < 0 || s->child.tty)
		exec_args_done(&s->child.args);
	if (r < 0)
		not_started(in, e, head->id, -r, STAGE_STREAMS);
}

static void now_running(struct init *in, struct init_exec *e)
{
	e->running = true;
	for (int s = 1; s < 64; s++) {
		if (e->early >> s & 1)
			kill(e->pid, s);
	}
	started(in, e);
}

void init_exec_settle(struct init *in, struct init_exec *e)
{
	struct init_child *c = &starts[e - in->execs].child;

	if (e->leader || e->events < 0)
		return;
	close_fd(e->events);
	e->events = -1;
	exec_args_done(&c->args);
	if (c->error)
		not_started(in, e, e->id, c->error, c->stage);
	else
		now_running(in, e);
}

static void leader_says(struct init *in, struct init_exec *e,
			const struct leader_event *event)
{
	struct exec_done done = {.id = e->id};
	struct exec_signal stopped = {.id = e->id};

	switch (event->kind) {
	case LEADER_STARTED:
		e->pid = event->value;
		now_running(in, e);
		break;
	case LEADER_FAILED:
		not_started(in, e, e->id, event->value,
			    (enum exec_stage)event->stage);
		break;
	case LEADER_STOPPED:
		stopped.signal = event->value;
		if (channel_send(in->channel, INIT_STOPPED, &stopped,
				 sizeof(stopped), NULL, 0) < 0)
			_exit(125);
		break;
	case LEADER_ENDED:
		done.status = event->value;
		done.cpu_us = event->cpu_us;
		init_exec_ended(in, e, &done);
		break;
	}
}

bool init_exec_event(struct init *in, struct init_exec *e)
{
	struct leader_event event;
	ssize_t n;

	if (e->events < 0)
		return false;
	if (!e->leader) {
		init_exec_settle(in, e);
		return false;
	}
	n = read(e->events, &event, sizeof(event));
	if (n == (ssize_t)sizeof(event)) {
		leader_says(in, e, &event);
		return true;
	}
	/* At its end the leader is gone: its own end will be reaped. */
	if (n >= 0) {
		close_fd(e->events);
		e->events = -1;
	}
	return false;
}
