/*
 * What the source on the host says about where git's hooks are. It is the
 * caller's own, not the agent's; still nothing here can hang, and what cannot
 * be understood protects nothing more than the table does.
 */
#include "workspace/protect.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define CONFIG_MAX (256u << 10)

void protect_done(struct protect *p)
{
	strlist_done(&p->dirs);
	*p = (struct protect)PROTECT_INIT;
}

/* Reads a small regular file, without its last newline. False if it is none. */
static bool read_small(int dir_fd, const char *name, struct buf *text)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC |
							 O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    io_read_all(fd, text) < 0)
		return false;
	while (text->len > 0 && text->data[text->len - 1] == '\n')
		text->data[--text->len] = '\0';
	return text->len > 0;
}

/* The directory that .git is or names, then the one that worktrees share. */
static int open_git(int source_fd)
{
	AUTO_BUF struct buf text = BUF_INIT(PATH_MAX);
	AUTO_BUF struct buf common = BUF_INIT(PATH_MAX);
	AUTO_CLOSE int fd = -1;
	int shared;

	fd = openat(source_fd, ".git", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && read_small(source_fd, ".git", &text) &&
	    str_starts(buf_str(&text), "gitdir: "))
		fd = openat(source_fd, buf_str(&text) + 8,
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || !read_small(fd, "commondir", &common))
		return steal_fd(&fd);
	shared = openat(fd, buf_str(&common), O_PATH | O_DIRECTORY | O_CLOEXEC);
	return shared >= 0 ? shared : steal_fd(&fd);
}

/* What follows the source's own path in an absolute one; NULL: not below it. */
static const char *behind_source(int source_fd, const char *path)
{
	AUTO_FREE char *top = io_fd_path(source_fd);

	return top && path_is_below(path, top) ? path + strlen(top) : NULL;
}

/* Adds one component to a path of *len bytes. False: it leads out. */
static bool add_component(char out[PATH_MAX], size_t *len, const char *name,
			  size_t n)
{
	if (n == 0 || (n == 1 && name[0] == '.'))
		return true;
	if (n == 2 && !memcmp(name, "..", 2)) {
		if (*len == 0)
			return false;
		while (*len > 0 && out[--*len] != '/')
			;
		return true;
	}
	if (*len + n + 2 > PATH_MAX)
		return false;
	if (*len > 0)
		out[(*len)++] = '/';
	memcpy(out + *len, name, n);
	*len += n;
	return true;
}

/*
 * A relative path without "." and "..", which are taken by their names. False:
 * it leads out.
 */
static bool normalise(const char *path, char out[PATH_MAX])
{
	size_t len = 0;

	for (; *path; path += strspn(path, "/")) {
		size_t n = strcspn(path, "/");

		if (!add_component(out, &len, path, n))
			return false;
		path += n;
	}
	out[len] = '\0';
	return len > 0;
}

/* path is relative to the source, or absolute. One that leads out is none. */
static int add_dir(struct protect *p, const char *path)
{
	char dir[PATH_MAX];

	if (path[0] == '/')
		path = behind_source(p->source_fd, path);
	return path && normalise(path, dir) ? strlist_add(&p->dirs, dir) : 0;
}

/* Where .git/hooks leads, if it is a link. */
static int add_link(struct protect *p)
{
	char target[PATH_MAX];
	AUTO_FREE char *path = NULL;
	ssize_t n = readlinkat(p->source_fd, ".git/hooks", target,
			       sizeof(target) - 1);

	if (n <= 0)
		return 0;
	target[n] = '\0';
	if (target[0] == '/')
		return add_dir(p, target);
	path = str_format(".git/%s", target);
	return path ? add_dir(p, path) : -ENOMEM;
}

/* A value of the configuration, without the quotes around it. */
static char *strip(char *s)
{
	size_t n;

	s = str_strip(s);
	n = strlen(s);
	if (n > 1 && s[0] == '"' && s[n - 1] == '"') {
		s[n - 1] = '\0';
		s++;
	}
	return s;
}

/* The values of core.hooksPath in the text of a git configuration. */
static int add_configured(struct protect *p, char *text)
{
	bool core = false;
	char *save = NULL;
	int r = 0;

	for (char *line = strtok_r(text, "\n", &save); line && r == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		char *value;

		line = strip(line);
		if (line[0] == '[') {
			core = !strncasecmp(line, "[core]", 6);
			line = strip(line + (core ? 6 : strlen(line)));
		}
		value = strchr(line, '=');
		if (!core || !value)
			continue;
		*value++ = '\0';
		if (!strcasecmp(strip(line), "hookspath"))
			r = add_dir(p, strip(value));
	}
	return r;
}

int protect_init(struct protect *p, const struct strlist *globs, int source_fd,
		 struct error *err)
{
	AUTO_BUF struct buf config = BUF_INIT(CONFIG_MAX);
	AUTO_CLOSE int git = -1;
	struct stat st;
	int r = 0;

	*p = (struct protect){.globs = globs, .source_fd = source_fd};
	if (source_fd < 0)
		return 0;
	p->no_repository = fstatat(source_fd, ".git", &st,
				   AT_SYMLINK_NOFOLLOW) < 0 ||
			   !S_ISDIR(st.st_mode);
	r = add_link(p);
	git = open_git(source_fd);
	if (r == 0 && git >= 0 && read_small(git, "config", &config))
		r = add_configured(p, config.data);
	if (r == 0)
		return 0;
	protect_done(p);
	return error_set(err, r, "out of memory");
}
