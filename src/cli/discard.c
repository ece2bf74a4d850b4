/*
 * pinfold discard: throws away what tasks changed. The record stays. Asks on a
 * terminal, unless --yes; without a terminal to ask on, --yes is needed.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/direct.h"
#include "cli/discard_paths.h"
#include "cli/held.h"
#include "cli/pick.h"
#include "cli/report.h"
#include "cli/words.h"
#include "schema/json.h"
#include "workspace/changes.h"
#include "workspace/direct.h"
#include "workspace/taken.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-discard-1"
#define COUNT_MAX 100000 /* inodes looked at for the question */

struct discard {
	struct state state;
	bool yes;
	bool nothing;	     /* no task had changes */
	bool declined;	     /* the answer was no */
	struct strlist done; /* ids */
	uint64_t changes;    /* of paths; 0: whole tasks were discarded */
};

static void discard_done(struct discard *d)
{
	state_close(&d->state);
	strlist_done(&d->done);
}

#define AUTO_DISCARD __attribute__((cleanup(discard_done)))

/* 1: go on, 0: no, negative: there is nobody to ask. */
static int ask(const struct pick *p, struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(16384);
	uint64_t bytes = 0, inodes = 0;
	unsigned last = 0;
	int r = report_may_ask("discarding", err);

	if (r < 0)
		return r;
	changes_usage(p->fd, "upper", UINT64_MAX, COUNT_MAX, &bytes, &inodes);
	buf_addf(&text, "discard the changes of %s", p->id);
	if (p->record.source) {
		buf_add_str(&text, " to ");
		report_path(&text, p->record.source);
	}
	buf_addf(&text, " (%llu%s file%s, ", (unsigned long long)inodes,
		 inodes > COUNT_MAX ? " or more" : "", inodes == 1 ? "" : "s");
	num_human_size(&text, bytes);
	buf_add_char(&text, ')');
	if (taken_last(p->fd, true, &last) == 0 && last > 0)
		buf_add_str(&text, "; what was promoted stays, and undo can no "
				   "longer take it back");
	buf_add_char(&text, '?');
	return report_ask(&text);
}

static void say_no_changes(struct discard *d, const struct pick *p)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (!p->unnamed)
		return;
	buf_addf(&text, "%s has no changes to discard", p->id);
	report_note(buf_str(&text));
	pick_say_other(&d->state, p);
	d->nothing = false;
}

/* Its protected paths are moved first, if that was not done and can be. */
static void settle(const struct discard *d, struct pick *p)
{
	struct error err = {0};

	if (!direct_is_noted(p->fd))
		return;
	if (pick_policy(p, &err) == 0 && direct_recover(p, &err) == 0)
		state_promoted(&d->state, p->id);
	else
		report_note(err.text);
}

/* What of a source that was written at once is no longer ours to discard. */
static void say_direct(const struct pick *p)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (!direct_is(p))
		return;
	buf_addf(&text, "what %s wrote to its source stays: it was written at "
			"once", p->id);
	report_note(buf_str(&text));
	if (direct_is_noted(p->fd))
		report_note("what is protected there, and was not moved, stays "
			    "too");
}

static int discard_one(struct discard *d, struct pick *p, struct error *err)
{
	AUTO_CLOSE int lock = pick_claim(p, err);
	int r;

	if (lock < 0 && lock != -ENOENT)
		return lock;
	settle(d, p);
	if (!state_task_has_changes(p->fd) && !direct_is_noted(p->fd)) {
		say_no_changes(d, p);
		return 0;
	}
	d->nothing = false;
	say_direct(p);
	if (!d->yes) {
		r = ask(p, err);
		d->declined |= r == 0;
		if (r <= 0)
			return r;
	}
	r = state_task_drop_changes(p->fd, err);
	if (r == 0)
		r = direct_forget(p->fd, err);
	if (r < 0)
		return error_prefix(err, "cannot discard all of %s", p->id);
	return strlist_add(&d->done, p->id);
}

