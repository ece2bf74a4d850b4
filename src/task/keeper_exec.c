/*
 * Theory of operation: what a command prints comes out of the sandbox through
 * a pipe that only we read. tee(2) gives it to the client's pipe without
 * copying, then the same bytes are consumed from the first pipe: into the log
 * while there is room in it, into /dev/null afterwards. So nobody outside can
 * block us, output is counted where nobody else can touch the counter, and a
 * client that reads slowly slows its own command down alone. A pty's master
 * cannot be teed and is copied.
 */
#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* At most this much of one stream in one turn, so that all get theirs. */
#define TURN_BYTES 65536
/* A pipe that poll calls writable takes this much without blocking. */
#define PIPE_ATOMIC 4096
/* What a pty may hold of what its command printed: more than the kernel's. */
#define PTY_HOLDS 131072
/* A client that left this much unread is told no more that it was stopped. */
#define UNREAD_MAX 8192

static struct keeper_exec *find(struct keeper *k, uint32_t id)
{
	for (size_t i = 0; id != 0 && i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id == id)
			return &k->execs[i];
	}
	return NULL;
}

bool keeper_exec_any(const struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id != 0)
			return true;
	}
	return false;
}

static void exec_init(struct keeper_exec *e, uint32_t id, uint32_t flags,
		      int client)
{
	*e = (struct keeper_exec){.id = id, .flags = flags, .client = client,
				  .log = -1};
	for (int i = 0; i < 2; i++)
		e->relay[i] = (struct relay){.from = -1, .to = -1};
}

/* Who never learns that its exec is done shall at least see us go. */
static void tell_done(int client, const struct exec_done *done)
{
	if (channel_send(client, FRONT_DONE, done, sizeof(*done), NULL, 0) ==
	    -EAGAIN)
		shutdown(client, SHUT_RDWR);
}

/* Tells a client that its exec never started. */
static void refuse(int client, int error)
{
	struct exec_done done = {.status = -1,
				 .exec_errno = error,
				 .stage = STAGE_STREAMS};

	tell_done(client, &done);
}

static void refuse_for_now(const struct keeper *k, int client)
{
	struct failure f = {.code = -EBUSY};

	snprintf(f.text, sizeof(f.text),
		 "task %s is being given the host's newer files (pinfold "
		 "refresh): try again when that is done",
		 k->plan.spec.id);
	channel_send(client, FRONT_FAILED, &f, sizeof(f), NULL, 0);
}

void keeper_exec_no_room(const struct keeper *k, int client)
{
	struct failure f = {.code = -EBUSY};

	snprintf(f.text, sizeof(f.text),
		 "task %s has %d commands at once already, which is the most: "
		 "wait until one of them has ended",
		 k->plan.spec.id, KEEPER_EXECS_MAX);
	channel_send(client, FRONT_FAILED, &f, sizeof(f), NULL, 0);
}

int keeper_exec_request(struct keeper *k, int client, struct message *m)
{
	AUTO_CLOSE int args = message_take_fd(m, 0);
	struct keeper_exec *e = NULL;
	struct exec_head head;
	int r;

	for (size_t i = 0; !e && i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id == 0)
			e = &k->execs[i];
	}
	if (k->ending) {
		refuse(client, ESHUTDOWN);
		return 0;
	}
	if (keeper_refreshing(k)) {
		refuse_for_now(k, client);
		return 0;
	}
	if (!e) {
		keeper_exec_no_room(k, client);
		return 0;
	}
	memcpy(&head, m->data, sizeof(head));
	head.id = ++k->last_exec;
	exec_init(e, head.id, head.flags, client);
	e->log_left = k->plan.log_max;
	e->refusals = k->refusals;
	e->lookups = k->lookups;
	e->asked_us = k->limits.last_activity_us = time_mono_us();
	r = keeper_tell_init(k, INIT_EXEC, &head, sizeof(head), args);
	if (r == -EAGAIN) {
		exec_init(e, 0, 0, -1);
		refuse(client, EAGAIN);
		r = 0;
	}
	return r;
}

/* A pipe to the client for what comes out of from. */
static int make_relay(struct relay *r, int from)
{
	int p[2];

	r->from = from;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	r->to = p[1];
	return p[0];
}

static void relay_close(struct relay *r)
{
	close_fd(r->from);
	close_fd(r->to);
	*r = (struct relay){.from = -1, .to = -1};
}

