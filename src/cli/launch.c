#include "cli/launch.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"
#include "cli/direct.h"
#include "cli/held.h"
#include "cli/git_author.h"
#include "cli/identity.h"
#include "cli/policy_source.h"
#include "cli/report.h"
#include "cli/tools.h"
#include "confine/cgroup.h"
#include "confine/start.h"
#include "task/delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define GRACE_MS 2000u
/* poll(2) takes no more places than this limit, and the keeper has over 300. */
#define FILES_MIN 512
#define FILE_SIZE_MIN (1u << 20)
#define LOG_MAX (1u << 20)

void launch_init(struct launch *l)
{
	*l = (struct launch){
		.source = {.fd = -1},
		.state = STATE_INIT,
		.front = FRONT_INIT,
		.task_fd = -1,
		.lock_fd = -1,
		.hide_fd = -1,
		.snapshot = BUF_INIT(POLICY_TEXT_MAX),
	};
}

void launch_done(struct launch *l)
{
	front_done(&l->front);
	plan_done(&l->plan);
	container_clones_done(&l->clones);
	free(l->programs);
	strlist_done(&l->env);
	buf_done(&l->snapshot);
	secrets_done(&l->secrets);
	hidden_done(&l->hidden);
	close_fd(l->task_fd);
	close_fd(l->lock_fd);
	close_fd(l->hide_fd);
	source_done(&l->source);
	state_close(&l->state);
	if (l->policy_known)
		policy_done(&l->policy);
	strlist_done(&l->withheld);
	launch_init(l);
}

int launch_refuse(const struct error *err)
{
	fprintf(stderr, "pinfold: %s\n", err->text);
	return EXIT_REFUSED;
}

char *launch_programs(void)
{
	static const char *const places[] = {"%s", "%s/../lib/pinfold"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char dir[PATH_MAX + 16], keeper[PATH_MAX + 48];

		snprintf(dir, sizeof(dir), i ? "%s/../lib/pinfold" : "%s",
			 self);
		snprintf(keeper, sizeof(keeper), "%s/pinfold-keeper", dir);
		if (access(keeper, X_OK) == 0)
			return realpath(dir, NULL);
	}
	return NULL;
}

/* ---- environment ---- */

static int add_variable(struct strlist *env, const char *name,
			const char *value)
{
	return strlist_take(env, str_format("%s=%s", name, value));
}

static void set_variable(struct strlist *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < env->n; i++) {
		char *copy;

		if (strncmp(env->items[i], assignment, n) != 0)
			continue;
		copy = strdup(assignment);
		if (!copy)
			return;
		free(env->items[i]);
		env->items[i] = copy;
		return;
	}
	strlist_add(env, assignment);
}

void launch_say_unset(const struct options *o)
{
	const struct strlist *env = &o->values[OPT_ENV];

	for (size_t i = 0; i < env->n; i++) {
		AUTO_BUF struct buf text = BUF_INIT(65536);

		if (strchr(env->items[i], '=') || getenv(env->items[i]))
			continue;
		buf_add_str(&text, "--env ");
		report_path(&text, env->items[i]);
		buf_add_str(&text, ": the caller has no such variable");
		report_note(buf_str(&text));
	}
}

int launch_environment(const struct policy *p, const struct sandbox_spec *s,
		       bool tty, struct strlist *ret, struct error *err)
{
	const char *term = getenv("TERM");
	int r = 0;

	for (size_t i = 0; i < s->tool_env.n; i++)
		r |= strlist_add(ret, s->tool_env.items[i]);
	r |= add_variable(ret, "HOME", s->home);
	r |= add_variable(ret, "USER", s->user);
	r |= add_variable(ret, "LOGNAME", s->user);
	r |= add_variable(ret, "SHELL", "/bin/sh");
	r |= add_variable(ret, "TMPDIR", "/tmp");
	r |= add_variable(ret, "LANG", "C.UTF-8");
	r |= add_variable(ret, "PINFOLD_TASK", s->id);
	if (tty)
		r |= add_variable(ret, "TERM", term ? term : "dumb");
	for (size_t i = 0; i < p->env_pass.n; i++) {
		const char *name = p->env_pass.items[i];
		const char *value = getenv(name);
		AUTO_FREE char *both =
			value ? str_format("%s=%s", name, value) : NULL;

		if (both)
			set_variable(ret, both);
	}
	for (size_t i = 0; i < p->env_set.n; i++)
		set_variable(ret, p->env_set.items[i]);
	return r ? error_set(err, -ENOMEM, "out of memory") : 0;
}

