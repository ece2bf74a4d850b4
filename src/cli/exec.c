#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/identity.h"
#include "cli/exec_report.h"
#include "cli/launch.h"
#include "cli/outcome.h"
#include "cli/task_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define GRACE_MS 2000u

/* The task's own policy and home, as they were when it started. */
static int read_task(int task_fd, struct policy *p, struct record *r,
		     struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(POLICY_TEXT_MAX);
	int bad = io_read_file(task_fd, "policy.json", &b);

	if (bad < 0)
		return error_set(err, bad, "cannot read the task's policy: %s",
				 strerror(-bad));
	bad = policy_from_json(buf_str(&b), b.len, p, err);
	if (bad < 0)
		return bad;
	bad = record_read(task_fd, r, err);
	if (bad < 0)
		policy_done(p);
	return bad;
}

/* Does its keeper live? A command at work on what it left is not it. */
static int check_running(int task_fd, const char *id, struct error *err)
{
	bool alive = state_task_alive(task_fd);
	struct record r;

	if (record_read(task_fd, &r, NULL) < 0)
		record_init(&r);
	if (alive && r.state != RECORD_ENDED) {
		record_done(&r);
		return 0;
	}
	if (r.limit)
		error_set(err, -ESRCH,
			  "%s is not running: limit: %s stopped it; pinfold ps "
			  "%s tells more",
			  id, r.limit, id);
	else
		error_set(err, -ESRCH, "%s is not running; pinfold ps %s tells "
				       "how it ended",
			  id, id);
	record_done(&r);
	return -ESRCH;
}

/* Why nobody listens at its socket. */
static int explain_no_socket(int task_fd, const char *id, int code,
			     struct error *err)
{
	struct record r;
	bool run;

	if (record_read(task_fd, &r, NULL) < 0)
		return code;
	run = r.argv.n > 0;
	record_done(&r);
	return run ? error_set(err, code,
			       "%s is a run, which takes no second command; "
			       "pinfold start makes a sandbox that does", id)
		   : error_set(err, code,
			       "the socket of %s is gone; pinfold stop %s ends "
			       "it, its changes are kept", id, id);
}

int task_connect(const char *want, struct front *f, char id[STATE_ID_SIZE],
		 int *ret_fd, struct error *err)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_CLOSE int task_fd = -1;
	AUTO_CLOSE int runtime = -1;
	AUTO_FREE char *dir = NULL;
	AUTO_FREE char *path = NULL;
	int r = state_open(&state, err);

	if (r == 0)
		r = state_task_open(&state, want, NULL, id, &task_fd, err);
	if (r < 0)
		return r;
	r = check_running(task_fd, id, err);
	if (r < 0)
		return r;
	*ret_fd = steal_fd(&task_fd);
	runtime = state_runtime_dir(&dir, err);
	if (runtime < 0)
		return runtime;
	path = str_format("%s/%s", dir, id);
	r = path ? front_connect(f, path, err)
		 : error_set(err, -ENOMEM, "out of memory");
	if (r == -ENOENT || r == -ECONNREFUSED)
		r = explain_no_socket(*ret_fd, id, r, err);
	return r < 0 ? r : 0;
}

/* What --env, --timeout and --grace of this exec add. */
static int apply_options(struct front *f, const struct options *o,
			 struct policy *p, struct error *err)
{
	const struct strlist *env = &o->values[OPT_ENV];
	int r = 0;

	for (size_t i = 0; i < env->n && r == 0; i++)
		r = policy_add_env(p, env->items[i], err);
	if (r < 0)
		return r;
	launch_say_unset(o);
	f->grace_ms = GRACE_MS;
	r = options_duration(o, OPT_TIMEOUT, "timeout", &f->timeout_ms, err);
	if (r == 0 && options_has(o, OPT_TIMEOUT) && f->timeout_ms == 0)
		r = error_set(err, -EINVAL, "--timeout 0 ends a command before "
			      "it begins");
	if (r == 0)
		r = options_duration(o, OPT_GRACE, "grace", &f->grace_ms, err);
	return r;
}

