/*
 * pinfold promote: takes a task's changes over into its source. Says what it is
 * about to do, and asks on a terminal; else --yes is needed. What is not
 * promoted stays in the task.
 */
#include "base/cleanup.h"
#include "base/glob.h"
#include "cli/direct.h"
#include "cli/own.h"
#include "cli/promote_private.h"
#include "workspace/judge.h"
#include "workspace/taken.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void promote_done(struct promote *p)
{
	for (size_t i = 0; p->steps && i < p->layers.n; i++) {
		promotion_done(&p->steps[i].promotion);
		strlist_done(&p->steps[i].only);
		strlist_done(&p->steps[i].held);
	}
	free(p->steps);
	layers_done(&p->layers);
	words_done(&p->words);
	pick_done(&p->pick);
	state_close(&p->state);
	report_done(&p->report);
	buf_done(&p->folded);
}

#define AUTO_PROMOTE __attribute__((cleanup(promote_done)))

/* ---- what was asked for ---- */

/* The path relative to the layer's directory; NULL: it is not below it. */
static const char *below(const struct promote_layer *l, const char *path)
{
	size_t n = strlen(l->source);

	if (path[0] != '/')
		return str_starts(path, "./") ? path + 2 : path;
	return strncmp(path, l->source, n) == 0 && path[n] == '/' ? path + n + 1
								  : NULL;
}

/*
 * Gives a path of the command line to the layer that it lies below: one that is
 * not absolute means the source's.
 */
static int give_path(struct promote *p, const char *text, bool glob,
		     struct error *err)
{
	AUTO_FREE char *path = strdup(text);
	size_t n = path ? strlen(path) : 0;

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	for (size_t i = 0; i < p->layers.n; i++) {
		const char *rest = below(&p->layers.items[i], path);
		struct step *s = &p->steps[i];

		if (!rest)
			continue;
		s->wanted = true;
		return strlist_add(glob ? &s->only : &s->held, rest) < 0
			       ? error_set(err, -ENOMEM, "out of memory")
			       : 0;
	}
	return error_set(err, -EINVAL, "%s is not below what %s could change",
			 text, p->pick.id);
}

/* A path as diff takes it, as the pattern that means it and what is below. */
static int give_word(struct promote *p, const struct words_path *w,
		     struct error *err)
{
	const char *dir = w->layer ? p->pick.write.items[w->layer - 1]
				   : p->pick.record.source;
	AUTO_BUF struct buf pattern = BUF_INIT(1u << 16);

	buf_addf(&pattern, "%s/%s", dir, *w->path ? "" : "**");
	for (const char *c = w->path; *c; c++) {
		if (strchr("*?[\\", *c))
			buf_add_char(&pattern, '\\');
		buf_add_char(&pattern, *c);
	}
	if (pattern.failed)
		return error_set(err, -ENAMETOOLONG, "a path is too long");
	return give_path(p, buf_str(&pattern), true, err);
}

static int check_glob(const char *glob, struct error *err)
{
	const char *fault = glob_fault(glob);
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	if (!fault)
		return 0;
	str_quote(&quoted, glob, 400);
	return error_set(err, -EINVAL, "--only: %s %s", buf_str(&quoted),
			 fault);
}

/* What is to come, and what although it is held back, layer by layer. */
static int give_all(struct promote *p, const struct options *o,
		    struct error *err)
{
	const struct strlist *only = &o->values[OPT_ONLY];
	const struct strlist *held = &o->values[OPT_HELD];
	int r = 0;

	if (p->layers.n == 0 && only->n + held->n + p->words.n > 0)
		return error_set(err, -ENOENT, "%s has no changes to promote",
				 p->pick.id);
	for (size_t i = 0; i < only->n && r == 0; i++)
		r = give_path(p, only->items[i], true, err);
	for (size_t i = 0; i < p->words.n && r == 0; i++)
		r = give_word(p, &p->words.paths[i], err);
	for (size_t i = 0; i < held->n && r == 0; i++)
		r = give_path(p, held->items[i], false, err);
	return r;
}

static int read_wishes(struct promote *p, const struct options *o,
		       struct error *err)
{
	size_t n_only = o->values[OPT_ONLY].n + p->words.n;
	int r;

