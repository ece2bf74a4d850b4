/*
 * pinfold ps: the sandboxes that run, with -a all tasks there is a record of;
 * with a task: what its record says, and its processes.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"
#include "cli/colour.h"
#include "cli/own.h"
#include "cli/direct.h"
#include "cli/pick.h"
#include "cli/processes.h"
#include "cli/report.h"
#include "schema/json.h"
#include "workspace/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-ps-1"
#define COMMAND_MAX 60	 /* characters of a command in the list */
#define COUNT_MAX 100000 /* inodes looked at for one task's size */

struct held {
	uint64_t bytes, inodes;
	bool more; /* than was counted */
};

/* Sizes count what an agent closed; where this is blocked they say ">". */
static void read_closed(void)
{
	if (geteuid() != 0)
		own_enter(NULL);
}

/* How much the task's layers hold. */
static struct held count_held(int fd)
{
	struct held h = {0};

	for (size_t i = 0; i <= STATE_WRITE_MAX; i++) {
		char name[STATE_WRITE_NAME_MAX + 8] = "upper";
		uint64_t bytes, inodes;

		if (i > 0) {
			state_write_name(i - 1, name);
			if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
				break;
			strcat(name, "/upper");
		}
		if (changes_usage(fd, name, UINT64_MAX, COUNT_MAX, &bytes,
				  &inodes) < 0 ||
		    inodes > COUNT_MAX)
			h.more = true;
		h.bytes += bytes;
		h.inodes += inodes;
	}
	return h;
}

static void add_state(struct buf *out, const struct pick *p)
{
	const struct record *r = &p->record;

	if (p->alive)
		buf_add_str(out, "running");
	else if (r->state != RECORD_ENDED)
		buf_add_str(out, "lost");
	else if (r->reason == REASON_EXIT)
		buf_addf(out, "exit %d", r->exit_status);
	else if (r->reason == REASON_SIGNAL)
		buf_addf(out, "signal %d", r->signal);
	else if (r->reason == REASON_LIMIT)
		buf_addf(out, "limit %s", r->limit ? r->limit : "");
	else
		buf_add_str(out, record_reason_name(r->reason));
}

/* "40s", "12m", "3h", "17d": two digits that say enough. */
static void add_age(struct buf *out, uint64_t since_us)
{
	uint64_t now = time_wall_us();
	uint64_t s = since_us && since_us < now ? (now - since_us) / 1000000u
						: 0;

	if (!since_us)
		buf_add_str(out, "?");
	else if (s < 120)
		buf_addf(out, "%llus", (unsigned long long)s);
	else if (s < 7200)
		buf_addf(out, "%llum", (unsigned long long)(s / 60));
	else if (s < 2 * 86400)
		buf_addf(out, "%lluh", (unsigned long long)(s / 3600));
	else
		buf_addf(out, "%llud", (unsigned long long)(s / 86400));
}

static void add_held(struct buf *out, const struct held *h)
{
	if (h->inodes == 0 && !h->more) {
		buf_add_str(out, "-");
		return;
	}
	if (h->more)
		buf_add_char(out, '>');
	num_human_size(out, h->bytes);
}

static void add_name(struct buf *out, const struct record *r)
{
	AUTO_BUF struct buf name = BUF_INIT(65536);

	if (r->name)
		report_path(&name, r->name);
	buf_addf(out, "%-10s  ", name.len > 0 ? buf_str(&name) : "-");
}

static void list_line(struct report *r, const struct pick *p)
{
	AUTO_BUF struct buf state = BUF_INIT(256);
	AUTO_BUF struct buf age = BUF_INIT(64);
	AUTO_BUF struct buf held = BUF_INIT(64);
	AUTO_BUF struct buf source = BUF_INIT(65536);
	struct held h = count_held(p->fd);

	add_state(&state, p);
	add_age(&age, p->record.started_us);
	add_held(&held, &h);
	if (p->record.source)
		report_path(&source, p->record.source);
	else
		buf_add_str(&source, "-");
	buf_addf(&r->out, "%-18s  %-15s %4s  %10s  ", p->id, buf_str(&state),
		 buf_str(&age), buf_str(&held));
	add_name(&r->out, &p->record);
	if (p->record.argv.n > 0) {
		buf_addf(&r->out, "%-24s  ", buf_str(&source));
		report_command(&r->out, &p->record.argv, COMMAND_MAX);
	} else {
		buf_add_str(&r->out, buf_str(&source));
	}
	buf_add_char(&r->out, '\n');
}

static void put_processes(struct json_writer *w, const struct process *list,
			  size_t n)
{
	json_key(w, "processes");
	json_array(w);
	for (size_t i = 0; i < n; i++) {
		char state[2] = {list[i].state, '\0'};

		json_object(w);
		json_put_text(w, "name", list[i].comm);
		json_put_int(w, "parent", list[i].parent);
		json_put_int(w, "pid", list[i].pid);
		json_put_text(w, "state", state);
		json_object_end(w);
	}
	json_array_end(w);
}

