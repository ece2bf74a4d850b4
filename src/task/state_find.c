/*
 * Lists the tasks in the state directory and finds the one that is meant.
 */
#include "task/state.h"

#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "confine/sys.h"
#include "task/state_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_SHOWN 3

DIR *state_read(int fd, const char *name)
{
	DIR *dir = NULL;

	io_open_dir(fd, name, &dir);
	return dir;
}

static bool looks_like_keeper(int proc, const char *pid,
			      const struct stat *task)
{
	char name[32], exe[PATH_MAX];
	const char *slash;
	struct stat st;
	ssize_t n;

	snprintf(name, sizeof(name), "%.16s/cwd", pid);
	if (fstatat(proc, name, &st, 0) < 0 || st.st_dev != task->st_dev ||
	    st.st_ino != task->st_ino)
		return false;
	snprintf(name, sizeof(name), "%.16s/exe", pid);
	n = readlinkat(proc, name, exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	/* An upgrade may have replaced the program. */
	return slash && str_starts(slash, "/pinfold-keeper");
}

/* The parent of a process; 0: it has none that we see, or is gone. */
static pid_t parent_of(int proc, const char *pid)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	char name[32];
	const char *end;
	int parent;

	snprintf(name, sizeof(name), "%.16s/stat", pid);
	/* pid (name) state parent: the name may hold anything. */
	if (io_read_file(proc, name, &b) < 0 ||
	    !(end = strrchr(buf_str(&b), ')')) ||
	    sscanf(end, ") %*c %d", &parent) != 1)
		return 0;
	return parent;
}

/* A keeper has a child of its own program and place, which waits for work. */
static bool is_keeper(int proc, const char *pid, const struct stat *task)
{
	char parent[16];

	snprintf(parent, sizeof(parent), "%d", (int)parent_of(proc, pid));
	return looks_like_keeper(proc, pid, task) &&
	       !looks_like_keeper(proc, parent, task);
}

int state_task_keeper(int task_fd)
{
	AUTO_DIR DIR *proc = state_read(AT_FDCWD, "/proc");
	struct stat task, st;
	struct dirent *e;

	if (!proc || fstat(task_fd, &task) < 0)
		return -ESRCH;
	while ((e = readdir(proc))) {
		AUTO_CLOSE int keeper = -1;
		uint64_t pid;

		if (num_parse_u64(e->d_name, &pid) < 0 || pid > INT_MAX ||
		    fstatat(dirfd(proc), e->d_name, &st, 0) < 0 ||
		    st.st_uid != geteuid())
			continue;
		/* First, so that what is looked at is what will be signalled. */
		keeper = sys_pidfd_open((pid_t)pid);
		if (keeper >= 0 && is_keeper(dirfd(proc), e->d_name, &task) &&
		    sys_pidfd_send_signal(keeper, 0) == 0)
			return steal_fd(&keeper);
	}
	return -ESRCH;
}

