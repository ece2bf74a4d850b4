/*
 * What pinfold promote says: before, for the question, and after. The journals
 * of the promotion are what is read; paths are shown quoted where they would
 * move a terminal's cursor.
 */
#include "base/cleanup.h"
#include "base/glob.h"
#include "base/io.h"
#include "cli/promote_private.h"
#include "workspace/judge.h"
#include "workspace/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-promote-1"
#define SHOWN_MAX 40 /* lines before the question */
#define COMMAND_SHOWN 60

uint64_t promote_to_do(const struct promote *p)
{
	return p->total.added + p->total.modified + p->total.deleted;
}

static const char *const class_names[] = {
	[LEAVE_HELD] = "held back",
	[LEAVE_CONFLICT] = "conflict",
	[LEAVE_REFUSED] = "refused",
	[LEAVE_GIT] = "held back",
	[LEAVE_GIT_HELD] = "held back",
};
static const char *const kind_names[] = {"added", "modified", "deleted"};
static const char kind_letters[] = {'A', 'M', 'D'};

static bool is_left(const struct promote *p, const struct journal_entry *e)
{
	return e->act == ACT_LEAVE || (p->done && e->state == STATE_SKIPPED);
}

static const char *reason_of(const struct journal_entry *e)
{
	return e->act == ACT_LEAVE ? journal_reason(e)
				   : journal_skip_text(e->why);
}

static const char *class_of(const struct journal_entry *e)
{
	return class_names[e->act == ACT_LEAVE ? e->class : LEAVE_CONFLICT];
}

/* A path of the i-th layer, as it is shown. */
static char *whole_name(const struct promote *p, size_t i, const char *path)
{
	const struct promote_layer *l = &p->layers.items[i];
	bool own = i == 0 && p->pick.record.source;

	return str_format("%s%s%s", own ? "" : l->source, own ? "" : "/", path);
}

static char *whole_path(const struct promote *p, size_t i,
			const struct journal_entry *e)
{
	bool slash = !p->report.json && S_ISDIR(e->mode);
	AUTO_FREE char *path = str_format("%s%s", e->path, slash ? "/" : "");

	return path ? whole_name(p, i, path) : NULL;
}

/* Where a link that comes leads to; NULL: it is none. */
static const char *target_of(const struct journal_entry *e)
{
	return e->act != ACT_LEAVE && e->part == PART_NOT && *journal_reason(e)
		       ? journal_reason(e)
		       : NULL;
}

static int print_entry(struct promote *p, size_t i,
		       const struct journal_entry *e, struct buf *out)
{
	AUTO_FREE char *path = whole_path(p, i, e);

	if (!path)
		return -ENOMEM;
	if (e->part == PART_REF && !is_left(p, e)) {
		buf_addf(out, "%c  ", kind_letters[e->kind]);
		return promote_tell_ref(out, e->path, journal_reason(e));
	}
	if (is_left(p, e))
		buf_addf(out, "%s: ", class_of(e));
	else
		buf_addf(out, "%c  ", kind_letters[e->kind]);
	report_path(out, path);
	if (is_left(p, e))
		buf_addf(out, ": %s", reason_of(e));
	else if (target_of(e))
		report_target(out, target_of(e),
			      source_link_leaves(p->layers.items[i].source,
						 e->path, target_of(e)));
	else if (e->merged)
		buf_add_str(out, ": merged with the host's");
	return buf_add_char(out, '\n');
}

static int write_entry(struct promote *p, size_t i,
		       const struct journal_entry *e)
{
	struct json_writer *w = &p->json;
	AUTO_FREE char *path = whole_path(p, i, e);

	if (!path)
		return -ENOMEM;
	json_object(w);
	json_put_string(w, "kind", kind_names[e->kind]);
	json_put_bool(w, "merged", e->merged && !is_left(p, e));
	json_put_text(w, "path", path);
	json_put_text(w, "reason", is_left(p, e) ? reason_of(e) : NULL);
	json_key(w, "ref");
	if (e->part == PART_REF)
		promote_write_ref(w, journal_reason(e));
	else
		json_null(w);
	json_put_string(w, "result", is_left(p, e) ? class_of(e)
				     : p->dry	   ? "planned"
						   : "promoted");
	json_put_text(w, "target", target_of(e));
	json_object_end(w);
	return w->failed ? w->failed : report_flush(&p->report);
}

