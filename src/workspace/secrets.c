/*
 * One walk over the host's tree for both: the list needs three levels, globs as
 * many as they may match. Nothing is opened but directories and git's index.
 */
#include "workspace/secrets.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/io.h"
#include "base/paths.h"
#include "workspace/secrets_cache.h"
#include "workspace/secrets_git.h"
#include "workspace/secrets_names.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LEVELS 3
/* More candidates are not looked for in git's index: they are hidden. */
#define TRACKED_MAX 256
#define INDEX_MAX ((size_t)256 << 20)

struct search {
	struct walk walk;
	const struct strlist *globs;
	struct secrets *out;
	struct secrets_cache *cache;
	uint64_t entries;
};

void secrets_done(struct secrets *s)
{
	strlist_done(&s->found);
	strlist_done(&s->denied);
	strlist_done(&s->also);
	*s = (struct secrets){0};
}

/* What the list does not look into. */
static bool is_skipped(const char *name)
{
	static const char *const names[] = {
		".git", "node_modules", ".venv", "venv", ".tox", "__pycache__",
		"target", ".cache", "vendor",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(names[i], name))
			return true;
	}
	return false;
}

static char *path_of(const struct search *s, const char *name)
{
	const struct buf *dir = &s->walk.path;

	return str_format("%s%s%s", buf_str(dir), dir->len > 0 ? "/" : "",
			  name);
}

static bool is_denied(const struct search *s, const char *path)
{
	for (size_t i = 0; i < s->globs->n; i++) {
		if (glob_match(s->globs->items[i], path))
			return true;
	}
	return false;
}

/* Can a glob match anything below the directory? */
static bool leads_on(const struct search *s, const char *path)
{
	for (size_t i = 0; i < s->globs->n; i++) {
		const char *glob = s->globs->items[i];

		if (strstr(glob, "**") || glob_leads_through(glob, path))
			return true;
	}
	return false;
}

static bool is_listed_level(struct search *s)
{
	return s->walk.depth <= LEVELS && !walk_top(&s->walk)->hidden &&
	       !s->out->cut;
}

static int enter(struct search *s, const char *name, bool listed,
		 struct error *err)
{
	struct walk_level *l;
	int r;

	if (s->out->dirs >= SECRETS_DIRS_MAX && s->globs->n == 0) {
		s->out->cut = true;
		return 0;
	}
	r = walk_enter(&s->walk, name, false, err);
	/* Another mount, or closed to the caller: the task cannot look either. */
	if (r == -EXDEV || r == -EACCES || r == -ENOENT || r == -ENOTDIR ||
	    r == -ELOOP)
		return 0;
	if (r < 0)
		return r;
	s->out->dirs++;
	if (s->out->dirs >= SECRETS_DIRS_MAX)
		s->out->cut = true;
	l = walk_top(&s->walk);
	l->hidden = !listed;
	return secrets_cache_add(s->cache, walk_fd(&s->walk),
				 buf_str(&s->walk.path));
}

static bool is_directory(const struct search *s, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(walk_fd(&s->walk), e->d_name, &st,
		       AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/*
 * A link is hidden under its own name alone; what it, or a path over one, leads
 * to in the source has another one, which is added to the list.
 */
static int add_target(struct strlist *list, int source_fd, int dir_fd,
		      const char *name, bool directories)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
	AUTO_FREE char *top = NULL;
	AUTO_FREE char *real = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    !(S_ISREG(st.st_mode) || (directories && S_ISDIR(st.st_mode))))
		return 0;
	top = io_fd_path(source_fd);
	real = io_fd_path(fd);
	if (!top || !real)
		return -ENOMEM;
	if (!path_is_below(real, top) || str_eq(real, top) ||
	    strlist_has(list, real + strlen(top) + 1))
		return 0;
	return strlist_add(list, real + strlen(top) + 1);
}

