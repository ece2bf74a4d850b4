/*
 * What the commits that were checked bring: how many there are, which paths
 * they touch, and the index that belongs to them (git_lab.h). What of it is
 * protected git_paths.c says.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/git_lab_private.h"
#include "workspace/git_log.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of commits that are named: of so many references, each so many. */
#define LISTED_MAX 32
#define FILES_SHOWN 10
#define FILE_SHOWN 60 /* bytes of a path */
#define FILES_MAX 8192
#define INDEX_MAX (1u << 30)

/* ---- counting ---- */

static int count_between(struct git_lab *lab, struct git_ref *r,
			 struct buf *why)
{
	AUTO_FREE char *range = str_format("%s...%s", r->old.id, r->new);
	const char *const argv[] = {"rev-list", "--count", "--left-right",
				    range, NULL};
	AUTO_BUF struct buf out = BUF_INIT(256);
	char *end;
	int e = range ? git_lab_run(lab, GIT_VIEW_HOST, argv, NULL, 0, &out,
				    why)
		      : -ENOMEM;

	if (e == 0) {
		r->behind = strtoull(buf_str(&out), &end, 10);
		r->ahead = strtoull(end, NULL, 10);
	}
	return e;
}

/* What a new reference has that nothing of the host leads to. */
static int count_new(struct git_lab *lab, struct git_ref *r, struct buf *why)
{
	static const char *const argv[] = {"rev-list", "--count", "--stdin",
					   NULL};
	AUTO_BUF struct buf input = BUF_INIT(80u << 20);
	AUTO_BUF struct buf out = BUF_INIT(256);
	int e;

	buf_addf(&input, "%s\n%s", r->new, buf_str(&lab->known));
	if (input.failed)
		return input.failed;
	e = git_lab_run(lab, GIT_VIEW_HOST, argv, input.data, input.len, &out,
			why);
	if (e == 0)
		r->ahead = strtoull(buf_str(&out), NULL, 10);
	return e;
}

int git_lab_count(struct git_lab *lab)
{
	AUTO_BUF struct buf why = BUF_INIT(2048);
	int r = 0;

	for (size_t i = 0; i < lab->g->n && r >= 0; i++) {
		struct git_ref *ref = &lab->g->refs[i];

		/* A tag of something else than a commit has no number. */
		if (ref->left || !ref->new[0] || str_eq(ref->name, "HEAD"))
			continue;
		if (str_eq(ref->name, "refs/stash")) {
			ref->ahead = git_log_lines(&lab->g->stash);
			continue;
		}
		r = ref->old.id[0] ? count_between(lab, ref, &why)
				   : count_new(lab, ref, &why);
	}
	return r < 0 ? r : 0;
}

/* ---- paths ---- */

/* The new commits of some references, as git lists them. */
static int list_commits(struct git_lab *lab, const struct git_ref *only,
			struct buf *out, struct buf *why)
{
	static const char *const argv[] = {"rev-list", "--stdin", NULL};
	AUTO_BUF struct buf input = BUF_INIT(84u << 20);
	bool any = false;

	for (size_t i = 0; i < lab->g->n; i++) {
		struct git_ref *r = &lab->g->refs[i];

		if (r->left || !r->new[0] || (only && only != r) ||
		    (!only && r->named))
			continue;
		git_lab_add_tips(lab, r, &input);
		any = true;
	}
	if (!any)
		return 0;
	buf_add(&input, buf_str(&lab->known), lab->known.len);
	if (input.failed)
		return input.failed;
	return git_lab_run(lab, GIT_VIEW_HOST, argv, input.data, input.len,
			   out, why);
}

int git_lab_list_paths(struct git_lab *lab, const struct git_ref *only,
		       struct buf *paths, struct buf *why)
{
	static const char *const argv[] = {
		"diff-tree", "--stdin", "-r", "-c", "--root", "-z",
		"--raw", "--no-renames", "--no-commit-id", NULL};
	AUTO_BUF struct buf commits = BUF_INIT(GIT_PATHS_MAX);
	int r = list_commits(lab, only, &commits, why);

	if (r != 0 || commits.len == 0)
		return r;
	return git_lab_run(lab, GIT_VIEW_HOST, argv, commits.data, commits.len,
			   paths, why);
}

/*
 * The commit that a submodule is at by this status of git's, or NULL: a colon
 * for each side, their modes and the new one, their ids and the new one.
 */
