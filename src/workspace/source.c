/*
 * Finds the directory that a task works on. The working directory's own path
 * has no links in it (getcwd), so looking above it costs one system call a
 * level; what is named on the command line is opened first and its path is
 * taken from the descriptor.
 */
#include "workspace/source.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define QUOTE_MAX 400

void source_done(struct source *s)
{
	free(s->path);
	free(s->workdir);
	close_fd(s->fd);
	*s = (struct source){.fd = -1};
}

static int fail(struct error *err, int code, const char *what, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, QUOTE_MAX);
	return error_set(err, code, "%s %s: %s", what, buf_str(&quoted),
			 strerror(-code));
}

/* Opens a directory by any path and tells its own, without links. */
static int open_directory(const char *path, const char *what, char **ret_path,
			  int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char link[64], real[PATH_MAX];
	ssize_t n;

	if (fd < 0)
		return fail(err, -errno, what, path);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n < 0)
		return fail(err, -errno, "cannot tell the real path of", path);
	real[n] = '\0';
	if (n == (ssize_t)sizeof(real) - 1 || !path_is_normal(real))
		return fail(err, -ENAMETOOLONG,
			    "cannot tell the real path of", path);
	*ret_path = strdup(real);
	if (!*ret_path)
		return fail(err, -ENOMEM, what, path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* True if dir holds .git: a directory with a HEAD, or a file that names one. */
static bool is_git_top(const char *dir)
{
	char path[PATH_MAX + 16], head[8];
	struct stat st;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/.git/HEAD", dir);
	if (lstat(path, &st) == 0)
		return true;
	if (errno != ENOTDIR)
		return false;
	path[strlen(path) - strlen("/HEAD")] = '\0';
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, head, sizeof(head));
	close(fd);
	return n == 8 && !memcmp(head, "gitdir: ", 8);
}

/* True if path is the home directory, or a directory above it. */
static bool holds_home(const char *path, const struct stat *st,
		       const char *home)
{
	struct stat home_st;

	if (str_eq(path, "/"))
		return true;
	if (!home || home[0] != '/')
		return false;
	if (path_is_normal(home) && path_is_below(home, path))
		return true;
	return stat(home, &home_st) == 0 && st->st_dev == home_st.st_dev &&
	       st->st_ino == home_st.st_ino;
}

/*
 * Cuts path to the git top level at or above it, if uid owns that and it is
 * neither "/" nor the home (a repository of dotfiles is not what is meant).
 */
static void cut_to_git_top(char *path, const char *home, uid_t uid)
{
	AUTO_FREE char *at = strdup(path);
	struct stat st;

	while (at && at[1] != '\0') {
		if (is_git_top(at)) {
			if (stat(at, &st) == 0 && st.st_uid == uid &&
			    !holds_home(at, &st, home))
				strcpy(path, at);
			return;
		}
		*strrchr(at, '/') = '\0';
		if (at[0] == '\0')
			return;
	}
}

static int refuse_home(const char *path, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, QUOTE_MAX);
	return error_set(
		err, -EINVAL,
		"the working directory %s is %s and is not taken as the source "
		"unasked. Name a directory: pinfold run --source DIR -- CMD; "
		"or work without one: pinfold run --source none -- CMD",
		buf_str(&quoted),
		str_eq(path, "/") ? "the whole file system"
				  : "your home (or holds it)");
}

/* The source when none was named. */
static int find_unasked(const char *home, uid_t uid, char **ret_path,
			int *ret_fd, struct error *err)
{
	char path[PATH_MAX];
	struct stat st;

	if (!getcwd(path, sizeof(path)))
		return error_errno(err, "cannot tell the working directory");
	if (!path_is_normal(path))
		return fail(err, -ENOENT, "the working directory is gone", path);
	if (stat(path, &st) < 0)
		return fail(err, -errno, "cannot read the working directory",
			    path);
	if (holds_home(path, &st, home))
		return refuse_home(path, err);
	cut_to_git_top(path, home, uid);
	return open_directory(path, "cannot open the source", ret_path, ret_fd,
			      err);
}

