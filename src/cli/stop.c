/*
 * pinfold stop and kill: all tasks that are to end are told first and waited
 * for afterwards, so that their graces run side by side.
 */
#include "audit/record.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/time.h"
#include "cli/launch.h"
#include "cli/report.h"
#include "cli/task_connect.h"
#include "confine/sys.h"
#include "schema/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCHEMA "pinfold-stop-1"
/* Longer than any kill takes (KILL_WAIT_MS), beside the grace. */
#define ANSWER_MS 15000
/* From the keeper's last word to its exit. */
#define EXIT_MS 5000

struct target {
	const char *want;
	char id[STATE_ID_SIZE];
	struct front front;
	int task_fd;
	int keeper; /* pidfd of the one that was told by a signal, or -1 */
	struct error err; /* code 0: ended as asked */
};

/* Its lock goes with the keeper. False: not within that time. */
static bool wait_exit(const struct target *t, uint64_t ms)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t until = time_mono_us() + ms * 1000u;

	while (state_task_alive(t->task_fd)) {
		if (time_mono_us() >= until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Waits until the keeper has cleaned up and says so. */
static int wait_ended(struct target *t, uint64_t grace_ms)
{
	static struct message m;

	for (;;) {
		struct pollfd p = {.fd = t->front.channel, .events = POLLIN};
		int r = poll(&p, 1, (int)(ANSWER_MS + grace_ms));

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			return error_set(&t->err, -ETIMEDOUT,
					 "task %s was not stopped after %us: "
					 "pinfold ps %s shows what is left",
					 t->id, (unsigned)(ANSWER_MS + grace_ms) /
							1000, t->id);
		r = channel_recv(t->front.channel, &m);
		if (r <= 0) /* It ended without us. */
			return 0;
		message_done(&m);
		if (m.type == FRONT_ENDED)
			return 0;
		if (m.type == FRONT_FAILED)
			return error_set(&t->err, -EBUSY,
					 "%s has too many clients to be "
					 "reached: end one of them", t->id);
	}
}

/*
 * It has no socket, as a run, or that was removed, with the whole runtime
 * directory as it happens: the keeper takes a signal for it.
 */
static void tell_by_signal(struct target *t, const struct stop_request *stop)
{
	int grace = STOP_GRACE_PLAN;

	t->keeper = state_task_keeper(t->task_fd);
	if (stop->kind == STOP_KILL)
		grace = 0;
	else if (stop->grace_ms)
		grace = stop->grace_ms < INT_MAX ? (int)stop->grace_ms
						 : INT_MAX;
	if (t->keeper >= 0 && sys_pidfd_queue(t->keeper, SIGTERM, grace) == 0)
		t->err = (struct error){0};
	else
		error_set(&t->err, -ESRCH, "%s runs, but its keeper cannot be "
			  "reached: pinfold ps %s shows what is left",
			  t->id, t->id);
}

/* One that does not answer is ended as it is. */
static void wait_signalled(const struct target *t, uint64_t grace_ms)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (wait_exit(t, ANSWER_MS + grace_ms))
		return;
	sys_pidfd_send_signal(t->keeper, SIGKILL);
	buf_addf(&text, "note: the keeper of %s does not answer, so it was "
			"killed", t->id);
	report_note(buf_str(&text));
}

static void tell(struct target *t, const struct stop_request *stop)
{
	int r = task_connect(t->want, &t->front, t->id, &t->task_fd, &t->err);

	/* Of a task that is not there no directory is open either. */
	if (t->task_fd >= 0 && (r == -ENOENT || r == -ECONNREFUSED)) {
		tell_by_signal(t, stop);
		return;
	}
	if (r < 0)
		return;
	r = channel_send(t->front.channel, FRONT_STOP, stop, sizeof(*stop),
			 NULL, 0);
	/* A broken channel: it is ending already. */
	if (r < 0 && r != -EPIPE)
		error_set(&t->err, r, "cannot reach task %s: %s", t->id,
			  strerror(-r));
}

static void finish(struct target *t, uint64_t grace_ms)
{
	AUTO_STATE struct state state = STATE_INIT;
	struct error ignored;

	if (t->keeper >= 0 && t->err.code == 0)
		wait_signalled(t, grace_ms);
	if (t->err.code == 0 &&
	    (t->keeper >= 0 || wait_ended(t, grace_ms) == 0)) {
		wait_exit(t, EXIT_MS);
		if (state_open(&state, &ignored) == 0)
			state_sweep_one(&state, t->id, launch_clean_lost, NULL,
					&ignored);
	}
	front_done(&t->front);
	close_fd(t->task_fd);
	close_fd(t->keeper);
}

static int print_targets(const struct options *o, const struct target *t,
			 size_t n)
{
	AUTO_REPORT struct report r = {0};
	struct json_writer w;
	int status = report_init(&r, o);

	if (status != 0)
		return status;
	json_begin(&w, &r.out);
	json_object(&w);
	json_put_string(&w, "schema", SCHEMA);
	json_key(&w, "tasks");
	json_array(&w);
	for (size_t i = 0; i < n; i++) {
		json_object(&w);
		json_put_bool(&w, "ended", t[i].err.code == 0);
		json_put_text(&w, "error",
			      t[i].err.code ? t[i].err.text : NULL);
		json_put_text(&w, "id", t[i].id[0] ? t[i].id : t[i].want);
		json_object_end(&w);
	}
	json_array_end(&w);
	json_object_end(&w);
	buf_add_char(&r.out, '\n');
	status = json_finish(&w);
	return status < 0 ? report_refuse("the report is too large")
			  : report_end(&r);
}

static int end_targets(const struct options *o, struct target *t, size_t n,
		       const struct stop_request *stop)
{
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		t[i].front = (struct front)FRONT_INIT;
		t[i].task_fd = t[i].keeper = -1;
		tell(&t[i], stop);
	}
	for (size_t i = 0; i < n; i++) {
		finish(&t[i], stop->grace_ms);
		if (t[i].err.code)
			status = launch_refuse(&t[i].err);
	}
	if (options_has(o, OPT_JSON)) {
		int r = print_targets(o, t, n);

		return r ? r : status;
	}
	return status;
}

