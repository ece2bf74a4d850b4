#include "task/front.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "confine/caps.h"
#include "confine/ids.h"
#include "confine/start.h"
#include "confine/sys.h"
#include "task/exec_args.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* How long a keeper may take to answer at once. */
#define ANSWER_MS 15000

/*
 * Over the keeper's own namespace alone: mounts, and what an overlay does in
 * its name with files of ids that are mapped there.
 */
static const int keeper_caps[] = {
	CAP_SYS_ADMIN, CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
	CAP_FOWNER,    CAP_FSETID, CAP_MKNOD,	     CAP_SETFCAP,
	CAP_SETUID,    CAP_SETGID, CAP_KILL,	     CAP_SYS_PTRACE,
	CAP_SYS_RESOURCE,
};

struct keeper_start {
	char program[PATH_MAX];
	char programs[PATH_MAX];
	char id[64];
	int fds[KEEPER_FD_COUNT]; /* what goes to which number */
	int error;
};

/* Read and written by the child while it shares our memory. */
static struct keeper_start keeper_start;
static _Alignas(16) char keeper_stack[16384];

/* In the child, which goes on beside us until it execs. */
static int keeper_child(void *arg)
{
	static char *const envp[] = {NULL};
	struct keeper_start *s = arg;
	char *const argv[] = {(char *)(uintptr_t) "pinfold-keeper", s->id,
			      s->programs, NULL};
	sigset_t none;
	int r = caps_keep_over_exec(keeper_caps, ARRAY_SIZE(keeper_caps));

	if (r < 0) {
		s->error = -r;
		_exit(125);
	}
	for (int i = KEEPER_FD_CHANNEL; i < KEEPER_FD_COUNT; i++)
		s->fds[i] = fcntl(s->fds[i], F_DUPFD, 64);
	for (int i = KEEPER_FD_CHANNEL; i < KEEPER_FD_COUNT; i++) {
		if (dup2(s->fds[i], i) < 0) {
			s->error = errno;
			_exit(125);
		}
	}
	for (int i = 0; i < 3; i++) {
		int null = open("/dev/null", O_RDWR);

		if (null < 0 || dup2(null, i) < 0) {
			s->error = errno;
			_exit(125);
		}
	}
	sys_close_range(KEEPER_FD_COUNT, ~0u, CLOSE_RANGE_CLOEXEC);
	/* A terminal's signals are the front end's to forward. */
	setsid();
	/* What the caller ignores is not the command's: it inherits ours. The
	 * two that nobody can ignore would fail, in the errno we share. */
	for (int i = 1; i <= SIGSYS; i++) {
		if (i != SIGKILL && i != SIGSTOP)
			signal(i, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(s->program, argv, envp);
	s->error = errno;
	_exit(125);
}

static int seal_plan(const struct task_plan *plan, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	int fd = plan_pack(plan, &b);

	if (fd == 0)
		fd = io_sealed_memfd("pinfold-plan", b.data, b.len);
	if (fd < 0)
		return error_set(err, fd, "cannot pack the task's plan: %s",
				 strerror(-fd));
	return fd;
}

int front_spawn(struct front *f, const char *programs, const char *id,
		struct error *err)
{
	AUTO_CLOSE int self = sys_pidfd_open(getpid());
	AUTO_CLOSE int inner = -1;
	struct keeper_start *start = &keeper_start;
	int pair[2], r;

	*start = (struct keeper_start){0};
	snprintf(start->id, sizeof(start->id), "%s", id);
	snprintf(start->programs, sizeof(start->programs), "%s", programs);
	if (self < 0 || snprintf(start->program, sizeof(start->program),
				 "%s/pinfold-keeper", programs) >=
				(int)sizeof(start->program))
		return error_set(err, -ENAMETOOLONG,
				 "cannot prepare the keeper");
	r = channel_pair(pair);
	if (r < 0)
		return error_set(err, r, "cannot make a channel: %s",
				 strerror(-r));
	f->channel = pair[0];
	inner = pair[1];
	start->fds[KEEPER_FD_CHANNEL] = inner;
	start->fds[KEEPER_FD_PARENT] = self;
	/* The descriptors are copied with the clone; memory is shared until
	 * the child execs, which is why it has a stack that stays. */
	f->keeper = start_beside(keeper_child, start, CLONE_NEWUSER, -1,
				 keeper_stack, sizeof(keeper_stack),
				 &f->keeper_pidfd);
	if (f->keeper < 0) {
		r = error_errno(err, "cannot create the keeper's user "
				     "namespace");
		f->keeper = 0;
		return ids_userns_blocked(r, err);
	}
	return 0;
}

int front_spawn_error(struct error *err)
{
	if (!keeper_start.error)
		return 0;
	return error_set(err, -keeper_start.error, "cannot start %s: %s",
			 keeper_start.program, strerror(keeper_start.error));
}

/* The text of a failure that the keeper has sent. */
static int failed(const struct message *m, struct error *err)
{
	struct failure failure;

	memcpy(&failure, m->data, sizeof(failure));
	failure.text[sizeof(failure.text) - 1] = '\0';
	return error_set(err, failure.code, "%s", failure.text);
}

/*
 * The keeper does not answer: because it never started, perhaps, or because it
 * has said why and gone.
 */
static int unreachable(const struct front *f, int r, struct error *err)
{
	static struct message m;
	int started = front_spawn_error(err);

	if (started < 0)
		return started;
	if (r == -EPIPE && channel_recv(f->channel, &m) > 0) {
		int known = message_check(&m, front_from_keeper,
					  n_front_from_keeper, 1, err);

		message_done(&m);
		if (known == 0 && m.type == FRONT_FAILED)
			return failed(&m, err);
	}
	return error_set(err, r, "cannot reach the keeper: %s", strerror(-r));
}

int front_send_plan(struct front *f, const struct task_plan *plan,
		    const char *policy, size_t policy_len, int task_fd,
		    int lock_fd, struct error *err)
{
	AUTO_CLOSE int plan_fd = seal_plan(plan, err);
	AUTO_CLOSE int policy_fd = -1;
	int fds[PLAN_FD_COUNT];
	int r;

	if (plan_fd < 0)
		return plan_fd;
	policy_fd = io_sealed_memfd("pinfold-policy", policy, policy_len);
	if (policy_fd < 0)
		return error_set(err, policy_fd,
				 "cannot seal the policy snapshot: %s",
				 strerror(-policy_fd));
	fds[PLAN_FD_PLAN] = plan_fd;
	fds[PLAN_FD_POLICY] = policy_fd;
	fds[PLAN_FD_TASK] = task_fd;
	fds[PLAN_FD_LOCK] = lock_fd;
	r = channel_send(f->channel, FRONT_PLAN, NULL, 0, fds, PLAN_FD_COUNT);
	return r < 0 ? unreachable(f, r, err) : 0;
}

int front_connect(struct front *f, const char *socket_path, struct error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(socket_path) >= sizeof(a.sun_path))
		return error_set(err, -ENAMETOOLONG,
				 "%s is too long for a socket", socket_path);
	strcpy(a.sun_path, socket_path);
	f->channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (f->channel < 0)
		return error_errno(err, "cannot make a socket");
	if (connect(f->channel, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_errno(err, "cannot reach the task at %s",
				   socket_path);
	return 0;
}

/* newuidmap and newgidmap write maps of subordinate ids for users. */
static int run_mapper(const char *program, pid_t pid, const struct id_map *m,
		      struct error *err)
{
	char text[1 + 3 * SPEC_MAPS_MAX][16];
	char *argv[3 + 3 * SPEC_MAPS_MAX] = {(char *)(uintptr_t)program};
	size_t n = 0;
	int status;
	pid_t child;

	snprintf(text[n++], sizeof(text[0]), "%d", (int)pid);
	for (uint32_t i = 0; i < m->n; i++) {
		const uint32_t v[3] = {m->extent[i].inner, m->extent[i].outer,
				       m->extent[i].count};

		for (int j = 0; j < 3; j++)
			snprintf(text[n++], sizeof(text[0]), "%u", v[j]);
	}
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = text[i];
	child = fork();
	if (child == 0) {
		execvp(program, argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return error_errno(err, "cannot run %s", program);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return error_set(err, -ENOENT,
				 "identity 'range' needs %s: install the "
				 "package uidmap",
				 program);
	if (status != 0)
		return error_set(err, -EPERM,
				 "%s refused the subordinate ids of identity "
				 "'range'; see /etc/subuid and /etc/subgid",
				 program);
	return 0;
}

static int write_maps(const struct front *f, const struct sandbox_spec *s,
		      struct error *err)
{
	const struct id_extent all = {0, 0, UINT32_MAX};
	int r;

	if (s->root_caller)
		return ids_write_maps(f->keeper, false, &all, 1, &all, 1, err);
	if (s->identity == IDENTITY_SINGLE)
		return ids_write_maps(f->keeper, true, s->keeper_uids.extent,
				      s->keeper_uids.n, s->keeper_gids.extent,
				      s->keeper_gids.n, err);
	r = run_mapper("newuidmap", f->keeper, &s->keeper_uids, err);
	if (r == 0)
		r = run_mapper("newgidmap", f->keeper, &s->keeper_gids, err);
	return r;
}

int front_begin(struct front *f, const struct sandbox_spec *s, bool delegated,
		struct error *err)
{
	const struct begin begin = {.delegated = delegated};
	int r = write_maps(f, s, err);

	if (r < 0)
		return front_spawn_error(err) < 0
			       ? r
			       : ids_userns_blocked(r, err);
	r = channel_send(f->channel, FRONT_BEGIN, &begin, sizeof(begin), NULL,
			 0);
	return r < 0 ? unreachable(f, r, err) : 0;
}

int front_send_clones(struct front *f, const int *fds, size_t n,
		      struct error *err)
{
	while (n > 0) {
		size_t now = n < CHANNEL_FDS_MAX ? n : CHANNEL_FDS_MAX;
		int r = channel_send(f->channel, FRONT_CLONES, NULL, 0, fds,
				     now);

		if (r < 0)
			return unreachable(f, r, err);
		fds += now;
		n -= now;
	}
	return 0;
}

int front_wait_ready(struct front *f, struct error *err)
{
	static struct message m;
	int r;

	for (;;) {
		r = channel_recv(f->channel, &m);
		if (r <= 0)
			return unreachable(f, -ECONNRESET, err);
		r = message_check(&m, front_from_keeper, n_front_from_keeper,
				  1, err);
		message_done(&m);
		if (r < 0)
			return r;
		switch (m.type) {
		case FRONT_READY:
			return 0;
		case FRONT_FAILED:
			return failed(&m, err);
		default:
			return error_set(err, -EPROTO,
					 "unexpected message %u", m.type);
		}
	}
}

static int wait_answer(struct front *f, struct message *m, struct error *err)
{
	struct pollfd p = {.fd = f->channel, .events = POLLIN};
	int r;

	do {
		r = poll(&p, 1, ANSWER_MS);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return error_set(err, -ETIMEDOUT,
				 "the task's keeper does not answer");
	return channel_recv(f->channel, m) > 0
		       ? 0
		       : error_set(err, -ECONNRESET, "the task has ended");
}

/* Waits for one answer of this type in m. */
static int expect(struct front *f, uint16_t type, struct message *m,
		  struct error *err)
{
	int r = wait_answer(f, m, err);

	if (r < 0)
		return r;
	r = message_check(m, front_from_keeper, n_front_from_keeper, 1, err);
	if (r == 0 && m->type == FRONT_FAILED)
		r = failed(m, err);
	else if (r == 0 && m->type == FRONT_ENDED)
		r = error_set(err, -ECONNRESET, "the task has ended");
	else if (r == 0 && m->type != type)
		r = error_set(err, -EPROTO, "unexpected message %u", m->type);
	if (r < 0)
		message_done(m);
	return r;
}

int front_refresh(struct front *f, struct refresh_view *ret,
		  int ret_fds[VIEW_FD_COUNT], struct error *err)
{
	static struct message m;
	int r = channel_send(f->channel, FRONT_REFRESH, NULL, 0, NULL, 0);

	if (r < 0)
		return unreachable(f, r, err);
	r = expect(f, FRONT_VIEW, &m, err);
	if (r < 0)
		return r;
	memcpy(ret, m.data, sizeof(*ret));
	for (int i = 0; i < VIEW_FD_COUNT; i++)
		ret_fds[i] = message_take_fd(&m, (size_t)i);
	message_done(&m);
	if (memchr(ret->hide_path, '\0', sizeof(ret->hide_path)))
		return 0;
	return error_set(err, -EPROTO, "malformed view");
}

int front_refreshed(struct front *f, struct error *err)
{
	static struct message m;
	int r = channel_send(f->channel, FRONT_REFRESHED, NULL, 0, NULL, 0);

	if (r < 0)
		return unreachable(f, r, err);
	r = expect(f, FRONT_REFRESHED, &m, err);
	if (r == 0)
		message_done(&m);
	return r;
}

int front_exec(struct front *f, const char *workdir, char *const argv[],
	       char *const envp[], uint32_t flags, struct error *err)
{
	struct exec_head head = {.flags = flags};
	struct winsize size;
	AUTO_CLOSE int args = exec_args_pack(workdir, argv, envp, err);
	int r;

	if (args < 0)
		return args;
	if (flags & EXEC_TTY && ioctl(0, TIOCGWINSZ, &size) == 0) {
		head.rows = size.ws_row;
		head.cols = size.ws_col;
	}
	r = channel_send(f->channel, FRONT_EXEC, &head, sizeof(head), &args, 1);
	return r < 0 ? unreachable(f, r, err) : 0;
}

void front_done(struct front *f)
{
	close_fd(f->channel);
	f->channel = -1;
	if (f->keeper > 0) {
		waitpid(f->keeper, NULL, 0);
		f->keeper = 0;
	}
	close_fd(f->keeper_pidfd);
	f->keeper_pidfd = -1;
}

bool front_same_file(int a, int b)
{
	struct stat x, y;
	long r;

	if (fstat(a, &x) < 0 || fstat(b, &y) < 0 || x.st_dev != y.st_dev ||
	    x.st_ino != y.st_ino)
		return false;
	r = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);
	/* Where kcmp is not to be had, equal flags must do. */
	if (r < 0)
		return fcntl(a, F_GETFL) == fcntl(b, F_GETFL);
	return r == 0;
}
