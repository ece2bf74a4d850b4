/*
 * pinfold diff: what a task changed in its source and in the other directories
 * that it could write, each in the order of its paths. Memory does not grow
 * with the number of changes (cli/sorted.h, workspace/renames.h).
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/paths.h"
#include "cli/diff_plan.h"
#include "cli/direct.h"
#include "cli/own.h"
#include "cli/pick.h"
#include "cli/sorted.h"
#include "cli/words.h"
#include "workspace/changes.h"
#include "workspace/git_changes.h"
#include "workspace/protect.h"
#include "workspace/renames.h"
#include "workspace/source.h"
#include "workspace/tree.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-diff-1"

struct diff {
	struct show show;
	const struct state *state;
	const struct pick *pick;
	struct words words;
	struct diff_plan plan;
	size_t layer;		  /* 0: the source, i: write.(i-1) */
	struct protect protect;	  /* of the layer that is shown */
	struct renames renames;	  /* likewise */
	struct tree upper;	  /* likewise */
	char target[PATH_MAX];
	struct buf folded; /* a repository of which one line was shown */
	struct changes_counts total;
	uint64_t held;
	uint64_t left_out; /* of the layer: not part of a patch */
	uint64_t of_git;   /* what git keeps for itself, which is not shown */
	struct error *err;
};

#define KINDS(t) ((t)->added + (t)->modified + (t)->deleted)

/* ---- one change ---- */

static bool is_in_git(const char *path)
{
	return str_eq(path, ".git") || str_starts(path, ".git/");
}

/*
 * What git apply would refuse as a whole is not part of a patch, unless it was
 * asked for by its name: what lies in git's own directory, and other trees.
 */
static bool is_left_out(const struct diff *d, const struct change *c)
{
	return d->show.how == SHOW_PATCH && !d->show.report.json &&
	       d->words.n == 0 && (d->layer > 0 || is_in_git(c->path));
}

/*
 * Objects, logs and the like are not shown beside the references that they belong
 * to, unless they were asked for; nor are the directories of these.
 */
static bool shows_meaning(const struct diff *d)
{
	return d->layer == 0 && d->words.n == 0 && !d->show.report.json &&
	       d->show.how != SHOW_PATCH;
}

static bool is_of_git(const struct diff *d, const struct change *c)
{
	const char *rest = c->path + strlen(".git/");

	if (!str_starts(c->path, ".git/") || d->protect.no_repository)
		return false;
	if (str_starts(rest, "refs/"))
		return S_ISDIR(c->mode) && c->kind == CHANGE_ADDED;
	return git_is_derived(rest) || (git_is_bookkeeping(rest) &&
					!protect_reason(&d->protect, c));
}

/* The commits of references that are named are shown as a patch. */
static bool shows_commits(const struct diff *d)
{
	return d->show.how == SHOW_PATCH && d->words.n > 0 &&
	       !d->show.report.json && d->plan.open;
}

/* Where a link leads to. What cannot be read is not told. */
static void note_target(struct diff *d, const struct change *c,
			struct show_notes *notes)
{
	const char *source = d->layer ? d->show.prefix : d->pick->record.source;
	const char *name;
	int dir_fd;
	ssize_t n;

	if (c->kind == CHANGE_DELETED || !S_ISLNK(c->mode))
		return;
	dir_fd = tree_parent(&d->upper, c->path, &name);
	if (dir_fd < 0)
		return;
	n = readlinkat(dir_fd, name, d->target, sizeof(d->target) - 1);
	if (n < 0)
		return;
	d->target[n] = '\0';
	notes->target = d->target;
	notes->leaves = source && source_link_leaves(source, c->path,
						     d->target);
}

static int show_one(struct diff *d, const struct change *c)
{
	struct show_notes notes = {
		.held = protect_reason(&d->protect, c),
	};

	if (c->kind == CHANGE_ADDED)
		notes.from = renames_from(&d->renames, c->path);
	if (c->kind == CHANGE_DELETED)
		notes.to = renames_to(&d->renames, c->path);
	note_target(d, c, &notes);
	diff_plan_note(&d->plan, c->path, &notes);
	return show_change(&d->show, c, &notes, d->err);
}

static int show_deleted(void *arg, const struct change *c)
{
	struct diff *d = arg;

	return words_mean(&d->words, d->layer, c->path) ? show_one(d, c) : 0;
}

static void count(struct diff *d, const struct change *c)
{
	struct show_notes notes = {.held = protect_reason(&d->protect, c)};

	diff_plan_note(&d->plan, c->path, &notes);
	d->held += notes.held != NULL;
	d->total.added += c->kind == CHANGE_ADDED;
	d->total.modified += c->kind == CHANGE_MODIFIED;
	d->total.deleted += c->kind == CHANGE_DELETED;
}

