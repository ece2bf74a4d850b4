/*
 * What becomes of the source's repository: which references may be taken over,
 * by what was asked for, by what the host has done since, and by what their
 * commits are (git_lab.h); then the journal's entries (git_stage.h).
 */
#include "base/cleanup.h"
#include "workspace/git_lab.h"
#include "workspace/git_log.h"
#include "workspace/git_stage.h"
#include "workspace/plan_private.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- before anything of the task's is read ---- */

/* Nobody asked for it: it is neither taken nor told of. */
static void pass_over(struct git_ref *r)
{
	r->left = true;
	free(r->why);
	r->why = NULL;
}

static int conflict_head(struct plan *p, struct git_ref *r)
{
	return git_ref_leave(r, LEAVE_CONFLICT,
			     "%s since the task began; what the task committed "
			     "stays out of the working tree: check out its "
			     "branch first, or --held .git/HEAD",
			     buf_str(&p->judge.away.where));
}

static int conflict_moved(struct git_ref *r, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_show(&quoted, path, strlen(path));
	return git_ref_leave(r, LEAVE_CONFLICT,
			     "moved on the host since the task began%s%.*s; "
			     "--held %s takes the task's side",
			     r->old.id[0] ? ", to " : "", 7, r->old.id,
			     buf_str(&quoted));
}

struct clash {
	const char *name;
	char with[GIT_NAME_MAX];
};

static int find_below(void *arg, const char *name)
{
	struct clash *c = arg;

	snprintf(c->with, sizeof(c->with), "%s", name);
	return 1;
}

/* Does the host have a reference that cannot be beside this one? */
static int find_clash(struct git_repo *repo, struct clash *c)
{
	struct git_value value;
	int r;

	for (size_t i = 0; i < repo->packed.n; i++) {
		if (git_names_clash(c->name, repo->packed.refs[i].name))
			return find_below(c, repo->packed.refs[i].name);
	}
	for (const char *at = c->name + 5; (at = strchr(at, '/')); at++) {
		char above[GIT_NAME_MAX];

		snprintf(above, sizeof(above), "%.*s", (int)(at - c->name),
			 c->name);
		r = git_repo_value(repo, above, &value);
		if (r == 0 && value.loose)
			return find_below(c, above);
	}
	return git_repo_each_loose(repo, c->name, find_below, c);
}

static int judge_place(struct plan *p, struct git_ref *r)
{
	struct git_repo *repo = &p->git.repo;
	const char *tree = git_repo_elsewhere(repo, r->name);
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	struct clash c = {.name = r->name};
	int e;

	if (tree) {
		str_quote(&quoted, tree, 200);
		return git_ref_leave(r, LEAVE_CONFLICT,
				     "the working tree %s of the host is on it",
				     buf_str(&quoted));
	}
	if (r->old.id[0] || !r->new[0])
		return 0;
	e = find_clash(repo, &c);
	if (e == 0 && r->old.dir)
		return git_ref_leave(r, LEAVE_CONFLICT,
				     "on the host a directory is in its place, "
				     "without a reference in it: remove it "
				     "there");
	if (e <= 0)
		return e;
	str_quote(&quoted, c.with, 200);
	return git_ref_leave(r, LEAVE_CONFLICT, "the host has %s in its way",
			     buf_str(&quoted));
}

struct rival {
	struct git_repo *repo;
	char form[GIT_NAME_MAX], name[GIT_NAME_MAX + 32];
};

static int find_rival(void *arg, const char *form, const char *name)
{
	struct rival *v = arg;
	struct git_value value;
	int r = git_repo_value(v->repo, name, &value);

	/* One that refers to another one is one too: origin/HEAD. */
	if (r != -EBADMSG && (r < 0 || !value.id[0]))
		return r;
	snprintf(v->form, sizeof(v->form), "%s", form);
	snprintf(v->name, sizeof(v->name), "%s", name);
	return 1;
}

/*
 * A new name may not take the place of one that the host knows, nor be taken
 * for one: git says so at best, and goes on.
 */
static int judge_shadow(struct plan *p, struct git_ref *r)
{
	AUTO_BUF struct buf form = BUF_INIT(4096);
	AUTO_BUF struct buf name = BUF_INIT(4096);
	struct rival v = {.repo = &p->git.repo};
	int e;

	if (r->old.id[0] || !r->new[0])
		return 0;
	e = git_name_each_rival(r->name, find_rival, &v);
	if (e <= 0)
		return e;
	str_quote(&form, v.form, 200);
	str_quote(&name, v.name, 200);
	return git_ref_leave(r, LEAVE_GIT_HELD,
			     "%s would mean this one or %s, which the host has",
			     buf_str(&form), buf_str(&name));
}

