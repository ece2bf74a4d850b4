/*
 * The end of a task: everything in the sandbox is killed and confirmed gone,
 * what was printed is passed on, the record is written, layers without changes
 * and the groups are removed, and only then the front end is told. A run's
 * front end, which waits for us alone, removes the layers while we do the rest.
 */
#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "confine/sys.h"
#include "task/state.h"
#include "workspace/hidden.h"
#include "workspace/layer.h"
#include "workspace/refreshed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

void keeper_stop(struct keeper *k, enum record_reason reason, const char *limit,
		 bool graceful)
{
	uint64_t now = time_mono_us();
	int signal = k->stop_signal ? k->stop_signal : SIGTERM;

	if (!k->ending) {
		k->ending = true;
		k->reason = reason;
		if (limit)
			snprintf(k->limit, sizeof(k->limit), "%s", limit);
	}
	if (!graceful) {
		k->kill_at_us = now;
		return;
	}
	if (k->kill_at_us)
		return;
	k->kill_at_us = now + k->plan.grace_ms * 1000u;
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id != 0 && !k->execs[i].over)
			keeper_tell_signal(k, &k->execs[i], signal, false);
	}
}

void keeper_lose(struct keeper *k, const char *why)
{
	keeper_stop(k, REASON_LOST, NULL, false);
	if (k->reason == REASON_LIMIT)
		return;
	k->reason = REASON_LOST;
	if (!k->record.error)
		k->record.error = strdup(why);
}

/* Will the front end clean the layers? It must be there, and have the ids. */
static bool leave_layers(struct keeper *k)
{
	const struct sandbox_spec *s = &k->plan.spec;

	if (k->front < 0 || k->plan.stay ||
	    (!s->root_caller && s->identity != IDENTITY_SINGLE))
		return false;
	return channel_send(k->front, FRONT_ENDING, NULL, 0, NULL, 0) == 0;
}

/*
 * Kills init and with it all of its pid namespace. 0, or -ETIMEDOUT. While the
 * kernel takes the sandbox down, the overlay's own directory goes already.
 */
static int kill_all(struct keeper *k, struct rusage *ru)
{
	struct pollfd p = {.fd = k->init_pidfd, .events = POLLIN};
	uint64_t until = time_mono_us() + KILL_WAIT_MS * 1000u;
	struct error ignored;

	cgroup_kill(&k->cgroup);
	/* It is not waited for yet: its number is its own. */
	if (sys_pidfd_send_signal(k->init_pidfd, SIGKILL) < 0)
		kill(k->init_pid, SIGKILL);
	k->layers_left = leave_layers(k);
	if (!k->layers_left)
		layer_remove(k->task_fd, "work", &ignored);
	for (;;) {
		uint64_t now = time_mono_us();
		int r;

		if (now >= until)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((until - now) / 1000u) + 1);
		if (r > 0)
			break;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
	wait4(k->init_pid, NULL, 0, ru);
	return 0;
}

static void end_watch(struct keeper *k)
{
	if (k->watch_pidfd < 0)
		return;
	/* Records that it sent are read first: they are in the socket. */
	while (k->watch_channel >= 0) {
		struct pollfd p = {.fd = k->watch_channel, .events = POLLIN};

		if (poll(&p, 1, 0) != 1 || !(p.revents & POLLIN))
			break;
		keeper_watch_message(k);
	}
	sys_pidfd_send_signal(k->watch_pidfd, SIGKILL);
	waitpid(k->watch_pid, NULL, 0);
	close_fd(k->watch_pidfd);
	k->watch_pidfd = -1;
}

static uint64_t bigger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Processes that are killed leave their CPU time in a control group alone. */
static void fill_usage(struct keeper *k, const struct rusage *ru)
{
	struct record_usage *u = &k->record.usage;
	struct keeper_limits *l = &k->limits;
	uint64_t peak = cgroup_memory_peak(&k->cgroup);
	uint64_t biggest = (uint64_t)ru->ru_maxrss * 1024u;

	if (peak == 0)
		peak = bigger(l->memory_peak, biggest);
	u->memory_peak = peak;
	u->cpu_us = bigger(time_rusage_us(ru),
			   bigger(l->cpu_us, cgroup_cpu_us(&k->cgroup)));
	u->wall_us = time_mono_us() - l->started_us;
	u->processes_peak = bigger(l->processes_peak,
				   cgroup_processes_peak(&k->cgroup));
	u->output_bytes = l->output_bytes;
}