static const char *find_gitlink(const char *status)
{
	size_t sides = strspn(status, ":");
	const char *at = status + sides;

	for (size_t i = 0; i < sides && at; i++)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
	if (!at || !str_starts(at, "160000 "))
		return NULL;
	for (size_t i = 0; i <= sides && at; i++)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
	return at;
}

/* A path that is listed, with what is to be said of a submodule. -ENOMEM. */
static int add_file(struct strlist *all, struct strlist *submodules,
		    struct buf *text, const char *status, const char *path)
{
	const char *id = find_gitlink(status);

	/* The newest commit tells first where a submodule is. */
	if (id && submodules->n < FILES_SHOWN &&
	    !strlist_has(submodules, path)) {
		buf_add_str(text, "submodule ");
		str_quote_odd(text, path, FILE_SHOWN);
		buf_addf(text, " is at %.7s, and its own commits stay in the "
			       "task\n",
			 id);
		if (strlist_add(submodules, path) < 0)
			return -ENOMEM;
	}
	return strlist_add(all, path);
}

/* Submodules, and each path once, the first FILES_SHOWN of them in order. */
static char *show_files(const struct buf *paths)
{
	const char *at = buf_str(paths), *end = at + paths->len;
	AUTO_STRLIST struct strlist all = {0};
	AUTO_STRLIST struct strlist submodules = {0};
	AUTO_BUF struct buf text = BUF_INIT(FILES_MAX);
	size_t shown = 0, n = 0;

	while (at < end) {
		const char *path = at + strlen(at) + 1;

		if (path >= end ||
		    add_file(&all, &submodules, &text, at, path) < 0)
			break;
		at = path + strlen(path) + 1;
	}
	strlist_sort(&all);
	for (size_t i = 0; i < all.n; i++) {
		if (i > 0 && str_eq(all.items[i], all.items[i - 1]))
			continue;
		if (n++ >= FILES_SHOWN)
			continue;
		str_quote_odd(&text, all.items[i], FILE_SHOWN);
		buf_add_char(&text, '\n');
		shown++;
	}
	if (n > shown)
		buf_addf(&text, "and %zu more\n", n - shown);
	return strdup(buf_str(&text));
}

int git_lab_list_files(struct git_lab *lab)
{
	size_t listed = 0;
	int r = 0;

	for (size_t i = 0; i < lab->g->n && r >= 0 && listed < LISTED_MAX; i++) {
		struct git_ref *ref = &lab->g->refs[i];
		AUTO_BUF struct buf paths = BUF_INIT(GIT_PATHS_MAX);
		AUTO_BUF struct buf why = BUF_INIT(2048);

		if (ref->left || !ref->ahead || str_eq(ref->name, "refs/stash"))
			continue;
		listed++;
		r = git_lab_list_paths(lab, ref, &paths, &why);
		if (r != 0 || paths.len == 0)
			continue;
		ref->files = show_files(&paths);
		if (!ref->files)
			r = -ENOMEM;
	}
	return r < 0 ? r : 0;
}

/* ---- the index ---- */

int git_lab_copy_index(struct git_lab *lab)
{
	AUTO_BUF struct buf text = BUF_INIT(INDEX_MAX);
	AUTO_CLOSE int from = walk_open_at(lab->g->repo.fd, "index",
					   O_RDONLY | O_NONBLOCK);
	AUTO_CLOSE int to = -1;
	int r;

	unlinkat(lab->fd, "index", 0);
	if (from < 0)
		return from == -ENOENT ? 1 : from;
	to = openat(lab->fd, "index", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (to < 0)
		return -errno;
	r = io_read_all(from, &text);
	return r < 0 ? r : io_write_all(to, buf_str(&text), text.len);
}

int git_lab_index(struct git_lab *lab, const char *from, const char *to,
		  bool force, struct buf *why)
{
	const char *empty = git_lab_empty_tree(lab);
	const char *const merge[] = {"read-tree", "-i", "-m",
				     from[0] ? from : empty,
				     to[0] ? to : empty, NULL};
	const char *const fresh[] = {"read-tree", to[0] ? to : empty, NULL};
	int r = git_lab_copy_index(lab);

	if (r < 0)
		return error_set(lab->err, r, "cannot read the index: %s",
				 strerror(-r));
	r = git_lab_run(lab, GIT_VIEW_HOST, r == 1 ? fresh : merge, NULL, 0,
			NULL, why);
	if (r != 1 || !force)
		return r;
	unlinkat(lab->fd, "index", 0);
	return git_lab_run(lab, GIT_VIEW_HOST, fresh, NULL, 0, NULL, why);
}
