/*
 * pinfold rm: removes what is left of tasks that have ended. What runs is never
 * touched, and changes go only where --changes says so.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/time.h"
#include "cli/direct.h"
#include "cli/held.h"
#include "cli/launch.h"
#include "cli/pick.h"
#include "cli/report.h"
#include "schema/json.h"
#include "workspace/taken.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-rm-1"

struct rm {
	struct state state;
	bool changes;	     /* they may go too */
	struct strlist done, kept; /* ids; kept: for their changes */
};

static void rm_done(struct rm *rm)
{
	state_close(&rm->state);
	strlist_done(&rm->done);
	strlist_done(&rm->kept);
}

#define AUTO_RM __attribute__((cleanup(rm_done)))

/* Could undo take anything back that was promoted of this task? */
static bool serves_undo(const struct pick *p)
{
	char name[STATE_WRITE_NAME_MAX];
	unsigned last = 0;
	bool found = taken_last(p->fd, true, &last) == 0 && last > 0;

	for (size_t i = 0; !found; i++) {
		AUTO_CLOSE int fd = -1;

		state_write_name(i, name);
		fd = openat(p->fd, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			break;
		found = taken_last(fd, true, &last) == 0 && last > 0;
	}
	return found;
}

/* 1: it may go, 0: it holds what is nowhere else, -EBUSY: it runs, or is not
 * settled. */
static int may_go(struct rm *rm, const struct pick *p, struct error *err)
{
	int r = p->alive ? pick_busy(p, err) : direct_check_settled(p, err);

	if (r < 0)
		return r;
	return rm->changes ||
	       !(state_task_has_pending(p->fd) || serves_undo(p));
}

static int refuse_held(const struct pick *p, struct error *err)
{
	if (state_task_has_pending(p->fd))
		return error_set(err, -ENOTEMPTY,
				 "%s holds changes: see pinfold diff %s; "
				 "pinfold rm --changes %s removes them too",
				 p->id, p->id, p->id);
	return error_set(err, -ENOTEMPTY,
			 "%s was promoted, and pinfold undo %s needs it; "
			 "pinfold rm --changes %s removes it all the same",
			 p->id, p->id, p->id);
}

static int remove_one(struct rm *rm, const struct pick *p, struct error *err)
{
	struct error ignored;
	int r;

	/* One that died leaves more than its directory. */
	state_sweep_one(&rm->state, p->id, launch_clean_lost, NULL, &ignored);
	r = state_task_remove(&rm->state, p->id, err);
	if (r == -EBUSY)
		return pick_busy(p, err);
	if (r < 0)
		return r;
	return strlist_add(&rm->done, p->id) < 0
		       ? error_set(err, -ENOMEM, "out of memory")
		       : 0;
}

static int remove_named(struct rm *rm, const struct options *o,
			struct error *err)
{
	int r = 1;

	for (size_t i = 0; i < o->n_rest && r > 0; i++) {
		AUTO_PICK struct pick p = PICK_INIT;

		r = pick_task(&rm->state, o->rest[i], &p, err);
		if (r == 0)
			r = may_go(rm, &p, err);
		if (r == 0)
			return refuse_held(&p, err);
		if (r > 0)
			r = remove_one(rm, &p, err) < 0 ? -1 : 1;
	}
	return r < 0 ? -EINVAL : 0;
}

/* When it ended, as far as that is known. */
static uint64_t end_of(const struct pick *p, const struct state_task *task)
{
	return p->record.ended_us ? p->record.ended_us : task->started_us;
}

/* Of those that ended before this moment. */
static int remove_old(struct rm *rm, uint64_t before_us, struct error *err)
{
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n = 0;
	int r = state_list(&rm->state, &tasks, &n, err);

	for (size_t i = 0; i < n && r >= 0; i++) {
		AUTO_PICK struct pick p = PICK_INIT;

		if (pick_open(&rm->state, tasks[i].id, &p, NULL) < 0 ||
		    p.alive || end_of(&p, &tasks[i]) > before_us)
			continue;
		r = may_go(rm, &p, err);
		if (r > 0)
			r = remove_one(rm, &p, err);
		else if (r == 0)
			r = strlist_add(&rm->kept, p.id);
		if (r == -EBUSY) /* It is being swept just now. */
			r = 0;
	}
	return r < 0 ? r : 0;
}

static void put_ids(struct json_writer *w, const char *key,
		    const struct strlist *list)
{
	json_key(w, key);
	json_array(w);
	for (size_t i = 0; i < list->n; i++)
		json_string(w, list->items[i]);
	json_array_end(w);
}

static void show(struct report *report, const struct rm *rm)
{
	struct json_writer w;

	if (!report->json) {
		for (size_t i = 0; i < rm->done.n; i++)
			buf_addf(&report->out, "%s removed\n",
				 rm->done.items[i]);
		return;
	}
	json_begin(&w, &report->out);
	json_object(&w);
	put_ids(&w, "kept", &rm->kept);
	put_ids(&w, "removed", &rm->done);
	json_put_string(&w, "schema", SCHEMA);
	json_object_end(&w);
	json_finish(&w);
	buf_add_char(&report->out, '\n');
}

static void say_kept(const struct rm *rm)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (rm->kept.n == 0)
		return;
	buf_addf(&text,
		 "%zu task%s left for %s changes, or for pinfold undo "
		 "(--changes removes %s too)",
		 rm->kept.n, rm->kept.n == 1 ? " is" : "s are",
		 rm->kept.n == 1 ? "its" : "their",
		 rm->kept.n == 1 ? "it" : "them");
	report_note(buf_str(&text));
}

/* Exactly one way of naming tasks; *ret_before_us: of --older-than. */
static int read_words(const struct options *o, uint64_t *ret_before_us,
		      struct error *err)
{
	bool old = options_has(o, OPT_OLDER_THAN);
	uint64_t ms = 0, now = time_wall_us();
	int r;

	if ((o->n_rest > 0) + old + options_has(o, OPT_ALL) != 1)
		return error_set(err, -EINVAL, "rm: give tasks, --older-than "
					       "or --all: one of the three");
	r = options_duration(o, OPT_OLDER_THAN, "older-than", &ms, err);
	*ret_before_us = ms > now / 1000u ? 0 : now - ms * 1000u;
	return r;
}

int verb_rm(const struct options *o)
{
	AUTO_RM struct rm rm = {.state = STATE_INIT};
	AUTO_REPORT struct report report = {0};
	struct error err = {0};
	uint64_t before_us = 0;
	int r;

	rm.changes = options_has(o, OPT_CHANGES);
	if (read_words(o, &before_us, &err) < 0 ||
	    state_open(&rm.state, &err) < 0)
		return report_refuse(err.text);
	recover_all(&rm.state);
	r = report_init(&report, o);
	if (r != 0)
		return r;
	r = o->n_rest > 0 ? remove_named(&rm, o, &err)
			  : remove_old(&rm, before_us, &err);
	/* What was removed before an error is said too. */
	show(&report, &rm);
	if (r < 0) {
		report_end(&report);
		return report_refuse(err.text);
	}
	say_kept(&rm);
	return report_end(&report);
}
