#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/direct.h"
#include "cli/held.h"
#include "cli/launch.h"
#include "cli/outcome.h"
#include "cli/own.h"
#include "cli/report.h"
#include "workspace/changes.h"
#include "workspace/git_changes.h"
#include "workspace/layer.h"
#include "workspace/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELD_PATH_MAX 200

/* Where --json goes: a file that is opened before anything runs, or -1. */
static int json_fd = -1;

static int open_json(const struct options *o, struct error *err)
{
	const char *path = options_get(o, OPT_JSON);

	if (!path || !path[0])
		return 0;
	json_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
				     O_NOCTTY, 0666);
	return json_fd < 0 ? error_errno(err, "--json: cannot write to %s",
					 path)
			   : 0;
}

/* Into the file, or as stderr's last line. */
static int print_json(const struct record *r)
{
	AUTO_BUF struct buf b = BUF_INIT(RECORD_MAX);
	int bad = record_to_json(r, &b);

	buf_add_char(&b, '\n');
	if (bad < 0 || b.failed)
		return -EFBIG;
	return io_write_all(json_fd >= 0 ? json_fd : 2, b.data, b.len);
}

/*
 * The command never ran: because something failed, or because a signal came,
 * of which nobody has to be told.
 */
static int no_run(const struct options *o, const struct launch *l,
		  const struct error *err)
{
	int sig = front_signal();
	struct record r;

	record_init(&r);
	if (l->task_fd >= 0)
		snprintf(r.id, sizeof(r.id), "%s", l->id);
	r.state = RECORD_ENDED;
	r.reason = sig ? REASON_STOPPED : REASON_REFUSED;
	r.signal = sig;
	r.exit_status = sig ? 128 + sig : EXIT_REFUSED;
	r.error = strdup(sig ? "ended by a signal before the command ran"
			     : err->text);
	if (!sig)
		launch_refuse(err);
	if (options_has(o, OPT_JSON))
		print_json(&r);
	record_done(&r);
	return sig ? 128 + sig : EXIT_REFUSED;
}

/* What promotion would hold back. */
struct held {
	struct protect protect; /* of the layer that is counted */
	uint64_t n;
	uint64_t git;  /* what git keeps for itself, and references */
	uint64_t refs; /* of these: references */
	char *first; /* that is no directory, if there is one */
	bool first_is_directory;
};

/* What a commit leaves in .git is no file that anybody changed. */
static void count_git(struct held *held, const struct change *c)
{
	const char *rest = c->path + strlen(".git/");
	bool ref;

	if (held->protect.no_repository || !str_starts(c->path, ".git/"))
		return;
	ref = str_starts(rest, "refs/") || str_eq(rest, "HEAD");
	if (!ref && !git_is_bookkeeping(rest) && !str_eq(rest, "packed-refs"))
		return;
	held->git++;
	held->refs += ref && !S_ISDIR(c->mode);
}

static int count_held(void *arg, const struct change *c)
{
	struct held *held = arg;

	if (!protect_reason(&held->protect, c)) {
		count_git(held, c);
		return 0;
	}
	held->n++;
	if (held->first && (!held->first_is_directory || S_ISDIR(c->mode)))
		return 0;
	free(held->first);
	held->first = strdup(c->path);
	held->first_is_directory = S_ISDIR(c->mode);
	return held->first ? 0 : -ENOMEM;
}

/*
 * Adds one layer (layer_fd holds upper/) over below_fd to the sums. of is whose
 * policy protects paths there, and hides them; NULL: nobody's.
 */
static int count_layer(struct record *r, int layer_fd, int below_fd,
		       const struct launch *of, struct held *held,
		       struct error *err)
{
	bool copied = of && of->plan.spec.workspace == WORKSPACE_COPY;
	struct changes_counts counts = {0};
	int n = protect_init(&held->protect, of ? &of->policy.protect : NULL,
			     below_fd, err);

	held->protect.hidden = of ? &of->hidden : NULL;
	if (n == 0)
		n = changes_scan(layer_fd, below_fd, copied, 0, count_held,
				 held, &counts, err);
	protect_done(&held->protect);
	r->changes.held = held->n;
	r->changes.added += counts.added;
	r->changes.modified += counts.modified;
	r->changes.deleted += counts.deleted;
	r->usage.disk_bytes += counts.bytes;
	r->usage.inodes += counts.inodes;
	return n;
}