/* Is its meaning shown: what is promoted of it, or its commits? */
static bool is_told_otherwise(const struct diff *d, const struct change *c)
{
	if (d->layer > 0 || d->protect.no_repository ||
	    !diff_plan_is_reference(c->path))
		return false;
	return (shows_meaning(d) && d->plan.known) || shows_commits(d);
}

/* How many bytes of its path name a repository that stays as a whole; or 0. */
static size_t find_repository(const struct diff *d, const struct change *c)
{
	if (d->words.n > 0 || d->show.report.json ||
	    d->show.how == SHOW_PATCH || d->show.how == SHOW_TREE)
		return 0;
	return diff_plan_repository(&d->plan, c->path,
				    d->protect.no_repository);
}

static int print_repository(struct diff *d, const struct change *c,
			    const char *dir)
{
	const char *prefix = d->show.prefix;
	AUTO_FREE char *path = str_format("%s%s%s", prefix ? prefix : "",
					  prefix ? "/" : "", dir);
	AUTO_BUF struct buf text = BUF_INIT(65536);
	struct show_notes notes = {0};

	if (!path)
		return -ENOMEM;
	diff_plan_note(&d->plan, c->path, &notes);
	report_path(&text, path);
	report_files(&text, diff_plan_files(&d->plan, dir));
	buf_addf(&text, "  held back: %s\n", notes.held ? notes.held : "");
	return show_line(&d->show, c->kind, buf_str(&text));
}

/*
 * One line for all of a repository that stays in the task. 1: it is there; 0: c
 * is no part of one; or negative.
 */
static int show_repository(struct diff *d, const struct change *c)
{
	size_t n = find_repository(d, c);
	AUTO_FREE char *dir = n ? strndup(c->path, n) : NULL;
	int r;

	if (n == 0)
		return 0;
	if (!dir)
		return -ENOMEM;
	if (str_eq(buf_str(&d->folded), dir))
		return 1;
	buf_reset(&d->folded);
	buf_add_str(&d->folded, dir);
	r = print_repository(d, c, dir);
	return r < 0 ? r : 1;
}

static bool is_meant(struct diff *d, const struct change *c,
		     bool deleted_directory)
{
	return words_mean(&d->words, d->layer, c->path) ||
	       (deleted_directory &&
		words_lead_through(&d->words, d->layer, c->path));
}

/* A patch has no directories: they are gone with what they held. */
static int show_deleted_directory(struct diff *d, const struct change *c)
{
	return d->show.how == SHOW_PATCH && !d->show.report.json
		       ? patcher_each_below(d->show.patcher, c, show_deleted, d,
					    d->err)
		       : show_one(d, c);
}

static int show(void *arg, const struct change *c)
{
	struct diff *d = arg;
	bool deleted_directory = c->kind == CHANGE_DELETED &&
				 S_ISDIR(c->mode_before);
	int r;

	if (!is_meant(d, c, deleted_directory))
		return 0;
	if (shows_meaning(d) && is_of_git(d, c)) {
		d->of_git++;
		return 0;
	}
	if (is_told_otherwise(d, c))
		return 0;
	count(d, c);
	r = show_repository(d, c);
	if (r != 0)
		return r < 0 ? r : 0;
	if (is_left_out(d, c)) {
		d->left_out++;
		return 0;
	}
	return deleted_directory ? show_deleted_directory(d, c)
				 : show_one(d, c);
}

/* ---- one layer ---- */

static int remark_left_out(struct diff *d)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	AUTO_BUF struct buf where = BUF_INIT(65536);

	if (d->left_out == 0)
		return 0;
	report_path(&where, d->layer ? d->show.prefix : ".git");
	buf_addf(&text, "# %llu change%s in %s %s not shown: pinfold diff "
			"--patch %s %s",
		 (unsigned long long)d->left_out, d->left_out == 1 ? "" : "s",
		 buf_str(&where), d->left_out == 1 ? "is" : "are", d->pick->id,
		 buf_str(&where));
	d->left_out = 0;
	return show_remark(&d->show, buf_str(&text));
}

static int show_changes(struct diff *d, struct sorted *sorted,
			struct error *err)
{
	bool source = d->layer == 0;
	int r = source && shows_meaning(d)
			? diff_plan_references(&d->plan, &d->show, &d->total)
			: 0;

	if (r == 0)
		r = sorted_each(sorted, show, d);
	if (r == 0 && source && shows_commits(d))
		r = diff_plan_commits(&d->plan, &d->show, &d->words,
				      &d->total, err);
	return r == 0 ? remark_left_out(d) : r;
}