static void put_list(struct json_writer *w, const char *key,
		     const struct strlist *list)
{
	json_key(w, key);
	json_array(w);
	for (size_t i = 0; i < list->n; i++)
		json_text(w, list->items[i]);
	json_array_end(w);
}

/* A number, or null where there is none (yet). */
static void put_known(struct json_writer *w, const char *key, bool known,
		      int64_t v)
{
	json_key(w, key);
	if (known)
		json_int(w, v);
	else
		json_null(w);
}

/* The whole record, as it lies in task.json; null where there is none. */
static void put_record(struct json_writer *w, const struct pick *p)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);

	json_key(w, "record");
	if (p->record.policy_digest[0] && record_to_json(&p->record, &json) == 0)
		json_raw(w, buf_str(&json), json.len);
	else
		json_null(w);
}

struct process_list {
	struct process *items;
	size_t n;
};

/* The fields are docs/json.md's. list: of one task alone; with its record. */
static void put_task(struct json_writer *w, const struct pick *p,
		     const struct process_list *list)
{
	const struct record *r = &p->record;
	bool ended = !p->alive && r->state == RECORD_ENDED;
	struct held h = count_held(p->fd);

	json_object(w);
	put_list(w, "argv", &r->argv);
	put_known(w, "ended_us", r->ended_us > 0, (int64_t)r->ended_us);
	put_known(w, "exit_status", ended && r->exit_status >= 0,
		  r->exit_status);
	json_put_uint(w, "held_bytes", h.bytes);
	json_put_bool(w, "held_complete", !h.more);
	json_put_uint(w, "held_inodes", h.inodes);
	json_put_string(w, "id", p->id);
	put_list(w, "labels", &r->labels);
	json_put_text(w, "limit", r->limit);
	json_put_text(w, "name", r->name);
	if (list)
		put_processes(w, list->items, list->n);
	json_put_text(w, "reason", r->reason == REASON_NONE
					   ? NULL
					   : record_reason_name(r->reason));
	if (list)
		put_record(w, p);
	put_known(w, "signal", r->signal > 0, r->signal);
	json_put_text(w, "source", r->source);
	put_known(w, "started_us", r->started_us > 0, (int64_t)r->started_us);
	json_put_string(w, "state",
			p->alive ? "running" : ended ? "ended" : "lost");
	json_put_text(w, "workspace", r->workspace);
	json_object_end(w);
}

static void detail_time(struct buf *out, const char *what, uint64_t us)
{
	char text[32];

	if (!us)
		return;
	time_format(us, text);
	buf_addf(out, "%-10s %s\n", what, text);
}

static void detail_text(struct buf *out, const char *what, const char *text)
{
	if (!text)
		return;
	buf_addf(out, "%-10s ", what);
	report_path(out, text);
	buf_add_char(out, '\n');
}

static void detail_enforced(struct buf *out, const struct record *r)
{
	for (size_t i = 0; i < r->n_enforced; i++) {
		const struct record_enforced *e = &r->enforced[i];

		buf_addf(out, "%-10s ", i ? "" : "enforced");
		report_path(out, e->what);
		/* A control group that there was none of. */
		buf_add_str(out, str_starts(e->mechanism, "none ") ? ": "
								  : " by ");
		report_path(out, e->mechanism);
		buf_addf(out, "%s\n", e->hard ? "" : " (best effort)");
	}
}

static void detail_refusals(struct buf *out, const struct record *r)
{
	for (size_t i = 0; i < r->n_refusals; i++) {
		const struct record_refusal *f = &r->refusals[i];

		buf_addf(out, "%-10s %llu x ", i ? "" : "refused",
			 (unsigned long long)f->count);
		report_path(out, f->action);
		buf_add_char(out, ' ');
		report_path(out, f->object);
		buf_add_str(out, ", ");
		report_path(out, f->rule);
		buf_add_str(out, f->claimed ? " (as claimed)\n" : "\n");
	}
	if (r->refusals_dropped)
		buf_addf(out, "%-10s %llu more\n", "",
			 (unsigned long long)r->refusals_dropped);
}