/* A relative one begins where the sandbox was started. */
static char *workdir_of(const struct options *o, const struct record *r)
{
	const char *given = options_get(o, OPT_WORKDIR);

	if (!given)
		return strdup(r->workdir);
	return given[0] == '/' ? strdup(given)
			       : str_format("%s/%s", r->workdir, given);
}

static int attend(struct front *f, const struct options *o, struct policy *p,
		  const struct record *r, char *id,
		  struct front_outcome *outcome, struct error *err)
{
	AUTO_STRLIST struct strlist env = {0};
	AUTO_FREE char *workdir = workdir_of(o, r);
	uint32_t flags = launch_exec_flags(o);
	/* Borrows both. */
	struct sandbox_spec s = {.id = id, .tool_env = r->tool_env};
	int bad = apply_options(f, o, p, err);

	if (bad == 0 && !workdir)
		bad = error_set(err, -ENOMEM, "out of memory");
	if (bad == 0)
		bad = identity_names(&s, err);
	/* The home is the task's, wherever the client has its own. */
	if (bad == 0 && r->home) {
		free(s.home);
		s.home = strdup(r->home);
		if (!s.home)
			bad = error_set(err, -ENOMEM, "out of memory");
	}
	if (bad == 0)
		bad = launch_environment(p, &s, flags & EXEC_TTY, &env, err);
	s.id = NULL;
	s.tool_env = (struct strlist){0};
	spec_done(&s);
	if (bad == 0)
		bad = front_exec(f, workdir, o->rest + 1, env.items, flags, err);
	if (bad == 0)
		bad = front_attend(f, flags, false, outcome, err);
	if (bad == -ETIMEDOUT)
		error_prefix(err, "%s", id);
	return bad;
}

static int status_of(const struct options *o, const char *id,
		     const struct front *f, const struct policy *p,
		     const struct record *r,
		     const struct front_outcome *outcome)
{
	AUTO_FREE char *workdir = workdir_of(o, r);

	if (outcome->timed_out)
		return outcome_timed_out("command", f->timeout_ms);
	if (!outcome->done_known) {
		fprintf(stderr, "pinfold: task %s ended while the command "
				"ran\n", id);
		return EXIT_REFUSED;
	}
	return outcome_status(outcome, o->rest[1], workdir ? workdir : "",
			      &p->limits);
}

/* The command never ran. What a signal interrupted needs no words. */
static int refuse(const struct options *o, const struct error *err)
{
	int sig = front_signal();
	const struct exec_report report = {
		.task = o->rest[0],
		.argv = o->rest + 1,
		.error = sig ? "ended by a signal before the command ran"
			     : err->text,
		.signal = sig,
		.status = sig ? 128 + sig : EXIT_REFUSED,
	};

	if (!sig)
		launch_refuse(err);
	return exec_report(o, &report);
}

int verb_exec(const struct options *o)
{
	AUTO_CLOSE int task_fd = -1;
	struct front f = FRONT_INIT;
	struct front_outcome outcome;
	struct exec_report report = {.outcome = &outcome};
	struct error err = {0};
	char id[STATE_ID_SIZE];
	struct policy p;
	struct record rec;
	int r, status;

	front_catch_signals();
	r = task_connect(o->rest[0], &f, id, &task_fd, &err);
	if (r == 0)
		r = read_task(task_fd, &p, &rec, &err);
	if (r < 0) {
		front_done(&f);
		return refuse(o, &err);
	}
	r = attend(&f, o, &p, &rec, id, &outcome, &err);
	if (r < 0 || outcome.interrupted) {
		status = refuse(o, &err);
	} else {
		report.task = id;
		report.argv = o->rest + 1;
		report.status = status_of(o, id, &f, &p, &rec, &outcome);
		outcome_say_refusals(outcome.done.refusals,
				     outcome.done.lookups, id);
		status = exec_report(o, &report);
	}
	front_done(&f);
	record_done(&rec);
	policy_done(&p);
	return status;
}
