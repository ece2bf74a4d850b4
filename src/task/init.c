#include "task/init.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "confine/caps.h"
#include "confine/landlock.h"
#include "confine/mount.h"
#include "confine/net.h"
#include "confine/seccomp.h"
#include "confine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define REAP_AT_ONCE 4096

/* What a command may do outside the paths that it may write. */
static const struct path_grant base_grants[] = {
	{"/", PATH_READ | PATH_EXEC},
	{"/dev", PATH_READ | PATH_WRITE | PATH_IOCTL},
	{"/proc", PATH_READ | PATH_WRITE},
};

_Noreturn static void fail(int channel, const struct error *err)
{
	struct failure f = {.code = err->code};

	snprintf(f.text, sizeof(f.text), "%s", err->text);
	channel_send(channel, INIT_FAILED, &f, sizeof(f), NULL, 0);
	_exit(125);
}

_Noreturn void init_fail(const struct init *in, int code, const char *why)
{
	struct error err;

	error_set(&err, code, "%s", why);
	fail(in->channel, &err);
}

static int set_rlimit(int which, uint64_t value)
{
	struct rlimit now, want;

	if (value == UINT64_MAX)
		return 0;
	/* The C libraries do not agree on the type of which. */
	if (syscall(SYS_prlimit64, 0, which, NULL, &now) < 0)
		return -errno;
	want.rlim_cur = want.rlim_max =
		value < now.rlim_max ? (rlim_t)value : now.rlim_max;
	if (syscall(SYS_prlimit64, 0, which, &want, NULL) < 0)
		return -errno;
	return 0;
}

/* Limits of the whole sandbox: init's own are inherited by the commands. */
static int set_limits(const struct init_config *c, struct error *err)
{
	int r = set_rlimit(RLIMIT_CORE, 0);

	if (r == 0)
		r = set_rlimit(RLIMIT_NPROC, c->processes);
	if (r == 0)
		r = set_rlimit(RLIMIT_FSIZE, c->file_size);
	if (r < 0)
		return error_set(err, r, "cannot set resource limits: %s",
				 strerror(-r));
	if (c->cpus > 0) {
		cpu_set_t all, some;
		uint32_t n = 0;

		if (sched_getaffinity(0, sizeof(all), &all) < 0)
			return error_errno(err, "cannot read the CPU set");
		CPU_ZERO(&some);
		for (size_t i = 0; i < CPU_SETSIZE && n < c->cpus; i++) {
			if (!CPU_ISSET(i, &all))
				continue;
			CPU_SET(i, &some);
			n++;
		}
		if (sched_setaffinity(0, sizeof(some), &some) < 0)
			return error_errno(err, "cannot set the CPU set");
	}
	return 0;
}

/*
 * The keys of the caller's uid are the host's, whatever the namespaces: their
 * names are behind these files (keyrings(7)), which show nothing inside.
 */
static int hide_keys(int root_fd, struct error *err)
{
	static const char *const files[] = {"/proc/keys", "/proc/key-users"};
	AUTO_CLOSE int null = openat(root_fd, "dev/null",
				     O_PATH | O_CLOEXEC | O_NOFOLLOW);

	if (null < 0)
		return error_errno(err, "cannot open the sandbox's /dev/null");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		AUTO_CLOSE int clone = mount_clone(
			null, files[i], MOUNT_NOSUID | MOUNT_NOEXEC, -1, err);
		int r = clone < 0 ? clone
				  : mount_place(clone, root_fd, files[i], err);

		/* A kernel without keys has nothing to hide. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* File systems that belong to the sandbox's own namespaces. */
static int mount_own(const struct init_config *c, int root_fd, int proc,
		     struct error *err)
{
	static const char *const pts[] = {"newinstance", "ptmxmode=0666",
					  "mode=0620", NULL};
	AUTO_CLOSE int devpts = -1;
	int r;

	r = mount_place(proc, root_fd, "/proc", err);
	/* The kernel gives a nested sandbox no /proc beside one with covers. */
	if (r == 0 && !c->nesting)
		r = hide_keys(root_fd, err);
	if (r < 0)
		return r;
	/* newinstance is implied since Linux 4.7 and refused by none. */
	devpts = mount_new("devpts", pts, MOUNT_NOSUID | MOUNT_NOEXEC, err);
	if (devpts < 0)
		return devpts;
	return mount_place(devpts, root_fd, "/dev/pts", err);
}

/* Below this user namespace there shall be none. */
static int forbid_user_namespaces(struct error *err)
{
	int r = io_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces",
			      "0", 1);

	if (r < 0)
		return error_set(err, r,
				 "cannot forbid user namespaces inside: %s",
				 strerror(-r));
	return 0;
}