static int show_sorted(struct diff *d, struct sorted *sorted, int upper,
		       int below, struct error *err)
{
	AUTO_PATCHER struct patcher patcher = PATCHER_INIT;
	int r = 0;

	if (d->show.how == SHOW_PATCH)
		r = patcher_init(&patcher, upper, below, err);
	if (r < 0)
		return r;
	renames_init(&d->renames, upper, below);
	tree_init(&d->upper, upper);
	r = sorted_each(sorted, renames_add, &d->renames);
	if (r == 0)
		renames_find(&d->renames);
	buf_reset(&d->folded);
	d->show.patcher = &patcher;
	d->err = err;
	err->code = 0;
	if (r == 0)
		r = show_changes(d, sorted, err);
	renames_done(&d->renames);
	tree_done(&d->upper);
	if (r < 0 && !d->show.report.failed && err->code == 0)
		error_set(err, r, "cannot show the changes: %s", strerror(-r));
	return r;
}

/*
 * One layer: upper below layer_fd, over the host's directory recorded, where
 * globs are what the policy protects. What does not fit in memory is sorted in
 * a file in the task's directory.
 */
static int show_layer(struct diff *d, int layer_fd, const char *recorded,
		      bool copied, const struct strlist *globs,
		      struct error *err)
{
	AUTO_SORTED struct sorted sorted;
	struct changes_counts counts = {0};
	struct error failure = {0};
	AUTO_CLOSE int below = -1;
	AUTO_CLOSE int upper = -1;
	uint64_t held = d->held;
	int r, shown;

	sorted_init(&sorted, layer_fd);
	if (d->show.how == SHOW_TREE)
		sorted.compare = path_compare;
	if (recorded) {
		below = pick_open_below(recorded, err);
		if (below < 0)
			return below;
	}
	upper = walk_open_at(layer_fd, "upper", O_PATH | O_DIRECTORY);
	if (upper < 0)
		return error_set(err, upper, "cannot open upper of %s: %s",
				 d->pick->id, strerror(-upper));
	r = protect_init(&d->protect, globs, below, err);
	if (r < 0)
		return r;
	/* Nothing is hidden of further directories. */
	d->protect.hidden = d->layer == 0 ? &d->pick->hidden : NULL;
	r = changes_scan(layer_fd, below, copied, 0, sorted_add, &sorted,
			 &counts, err);
	diff_plan_begin(&d->plan, layer_fd);
	/* Of a scan that failed, what it found is shown all the same. */
	shown = show_sorted(d, &sorted, upper, below, &failure);
	/* Of all of them it is the number that promote has. */
	if (d->plan.known && d->words.n == 0)
		d->held = held + diff_plan_held(&d->plan);
	diff_plan_end(&d->plan);
	protect_done(&d->protect);
	if (d->show.report.failed)
		return 0; /* report_end says it. */
	if (shown < 0) {
		r = shown;
		*err = failure;
	}
	d->total.bytes += counts.bytes;
	d->total.inodes += counts.inodes;
	return r;
}