static int count_grant(const struct launch *l, struct record *r, size_t i,
		       struct held *held, struct error *err)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	const char *path = l->plan.spec.write.items[i];
	char name[STATE_WRITE_NAME_MAX];
	AUTO_CLOSE int layer = -1;
	AUTO_CLOSE int below = -1;

	state_write_name(i, name);
	layer = openat(l->task_fd, name, flags | O_NOFOLLOW);
	if (layer < 0)
		return errno == ENOENT ? 0 : error_errno(err, "%s", name);
	below = open(path, flags);
	if (below < 0)
		return error_errno(err, "%s", path);
	return count_layer(r, layer, below, NULL, held, err);
}

/*
 * Counts the changes and puts the numbers into the record. Layers in which
 * nothing differs from what they lie over are not kept.
 */
static void count_changes(const struct launch *l, struct record *r,
			  struct held *held)
{
	struct record_changes *c = &r->changes;
	struct error err = {0};
	int n = 0;

	if (c->known)
		return;
	/* An agent can close its directories to its own user. */
	if (geteuid() != 0)
		own_enter(NULL);
	if (l->source.path)
		n = count_layer(r, l->task_fd, l->source.fd, l, held, &err);
	for (size_t i = 0; n == 0 && i < l->plan.spec.write.n; i++)
		n = count_grant(l, r, i, held, &err);
	if (n < 0) {
		fprintf(stderr, "pinfold: cannot count the changes: %s\n",
			err.text);
		return;
	}
	c->known = true;
	if (c->added + c->modified + c->deleted == 0 &&
	    state_task_drop_changes(l->task_fd, &err) < 0)
		fprintf(stderr, "pinfold: %s\n", err.text);
	if (record_write(l->task_fd, r, &err) < 0)
		fprintf(stderr, "pinfold: %s\n", err.text);
}

/* The first of what is held back, and how many more there are. */
static void add_held(struct buf *text, const struct held *held)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_MAX * 8);

	buf_addf(text, ", %ju held back (", (uintmax_t)held->n);
	report_path(&path, held->first);
	if (path.len > HELD_PATH_MAX)
		buf_addf(text, "one with a long name");
	else
		buf_add_str(text, buf_str(&path));
	if (held->n > 1)
		buf_addf(text, " and %ju more", (uintmax_t)held->n - 1);
	buf_add_char(text, ')');
}

static void say_changes(const struct launch *l, const struct record *r,
			const struct held *held)
{
	const struct record_changes *c = &r->changes;
	uint64_t n = c->added + c->modified + c->deleted - held->git;
	AUTO_BUF struct buf text = BUF_INIT(2 * HELD_PATH_MAX + 256);

	/* What is held back of a direct source was said when it was moved. */
	if (!c->known || n + held->git == 0 ||
	    l->plan.spec.workspace == WORKSPACE_DIRECT)
		return;
	if (n + held->refs == 0)
		buf_add_str(&text, "files of git's own in .git changed");
	else
		buf_addf(&text, "%ju file%s changed", (uintmax_t)n,
			 n == 1 ? "" : "s");
	if (held->refs)
		buf_addf(&text, ", and %ju branch%s, tag%s or the like",
			 (uintmax_t)held->refs, held->refs == 1 ? "" : "es",
			 held->refs == 1 ? "" : "s");
	if (held->first)
		add_held(&text, held);
	buf_addf(&text, "; pinfold diff %s", l->id);
	report_note(buf_str(&text));
}

/* The keeper died: everything it kept is gone with it; we clean up. */
static int lost(struct launch *l, bool json)
{
	struct error ignored;
	struct record r;

	launch_abandon(l);
	if (l->plan.spec.workspace == WORKSPACE_DIRECT)
		recover_all(&l->state);
	fprintf(stderr,
		"pinfold: the keeper of %s died; the task was ended and its "
		"changes are %s\n",
		l->id,
		l->plan.spec.workspace == WORKSPACE_DIRECT ? "in the source"
							   : "kept");
	if (json && record_read(l->task_fd, &r, &ignored) == 0) {
		print_json(&r);
		record_done(&r);
	}
	return EXIT_REFUSED;
}

static bool is_quiet(const struct options *o, int status)
{
	return status == 0 && options_has(o, OPT_QUIET);
}

static void say_end(const struct launch *l, const struct front_outcome *outcome,
		    bool quiet)
{
	if (outcome->ended.reason == REASON_STOPPED && !outcome->asked_end)
		report_note("the task was stopped by another command");
	if (quiet)
		return;
	outcome_say_refusals(outcome->ended.refusals, outcome->ended.lookups,
			     l->id);
	launch_say_hidden(l);
	launch_say_mounts(l);
	launch_say_git_link(l);
}