static int make_ruleset(const struct init_config *c, struct error *err)
{
	size_t n = ARRAY_SIZE(base_grants) + c->write_paths.n;
	AUTO_FREE struct path_grant *grants = calloc(n, sizeof(*grants));

	if (!grants)
		return error_set(err, -ENOMEM, "out of memory");
	memcpy(grants, base_grants, sizeof(base_grants));
	for (size_t i = 0; i < c->write_paths.n; i++)
		grants[ARRAY_SIZE(base_grants) + i] = (struct path_grant){
			c->write_paths.items[i],
			PATH_READ | PATH_WRITE | PATH_EXEC};
	return landlock_ruleset(grants, n, 1, err);
}

/* Into the new root. */
static int enter_root(const struct init_config *c, int root_fd, int proc,
		      struct error *err)
{
	int r = mount_own(c, root_fd, proc, err);

	if (r == 0)
		r = mount_enter_root(root_fd, err);
	if (r == 0 && sethostname(c->hostname, strlen(c->hostname)) < 0)
		r = error_errno(err, "cannot set the host name");
	return r;
}

static int enter(struct init *in, int root_fd, int proc, int *ret_listener,
		 struct error *err)
{
	const struct init_config *c = &in->config;
	int r = enter_root(c, root_fd, proc, err);

	if (r == 0 && !c->nesting)
		r = forbid_user_namespaces(err);
	if (r == 0)
		r = set_limits(c, err);
	if (r < 0)
		return r;
	umask(022);
	if (!c->nesting) {
		in->ruleset = make_ruleset(c, err);
		if (in->ruleset < 0)
			return in->ruleset;
	}
	r = seccomp_load(c->nesting ? SECCOMP_INIT_NESTING : SECCOMP_INIT);
	/* The kernel permits one listener for a process and all below it. */
	if (r == -EBUSY)
		return error_set(err, r,
				 "pinfold cannot run inside pinfold: calls are "
				 "notified to the outer one already");
	if (r < 0)
		return error_set(err, r, "cannot load the system call filter: "
				 "%s", strerror(-r));
	*ret_listener = r;
	return 0;
}

/* The first mount is the root. */
static int take_mount(struct message *m, size_t i, const char *path, int *root,
		      struct error *err)
{
	if (*root >= 0)
		return mount_place(m->fds[i], *root, path, err);
	*root = message_take_fd(m, i);
	return mount_attach_root(*root, err);
}

/* Each descriptor has its path, in the same order. */
static int take_batch(struct message *m, int *root, struct error *err)
{
	const char *at = (const char *)m->data;
	const char *end = at + m->len;
	int r = 0;

	if (end[-1] != '\0')
		return error_set(err, -EPROTO, "malformed mounts");
	for (size_t i = 0; i < m->n_fds && r == 0; i++) {
		if (at == end)
			return error_set(err, -EPROTO, "mounts without paths");
		r = take_mount(m, i, at, root, err);
		at += strlen(at) + 1;
	}
	return r;
}

/* Into groups that were made after our start, and out of sight of others. */
static int join_groups(const struct message *m, struct error *err)
{
	for (size_t i = 0; i < m->n_fds; i++) {
		if (write(m->fds[i], "0", 1) != 1)
			return error_errno(err, "cannot enter the task's "
						"control group");
	}
	return unshare(CLONE_NEWCGROUP) < 0
		       ? error_errno(err, "cannot make a namespace of groups")
		       : 0;
}

/* Receives mounts until INIT_ENTER, which stays in m. Returns the root. */
static int take_mounts(const struct init *in, struct message *m)
{
	struct error err = {0};
	int root = -1;

	for (;;) {
		int r = channel_recv(in->channel, m);

		if (r <= 0)
			_exit(125);
		r = message_check(m, init_from_keeper, n_init_from_keeper,
				  INIT_BUILDING, &err);
		if (r == 0 && m->type == INIT_ENTER)
			return root;
		if (r == 0)
			r = m->type == INIT_JOIN ? join_groups(m, &err)
						 : take_batch(m, &root, &err);
		message_done(m);
		if (r < 0)
			fail(in->channel, &err);
	}
}

