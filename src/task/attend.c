/*
 * Theory of operation: three streams at most are moved, each by splice(2) where
 * the files allow it and by read and write elsewhere (files opened for
 * appending, terminals). Writing to the caller's stdout may block: signals
 * still get through, because their handler itself sends the message to the
 * keeper. An end of the command never waits for stdin.
 */
#include "base/cleanup.h"
#include "base/time.h"
#include "task/front.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* A pipe or terminal that poll calls writable takes this without blocking. */
#define INPUT_BYTES 4096
#define OUTPUT_BYTES (1u << 20)
/* How often a job in the background looks whether it is in front again. */
#define BACKGROUND_MS 200
/* An exec whose command has not begun by then meets a keeper that hangs. */
#define ANSWER_MS 30000u

struct attendance {
	struct front *front;
	uint32_t flags;
	int in;	    /* to the command: pipe, or the pty's master; -1 */
	bool in_ready; /* stdin has something */
	bool in_terminal; /* stdin is a terminal that we do not hold raw */
	bool in_copy;  /* splice does not work for stdin */
	int out[2];    /* from the keeper, for our 1 and 2; -1 */
	bool out_copy[2];
	int err_stream; /* which of them our standard error gets */
	bool raw; /* our terminal is in raw mode */
	struct termios saved;
	uint64_t deadline_us; /* of the exec; 0: none */
	uint64_t answer_us;   /* by when it must have begun; 0: any time */
	struct front_outcome *outcome;
	struct error *err;
};

/* For the signal handler. */
static volatile sig_atomic_t handler_channel = -1;
static volatile sig_atomic_t handler_whole_task;
/* Before a command runs there is nobody to pass a signal on to. */
static volatile sig_atomic_t command_runs, noted_signal, asked_end;
static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t saw_winch, saw_tstp, saw_cont;

/*
 * A signal may come between the look at the flags and poll, which would then
 * wait for something else: the pipe makes it return. Full is as good.
 */
static void wake(void)
{
	if (wake_pipe[1] >= 0 && write(wake_pipe[1], "", 1) < 0)
		return;
}

static void wake_drain(void)
{
	char some[64];

	while (read(wake_pipe[0], some, sizeof(some)) > 0)
		;
}

static bool is_deadly(int sig)
{
	return sig == SIGTERM || sig == SIGINT || sig == SIGHUP ||
	       sig == SIGQUIT;
}

/* True for what is only noted: it is the loop's to act on. */
static bool note(int sig)
{
	if (!command_runs && is_deadly(sig)) {
		if (!noted_signal)
			noted_signal = sig;
		return true;
	}
	saw_winch |= sig == SIGWINCH;
	saw_tstp |= sig == SIGTSTP;
	saw_cont |= sig == SIGCONT;
	return sig == SIGWINCH || sig == SIGTSTP || sig == SIGCONT;
}

static void on_signal(int sig)
{
	int saved = errno;
	int channel = handler_channel;

	if (note(sig)) {
		wake();
	} else if (channel >= 0 && handler_whole_task &&
		   (sig == SIGTERM || sig == SIGHUP)) {
		/* Asks for the end of the task: the command first. */
		struct stop_request stop = {.kind = STOP_GRACEFUL,
					    .signal = (uint32_t)sig};

		asked_end = 1;
		channel_send(channel, FRONT_STOP, &stop, sizeof(stop), NULL, 0);
	} else if (channel >= 0) {
		struct exec_signal s = {
			.signal = sig,
			.group = sig == SIGINT || sig == SIGQUIT,
		};

		channel_send(channel, FRONT_SIGNAL, &s, sizeof(s), NULL, 0);
	}
	errno = saved;
}

/* Now there is who gets signals: what was noted before is passed on. */
static void starts(void)
{
	int sig = noted_signal;

	command_runs = true;
	noted_signal = 0;
	if (sig)
		on_signal(sig);
}

static const int forwarded[] = {SIGINT,	 SIGTERM, SIGHUP, SIGQUIT,
				SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT,
				SIGTSTP};

/* What the caller ignores (nohup) stays ignored. */
static void handle(int sig, const struct sigaction *action)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction old;

	if (sigaction(sig, action, &old) == 0 && old.sa_handler == SIG_IGN)
		sigaction(sig, &ignore, NULL);
}

void front_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal,
				   .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++) {
		if (is_deadly(forwarded[i]))
			handle(forwarded[i], &action);
	}
}

int front_signal(void)
{
	return noted_signal;
}

