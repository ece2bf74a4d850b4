/*
 * Decides by the path's bytes, and looks at the source on the host only to tell
 * whether a directory there is a bare repository. Nothing of what the agent
 * made is opened. Relies on protect_table.c being what programs act upon.
 */
#include "workspace/protect.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "workspace/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define NESTED "a nested repository, which git obeys on the host"
#define BARE "a bare repository, which git obeys on the host"

/* How far a row's components are found in a path. */
enum found { FOUND_NOT, FOUND_PART, FOUND_WHOLE };

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static bool same_name(const char *row, size_t n, const char *name, size_t m)
{
	if (n > 1 && row[0] == '*')
		return m >= n && !strncasecmp(row + 1, name + m - (n - 1),
					      n - 1);
	return n == m && !strncasecmp(row, name, n);
}

/* Does the path begin with the row's components? */
static enum found find_row(const char *row, const char *path)
{
	if (row[0] != '*' && lower(row[0]) != lower(path[0]))
		return FOUND_NOT;
	for (;;) {
		size_t n = strcspn(row, "/"), m = strcspn(path, "/");

		if (!same_name(row, n, path, m))
			return FOUND_NOT;
		if (row[n] == '\0')
			return FOUND_WHOLE;
		if (path[m] == '\0')
			return FOUND_PART;
		row += n + 1;
		path += m + 1;
	}
}

/*
 * Could the change put something else in the place of all that lies below it?
 * A directory that is new or has other permissions does not.
 */
static bool replaces(const struct change *c)
{
	return c->kind == CHANGE_DELETED || !S_ISDIR(c->mode) ||
	       (c->kind == CHANGE_MODIFIED && !S_ISDIR(c->mode_before));
}

static const char *find_rows(const struct protect_row *rows, size_t n,
			     const char *path, const struct change *c)
{
	for (size_t i = 0; i < n; i++) {
		enum found found = find_row(rows[i].path, path);

		if (found == FOUND_WHOLE ||
		    (found == FOUND_PART && replaces(c)))
			return rows[i].reason;
	}
	return NULL;
}

/*
 * Is this component git's directory? Also by the names that other file systems
 * take for it: blanks and dots at the end, a stream behind a colon, the short
 * name of DOS.
 */
static bool is_git(const char *name, size_t n)
{
	size_t colon = n;

	for (size_t i = 0; i < n && colon == n; i++) {
		if (name[i] == ':')
			colon = i;
	}
	n = colon;
	while (n > 0 && (name[n - 1] == '.' || name[n - 1] == ' '))
		n--;
	return (n == 4 && !strncasecmp(name, ".git", 4)) ||
	       (n == 5 && !strncasecmp(name, "git~1", 5));
}

/* A name that git takes for a bare repository by habit. */
static bool is_bare_name(const char *name, size_t n)
{
	return n > 4 && !strncasecmp(name + n - 4, ".git", 4);
}

static bool is_hook(const char *name)
{
	size_t n = strcspn(name, "/");

	for (size_t i = 0; protect_hooks[i]; i++) {
		if (same_name(protect_hooks[i], strlen(protect_hooks[i]), name,
			      n))
			return true;
	}
	return false;
}

/* What lies in the source's own .git; rest is what follows it, or "". */
static const char *in_git(const struct protect *p, const char *rest,
			  const struct change *c)
{
	if (!*rest && replaces(c))
		return "it is the repository, or says where it is";
	if (p->no_repository)
		return "a new repository, which git obeys on the host";
	return find_rows(protect_git_rows, n_protect_git_rows, rest, c);
}

