/*
 * pinfold undo: takes a task's last promotion back. What the host has changed
 * since stays, and is named.
 */
#include "base/cleanup.h"
#include "cli/direct.h"
#include "cli/held.h"
#include "cli/report.h"
#include "schema/json.h"
#include "workspace/taken.h"

#include <errno.h>
#include <string.h>

#define SCHEMA "pinfold-undo-1"

struct undo {
	struct report report;
	struct json_writer json;
	const struct pick *pick;
	uint64_t restored, left;
};

static const char *const kind_names[] = {"added", "modified", "deleted"};

static int find_last(const struct layers *l, unsigned *ret, struct error *err)
{
	*ret = 0;
	for (size_t i = 0; i < l->n; i++) {
		unsigned last;
		int r = taken_last(l->items[i].fd, true, &last);

		if (r < 0)
			return error_set(err, r, "cannot read what was "
						 "promoted: %s",
					 strerror(-r));
		if (last > *ret)
			*ret = last;
	}
	return 0;
}

static int show_entry(struct undo *u, const char *prefix,
		      const struct journal_entry *e)
{
	bool left = e->state == STATE_PLACED;
	AUTO_FREE char *path = str_format("%s%s%s", prefix ? prefix : "",
					  prefix ? "/" : "", e->path);

	if (!path)
		return -ENOMEM;
	u->left += left;
	u->restored += !left;
	if (u->report.json) {
		json_object(&u->json);
		json_put_string(&u->json, "kind", kind_names[e->kind]);
		json_put_text(&u->json, "path", path);
		json_put_text(&u->json, "reason",
			      left ? journal_skip_text(e->why) : NULL);
		json_object_end(&u->json);
	} else if (left) {
		buf_add_str(&u->report.out, "left: ");
		report_path(&u->report.out, path);
		buf_addf(&u->report.out, ": %s\n", journal_skip_text(e->why));
	}
	return report_flush(&u->report);
}

/* Of the steps of a repository only what could not be taken back. */
static bool is_told(const struct journal_entry *e)
{
	return journal_is_shown(e) ||
	       (e->part == PART_INDEX && e->state == STATE_PLACED);
}

/* As promote_undo, and says which journal is to blame. */
static int take_back(struct promotion *p, const struct promote_layer *l,
		     unsigned number, struct error *err)
{
	uint64_t left;
	int r = promote_undo(p, l, number, &left, err);

	return r == -EUCLEAN ? journal_damaged(number, err) : r;
}

static int undo_layer(struct undo *u, const struct promote_layer *l,
		      bool source, unsigned number, struct error *err)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	unsigned last;
	int r = taken_last(l->fd, true, &last);

	if (r == 0 && last != number)
		return 0;
	if (r == 0)
		r = take_back(&p, l, number, err);
	if (r < 0)
		return r;
	for (struct journal_entry *e = journal_next(&p.journal, NULL); e;
	     e = journal_next(&p.journal, e)) {
		if (e->act != ACT_LEAVE && e->state != STATE_SKIPPED &&
		    is_told(e) &&
		    show_entry(u, source ? NULL : l->source, e) < 0)
			break;
	}
	return 0;
}

static int undo_all(struct undo *u, const struct layers *l, unsigned number,
		    struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r == 0; i++)
		r = undo_layer(u, &l->items[i],
			       i == 0 && u->pick->record.source, number, err);
	return r;
}

static void begin(struct undo *u)
{
	if (!u->report.json)
		return;
	json_begin(&u->json, &u->report.out);
	json_object(&u->json);
	json_key(&u->json, "changes");
	json_array(&u->json);
}

static int end(struct undo *u)
{
	struct json_writer *w = &u->json;
	AUTO_BUF struct buf text = BUF_INIT(256);
	int r;

	if (u->report.json) {
		json_array_end(w);
		json_put_string(w, "id", u->pick->id);
		json_put_uint(w, "left", u->left);
		json_put_uint(w, "restored", u->restored);
		json_put_string(w, "schema", SCHEMA);
		json_object_end(w);
		json_finish(w);
		buf_add_char(&u->report.out, '\n');
	}
	r = report_end(&u->report);
	if (!u->report.json) {
		buf_addf(&text, "%llu taken back",
			 (unsigned long long)u->restored);
		if (u->left)
			buf_addf(&text, ", %llu left as the host has it",
				 (unsigned long long)u->left);
		buf_addf(&text, "; pinfold diff %s", u->pick->id);
		report_note(buf_str(&text));
	}
	return r == 0 && u->left ? 1 : r;
}

static int do_undo(struct undo *u, const struct state *s,
		   const struct layers *l, struct error *err)
{
	unsigned number;
	int r = find_last(l, &number, err);

	if (r < 0)
		return r;
	if (number == 0)
		return error_set(err, -ENOENT,
				 "there is nothing to undo of %s: %s",
				 u->pick->id,
				 direct_is(u->pick)
					 ? "it wrote its source at once, and "
					   "nobody kept what was there before"
					 : "nothing of it was promoted, or it "
					   "was discarded since");
	r = state_promoting(s, u->pick->id, err);
	if (r < 0)
		return r;
	state_task_mark_promoted(u->pick->fd, false);
	begin(u);
	r = undo_all(u, l, number, err);
	if (r == 0)
		state_promoted(s, u->pick->id);
	return r;
}

int verb_undo(const struct options *o)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_PICK struct pick p = PICK_INIT;
	AUTO_LAYERS struct layers l = LAYERS_INIT;
	struct undo u = {.pick = &p};
	struct error err = {0};
	int r;

	if (state_open(&state, &err) < 0)
		return report_refuse(err.text);
	recover_all(&state);
	if (pick_task(&state, o->n_rest ? o->rest[0] : NULL, &p, &err) < 0 ||
	    pick_need_record(&p, &err) < 0 || pick_policy(&p, &err) < 0)
		return report_refuse(err.text);
	recover_task(&state, &p);
	if (direct_check_settled(&p, &err) < 0)
		return report_refuse(err.text);
	if (layers_open(&l, &p, false, &err) < 0)
		return report_refuse(err.text);
	r = report_init(&u.report, o);
	if (r != 0)
		return r;
	r = do_undo(&u, &state, &l, &err);
	if (r == 0)
		r = end(&u);
	report_done(&u.report);
	return r < 0 ? report_refuse(err.text) : r;
}