static void install_handlers(const struct attendance *a, bool whole_task)
{
	/* No SA_RESTART: a blocked write to stdout must come back. */
	struct sigaction action = {.sa_handler = on_signal};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	/* Without the pipe only that one moment is lost. */
	if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		wake_pipe[0] = wake_pipe[1] = -1;
	sigemptyset(&action.sa_mask);
	handler_whole_task = whole_task;
	handler_channel = a->front->channel;
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		handle(forwarded[i], &action);
	sigaction(SIGPIPE, &ignore, NULL);
}

/* From here on these signals mean ourselves again. */
static void remove_handlers(void)
{
	struct sigaction none = {.sa_handler = SIG_DFL};

	handler_channel = -1;
	close_fd(wake_pipe[0]);
	close_fd(wake_pipe[1]);
	wake_pipe[0] = wake_pipe[1] = -1;
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		handle(forwarded[i], &none);
}

static void terminal_raw(struct attendance *a)
{
	struct termios t;

	if (a->raw || !(a->flags & EXEC_TTY) || tcgetattr(0, &a->saved) < 0)
		return;
	t = a->saved;
	cfmakeraw(&t);
	if (tcsetattr(0, TCSADRAIN, &t) == 0)
		a->raw = true;
}

static void terminal_restore(struct attendance *a)
{
	if (a->raw)
		tcsetattr(0, TCSADRAIN, &a->saved);
	a->raw = false;
}

static void resize(const struct attendance *a)
{
	struct winsize size;

	/* The kernel tells the command's foreground group. */
	if (a->flags & EXEC_TTY && a->in >= 0 &&
	    ioctl(0, TIOCGWINSZ, &size) == 0)
		ioctl(a->in, TIOCSWINSZ, &size);
}

static void send_signal(const struct attendance *a, int sig)
{
	struct exec_signal s = {.signal = sig, .group = 1};

	channel_send(a->front->channel, FRONT_SIGNAL, &s, sizeof(s), NULL, 0);
}

/* Stops ourselves as the command is stopped, and goes on with it. */
static void suspend(struct attendance *a)
{
	terminal_restore(a);
	kill(0, SIGSTOP);
	/* Here we are continued. */
	saw_cont = 0;
	terminal_raw(a);
	resize(a);
	send_signal(a, SIGCONT);
}

static void handle_flags(struct attendance *a)
{
	if (saw_winch) {
		saw_winch = 0;
		resize(a);
	}
	if (saw_tstp) {
		saw_tstp = 0;
		/* Its own session has nobody who could continue it from a
		 * default SIGTSTP, so it is stopped for good. */
		send_signal(a, SIGSTOP);
		/* Of a pty's command we are told when it has stopped. */
		if (!(a->flags & EXEC_TTY))
			suspend(a);
	}
	if (saw_cont) {
		saw_cont = 0;
		terminal_raw(a);
		resize(a);
		send_signal(a, SIGCONT);
	}
}

/* First SIGTERM, then the end: without its client an exec is killed. */
static void handle_deadline(struct attendance *a)
{
	struct exec_signal s = {.signal = SIGTERM};

	if (!a->deadline_us || time_mono_us() < a->deadline_us)
		return;
	if (!a->outcome->timed_out) {
		a->outcome->timed_out = true;
		a->deadline_us += a->front->grace_ms * 1000u;
		channel_send(a->front->channel, FRONT_SIGNAL, &s, sizeof(s),
			     NULL, 0);
		return;
	}
	a->deadline_us = 0;
	handler_channel = -1;
	close_fd(a->front->channel);
	a->front->channel = -1;
	a->outcome->lost = true;
}

/*
 * Is stdin a terminal that is somebody else's at the moment? Who reads it then
 * is stopped; nothing tells when that changes.
 */
static bool is_background(const struct attendance *a)
{
	return a->in >= 0 && a->in_terminal && tcgetpgrp(0) != getpgrp();
}

static int sooner(int most, uint64_t until_us)
{
	uint64_t now = time_mono_us(), left;

	if (!until_us)
		return most;
	left = until_us <= now ? 0 : (until_us - now) / 1000u + 1;
	return most >= 0 && (uint64_t)most < left ? most
						  : (int)(left % INT_MAX);
}

static int wait_ms(const struct attendance *a)
{
	int most = is_background(a) ? BACKGROUND_MS : -1;

	if (!command_runs)
		most = sooner(most, a->answer_us);
	return sooner(most, a->deadline_us);
}

static int unanswered(const struct attendance *a)
{
	if (command_runs || !a->answer_us || time_mono_us() < a->answer_us)
		return 0;
	return error_set(a->err, -ETIMEDOUT,
			 "the sandbox has not answered for %u s: its keeper is "
			 "stopped or overloaded; pinfold kill ends it",
			 ANSWER_MS / 1000);
}