typedef int entry_fn(struct promote *p, size_t i,
		     const struct journal_entry *e, void *arg);

/* In the order of paths. */
static int each_of(struct promote *p, size_t i, entry_fn *fn, void *arg)
{
	AUTO_FREE struct journal_entry **all = NULL;
	size_t n = 0;
	int r = journal_sorted(&p->steps[i].promotion.journal, &all, &n);

	for (size_t k = 0; k < n && r == 0; k++)
		r = fn(p, i, all[k], arg);
	return r;
}

/* Calls fn for each entry of all journals until it returns other than 0. */
static int each_entry(struct promote *p, entry_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < p->layers.n && r == 0; i++) {
		if (p->steps[i].wanted && p->steps[i].promotion.journal.data)
			r = each_of(p, i, fn, arg);
	}
	return r;
}

/* Of git directories only what is protected is told by name. */
static bool is_of_git(const struct journal_entry *e)
{
	return e->act == ACT_LEAVE && e->class == LEAVE_GIT;
}

static bool is_told(const struct promote *p, const struct journal_entry *e)
{
	return !is_of_git(e) && (journal_is_shown(e) || is_left(p, e));
}

static void say_git(const struct promote *p, struct buf *out)
{
	uint64_t n = p->total.left[LEAVE_GIT];

	if (n)
		buf_addf(out, "held back: %llu %schange%s in git directories, "
			      "which are not promoted file by file\n",
			 (unsigned long long)n,
			 p->total.left[LEAVE_GIT_HELD] ? "other " : "",
			 n == 1 ? "" : "s");
}

/* A repository that was left whole: how many bytes of the path name it; or 0. */
static size_t find_left_repository(const struct promote *p, size_t i,
				   const struct journal_entry *e)
{
	size_t n = e->act == ACT_LEAVE && e->class == LEAVE_GIT_HELD
			   ? judge_repository(e->path)
			   : 0;

	return n == 4 && !p->layers.items[i].protect->no_repository ? 0 : n;
}

static uint64_t count_files(const struct promote *p, size_t i,
			    const char *dir)
{
	const struct journal *j = &p->steps[i].promotion.journal;
	uint64_t n = 0;

	for (const struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e))
		n += !S_ISDIR(e->mode) && path_is_below(e->path, dir);
	return n;
}

/*
 * One line for all of a repository that was left, of which this is an entry. 1:
 * it is there; 0: this is no such entry; or negative.
 */
static int print_repository(struct promote *p, size_t i,
			    const struct journal_entry *e, struct buf *out)
{
	size_t n = find_left_repository(p, i, e);
	AUTO_FREE char *dir = n ? strndup(e->path, n) : NULL;
	AUTO_FREE char *path = NULL;

	if (n == 0)
		return 0;
	path = dir ? whole_name(p, i, dir) : NULL;
	if (!path)
		return -ENOMEM;
	if (str_eq(buf_str(&p->folded), path))
		return 1;
	buf_reset(&p->folded);
	buf_add_str(&p->folded, path);
	buf_addf(out, "%s: ", class_of(e));
	report_path(out, path);
	report_files(out, count_files(p, i, dir));
	buf_addf(out, ": %s\n", reason_of(e));
	return 1;
}

