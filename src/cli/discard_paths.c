#include "cli/discard_paths.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/own.h"
#include "cli/report.h"
#include "cli/words.h"
#include "workspace/changes.h"
#include "workspace/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct work {
	struct pick *pick;
	struct words words;
	size_t layer;
	uint64_t n;    /* changes that are meant */
	uint64_t left; /* others */
	struct record_changes counts;
};

/* One layer of the task, open. */
struct layer {
	int fd, below;
	bool copied;
};

static void layer_close(struct layer *l)
{
	close_fd(l->fd);
	close_fd(l->below);
}

#define AUTO_LAYER __attribute__((cleanup(layer_close)))
#define LAYER_INIT {.fd = -1, .below = -1}

/* 1, 0: the task has no such layer, or negative. */
static int layer_open(const struct pick *p, size_t i, struct layer *l,
		      struct error *err)
{
	char name[STATE_WRITE_NAME_MAX] = ".";
	const char *recorded = i == 0 ? p->record.source
				      : p->write.items[i - 1];

	if (i > 0)
		state_write_name(i - 1, name);
	l->fd = openat(p->fd, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->fd < 0 ||
	    faccessat(l->fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	l->copied = i == 0 && p->record.workspace &&
		    str_eq(p->record.workspace, "copy");
	if (!recorded)
		return 1;
	l->below = pick_open_below(recorded, err);
	return l->below < 0 ? l->below : 1;
}

static int count(void *arg, const struct change *c)
{
	struct work *w = arg;
	bool meant = words_mean(&w->words, w->layer, c->path);

	if (!meant && c->kind == CHANGE_DELETED && S_ISDIR(c->mode_before))
		meant = words_lead_through(&w->words, w->layer, c->path);
	w->n += meant;
	w->left += !meant;
	w->counts.added += c->kind == CHANGE_ADDED;
	w->counts.modified += c->kind == CHANGE_MODIFIED;
	w->counts.deleted += c->kind == CHANGE_DELETED;
	return 0;
}

static int count_all(struct work *w, struct error *err)
{
	int r = 0;

	w->n = w->left = 0;
	w->counts = (struct record_changes){.known = true};
	for (size_t i = 0; i <= w->pick->write.n && r >= 0; i++) {
		AUTO_LAYER struct layer l = LAYER_INIT;
		struct changes_counts ignored = {0};

		w->layer = i;
		r = layer_open(w->pick, i, &l, err);
		if (r > 0)
			r = changes_scan(l.fd, l.below, l.copied, 0, count, w,
					 &ignored, err);
	}
	return r < 0 ? r : 0;
}

static int ask(const struct work *w, struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(16384);
	int r = report_may_ask("discarding", err);

	if (r < 0)
		return r;
	buf_addf(&text, "discard %llu of the %llu changes of %s?",
		 (unsigned long long)w->n, (unsigned long long)(w->n + w->left),
		 w->pick->id);
	return report_ask(&text);
}

static int restore_all(struct work *w, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < w->words.n && r >= 0; i++) {
		const struct words_path *p = &w->words.paths[i];
		AUTO_LAYER struct layer l = LAYER_INIT;

		r = layer_open(w->pick, p->layer, &l, err);
		if (r > 0)
			r = restore_path(l.fd, l.below, l.copied, p->path, err);
	}
	return r < 0 ? r : 0;
}

/* The record's numbers are those of what is left. */
static int note_rest(struct work *w, struct error *err)
{
	struct record *rec = &w->pick->record;
	int r = count_all(w, err);

	if (r == 0 && w->n + w->left == 0)
		r = state_task_drop_changes(w->pick->fd, err);
	if (r < 0 || !rec->changes.known || rec->state == RECORD_RUNNING)
		return r;
	w->counts.held = rec->changes.held;
	if (w->counts.held > w->n + w->left)
		w->counts.held = w->n + w->left;
	rec->changes = w->counts;
	return record_write(w->pick->fd, rec, err);
}

static int discard(struct work *w, bool yes, uint64_t *ret_n, struct error *err)
{
	int r;

	/* An agent can close its directories to its own user. */
	if (geteuid() != 0)
		own_enter(NULL);
	r = count_all(w, err);
	if (r == 0)
		r = words_check(&w->words, w->pick->id, err);
	if (r < 0)
		return r;
	*ret_n = w->n;
	r = yes ? 1 : ask(w, err);
	if (r <= 0)
		return r;
	r = restore_all(w, err);
	if (r == 0)
		r = note_rest(w, err);
	return r < 0 ? r : 1;
}

int discard_paths(struct pick *p, char *const *words, size_t n, bool yes,
		  uint64_t *ret_n, struct error *err)
{
	AUTO_CLOSE int lock = pick_claim(p, err);
	struct work w = {.pick = p};
	int r;

	if (lock < 0 && lock != -ENOENT)
		return lock;
	r = pick_policy(p, err);
	if (r == 0)
		r = words_read(&w.words, p, words, n, err);
	if (r == 0)
		r = discard(&w, yes, ret_n, err);
	words_done(&w.words);
	return r;
}