	p->steps = calloc(p->layers.n + 1, sizeof(*p->steps));
	if (!p->steps)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < p->layers.n; i++) {
		struct step *s = &p->steps[i];

		s->promotion = (struct promotion)PROMOTION_INIT;
		s->want = (struct promote_want){&s->only, &s->held,
						options_has(o, OPT_MERGE)};
		s->wanted = n_only == 0;
	}
	r = give_all(p, o, err);
	for (size_t i = 0; i < p->layers.n && r == 0; i++) {
		for (size_t k = 0; k < p->steps[i].only.n && r == 0; k++)
			r = check_glob(p->steps[i].only.items[k], err);
	}
	return r;
}

/* ---- planning ---- */

struct planning {
	struct step *step;
	const struct promote_layer *layer;
	bool copy;
	struct promote_counts *counts; /* shared with who plans apart */
};

static int plan_in(void *arg, struct error *err)
{
	const struct planning *p = arg;

	return promote_plan(&p->step->promotion, p->layer, &p->step->want,
			    p->copy, p->counts, err);
}

/*
 * An agent can close its files to its own user. Who is not root reads them from
 * a user namespace of its own, in a process apart: this one has to give files
 * to groups that are not known there.
 */
static int plan_step(struct promote *p, size_t i, bool copy, struct error *err)
{
	struct step *s = &p->steps[i];
	struct promote_counts *counts =
		mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct planning planning = {s, &p->layers.items[i], copy, counts};
	int r;

	if (counts == MAP_FAILED)
		return error_errno(err, "out of memory");
	if (geteuid() == 0) {
		r = plan_in(&planning, err);
	} else {
		r = own_apart(plan_in, &planning, err);
		if (r == 0)
			r = promote_take_plan(&s->promotion, err);
	}
	s->counts = *counts;
	munmap(counts, sizeof(*counts));
	return r;
}

static void add_counts(struct promote_counts *sum,
		       const struct promote_counts *c)
{
	sum->added += c->added;
	sum->modified += c->modified;
	sum->deleted += c->deleted;
	for (size_t i = 0; i < ARRAY_SIZE(sum->left); i++)
		sum->left[i] += c->left[i];
	sum->skipped += c->skipped;
	sum->unselected += c->unselected;
	sum->merged += c->merged;
	sum->bytes += c->bytes;
	sum->away += c->away;
	sum->both += c->both;
	/* The order of layers is always the same. */
	sum->digest = sum->digest * 31 + c->digest;
}

static int plan_all(struct promote *p, bool copy, struct error *err)
{
	int r = 0;

	p->total = (struct promote_counts){0};
	for (size_t i = 0; i < p->layers.n && r == 0; i++) {
		struct step *s = &p->steps[i];

		if (!s->wanted)
			continue;
		if (!s->begun) {
			r = promote_begin(&s->promotion, &p->layers.items[i],
					  p->number, err);
			s->begun = r == 0;
		}
		if (r == 0)
			r = plan_step(p, i, copy, err);
		if (r == 0)
			add_counts(&p->total, &s->counts);
	}
	return r;
}

/* ---- doing ---- */

static int commit_all(struct promote *p, struct error *err)
{
	int r = 0;

	p->total = (struct promote_counts){0};
	for (size_t i = 0; i < p->layers.n && r == 0; i++) {
		struct step *s = &p->steps[i];

		if (!s->begun)
			continue;
		r = promote_commit(&s->promotion, &p->layers.items[i],
				   &s->counts, err);
		if (r == 0)
			add_counts(&p->total, &s->counts);
	}
	p->done = r == 0;
	return r;
}

/* Removes what was prepared and not begun. 1 if something else is left. */
static int drop_all(struct promote *p)
{
	int left = 0;

	for (size_t i = 0; i < p->layers.n; i++) {
		struct step *s = &p->steps[i];
		enum journal_phase phase = s->promotion.journal.phase;

		if (!s->begun)
			continue;
		if (phase == JOURNAL_NEW || phase == JOURNAL_NONE)
			left |= promote_drop(&s->promotion,
					     &p->layers.items[i], NULL) < 0;
		else
			left |= phase == JOURNAL_GO || phase == JOURNAL_BACK;
	}
	return left;
}

/* Plans, and says what is wrong with what was named. */
static int plan_and_check(struct promote *p, bool copy, struct error *err)
{
	int r = plan_all(p, copy, err);

	if (r == 0)
		r = promote_check_only(p, err);
	if (r == 0)
		r = promote_check_held(p, err);
	return r == 0 ? promote_warn(p, err) : r;
}