/* What holds unless it was named. */
static int judge_unnamed(struct plan *p, struct git_ref *r, const char *path)
{
	const struct change c = {.path = path, .kind = CHANGE_MODIFIED,
				 .mode = S_IFREG, .mode_before = S_IFREG};
	const char *held = protect_reason(p->layer->protect, &c);

	if (held)
		return git_ref_leave(r, LEAVE_GIT_HELD, "%s", held);
	/* HEAD that came back is where it was, whatever its file's time says. */
	if (str_eq(r->name, "HEAD"))
		return p->judge.away.is ? conflict_head(p, r) : 0;
	return r->moved ? conflict_moved(r, path) : judge_shadow(p, r);
}

static int judge_kind(struct git_ref *r)
{
	const char *why = git_name_kind(r->name);

	if (!why)
		return 0;
	if (!r->moved)
		return git_ref_leave(r, LEAVE_GIT_HELD, "%s", why);
	/* The host fetched; the task only has an older list. */
	pass_over(r);
	return 0;
}

static int judge_ref(struct plan *p, struct git_ref *r)
{
	bool head = str_eq(r->name, "HEAD");
	char path[GIT_NAME_MAX + 8];
	int e = 0;

	git_ref_path(r, path);
	if (!plan_is_selected(p, path)) {
		p->counts.unselected++;
		pass_over(r);
	}
	r->named = p->want->held && strlist_has(p->want->held, path);
	if (!r->left && !head)
		e = judge_kind(r);
	if (e == 0 && !r->left && !r->named)
		e = judge_unnamed(p, r, path);
	return e == 0 && !r->left && !head ? judge_place(p, r) : e;
}

static bool is_deleted(const struct git_ref *r)
{
	return !r->new[0] && !r->new_ref[0] && r->old.id[0];
}

/*
 * A rename from x to x/y, or back: git does not have both, so the new one waits
 * for the host; then the old one has to wait with it.
 */
static int judge_rename(struct git_ref *from, struct git_ref *to)
{
	AUTO_BUF struct buf a = BUF_INIT(4096);
	AUTO_BUF struct buf b = BUF_INIT(4096);
	int r;

	str_quote(&a, from->name, 200);
	str_quote(&b, to->name, 200);
	r = git_ref_leave(from, LEAVE_CONFLICT,
			  "in its place the task has %s, which cannot come "
			  "while this one is there",
			  buf_str(&b));
	return r < 0 ? r
		     : git_ref_leave(to, LEAVE_CONFLICT,
				     "the host has %s in its way: rename it "
				     "there",
				     buf_str(&a));
}

static int judge_renames(struct git_changes *g)
{
	int r = 0;

	for (size_t i = 0; i < g->n * g->n && r == 0; i++) {
		struct git_ref *from = &g->refs[i / g->n],
			       *to = &g->refs[i % g->n];

		/* One that nobody asked for is left without a reason. */
		if (is_deleted(from) && to->new[0] && !to->old.id[0] &&
		    (!to->left || to->why) && !from->left &&
		    git_names_clash(from->name, to->name))
			r = judge_rename(from, to);
	}
	return r;
}

/* What is in the way of all references. NULL: nothing. */
static const char *obstacle(const struct plan *p)
{
	const struct git_changes *g = &p->git;

	if (g->too_many)
		return "the task changed more than 1000 references";
	if (g->packed_bad)
		return "the task's packed-refs is none that git wrote";
	return NULL;
}

/* In the middle of a merge or the like, HEAD and its branch stay. */
static int judge_busy(struct plan *p)
{
	struct git_changes *g = &p->git;
	const char *task = g->busy, *host = g->repo.busy;
	struct git_ref *refs[] = {git_changes_find(g, "HEAD"),
				  git_changes_find(g, g->repo.head.ref)};
	int r = 0;

	for (size_t i = 0; (task || host) && i < 2 && r == 0; i++) {
		if (refs[i] && !refs[i]->left)
			r = git_ref_leave(refs[i], LEAVE_CONFLICT,
					  "%s is in the middle of %s",
					  task ? "the task" : "the host",
					  task ? task : host);
	}
	return r;
}