/* Ends one exec because we cannot do our part of it. */
static void fail_exec(struct keeper *k, struct keeper_exec *e, int error,
		      enum exec_stage stage)
{
	relay_close(&e->relay[0]);
	relay_close(&e->relay[1]);
	if (!e->over)
		keeper_tell_end(k, e);
	e->over = true;
	e->done = (struct exec_done){.id = e->id, .status = -1,
				     .exec_errno = error, .stage = stage};
	e->drain_until_us = time_mono_us();
}

/*
 * Replaces each output of the sandbox in m, from the first-th descriptor on, by
 * the pipe that the client will read; the sandbox's ends stay with us. 0 or a
 * negative errno.
 */
static int take_outputs(struct keeper_exec *e, struct message *m, size_t first)
{
	for (size_t i = first; i < m->n_fds && i - first < 2; i++) {
		int from = message_take_fd(m, i);
		int r = make_relay(&e->relay[i - first], from);

		if (r < 0)
			return r;
		m->fds[i] = r;
	}
	return 0;
}

void keeper_exec_streams(struct keeper *k, struct message *m)
{
	struct exec_streams streams;
	struct keeper_exec *e;
	int r;

	memcpy(&streams, m->data, sizeof(streams));
	e = find(k, streams.id);
	if (!e)
		return;
	if (e->flags & EXEC_TTY) {
		/* The master serves both ways: the client keeps it for input
		 * and for the window's size. */
		m->fds[1] = fcntl(m->fds[0], F_DUPFD_CLOEXEC, 3);
		m->n_fds = 2;
	}
	r = take_outputs(e, m, e->flags & EXEC_NO_STDIN ? 0 : 1);
	streams.flags = e->flags;
	if (r == 0 && e->client >= 0)
		r = channel_send(e->client, FRONT_STREAMS, &streams,
				 sizeof(streams), m->fds, m->n_fds);
	/* A client that is gone is noticed, and its exec ended, elsewhere. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		fail_exec(k, e, -r, STAGE_STREAMS);
}

void keeper_exec_started(struct keeper *k, const struct exec_head *head)
{
	struct keeper_exec *e = find(k, head->id);

	if (!e || e->late)
		return;
	e->started = true;
	if (e->client >= 0)
		channel_send(e->client, FRONT_STARTED, head, sizeof(*head),
			     NULL, 0);
}

void keeper_exec_stopped(struct keeper *k, const struct exec_signal *s)
{
	struct keeper_exec *e = find(k, s->id);

	int unread = 0;

	if (!e || e->client < 0)
		return;
	/* A command can stop itself without end while its client is stopped:
	 * that must leave room for what the client has to know. */
	if (ioctl(e->client, SIOCOUTQ, &unread) == 0 && unread > UNREAD_MAX)
		return;
	channel_send(e->client, FRONT_STOPPED, s, sizeof(*s), NULL, 0);
}

/* Bytes that wait in the sandbox's end of r. */
static uint64_t waiting(const struct relay *r)
{
	int n = 0;

	return r->from >= 0 && ioctl(r->from, FIONREAD, &n) == 0 && n > 0
		       ? (uint64_t)n
		       : 0;
}

void keeper_exec_exited(struct keeper *k, const struct exec_done *done)
{
	struct keeper_exec *e = find(k, done->id);

	if (!e || e->over)
		return;
	e->over = true;
	for (int i = 0; i < 2; i++)
		e->relay[i].owed = e->flags & EXEC_TTY ? PTY_HOLDS
						       : waiting(&e->relay[i]);
	e->done = *done;
	if (e->late)
		e->done = (struct exec_done){.id = e->id, .status = -1,
					     .exec_errno = ETIMEDOUT,
					     .stage = STAGE_LATE};
	e->drain_until_us = time_mono_us() + DRAIN_MS * 1000u;
	k->limits.last_activity_us = time_mono_us();
}

void keeper_exec_signal(struct keeper *k, int client,
			const struct exec_signal *s)
{
	/* A client speaks for its own execs; id 0 means all of them. */
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		if (e->id == 0 || e->client != client || e->over ||
		    (s->id != 0 && s->id != e->id))
			continue;
		keeper_tell_signal(k, e, s->signal, s->group != 0);
	}
}

void keeper_exec_client_gone(struct keeper *k, int client)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		if (e->id == 0 || e->client != client)
			continue;
		e->client = -1;
		if (!e->over)
			keeper_tell_end(k, e);
	}
}

