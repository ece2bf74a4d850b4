#include "workspace/git_repo.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)
#define WORKTREES_MAX 1000
#define SECTION_SIZE 32

void git_repo_done(struct git_repo *g)
{
	close_fd(g->fd);
	close_fd(g->objects_fd);
	for (size_t i = 0; i < g->n_alternates; i++)
		close_fd(g->alternates[i]);
	tree_done(&g->tree);
	git_packed_done(&g->packed);
	buf_done(&g->shallow);
	strlist_done(&g->elsewhere);
	*g = (struct git_repo)GIT_REPO_INIT;
}

static int refuse(struct buf *why, const char *text, const char *what)
{
	buf_reset(why);
	buf_add_str(why, text);
	if (what)
		str_quote(why, what, 100);
	return 1;
}

/* ---- configuration ---- */

static bool is_true(const char *value)
{
	return !strcasecmp(value, "true") || !strcasecmp(value, "yes") ||
	       !strcasecmp(value, "on") || str_eq(value, "1");
}

/* What the format is extended by; what is unknown here changes it somehow. */
static int read_extension(struct git_repo *g, const char *key,
			  const char *value, struct buf *why)
{
	static const char *const harmless[] = {
		"noop", "noop-v1", "preciousobjects", "relativeworktrees",
		"worktreeconfig"};

	if (!strcasecmp(key, "objectformat")) {
		g->id_len = !strcasecmp(value, "sha256") ? 64 : 40;
		return !strcasecmp(value, "sha256") ||
				       !strcasecmp(value, "sha1")
			       ? 0
			       : refuse(why, "its object format is ", value);
	}
	if (!strcasecmp(key, "refstorage") && !strcasecmp(value, "files"))
		return 0;
	if (!strcasecmp(key, "partialclone"))
		return refuse(why, "it is a partial clone, which does not have "
				   "all of its objects",
			      NULL);
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++) {
		if (!strcasecmp(key, harmless[i]))
			return 0;
	}
	return refuse(why, "it is in a format that pinfold does not know: "
			   "extensions.",
		      key);
}

static int read_core(const char *key, const char *value, struct buf *why)
{
	if (!strcasecmp(key, "worktree"))
		return refuse(why, "its working tree is elsewhere "
				   "(core.worktree)",
			      NULL);
	if (!strcasecmp(key, "bare") && is_true(value))
		return refuse(why, "it has no working tree (core.bare)", NULL);
	if (!strcasecmp(key, "sparsecheckout") && is_true(value))
		return refuse(why, "only a part of it is checked out "
				   "(core.sparseCheckout)",
			      NULL);
	if (!strcasecmp(key, "repositoryformatversion") && atoi(value) > 1)
		return refuse(why, "it is in a format that pinfold does not "
				   "know: version ",
			      value);
	return 0;
}

/* Takes the head of a section off a line. */
static char *read_section(char *line, char section[SECTION_SIZE])
{
	size_t n;

	if (line[0] != '[')
		return line;
	n = strcspn(line + 1, "]");
	snprintf(section, SECTION_SIZE, "%.*s",
		 n < SECTION_SIZE ? (int)n : SECTION_SIZE - 1, line + 1);
	return str_strip(line[1 + n] ? line + n + 2 : line + n + 1);
}

/* The value without a remark and quotes; the key alone means that it is so. */
static const char *read_value(char *value)
{
	if (!value)
		return "true";
	*value++ = '\0';
	value[strcspn(value, "#;")] = '\0';
	value = str_strip(value);
	if (value[0] == '"') {
		value++;
		value[strcspn(value, "\"")] = '\0';
	}
	return str_strip(value);
}

static int read_line(struct git_repo *g, char *line,
		     char section[SECTION_SIZE], struct buf *why)
{
	const char *value;

	line = read_section(str_strip(line), section);
	if (!*line || line[0] == '#' || line[0] == ';')
		return 0;
	value = read_value(strchr(line, '='));
	line = str_strip(line);
	if (!strcasecmp(section, "extensions"))
		return read_extension(g, line, value, why);
	return strcasecmp(section, "core") ? 0 : read_core(line, value, why);
}