static int judge_all(struct plan *p)
{
	const char *in_the_way = obstacle(p);
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	int r = 0;

	for (size_t i = 0; i < p->git.n && r == 0; i++) {
		struct git_ref *ref = &p->git.refs[i];

		r = judge_ref(p, ref);
		if (r == 0 && in_the_way && !ref->left)
			r = git_ref_leave(ref, LEAVE_REFUSED, "%s",
					  in_the_way);
		if (r != 0 || !p->git.special || ref->left)
			continue;
		buf_reset(&quoted);
		str_quote(&quoted, p->git.special, 200);
		r = git_ref_leave(ref, LEAVE_REFUSED,
				  "among the task's objects %s is no file",
				  buf_str(&quoted));
	}
	if (r == 0)
		r = judge_renames(&p->git);
	return r == 0 ? judge_busy(p) : r;
}

/* A stash is what its log says. */
static int judge_stash(struct plan *p)
{
	struct git_changes *g = &p->git;
	struct git_ref *r = git_changes_find(g, "refs/stash");

	if (!r || r->left || !r->new[0] ||
	    (g->has_stash &&
	     git_log_is_one(&g->stash, g->repo.id_len, r->new, GIT_STASH_MAX)))
		return 0;
	return git_ref_leave(r, LEAVE_REFUSED,
			     g->has_stash
				     ? "its log is none, or not of what it is "
				       "now"
				     : "it came without its log, which is what "
				       "a stash consists of");
}

/* ---- what is checked out ---- */

struct out {
	struct git_ref *head;	/* HEAD itself changes; or NULL */
	struct git_ref *branch; /* the branch that will be checked out */
	char old[GIT_ID_MAX + 1], new[GIT_ID_MAX + 1];
};

static struct git_ref *find_taken(struct git_changes *g, const char *name)
{
	struct git_ref *r = *name ? git_changes_find(g, name) : NULL;

	return r && !r->left ? r : NULL;
}

static int read_value(struct git_repo *repo, const char *name,
		      char id[GIT_ID_MAX + 1])
{
	struct git_value value = {0};
	int r = *name ? git_repo_value(repo, name, &value) : 0;

	memcpy(id, value.id, sizeof(value.id));
	return r == -EBADMSG ? 0 : r;
}

/* HEAD only goes to a branch that is there then. */
static int follow(struct git_changes *g, struct out *o)
{
	struct git_ref *all = git_changes_find(g, o->head->new_ref);
	char id[GIT_ID_MAX + 1];
	int r = read_value(&g->repo, o->head->new_ref, id);

	if (r < 0)
		return r;
	if (git_repo_elsewhere(&g->repo, o->head->new_ref) ||
	    (all && (all->left || (!all->new[0] && o->old[0]))) ||
	    (!all && !id[0] && o->old[0])) {
		o->head->left = false;
		r = git_ref_leave(o->head, LEAVE_CONFLICT,
				  "its branch is not taken over");
		o->head = NULL;
	}
	return r;
}

/* The branch that is checked out is not deleted, as git does not. */
static int find_branch(struct git_changes *g, struct out *o, const char *name)
{
	o->branch = find_taken(g, name);
	if (!o->branch || o->branch->new[0] || !o->old[0])
		return 0;
	if (git_ref_leave(o->branch, LEAVE_CONFLICT,
			  "the host has it checked out") < 0)
		return -ENOMEM;
	o->branch = NULL;
	return 0;
}

static int find_out(struct git_changes *g, struct out *o)
{
	struct git_head *now = &g->repo.head;
	const char *name;
	int r;

	*o = (struct out){.head = find_taken(g, "HEAD")};
	r = git_repo_out(&g->repo, o->old);
	if (r == -EBADMSG)
		r = 0;
	if (r == 0 && o->head && o->head->new_ref[0])
		r = follow(g, o);
	if (r < 0)
		return r;
	name = o->head ? o->head->new_ref : now->ref;
	r = find_branch(g, o, name);
	if (r < 0)
		return r;
	if (o->branch)
		memcpy(o->new, o->branch->new, sizeof(o->new));
	else if (*name)
		r = read_value(&g->repo, name, o->new);
	else
		memcpy(o->new, o->head ? o->head->new : now->id,
		       sizeof(o->new));
	return r;
}

static bool is_named(const struct git_ref *r)
{
	return r && r->named;
}