/* Every task that has ended; one that cannot be discarded is an error. */
static int discard_all(struct discard *d, struct error *err)
{
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n;
	int r = state_list(&d->state, &tasks, &n, err);

	for (size_t i = 0; i < n && r == 0; i++) {
		AUTO_PICK struct pick p = PICK_INIT;

		if (pick_open(&d->state, tasks[i].id, &p, NULL) < 0 || p.alive)
			continue;
		r = discard_one(d, &p, err);
		if (r == -EBUSY) /* It is being swept just now. */
			r = 0;
	}
	return r;
}

/* Some paths of one task. */
static int discard_some(struct discard *d, const struct options *o,
			size_t n_tasks, struct error *err)
{
	AUTO_PICK struct pick p = PICK_INIT;
	int r;

	if (n_tasks > 1)
		return error_set(err, -EINVAL, "paths are of one task: name "
					       "one");
	r = pick_task(&d->state, n_tasks ? o->rest[0] : NULL, &p, err);
	if (r == 0)
		r = discard_paths(&p, o->rest + n_tasks, o->n_rest - n_tasks,
				  d->yes, &d->changes, err);
	if (r < 0)
		return r;
	d->nothing = false;
	d->declined = r == 0;
	return r == 0 ? 0 : strlist_add(&d->done, p.id);
}

static int discard_named(struct discard *d, const struct options *o,
			 struct error *err)
{
	size_t tasks = words_count_tasks(&d->state, o->rest, o->n_rest);
	size_t n = tasks ? tasks : 1;
	int r = 0;

	if (tasks < o->n_rest)
		return discard_some(d, o, tasks, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		AUTO_PICK struct pick p = PICK_INIT;

		r = pick_task(&d->state, tasks ? o->rest[i] : NULL, &p, err);
		if (r == 0)
			r = discard_one(d, &p, err);
	}
	return r;
}

static void show(struct report *report, const struct discard *d)
{
	struct json_writer w;

	if (!report->json) {
		for (size_t i = 0; i < d->done.n && d->changes == 0; i++)
			buf_addf(&report->out, "%s discarded\n",
				 d->done.items[i]);
		if (d->done.n > 0 && d->changes > 0)
			buf_addf(&report->out, "%llu change%s of %s "
				 "discarded\n",
				 (unsigned long long)d->changes,
				 d->changes == 1 ? "" : "s", d->done.items[0]);
		return;
	}
	json_begin(&w, &report->out);
	json_object(&w);
	json_key(&w, "discarded");
	json_array(&w);
	for (size_t i = 0; i < d->done.n; i++)
		json_string(&w, d->done.items[i]);
	json_array_end(&w);
	if (d->changes > 0)
		json_put_uint(&w, "paths", d->changes);
	json_put_string(&w, "schema", SCHEMA);
	json_object_end(&w);
	json_finish(&w);
	buf_add_char(&report->out, '\n');
}

static int end(struct report *report, const struct discard *d)
{
	int r = report_end(report);

	return r == 0 && d->declined ? 1 : r;
}

int verb_discard(const struct options *o)
{
	AUTO_DISCARD struct discard d = {.state = STATE_INIT, .nothing = true};
	AUTO_REPORT struct report report = {0};
	struct error err = {0};
	int r;

	d.yes = options_has(o, OPT_YES);
	if (options_has(o, OPT_ALL) && o->n_rest > 0)
		return report_refuse("--all and a task exclude each other");
	if (state_open(&d.state, &err) < 0)
		return report_refuse(err.text);
	recover_all(&d.state);
	r = report_init(&report, o);
	if (r != 0)
		return r;
	r = options_has(o, OPT_ALL) ? discard_all(&d, &err)
				    : discard_named(&d, o, &err);
	/* What was discarded before an error is said too. */
	show(&report, &d);
	if (r == 0 && d.done.n == 0 && d.nothing)
		fprintf(stderr, "pinfold: there is nothing to discard\n");
	if (r < 0) {
		report_end(&report);
		return report_refuse(err.text);
	}
	return end(&report, &d);
}