/* For a link: nothing tells when what it leads to comes or goes. */
static int add_link_target(struct search *s, struct strlist *list,
			   const char *name, bool directories)
{
	struct stat st;

	if (fstatat(walk_fd(&s->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISLNK(st.st_mode))
		return 0;
	s->cache->young = true;
	return add_target(list, dirfd(s->walk.levels[0].dir),
			  walk_fd(&s->walk), name, directories);
}

static int add_secret(struct search *s, const char *name, const char *path)
{
	if (strlist_has(&s->out->found, path))
		return 0;
	if (strlist_add(&s->out->found, path) < 0)
		return -ENOMEM;
	return add_link_target(s, &s->out->found, name, false);
}

static int add_denied(struct search *s, const struct dirent *e,
		      const char *path)
{
	if (strlist_add(&s->out->denied, path) < 0)
		return -ENOMEM;
	return e->d_type == DT_LNK || e->d_type == DT_UNKNOWN
		       ? add_link_target(s, &s->out->also, e->d_name, true)
		       : 0;
}

/* A directory that nothing denies: does anything below it matter? */
static int look_into(struct search *s, const char *name, bool listed,
		     const char *path, struct error *err)
{
	bool below = listed && s->walk.depth < LEVELS && !is_skipped(name);
	int r = 0;

	/* A bare one has any name, as has one that .git leads to. */
	if (listed &&
	    (secrets_git_is_name(name) ||
	     secrets_git_is_repository(walk_fd(&s->walk), name)))
		r = secrets_git_look(s->out, walk_fd(&s->walk), name, path,
				     str_eq(path, ".git"), s->cache);
	if (r < 0)
		return r;
	return below || leads_on(s, path) ? enter(s, name, below, err) : 0;
}

static int look_at(struct search *s, const struct dirent *e, struct error *err)
{
	const char *dir = buf_str(&s->walk.path);
	bool listed = is_listed_level(s), directory = is_directory(s, e);
	bool secret = listed && !directory &&
		      secrets_is_file(dir, e->d_name);
	AUTO_FREE char *path = NULL;

	/* Most of what there is: no name is made of it. */
	if (s->globs->n == 0 && !secret && !directory)
		return 0;
	path = path_of(s, e->d_name);
	if (!path)
		return -ENOMEM;
	if (is_denied(s, path))
		return add_denied(s, e, path);
	if (secret)
		return add_secret(s, e->d_name, path);
	return directory ? look_into(s, e->d_name, listed, path, err) : 0;
}

static int too_many(struct error *err)
{
	return error_set(err, -E2BIG, "files.deny: its globs cover more than "
			 "%d paths, or the source has more than %d files to "
			 "look at; deny directories instead",
			 HIDE_PATHS_MAX, SECRETS_ENTRIES_MAX);
}

static int search(struct search *s, struct error *err)
{
	struct dirent *e;
	int r;

	for (;;) {
		r = walk_next(&s->walk, &e, err);
		if (r == 0 && s->walk.depth == 1)
			return 0;
		if (r == 0) {
			r = walk_leave(&s->walk, err);
		} else if (r > 0) {
			if (++s->entries > SECRETS_ENTRIES_MAX ||
			    s->out->denied.n > HIDE_PATHS_MAX)
				return too_many(err);
			r = look_at(s, e, err);
		}
		if (r < 0)
			return r;
	}
}

/* ---- what git tracks ---- */

/*
 * A name in git's index ends with a NUL; what stands before it is the end of
 * the entry's fixed part. In a compressed index (version 4) nothing is found,
 * and the file is hidden.
 */
static bool is_tracked(const char *index, size_t len, const char *path)
{
	size_t n = strlen(path) + 1;
	const char *at = index, *end = index + len;

	while ((at = memmem(at, (size_t)(end - at), path, n))) {
		/* Flags: the length of the name, 12 bits. */
		if (at - index >= 2 &&
		    ((unsigned)(unsigned char)at[-2] << 8 |
		     (unsigned char)at[-1]) % 4096 == n - 1)
			return true;
		at++;
	}
	return false;
}

/* Maps git's index; NULL: there is none that could be. */
static char *map_index(int source_fd, struct secrets_cache *cache, size_t *len)
{
	AUTO_CLOSE int fd = openat(source_fd, ".git/index",
				   O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char *index;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size <= 0 || (uint64_t)st.st_size > INDEX_MAX)
		return NULL;
	secrets_cache_add(cache, fd, ".git/index");
	*len = (size_t)st.st_size;
	index = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
	return index == MAP_FAILED ? NULL : index;
}

static void drop_tracked(struct secrets *s, int source_fd,
			 struct secrets_cache *cache)
{
	size_t kept = 0, len;
	char *index;

	if (s->found.n == 0 || s->found.n > TRACKED_MAX)
		return;
	index = map_index(source_fd, cache, &len);
	if (!index)
		return;
	for (size_t i = 0; i < s->found.n; i++) {
		if (is_tracked(index, len, s->found.items[i]))
			free(s->found.items[i]);
		else
			s->found.items[kept++] = s->found.items[i];
	}
	s->found.n = kept;
	s->found.items[kept] = NULL;
	munmap(index, len);
}

static int search_all(struct secrets *s, int source_fd,
		      const struct strlist *globs, struct secrets_cache *cache,
		      struct error *err)
{
	struct search search_ = {.globs = globs, .out = s, .cache = cache};
	int r = walk_init(&search_.walk, source_fd, NULL, -1, err);

	if (r == 0)
		r = secrets_cache_add(cache, walk_fd(&search_.walk), "");
	if (r == 0)
		r = search(&search_, err);
	walk_done(&search_.walk);
	if (r < 0 && !err->text[0])
		error_set(err, r, "cannot look for secrets: %s", strerror(-r));
	return r;
}

/* Of literal paths; one may lead over links, wherever it begins to. */
static int add_literal_targets(struct secrets *s, int source_fd,
			       const struct strlist *literal)
{
	int r = 0;

	for (size_t i = 0; i < literal->n && r == 0; i++) {
		r = add_target(&s->also, source_fd, source_fd,
			       literal->items[i], true);
	}
	return r;
}

/* What git tracks is in its objects by whatever name. */
static int add_other_names(struct secrets *s, int source_fd,
			   const struct strlist *literal,
			   struct secrets_cache *cache, struct error *err)
{
	size_t n = s->found.n;
	int r = add_literal_targets(s, source_fd, literal);

	if (r == 0)
		r = secrets_names_find(s, source_fd, literal, cache, err);
	if (r == 0 && s->found.n > n) {
		paths_normalise(&s->found);
		drop_tracked(s, source_fd, cache);
	}
	if (r < 0 && !err->text[0])
		error_set(err, r, "cannot look for other names of secrets: %s",
			  strerror(-r));
	return r;
}

static int look(struct secrets *s, int source_fd, const struct strlist *globs,
		const struct strlist *literal, struct secrets_cache *cache,
		struct error *err)
{
	int r = search_all(s, source_fd, globs, cache, err);

	if (r < 0)
		return r;
	drop_tracked(s, source_fd, cache);
	r = add_other_names(s, source_fd, literal, cache, err);
	if (r < 0)
		return r;
	/* Kept in order: those who take it need not sort it. */
	paths_normalise(&s->found);
	paths_normalise(&s->denied);
	if (secrets_cache_add_hidden(cache, source_fd, &s->found) == 0 &&
	    secrets_cache_add_hidden(cache, source_fd, &s->denied) == 0)
		secrets_cache_put(cache, s);
	return 0;
}

int secrets_find(struct secrets *s, int source_fd, const char *source,
		 const struct strlist *globs, const struct strlist *literal,
		 int cache_fd, struct error *err)
{
	AUTO_SECRETS_CACHE struct secrets_cache cache = SECRETS_CACHE_INIT;

	*s = (struct secrets){0};
	secrets_cache_key(&cache, cache_fd, source, globs);
	if (secrets_cache_get(&cache, source_fd, s) < 0) {
		secrets_done(s);
		return look(s, source_fd, globs, literal, &cache, err);
	}
	s->cached = true;
	/* What was kept has no other names; literal paths are not in it. */
	return literal->n > 0 ? add_other_names(s, source_fd, literal, &cache,
						err)
			      : 0;
}