uint64_t state_started(const struct state *s, const char *id)
{
	char name[STATE_ID_SIZE + 8];
	struct stat st;

	snprintf(name, sizeof(name), "%.*s/lock", STATE_ID_SIZE - 1, id);
	if (fstatat(s->tasks_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_mtim.tv_sec < 0)
		return 0;
	return (uint64_t)st.st_mtim.tv_sec * 1000000u +
	       (uint64_t)st.st_mtim.tv_nsec / 1000u;
}

static int newest_first(const void *a, const void *b)
{
	const struct state_task *x = a, *y = b;

	if (x->started_us != y->started_us)
		return x->started_us < y->started_us ? 1 : -1;
	return strcmp(x->id, y->id);
}

static int add_task(struct state_task **tasks, size_t *n, size_t *cap,
		    const char *id, uint64_t started_us)
{
	if (*n == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		struct state_task *grown =
			reallocarray(*tasks, more, sizeof(**tasks));

		if (!grown)
			return -ENOMEM;
		*tasks = grown;
		*cap = more;
	}
	memcpy((*tasks)[*n].id, id, STATE_ID_SIZE);
	(*tasks)[(*n)++].started_us = started_us;
	return 0;
}

/* The tasks that dir names; it is NULL where it could not be read. */
static int list_names(const struct state *s, DIR *dir, struct state_task **ret,
		      size_t *ret_n, struct error *err)
{
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;

	if (!dir)
		return state_fail(err, -errno, "read tasks in", s->path);
	for (;;) {
		errno = 0;
		e = readdir(dir);
		if (!e && errno)
			return state_fail(err, -errno, "read tasks in",
					  s->path);
		if (!e)
			break;
		if (state_is_id(e->d_name) &&
		    add_task(&tasks, &n, &cap, e->d_name,
			     state_started(s, e->d_name)) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	}
	if (n > 1)
		qsort(tasks, n, sizeof(*tasks), newest_first);
	*ret = steal_ptr(&tasks);
	*ret_n = n;
	return 0;
}

int state_list(const struct state *s, struct state_task **ret, size_t *ret_n,
	       struct error *err)
{
	AUTO_DIR DIR *dir = state_read(s->tasks_fd, ".");

	return list_names(s, dir, ret, ret_n, err);
}

int state_list_live(const struct state *s, struct state_task **ret,
		    size_t *ret_n, struct error *err)
{
	AUTO_DIR DIR *dir = state_read(s->fd, "live");

	*ret = NULL;
	*ret_n = 0;
	/* Before the first task. */
	if (!dir && errno == ENOENT)
		return 0;
	return list_names(s, dir, ret, ret_n, err);
}

static int open_task(const struct state *s, const char *id)
{
	int fd = openat(s->tasks_fd, id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* As the record writes it: bytes that are not UTF-8 as \xNN. */
static int as_recorded(const char *source, struct buf *out)
{
	size_t len = strlen(source);

	for (size_t i = 0; i < len;) {
		size_t n = 1;

		while (n <= 4 && i + n <= len && !str_is_utf8(source + i, n))
			n++;
		if (n <= 4 && i + n <= len) {
			buf_add(out, source + i, n);
			i += n;
		} else {
			buf_addf(out, "\\x%02x", (unsigned char)source[i++]);
		}
	}
	return out->failed;
}

static bool is_of_source(int task_fd, const char *source)
{
	struct record r;
	bool same;

	if (record_read(task_fd, &r, NULL) < 0)
		return false;
	same = r.source && str_eq(r.source, source);
	record_done(&r);
	return same;
}

static int open_newest(const struct state *s, const char *source,
		       char ret_id[STATE_ID_SIZE], int *ret_fd,
		       struct error *err)
{
	AUTO_FREE struct state_task *tasks = NULL;
	AUTO_BUF struct buf text = BUF_INIT(1u << 20);
	AUTO_BUF struct buf quoted = BUF_INIT(8192);
	size_t n;
	int r = state_list(s, &tasks, &n, err);

	if (r < 0)
		return r;
	if (source && as_recorded(source, &text) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		AUTO_CLOSE int fd = open_task(s, tasks[i].id);

		if (fd < 0 || (source && !is_of_source(fd, buf_str(&text))))
			continue;
		memcpy(ret_id, tasks[i].id, STATE_ID_SIZE);
		*ret_fd = steal_fd(&fd);
		return 0;
	}
	if (!source)
		return error_set(err, -ENOENT, "there is no task");
	str_quote(&quoted, source, 400);
	return error_set(err, -ENOENT,
			 "there is no task of the source %s: pinfold ps -a "
			 "shows all tasks",
			 buf_str(&quoted));
}

int state_newest_pending(const struct state *s, const char *recorded,
			 const char *but, char ret_id[STATE_ID_SIZE])
{
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n;
	int r = state_list(s, &tasks, &n, NULL);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		AUTO_CLOSE int fd = str_eq(tasks[i].id, but)
					    ? -1
					    : open_task(s, tasks[i].id);

		if (fd < 0 || state_task_alive(fd) ||
		    !state_task_has_pending(fd) || !is_of_source(fd, recorded))
			continue;
		memcpy(ret_id, tasks[i].id, STATE_ID_SIZE);
		return 0;
	}
	return -ENOENT;
}

/* Finds the only id that begins with prefix. */
static int complete(const struct state *s, const char *prefix,
		    char id[STATE_ID_SIZE], struct error *err)
{
	AUTO_DIR DIR *dir = state_read(s->tasks_fd, ".");
	AUTO_BUF struct buf names = BUF_INIT(256);
	size_t n = 0;
	struct dirent *e;

	if (!dir)
		return state_fail(err, -errno, "read tasks in", s->path);
	while ((e = readdir(dir))) {
		if (!state_is_id(e->d_name) || !str_starts(e->d_name, prefix))
			continue;
		if (n++ < NAMES_SHOWN)
			buf_addf(&names, "%s%s", n > 1 ? ", " : "", e->d_name);
		memcpy(id, e->d_name, STATE_ID_SIZE);
	}
	if (n == 1)
		return 0;
	if (n == 0)
		return error_set(err, -ENOENT,
				 "there is no task %s: pinfold ps -a shows all "
				 "tasks",
				 prefix);
	return error_set(err, -ENOTUNIQ, "%s means %zu tasks: %s%s", prefix, n,
			 buf_str(&names), n > NAMES_SHOWN ? ", ..." : "");
}

/* Checks what the user named, and puts "t-" in front where it is missing. */
static int read_prefix(const char *want, char prefix[STATE_ID_SIZE + 2],
		       struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	size_t len;

	snprintf(prefix, STATE_ID_SIZE + 2, "%s%s",
		 str_starts(want, "t-") ? "" : "t-", want);
	len = strlen(prefix);
	if (len > 2 && len < STATE_ID_SIZE &&
	    strspn(prefix + 2, STATE_ID_DIGITS) == len - 2)
		return 0;
	str_quote(&quoted, want, 60);
	return error_set(err, -EINVAL,
			 "%s is no task: an id is t- and 16 characters "
			 "(a-z, 2-7), or the beginning of one",
			 buf_str(&quoted));
}

int state_task_open(const struct state *s, const char *want,
		    const char *source, char ret_id[STATE_ID_SIZE], int *ret_fd,
		    struct error *err)
{
	char prefix[STATE_ID_SIZE + 2], id[STATE_ID_SIZE];
	int fd, r;

	if (!want)
		return open_newest(s, source, ret_id, ret_fd, err);
	r = read_prefix(want, prefix, err);
	if (r < 0)
		return r;
	if (state_is_id(prefix)) {
		memcpy(id, prefix, sizeof(id));
	} else {
		r = complete(s, prefix, id, err);
		if (r < 0)
			return r;
	}
	fd = open_task(s, id);
	if (fd == -ENOENT)
		return error_set(err, fd,
				 "there is no task %s: pinfold ps -a shows all "
				 "tasks",
				 id);
	if (fd < 0)
		return state_fail(err, fd, "open task", id);
	memcpy(ret_id, id, STATE_ID_SIZE);
	*ret_fd = fd;
	return 0;
}