static void detail(struct report *report, const struct pick *p,
		   const struct process *list, size_t n)
{
	const struct record *r = &p->record;
	struct buf *out = &report->out;
	struct held h = count_held(p->fd);

	buf_addf(out, "%-10s %s\n%-10s ", "task", p->id, "state");
	add_state(out, p);
	buf_add_char(out, '\n');
	if (r->argv.n > 0) {
		buf_addf(out, "%-10s ", "command");
		report_command(out, &r->argv, 0);
		buf_add_char(out, '\n');
	}
	detail_text(out, "name", r->name);
	detail_text(out, "source", r->source);
	for (size_t i = 0; i < p->write.n; i++)
		detail_text(out, "write", p->write.items[i]);
	detail_text(out, "workdir", r->workdir);
	detail_text(out, "workspace",
		    direct_is(p) ? "direct: the source was written at once"
				 : r->workspace);
	detail_text(out, "tier", r->tier);
	detail_text(out, "policy", r->policy_name);
	if (r->policy_digest[0])
		buf_addf(out, "%-10s sha256:%s\n", "digest",
			 r->policy_digest);
	for (size_t i = 0; i < r->labels.n; i++)
		detail_text(out, "label", r->labels.items[i]);
	detail_time(out, "started", r->started_us);
	detail_time(out, "ended", r->ended_us);
	detail_text(out, "error", r->error);
	buf_addf(out, "%-10s ", "holds");
	add_held(out, &h);
	buf_add_char(out, '\n');
	detail_enforced(out, r);
	detail_refusals(out, r);
	for (size_t i = 0; i < n; i++) {
		buf_addf(out, "%-10s %7d %c ", i ? "" : "processes",
			 (int)list[i].pid, list[i].state);
		report_path(out, list[i].comm);
		buf_add_char(out, '\n');
	}
}

static int show_one(struct report *r, const struct state *s, const char *want,
		    struct error *err)
{
	AUTO_PICK struct pick p = PICK_INIT;
	AUTO_FREE struct process *list = NULL;
	struct json_writer w;
	size_t n = 0;
	int e = pick_task(s, want, &p, err);

	/* What it says is shown; a task without it is shown too. */
	if (e == 0)
		pick_policy(&p, NULL);
	if (e == 0 && p.alive)
		e = processes_of(p.fd, &list, &n, err);
	if (e < 0)
		return e;
	/* Now, for inside the keeper could not be looked into. */
	read_closed();
	if (!r->json) {
		detail(r, &p, list, n);
		return 0;
	}
	json_begin(&w, &r->out);
	json_object(&w);
	json_put_string(&w, "schema", SCHEMA);
	json_key(&w, "tasks");
	json_array(&w);
	put_task(&w, &p, &(struct process_list){list, n});
	json_array_end(&w);
	json_object_end(&w);
	buf_add_char(&r->out, '\n');
	return json_finish(&w);
}

/* Has the task every label that is asked for? "KEY" stands for any value. */
static bool has_labels(const struct record *r, const struct strlist *wanted)
{
	for (size_t i = 0; i < wanted->n; i++) {
		const char *label = wanted->items[i];
		size_t n = strlen(label);
		bool found = false;

		for (size_t k = 0; k < r->labels.n && !found; k++) {
			const char *own = r->labels.items[k];

			found = str_eq(own, label) ||
				(!strchr(label, '=') &&
				 !strncmp(own, label, n) && own[n] == '=');
		}
		if (!found)
			return false;
	}
	return true;
}

static bool is_wanted(const struct pick *p, bool all,
		      const struct strlist *labels)
{
	return (p->alive || all) && has_labels(&p->record, labels);
}

static int show_list(struct report *r, const struct state *s, bool all,
		     const struct strlist *labels, struct error *err)
{
	AUTO_FREE struct state_task *tasks = NULL;
	struct json_writer w;
	size_t n = 0;
	int e = all ? state_list(s, &tasks, &n, err)
		    : state_list_live(s, &tasks, &n, err);

	if (e < 0)
		return e;
	read_closed();
	if (r->json) {
		json_begin(&w, &r->out);
		json_object(&w);
		json_put_string(&w, "schema", SCHEMA);
		json_key(&w, "tasks");
		json_array(&w);
	} else {
		buf_addf(&r->out, "%s%-18s  %-15s %4s  %10s  %-10s  %-24s  %s%s\n",
			 colour_code(r->colour, COLOUR_BOLD), "TASK", "STATE",
			 "AGE", "HOLDS", "NAME", "SOURCE", "COMMAND",
			 colour_code(r->colour, COLOUR_NONE));
	}
	for (size_t i = 0; i < n && report_flush(r) == 0; i++) {
		AUTO_PICK struct pick p = PICK_INIT;

		if (pick_open(s, tasks[i].id, &p, NULL) < 0 ||
		    !is_wanted(&p, all, labels))
			continue;
		if (!p.record.started_us)
			p.record.started_us = tasks[i].started_us;
		if (r->json)
			put_task(&w, &p, NULL);
		else
			list_line(r, &p);
	}
	if (!r->json)
		return 0;
	json_array_end(&w);
	json_object_end(&w);
	buf_add_char(&r->out, '\n');
	return json_finish(&w);
}

int verb_ps(const struct options *o)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_REPORT struct report report = {0};
	struct error err = {0};
	int r;

	if (state_open(&state, &err) < 0)
		return report_refuse(err.text);
	r = report_init(&report, o);
	if (r != 0)
		return r;
	if (o->n_rest > 0)
		r = show_one(&report, &state, o->rest[0], &err);
	else
		r = show_list(&report, &state, options_has(o, OPT_ALL),
			      &o->values[OPT_LABEL], &err);
	if (r < 0)
		return report_refuse(err.text[0] ? err.text
						 : "the report is too large");
	return report_end(&report);
}
