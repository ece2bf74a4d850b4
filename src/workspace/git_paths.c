/*
 * Which references would bring something protected, or what the task did not
 * see (git_lab.h).
 *
 * Theory. First the new commits are looked at, one by one: so a protected path
 * is found also where a later one takes it back. But what the host has already
 * is not new to it, and still may not come where it was not: a commit that was
 * fetched, or one of the past, whose side a merge takes. So trees are compared
 * too: of what a reference was and what it is to be; where it is a new one, or
 * HEAD, of what is checked out; and of what an entry of the stash began with and
 * what it holds.
 */
#include "workspace/git_lab_private.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/git_log.h"
#include "workspace/judge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX (16u << 20)
#define LOG_MAX (64u << 20)

/* ---- by what is protected ---- */

static const char *reason_against(const struct promote_layer *l,
				  const struct change *c)
{
	/* The task, which does not see it, has it deleted as it seems to git. */
	return judge_is_denied(l->deny, c->path)
		       ? "files.deny hides it from the task"
		       : protect_reason(l->protect, c);
}

/*
 * Looks for a path that is protected among these (status, path, status, ...);
 * what says what changes them. 0; or 1 with the reason.
 */
static int find_protected(const struct buf *paths,
			  const struct promote_layer *l, const char *what,
			  struct buf *why)
{
	const char *at = buf_str(paths), *end = at + paths->len;

	while (at < end) {
		size_t status = strlen(at);
		struct change c = {.kind = CHANGE_MODIFIED,
				   .mode = S_IFREG,
				   .mode_before = S_IFREG,
				   .path = at + status + 1};
		const char *reason;

		if (c.path >= end)
			break;
		reason = reason_against(l, &c);
		if (reason) {
			buf_reset(why);
			buf_addf(why, "%s ", what);
			str_quote(why, c.path, 200);
			buf_addf(why, ": %s", reason);
			return 1;
		}
		at = c.path + strlen(c.path) + 1;
	}
	return 0;
}

/* ---- the new commits ---- */

static int check_some(struct git_lab *lab, const struct promote_layer *l,
		      const struct git_ref *only, struct buf *why)
{
	AUTO_BUF struct buf paths = BUF_INIT(GIT_PATHS_MAX);
	int r = git_lab_list_paths(lab, only, &paths, why);

	return r == 0 ? find_protected(&paths, l, "its commits change", why)
		      : r;
}

static int check_commits(struct git_lab *lab, const struct promote_layer *l)
{
	AUTO_BUF struct buf why = BUF_INIT(4096);
	int r = check_some(lab, l, NULL, &why);

	if (r <= 0)
		return r;
	for (size_t i = 0; i < lab->g->n && r >= 0; i++) {
		struct git_ref *ref = &lab->g->refs[i];

		if (ref->left || !ref->new[0] || ref->named)
			continue;
		r = check_some(lab, l, ref, &why);
		if (r > 0)
			r = git_ref_leave(ref, LEAVE_GIT_HELD, "%s",
					  buf_str(&why));
	}
	return r < 0 ? r : 0;
}

/* ---- the trees ---- */

const char *git_lab_empty_tree(const struct git_lab *lab)
{
	return lab->g->repo.id_len == 64
		       ? "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b9"
			 "39dd74decc5321"
		       : "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
}

struct pairs {
	struct git_lab *lab;
	const struct promote_layer *layer;
	struct git_ref *ref; /* whose trees they are */
	struct buf names;    /* two lines each, by which git finds the trees */
	struct strlist owners; /* the names of their references */
};

static void pairs_done(struct pairs *p)
{
	buf_done(&p->names);
	strlist_done(&p->owners);
}

#define AUTO_PAIRS __attribute__((cleanup(pairs_done)))

/* from: "" for nothing. The suffixes say which parent is meant, or are "". */
static int add_pair(struct pairs *p, const char *from, const char *parent_from,
		    const char *to, const char *parent_to)
{
	int r = strlist_add(&p->owners, p->ref->name);

	if (r < 0)
		return r;
	if (!*from)
		from = git_lab_empty_tree(p->lab);
	return buf_addf(&p->names, "%s%s^{tree}\n%s%s^{tree}\n", from,
			parent_from, to, parent_to);
}

/* Applied, an entry of the stash brings what it has and its start had not. */
static int add_entry(struct pairs *p, const char *id)
{
	int r = add_pair(p, id, "^1", id, "");

	/* What was staged; and, if there are any, files that were not tracked. */
	if (r == 0)
		r = add_pair(p, id, "^1", id, "^2");
	return r == 0 ? add_pair(p, "", "", id, "^3") : r;
}

/* What the host has in its stash is the host's. */
static bool is_stashed(const struct buf *log, const char *id)
{
	char entry[GIT_ID_MAX + 4];

	snprintf(entry, sizeof(entry), " %s ", id);
	return strstr(buf_str(log), entry) != NULL;
}

static int add_stash(struct pairs *p)
{
	struct git_changes *g = p->lab->g;
	AUTO_BUF struct buf host = BUF_INIT(LOG_MAX);
	AUTO_BUF struct buf ids = BUF_INIT(LOG_MAX);
	char *save = NULL;
	int r = io_read_file(g->repo.fd, "logs/refs/stash", &host);

	if (r == 0 || r == -ENOENT || r == -ENOTDIR)
		r = git_log_ids(&g->stash, g->repo.id_len, &ids);
	for (char *id = ids.data ? strtok_r(ids.data, "\n", &save) : NULL;
	     id && r == 0; id = strtok_r(NULL, "\n", &save)) {
		if (!is_stashed(&host, id))
			r = add_entry(p, id);
	}
	return r;
}