static int show_final(struct promote *p, size_t i,
		      const struct journal_entry *e, void *arg)
{
	int r;

	(void)arg;
	if (!journal_is_shown(e) && !is_left(p, e))
		return 0;
	if (p->report.json)
		return write_entry(p, i, e);
	/* What the question has shown is not said again. */
	if (is_of_git(e) || (p->asked && e->state != STATE_SKIPPED))
		return 0;
	r = print_repository(p, i, e, &p->report.out);
	if (r < 0 || (r == 0 && print_entry(p, i, e, &p->report.out) < 0))
		return -ENOMEM;
	return report_flush(&p->report);
}

static int show_few(struct promote *p, size_t i, const struct journal_entry *e,
		    void *arg)
{
	AUTO_BUF struct buf line = BUF_INIT(1u << 20);
	unsigned *n = arg;
	int r;

	if (!is_told(p, e))
		return 0;
	r = print_repository(p, i, e, &line);
	if (r == 1 && line.len == 0)
		return 0;
	if (++*n > SHOWN_MAX)
		return 1;
	if (r == 1 || print_entry(p, i, e, &line) == 0)
		io_write_all(STDERR_FILENO, line.data, line.len);
	return 0;
}

static void add_left(struct buf *text, const struct promote *p)
{
	const uint64_t *left = p->total.left;
	uint64_t conflicts = left[LEAVE_CONFLICT] + p->total.skipped;

	uint64_t held = left[LEAVE_HELD] + left[LEAVE_GIT] +
			left[LEAVE_GIT_HELD];

	if (p->total.merged)
		buf_addf(text, ", %llu of them merged",
			 (unsigned long long)p->total.merged);
	if (held)
		buf_addf(text, ", %llu held back", (unsigned long long)held);
	if (conflicts)
		buf_addf(text, ", %llu in conflict",
			 (unsigned long long)conflicts);
	if (left[LEAVE_REFUSED])
		buf_addf(text, ", %llu refused",
			 (unsigned long long)left[LEAVE_REFUSED]);
	if (p->total.unselected)
		buf_addf(text, ", %llu not asked for",
			 (unsigned long long)p->total.unselected);
}

/* What it is about: "promote 3 changes of ID (make test) to DIR". */
static void add_question(struct buf *text, const struct promote *p)
{
	uint64_t n = promote_to_do(p);

	buf_addf(text, "promote %llu change%s of %s", (unsigned long long)n,
		 n == 1 ? "" : "s", p->pick.id);
	if (p->pick.record.argv.n > 0) {
		buf_add_str(text, " (");
		report_command(text, &p->pick.record.argv, COMMAND_SHOWN);
		buf_add_char(text, ')');
	}
	buf_add_str(text, " to ");
	report_path(text, p->layers.items[0].source);
	add_left(text, p);
}

int promote_ask(struct promote *p, struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	int may = report_may_ask("promoting", err);
	unsigned n = 0;

	/* Then nothing has to be asked. */
	if (may < 0 && promote_to_do(p) == 0)
		return 1;
	if (may < 0 && p->report.json) {
		p->dry = true;
		promote_show(p);
		return may;
	}
	p->asked = true;
	if (each_entry(p, show_few, &n) > 0)
		buf_addf(&text, "... (pinfold diff %s shows all)\n",
			 p->pick.id);
	say_git(p, &text);
	if (promote_to_do(p) == 0) {
		io_write_all(STDERR_FILENO, buf_str(&text), text.len);
		return 1;
	}
	if (may < 0) {
		io_write_all(STDERR_FILENO, buf_str(&text), text.len);
		return may;
	}
	pick_say_other(&p->state, &p->pick);
	add_question(&text, p);
	buf_add_char(&text, '?');
	return report_ask(&text);
}

/* How what was left is looked at, and taken over all the same. */
static void add_way_out(struct buf *text, const struct promote *p)
{
	const uint64_t *left = p->total.left;

	if (left[LEAVE_CONFLICT] + p->total.skipped > 0)
		buf_addf(text, "; pinfold diff --patch %s shows the task's "
			       "side, --held PATH takes it over%s",
			 p->pick.id,
			 p->merge || p->total.both == 0
				 ? ""
				 : ", --merge merges text that both sides "
				   "changed");
	else if (left[LEAVE_HELD] > 0)
		buf_add_str(text, "; what is held back comes with --held PATH");
}