/* Does the source have a bare repository at the first n bytes of path? */
static bool source_is_bare(const struct protect *p, const char *path, size_t n)
{
	static const char *const marks[] = {"HEAD", "objects", "refs"};
	char name[PATH_MAX];
	struct stat st;

	if (p->source_fd < 0 || n + 16 > sizeof(name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		memcpy(name, path, n);
		strcpy(name + n, marks[i]);
		if (fstatat(p->source_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
	}
	return true;
}

/* at: a component of c's path, the first bytes of which are its directory. */
static const char *in_bare(const struct protect *p, const char *at,
			   const struct change *c)
{
	size_t n = (size_t)(at - c->path), before;
	const char *reason;

	/* Without its HEAD no directory is a repository. */
	if (str_eq(at, "HEAD") && !S_ISDIR(c->mode))
		return BARE;
	reason = find_rows(protect_git_rows, n_protect_git_rows, at, c);
	if (reason)
		reason = BARE;
	else
		reason = find_rows(protect_bare_rows, n_protect_bare_rows, at,
				   c);
	if (!reason)
		return NULL;
	for (before = n > 0 ? n - 1 : 0; before > 0; before--) {
		if (c->path[before - 1] == '/')
			break;
	}
	if (n > 0 && is_bare_name(c->path + before, n - 1 - before))
		return reason;
	return source_is_bare(p, c->path, n) ? reason : NULL;
}

static const char *at_component(const struct protect *p, const char *at,
				const struct change *c)
{
	size_t n = strcspn(at, "/");
	const char *reason;

	if (is_git(at, n)) {
		const char *rest = at[n] ? at + n + 1 : "";

		return at == c->path ? in_git(p, rest, c) : NESTED;
	}
	if (same_name("hooks", 5, at, n) && at[n] && is_hook(at + n + 1))
		return PROTECT_HOOKS;
	reason = find_rows(protect_rows, n_protect_rows, at, c);
	return reason ? reason : in_bare(p, at, c);
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncasecmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}

/* By what this source says, and by the policy. */
static const char *by_lists(const struct protect *p, const struct change *c)
{
	for (size_t i = 0; i < p->dirs.n; i++) {
		const char *dir = p->dirs.items[i];

		if (is_at_or_below(c->path, dir) ||
		    (replaces(c) && is_at_or_below(dir, c->path)))
			return "this repository's hooks lie there";
	}
	for (size_t i = 0; p->globs && i < p->globs->n; i++) {
		const char *glob = p->globs->items[i];

		if (glob_covers(glob, c->path) ||
		    (replaces(c) && glob_leads_through(glob, c->path)))
			return "files.protect of the policy";
	}
	return NULL;
}

bool protect_is_secret(const char *path)
{
	char dir[2 * (NAME_MAX + 1)]; /* of two names */
	const char *name;
	unsigned slashes = 0;

	for (const char *at = path; *at; at++)
		slashes += *at == '/';
	if (slashes >= 3)
		return false;
	name = slashes ? strrchr(path, '/') + 1 : path;
	snprintf(dir, sizeof(dir), "%.*s",
		 slashes ? (int)(name - 1 - path) : 0, path);
	return secrets_is_file(dir, name);
}

/* Would it take the place of what the task did not see? */
static const char *by_hidden(const struct protect *p, const struct change *c)
{
	bool was_file = c->kind == CHANGE_MODIFIED && !S_ISDIR(c->mode_before);

	if ((!S_ISDIR(c->mode) || was_file) && protect_is_secret(c->path))
		return "it may hold secrets, which the task did not see";
	if (!p->hidden || !hidden_has(p->hidden, c->path))
		return NULL;
	return p->hidden->lost
		       ? "the list of what was hidden from the task is missing "
			 "or damaged"
		       : "it was hidden from the task";
}

const char *protect_reason(const struct protect *p, const struct change *c)
{
	const char *at = c->path, *hidden = by_hidden(p, c);

	if (hidden)
		return hidden;
	for (;;) {
		size_t n = strcspn(at, "/");
		const char *reason = at_component(p, at, c);

		if (reason)
			return reason;
		/* Of the repository itself nothing else is to be said. */
		if (at == c->path && is_git(at, n))
			return by_lists(p, c);
		if (at[n] == '\0')
			return by_lists(p, c);
		at += n + 1;
	}
}