/* What no message is needed for. Returns a detached /proc. */
static int begin(struct error *err)
{
	int proc = mount_new("proc", NULL,
			     MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, err);
	int r;

	if (proc < 0)
		return error_prefix(err,
				    "the sandbox cannot have its own /proc (is "
				    "/proc masked, as in a container?)");
	r = net_loopback_up(err);
	if (r == 0)
		return proc;
	close(proc);
	return r;
}

static void build(struct init *in, struct message *m)
{
	struct error err = {0};
	AUTO_CLOSE int own_proc = begin(&err);
	AUTO_CLOSE int listener = -1;
	AUTO_CLOSE int proc = -1;
	AUTO_CLOSE int root = -1;
	int r;

	if (own_proc < 0)
		fail(in->channel, &err);
	root = take_mounts(in, m);
	r = init_config_unpack(m->data, m->len, &in->config);
	if (r < 0)
		error_set(&err, r, "the sandbox's configuration is malformed");
	else
		r = enter(in, root, own_proc, &listener, &err);
	message_done(m);
	if (r < 0)
		fail(in->channel, &err);
	proc = openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = channel_send(in->channel, INIT_ENTERED, NULL, 0,
			 (const int[]){listener, proc}, 2);
	if (r < 0)
		_exit(125);
}

static struct init_exec *find_exec(struct init *in, uint32_t id)
{
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		if (id != 0 && in->execs[i].id == id)
			return &in->execs[i];
	}
	return NULL;
}

static void handle_exec(struct init *in, struct message *m)
{
	AUTO_CLOSE int fd = message_take_fd(m, 0);
	struct exec_args args;
	struct exec_head head;
	struct error err = {0};

	memcpy(&head, m->data, sizeof(head));
	if (exec_args_map(fd, &args, &err) < 0) {
		struct exec_done done = {.id = head.id,
					 .status = -1,
					 .exec_errno = -err.code,
					 .stage = STAGE_STREAMS};

		channel_send(in->channel, INIT_EXITED, &done, sizeof(done),
			     NULL, 0);
		return;
	}
	init_exec_start(in, &head, &args);
}

static void handle_signal(struct init *in, const struct message *m)
{
	struct exec_signal s;
	struct init_exec *e;

	memcpy(&s, m->data, sizeof(s));
	e = find_exec(in, s.id);
	if (e && e->running)
		kill(s.group ? -e->pid : e->pid, s.signal);
	else if (e && s.signal > 0 && s.signal < 64)
		e->early |= UINT64_C(1) << s.signal;
}

static void end_exec(struct init *in, const struct init_exec *e)
{
	/* It may not lead its session yet. */
	kill(e->leader ? e->leader : e->pid, SIGKILL);
	init_exec_kill(in, e);
}

static void handle_message(struct init *in, struct message *m)
{
	struct error err = {0};
	struct exec_head head;
	struct init_exec *e;
	int r = channel_recv(in->channel, m);

	if (r <= 0)
		_exit(125);
	if (message_check(m, init_from_keeper, n_init_from_keeper,
			  INIT_RUNNING, &err) < 0)
		fail(in->channel, &err);
	switch (m->type) {
	case INIT_EXEC:
		handle_exec(in, m);
		break;
	case INIT_SIGNAL:
		handle_signal(in, m);
		break;
	case INIT_COUNT_OPEN:
		init_open_count(in);
		break;
	case INIT_END_EXEC:
		memcpy(&head, m->data, sizeof(head));
		e = find_exec(in, head.id);
		if (e)
			end_exec(in, e);
		break;
	}
	message_done(m);
}

/* What a leader wrote last counts more than how it ended itself. */
static void leader_gone(struct init *in, struct init_exec *e,
			const struct exec_done *done)
{
	while (e->id == done->id && init_exec_event(in, e))
		;
	if (e->id != done->id)
		return;
	init_exec_kill(in, e);
	init_exec_ended(in, e, done);
}

/* The word of why it never ran counts more than how it ended. */
static void command_gone(struct init *in, struct init_exec *e,
			 const struct exec_done *done)
{
	init_exec_settle(in, e);
	if (e->id == done->id)
		init_exec_ended(in, e, done);
}

