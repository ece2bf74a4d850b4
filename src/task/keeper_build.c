/*
 * From the plan to a running init. The order matters: groups and id-mapped
 * clones with the caller's own rights, then our user and mount namespace, then
 * every mount, then init in namespaces of its own, then our own confinement.
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
#include "task/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Made at the clone; the rest, which takes longer, by the child for itself. */
#define INIT_NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID)
#define INIT_OWN_NAMESPACES                                                    \
	(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |            \
	 CLONE_NEWCGROUP)

static bool sysctl_is(const char *path, char value)
{
	AUTO_BUF struct buf b = BUF_INIT(64);

	return io_read_file(AT_FDCWD, path, &b) == 0 && b.len > 0 &&
	       b.data[0] == value;
}

/* Why the kernel refuses a user namespace, and what changes that. */
static const char *userns_fix(int r)
{
	if (r == -ENOSPC || r == -EUSERS)
		return "user.max_user_namespaces is used up: sudo sysctl "
		       "user.max_user_namespaces=10000";
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
		return "sudo sysctl kernel.unprivileged_userns_clone=1";
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
		      '1'))
		return "AppArmor forbids it: sudo apparmor_parser -r "
		       "/etc/apparmor.d/pinfold (after make install)";
	if (ids_in_chroot(r))
		return "this is a chroot, where the kernel makes none: "
		       IDS_CHROOT_FIX;
	return "`pinfold doctor` names the cause and the command that fixes "
	       "it";
}

static int blocked(int r, struct error *err)
{
	if (r == -EPERM || r == -EACCES || r == -ENOSPC || r == -EUSERS)
		return error_prefix(err,
				    "this machine does not let us make a user "
				    "namespace; %s", userns_fix(r));
	return r;
}

/* The front end writes maps that need more rights than ours. */
static int maps_by_front(struct keeper *k, struct error *err)
{
	struct message *m = &k->message;
	int r = channel_send(k->front, FRONT_NEED_MAPS, NULL, 0, NULL, 0);

	for (;;) {
		if (r == 0)
			r = channel_recv(k->front, m);
		if (r <= 0)
			return error_set(err, r < 0 ? r : -EPIPE,
					 "the front end is gone");
		r = message_check(m, keeper_from_front, n_keeper_from_front,
				  KEEPER_MAPS, err);
		if (r < 0 || m->type == FRONT_MAPS_DONE)
			break;
		if (m->type == FRONT_EXEC && k->early_exec.type == 0) {
			k->early_exec = *m;
			continue;
		}
		r = error_set(err, -ECANCELED, "stopped while starting");
		break;
	}
	message_done(m);
	return r;
}

static int enter_own_namespaces(struct keeper *k, struct error *err)
{
	const struct sandbox_spec *s = &k->plan.spec;
	int r;

	/* The working directory is carried into the new mount namespace; a
	 * descriptor would go on meaning the old one. */
	if (fchdir(k->task_fd) < 0)
		return error_errno(err, "cannot enter the task's directory");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return blocked(error_errno(err, "cannot create the keeper's "
						"user namespace"),
			       err);
	if (s->root_caller || s->identity == IDENTITY_RANGE)
		r = maps_by_front(k, err);
	else
		r = ids_write_maps(0, true, s->keeper_uids.extent,
				   s->keeper_uids.n, s->keeper_gids.extent,
				   s->keeper_gids.n, err);
	if (r < 0)
		return blocked(r, err);
	close_fd(k->task_fd);
	k->task_fd = openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (k->task_fd < 0)
		return error_errno(err, "cannot open the task's directory");
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
	CAP_SYS_PTRACE, /* what undumpable commands have open */
};

struct init_start {
	const struct cgroup *cgroup;
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
	int r = cgroup_enter_v1(s->cgroup);

	if (r == 0 && unshare(INIT_OWN_NAMESPACES) < 0)
		r = -errno;
	if (r == 0)
		r = caps_keep_over_exec(init_caps, ARRAY_SIZE(init_caps));
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
	AUTO_FREE char *path = str_format("%s/%s", k->plan.programs, name);
	int fd = path ? openat(AT_FDCWD, path, O_PATH | O_CLOEXEC) : -1;

	if (fd < 0)
		return error_errno(err, "cannot open %s/%s",
				   k->plan.programs, name);
	return fd;
}

static int start_init(struct keeper *k, struct error *err)
{
	const struct sandbox_spec *s = &k->plan.spec;
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
	*start = (struct init_start){.cgroup = &k->cgroup, .program = program,
				     .channel = inner, .keeper = self};
	k->init_pid = start_beside(init_child, start, INIT_NAMESPACES,
				   cgroup_unified(&k->cgroup), init_stack,
				   sizeof(init_stack), &k->init_pidfd);
	if (k->init_pid < 0)
		return blocked(error_errno(err, "cannot create the sandbox's "
						"namespaces"),
			       err);
	/* init waits for its first message meanwhile. */
	return ids_write_maps(k->init_pid, !s->root_caller &&
			      s->identity == IDENTITY_SINGLE,
			      s->uids.extent, s->uids.n, s->gids.extent,
			      s->gids.n, err);
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
	if (r < 0)
		return error_set(err, r, "cannot configure the sandbox: %s",
				 strerror(-r));
	return 0;
}

static int send_mount(void *arg, int fd, const char *path)
{
	struct keeper *k = arg;
	int r = channel_send(k->init_channel, INIT_MOUNT, path,
			     strlen(path) + 1, &fd, 1);

	/* init may have failed at an earlier one: its text counts. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

int keeper_init_error(const struct keeper *k, struct error *err)
{
	if (init_start.error)
		return blocked(error_set(err, -init_start.error,
					 "cannot start %s/pinfold-init in new "
					 "namespaces: %s",
					 k->plan.programs,
					 strerror(init_start.error)),
			       err);
	return error_set(err, -EPIPE,
			 "pinfold-init ended before the sandbox stood");
}

/* A group that cannot be divided serves as none: that is in the record. */
static int make_groups(struct keeper *k, const struct cgroup_limits *l,
		       struct error *err)
{
	struct task_plan *p = &k->plan;
	struct error why = {0};

	if (p->delegated) {
		if (cgroup_make_delegated(&k->cgroup, p->spec.id, l, &why) == 0)
			return 0;
		p->delegated = false;
		free(p->no_group);
		p->no_group = strdup(why.text);
		if (!p->no_group)
			return error_set(err, -ENOMEM, "out of memory");
	}
	return cgroup_make(&k->cgroup, p->spec.id, l, err);
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

	r = make_groups(k, &groups, err);
	if (r == 0)
		r = keeper_limits_choose(k, err);
	if (r == 0)
		r = container_prepare(&k->box, &k->plan.spec, k->task_fd, err);
	if (r == 0)
		r = enter_own_namespaces(k, err);
	if (r < 0)
		return r;
	k->state = KEEPER_BUILDING;
	/* init comes up while we make what it will place. */
	r = start_init(k, err);
	if (r == 0)
		r = container_build(&k->box, &k->plan.spec, send_mount, k, err);
	if (r == 0)
		r = send_config(k, err);
	keeper_limits_init(k);
	return r;
}

int keeper_confine(struct keeper *k, struct error *err)
{
	char proc[32], sockets[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct path_grant grants[6] = {
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
