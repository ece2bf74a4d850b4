/*
 * A file with a secret in it is hidden as a whole: git does without it, and a
 * text of our own would need a place for each. Only the host's files are read
 * here, and never through a link. What cannot be looked through is hidden.
 */
#include "workspace/secrets_git.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define TEXT_MAX (16u << 20)
#define LEVELS_MAX 32
#define DIRS_MAX 4096

struct look {
	struct secrets *out;
	const char *path;
	struct secrets_cache *cache;
	unsigned dirs;
};

bool secrets_git_is_name(const char *name)
{
	size_t n = strlen(name);

	return n >= 4 && !strcasecmp(name + n - 4, ".git");
}

bool secrets_git_is_repository(int at_fd, const char *name)
{
	static const char *const parts[] = {"HEAD", "objects", "refs"};
	AUTO_CLOSE int fd = -1;
	struct stat st;

	/* The first look is all that it costs elsewhere. */
	fd = walk_open_at(at_fd, name, O_PATH | O_DIRECTORY);
	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(parts); i++) {
		if (fstatat(fd, parts[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
	}
	return fd >= 0;
}

/* More than can be looked through counts as one that has some. */
static bool has_secrets(int fd)
{
	AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
	AUTO_BUF struct buf clean = BUF_INIT(TEXT_MAX);

	return io_read_all(fd, &text) < 0 ||
	       secrets_scrub_config(buf_str(&text), text.len, &clean) != 0;
}

static int look_at(const struct look *l, int dir_fd, const char *path,
		   const char *name)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	r = secrets_cache_add(l->cache, fd, path);
	if (r < 0 || !has_secrets(fd))
		return r;
	return strlist_add(&l->out->found, path);
}

/* Files that hold URLs, and what editors and people make of them. */
static bool holds_urls(const char *name)
{
	return strcasestr(name, "config") || strcasestr(name, "fetch_head");
}

/*
 * What git writes at the top of a repository, and what nobody writes URLs into;
 * anything else there may be a copy of the configuration, or a part of it.
 */
static bool is_plain(const char *name)
{
	static const char *const names[] = {
		"HEAD", "ORIG_HEAD", "index", "packed-refs", "shallow",
		"description", "COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG",
		"TAG_EDITMSG", "gc.log", "gc.pid",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(names[i], name))
			return true;
	}
	return false;
}

/* Directories of a repository that hold no other. */
static bool is_content(const char *name)
{
	static const char *const names[] = {"objects", "refs", "hooks", "info",
					    "lfs"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(names[i], name))
			return true;
	}
	return false;
}

/* Of name in the directory of the walk that began at top. */
static char *path_of(const struct look *l, const struct walk *w,
		     const char *top, const char *name)
{
	return str_format("%s/%s/%s%s%s", l->path, top, buf_str(&w->path),
			  w->path.len > 0 ? "/" : "", name);
}

static int enter(struct look *l, struct walk *w, const char *top,
		 const char *name)
{
	AUTO_FREE char *path = path_of(l, w, top, name);

	if (!path)
		return -ENOMEM;
	if (w->depth >= LEVELS_MAX || l->dirs >= DIRS_MAX)
		return strlist_add(&l->out->found, path);
	if (walk_enter(w, name, false, NULL) < 0)
		return 0;
	l->dirs++;
	return secrets_cache_add(l->cache, walk_fd(w), path);
}

/* Is it the directory of logs of this repository, or of one in it? */
static bool is_log(const char *top, const char *below)
{
	const char *at = strstr(below, "/logs");

	return str_eq(top, "logs") || (at && (!at[5] || at[5] == '/'));
}

/*
 * Below logs, remotes and branches every file may hold URLs. The log of the
 * stash is left: without it the host's stash would be lost at promotion, and
 * git writes no URL to it.
 */
static bool is_left_out(const char *top, const char *below, const char *name,
			bool directory)
{
	if (is_log(top, below))
		return str_eq(name, "stash") && str_ends(below, "refs");
	if (str_eq(top, "remotes") || str_eq(top, "branches"))
		return false;
	return directory ? is_content(name) : !holds_urls(name);
}

static int look_at_entry(struct look *l, struct walk *w, const char *top,
			 const char *name)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    is_left_out(top, buf_str(&w->path), name, S_ISDIR(st.st_mode)))
		return 0;
	if (S_ISDIR(st.st_mode))
		return enter(l, w, top, name);
	path = path_of(l, w, top, name);
	return path ? look_at(l, walk_fd(w), path, name) : -ENOMEM;
}

/* Repositories that lie in this one, or the like: all that top holds. */
static int look_below(struct look *l, int fd, const char *top)
{
	AUTO_FREE char *path = str_format("%s/%s", l->path, top);
	AUTO_WALK struct walk w = {0};
	struct dirent *e;
	int r = path ? walk_init(&w, fd, top, -1, NULL) : -ENOMEM;

	if (r == 0)
		r = secrets_cache_add(l->cache, walk_fd(&w), path);
	while (r >= 0) {
		r = walk_next(&w, &e, NULL);
		if (r > 0)
			r = look_at_entry(l, &w, top, e->d_name);
		else if (r == 0 && w.depth == 1)
			break;
		else if (r == 0)
			r = walk_leave(&w, NULL);
	}
	return r == -ENOMEM ? r : 0;
}

/* What lies in the directory itself, copies of its configuration too. */
static int look_at_files(struct look *l, int fd, bool own)
{
	AUTO_WALK struct walk w = {0};
	struct dirent *e;
	int r = walk_init(&w, fd, NULL, -1, NULL);

	if (r == 0)
		r = secrets_cache_add(l->cache, walk_fd(&w), l->path);
	while (r >= 0 && (r = walk_next(&w, &e, NULL)) > 0) {
		AUTO_FREE char *path = NULL;

		if (is_plain(e->d_name) ||
		    (own && str_eq(e->d_name, "config")))
			continue;
		path = str_format("%s/%s", l->path, e->d_name);
		r = path ? look_at(l, fd, path, e->d_name) : -ENOMEM;
	}
	return r == -ENOMEM ? r : 0;
}

int secrets_git_look(struct secrets *s, int at_fd, const char *name,
		     const char *path, bool own, struct secrets_cache *cache)
{
	static const char *const dirs[] = {"modules", "worktrees", "logs",
					   "remotes", "branches"};
	AUTO_CLOSE int fd = walk_open_at(at_fd, name, O_RDONLY | O_DIRECTORY);
	struct look l = {.out = s, .path = path, .cache = cache};
	int r;

	if (fd < 0)
		return 0;
	r = look_at_files(&l, fd, own);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = look_below(&l, fd, dirs[i]);
	return r;
}