/* What is checked out stays, for its index cannot be made. */
static int leave_out(struct git_lab *lab, struct out *o, const struct buf *why)
{
	struct git_ref *refs[] = {o->branch, o->head};
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++) {
		if (refs[i] && !refs[i]->left)
			r = git_ref_leave(refs[i], LEAVE_CONFLICT,
					  "the index of the host is in its "
					  "way: %s",
					  buf_str(why));
	}
	return r < 0 ? r : find_out(lab->g, o);
}

/*
 * The index belongs to what is checked out, or that stays: then another branch,
 * on which the host is now, may still move. 1: there is a new index.
 */
static int make_index(struct git_lab *lab, struct out *o)
{
	while (!str_eq(o->old, o->new)) {
		AUTO_BUF struct buf why = BUF_INIT(2048);
		int r = git_lab_index(lab, o->old, o->new,
				      is_named(o->branch) || is_named(o->head),
				      &why);

		if (r <= 0)
			return r < 0 ? r : 1;
		if (!o->branch && !o->head)
			return 0;
		r = leave_out(lab, o, &why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- all ---- */

static int leave_all(struct plan *p)
{
	int r = 0;

	for (size_t i = 0; i < p->git.n && r == 0; i++) {
		struct git_ref *ref = &p->git.refs[i];
		char path[GIT_NAME_MAX + 8];
		const struct change c = {
			.path = path,
			.kind = !ref->old.id[0]	 ? CHANGE_ADDED
				: !ref->new[0]	 ? CHANGE_DELETED
						 : CHANGE_MODIFIED,
			.mode = S_IFREG,
		};

		git_ref_path(ref, path);
		if (ref->left && ref->why)
			r = plan_leave(p, &c, ref->class, ref->why);
	}
	return r;
}

/* Why paths were left, named where the task has not changed HEAD itself. */
static int leave_head(struct plan *p)
{
	const struct change c = {.path = ".git/HEAD", .kind = CHANGE_MODIFIED,
				 .mode = S_IFREG};
	struct git_ref head = {.name = "HEAD"};
	int r;

	if (p->judge.away.kept == 0 || git_changes_find(&p->git, "HEAD") ||
	    !plan_is_selected(p, c.path))
		return 0;
	r = conflict_head(p, &head);
	if (r == 0)
		r = plan_leave(p, &c, head.class, head.why);
	free(head.why);
	return r;
}

static int take(struct plan *p)
{
	AUTO_GIT_LAB struct git_lab lab = {.fd = -1};
	struct git_stage stage = {.plan = p, .lab = &lab};
	struct out out;
	int r = git_lab_open(&lab, p->layer->git, &p->git, p->stage.fd,
			     p->err);

	if (r == 0)
		r = git_lab_check(&lab, p->layer);
	if (r == 0)
		r = find_out(&p->git, &out);
	if (r == 0)
		r = make_index(&lab, &out);
	if (r >= 0 && git_lab_lacked(&lab) < 0)
		r = -ENOSPC;
	if (r < 0)
		return r;
	stage.index = r > 0;
	stage.head_old = out.old;
	stage.head_new = out.new;
	r = git_stage_all(&stage);
	git_stage_done(&stage);
	return r;
}

static bool has_any(const struct git_changes *g)
{
	for (size_t i = 0; i < g->n; i++) {
		if (!g->refs[i].left)
			return true;
	}
	return false;
}

static int leave_repository(struct plan *p)
{
	AUTO_BUF struct buf why = BUF_INIT(2048);
	const struct change c = {.path = ".git", .kind = CHANGE_MODIFIED,
				 .mode = S_IFDIR};

	buf_addf(&why, "what was committed is not taken over: %s",
		 buf_str(&p->git.why));
	return plan_leave(p, &c, LEAVE_GIT_HELD, buf_str(&why));
}

static int take_over(struct plan *p)
{
	int r = git_changes_open_objects(&p->git, p->upper_fd);

	if (r == 0)
		r = git_changes_resolve(&p->git, &p->judge, p->err);
	if (r == 0)
		r = judge_all(p);
	if (r == 0)
		r = judge_stash(p);
	if (r == 0 && has_any(&p->git))
		r = take(p);
	if (r == 0)
		r = leave_all(p);
	return r == 0 ? leave_head(p) : r;
}

int plan_git(struct plan *p)
{
	int r;

	if (!p->git.opened)
		return 0;
	r = p->git.usable ? take_over(p) : leave_repository(p);
	return r < 0 && p->err && p->err->code == 0
		       ? error_set(p->err, r, "cannot take the repository "
					      "over: %s",
				   strerror(-r))
		       : r;
}