static void close_input(struct attendance *a)
{
	/* The master also carries the window's size: it stays. */
	if (a->flags & EXEC_TTY)
		a->in_ready = false;
	close_fd(a->in);
	a->in = -1;
}

/* Did splice say that these files do not go together with it? */
static bool must_copy(ssize_t n)
{
	return n < 0 && (errno == EINVAL || errno == EAGAIN);
}

static bool is_over(ssize_t n)
{
	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static ssize_t copy_input(const struct attendance *a)
{
	char data[INPUT_BYTES];
	ssize_t n = read(0, data, sizeof(data));

	if (n > 0 && write(a->in, data, (size_t)n) != n)
		return 0;
	return n;
}

static void pump_input(struct attendance *a)
{
	ssize_t n = -1;

	if (!a->in_copy) {
		n = splice(0, NULL, a->in, NULL, INPUT_BYTES * 16,
			   SPLICE_F_NONBLOCK);
		a->in_copy = must_copy(n);
	}
	if (n < 0 && a->in_copy)
		n = copy_input(a);
	a->in_ready = false;
	if (is_over(n))
		close_input(a);
}

static int write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, data, n);

		if (done < 0 && errno == EAGAIN) {
			/* The caller's file is in non-blocking mode. */
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			poll(&p, 1, -1);
			continue;
		}
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			data += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

static ssize_t copy_output(const struct attendance *a, int i)
{
	static char data[65536];
	ssize_t n = read(a->out[i], data, sizeof(data));

	if (n > 0 && i == a->err_stream)
		a->outcome->open_line = data[n - 1] != '\n';
	if (n > 0) {
		int r = write_all(i + 1, data, (size_t)n);

		if (r < 0) {
			errno = -r;
			return -1;
		}
	}
	return n;
}

static void pump_output(struct attendance *a, int i)
{
	ssize_t n = -1;

	/* Who prints runs, even if the word of it is still on its way. */
	if (!command_runs)
		starts();
	if (!a->out_copy[i]) {
		n = splice(a->out[i], NULL, i + 1, NULL, OUTPUT_BYTES,
			   SPLICE_F_MOVE);
		a->out_copy[i] = must_copy(n);
		if (n > 0 && i == a->err_stream)
			a->outcome->open_line = true;
	}
	if (n < 0 && a->out_copy[i])
		n = copy_output(a, i);
	/* End of the stream, or nobody reads our output: the command then
	 * finds its own pipe broken. */
	if (is_over(n)) {
		if (n < 0 && errno != EPIPE)
			a->outcome->output_error = errno;
		close_fd(a->out[i]);
		a->out[i] = -1;
	}
}

static void take_streams(struct attendance *a, struct message *m)
{
	size_t i = 0;

	if (a->flags & EXEC_TTY) {
		a->in = message_take_fd(m, 0);
		a->out[0] = message_take_fd(m, 1);
		terminal_raw(a);
		resize(a);
		return;
	}
	if (!(a->flags & EXEC_NO_STDIN))
		a->in = message_take_fd(m, i++);
	a->out[0] = message_take_fd(m, i++);
	a->out[1] = message_take_fd(m, i);
}

/* 1: go on, 0: this channel says no more, negative: failed. */
static int handle_message(struct attendance *a)
{
	static struct message m;
	struct failure failure;
	int r = channel_recv(a->front->channel, &m);

	if (r == -EINTR || r == -EAGAIN)
		return 1;
	if (r <= 0) {
		a->outcome->lost = true;
		return 0;
	}
	r = message_check(&m, front_from_keeper, n_front_from_keeper, 1,
			  a->err);
	if (r < 0) {
		message_done(&m);
		return r;
	}
	r = 1;
	switch (m.type) {
	case FRONT_STREAMS:
		take_streams(a, &m);
		break;
	case FRONT_STARTED:
		starts();
		break;
	case FRONT_STOPPED:
		suspend(a);
		break;
	case FRONT_DONE:
		memcpy(&a->outcome->done, m.data, sizeof(a->outcome->done));
		a->outcome->done_known = true;
		a->deadline_us = 0;
		break;
	case FRONT_ENDING:
		if (a->front->ending)
			a->front->ending(a->front->ending_arg);
		break;
	case FRONT_ENDED:
		memcpy(&a->outcome->ended, m.data, sizeof(a->outcome->ended));
		a->outcome->ended_known = true;
		break;
	case FRONT_FAILED:
		memcpy(&failure, m.data, sizeof(failure));
		failure.text[sizeof(failure.text) - 1] = '\0';
		r = error_set(a->err, failure.code, "%s", failure.text);
		break;
	}
	message_done(&m);
	return r;
}