static int read_config(struct git_repo *g, struct buf *why)
{
	AUTO_BUF struct buf text = BUF_INIT(CONFIG_MAX);
	char section[SECTION_SIZE] = "", *save = NULL;
	int r = io_read_file(g->fd, "config", &text);

	g->id_len = 40;
	if (r < 0)
		return r == -ENOENT ? refuse(why, "it has no config", NULL)
				    : r;
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL;
	     line && r == 0; line = strtok_r(NULL, "\n", &save))
		r = read_line(g, line, section, why);
	return r;
}

/* ---- references ---- */

static int parse_head(const char *text, size_t id_len, struct git_head *ret)
{
	*ret = (struct git_head){0};
	if (str_starts(text, "ref:")) {
		text += 4 + strspn(text + 4, " \t");
		snprintf(ret->ref, sizeof(ret->ref), "%.*s",
			 (int)strcspn(text, "\n"), text);
		return git_name_fault(ret->ref) ? -EBADMSG : 0;
	}
	if (!git_is_id(text, id_len))
		return -EBADMSG;
	memcpy(ret->id, text, id_len);
	return 0;
}

int git_read_head(int dir_fd, const char *name, size_t id_len,
		  struct git_head *ret, struct stat *st)
{
	AUTO_BUF struct buf text = BUF_INIT(GIT_NAME_MAX);
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name,
					 O_RDONLY | O_NONBLOCK | O_NOCTTY);
	int r;

	if (fd < 0)
		return fd == -ELOOP ? -EBADMSG : fd;
	if (fstat(fd, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode))
		return -EBADMSG;
	r = io_read_all(fd, &text);
	if (r == -EFBIG || (r == 0 && strlen(buf_str(&text)) != text.len))
		return -EBADMSG;
	return r < 0 ? r : parse_head(buf_str(&text), id_len, ret);
}

/* A directory is no file: an empty one is left behind by git at times. */
static int read_loose(struct git_repo *g, int dir_fd, const char *name,
		      struct git_head *head, struct git_value *ret)
{
	int r = git_read_head(dir_fd, name, g->id_len, head, &ret->st);

	if (r != -EBADMSG || !S_ISDIR(ret->st.st_mode))
		return r;
	ret->dir = true;
	return -ENOENT;
}

int git_repo_value(struct git_repo *g, const char *name,
		   struct git_value *ret)
{
	const char *id = git_packed_find(&g->packed, name), *base;
	int dir_fd = tree_parent(&g->tree, name, &base), r = dir_fd;
	struct git_head head;

	*ret = (struct git_value){0};
	if (dir_fd >= 0)
		r = read_loose(g, dir_fd, base, &head, ret);
	if (r == -ENOENT || r == -ENOTDIR) {
		ret->st = (struct stat){0};
		if (id)
			memcpy(ret->id, id, g->id_len);
		return 0;
	}
	if (r < 0 || head.ref[0])
		return r < 0 && r != -ELOOP && r != -EXDEV ? r : -EBADMSG;
	ret->loose = true;
	memcpy(ret->id, head.id, g->id_len);
	return 0;
}

int git_repo_out(struct git_repo *g, char id[GIT_ID_MAX + 1])
{
	struct git_value now = {0};
	int r = 0;

	if (g->head.ref[0])
		r = git_repo_value(g, g->head.ref, &now);
	else
		memcpy(now.id, g->head.id, sizeof(now.id));
	memcpy(id, now.id, sizeof(now.id));
	return r;
}

static int each_entry(struct walk *w, const char *dir, const char *name,
		      int (*fn)(void *arg, const char *name), void *arg)
{
	AUTO_FREE char *path = NULL;
	struct stat st;
	int r;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		r = walk_enter(w, name, false, NULL);
		return r == -ENOMEM ? r : 0;
	}
	if (!S_ISREG(st.st_mode))
		return 0;
	path = str_format("%s/%s%s%s", dir, buf_str(&w->path),
			  w->path.len ? "/" : "", name);
	return path ? fn(arg, path) : -ENOMEM;
}

int git_repo_each_loose(struct git_repo *g, const char *dir,
			int (*fn)(void *arg, const char *name), void *arg)
{
	AUTO_WALK struct walk w = {0};
	const char *base;
	struct dirent *e;
	int dir_fd = tree_parent(&g->tree, dir, &base), r;

	if (dir_fd < 0 || walk_init(&w, dir_fd, base, -1, NULL) < 0)
		return 0;
	for (;;) {
		r = walk_next(&w, &e, NULL);
		if (r == 0 && w.depth == 1)
			return 0;
		if (r == 0)
			r = walk_leave(&w, NULL);
		else if (r > 0)
			r = each_entry(&w, dir, e->d_name, fn, arg);
		if (r != 0)
			return r;
	}
}

