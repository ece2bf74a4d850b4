/*
 * The plan of a promotion: an entry in the journal for each change that was
 * asked for. A directory that is left takes along what lies in it; one that was
 * not asked for comes if something in it was. changes_scan tells a directory
 * before its content, so a stack of the directories above the current path is
 * all that has to be remembered.
 */
#include "workspace/plan_private.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void plan_done(struct plan *p)
{
	judge_done(&p->judge);
	git_changes_done(&p->git);
	merger_done(&p->merger);
	stage_done(&p->stage);
	tree_done(&p->upper);
	close_fd(p->upper_fd);
	free(p->above);
	buf_done(&p->trail);
}

#define AUTO_PLAN __attribute__((cleanup(plan_done)))

void plan_mix(struct plan *p, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	uint64_t h = p->counts.digest;

	for (size_t i = 0; i < len; i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	p->counts.digest = h;
}

static int fail(struct plan *p, int code, const char *what, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(ERROR_TEXT_MAX * 4);

	str_quote(&quoted, path, 400);
	return error_set(p->err, code, "cannot %s %s: %s", what,
			 buf_str(&quoted),
			 code == -ESTALE ? "it changed while it was read"
					 : strerror(-code));
}

bool plan_is_selected(const struct plan *p, const char *path)
{
	const struct strlist *only = p->want->only;

	if (!only || only->n == 0)
		return true;
	for (size_t i = 0; i < only->n; i++) {
		if (glob_covers(only->items[i], path))
			return true;
	}
	return false;
}

static int descend(struct plan *p, const char *path, const struct above *a)
{
	if (p->depth == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 16;
		struct above *grown =
			reallocarray(p->above, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->above = grown;
		p->cap = cap;
	}
	p->above[p->depth] = *a;
	p->above[p->depth].len = strlen(path);
	buf_reset(&p->trail);
	if (buf_add_str(&p->trail, path) < 0)
		return -ENOMEM;
	p->depth++;
	return 0;
}

static enum journal_act act_of(const struct change *c, const struct stat *old)
{
	if (c->kind == CHANGE_DELETED)
		return ACT_DELETE;
	if (!old->st_ino)
		return ACT_ADD;
	return S_ISDIR(c->mode) && S_ISDIR(old->st_mode) ? ACT_MODE
							  : ACT_REPLACE;
}

static void fill(struct plan *p, const struct change *c,
		 const struct stat *old, struct journal_entry *e)
{
	*e = (struct journal_entry){
		.act = (uint8_t)act_of(c, old),
		.kind = (uint8_t)c->kind,
		.mode = c->mode,
		.old_mode = old->st_mode,
		.old_ino = old->st_ino,
		.old_size = (uint64_t)old->st_size,
		.old_uid = old->st_uid,
		.old_gid = old->st_gid,
		.old_mtime_ns = time_ns(&old->st_mtim),
		.number = p->next++,
		.fresh = p->depth > 0,
	};
	/* Set-id bits stay what they are. */
	if (e->act == ACT_MODE)
		e->mode = S_IFDIR | (c->mode & 01777) |
			  (old->st_mode & 06000);
}

static void count(struct plan *p, const struct journal_entry *e)
{
	p->counts.added += e->kind == CHANGE_ADDED;
	p->counts.modified += e->kind == CHANGE_MODIFIED;
	p->counts.merged += e->merged;
	p->counts.deleted += e->kind == CHANGE_DELETED;
	p->counts.bytes += e->new_size;
}

/* Where a link that comes leads to, for whoever is asked; "": it is none. */
static int read_target(const struct journal_entry *e,
		       const struct change_place *at, char target[PATH_MAX])
{
	ssize_t n = 0;

	if (S_ISLNK(e->mode) && (e->act == ACT_ADD || e->act == ACT_REPLACE))
		n = readlinkat(at->upper_fd, at->name, target, PATH_MAX - 1);
	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? -ESTALE : -errno;
	target[n] = '\0';
	return 0;
}

static int add(struct plan *p, const struct change_place *at,
	       struct journal_entry *e, const char *path)
{
	const uint64_t known[] = {e->act, e->mode, e->old_ino, e->old_size,
				  (uint64_t)e->old_mtime_ns};
	char target[PATH_MAX];
	int r = read_target(e, at, target);

	if (r < 0)
		return fail(p, r, "read", path);
	plan_mix(p, path, strlen(path) + 1);
	plan_mix(p, known, sizeof(known));
	plan_mix(p, target, strlen(target));
	if (e->merged)
		plan_mix(p, buf_str(&p->merger.text), p->merger.text.len);
	if (p->copy && (e->act == ACT_ADD || e->act == ACT_REPLACE))
		r = e->merged ? stage_text(&p->stage, at, e->mode,
					   &p->merger.text, e)
			      : stage_copy(&p->stage, at, e->mode, e);
	if (r < 0)
		return fail(p, r, "copy", path);
	count(p, e);
	r = journal_add(p->journal, e, path, target);
	return r < 0 ? fail(p, r, "note", path) : 0;
}

/* The i-th directory above, which lies at the start of path. */
static int add_above(struct plan *p, size_t i, const char *path)
{
	struct above *a = &p->above[i];
	struct change_place at = {0};
	AUTO_FREE char *dir = NULL;
	int r;

	if (a->fate != FATE_WAITS && a->fate != FATE_OPENS)
		return 0;
	dir = strndup(path, a->len);
	if (!dir)
		return error_set(p->err, -ENOMEM, "out of memory");
	p->counts.unselected -= a->fate == FATE_WAITS;
	at.upper_fd = tree_parent(&p->upper, dir, &at.name);
	if (at.upper_fd < 0)
		return fail(p, at.upper_fd, "open", dir);
	r = add(p, &at, &a->waiting, dir);
	if (r == 0)
		a->fate = FATE_COMES;
	return r;
}

/* The directories above come because something in them does. */
static int add_waiting(struct plan *p, const char *path)
{
	int r = 0;

	for (size_t i = 0; i < p->depth && r == 0; i++)
		r = add_above(p, i, path);
	return r;
}

/*
 * Forgets the directories that do not hold path. One that is empty in the task
 * comes; one of which everything was left does not.
 */
static int rise(struct plan *p, const char *path)
{
	int r = 0;

	while (p->depth > 0 && r == 0) {
		struct above *a = &p->above[p->depth - 1];

		if (strncmp(path, buf_str(&p->trail), a->len) == 0 &&
		    path[a->len] == '/')
			return 0;
		if (a->fate == FATE_OPENS && !a->holds_left)
			r = add_waiting(p, buf_str(&p->trail));
		p->depth--;
	}
	return r;
}

/* Something below the directories above is left. */
static void mark_left(struct plan *p)
{
	for (size_t i = 0; i < p->depth; i++)
		p->above[i].holds_left = true;
}

int plan_leave(struct plan *p, const struct change *c,
	       enum journal_class class, const char *reason)
{
	const struct journal_entry e = {
		.act = ACT_LEAVE,
		.kind = (uint8_t)c->kind,
		.mode = c->mode,
		.class = (uint8_t)class,
	};
	int r;

	plan_mix(p, c->path, strlen(c->path) + 1);
	plan_mix(p, reason, strlen(reason));
	p->counts.left[class]++;
	mark_left(p);
	r = journal_add(p->journal, &e, c->path, reason);
	return r < 0 ? fail(p, r, "note", c->path) : 0;
}

/* Below a directory that is left everything is. */
static int leave_below(struct plan *p, const struct change *c,
		       const struct above *a)
{
	AUTO_BUF struct buf reason = BUF_INIT(2048);

	buf_add_str(&reason, "in ");
	str_quote(&reason, buf_str(&p->trail), 200);
	buf_add_str(&reason, ", which is not promoted");
	return plan_leave(p, c, a->class, buf_str(&reason));
}

/* A directory that is not in the source yet: what it holds depends on it. */
static int enter(struct plan *p, const struct change *c, const struct above *a)
{
	int r = descend(p, c->path, a);

	return r < 0 ? fail(p, r, "note", c->path) : 0;
}

/* Does a directory come where the source has none? */
static bool opens(const struct change *c, const struct stat *old)
{
	return c->kind != CHANGE_DELETED && S_ISDIR(c->mode) &&
	       !S_ISDIR(old->st_mode);
}

static int pass_over(struct plan *p, const struct change *c,
		     const struct stat *old)
{
	struct above a = {.fate = FATE_WAITS, .class = LEAVE_REFUSED};

	p->counts.unselected++;
	if (!opens(c, old))
		return 0;
	fill(p, c, old, &a.waiting);
	/* Nothing is replaced unasked. */
	if (a.waiting.act != ACT_ADD)
		a.fate = FATE_LEFT;
	return enter(p, c, &a);
}

static int take(struct plan *p, const struct change *c, const struct stat *old,
		bool merged)
{
	struct above a = {.fate = FATE_COMES};
	struct journal_entry e;
	int r;

	fill(p, c, old, &e);
	if (opens(c, old) && e.act == ACT_ADD) {
		a.fate = FATE_OPENS;
		a.waiting = e;
		return enter(p, c, &a);
	}
	e.merged = merged;
	e.over_host = p->judge.both;
	if (e.act == ACT_DELETE && !e.old_ino)
		return 0; /* It is gone on both sides. */
	r = add_waiting(p, c->path);
	if (r == 0)
		r = add(p, c->place, &e, c->path);
	return r < 0 || !opens(c, old) ? r : enter(p, c, &a);
}

/*
 * What the host has changed too comes, if it can be merged. 0 then; 1 if it is
 * left, with why added to the judge's reason; or negative.
 */
static int merge(struct plan *p, const struct change *c, const struct stat *old)
{
	struct buf *reason = &p->judge.reason;
	AUTO_BUF struct buf why = BUF_INIT(2048);
	int r;

	p->merger.since_ns = p->judge.since_ns;
	r = merge_file(&p->merger, p->layer, p->stage.fd, c, old, &why,
			   p->err);

	if (r != 1)
		return r;
	buf_addf(reason, "; not merged: %s", buf_str(&why));
	return 1;
}

/* 1: it is part of what is taken over by meaning. */
static int note_git(struct plan *p, const struct change *c)
{
	if (!git_changes_is_part(p->layer, c))
		return 0;
	return git_changes_note(&p->git, &p->judge, c, p->err);
}

/* 0 with *ret if it was merged; 1 if it stays left; or negative. */
static int try_merge(struct plan *p, const struct change *c,
		     const struct stat *old, enum journal_class class,
		     bool *ret)
{
	int r = 1;

	if (p->want->merge && class == LEAVE_CONFLICT && p->judge.both)
		r = merge(p, c, old);
	*ret = r == 0;
	return r;
}

/* What was merged before differs from the host's for good; is it still that? */
static bool is_in_already(const struct plan *p, const struct change *c)
{
	const struct change_place *at = c->place;
	struct stat st;

	return p->judge.both &&
	       fstatat(at->upper_fd, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       taken_merged(&p->judge.taken, c->path, &st);
}

/* What the judge left: as try_merge; or with *ret_done it came before. */
static int reconsider(struct plan *p, const struct change *c,
		      const struct stat *old, enum journal_class class,
		      bool *ret_merged, bool *ret_done)
{
	*ret_done = is_in_already(p, c);
	if (*ret_done)
		return 0;
	return plan_is_selected(p, c->path)
		       ? try_merge(p, c, old, class, ret_merged)
		       : 1;
}

/* It is left where it is, with what will come to lie in it. */
static int stay(struct plan *p, const struct change *c,
		const struct above *left, bool selected, const struct stat *old)
{
	int r = 0;

	p->counts.both += selected && left->class == LEAVE_CONFLICT &&
			  p->judge.both && S_ISREG(c->mode);
	if (selected)
		r = plan_leave(p, c, left->class, buf_str(&p->judge.reason));
	else
		p->counts.unselected++;
	return r < 0 || !opens(c, old) ? r : enter(p, c, left);
}

static int decide(struct plan *p, const struct change *c)
{
	struct above left = {.fate = FATE_LEFT};
	bool selected = plan_is_selected(p, c->path);
	const struct above *top;
	bool merged = false, done = false;
	struct stat old;
	int r;

	r = rise(p, c->path);
	if (r < 0)
		return r;
	top = p->depth ? &p->above[p->depth - 1] : NULL;
	if (top && top->fate == FATE_LEFT) {
		p->counts.unselected += !selected;
		return selected ? leave_below(p, c, top) : 0;
	}
	r = judge_change(&p->judge, c, top != NULL, &left.class, &old, p->err);
	if (r == 1)
		r = reconsider(p, c, &old, left.class, &merged, &done);
	if (r < 0 || done)
		return r;
	if (r == 0)
		return selected ? take(p, c, &old, merged)
				: pass_over(p, c, &old);
	return stay(p, c, &left, selected, &old);
}

static int look_at(void *arg, const struct change *c)
{
	int r = note_git(arg, c);

	return r == 0 ? decide(arg, c) : r < 0 ? r : 0;
}

int plan_make(struct journal *j, int stage_fd, const struct promote_layer *l,
	      const struct promote_want *want, bool copy,
	      struct promote_counts *ret, struct error *err)
{
	AUTO_PLAN struct plan p = {
		.stage = {.fd = stage_fd},
		.journal = j,
		.want = want,
		.copy = copy,
		.trail = BUF_INIT(WALK_PATH_MAX),
		.upper_fd = -1,
		.next = 1,
		.layer = l,
		.git = GIT_CHANGES_INIT,
		.merger = MERGER_INIT,
		.err = err,
	};
	struct changes_counts counts;
	int r;

	p.upper_fd = walk_open_at(l->fd, "upper", O_PATH | O_DIRECTORY);
	tree_init(&p.upper, p.upper_fd);
	if (p.upper_fd < 0)
		return error_set(err, p.upper_fd, "cannot open the layer: %s",
				 strerror(-p.upper_fd));
	r = judge_init(&p.judge, l, want->held, err);
	if (r == 0)
		r = git_away_find(&p.judge, p.upper_fd, stage_fd, err);
	if (r == 0)
		r = changes_scan(l->fd, l->source_fd, l->copied, 0, look_at, &p,
				 &counts, err);
	if (r == 0)
		r = rise(&p, "");
	/* Both have their repository at the same place in the stage. */
	git_lab_done(&p.merger.lab);
	if (r == 0)
		r = plan_git(&p);
	if (r < 0)
		return r;
	p.counts.away = p.judge.away.is;
	*ret = p.counts;
	r = journal_finish(j);
	return r < 0 ? error_set(err, r, "cannot write the journal: %s",
				 strerror(-r))
		     : 0;
}