/* The exit status by DESIGN's rules: limits and time-outs first. */
static int exit_status(const struct keeper *k, const struct exec_done *done)
{
	if (k->reason == REASON_LIMIT)
		return strcmp(k->limit, "wall") == 0 ? 124 : 137;
	if (!done)
		return k->reason == REASON_STOPPED ? 128 + SIGTERM
		       : k->reason == REASON_LOST  ? 125
						   : 0;
	if (done->status < 0 && done->stage != STAGE_EXEC)
		return 125;
	if (done->status < 0)
		return done->exec_errno == ENOENT ? 127 : 126;
	if (WIFSIGNALED(done->status))
		return 128 + WTERMSIG(done->status);
	return WEXITSTATUS(done->status);
}

static void fill_record(struct keeper *k, const struct exec_done *done)
{
	struct record *r = &k->record;

	r->state = RECORD_ENDED;
	r->reason = k->reason;
	r->ended_us = time_wall_us();
	r->exit_status = exit_status(k, done);
	if (done && done->status >= 0 && WIFSIGNALED(done->status)) {
		r->signal = WTERMSIG(done->status);
		if (r->reason == REASON_EXIT)
			r->reason = REASON_SIGNAL;
	}
	if (k->limit[0] && !r->limit)
		r->limit = strdup(k->limit);
	/* Of a direct source the layer is filled when all of it has ended. */
	r->changes.known = k->plan.spec.workspace != WORKSPACE_DIRECT &&
			   !state_task_has_changes(k->task_fd);
}

/* Removes what no change needs. Errors leave files for the next sweep. */
static void clean_layers(struct keeper *k)
{
	struct error err;

	if (k->layers_left && k->front >= 0)
		return;
	layer_remove(k->task_fd, "work", &err);
	if (k->record.changes.known) {
		layer_remove(k->task_fd, "upper", &err);
		if (k->record.hidden_digest[0])
			layer_remove(k->task_fd, HIDDEN_FILE, &err);
		layer_remove(k->task_fd, HIDDEN_MORE, &err);
		layer_remove(k->task_fd, REFRESHED_FILE, &err);
		layer_remove(k->task_fd, REFRESHED_NEW, &err);
		for (size_t i = 0; i < k->plan.spec.write.n; i++) {
			char name[40];

			snprintf(name, sizeof(name), "write.%zu", i);
			layer_remove(k->task_fd, name, &err);
		}
	}
}

static void tell_ended(struct keeper *k, bool lost_record, bool left_over)
{
	const struct record *r = &k->record;
	struct task_ended ended = {
		.reason = (int32_t)r->reason,
		.changes_known = r->changes.known,
		.refusals = k->refusals,
		.lookups = k->lookups,
		.memory_peak = r->usage.memory_peak,
		.processes_peak = r->usage.processes_peak,
		.cpu_us = r->usage.cpu_us,
		.wall_us = r->usage.wall_us,
		.lost_record = lost_record,
		.left_over = left_over,
	};

	snprintf(ended.limit, sizeof(ended.limit), "%s", k->limit);
	if (k->front >= 0)
		channel_send(k->front, FRONT_ENDED, &ended, sizeof(ended),
			     NULL, 0);
	for (size_t i = 0; i < KEEPER_CLIENTS_MAX; i++) {
		if (k->clients[i] >= 0)
			channel_send(k->clients[i], FRONT_ENDED, &ended,
				     sizeof(ended), NULL, 0);
	}
}

/*
 * Passes on what is still in the pipes while somebody reads it. A run's front
 * end has all the time it wants; a client of a task that stays has not, for
 * whoever stops the task waits for us.
 */
static void drain(struct keeper *k)
{
	uint64_t before = 0, still_us = time_mono_us();

	while (!keeper_exec_finish(k, time_mono_us())) {
		struct pollfd p[4 * KEEPER_EXECS_MAX + 1];
		size_t n = keeper_exec_poll(k, p);

		if (k->limits.output_bytes != before)
			still_us = time_mono_us();
		before = k->limits.output_bytes;
		if (k->plan.stay &&
		    time_mono_us() >= still_us + CLIENT_STALL_MS * 1000u) {
			keeper_exec_cut(k);
			continue;
		}
		/* Nobody waits for a front end that is gone. */
		p[n] = (struct pollfd){.fd = k->front >= 0 ? k->parent : -1,
				       .events = POLLIN};
		if (poll(p, (nfds_t)n + 1, 200) < 0 && errno != EINTR)
			return;
		if (p[n].revents) {
			keeper_exec_client_gone(k, k->front);
			close_fd(k->front);
			k->front = -1;
			return;
		}
		keeper_exec_handle(k, p);
	}
}