static bool has_layer(int fd, const char *name)
{
	return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_wanted(const struct diff *d, size_t layer)
{
	return d->words.n == 0 || words_name_layer(&d->words, layer);
}

static int show_layers(struct diff *d, struct error *err)
{
	const struct pick *p = d->pick;
	const struct record *rec = &p->record;
	bool copied = rec->workspace && str_eq(rec->workspace, "copy");
	int r = 0;

	if (has_layer(p->fd, "upper") && is_wanted(d, 0))
		r = show_layer(d, p->fd, rec->source, copied, &p->protect, err);
	for (size_t i = 0; i < p->write.n && r == 0; i++) {
		char name[STATE_WRITE_NAME_MAX];
		AUTO_CLOSE int fd = -1;

		state_write_name(i, name);
		if (!has_layer(p->fd, name) || !is_wanted(d, i + 1))
			continue;
		fd = openat(p->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW |
						 O_CLOEXEC);
		if (fd < 0)
			return error_errno(err, "cannot open %s", name);
		d->layer = i + 1;
		d->show.prefix = p->write.items[i];
		r = show_layer(d, fd, d->show.prefix, false, NULL, err);
	}
	return r;
}

/* ---- beginning and end ---- */

static void begin_json(struct diff *d)
{
	struct json_writer *w = &d->show.json;

	json_begin(w, &d->show.report.out);
	json_object(w);
	json_key(w, "changes");
	json_array(w);
}

static void end_json(struct diff *d)
{
	struct json_writer *w = &d->show.json;
	const struct pick *p = d->pick;

	json_array_end(w);
	json_key(w, "counts");
	json_object(w);
	json_put_uint(w, "added", d->total.added);
	json_put_uint(w, "bytes", d->total.bytes);
	json_put_uint(w, "deleted", d->total.deleted);
	json_put_uint(w, "held", d->held);
	json_put_uint(w, "inodes", d->total.inodes);
	json_put_uint(w, "modified", d->total.modified);
	json_object_end(w);
	json_put_string(w, "id", p->id);
	json_put_string(w, "schema", SCHEMA);
	json_put_text(w, "source", p->record.source);
	json_put_string(w, "state", p->alive ? "running"
					     : record_state_name(
						       p->record.state));
	json_object_end(w);
	json_finish(w);
	buf_add_char(&d->show.report.out, '\n');
}

static void end_text(struct diff *d)
{
	struct buf *out = &d->show.report.out;
	AUTO_BUF struct buf text = BUF_INIT(256);

	direct_say(d->pick);
	if (d->of_git > 0) {
		bool one = d->of_git == 1;

		buf_addf(&text, "beside these, %llu change%s in .git %s git's "
				"own; pinfold diff %s .git shows %s",
			 (unsigned long long)d->of_git, one ? "" : "s",
			 one ? "is" : "are", d->pick->id, one ? "it" : "them");
		report_note(buf_str(&text));
		if (KINDS(&d->total) == 0)
			return;
	} else if (KINDS(&d->total) == 0) {
		buf_addf(&text, direct_is(d->pick)
					? "nothing of %s was held back"
					: "%s has no changes",
			 d->pick->id);
		report_note(buf_str(&text));
		pick_say_other(d->state, d->pick);
		return;
	}
	if (d->show.how != SHOW_STAT)
		return;
	buf_addf(out, "%llu changed: %llu added, %llu modified, %llu deleted; ",
		 (unsigned long long)KINDS(&d->total),
		 (unsigned long long)d->total.added,
		 (unsigned long long)d->total.modified,
		 (unsigned long long)d->total.deleted);
	if (d->held > 0)
		buf_addf(out, "%llu of them held back; ",
			 (unsigned long long)d->held);
	buf_add_str(out, "the layer holds ");
	num_human_size(out, d->total.bytes);
	buf_add_char(out, '\n');
}

static int show_all(struct diff *d)
{
	struct report *report = &d->show.report;
	struct error err = {0};
	int r;

	diff_plan_open(&d->plan, d->pick);
	/* Where this is blocked a closed directory is an error, by its name. */
	if (geteuid() != 0)
		own_enter(NULL);
	if (report->json)
		begin_json(d);
	r = show_layers(d, &err);
	if (r == 0 && !report->failed)
		r = words_check(&d->words, d->pick->id, &err);
	if (r != 0) {
		report_end(report);
		report_refuse(err.text);
		if (r == -ENOENT && d->words.n > 0)
			pick_say_other(d->state, d->pick);
		return STATUS_REFUSED;
	}
	if (report->json)
		end_json(d);
	else
		end_text(d);
	return report_end(report);
}

static enum show_how how_of(const struct options *o)
{
	if (options_has(o, OPT_PATCH))
		return SHOW_PATCH;
	if (options_has(o, OPT_TREE))
		return SHOW_TREE;
	return options_has(o, OPT_STAT) ? SHOW_STAT : SHOW_LINES;
}

static int pick_all(const struct state *state, const struct options *o,
		    struct pick *p, struct words *words, struct error *err)
{
	size_t n = o->n_rest > 0 ? words_count_tasks(state, o->rest, 1) : 0;
	int r = pick_task(state, n > 0 ? o->rest[0] : NULL, p, err);

	/* Another version's task is shown too, by the built-in table. */
	if (r == 0 && pick_policy(p, err) < 0)
		report_note(err->text);
	if (r == 0)
		r = words_read(words, p, o->rest + n, o->n_rest - n, err);
	return r;
}

int verb_diff(const struct options *o)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_PICK struct pick p = PICK_INIT;
	struct diff d = {.state = &state,
			 .pick = &p,
			 .show = {.how = how_of(o), .open = BUF_INIT(1u << 26)},
			 .plan = DIFF_PLAN_INIT,
			 .folded = BUF_INIT(1u << 20),
			 .protect = PROTECT_INIT};
	struct error err = {0};
	int r;

	if (state_open(&state, &err) < 0)
		return report_refuse(err.text);
	recover_all(&state);
	if (pick_all(&state, o, &p, &d.words, &err) < 0) {
		words_done(&d.words);
		return report_refuse(err.text);
	}
	recover_task(&state, &p);
	r = report_init(&d.show.report, o);
	if (r == 0) {
		d.show.terminal = isatty(d.show.report.fd) == 1;
		r = show_all(&d);
		report_done(&d.show.report);
	}
	diff_plan_done(&d.plan);
	words_done(&d.words);
	buf_done(&d.show.open);
	buf_done(&d.folded);
	return r;
}
