/*
 * Theory of operation: for each row of the table a root is found (by its
 * variable, or at its usual place), and taken without links: what is shown is
 * where it really is. A root serves if it is the caller's or root's and has
 * the tool's marker. Names are compared first, so that a tool that nobody has
 * costs one failing look-up at most.
 */
#include "cli/tools.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "cli/tool_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory with more versions than this is none that is understood. */
#define VERSIONS_MAX 1024

struct finder {
	const struct tools_where *w;
	struct tools *t;
	struct strlist path, real; /* the caller's PATH, and without links */
};

void tools_done(struct tools *t)
{
	strlist_done(&t->shown);
	strlist_done(&t->shown_by);
	strlist_done(&t->carried);
	strlist_done(&t->carried_at);
	strlist_done(&t->carried_by);
	strlist_done(&t->masked);
	strlist_done(&t->env);
	strlist_done(&t->seeds);
	strlist_done(&t->seed_texts);
	strlist_done(&t->withheld);
	*t = (struct tools){0};
}

static bool any_covers(const struct strlist *dirs, const char *path)
{
	for (size_t i = 0; i < dirs->n; i++) {
		if (path_is_below(path, dirs->items[i]))
			return true;
	}
	return false;
}

/* The source, and what the policy grants: shown by other rules than ours. */
static bool is_granted(const struct tools_where *w, const char *path)
{
	return (w->source && path_is_below(path, w->source)) ||
	       any_covers(&w->policy->read, path) ||
	       any_covers(&w->policy->write, path);
}

bool tools_of_system(const char *path)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib",
					     "/lib32", "/lib64", "/libx32"};

	for (size_t i = 0; i < ARRAY_SIZE(system); i++) {
		if (path_is_below(path, system[i]))
			return true;
	}
	return false;
}

bool tools_visible(const struct tools_where *w, const struct tools *t,
		   const char *path)
{
	return tools_of_system(path) || is_granted(w, path) ||
	       any_covers(&t->shown, path) || any_covers(&t->carried_at, path);
}

static bool is_denied(const struct policy *p, const char *path)
{
	return any_covers(&p->deny, path);
}

bool tools_fit(const struct tools_where *w, const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       !path_is_below(w->home, path) &&
	       !is_denied(w->policy, path) && !policy_grant_fault(path);
}

/* ---- what is hidden ---- */

static int add_mask(struct tools *t, const char *root, const char *below)
{
	char *path = str_format("%s/%s", root, below);

	return strlist_take(&t->masked, path);
}

/* Of "a/STAR/b" what one name in the place of the star makes. */
static int expand_name(struct tools *t, const char *root, const char *pattern,
		       const char *name)
{
	int n = (int)strcspn(pattern, "*");
	AUTO_FREE char *path = NULL;

	if (str_eq(name, ".") || str_eq(name, ".."))
		return 0;
	path = str_format("%.*s%s%s", n, pattern, name, pattern + n + 1);
	return path ? add_mask(t, root, path) : -ENOMEM;
}

/* "a/STAR/b": b below each directory of a. */
static int expand_mask(struct tools *t, const char *root, const char *pattern)
{
	AUTO_FREE char *dir = str_format("%s/%.*s", root,
					 (int)strcspn(pattern, "*"), pattern);
	AUTO_DIR DIR *d = dir ? opendir(dir) : NULL;
	const struct dirent *e;
	size_t n = 0;
	int r = 0;

	if (!dir)
		return -ENOMEM;
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (r == 0 && (e = readdir(d)))
		r = n++ == VERSIONS_MAX
			    ? -E2BIG
			    : expand_name(t, root, pattern, e->d_name);
	return r;
}

int tools_expand_masks(struct tools *t, const char *root,
		       const char *const *patterns)
{
	int r = 0;

	for (; *patterns && r == 0; patterns++)
		r = strchr(*patterns, '*') ? expand_mask(t, root, *patterns)
					   : add_mask(t, root, *patterns);
	return r;
}

static int add_masks(struct finder *f, const struct tool *tool,
		     const char *root)
{
	const struct strlist *deny = &f->w->policy->deny;
	int r = tools_expand_masks(f->t, root, tool->mask);

	for (size_t i = 0; i < deny->n && r == 0; i++) {
		if (deny->items[i][0] == '/' &&
		    path_is_below(deny->items[i], root))
			r = strlist_add(&f->t->masked, deny->items[i]);
	}
	return r;
}

/* ---- roots ---- */