/* The log appears with the first byte. It is never needed for the command. */
static bool log_ready(struct keeper *k, struct keeper_exec *e)
{
	char name[24];

	if (e->log_left == 0)
		return false;
	if (e->log >= 0)
		return true;
	snprintf(name, sizeof(name), "out.%u", e->id);
	e->log = openat(k->task_fd, name,
			O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0600);
	if (e->log < 0)
		e->log_left = 0;
	return e->log >= 0;
}

static void log_end(struct keeper_exec *e)
{
	close_fd(e->log);
	e->log = -1;
	e->log_left = 0;
}

/* Consumes n bytes that the client's pipe already has. */
static int consume(struct keeper *k, struct keeper_exec *e, int from, size_t n)
{
	while (n > 0) {
		bool log = log_ready(k, e);
		size_t want = log && e->log_left < n ? (size_t)e->log_left : n;
		ssize_t done = splice(from, NULL, log ? e->log : k->null_fd,
				      NULL, want, 0);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			/* A full disk ends the log, not the command. */
			if (!log)
				return done < 0 ? -errno : -EIO;
			log_end(e);
			continue;
		}
		if (log)
			e->log_left -= (size_t)done;
		n -= (size_t)done;
	}
	return 0;
}

/* How much the task may still print, TURN_BYTES at most. */
static size_t may_print(const struct keeper *k)
{
	uint64_t most = k->plan.spec.limits.output;
	uint64_t so_far = k->limits.output_bytes;

	if (most == LIMIT_NONE || so_far + TURN_BYTES <= most)
		return TURN_BYTES;
	return so_far < most ? (size_t)(most - so_far) : 0;
}

/*
 * What was printed beyond the limit goes nowhere. The command may have ended
 * already: then this is what the task ends by.
 */
static void print_no_more(struct keeper *k, struct relay *r)
{
	relay_close(r);
	k->limits.output_over = true;
	if (k->ending && k->reason == REASON_EXIT) {
		k->reason = REASON_LIMIT;
		snprintf(k->limit, sizeof(k->limit), "output");
	}
}

/* Nothing more may be printed: is there more, or is this the end? */
static void relay_last(struct keeper *k, const struct keeper_exec *e,
		       struct relay *r)
{
	struct pollfd p = {.fd = r->from, .events = POLLIN};
	char one;

	/* A pty's end reads as an error, whatever poll says. */
	if (e->flags & EXEC_TTY ? read(r->from, &one, 1) == 1
				: poll(&p, 1, 0) == 1 && p.revents & POLLIN)
		print_no_more(k, r);
	else
		relay_close(r);
}

static ssize_t relay_pipe(struct keeper *k, struct keeper_exec *e,
			  struct relay *r)
{
	ssize_t n;

	if (r->to < 0)
		return splice(r->from, NULL, k->null_fd, NULL, may_print(k),
			      SPLICE_F_NONBLOCK);
	n = tee(r->from, r->to, may_print(k), SPLICE_F_NONBLOCK);
	if (n > 0) {
		int bad = consume(k, e, r->from, (size_t)n);

		if (bad < 0) {
			errno = -bad;
			return -1;
		}
	}
	return n;
}

static bool can_write(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) == 1;
}

static void log_copy(struct keeper *k, struct keeper_exec *e, const char *data,
		     size_t n)
{
	if (!log_ready(k, e))
		return;
	if (n > e->log_left)
		n = (size_t)e->log_left;
	e->log_left -= n;
	if (io_write_all(e->log, data, n) < 0)
		log_end(e);
}

static ssize_t relay_copy(struct keeper *k, struct keeper_exec *e,
			  struct relay *r)
{
	char data[PIPE_ATOMIC];
	size_t most = may_print(k);
	ssize_t n;

	if (r->to >= 0 && !can_write(r->to)) {
		errno = EAGAIN;
		return -1;
	}
	n = read(r->from, data, most < sizeof(data) ? most : sizeof(data));
	/* A pty whose last process is gone reads as EIO. */
	if (n < 0 && errno == EIO)
		return 0;
	if (n <= 0)
		return n;
	if (r->to >= 0 && io_write_all(r->to, data, (size_t)n) < 0) {
		close_fd(r->to);
		r->to = -1;
	}
	log_copy(k, e, data, (size_t)n);
	return n;
}