/* The status: a command's is none where nobody can read what it did. */
static int report_json(const struct record *r, int status)
{
	int bad = print_json(r);

	if (bad == 0)
		return status;
	fprintf(stderr, "pinfold: cannot write --json: %s; the task was %s, "
			"its record is there: pinfold ps %s\n",
		strerror(-bad), r->id, r->id);
	return EXIT_REFUSED;
}

/* The status, or that of a failure: something protected may be left there. */
static int finish_direct(const struct launch *l, int status)
{
	struct error err = {0};

	if (l->plan.spec.workspace != WORKSPACE_DIRECT ||
	    direct_finish(l, &err) == 0)
		return status;
	return launch_refuse(&err);
}

static int report(struct launch *l, const struct options *o,
		  const struct front_outcome *outcome)
{
	bool json = options_has(o, OPT_JSON);
	bool scan = !outcome->ended.changes_known;
	struct held held = {.protect = PROTECT_INIT};
	struct error err = {0};
	struct record r;
	bool quiet;
	int status;

	/* The object is to be a line of its own. */
	if (json && outcome->open_line && json_fd < 0)
		io_write_all(2, "\n", 1);
	status = outcome_status(outcome, o->rest[0], l->plan.workdir,
				&l->plan.spec.limits);
	/* Without its record nobody can tell what the task did. */
	if (outcome->ended.lost_record) {
		fprintf(stderr, "pinfold: the record of %s could not be "
				"written (is there space left in the state "
				"directory?)\n", l->id);
		status = EXIT_REFUSED;
	}
	status = finish_direct(l, status);
	quiet = is_quiet(o, status);
	say_end(l, outcome, quiet);
	if (!json && !scan)
		return status;
	if (record_read(l->task_fd, &r, &err) < 0) {
		fprintf(stderr, "pinfold: %s\n", err.text);
		return status;
	}
	count_changes(l, &r, &held);
	if (!quiet)
		say_changes(l, &r, &held);
	free(held.first);
	if (json)
		status = report_json(&r, status);
	record_done(&r);
	return status;
}

/* While the sandbox is being killed: what only its overlay used. */
static void remove_work(void *arg)
{
	const struct launch *l = arg;
	struct error ignored;

	layer_remove(l->task_fd, "work", &ignored);
}

/*
 * Ends our side while the keeper ends its own. What cannot be removed stays
 * for the next sweep, as does everything when we die before our last line.
 */
static int finish(struct launch *l, const struct options *o,
		  struct front_outcome *outcome)
{
	struct error ignored;
	int status, r;

	/* Known at this point are those that are none. */
	r = outcome->ended.changes_known
		    ? state_task_drop_changes(l->task_fd, &ignored)
		    : layer_remove(l->task_fd, "work", &ignored);
	if (r < 0)
		outcome->ended.left_over = true;
	/* Nothing of the task is left when we speak of its end. */
	front_done(&l->front);
	status = report(l, o, outcome);
	if (outcome->ended.left_over)
		launch_abandon(l);
	else
		state_task_end(&l->state, l->id);
	return status;
}

int verb_run(const struct options *o)
{
	uint32_t flags = launch_exec_flags(o);
	struct front_outcome outcome;
	struct error err = {0};
	struct launch l;
	int r, status;

	front_catch_signals();
	launch_init(&l);
	l.front.ending = remove_work;
	l.front.ending_arg = &l;
	r = open_json(o, &err);
	if (r == 0)
		r = launch_start(&l, o, false, &err);
	if (r == 0)
		launch_say_unset(o);
	if (r == 0)
		r = launch_environment(&l.policy, &l.plan.spec,
				       flags & EXEC_TTY, &l.env, &err);
	if (r == 0)
		r = front_exec(&l.front, l.plan.workdir, o->rest, l.env.items,
			       flags, &err);
	if (r == 0)
		r = front_attend(&l.front, flags, true, &outcome, &err);
	if (r < 0 || outcome.interrupted) {
		launch_abandon(&l);
		if (l.plan.spec.workspace == WORKSPACE_DIRECT)
			recover_all(&l.state);
		status = no_run(o, &l, &err);
	} else if (outcome.lost && !outcome.ended_known) {
		status = lost(&l, options_has(o, OPT_JSON));
	} else {
		status = finish(&l, o, &outcome);
	}
	launch_done(&l);
	return status;
}