/* So begins the record of one that stays. */
static bool has_no_command(int task_fd)
{
	struct record record;
	bool none;

	if (record_read(task_fd, &record, NULL) < 0)
		return false;
	none = record.argv.n == 0 && record.state == RECORD_RUNNING;
	record_done(&record);
	return none;
}

/* Does the task stay, so that it can be reached? A run ends with its own. */
static bool stays(const struct state *s, const char *id)
{
	AUTO_CLOSE int dir = state_runtime_dir(NULL, NULL);
	AUTO_CLOSE int fd = openat(s->tasks_fd, id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					   O_CLOEXEC);

	if (fd < 0 || !state_task_alive(fd))
		return false;
	return (dir >= 0 && faccessat(dir, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) ||
	       has_no_command(fd);
}

static int end_all(const struct options *o, const struct stop_request *stop)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_FREE struct state_task *tasks = NULL;
	AUTO_FREE struct target *t = NULL;
	struct error err = {0};
	size_t n = 0, n_targets = 0;

	if (state_open(&state, &err) < 0 ||
	    state_list_live(&state, &tasks, &n, &err) < 0)
		return launch_refuse(&err);
	t = calloc(n + 1, sizeof(*t));
	if (!t) {
		error_set(&err, -ENOMEM, "out of memory");
		return launch_refuse(&err);
	}
	for (size_t i = 0; i < n; i++) {
		if (stays(&state, tasks[i].id))
			t[n_targets++].want = tasks[i].id;
	}
	return end_targets(o, t, n_targets, stop);
}

static int end_named(const struct options *o, const struct stop_request *stop)
{
	AUTO_FREE struct target *t = calloc(o->n_rest, sizeof(*t));
	struct error err = {0};

	if (!t) {
		error_set(&err, -ENOMEM, "out of memory");
		return launch_refuse(&err);
	}
	for (size_t i = 0; i < o->n_rest; i++)
		t[i].want = o->rest[i];
	return end_targets(o, t, o->n_rest, stop);
}

static int end_tasks(const struct options *o, enum stop_kind kind)
{
	struct stop_request stop = {.kind = kind};
	bool all = options_has(o, OPT_ALL);
	struct error err = {0};

	if (options_duration(o, OPT_GRACE, "grace", &stop.grace_ms, &err) < 0)
		return launch_refuse(&err);
	if (all != (o->n_rest == 0)) {
		error_set(&err, -EINVAL,
			  "%s: %s; usage: pinfold %s TASK... | --all", o->verb,
			  all ? "--all and a task exclude each other"
			      : "no task given",
			  o->verb);
		return launch_refuse(&err);
	}
	return all ? end_all(o, &stop) : end_named(o, &stop);
}

int verb_stop(const struct options *o)
{
	return end_tasks(o, STOP_GRACEFUL);
}

int verb_kill(const struct options *o)
{
	return end_tasks(o, STOP_KILL);
}
