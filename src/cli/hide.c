/*
 * What of the source a task does not see: what the policy denies, and files that
 * hold secrets (workspace/secrets.h).
 */
#include "base/cleanup.h"
#include "base/glob.h"
#include "base/io.h"
#include "base/paths.h"
#include "cli/launch.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_MAX (1u << 20)
#define NAMED 3
#define NAME_MAX_SHOWN 120

/*
 * A grant inside the source lies over the layer that hides; what it would show
 * of a denied path, or all of it, is refused: forbid beats permit.
 */
static int check_hidden(const struct launch *l, const char *relative,
			struct error *err)
{
	const struct strlist *const grants[] = {&l->policy.read,
						&l->policy.write};
	const char *source = l->source.path;
	AUTO_FREE char *path = str_format("%s/%s", source, relative);

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t k = 0; k < ARRAY_SIZE(grants); k++) {
		for (size_t i = 0; i < grants[k]->n; i++) {
			const char *grant = grants[k]->items[i];

			if (!path_is_below(grant, source) ||
			    (!path_is_below(path, grant) &&
			     !path_is_below(grant, path)))
				continue;
			return error_set(err, -EPERM,
					 "files.deny: %s cannot be hidden, "
					 "because %s inside the source is "
					 "granted by itself; drop one of the "
					 "two", path, grant);
		}
	}
	return 0;
}

static int add_denied(struct launch *l, const char *path, struct error *err)
{
	int r = check_hidden(l, path, err);

	if (r < 0)
		return r;
	return strlist_add(&l->plan.spec.hide.paths, path) < 0
		       ? error_set(err, -ENOMEM, "out of memory")
		       : 0;
}

/* Literal paths that lie in the source; globs are set aside. */
static int take_denied(struct launch *l, struct strlist *globs,
		       struct error *err)
{
	const struct strlist *deny = &l->policy.deny;
	const char *source = l->source.path;
	int r = 0;

	for (size_t i = 0; i < deny->n && r == 0; i++) {
		const char *path = deny->items[i];

		if (path[0] == '/' && path_is_below(source, path))
			return error_set(err, -EPERM,
					 "files.deny: %s denies the source %s "
					 "itself; choose another --source",
					 path, source);
		if (path[0] == '/' && !path_is_below(path, source))
			continue;
		if (path[0] == '/')
			path += strlen(source) + 1;
		else if (glob_is_magic(path)) {
			if (strlist_add(globs, path) < 0)
				return error_set(err, -ENOMEM, "out of memory");
			continue;
		}
		r = add_denied(l, path, err);
	}
	return r;
}

/* Does the policy show the path, or a directory of the source that holds it? */
static bool is_granted(const struct launch *l, const char *relative)
{
	const struct strlist *const grants[] = {&l->policy.read,
						&l->policy.write};
	AUTO_FREE char *path = NULL;

	if (l->policy.read.n + l->policy.write.n == 0)
		return false;
	path = str_format("%s/%s", l->source.path, relative);
	for (size_t k = 0; path && k < ARRAY_SIZE(grants); k++) {
		for (size_t i = 0; i < grants[k]->n; i++) {
			const char *grant = grants[k]->items[i];

			if (path_is_below(path, grant) &&
			    path_is_below(grant, l->source.path))
				return true;
		}
	}
	return false;
}

/*
 * What was found, without what is granted or denied anyway. The first ones stay
 * in the list too: they are named at the end.
 */
static int take_found(struct launch *l)
{
	struct strlist *hide = &l->plan.spec.hide.paths;
	struct strlist *found = &l->secrets.found;
	size_t kept = 0;
	int r = 0;

	paths_normalise(hide);
	for (size_t i = 0; i < found->n; i++) {
		char *path = found->items[i];

		if (is_granted(l, path) || paths_cover(hide, path))
			free(path);
		else
			found->items[kept++] = path;
	}
	for (size_t i = 0; i < kept; i++) {
		if (!hidden_is_implied(found->items[i]) &&
		    strlist_add(&l->hidden.paths, found->items[i]) < 0)
			r = -ENOMEM;
		if ((i < NAMED ? strlist_add(hide, found->items[i])
			       : strlist_take(hide, found->items[i])) < 0)
			r = -ENOMEM;
	}
	found->n = kept < NAMED ? kept : NAMED;
	l->n_found = kept;
	return r;
}