/* ---- the plan ---- */

static int copy_list(struct strlist *to, const struct strlist *from)
{
	for (size_t i = 0; i < from->n; i++) {
		if (strlist_add(to, from->items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What is shown already, as the source or to be changed, is not shown twice. */
static int fill_read(struct launch *l)
{
	const struct strlist *read = &l->policy.read;
	struct sandbox_spec *s = &l->plan.spec;

	for (size_t i = 0; i < read->n; i++) {
		const char *path = read->items[i];

		if (strlist_has(&l->policy.write, path) ||
		    (l->source.path && str_eq(path, l->source.path)))
			continue;
		if (strlist_add(&s->read, path) < 0)
			return -ENOMEM;
	}
	return 0;
}

static char *copy_unless_empty(const char *s)
{
	return s[0] ? strdup(s) : NULL;
}

/* Who commits are by. A caller without a name is no reason to fail. */
static void fill_git_author(struct launch *l)
{
	struct sandbox_spec *s = &l->plan.spec;
	struct git_author author;

	if (!l->policy.git_author)
		return;
	git_author_read(launch_home(), &author);
	s->git_name = copy_unless_empty(author.name);
	s->git_email = copy_unless_empty(author.email);
}

static void move_list(struct strlist *to, struct strlist *from)
{
	strlist_done(to);
	*to = *from;
	*from = (struct strlist){0};
}

/*
 * Of what would be carried in for root: where a file system cannot map ids, that
 * is left out and said. Each file system is tried once.
 */
static int drop_unmappable(const struct sandbox_spec *s, struct tools *t)
{
	struct tools kept = {0};
	dev_t dev = 0;
	bool can = false;
	int r = 0;

	for (size_t i = 0; i < t->carried.n && r == 0; i++) {
		const char *path = t->carried.items[i];
		AUTO_BUF struct buf text = BUF_INIT(PATH_MAX * 8);
		struct stat st;

		if (stat(path, &st) < 0)
			continue;
		if (i == 0 || st.st_dev != dev)
			can = container_clones(s, path);
		dev = st.st_dev;
		if (can) {
			r = strlist_add(&kept.carried, path);
			if (r == 0)
				r = strlist_add(&kept.carried_at,
						t->carried_at.items[i]);
			continue;
		}
		buf_add_str(&text, "note: without ");
		report_path(&text, path);
		buf_add_str(&text, ": its file system cannot map ids");
		report_note(buf_str(&text));
	}
	move_list(&t->carried, &kept.carried);
	move_list(&t->carried_at, &kept.carried_at);
	return r;
}

/* The caller's tool chains and caches, if the policy has them. */
static int fill_tools(struct launch *l, struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	const struct tools_where where = {.policy = &l->policy,
					  .home = launch_home(),
					  .inside = s->home,
					  .source = l->source.path};
	AUTO_TOOLS struct tools t = {0};
	int r = tools_find(&where, &t, err);

	if (r < 0)
		return r;
	if (s->root_caller)
		r = drop_unmappable(s, &t);
	if (r < 0)
		return error_set(err, r, "out of memory");
	move_list(&s->tools, &t.shown);
	move_list(&s->carried, &t.carried);
	move_list(&s->carried_at, &t.carried_at);
	move_list(&s->masked, &t.masked);
	move_list(&s->tool_env, &t.env);
	move_list(&s->seeds, &t.seeds);
	move_list(&s->seed_texts, &t.seed_texts);
	move_list(&l->withheld, &t.withheld);
	return 0;
}

static uint64_t half_of_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return LIMIT_NONE;
	return (uint64_t)info.totalram * info.mem_unit / 2;
}

static int copy_lists(struct sandbox_spec *s, const struct policy *p)
{
	int r = copy_list(&s->write, &p->write);

	return r < 0 ? r : copy_list(&s->sockets, &p->sockets);
}

static int fill_spec(struct launch *l, struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	struct stat st;
	int r;

	s->id = strdup(l->id);
	r = policy_tier_to_run(&l->policy, &s->tier, err);
	if (r < 0)
		return r;
	s->nesting = l->policy.nesting;
	fill_git_author(l);
	s->limits = l->policy.limits;
	if (s->limits.memory == LIMIT_HALF)
		s->limits.memory = half_of_memory();
	if (l->source.path) {
		s->source = strdup(l->source.path);
		if (fstat(l->source.fd, &st) < 0)
			return error_errno(err, "cannot look at %s",
					   l->source.path);
		s->source_dev = st.st_dev;
		s->source_ino = st.st_ino;
		s->owner_uid = l->source.owner;
		s->owner_gid = l->source.group;
	}
	if (!s->id || (l->source.path && !s->source) ||
	    fill_read(l) < 0 ||
	    copy_lists(s, &l->policy) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = fill_tools(l, err);
	return r < 0 ? r : launch_hide(l, err);
}

/* What the record will say of the task beside its sandbox. 0 or negative. */
static int describe(struct launch *l, const struct options *o)
{
	struct task_plan *p = &l->plan;
	int r = policy_to_json(&l->policy, &l->snapshot);

	if (r < 0)
		return r;
	sha256_hex(l->snapshot.data, l->snapshot.len, p->policy_digest);
	p->workdir = strdup(l->source.workdir ? l->source.workdir
					      : p->spec.home);
	p->policy_name = l->policy.name ? strdup(l->policy.name) : NULL;
	for (size_t i = 0; i < o->n_rest && r == 0; i++)
		r = strlist_add(&p->argv, o->rest[i]);
	if (r == 0)
		r = copy_list(&p->labels, &o->values[OPT_LABEL]);
	return r < 0 || p->workdir ? r : -ENOMEM;
}

static int check_labels(const struct strlist *labels, struct error *err)
{
	for (size_t i = 0; i < labels->n; i++) {
		AUTO_BUF struct buf quoted = BUF_INIT(512);

		if (strcspn(labels->items[i], "=") > 0 &&
		    strchr(labels->items[i], '='))
			continue;
		str_quote(&quoted, labels->items[i], 80);
		return error_set(err, -EINVAL, "--label: expected KEY=VALUE, "
				 "not %s", buf_str(&quoted));
	}
	return 0;
}

static int fill_plan(struct launch *l, const struct options *o, bool stay,
		     struct error *err)
{
	struct task_plan *p = &l->plan;
	int r = fill_spec(l, err);

	if (r < 0)
		return r;
	p->task_path = str_format("%s/tasks/%s", l->state.path, l->id);
	if (!p->task_path)
		return error_set(err, -ENOMEM, "out of memory");
	p->stay = stay;
	p->caller_uid = getuid();
	p->started_us = time_wall_us();
	p->grace_ms = GRACE_MS;
	p->log_max = LOG_MAX;
	r = options_duration(o, OPT_GRACE, "grace", &p->grace_ms, err);
	if (r < 0)
		return r;
	r = check_labels(&o->values[OPT_LABEL], err);
	if (r < 0)
		return r;
	if (describe(l, o) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int fill_socket(struct launch *l, struct error *err)
{
	AUTO_FREE char *dir = NULL;
	AUTO_CLOSE int fd = state_runtime_dir(&dir, err);

	if (fd < 0)
		return fd;
	l->plan.socket_path = str_format("%s/%s", dir, l->id);
	return l->plan.socket_path ? 0 : error_set(err, -ENOMEM,
						   "out of memory");
}

void launch_clean_lost(void *arg, const char *id, int task_fd)
{
	(void)arg;
	(void)task_fd;
	cgroup_remove_stale(id);
}

/* The snapshot beside the record, for people and later comparisons. */
static int write_snapshot(const struct launch *l, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int r;

	if (l->plan.spec.workspace == WORKSPACE_DIRECT)
		return direct_begin(l, err);
	fd = openat(l->task_fd, "policy.json",
		    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, "cannot write policy.json of %s",
				   l->id);
	r = io_write_all(fd, l->snapshot.data, l->snapshot.len);
	return r < 0 ? error_set(err, r, "cannot write policy.json of %s: %s",
				 l->id, strerror(-r))
		     : 0;
}

/* A task that never had a keeper leaves nothing. */
static void forget(struct launch *l)
{
	struct error ignored;

	close_fd(l->lock_fd);
	l->lock_fd = -1;
	state_task_remove(&l->state, l->id, &ignored);
}

/* A run that fails here never had a sandbox: its keeper goes first. */
static void give_up(struct launch *l)
{
	front_done(&l->front);
	if (l->task_fd >= 0)
		forget(l);
}

/*
 * A control group for the task, where none can be made beside ours. Where there
 * is nobody to ask, nothing is looked at: this is on the way of every start.
 */
static int find_group(struct launch *l, bool stay, struct error *err)
{
	const struct policy_limits *want = &l->policy.limits;
	const struct cgroup_limits groups = {.memory = want->memory,
					     .processes = want->processes,
					     .cpus_milli = want->cpus_milli};
	struct error why;
	int r = delegate_reachable(&why);

	if (r == 0 && cgroup_at_hand(&groups))
		return 0;
	if (r == 0 && stay)
		r = delegate_lasts(l->plan.spec.user, &why);
	if (r == 0)
		r = delegate_scope(l->front.keeper, l->id, &why);
	l->plan.delegated = r == 0;
	if (r == 0)
		return 0;
	/* Said where none could be made. */
	l->plan.no_group = str_format("none from systemd: %s", why.text);
	return l->plan.no_group ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* From here on the task has its place, and the keeper builds beside us. */
static int new_task(struct launch *l, bool stay, struct error *err)
{
	struct error ignored;
	int r;

	recover_all(&l->state);
	state_sweep(&l->state, launch_clean_lost, NULL, &ignored);
	r = state_task_new(&l->state, l->id, &l->task_fd, &l->lock_fd, err);
	if (r == 0)
		r = identity_fill(&l->plan.spec, l->policy.identity, l->id,
				  err);
	if (r == 0)
		r = find_group(l, stay, err);
	if (r == 0)
		r = front_begin(&l->front, &l->plan.spec, l->plan.delegated,
				err);
	return r;
}

static int overlaps(const char *what, const char *path, const char *state,
		    struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, 400);
	return error_set(err, -EPERM,
			 "%s: %s %s pinfold's own state directory, where "
			 "other tasks' changes and records are; pinfold diff "
			 "shows them, and pinfold promote takes them over",
			 what, buf_str(&quoted),
			 path_is_below(path, state) ? "lies in" : "holds");
}

/*
 * What tasks have left is nobody's source: a copy would be made into itself,
 * and what a command wrote there would be obeyed by later commands of ours.
 */
static int check_state(const struct launch *l, struct error *err)
{
	const struct strlist *read = &l->policy.read, *write = &l->policy.write;
	const char *source = l->source.path;
	AUTO_FREE char *state = io_fd_path(l->state.fd);

	if (!state)
		return error_set(err, -ENOMEM, "cannot tell the real path of "
					       "%s", l->state.path);
	if (source && path_is_below(source, state))
		return overlaps("--source", source, state, err);
	for (size_t i = 0; i < read->n; i++) {
		if (path_is_below(read->items[i], state) ||
		    path_is_below(state, read->items[i]))
			return overlaps("files.read", read->items[i], state,
					err);
	}
	for (size_t i = 0; i < write->n; i++) {
		if (path_is_below(write->items[i], state) ||
		    path_is_below(state, write->items[i]))
			return overlaps("files.write", write->items[i], state,
					err);
	}
	return 0;
}

static int prepare(struct launch *l, const struct options *o, bool stay,
		   struct error *err)
{
	int r;

	r = policy_in_force(o, &l->policy, err);
	if (r < 0)
		return r;
	l->policy_known = true;
	r = policy_can_run(&l->policy, err);
	if (r < 0)
		return r;
	r = source_find(options_get(o, OPT_SOURCE),
			options_get(o, OPT_WORKDIR), launch_home(), geteuid(),
			&l->source, err);
	if (r == 0)
		r = state_open(&l->state, err);
	if (r == 0)
		r = check_state(l, err);
	if (r == 0)
		r = new_task(l, stay, err);
	if (r == 0)
		r = fill_plan(l, o, stay, err);
	if (r == 0 && stay)
		r = fill_socket(l, err);
	if (r == 0)
		r = launch_layers(l, err);
	return r;
}

/* What an agent lacks here it could only guess. */
static void say_agents(const struct launch *l)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);

	if (l->policy.agents.n == 0)
		return;
	buf_add_str(&text, "note: ");
	for (size_t i = 0; i < l->policy.agents.n; i++)
		buf_addf(&text, "%s%s", i > 0 ? ", " : "",
			 l->policy.agents.items[i]);
	buf_add_str(&text, " cannot reach a model: this version of pinfold has "
			   "no network");
	report_note(buf_str(&text));
}

/*
 * The programs of a task give their descriptors fixed numbers, and write its
 * record.
 */
static int check_files(struct error *err)
{
	uint64_t files = start_raise(RLIMIT_NOFILE, FILES_MIN);
	struct rlimit size;

	if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < FILE_SIZE_MIN)
		return error_set(err, -EFBIG,
				 "the limit of a file's size is %ju bytes, and a "
				 "sandbox's records need %u: ulimit -f unlimited",
				 (uintmax_t)size.rlim_cur, FILE_SIZE_MIN);
	return files >= FILES_MIN
		       ? 0
		       : error_set(err, -EMFILE,
				   "the limit of open files is %ju, and a "
				   "sandbox needs %d: ulimit -n %d",
				   (uintmax_t)files, FILES_MIN, FILES_MIN);
}

static int begin(struct launch *l, struct error *err)
{
	int r = check_files(err);

	if (r == 0)
		r = state_new_id(l->id, err);
	if (r < 0)
		return r;
	l->programs = launch_programs();
	if (!l->programs)
		return error_set(err, -ENOENT,
				 "pinfold-keeper is missing: it belongs beside "
				 "pinfold or in ../lib/pinfold");
	return front_spawn(&l->front, l->programs, l->id, err);
}

int launch_start(struct launch *l, const struct options *o, bool stay,
		 struct error *err)
{
	int r = begin(l, err);

	if (r == 0)
		r = prepare(l, o, stay, err);
	if (r == 0)
		r = front_send_plan(&l->front, &l->plan, l->snapshot.data,
				    l->snapshot.len, l->task_fd, l->lock_fd, err);
	/* Beside the keeper's work, and before anything may be run. */
	if (r == 0)
		r = container_clone(&l->plan.spec, &l->clones, err);
	if (r == 0)
		r = front_send_clones(&l->front, l->clones.fds, l->clones.n,
				      err);
	if (r == 0)
		r = write_snapshot(l, err);
	if (r == 0 && front_signal())
		r = error_set(err, -EINTR, "interrupted");
	if (r < 0)
		give_up(l);
	else
		say_agents(l);
	return r;
}

void launch_abandon(struct launch *l)
{
	const struct stop_request stop = {.kind = STOP_KILL};
	struct error ignored;

	if (l->front.channel >= 0)
		channel_send(l->front.channel, FRONT_STOP, &stop, sizeof(stop),
			     NULL, 0);
	front_done(&l->front);
	close_fd(l->lock_fd);
	l->lock_fd = -1;
	if (l->task_fd >= 0)
		state_sweep_one(&l->state, l->id, launch_clean_lost, NULL,
				&ignored);
}

/* ---- execs ---- */

uint32_t launch_exec_flags(const struct options *o)
{
	/* A job in the background leaves the terminal alone. */
	bool tty = options_has(o, OPT_TTY) ||
		   (!options_has(o, OPT_NO_TTY) &&
		    !options_has(o, OPT_NO_STDIN) && isatty(0) && isatty(1) &&
		    tcgetpgrp(0) == getpgrp());

	if (tty)
		return EXEC_TTY;
	return (options_has(o, OPT_NO_STDIN) ? EXEC_NO_STDIN : 0u) |
	       (front_same_file(1, 2) ? EXEC_MERGE : 0u);
}