static void say_sum(struct promote *p)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);
	AUTO_BUF struct buf left = BUF_INIT(1024);

	add_left(&left, p);
	if (promote_to_do(p) == 0 && left.len == 0) {
		buf_addf(&text, "%s has no changes to promote", p->pick.id);
		report_note(buf_str(&text));
		pick_say_other(&p->state, &p->pick);
		return;
	}
	buf_addf(&text, "%llu %s", (unsigned long long)promote_to_do(p),
		 p->dry ? "would be promoted" : "promoted");
	add_left(&text, p);
	if (promote_to_do(p) && !p->dry)
		buf_addf(&text, "; pinfold undo %s takes it back", p->pick.id);
	add_way_out(&text, p);
	report_note(buf_str(&text));
}

/* Which patterns mean something? */
static int look_for_only(struct promote *p, size_t i,
			 const struct journal_entry *e, void *arg)
{
	const struct strlist *only = &p->steps[i].only;
	struct strlist *found = arg;

	for (size_t k = 0; k < only->n; k++) {
		if (glob_covers(only->items[k], e->path) &&
		    !strlist_has(&found[i], only->items[k]) &&
		    strlist_add(&found[i], only->items[k]) < 0)
			return -ENOMEM;
	}
	return 0;
}

int promote_check_only(struct promote *p, struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);
	struct strlist *found = calloc(p->layers.n + 1, sizeof(*found));
	int r = found ? each_entry(p, look_for_only, found) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < p->layers.n; i++) {
		const struct strlist *only = &p->steps[i].only;

		for (size_t k = 0; r == 0 && k < only->n; k++) {
			if (strlist_has(&found[i], only->items[k]))
				continue;
			str_quote(&text, only->items[k], 400);
			buf_add_str(&text, " in ");
			report_path(&text, p->layers.items[i].source);
			r = error_set(err, -ENOENT,
				      "%s has changed nothing at %s; pinfold "
				      "diff %s lists what it has",
				      p->pick.id, buf_str(&text), p->pick.id);
		}
	}
	for (size_t i = 0; found && i < p->layers.n; i++)
		strlist_done(&found[i]);
	free(found);
	return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
}

static bool means(const char *held, const char *path)
{
	return *held && path_is_below(path, held);
}

static bool is_in_named(const struct strlist *held, const char *path)
{
	for (size_t k = 0; k < held->n; k++) {
		if (means(held->items[k], path))
			return true;
	}
	return false;
}

/* Were all paths that --held names found, or something below? */
static int look_for_named(struct promote *p, size_t i,
			  const struct journal_entry *e, void *arg)
{
	const struct strlist *held = &p->steps[i].held;
	struct strlist *found = arg;

	for (size_t k = 0; k < held->n; k++) {
		const char *item = held->items[k];

		if (means(item, e->path) && !strlist_has(found, item) &&
		    strlist_add(found, item) < 0)
			return -ENOMEM;
	}
	return 0;
}

int promote_check_held(struct promote *p, struct error *err)
{
	AUTO_STRLIST struct strlist found = {0};
	int r = each_entry(p, look_for_named, &found);

	for (size_t i = 0; r == 0 && i < p->layers.n; i++) {
		const struct strlist *held = &p->steps[i].held;

		for (size_t k = 0; r == 0 && k < held->n; k++) {
			AUTO_BUF struct buf text = BUF_INIT(8192);

			/* It means what was committed, too. */
			if (strlist_has(&found, held->items[k]) ||
			    (p->steps[i].counts.away &&
			     str_eq(held->items[k], ".git/HEAD")))
				continue;
			str_quote(&text, held->items[k], 400);
			r = error_set(err, -ENOENT,
				      "--held %s: %s has not changed that; "
				      "pinfold diff %s lists what it has",
				      buf_str(&text), p->pick.id, p->pick.id);
		}
	}
	return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
}