/* ---- what else there is ---- */

static int read_worktree(struct git_repo *g, int dir_fd, const char *name)
{
	AUTO_CLOSE int tree = walk_open_at(dir_fd, name, O_PATH | O_DIRECTORY);
	struct git_head head;
	struct stat st;
	int r;

	if (name[0] == '.' || tree < 0 ||
	    git_read_head(tree, "HEAD", g->id_len, &head, &st) < 0 ||
	    !head.ref[0])
		return 0;
	r = strlist_add(&g->elsewhere, head.ref);
	return r == 0 ? strlist_add(&g->elsewhere, name) : r;
}

/* The branches that linked working trees are on. */
static int read_worktrees(struct git_repo *g)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int r = io_dir_of(walk_open_at(g->fd, "worktrees",
				       O_RDONLY | O_DIRECTORY),
			  &dir);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while (r == 0 && (e = readdir(dir)) &&
	       g->elsewhere.n < 2 * WORKTREES_MAX)
		r = read_worktree(g, dirfd(dir), e->d_name);
	return r;
}

const char *git_repo_elsewhere(const struct git_repo *g, const char *name)
{
	for (size_t i = 0; i + 1 < g->elsewhere.n; i += 2) {
		if (str_eq(g->elsewhere.items[i], name))
			return g->elsewhere.items[i + 1];
	}
	return NULL;
}

static void find_busy(struct git_repo *g)
{
	static const char *const marks[][2] = {
		{"MERGE_HEAD", "a merge"},
		{"CHERRY_PICK_HEAD", "a cherry-pick"},
		{"REVERT_HEAD", "a revert"},
		{"rebase-merge", "a rebase"},
		{"rebase-apply", "a rebase"},
		{"BISECT_LOG", "a bisection"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (faccessat(g->fd, marks[i][0], F_OK, AT_SYMLINK_NOFOLLOW) ==
		    0)
			g->busy = marks[i][1];
	}
}

/*
 * Where else the repository has objects. git follows what these say in turn;
 * then it cannot read them, and the check says what is missing.
 */
static int open_alternates(struct git_repo *g)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	char *save = NULL;
	int r = io_read_file(g->objects_fd, "info/alternates", &text);

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL;
	     line && g->n_alternates < GIT_ALTERNATES_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		int fd;

		if (!*line || line[0] == '#')
			continue;
		fd = openat(g->objects_fd, line,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			g->alternates[g->n_alternates++] = fd;
	}
	return 0;
}

static int read_more(struct git_repo *g)
{
	int r = open_alternates(g);

	if (r == 0)
		r = io_read_file(g->fd, "shallow", &g->shallow);
	if (r == -ENOENT)
		r = 0;
	if (r == 0)
		r = read_worktrees(g);
	if (r == 0)
		find_busy(g);
	return r;
}

static int open_parts(struct git_repo *g, struct buf *why)
{
	int r;

	g->objects_fd = walk_open_at(g->fd, "objects",
				     O_RDONLY | O_DIRECTORY);
	if (g->objects_fd < 0)
		return refuse(why, "its objects are elsewhere: ",
			      strerror(-g->objects_fd));
	r = git_packed_read(&g->packed, g->fd, "packed-refs", g->id_len);
	if (r == -EBADMSG || r == -ELOOP || r == -EFBIG)
		return refuse(why, "its packed-refs cannot be read", NULL);
	if (r == 0)
		r = git_read_head(g->fd, "HEAD", g->id_len, &g->head,
				  &g->head_st);
	if (r == -EBADMSG || r == -ENOENT)
		return refuse(why, "its HEAD cannot be read", NULL);
	return r == 0 ? read_more(g) : r;
}

int git_repo_open(struct git_repo *g, int source_fd, struct buf *why)
{
	int r;

	*g = (struct git_repo)GIT_REPO_INIT;
	g->fd = walk_open_at(source_fd, ".git", O_RDONLY | O_DIRECTORY);
	if (g->fd < 0)
		return refuse(why, "it is not a directory of the source", NULL);
	tree_init(&g->tree, g->fd);
	r = read_config(g, why);
	return r == 0 ? open_parts(g, why) : r;
}