static bool finished(const struct attendance *a, bool whole_task)
{
	const struct front_outcome *o = a->outcome;

	if (a->out[0] >= 0 || a->out[1] >= 0)
		return false;
	return o->lost || o->ended_known || (!whole_task && o->done_known);
}

enum attend_slot {
	AT_CHANNEL,
	AT_STDIN,
	AT_INPUT,
	AT_OUT,
	AT_ERR,
	AT_WAKE,
	AT_COUNT
};

static void attend_slots(const struct attendance *a, struct pollfd *p)
{
	bool over = a->outcome->lost || a->outcome->ended_known;

	p[AT_CHANNEL] = (struct pollfd){.fd = over ? -1 : a->front->channel,
					.events = POLLIN};
	p[AT_STDIN] = (struct pollfd){
		.fd = a->in >= 0 && !a->in_ready && !is_background(a) ? 0 : -1,
		.events = POLLIN};
	/* Without events: only whether the reader is gone. */
	p[AT_INPUT] = (struct pollfd){.fd = a->in,
				      .events = a->in_ready ? POLLOUT : 0};
	p[AT_OUT] = (struct pollfd){.fd = a->out[0], .events = POLLIN};
	p[AT_ERR] = (struct pollfd){.fd = a->out[1], .events = POLLIN};
	p[AT_WAKE] = (struct pollfd){.fd = wake_pipe[0], .events = POLLIN};
}

static void attend_streams(struct attendance *a, const struct pollfd *p)
{
	for (int i = 0; i < 2; i++) {
		if (p[AT_OUT + i].revents)
			pump_output(a, i);
	}
	if (p[AT_STDIN].revents)
		a->in_ready = true;
	if (p[AT_INPUT].revents & POLLERR && !(a->flags & EXEC_TTY))
		close_input(a);
	else if (p[AT_INPUT].revents & POLLOUT)
		pump_input(a);
}

/* A deadly signal came, and no word yet that the command runs? */
static bool is_interrupted(const struct attendance *a)
{
	struct pollfd p = {.fd = a->front->channel, .events = POLLIN};

	if (!noted_signal || command_runs || poll(&p, 1, 0) > 0)
		return false;
	a->outcome->interrupted = noted_signal;
	return true;
}

static int attend_loop(struct attendance *a, bool whole_task)
{
	while (!finished(a, whole_task)) {
		struct pollfd p[AT_COUNT];
		int r;

		if (is_interrupted(a))
			return 0;
		attend_slots(a, p);
		handle_flags(a);
		if (poll(p, AT_COUNT, wait_ms(a)) < 0) {
			if (errno == EINTR)
				continue;
			return error_errno(a->err, "cannot wait");
		}
		if (p[AT_WAKE].revents)
			wake_drain();
		attend_streams(a, p);
		r = p[AT_CHANNEL].revents ? handle_message(a) : 0;
		handle_deadline(a);
		if (r >= 0)
			r = unanswered(a);
		if (r < 0)
			return r;
	}
	return 0;
}

int front_attend(struct front *f, uint32_t flags, bool whole_task,
		 struct front_outcome *ret, struct error *err)
{
	struct attendance a = {.front = f, .flags = flags, .in = -1,
			       .in_copy = flags & EXEC_TTY,
			       .out = {-1, -1}, .outcome = ret, .err = err};
	int r;

	*ret = (struct front_outcome){0};
	if (f->timeout_ms)
		a.deadline_us = time_mono_us() + f->timeout_ms * 1000u;
	/* A run's sandbox is still being built, which takes what it takes. */
	if (!whole_task)
		a.answer_us = time_mono_us() + ANSWER_MS * 1000u;
	/* Copied, so that we know how its last line ends. */
	a.out_copy[1] = true;
	a.err_stream = flags & (EXEC_MERGE | EXEC_TTY) ? 0 : 1;
	a.in_terminal = !(flags & (EXEC_TTY | EXEC_NO_STDIN)) && isatty(0);
	install_handlers(&a, whole_task);
	r = attend_loop(&a, whole_task);
	if (r == 0 && ret->lost)
		r = front_spawn_error(err);
	terminal_restore(&a);
	remove_handlers();
	ret->asked_end = asked_end;
	close_fd(a.in);
	close_fd(a.out[0]);
	close_fd(a.out[1]);
	return r;
}