/* Execs that were cut off count as killed. Returns the first of the task. */
static struct exec_done end_execs(struct keeper *k)
{
	struct exec_done first = {.status = SIGKILL};

	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];

		if (e->id == 0)
			continue;
		if (!e->over) {
			e->over = true;
			e->done = (struct exec_done){.id = e->id,
						     .status = SIGKILL};
			if (k->reason == REASON_LOST) {
				e->done.status = -1;
				e->done.stage = STAGE_LOST;
			}
		}
		if (first.id == 0 || e->id < first.id)
			first = e->done;
	}
	return first;
}

/* The kernel's word that a file would have passed RLIMIT_FSIZE. */
static bool over_file_size(const struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		const struct keeper_exec *e = &k->execs[i];

		if (e->id != 0 && e->over && e->done.status >= 0 &&
		    WIFSIGNALED(e->done.status) &&
		    WTERMSIG(e->done.status) == SIGXFSZ)
			return true;
	}
	return false;
}

/* The kill may have been the kernel's, and may have met init first. */
static void last_word_on_limits(struct keeper *k, const struct rusage *ru)
{
	const char *hit;

	if (k->reason == REASON_LIMIT)
		return;
	hit = keeper_limits_final(k, ru);
	if (!hit && k->reason == REASON_EXIT && over_file_size(k))
		hit = "disk";
	if (!hit)
		return;
	free(k->record.error);
	k->record.error = NULL;
	k->reason = REASON_LIMIT;
	snprintf(k->limit, sizeof(k->limit), "%s", hit);
}

/* What a sandbox that stays has outside of its directory. */
static void remove_traces(const struct keeper *k, bool left_over)
{
	char live[64];

	if (k->plan.socket_path)
		unlink(k->plan.socket_path);
	/* That it has its final record; a run's front end says it itself, and
	 * the next sweep does where something could not be removed. */
	if (left_over || (!k->plan.stay && k->front >= 0))
		return;
	snprintf(live, sizeof(live), "../../live/%.40s", k->plan.spec.id);
	unlinkat(k->task_fd, live, 0);
}

void keeper_finish(struct keeper *k)
{
	struct exec_done first;
	struct rusage ru = {0};
	struct error err = {0};
	bool left_over;
	int r;

	k->state = KEEPER_ENDING;
	r = kill_all(k, &ru);
	if (r < 0)
		error_set(&err, r, "processes of the sandbox do not end");
	last_word_on_limits(k, &ru);
	first = end_execs(k);
	drain(k);
	end_watch(k);
	fill_usage(k, &ru);
	fill_record(k, first.id && !k->plan.stay ? &first : NULL);
	if (err.code && !k->record.error)
		k->record.error = strdup(err.text);
	r = record_write(k->task_fd, &k->record, &err);
	/* A full disk: the place of the record of the start is ours. */
	if (r == -ENOSPC || r == -EDQUOT)
		r = record_begin(KEEPER_FD_LOCK, &k->record, &err);
	clean_layers(k);
	left_over = cgroup_remove(&k->cgroup) < 0;
	remove_traces(k, left_over);
	tell_ended(k, r < 0, left_over);
}

int keeper_fail(struct keeper *k, const struct error *err)
{
	struct failure f = {.code = err->code};
	struct error ignored;

	if (k->init_pidfd >= 0) {
		sys_pidfd_send_signal(k->init_pidfd, SIGKILL);
		waitpid(k->init_pid, NULL, 0);
	}
	end_watch(k);
	cgroup_remove(&k->cgroup);
	k->record.state = RECORD_ENDED;
	k->record.reason = REASON_REFUSED;
	k->record.exit_status = 125;
	k->record.ended_us = time_wall_us();
	free(k->record.error);
	k->record.error = strdup(err->text);
	k->record.changes.known = true;
	record_write(k->task_fd, &k->record, &ignored);
	clean_layers(k);
	if (k->plan.socket_path)
		unlink(k->plan.socket_path);
	snprintf(f.text, sizeof(f.text), "%s", err->text);
	channel_send(k->front, FRONT_FAILED, &f, sizeof(f), NULL, 0);
	return 125;
}