/* A place of the table below a home. */
static char *expand_place(const char *place, const char *home, bool inside)
{
	static const struct {
		const char *prefix, *variable, *usual;
	} bases[] = {
		{"@cache/", "XDG_CACHE_HOME", ".cache"},
		{"@data/", "XDG_DATA_HOME", ".local/share"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		size_t n = strlen(bases[i].prefix);
		const char *base = inside ? NULL : getenv(bases[i].variable);

		if (!str_starts(place, bases[i].prefix))
			continue;
		if (base && path_is_normal(base))
			return str_format("%s/%s", base, place + n);
		return str_format("%s/%s/%s", home, bases[i].usual, place + n);
	}
	return str_format("%s/%s", home, place);
}

/* Does the caller's PATH lead there? */
static bool is_led_to(const struct finder *f, const char *root)
{
	for (size_t i = 0; i < f->path.n; i++) {
		if (path_is_below(f->path.items[i], root) ||
		    path_is_below(f->real.items[i], root))
			return true;
	}
	return false;
}

static bool has_marker(const struct tool *tool, const char *root)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (!tool->marker)
		return true;
	path = str_format("%s/%s", root, tool->marker);
	return path && stat(path, &st) == 0;
}

/* What lies below a root, if it is there and no link leads out of it. */
static char *part_of(const struct finder *f, const char *root,
		     const char *below)
{
	AUTO_FREE char *path = str_eq(below, ".")
				       ? strdup(root)
				       : str_format("%s/%s", root, below);
	AUTO_FREE char *real = NULL;

	if (!path || !tools_fit(f->w, path))
		return NULL;
	real = realpath(path, NULL);
	return real && str_eq(real, path) ? strdup(path) : NULL;
}

static int show(struct finder *f, const struct tool *tool, const char *root)
{
	int r = 0;

	for (size_t i = 0; tool->show[i] && r == 0; i++) {
		AUTO_FREE char *path = part_of(f, root, tool->show[i]);

		if (!path || tools_visible(f->w, f->t, path))
			continue;
		r = strlist_add(&f->t->shown, path);
		if (r == 0)
			r = strlist_add(&f->t->shown_by, tool->name);
	}
	return r;
}

/* Where it is mounted there must be nothing else, and somewhere to mount it. */
static bool can_be_at(const struct finder *f, const char *at, const char *path)
{
	if (is_granted(f->w, at) || any_covers(&f->t->carried_at, at))
		return false;
	return !any_covers(&f->t->shown, at) || str_eq(at, path);
}

int tools_carry(struct tools *t, const char *from, const char *at,
		const char *by)
{
	int r = strlist_add(&t->carried, from);

	if (r == 0)
		r = strlist_add(&t->carried_at, at);
	return r < 0 ? r : strlist_add(&t->carried_by, by);
}

static int carry(struct finder *f, const struct tool *tool, const char *root)
{
	int r = 0;

	for (size_t i = 0; tool->caches[i] && r == 0; i++) {
		const char *below = tool->caches[i];
		AUTO_FREE char *path = part_of(f, root, below);
		AUTO_FREE char *top = expand_place(tool->place, f->w->inside,
						   true);
		AUTO_FREE char *at = NULL;

		if (!top)
			return -ENOMEM;
		at = str_eq(below, ".") ? strdup(top)
					: str_format("%s/%s", top, below);
		if (!at)
			return -ENOMEM;
		if (!path || !can_be_at(f, at, path))
			continue;
		r = tools_carry(f->t, path, at, tool->name);
	}
	return r;
}

/* The variable that says inside where the tool, or its usual place, is. */
static int set_variable(struct finder *f, const struct tool *tool,
			const char *root, bool given)
{
	AUTO_FREE char *usual = tool->place
					? expand_place(tool->place,
						       f->w->inside, true)
					: NULL;
	const char *value = tool->passed ? root : usual;

	if (tool->place && !usual)
		return -ENOMEM;
	if (!tool->variable || !value ||
	    (!given && (!tool->passed || (usual && str_eq(root, usual)))))
		return 0;
	return strlist_take(&f->t->env,
			    str_format("%s=%s", tool->variable, value));
}

static int take_named(struct finder *f, const char *name);

/* Where the root was asked for: by PATH, by another tool or by its variable. */
static int take_shown(struct finder *f, const struct tool *tool,
		      const char *root, bool given)
{
	int r = show(f, tool, root);

	if (r == 0 && (!tool->passed || tools_visible(f->w, f->t, root)))
		r = set_variable(f, tool, root, given);
	for (size_t i = 0; tool->with[i] && r == 0; i++)
		r = take_named(f, tool->with[i]);
	return r;
}

