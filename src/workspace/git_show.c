/*
 * The commits that a task made, for who looks at them before they are taken over.
 * Nothing of them was checked yet: git reads the task's own objects, in a process
 * that can do nothing else (git_lab.c), and what it prints is text of others.
 */
#include "base/cleanup.h"
#include "workspace/git_lab_private.h"
#include "workspace/git_log.h"
#include "workspace/layer.h"
#include "workspace/plan_view.h"
#include "workspace/plan_view_private.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct look {
	const struct promote_layer *layer;
	struct judge judge;
	struct git_changes git;
	struct git_lab lab;
	struct error *err;
};

#define LOG                                                                    \
	"log", "--stdin", "-p", "--no-color", "--no-ext-diff",                 \
		"--no-textconv", "--no-show-signature", "--no-mailmap",        \
		"--no-decorate", "--no-notes", "--no-renames"

static int show_log(struct look *l, const char *const *argv,
		    const struct buf *revisions, struct buf *out, bool *cut,
		    struct buf *why)
{
	int r;

	if (revisions->failed)
		return revisions->failed;
	r = git_lab_print(&l->lab, argv, revisions->data, revisions->len,
			  COMMITS_SHOWN_MAX, out, why);
	*cut |= r == 1 && out->len > 0;
	return r == 1 && out->len > 0 ? 0 : r;
}

/*
 * An entry of the stash is a commit whose first parent is what was checked out;
 * a third one holds what was not tracked.
 */
static int show_stash(struct look *l, const struct git_ref *ref,
		      struct buf *out, bool *cut, struct buf *why)
{
	static const char *const parents[] = {"rev-list", "--no-walk=unsorted",
					      "--parents", "--stdin", NULL};
	static const char *const argv[] = {LOG, "--no-walk=unsorted", "-m",
					   "--first-parent", NULL};
	AUTO_BUF struct buf ids = BUF_INIT(1u << 20);
	AUTO_BUF struct buf lines = BUF_INIT(1u << 20);
	AUTO_BUF struct buf all = BUF_INIT(1u << 20);
	size_t len = l->git.repo.id_len;
	char *save = NULL;
	int r = git_lab_add_tips(&l->lab, ref, &ids);

	if (r == 0)
		r = git_lab_run(&l->lab, GIT_VIEW_TASK, parents, ids.data,
				ids.len, &lines, why);
	for (char *line = lines.data && r == 0
				  ? strtok_r(lines.data, "\n", &save)
				  : NULL;
	     line; line = strtok_r(NULL, "\n", &save)) {
		buf_addf(&all, "%.*s\n", (int)len, line);
		if (strlen(line) == 4 * len + 3)
			buf_addf(&all, "%s\n", line + 3 * (len + 1));
	}
	return r == 0 ? show_log(l, argv, &all, out, cut, why) : r;
}

/* The words of an annotated tag. One that is none has no words. */
static int show_tag(struct look *l, const struct git_ref *ref, struct buf *out)
{
	const char *const argv[] = {"cat-file", "tag", ref->new, NULL};
	AUTO_BUF struct buf why = BUF_INIT(2048);
	AUTO_BUF struct buf text = BUF_INIT(COMMITS_SHOWN_MAX);
	int r = git_lab_print(&l->lab, argv, NULL, 0, COMMITS_SHOWN_MAX, &text,
			      &why);

	if (r == 0 && text.len > 0) {
		buf_add(out, text.data, text.len);
		buf_add_char(out, '\n');
	}
	return r < 0 ? r : 0;
}

static int show_commits(struct look *l, const struct git_ref *ref,
			struct buf *out, bool *cut, struct buf *why)
{
	static const char *const argv[] = {LOG, "-c", NULL};
	AUTO_BUF struct buf revisions = BUF_INIT(80u << 20);
	int r = 0;

	if (str_eq(ref->name, "refs/stash"))
		return show_stash(l, ref, out, cut, why);
	if (str_starts(ref->name, "refs/tags/"))
		r = show_tag(l, ref, out);
	/* What it leads to that the reference, or a new one the host, has not. */
	buf_addf(&revisions, "%s\n", ref->new);
	if (ref->old.id[0])
		buf_addf(&revisions, "^%s\n", ref->old.id);
	else
		buf_add(&revisions, buf_str(&l->lab.known), l->lab.known.len);
	return r == 0 ? show_log(l, argv, &revisions, out, cut, why) : r;
}

static int show_all(struct look *l, commits_want_fn *want,
		    commits_show_fn *show, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < l->git.n && r == 0; i++) {
		const struct git_ref *ref = &l->git.refs[i];
		AUTO_BUF struct buf text = BUF_INIT(2 * COMMITS_SHOWN_MAX);
		AUTO_BUF struct buf why = BUF_INIT(2048);
		char path[GIT_NAME_MAX + 8];
		bool cut = false;

		git_ref_path(ref, path);
		if (!want(arg, path))
			continue;
		if (ref->new[0])
			r = show_commits(l, ref, &text, &cut, &why);
		if (r >= 0)
			r = show(arg, ref, &text, cut,
				 r == 1 ? buf_str(&why) : NULL);
	}
	return r;
}

/* Why git is not to read what the task has. NULL: it may. */
static int find_fault(const struct look *l, struct buf *why)
{
	if (!l->git.usable) {
		buf_add_str(why, buf_str(&l->git.why));
		return 1;
	}
	if (l->git.special) {
		buf_add_str(why, "among the task's objects ");
		str_quote(why, l->git.special, 200);
		buf_add_str(why, " is no file");
	}
	return l->git.special != NULL;
}

static int show_in(struct look *l, int dir_fd, commits_want_fn *want,
		   commits_show_fn *show, void *arg, struct buf *why)
{
	int r = git_lab_open(&l->lab, l->layer->git, &l->git, dir_fd, l->err);

	if (r == 0)
		r = git_lab_known(&l->lab, why);
	if (r == 0)
		r = show_all(l, want, show, arg);
	git_lab_done(&l->lab);
	return r;
}

static int look(struct look *l, commits_want_fn *want, commits_show_fn *show,
		void *arg, struct buf *why)
{
	AUTO_CLOSE int upper = walk_open_at(l->layer->fd, "upper",
					    O_PATH | O_DIRECTORY);
	AUTO_CLOSE int dir = -1;
	char name[32];
	int r = upper < 0 ? upper
			  : git_changes_collect(&l->git, &l->judge, upper,
						l->err);

	if (r < 0 || !l->git.opened)
		return r;
	r = find_fault(l, why);
	if (r != 0)
		return r;
	dir = plan_view_directory(l->layer->fd, name, l->err);
	if (dir < 0)
		return dir;
	r = show_in(l, dir, want, show, arg, why);
	layer_remove(l->layer->fd, name, NULL);
	return r;
}

int commits_show(const struct promote_layer *l, commits_want_fn *want,
		 commits_show_fn *show, void *arg, struct buf *why,
		 struct error *err)
{
	struct look k = {.layer = l, .git = GIT_CHANGES_INIT,
			 .lab = {.fd = -1}, .err = err};
	int r = judge_init(&k.judge, l, NULL, err);

	if (r == 0)
		r = look(&k, want, show, arg, why);
	git_changes_done(&k.git);
	judge_done(&k.judge);
	return r < 0 && err->code == 0
		       ? error_set(err, r, "cannot show the commits: %s",
				   strerror(-r))
		       : r;
}