/* Without a source: a place that need exist inside only. */
static int keep_workdir(const char *workdir, char **ret, struct error *err)
{
	*ret = NULL;
	if (!workdir)
		return 0;
	if (!path_is_normal(workdir))
		return fail(err, -EINVAL,
			    "without a source the working directory must be an "
			    "absolute path without . and ..:",
			    workdir);
	*ret = strdup(workdir);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Where the command starts in the source path. */
static int find_workdir(const char *workdir, const char *path, char **ret,
			struct error *err)
{
	AUTO_FREE char *real = NULL;
	AUTO_CLOSE int fd = -1;
	char cwd[PATH_MAX];
	int r;

	if (!workdir) {
		bool below = getcwd(cwd, sizeof(cwd)) && path_is_normal(cwd) &&
			     path_is_below(cwd, path);

		*ret = strdup(below ? cwd : path);
		return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	r = open_directory(workdir, "cannot open the working directory", &real,
			   &fd, err);
	if (r < 0)
		return r;
	if (!path_is_below(real, path))
		return error_set(err, -EINVAL,
				 "the working directory %s is not below the "
				 "source %s: name one in it, or with --source "
				 "another source",
				 real, path);
	*ret = steal_ptr(&real);
	return 0;
}

/* What the kernel makes up is nothing to work on, and shows the host. */
static int refuse_kernel(int fd, const char *path, struct error *err)
{
	static const uint32_t kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,
		CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
		DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC};
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return error_errno(err, "cannot look at the source");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((uint32_t)fs.f_type != kinds[i])
			continue;
		str_quote(&quoted, path, QUOTE_MAX);
		return error_set(err, -EINVAL,
				 "%s is the kernel's own and cannot be a "
				 "source: name a directory of files, or "
				 "--source none", buf_str(&quoted));
	}
	return 0;
}

/* The source itself; *ret_path NULL for "none". */
static int find_path(const char *wanted, const char *home, uid_t uid,
		     char **ret_path, int *ret_fd, struct error *err)
{
	int r;

	if (!wanted)
		return find_unasked(home, uid, ret_path, ret_fd, err);
	if (!*wanted)
		return error_set(err, -EINVAL, "the source is an empty name");
	if (str_eq(wanted, "none"))
		return 0;
	r = open_directory(wanted, "cannot open the source", ret_path, ret_fd,
			   err);
	if (r == 0 && str_eq(*ret_path, "/"))
		return error_set(err, -EINVAL,
				 "the whole file system (/) cannot be a source: "
				 "name a directory, or --source none");
	return r;
}

int source_find(const char *wanted, const char *workdir, const char *home,
		uid_t uid, struct source *ret, struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *start = NULL;
	AUTO_CLOSE int fd = -1;
	struct stat st = {.st_uid = uid};
	int r = find_path(wanted, home, uid, &path, &fd, err);

	if (r == 0 && path)
		r = refuse_kernel(fd, path, err);
	if (r < 0)
		return r;
	r = path ? find_workdir(workdir, path, &start, err)
		 : keep_workdir(workdir, &start, err);
	if (r < 0)
		return r;
	if (fd >= 0 && fstat(fd, &st) < 0)
		return fail(err, -errno, "cannot read the source", path);
	*ret = (struct source){
		.path = steal_ptr(&path),
		.workdir = steal_ptr(&start),
		.fd = steal_fd(&fd),
		.owner = st.st_uid,
		.group = st.st_gid,
		.mode = st.st_mode,
	};
	return 0;
}

bool source_link_leaves(const char *source, const char *path,
			const char *target)
{
	size_t depth = 0;

	if (target[0] == '/')
		return !path_is_normal(target) ||
		       !path_is_below(target, source);
	for (; *path; path++)
		depth += *path == '/';
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && !memcmp(target, "..", 2)) {
			if (depth-- == 0)
				return true;
		} else if (n > 1 || (n == 1 && target[0] != '.')) {
			depth++;
		}
		target += n + (target[n] == '/');
	}
	return false;
}