static void reaped(struct init *in, pid_t pid, int status,
		   const struct rusage *ru)
{
	for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
		struct init_exec *e = &in->execs[i];
		struct exec_done done = {.id = e->id, .status = status,
					 .cpu_us = time_rusage_us(ru)};

		if (e->id == 0)
			continue;
		if (e->leader == 0 && e->pid == pid)
			command_gone(in, e, &done);
		else if (e->leader == pid)
			leader_gone(in, e, &done);
	}
}

/* Some of those that ended: they may come faster than we reap. */
static void reap(struct init *in)
{
	struct signalfd_siginfo info;
	struct rusage ru;
	int status, n = 0;
	pid_t pid = 0;

	if (read(in->signals, &info, sizeof(info)) < 0 && errno != EAGAIN)
		_exit(125);
	while (n < REAP_AT_ONCE &&
	       (pid = wait4(-1, &status, WNOHANG | __WALL, &ru)) > 0) {
		reaped(in, pid, status, &ru);
		n++;
	}
	in->reap_more = n == REAP_AT_ONCE;
	/* An end that we cannot hear of would be waited for without end. */
	if (pid < 0 && errno != ECHILD)
		_exit(125);
}

static void wait_for_events(const struct init *in, struct pollfd *p, size_t n,
			    int timeout)
{
	p[0] = (struct pollfd){.fd = in->channel, .events = POLLIN};
	p[1] = (struct pollfd){.fd = in->signals, .events = POLLIN};
	for (size_t i = 0; i < INIT_EXECS_MAX; i++)
		p[2 + i] = (struct pollfd){
			.fd = in->execs[i].id ? in->execs[i].events : -1,
			.events = POLLIN,
		};
	while (poll(p, (nfds_t)n, timeout) < 0) {
		if (errno != EINTR)
			_exit(125);
	}
}

_Noreturn static void loop(struct init *in, struct message *m)
{
	static struct pollfd p[2 + INIT_EXECS_MAX];

	for (;;) {
		int timeout = init_kill_turn(in);

		wait_for_events(in, p, ARRAY_SIZE(p),
				in->reap_more ? 0 : timeout);
		for (size_t i = 0; i < INIT_EXECS_MAX; i++) {
			if (p[2 + i].revents)
				init_exec_event(in, &in->execs[i]);
		}
		if (p[1].revents || in->reap_more)
			reap(in);
		if (p[0].revents)
			handle_message(in, m);
	}
}

#define SIGNALS 64

/*
 * What the caller ignored (nohup) is no business of the commands. The kernel
 * tells at once which signals those are (proc_pid_status(5)).
 */
static void reset_signals(void)
{
	AUTO_BUF struct buf b = BUF_INIT(8192);
	/* The kernel's structure: handler, flags, restorer, mask. */
	static const uint64_t defaults[4];
	unsigned long long ignored = ~0ull;
	const char *at = NULL;

	if (io_read_file(AT_FDCWD, "/proc/self/status", &b) == 0)
		at = strstr(buf_str(&b), "\nSigIgn:");
	if (!at || sscanf(at, " SigIgn: %llx", &ignored) != 1)
		ignored = ~0ull;
	/* The C library keeps two signals to itself, and out of signal(2). */
	for (int sig = 1; sig <= SIGNALS; sig++) {
		if (ignored & 1ull << (sig - 1))
			syscall(SYS_rt_sigaction, sig, &defaults, NULL,
				sizeof(uint64_t));
	}
}

_Noreturn void init_main(void)
{
	static struct init in = {.channel = INIT_FD_CHANNEL, .ruleset = -1};
	static struct message m;
	sigset_t set;

	/* From here on the keeper's death is ours, and the sandbox's. */
	start_die_with_parent(INIT_FD_KEEPER);
	start_close_from(INIT_FD_COUNT);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(125);
	fcntl(INIT_FD_CHANNEL, F_SETFD, FD_CLOEXEC);
	fcntl(INIT_FD_KEEPER, F_SETFD, FD_CLOEXEC);
	reset_signals();
	/* What follows us in this process tree never gains a capability. */
	if (caps_seal() < 0)
		_exit(125);
	build(&in, &m);
	/* Only now: the keeper writes our id maps through /proc. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		_exit(125);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		_exit(125);
	in.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (in.signals < 0)
		_exit(125);
	loop(&in, &m);
}