/* What HEAD is to be on, in the task's view. */
static int add_head(struct pairs *p, const char *out)
{
	struct git_changes *g = p->lab->g;
	struct git_ref *head = p->ref,
		       *branch = git_changes_find(g, head->new_ref);
	struct git_value now = {0};
	int r = 0;

	/* Without its branch it stays; with one that was named it goes. */
	if (branch && (branch->left || branch->named))
		return 0;
	if (!head->new_ref[0])
		memcpy(now.id, head->new, sizeof(now.id));
	else if (branch)
		memcpy(now.id, branch->new, sizeof(now.id));
	else
		r = git_repo_value(&g->repo, head->new_ref, &now);
	if (r < 0 || !now.id[0])
		return r == -EBADMSG ? 0 : r;
	return add_pair(p, out, "", now.id, "");
}

static int add_ref(struct pairs *p, const char *out)
{
	const struct git_ref *ref = p->ref;

	if (ref->left || ref->named)
		return 0;
	if (str_eq(ref->name, "HEAD"))
		return add_head(p, out);
	if (str_eq(ref->name, "refs/stash"))
		return ref->new[0] ? add_stash(p) : 0;
	/* Nobody checks notes out. */
	if (!ref->new[0] || str_starts(ref->name, "refs/notes/"))
		return 0;
	return add_pair(p, ref->old.id[0] ? ref->old.id : out, "", ref->new,
			"");
}

/* A line that git printed, without its end; at goes to the next one. */
static const char *next_line(char **at)
{
	char *line = *at;

	*at += strcspn(line, "\n");
	if (**at)
		*(*at)++ = '\0';
	return line;
}

static bool is_tree(const struct git_lab *lab, const char *line)
{
	return git_is_id(line, lab->g->repo.id_len);
}

/* 0; 1 with the reason; or negative. */
static int compare(struct git_lab *lab, const struct promote_layer *l,
		   const char *from, const char *to, struct buf *why)
{
	const char *const argv[] = {
		"diff-tree", "-r", "-z", "--name-status", "--no-renames",
		is_tree(lab, from) ? from : git_lab_empty_tree(lab), to, NULL};
	AUTO_BUF struct buf paths = BUF_INIT(GIT_PATHS_MAX);
	int r = git_lab_run(lab, GIT_VIEW_HOST, argv, NULL, 0, &paths, why);

	return r == 0 ? find_protected(&paths, l, "checked out, it changes",
				       why)
		      : r;
}

/* Of a tag of something else there is no tree: nothing is checked out by it. */
static int check_pair(struct pairs *p, size_t i, const char *from,
		      const char *to)
{
	struct git_ref *ref = git_changes_find(p->lab->g, p->owners.items[i]);
	AUTO_BUF struct buf why = BUF_INIT(4096);
	int r;

	if (ref->left || !is_tree(p->lab, to) || str_eq(from, to))
		return 0;
	r = compare(p->lab, p->layer, from, to, &why);
	return r > 0 ? git_ref_leave(ref, LEAVE_GIT_HELD, "%s", buf_str(&why))
		     : r;
}

static int check_pairs(struct pairs *p)
{
	static const char *const argv[] = {
		"cat-file", "--batch-check=%(objectname)", "--buffer", NULL};
	AUTO_BUF struct buf out = BUF_INIT(NAMES_MAX);
	AUTO_BUF struct buf why = BUF_INIT(4096);
	char *at;
	int r;

	if (p->owners.n == 0)
		return 0;
	r = git_lab_run(p->lab, GIT_VIEW_HOST, argv, p->names.data,
			p->names.len, &out, &why);
	at = out.data;
	for (size_t i = 0; i < p->owners.n && r == 0; i++) {
		const char *from = at ? next_line(&at) : "";
		const char *to = at ? next_line(&at) : "";

		r = check_pair(p, i, from, to);
	}
	return r == 1 ? error_set(p->lab->err, -EIO,
				  "cannot compare what was committed: %s",
				  buf_str(&why))
		      : r;
}

/* heads: HEAD alone, which depends on the others; or these. */
static int check_trees(struct git_lab *lab, const struct promote_layer *l,
		       bool heads)
{
	AUTO_PAIRS struct pairs p = {.lab = lab, .layer = l,
				     .names = BUF_INIT(NAMES_MAX)};
	char out[GIT_ID_MAX + 1];
	int r = git_repo_out(&lab->g->repo, out);

	/* Where that is no branch with a commit, all is new. */
	if (r == -EBADMSG)
		r = 0;
	for (size_t i = 0; i < lab->g->n && r == 0; i++) {
		p.ref = &lab->g->refs[i];
		if (str_eq(p.ref->name, "HEAD") == heads)
			r = add_ref(&p, out);
	}
	return r == 0 ? check_pairs(&p) : r;
}

int git_lab_check_paths(struct git_lab *lab, const struct promote_layer *l)
{
	int r = check_commits(lab, l);

	if (r == 0)
		r = check_trees(lab, l, false);
	return r == 0 ? check_trees(lab, l, true) : r;
}