/* root is real. What of it cannot be had safely is left out. */
static int take_root(struct finder *f, const struct tool *tool,
		     const char *root, bool shown, bool given)
{
	size_t masked = f->t->masked.n;
	int r;

	if (!has_marker(tool, root))
		return 0;
	r = add_masks(f, tool, root);
	if (r < 0) {
		while (f->t->masked.n > masked)
			free(f->t->masked.items[--f->t->masked.n]);
		return r == -ENOMEM ? r : 0;
	}
	if (shown)
		r = take_shown(f, tool, root, given);
	return r < 0 ? r : carry(f, tool, root);
}

/* The tool's variable, if it has one that is of use. */
static const char *variable_of(const struct tool *tool)
{
	const char *given = tool->variable ? getenv(tool->variable) : NULL;

	return given && path_is_normal(given) ? given : NULL;
}

/* The root that the variable names, or that is at the usual place. */
static int take_usual(struct finder *f, const struct tool *tool, bool shown)
{
	const char *given = variable_of(tool);
	AUTO_FREE char *named = NULL;
	AUTO_FREE char *root = NULL;
	struct stat st;

	if (!given && !tool->place)
		return 0;
	named = given ? strdup(given)
		      : expand_place(tool->place, f->w->home, false);
	if (!named)
		return -ENOMEM;
	shown |= given || is_led_to(f, named);
	/* Mostly nobody has it. */
	if ((!shown && !tool->caches[0]) || stat(named, &st) < 0)
		return 0;
	root = realpath(named, NULL);
	if (!root)
		return 0;
	shown |= is_led_to(f, root);
	return take_root(f, tool, root, shown, given);
}

/* Roots directly below a directory, where PATH leads there. */
static int take_above(struct finder *f, const struct tool *tool)
{
	size_t n = strlen(tool->above);
	int r = 0;

	for (size_t i = 0; i < f->real.n && r == 0; i++) {
		const char *path = f->real.items[i];
		AUTO_FREE char *root = NULL;

		if (!path_is_below(path, tool->above) || path[n] != '/')
			continue;
		if (!tool->whole)
			n += 1 + strcspn(path + n + 1, "/");
		root = strndup(path, n);
		n = strlen(tool->above);
		r = root ? take_root(f, tool, root, true, false) : -ENOMEM;
	}
	return r;
}

static int take_named(struct finder *f, const char *name)
{
	int r = 0;

	for (size_t i = 0; i < n_tools && r == 0; i++) {
		if (str_eq(tools[i].name, name))
			r = take_usual(f, &tools[i], true);
	}
	return r;
}

/* ---- putting it together ---- */

static void drop(struct tools *t, size_t i)
{
	struct strlist *const lists[] = {&t->shown, &t->shown_by};

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		free(lists[k]->items[i]);
		lists[k]->n--;
		memmove(lists[k]->items + i, lists[k]->items + i + 1,
			(lists[k]->n - i) * sizeof(char *));
		lists[k]->items[lists[k]->n] = NULL;
	}
}

/* What lies in another one is shown by it, or hidden in it. */
static void drop_inner(struct tools *t)
{
	for (size_t i = t->shown.n; i > 0; i--) {
		const char *path = t->shown.items[i - 1];
		bool inner = any_covers(&t->masked, path);

		for (size_t k = 0; k < t->shown.n && !inner; k++)
			inner = k != i - 1 &&
				path_is_below(path, t->shown.items[k]);
		if (inner)
			drop(t, i - 1);
	}
}

static int read_path(struct finder *f)
{
	int r = tools_caller_path(&f->path);

	for (size_t i = 0; i < f->path.n && r == 0; i++) {
		const char *path = f->path.items[i];
		AUTO_FREE char *real =
			tools_of_system(path) ? NULL : realpath(path, NULL);

		r = strlist_add(&f->real, real ? real : path);
	}
	return r;
}

static int find(struct finder *f)
{
	int r = read_path(f);

	if (f->w->policy->toolchains == TOOLCHAINS_AUTO) {
		for (size_t i = 0; i < n_tools && r == 0; i++)
			r = tools[i].above ? take_above(f, &tools[i])
					   : take_usual(f, &tools[i], false);
	}
	drop_inner(f->t);
	if (r == 0)
		r = tools_add_agents(f->w, f->t);
	return r < 0 ? r : tools_add_path(f->w, &f->path, f->t);
}

int tools_find(const struct tools_where *w, struct tools *ret,
	       struct error *err)
{
	struct finder f = {.w = w, .t = ret};
	int r = find(&f);

	strlist_done(&f.path);
	strlist_done(&f.real);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}