/* Where the task's own version of a path lies, for who wants it by hand. */
static void add_place(struct buf *text, const struct promote *p, size_t i,
		      const char *path)
{
	char proc[64], dir[PATH_MAX];
	AUTO_BUF struct buf place = BUF_INIT(3 * PATH_MAX);
	ssize_t n;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", p->layers.items[i].fd);
	n = readlink(proc, dir, sizeof(dir));
	if (n <= 0 || n == sizeof(dir))
		return;
	buf_addf(&place, "%.*s/upper/%s", (int)n, dir, path);
	buf_add_str(text, "; the task's is ");
	report_path(text, buf_str(&place));
}

/* What is said of a path that --held names, or a directory of it. */
static void add_warning(struct buf *text, const struct promote *p, size_t i,
			const struct journal_entry *e, const char *why)
{
	const struct promote_layer *l = &p->layers.items[i];

	buf_add_str(text, "warning: ");
	str_quote(text, e->path, 400);
	if (e->act != ACT_LEAVE) {
		buf_addf(text, " is taken over: %s",
			 why ? why : "what the host has there is replaced");
		return;
	}
	buf_addf(text, " stays held back all the same: %s",
		 l->is_git || judge_is_git(e->path)
			 ? "of git directories commits, references and the "
			   "index alone are promoted"
			 : journal_reason(e));
	if (S_ISREG(e->mode) && e->kind != CHANGE_DELETED)
		add_place(text, p, i, e->path);
}

static int warn_of(struct promote *p, size_t i, const struct journal_entry *e,
		   void *arg)
{
	const struct promote_layer *l = &p->layers.items[i];
	const struct strlist *held = &p->steps[i].held;
	const struct change c = {.path = e->path, .kind = e->kind,
				 .mode = e->mode, .mode_before = e->mode};
	const char *why = protect_reason(l->protect, &c);
	AUTO_BUF struct buf text = BUF_INIT(65536);
	unsigned *n = arg;

	/* Of a directory that was named, what was held back in it. */
	if (why ? !is_in_named(held, e->path)
		: S_ISDIR(e->mode) || !strlist_has(held, e->path))
		return 0;
	if (++*n > SHOWN_MAX) {
		report_note("warning: and more of what --held names");
		return 1;
	}
	add_warning(&text, p, i, e, why);
	report_note(buf_str(&text));
	return 0;
}

int promote_warn(struct promote *p, struct error *err)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->layers.n; i++) {
		if (p->steps[i].counts.away &&
		    strlist_has(&p->steps[i].held, ".git/HEAD"))
			report_note("warning: what the task committed comes "
				    "into the working tree, although the host "
				    "is on another branch or commit than when "
				    "the task began");
	}
	return each_entry(p, warn_of, &n) < 0
		       ? error_set(err, -ENOMEM, "out of memory")
		       : 0;
}

int promote_show(struct promote *p)
{
	struct json_writer *w = &p->json;
	int r;

	if (!p->report.json) {
		each_entry(p, show_final, NULL);
		if (!p->asked)
			say_git(p, &p->report.out);
		r = report_end(&p->report);
		say_sum(p);
		return r;
	}
	json_begin(w, &p->report.out);
	json_object(w);
	json_key(w, "changes");
	json_array(w);
	each_entry(p, show_final, NULL);
	json_array_end(w);
	json_put_bool(w, "dry_run", p->dry);
	json_put_string(w, "id", p->pick.id);
	json_put_uint(w, "planned", p->dry ? promote_to_do(p) : 0);
	json_put_uint(w, "promoted", p->dry ? 0 : promote_to_do(p));
	json_put_string(w, "schema", SCHEMA);
	json_put_text(w, "source", p->pick.record.source);
	json_put_uint(w, "unselected", p->total.unselected);
	json_object_end(w);
	json_finish(w);
	buf_add_char(&p->report.out, '\n');
	return report_end(&p->report);
}
