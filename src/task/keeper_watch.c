/*
 * pinfold-watch reads what notified calls point to, because reading the memory
 * of the sandbox's processes is nothing that the keeper should do. Its death
 * ends the task.
 */
#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "confine/seccomp.h"
#include "confine/start.h"
#include "confine/sys.h"
#include "task/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * Most commands never have a call notified. Until one has, a waiter stands
 * here that shares our memory, confined to waiting and to becoming watch: a
 * process is started at once, but no program.
 */
struct watch_start {
	int fds[WATCH_FD_COUNT]; /* what goes to which number */
	int error;
};

static struct watch_start watch_start;
static _Alignas(16) char watch_stack[16384];

static int confine_waiter(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
#ifdef PINFOLD_SANITIZED
	/* A sanitizer calls much more before main than a program does. */
	return 0;
#else
	return seccomp_load(SECCOMP_WAITER);
#endif
}

/* Returns when a call was notified. */
static void wait_for_call(void)
{
	struct pollfd p[2] = {
		{.fd = WATCH_FD_NOTIFY, .events = POLLIN},
		{.fd = WATCH_FD_CHANNEL},
	};

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents || !(p[0].revents & POLLIN))
		_exit(0);
}

static int watch_child(void *arg)
{
	static char *const argv[] = {(char *)(uintptr_t) "pinfold-watch", NULL};
	static char *const envp[] = {NULL};
	struct watch_start *s = arg;
	sigset_t all;
	int r;

	for (int i = WATCH_FD_NOTIFY; i < WATCH_FD_COUNT; i++)
		s->fds[i] = fcntl(s->fds[i], F_DUPFD, 64);
	for (int i = WATCH_FD_NOTIFY; i < WATCH_FD_COUNT; i++) {
		if (dup2(s->fds[i], i) < 0) {
			s->error = errno;
			_exit(125);
		}
	}
	/* Others wait for the end of what we hold: no copies are kept. */
	start_close_from(WATCH_FD_COUNT);
	start_die_with_parent(WATCH_FD_KEEPER);
	/* errno is the keeper's too: no call of ours may be interrupted. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	r = confine_waiter();
	if (r < 0) {
		s->error = -r;
		_exit(125);
	}
	wait_for_call();
	syscall(SYS_execveat, WATCH_FD_PROGRAM, "", argv, envp, AT_EMPTY_PATH);
	s->error = errno;
	_exit(125);
}

int keeper_watch_start(struct keeper *k, struct error *err)
{
	AUTO_FREE char *path = str_format("%s/pinfold-watch", k->programs);
	AUTO_CLOSE int program =
		path ? openat(AT_FDCWD, path, O_PATH | O_CLOEXEC) : -1;
	AUTO_CLOSE int self = sys_pidfd_open(getpid());
	AUTO_CLOSE int inner = -1;
	struct watch_start *s = &watch_start;
	int pair[2], r;

	if (program < 0 || self < 0)
		return error_errno(err, "cannot start %s/pinfold-watch",
				   k->programs);
	r = channel_pair(pair);
	if (r < 0)
		return error_set(err, r, "cannot make a channel: %s",
				 strerror(-r));
	k->watch_channel = pair[0];
	inner = pair[1];
	s->fds[WATCH_FD_NOTIFY] = k->notify;
	s->fds[WATCH_FD_CHANNEL] = inner;
	s->fds[WATCH_FD_KEEPER] = self;
	s->fds[WATCH_FD_PROGRAM] = program;
	k->watch_pid = start_beside(watch_child, s, 0, -1, watch_stack,
				    sizeof(watch_stack), &k->watch_pidfd);
	if (k->watch_pid < 0)
		return error_errno(err, "cannot start %s", path);
	close_fd(k->notify);
	k->notify = -1;
	return 0;
}

/* The process's name, as it gave it to itself. */
static char *read_comm(int pid)
{
	AUTO_BUF struct buf b = BUF_INIT(64);
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (io_read_file(AT_FDCWD, path, &b) < 0 || b.len == 0)
		return strdup("");
	if (b.data[b.len - 1] == '\n')
		b.data[b.len - 1] = '\0';
	return strdup(buf_str(&b));
}

/* 127.0.0.0/8, or 0.0.0.0, which is this host too. */
static bool is_loopback4(const uint8_t address[4])
{
	static const uint8_t unspecified[4];

	return address[0] == 127 || !memcmp(address, unspecified, 4);
}

static bool is_loopback(const struct watch_record *w)
{
	static const uint8_t loopback6[16] = {[15] = 1};
	static const uint8_t unspecified6[16];
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (w->family == AF_INET)
		return is_loopback4(w->address);
	return !memcmp(w->address, loopback6, 16) ||
	       !memcmp(w->address, unspecified6, 16) ||
	       (!memcmp(w->address, mapped, 12) &&
		is_loopback4(w->address + 12));
}

/* A question to the name server that the sandbox's resolv.conf names. */
static bool is_lookup(const struct watch_record *w)
{
	struct in_addr server;

	return w->family == AF_INET && w->port == 53 &&
	       inet_pton(AF_INET, CONTAINER_RESOLVER, &server) == 1 &&
	       !memcmp(w->address, &server, sizeof(server));
}

static char *object_of(const struct watch_record *w)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (is_lookup(w))
		return strdup("names");
	if (w->family == AF_INET) {
		inet_ntop(AF_INET, w->address, text, sizeof(text));
		return str_format("%s:%u", text, w->port);
	}
	inet_ntop(AF_INET6, w->address, text, sizeof(text));
	return str_format("[%s]:%u", text, w->port);
}

static void record_attempt(struct keeper *k, const struct watch_record *w)
{
	const char *action = is_lookup(w)	      ? "resolve"
			     : w->call == SYS_connect ? "connect"
						      : "sendto";
	struct record_refusal refusal = {
		.action = (char *)(uintptr_t)action,
		.rule = (char *)(uintptr_t) "network: default deny",
		.error = ENETUNREACH,
		.claimed = true,
		.count = 1,
		.at_us = time_wall_us(),
	};

	/* Inside, the loopback is the sandbox's own. */
	if ((w->family != AF_INET && w->family != AF_INET6) || is_loopback(w))
		return;
	k->refusals++;
	k->lookups += is_lookup(w);
	refusal.object = object_of(w);
	refusal.comm = read_comm(w->pid);
	if (refusal.object && refusal.comm)
		record_add_refusal(&k->record, &refusal);
	free(refusal.object);
	free(refusal.comm);
}

void keeper_watch_message(struct keeper *k)
{
	struct message *m = &k->message;
	struct watch_record w;
	struct error err = {0};
	int r = channel_recv(k->watch_channel, m);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || message_check(m, keeper_from_watch,
				    n_keeper_from_watch, KEEPER_RUNNING,
				    &err) < 0) {
		message_done(m);
		if (!k->ending)
			keeper_lose(k, err.text[0] ? err.text
						   : "pinfold-watch ended");
		close_fd(k->watch_channel);
		k->watch_channel = -1;
		return;
	}
	memcpy(&w, m->data, sizeof(w));
	message_done(m);
	record_attempt(k, &w);
}