/* Names that are not there yet are hidden for the time that they come. */
static int take_literal(struct launch *l)
{
	struct stat st;

	for (size_t i = 0; secrets_literal[i]; i++) {
		const char *name = secrets_literal[i];

		if (fstatat(l->source.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    is_granted(l, name))
			continue;
		if (strlist_add(&l->plan.spec.hide.paths, name) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* One that is too large to be looked through: none of it is shown. */
static int hide_config(struct launch *l)
{
	int r = strlist_add(&l->secrets.found, ".git/config");

	return r < 0 ? r
		     : strlist_add(&l->plan.spec.hide.paths, ".git/config");
}

/* The repository's configuration, if there are secrets in it. */
static int scrub_config(struct launch *l)
{
	AUTO_BUF struct buf text = BUF_INIT(CONFIG_MAX);
	AUTO_BUF struct buf clean = BUF_INIT(CONFIG_MAX);
	AUTO_CLOSE int dir = -1;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (is_granted(l, ".git/config") ||
	    paths_cover(&l->plan.spec.hide.paths, ".git/config"))
		return 0;
	/* Where .git is a link, what it leads to is hidden in its own place. */
	dir = openat(l->source.fd, ".git",
		     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = openat(dir, "config",
		    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (io_read_all(fd, &text) < 0)
		return hide_config(l);
	if (secrets_scrub_config(buf_str(&text), text.len, &clean) <= 0)
		return clean.failed == -ENOMEM ? -ENOMEM : 0;
	l->plan.spec.hide.git_config = strdup(buf_str(&clean));
	return l->plan.spec.hide.git_config ? 0 : -ENOMEM;
}

int launch_state_dir(const struct state *s, const char *name)
{
	int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(s->fd, name, flags);

	if (fd < 0 && errno == ENOENT && mkdirat(s->fd, name, 0700) == 0)
		fd = openat(s->fd, name, flags);
	return fd;
}

/*
 * What the policy denies, by globs and by the other names that it has; what the
 * task makes in the place of the latter is held back, for no rule names them.
 */
static int add_all_denied(struct launch *l, struct error *err)
{
	const struct strlist *denied = &l->secrets.denied,
			     *also = &l->secrets.also;
	int r = 0;

	for (size_t i = 0; r == 0 && i < denied->n; i++)
		r = add_denied(l, denied->items[i], err);
	for (size_t i = 0; r == 0 && i < also->n; i++) {
		r = add_denied(l, also->items[i], err);
		if (r == 0 && strlist_add(&l->hidden.paths, also->items[i]) < 0)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	return r;
}

int launch_hide_find(struct launch *l, struct error *err)
{
	AUTO_STRLIST struct strlist globs = {0};
	struct sandbox_spec *s = &l->plan.spec;
	AUTO_CLOSE int cache = -1;
	int r;

	if (!l->source.path)
		return 0;
	r = take_denied(l, &globs, err);
	if (r < 0)
		return r;
	cache = launch_state_dir(&l->state, "secrets");
	/* So far there is nothing else in the list than literal paths. */
	r = secrets_find(&l->secrets, l->source.fd, l->source.path, &globs,
			 &s->hide.paths, cache, err);
	if (r == 0)
		r = add_all_denied(l, err);
	if (r < 0)
		return r;
	r = take_found(l);
	if (r == 0)
		r = take_literal(l);
	if (r == 0)
		r = scrub_config(l);
	if (r < 0)
		return error_set(err, r, "out of memory");
	paths_normalise(&l->plan.spec.hide.paths);
	if (l->plan.spec.hide.paths.n > HIDE_PATHS_MAX)
		return error_set(err, -E2BIG, "more than %d paths are to be "
				 "hidden; deny directories instead",
				 HIDE_PATHS_MAX);
	return hide_look(&s->hide, l->source.fd, s->owner_uid, s->owner_gid,
			 err);
}

int launch_hide(struct launch *l, struct error *err)
{
	int r = launch_hide_find(l, err);

	if (r < 0 || !l->source.path)
		return r;
	paths_normalise(&l->hidden.paths);
	return hidden_write(l->task_fd, &l->hidden, l->plan.hidden_digest, err);
}

static void add_name(struct buf *text, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(65536);

	report_path(&quoted, path);
	if (quoted.len > NAME_MAX_SHOWN)
		buf_add_str(text, "one with a long name");
	else
		buf_add_str(text, buf_str(&quoted));
}

static void say_withheld(const struct launch *l)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);

	if (l->withheld.n == 0)
		return;
	for (size_t i = 0; i < l->withheld.n && i < NAMED; i++) {
		buf_add_str(&text, i > 0 ? ", " : "");
		add_name(&text, l->withheld.items[i]);
	}
	if (l->withheld.n > NAMED)
		buf_addf(&text, " and %zu more", l->withheld.n - NAMED);
	buf_addf(&text, " %s not shown, because %s to hold a token or %s no "
		 "plain file%s (files.agents)",
		 l->withheld.n == 1 ? "was" : "were",
		 l->withheld.n == 1 ? "it seems" : "they seem",
		 l->withheld.n == 1 ? "is" : "are",
		 l->withheld.n == 1 ? "" : "s");
	report_note(buf_str(&text));
}

void launch_say_hidden(const struct launch *l)
{
	const struct strlist *found = &l->secrets.found;
	const size_t n = l->n_found;
	AUTO_BUF struct buf text = BUF_INIT(8192);
	AUTO_BUF struct buf source = BUF_INIT(65536);
	AUTO_FREE char *path = NULL;

	say_withheld(l);
	if (l->plan.spec.hide.git_config)
		report_note("secrets in .git/config were left out");
	if (n == 0)
		return;
	buf_addf(&text, "%zu file%s that may hold secrets %s hidden (", n,
		 n == 1 ? "" : "s", n == 1 ? "was" : "were");
	for (size_t i = 0; i < found->n; i++) {
		buf_add_str(&text, i > 0 ? ", " : "");
		add_name(&text, found->items[i]);
	}
	if (n > found->n)
		buf_addf(&text, " and %zu more", n - found->n);
	path = str_format("%s/%s", l->source.path, found->items[0]);
	report_path(&source, path ? path : "PATH");
	buf_addf(&text, "); to show one: --read %s",
		 source.len > 2 * NAME_MAX_SHOWN ? "PATH" : buf_str(&source));
	report_note(buf_str(&text));
}