/* 1: it was planned as it is to be done; 0: it is not to be done. */
static int plan_and_ask(struct promote *p, bool yes, struct error *err)
{
	uint64_t digest;
	int r = plan_and_check(p, yes, err);

	if (r < 0 || p->dry || yes)
		return r < 0 ? r : !p->dry;
	r = promote_ask(p, err);
	if (r <= 0 || promote_to_do(p) == 0)
		return r;
	digest = p->total.digest;
	r = plan_all(p, true, err);
	if (r < 0)
		return r;
	if (p->total.digest != digest)
		return error_set(err, -ESTALE,
				 "the source has changed since you were asked: "
				 "look again");
	return 1;
}

static int promote_all(struct promote *p, bool yes, struct error *err)
{
	int r = state_promoting(&p->state, p->pick.id, err);

	if (r < 0)
		return r;
	r = plan_and_ask(p, yes, err);
	if (r > 0 && promote_to_do(p) > 0)
		r = commit_all(p, err);
	else if (r > 0)
		r = 0;
	return r;
}

/* Is nothing left in the task? */
static bool is_all(const struct promote *p)
{
	uint64_t left = p->total.unselected + p->total.skipped;

	for (size_t i = 0; i < LEAVE_CLASSES; i++)
		left += p->total.left[i];
	for (size_t i = 0; i < p->layers.n; i++)
		left += !p->steps[i].wanted;
	return left == 0;
}

/* The number that comes after those of all layers. */
static int next_number(struct promote *p, struct error *err)
{
	for (size_t i = 0; i < p->layers.n; i++) {
		unsigned last;
		int r = taken_last(p->layers.items[i].fd, false, &last);

		if (r < 0)
			return error_set(err, r, "cannot read what was "
						 "promoted: %s",
					 strerror(-r));
		if (last >= p->number)
			p->number = last + 1;
	}
	return 0;
}

static int open_layers(struct promote *p, struct error *err)
{
	int r;

	recover_task(&p->state, &p->pick);
	r = direct_check_settled(&p->pick, err);
	if (r < 0)
		return r;
	direct_say(&p->pick);
	return layers_open(&p->layers, &p->pick, false, err);
}

static int open_all(struct promote *p, const struct options *o,
		    struct error *err)
{
	int r = state_open(&p->state, err);
	size_t n;

	if (r < 0)
		return r;
	recover_all(&p->state);
	n = o->n_rest ? words_count_tasks(&p->state, o->rest, 1) : 0;
	r = pick_task(&p->state, n ? o->rest[0] : NULL, &p->pick, err);
	if (r == 0)
		r = pick_need_record(&p->pick, err);
	if (r == 0)
		r = pick_policy(&p->pick, err);
	if (r == 0)
		r = words_read(&p->words, &p->pick, o->rest + n, o->n_rest - n,
			       err);
	if (r == 0)
		r = open_layers(p, err);
	if (r == 0)
		r = read_wishes(p, o, err);
	return r == 0 ? next_number(p, err) : r;
}

/* What later commands have to know of this one. */
static void note_end(struct promote *p)
{
	if (p->done)
		state_task_mark_promoted(p->pick.fd, is_all(p));
	if (drop_all(p) == 0)
		state_promoted(&p->state, p->pick.id);
}

static int refuse(const struct promote *p, int r, const struct error *err)
{
	report_refuse(err->text);
	if (r == -ENOENT)
		pick_say_other(&p->state, &p->pick);
	return STATUS_REFUSED;
}

/* The exit status: 1 where something that was to come did not. */
static int show(struct promote *p)
{
	bool short_of = p->total.left[LEAVE_CONFLICT] +
				p->total.left[LEAVE_REFUSED] +
				p->total.skipped >
			0;
	int r;

	if (!p->done && !p->dry && promote_to_do(p) > 0) {
		report_note("nothing was promoted");
		return 1;
	}
	r = promote_show(p);
	return r == 0 && short_of ? 1 : r;
}

int verb_promote(const struct options *o)
{
	AUTO_PROMOTE struct promote p = {
		.state = STATE_INIT,
		.pick = PICK_INIT,
		.layers = LAYERS_INIT,
		.number = 1,
		.folded = BUF_INIT(1u << 20),
		.merge = options_has(o, OPT_MERGE),
		.dry = options_has(o, OPT_DRY_RUN),
	};
	struct error err = {0};
	int r;

	r = open_all(&p, o, &err);
	if (r < 0)
		return refuse(&p, r, &err);
	r = report_init(&p.report, o);
	if (r != 0)
		return r;
	r = promote_all(&p, options_has(o, OPT_YES) && !p.dry, &err);
	if (r == 0)
		r = show(&p);
	note_end(&p);
	return r < 0 ? refuse(&p, r, &err) : r;
}
