/*
 * A configuration with a secret in it is hidden as a whole: git does without it,
 * and a text of our own would need a place for each. Only the host's files are
 * read here, and never through a link.
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

#define CONFIG_MAX (1u << 20)
#define MODULE_LEVELS 8
#define MODULE_DIRS_MAX 512

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

/* More than can be looked through counts as one that has some. */
static bool has_secrets(int fd)
{
	AUTO_BUF struct buf text = BUF_INIT(CONFIG_MAX);
	AUTO_BUF struct buf clean = BUF_INIT(CONFIG_MAX);

	return io_read_all(fd, &text) < 0 ||
	       secrets_scrub_config(buf_str(&text), text.len, &clean) != 0;
}

/* below: what lies between the repository and name, "" or with a slash. */
static int look_at(const struct look *l, int dir_fd, const char *below,
		   const char *name)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK);
	AUTO_FREE char *path = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	path = str_format("%s/%s%s", l->path, below, name);
	if (!path)
		return -ENOMEM;
	r = secrets_cache_add(l->cache, fd, path);
	if (r < 0 || !has_secrets(fd))
		return r;
	return strlist_add(&l->out->found, path);
}

/* Of a repository, what holds no other. */
static bool is_content(const char *name)
{
	static const char *const names[] = {"objects", "refs", "logs", "hooks",
					    "info", "lfs"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(names[i], name))
			return true;
	}
	return false;
}

static int enter(struct look *l, struct walk *w, const char *top,
		 const char *name)
{
	AUTO_FREE char *path = NULL;

	if (is_content(name) || w->depth >= MODULE_LEVELS ||
	    l->dirs >= MODULE_DIRS_MAX || walk_enter(w, name, false, NULL) < 0)
		return 0;
	l->dirs++;
	path = str_format("%s/%s/%s", l->path, top, buf_str(&w->path));
	return path ? secrets_cache_add(l->cache, walk_fd(w), path) : -ENOMEM;
}

static int look_at_entry(struct look *l, struct walk *w, const char *top,
			 const char *name)
{
	AUTO_FREE char *below = NULL;
	struct stat st;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return enter(l, w, top, name);
	if (!str_eq(name, "config") && !str_eq(name, "config.worktree"))
		return 0;
	below = str_format("%s/%s%s", top, buf_str(&w->path),
			   w->path.len > 0 ? "/" : "");
	return below ? look_at(l, walk_fd(w), below, name) : -ENOMEM;
}

/* modules, or worktrees: repositories that lie in this one. */
static int look_below(struct look *l, int fd, const char *top)
{
	AUTO_WALK struct walk w = {0};
	struct dirent *e;
	int r = walk_init(&w, fd, top, -1, NULL);

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

int secrets_git_look(struct secrets *s, int at_fd, const char *name,
		     const char *path, bool own, struct secrets_cache *cache)
{
	AUTO_CLOSE int fd = walk_open_at(at_fd, name, O_RDONLY | O_DIRECTORY);
	struct look l = {.out = s, .path = path, .cache = cache};
	int r = 0;

	if (fd < 0)
		return 0;
	if (!own)
		r = look_at(&l, fd, "", "config");
	if (r == 0)
		r = look_at(&l, fd, "", "config.worktree");
	if (r == 0)
		r = look_below(&l, fd, "modules");
	return r == 0 ? look_below(&l, fd, "worktrees") : r;
}
