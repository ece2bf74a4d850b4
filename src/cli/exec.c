#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/launch.h"
#include "cli/task_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

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
	if (!state_task_alive(task_fd))
		return error_set(err, -ESRCH, "task %s is not running; start "
				 "one with `pinfold start`", id);
	runtime = state_runtime_dir(&dir, err);
	if (runtime < 0)
		return runtime;
	path = str_format("%s/%s", dir, id);
	r = path ? front_connect(f, path, err)
		 : error_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	*ret_fd = steal_fd(&task_fd);
	return 0;
}

/* What the environment of a later exec is made of. */
static void fill_spec(struct sandbox_spec *s, char *id)
{
	static char agent[] = "agent";
	static char user[] = "user";
	static char home[4200];

	s->id = id;
	s->user = geteuid() == 0 ? agent : getenv("USER");
	if (!s->user)
		s->user = user;
	snprintf(home, sizeof(home), "%s", launch_home());
	s->home = home;
}

static int attend(struct front *f, const struct options *o,
		  const struct policy *p, const struct record *r, char *id,
		  struct front_outcome *outcome, struct error *err)
{
	AUTO_STRLIST struct strlist env = {0};
	const char *workdir = options_get(o, OPT_WORKDIR);
	uint32_t flags = launch_exec_flags(o);
	struct sandbox_spec s = {0};
	int bad;

	fill_spec(&s, id);
	bad = launch_environment(p, &s, flags & EXEC_TTY, &env, err);
	if (bad == 0)
		bad = front_exec(f, workdir ? workdir : r->workdir,
				 o->rest + 1, env.items, flags, err);
	if (bad == 0)
		bad = front_attend(f, NULL, flags, false, outcome, err);
	return bad;
}

int verb_exec(const struct options *o)
{
	AUTO_CLOSE int task_fd = -1;
	struct front f = FRONT_INIT;
	struct front_outcome outcome;
	struct error err = {0};
	char id[STATE_ID_SIZE];
	struct policy p;
	struct record rec;
	int r, status;

	if (o->n_rest < 2) {
		error_set(&err, -EINVAL, "exec needs a task and a command: "
			  "pinfold exec ID -- CMD ARG...");
		return launch_refuse(&err);
	}
	r = task_connect(o->rest[0], &f, id, &task_fd, &err);
	if (r == 0)
		r = read_task(task_fd, &p, &rec, &err);
	if (r < 0) {
		front_done(&f);
		return launch_refuse(&err);
	}
	r = attend(&f, o, &p, &rec, id, &outcome, &err);
	if (r < 0) {
		status = launch_refuse(&err);
	} else if (!outcome.done_known) {
		fprintf(stderr, "pinfold: task %s ended while the command "
				"ran\n", id);
		status = EXIT_REFUSED;
	} else {
		status = launch_exec_status(&outcome, o->rest[1], false);
	}
	front_done(&f);
	record_done(&rec);
	policy_done(&p);
	return status;
}
