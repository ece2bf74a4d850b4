/*
 * From our id maps to a sandbox that stands. The order matters: groups, then
 * init, which makes its namespaces while the front end makes the plan, then
 * every mount, which init places, then our own confinement.
 */
#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "confine/caps.h"
#include "confine/ids.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"
#include "confine/start.h"
#include "confine/sys.h"
#include "task/gone.h"
#include "task/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Fewer than CHANNEL_FDS_MAX: while init places some we make the next. */
#define MOUNTS_AT_ONCE 8

/* Made at the clone; the rest, which takes longer, by the child for itself. */
#define INIT_NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID)
#define INIT_OWN_NAMESPACES                                                    \
	(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/*
 * The task's directory as our own mount namespace has it: a descriptor of the
 * caller's means the other one, in which we may mount nothing.
 */
static int open_own_task(struct keeper *k, struct error *err)
{
	const char *path = k->plan.task_path;
	AUTO_CLOSE int fd = openat(AT_FDCWD, path,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					   O_CLOEXEC);
	struct stat there, here;

	if (fd < 0 || fstat(fd, &here) < 0 || fstat(k->task_fd, &there) < 0 ||
	    fchdir(fd) < 0)
		return error_errno(err, "cannot enter the task's directory %s",
				   path);
	if (here.st_dev != there.st_dev || here.st_ino != there.st_ino)
		return error_set(err, -ESTALE,
				 "%s was replaced while the task started",
				 path);
	close(k->task_fd);
	k->task_fd = steal_fd(&fd);
	k->box.task_fd = k->task_fd;
	return 0;
}

/* Over the sandbox's own namespaces alone. */
static const int init_caps[] = {
	CAP_SYS_ADMIN,	  /* mounts, host name */
	CAP_NET_ADMIN,	  /* the loopback interface */
	CAP_SYS_RESOURCE, /* the limit of user namespaces */
	CAP_SETPCAP,	  /* emptying the bounding set */
	CAP_SETUID,	  /* ids of commands and of their pipes */
	CAP_SETGID,
	CAP_KILL, /* commands of other ids */
	CAP_DAC_READ_SEARCH, /* mount points in a home that root calls from */
	CAP_SYS_PTRACE, /* what undumpable commands have open */
};

struct init_start {
	int program, channel, keeper, error;
};

/* Read and written by the child while it shares our memory. */
static struct init_start init_start;
static _Alignas(16) char init_stack[16384];

/* In the child, which goes on beside us until it execs. */
static int init_child(void *arg)
{
	static char *const argv[] = {(char *)(uintptr_t) "pinfold-init", NULL};
	static char *const envp[] = {NULL};
	struct init_start *s = arg;
	int r = unshare(INIT_OWN_NAMESPACES) < 0
			? -errno
			: caps_keep_over_exec(init_caps, ARRAY_SIZE(init_caps));

	if (r < 0) {
		s->error = -r;
		_exit(125);
	}
	/* Moved out of the way first: the targets may be among the sources. */
	s->channel = fcntl(s->channel, F_DUPFD, 64);
	s->keeper = fcntl(s->keeper, F_DUPFD, 64);
	s->program = fcntl(s->program, F_DUPFD_CLOEXEC, 64);
	if (dup2(s->channel, INIT_FD_CHANNEL) < 0 ||
	    dup2(s->keeper, INIT_FD_KEEPER) < 0) {
		s->error = errno;
		_exit(125);
	}
	sys_close_range(INIT_FD_COUNT, ~0u, CLOSE_RANGE_CLOEXEC);
	syscall(SYS_execveat, s->program, "", argv, envp, AT_EMPTY_PATH);
	s->error = errno;
	_exit(125);
}

static int open_program(const struct keeper *k, const char *name,
			struct error *err)
{
	AUTO_FREE char *path = str_format("%s/%s", k->programs, name);
	int fd = path ? openat(AT_FDCWD, path, O_PATH | O_CLOEXEC) : -1;

	if (fd < 0)
		return error_errno(err, "cannot open %s/%s",
				   k->programs, name);
	return fd;
}

static int start_init(struct keeper *k, struct error *err)
{
	AUTO_CLOSE int program = open_program(k, "pinfold-init", err);
	AUTO_CLOSE int self = sys_pidfd_open(getpid());
	AUTO_CLOSE int inner = -1;
	struct init_start *start = &init_start;
	int pair[2];
	int r;

	if (program < 0)
		return program;
	if (self < 0)
		return error_errno(err, "cannot open our own pidfd");
	r = channel_pair(pair);
	if (r < 0)
		return error_set(err, r, "cannot make a channel: %s",
				 strerror(-r));
	k->init_channel = pair[0];
	inner = pair[1];
	*start = (struct init_start){.program = program, .channel = inner,
				     .keeper = self};
	k->init_pid = start_beside(init_child, start, INIT_NAMESPACES,
				   cgroup_unified(&k->cgroup), init_stack,
				   sizeof(init_stack), &k->init_pidfd);
	if (k->init_pid < 0)
		return ids_userns_blocked(
			error_errno(err, "cannot create the sandbox's "
					 "namespaces"),
			err);
	return 0;
}

static int make_groups(struct keeper *k, struct error *err)
{
	struct error why = {0};

	if (k->delegated) {
		if (cgroup_make_delegated(&k->cgroup, k->id, &why) == 0)
			return 0;
		k->delegated = false;
		k->undivided = strdup(why.text);
		if (!k->undivided)
			return error_set(err, -ENOMEM, "out of memory");
	}
	cgroup_make(&k->cgroup, k->id);
	return 0;
}

int keeper_begin(struct keeper *k, struct error *err)
{
	int r = make_groups(k, err);

	return r < 0 ? r : start_init(k, err);
}

void keeper_forget(struct keeper *k)
{
	if (k->init_pid > 0) {
		sys_pidfd_send_signal(k->init_pidfd, SIGKILL);
		waitpid(k->init_pid, NULL, 0);
	}
	cgroup_remove(&k->cgroup);
}

/* What init waits for before its first mount. */
static int admit_init(struct keeper *k, struct error *err)
{
	const struct sandbox_spec *s = &k->plan.spec;
	bool deny = !s->root_caller && s->identity == IDENTITY_SINGLE;
	int files[CGROUP_COUNT];
	size_t n = cgroup_files(&k->cgroup, files);
	int r = ids_write_maps(k->init_pid, deny, s->uids.extent, s->uids.n,
			       s->gids.extent, s->gids.n, err);

	/* A process that is gone has no maps: it knows better why. */
	if (r < 0 && init_start.error)
		return keeper_init_error(k, err);
	if (r == 0 &&
	    channel_send(k->init_channel, INIT_JOIN, NULL, 0, files, n) < 0)
		return keeper_init_error(k, err);
	return r;
}

static int send_config(struct keeper *k, struct error *err)
{
	const struct policy_limits *l = &k->plan.spec.limits;
	AUTO_BUF struct buf b = BUF_INIT(CHANNEL_DATA_MAX);
	struct init_config c = {
		.hostname = k->plan.spec.id,
		.nesting = k->plan.spec.nesting,
		.uid = k->plan.spec.inner_uid,
		.gid = k->plan.spec.inner_gid,
		.processes = l->processes,
		.open_files = l->open_files,
		.file_size = l->disk,
		.write_paths = k->box.write_paths,
	};
	int r;

	/* Where a group holds the limit, this one must not come first. */
	if (l->processes != LIMIT_NONE &&
	    cgroup_mechanism(&k->cgroup, CGROUP_PIDS))
		c.processes += 64;
	if (l->cpus_milli != LIMIT_NONE &&
	    !cgroup_mechanism(&k->cgroup, CGROUP_CPU))
		c.cpus = (uint32_t)((l->cpus_milli + 999) / 1000);
	r = init_config_pack(&c, &b);
	if (r == 0)
		r = channel_send(k->init_channel, INIT_ENTER, b.data, b.len,
				 NULL, 0);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	if (r == -EFBIG)
		return error_set(err, r,
				 "files.write: the paths of %zu directories "
				 "take more than %d bytes together; grant one "
				 "that holds many of them",
				 c.write_paths.n, CHANNEL_DATA_MAX);
	if (r < 0)
		return error_set(err, r, "cannot configure the sandbox: %s",
				 strerror(-r));
	return 0;
}

/* Mounts on the way to init: a wake-up of it each would cost more than they. */
struct batch {
	struct keeper *k;
	int fds[CHANNEL_FDS_MAX];
	size_t n, len;
	bool first; /* the root, at once: init works on it meanwhile */
	char paths[CHANNEL_DATA_MAX];
};

static int flush_mounts(struct batch *b)
{
	int r = b->n == 0 ? 0
			  : channel_send(b->k->init_channel, INIT_MOUNTS,
					 b->paths, b->len, b->fds, b->n);

	for (size_t i = 0; i < b->n; i++)
		close(b->fds[i]);
	b->n = b->len = 0;
	/* init may have failed at an earlier one: its text counts. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int send_mount(void *arg, int fd, const char *path)
{
	struct batch *b = arg;
	size_t len = strlen(path) + 1;
	int r = 0;

	if (b->n == MOUNTS_AT_ONCE || b->len + len > sizeof(b->paths))
		r = flush_mounts(b);
	b->fds[b->n++] = fd;
	memcpy(b->paths + b->len, path, len);
	b->len += len;
	if (r == 0 && !b->first)
		r = flush_mounts(b);
	b->first = true;
	return r;
}

static int fetch_clones(void *arg, struct container *c, struct error *err)
{
	struct keeper *k = ((struct batch *)arg)->k;
	size_t want = container_clones_needed(&k->plan.spec);
	struct message *m = &k->message;

	c->clones.fds = want ? calloc(want, sizeof(int)) : NULL;
	if (want && !c->clones.fds)
		return error_set(err, -ENOMEM, "out of memory");
	while (c->clones.n < want) {
		if (!keeper_expect(k, FRONT_CLONES))
			return error_set(err, -EPIPE, "the front end is gone");
		for (size_t i = 0; i < m->n_fds && c->clones.n < want; i++)
			c->clones.fds[c->clones.n++] = message_take_fd(m, i);
		message_done(m);
	}
	return 0;
}

static int build_mounts(struct keeper *k, struct error *err)
{
	static struct batch b;
	const struct container_helpers helpers = {
		.place = send_mount, .fetch = fetch_clones, .arg = &b};
	int r;

	b.k = k;
	r = container_build(&k->box, &k->plan.spec, &helpers, err);
	if (r == 0) {
		r = flush_mounts(&b);
		if (r < 0)
			error_set(err, r, "cannot hand over the mounts: %s",
				  strerror(-r));
	}
	if (r == 0 && k->plan.spec.carried.n > 0)
		r = record_add_enforced(
			&k->record, "carried in",
			k->box.carried_read_only
				? "read-only overlay: before Linux 6.6 a tmpfs "
				  "cannot be its upper layer"
				: "overlay, its upper layer in memory",
			true);
	return r;
}

int keeper_init_error(const struct keeper *k, struct error *err)
{
	if (init_start.error)
		return ids_userns_blocked(
			error_set(err, -init_start.error,
					 "cannot start %s/pinfold-init in new "
					 "namespaces: %s",
					 k->programs,
					 strerror(init_start.error)),
			       err);
	return error_set(err, -EPIPE,
			 "pinfold-init ended before the sandbox stood");
}

/* Sets the limits, and notes where a group came from, or why there is none. */
static int limit_groups(struct keeper *k, const struct cgroup_limits *l,
			struct error *err)
{
	struct task_plan *p = &k->plan;
	const struct cgroup *c = &k->cgroup;
	int r = cgroup_limit(&k->cgroup, l, err);
	bool all = (l->memory == LIMIT_NONE ||
		    cgroup_mechanism(c, CGROUP_MEMORY)) &&
		   (l->processes == LIMIT_NONE ||
		    cgroup_mechanism(c, CGROUP_PIDS)) &&
		   (l->cpus_milli == LIMIT_NONE ||
		    cgroup_mechanism(c, CGROUP_CPU));

	p->delegated = k->delegated;
	/* A group that cannot be divided serves as none. */
	if (k->undivided) {
		free(p->no_group);
		p->no_group = k->undivided;
		k->undivided = NULL;
	}
	if (all) {
		free(p->no_group);
		p->no_group = NULL;
	}
	return r;
}

/*
 * A source that is written directly is counted by the disk watchdog, and looked
 * through once init and all below it are gone, by whoever lives then.
 */
static int begin_direct(struct keeper *k, struct error *err)
{
	const struct sandbox_spec *s = &k->plan.spec;
	struct stat st;

	if (s->workspace != WORKSPACE_DIRECT)
		return 0;
	k->source_fd = open(s->source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					       O_CLOEXEC);
	if (k->source_fd < 0 || fstat(k->source_fd, &st) < 0)
		return error_errno(err, "cannot open %s", s->source);
	if (st.st_dev != s->source_dev || st.st_ino != s->source_ino)
		return error_set(err, -ESTALE,
				 "%s was replaced while the task started",
				 s->source);
	return gone_note(k->task_fd, k->init_pid, err);
}

int keeper_build(struct keeper *k, struct error *err)
{
	const struct policy_limits *l = &k->plan.spec.limits;
	const struct cgroup_limits groups = {.memory = l->memory,
					     .processes = l->processes,
					     .cpus_milli = l->cpus_milli,
					     .count_cpu = l->cpu_time_ms !=
							  LIMIT_NONE};
	int r;

	r = open_own_task(k, err);
	if (r == 0)
		r = limit_groups(k, &groups, err);
	if (r == 0)
		r = keeper_limits_choose(k, err);
	if (r == 0)
		r = admit_init(k, err);
	if (r == 0)
		r = build_mounts(k, err);
	if (r == 0)
		r = begin_direct(k, err);
	if (r == 0)
		r = send_config(k, err);
	keeper_limits_init(k);
	return r;
}

int keeper_confine(struct keeper *k, struct error *err)
{
	char proc[32], sockets[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char source[32];
	struct path_grant grants[7] = {
		{".", PATH_READ | PATH_WRITE},
		{"/proc", PATH_READ},
		/* The sandbox's own /proc is another file system. */
		{proc, PATH_READ},
		/* Where our name goes at the end. */
		{"../../live", PATH_WRITE},
	};
	size_t n = 4;
	AUTO_CLOSE int ruleset = -1;
	int r = keeper_watch_start(k, err);

	if (r < 0)
		return r;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", k->proc_fd);
	if (access("/sys/fs/cgroup", F_OK) == 0)
		grants[n++] = (struct path_grant){"/sys/fs/cgroup",
						  PATH_READ | PATH_WRITE};
	else if (errno != ENOENT)
		return error_errno(err, "cannot look at /sys/fs/cgroup");
	/* What is written directly is counted. */
	if (k->source_fd >= 0) {
		snprintf(source, sizeof(source), "/proc/self/fd/%d",
			 k->source_fd);
		grants[n++] = (struct path_grant){source, PATH_READ};
	}
	/* Our socket is removed at the end. */
	if (k->plan.socket_path) {
		snprintf(sockets, sizeof(sockets), "%s", k->plan.socket_path);
		*strrchr(sockets, '/') = '\0';
		grants[n++] = (struct path_grant){sockets, PATH_WRITE};
	}
	ruleset = landlock_ruleset(grants, n, 1, err);
	if (ruleset < 0)
		return ruleset;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_errno(err, "cannot set no_new_privs");
	r = landlock_enter(ruleset);
	if (r == 0)
		r = seccomp_load(SECCOMP_KEEPER);
	if (r < 0)
		return error_set(err, r, "the keeper cannot confine itself: %s",
				 strerror(-r));
	return 0;
}