static void relay_turn(struct keeper *k, struct keeper_exec *e, struct relay *r)
{
	ssize_t n;

	if (may_print(k) == 0) {
		relay_last(k, e, r);
		return;
	}
	n = e->flags & EXEC_TTY ? relay_copy(k, e, r) : relay_pipe(k, e, r);
	if (n > 0) {
		r->owed -= (uint64_t)n < r->owed ? (uint64_t)n : r->owed;
		e->output_bytes += (uint64_t)n;
		k->limits.output_bytes += (uint64_t)n;
		k->limits.last_activity_us = time_mono_us();
	} else if (n == 0) {
		relay_close(r);
	} else if (errno == EPIPE) {
		close_fd(r->to);
		r->to = -1;
	} else if (errno == EAGAIN) {
		/* Data waits and cannot move: the client's pipe is full. */
		r->full = true;
	} else if (errno != EINTR) {
		/* Nobody shall take what came through for the whole. */
		fail_exec(k, e, errno, STAGE_OUTPUT);
	}
}

size_t keeper_exec_poll(struct keeper *k, struct pollfd *p)
{
	size_t n = 0;

	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		for (int j = 0; j < 2; j++, n += 2) {
			struct relay *r = &e->relay[j];
			bool on = e->id != 0 && r->from >= 0;

			p[n] = (struct pollfd){
				.fd = on && !r->full ? r->from : -1,
				.events = POLLIN,
			};
			/* Without events: only whether the reader is gone. */
			p[n + 1] = (struct pollfd){
				.fd = on ? r->to : -1,
				.events = r->full ? POLLOUT : 0,
			};
		}
	}
	return n;
}

void keeper_exec_handle(struct keeper *k, const struct pollfd *p)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		for (int j = 0; j < 2; j++, p += 2) {
			struct relay *r = &e->relay[j];

			if (e->id == 0 || r->from < 0)
				continue;
			if (p[1].fd >= 0 && p[1].revents & POLLERR) {
				/* As a reader that closed its pipe: the
				 * command gets SIGPIPE when it goes on. */
				relay_close(r);
				continue;
			}
			if (p[1].revents & POLLOUT)
				r->full = false;
			if (p[0].revents)
				relay_turn(k, e, r);
		}
	}
}

/*
 * Has r what the command printed still to pass on, however slowly its client
 * reads? What other processes print after the command's end does not count.
 */
static bool is_owing(const struct relay *r)
{
	return r->owed > 0 && waiting(r) > 0;
}

/* Is nothing left to pass on, or is waiting for it over? */
static bool drained(const struct keeper *k, const struct keeper_exec *e,
		    uint64_t now_us)
{
	if (e->relay[0].from < 0 && e->relay[1].from < 0)
		return true;
	/* While the whole task ends, what was printed still goes out. */
	if (!k->plan.stay || k->ending)
		return false;
	return now_us >= e->drain_until_us && !is_owing(&e->relay[0]) &&
	       !is_owing(&e->relay[1]);
}

bool keeper_exec_stuck(struct keeper *k, uint64_t now_us)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];
		uint64_t due_us = e->asked_us + EXEC_START_MS * 1000u;

		if (e->id == 0 || e->started || e->over || now_us < due_us)
			continue;
		if (now_us >= due_us + EXEC_START_MS * 1000u)
			return true;
		if (!e->late) {
			e->late = true;
			keeper_tell_end(k, e);
		}
	}
	return false;
}

void keeper_exec_cut(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		if (e->id == 0)
			continue;
		if (e->done.status == 0)
			fail_exec(k, e, ETIMEDOUT, STAGE_OUTPUT);
		relay_close(&e->relay[0]);
		relay_close(&e->relay[1]);
	}
}

bool keeper_exec_finish(struct keeper *k, uint64_t now_us)
{
	bool all = true;

	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		if (e->id == 0)
			continue;
		if (!e->over || !drained(k, e, now_us)) {
			all = false;
			continue;
		}
		relay_close(&e->relay[0]);
		relay_close(&e->relay[1]);
		log_end(e);
		e->done.output_bytes = e->output_bytes;
		e->done.refusals = k->refusals - e->refusals;
		e->done.lookups = k->lookups - e->lookups;
		snprintf(e->done.limit, sizeof(e->done.limit), "%s", k->limit);
		if (e->client >= 0)
			tell_done(e->client, &e->done);
		exec_init(e, 0, 0, -1);
	}
	return all;
}
