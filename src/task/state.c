/*
 * Opens the state directory and the tasks in it. Everything on the path of a
 * start is counted: six system calls find an existing state directory and make
 * a task in it, of which four change the file system.
 */
#include "task/state.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "task/state_private.h"
#include "workspace/hidden.h"
#include "workspace/layer.h"
#include "workspace/manifest.h"
#include "workspace/promote.h"
#include "workspace/refresh_copy.h"
#include "workspace/refreshed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID_RANDOM 10 /* bytes: 16 digits of 5 bits */
#define QUOTE_MAX 400

int state_fail(struct error *err, int code, const char *what, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, QUOTE_MAX);
	return error_set(err, code, "cannot %s %s: %s", what, buf_str(&quoted),
			 strerror(-code));
}

void state_close(struct state *s)
{
	free(s->path);
	close_fd(s->fd);
	close_fd(s->tasks_fd);
	*s = (struct state)STATE_INIT;
}

/* Makes path and what is missing above it, 0700. */
static int make_path(const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	char *slash;

	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	for (slash = copy + 1;; slash++) {
		slash += strcspn(slash, "/");
		if (*slash == '\0')
			break;
		*slash = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return state_fail(err, -errno, "make directory", copy);
		*slash = '/';
	}
	if (mkdir(copy, 0700) < 0 && errno != EEXIST)
		return state_fail(err, -errno, "make directory", copy);
	return 0;
}

/* A directory of ours must be the caller's, and nobody else may write it. */
static int check_own(int fd, const char *path, const char *name,
		     mode_t forbidden, struct error *err)
{
	AUTO_BUF struct buf whole = BUF_INIT(8192);
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return state_fail(err, -errno, "read directory", path);
	if (st.st_uid == geteuid() && !(st.st_mode & forbidden))
		return 0;
	buf_addf(&whole, "%s%s", path, name);
	str_quote(&quoted, buf_str(&whole), QUOTE_MAX);
	if (st.st_uid != geteuid())
		return error_set(err, -EPERM,
				 "%s belongs to user %u, not to you (%u)",
				 buf_str(&quoted), (unsigned)st.st_uid,
				 (unsigned)geteuid());
	return error_set(err, -EPERM,
			 "%s is open to others (mode %04o): chmod 700 %s",
			 buf_str(&quoted), (unsigned)st.st_mode & 07777u,
			 buf_str(&quoted));
}

static int open_tasks(int fd, const char *path, struct error *err)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	AUTO_CLOSE int tasks = openat(fd, "tasks", flags);
	int r;

	if (tasks < 0 && errno == ENOENT) {
		if (mkdirat(fd, "tasks", 0700) < 0 && errno != EEXIST)
			return state_fail(err, -errno, "make tasks in", path);
		tasks = openat(fd, "tasks", flags);
	}
	if (tasks < 0)
		return state_fail(err, -errno, "open tasks in", path);
	r = check_own(tasks, path, "/tasks", 022, err);
	return r < 0 ? r : steal_fd(&tasks);
}

int state_open_path(const char *path, struct state *ret, struct error *err)
{
	AUTO_STATE struct state s = STATE_INIT;
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int r;

	s.path = strdup(path);
	if (!s.path)
		return error_set(err, -ENOMEM, "out of memory");
	s.fd = open(path, flags);
	if (s.fd < 0 && errno == ENOENT) {
		r = make_path(path, err);
		if (r < 0)
			return r;
		s.fd = open(path, flags);
	}
	if (s.fd < 0)
		return state_fail(err, -errno, "open state directory", path);
	r = check_own(s.fd, path, "", 022, err);
	if (r < 0)
		return r;
	s.tasks_fd = open_tasks(s.fd, path, err);
	if (s.tasks_fd < 0)
		return s.tasks_fd;
	*ret = s;
	s = (struct state)STATE_INIT;
	return 0;
}

static const char *state_home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw;

	if (home && home[0] == '/')
		return home;
	pw = getpwuid(geteuid());
	return pw && pw->pw_dir && pw->pw_dir[0] == '/' ? pw->pw_dir : NULL;
}

static char *user_path(void)
{
	const char *base = getenv("XDG_STATE_HOME");

	if (base && base[0] == '/')
		return str_format("%s/pinfold", base);
	base = state_home();
	return base ? str_format("%s/.local/state/pinfold", base) : NULL;
}

/* Is this the machine's root, or one inside a user namespace? */
static bool owns_system(void)
{
	struct stat st;

	return stat("/var/lib", &st) == 0 && st.st_uid == 0;
}

int state_open(struct state *ret, struct error *err)
{
	AUTO_FREE char *path = NULL;

	if (geteuid() == 0) {
		int r = state_open_path("/var/lib/pinfold", ret, err);

		if (r == 0 || owns_system())
			return r;
	}
	path = user_path();
	if (!path)
		return error_set(err, -ENOENT,
				 "no place for the state directory: set HOME "
				 "or XDG_STATE_HOME");
	return state_open_path(path, ret, err);
}

bool state_is_id(const char *id)
{
	return str_starts(id, "t-") && strlen(id) == STATE_ID_SIZE - 1 &&
	       strspn(id + 2, STATE_ID_DIGITS) == STATE_ID_SIZE - 3;
}

int state_new_id(char id[STATE_ID_SIZE], struct error *err)
{
	uint8_t random[ID_RANDOM];
	unsigned bits = 0, have = 0;
	size_t next = 0;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_errno(err, "no random numbers");
	id[0] = 't';
	id[1] = '-';
	for (size_t i = 2; i < STATE_ID_SIZE - 1; i++) {
		if (have < 5) {
			bits = (bits << 8 | random[next++]) & 0xfffu;
			have += 8;
		}
		have -= 5;
		id[i] = STATE_ID_DIGITS[bits >> have & 31u];
	}
	id[STATE_ID_SIZE - 1] = '\0';
	return 0;
}

static int mark_live(const struct state *s, const char *id)
{
	char name[8 + STATE_ID_SIZE] = "live/";

	strcat(name, id);
	if (mknodat(s->fd, name, S_IFREG | 0600, 0) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	if (mkdirat(s->fd, "live", 0700) < 0 && errno != EEXIST)
		return -errno;
	return mknodat(s->fd, name, S_IFREG | 0600, 0) < 0 ? -errno : 0;
}

void state_task_end(const struct state *s, const char *id)
{
	char name[8 + STATE_ID_SIZE] = "live/";

	strncat(name, id, STATE_ID_SIZE - 1);
	unlinkat(s->fd, name, 0);
}

/* Fills the new directory id; what was made stays on failure. */
static int fill_task(const struct state *s, const char *id, int *ret_fd,
		     int *ret_lock_fd)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int lock = -1;
	int r;

	fd = openat(s->tasks_fd, id,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	lock = openat(fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (lock < 0)
		return -errno;
	/* Others only ever hold it for the moment of a test: wait. */
	while (flock(lock, LOCK_EX) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	r = mark_live(s, id);
	if (r < 0)
		return r;
	*ret_fd = steal_fd(&fd);
	*ret_lock_fd = steal_fd(&lock);
	return 0;
}

int state_task_new(const struct state *s, const char *id, int *ret_fd,
		   int *ret_lock_fd, struct error *err)
{
	int r = mkdirat(s->tasks_fd, id, 0700) < 0 ? -errno : 0;

	if (r < 0)
		return state_fail(err, r, "make a task in", s->path);
	r = fill_task(s, id, ret_fd, ret_lock_fd);
	if (r < 0) {
		layer_remove(s->tasks_fd, id, NULL);
		return state_fail(err, r, "make a task in", s->path);
	}
	return 0;
}

bool state_task_alive(int task_fd)
{
	AUTO_CLOSE int lock = openat(task_fd, "lock",
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
					     O_CLOEXEC);

	return lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0 &&
	       errno == EWOULDBLOCK;
}

int state_task_claim(int task_fd)
{
	AUTO_CLOSE int lock = openat(task_fd, "lock",
				     O_RDWR | O_NOFOLLOW | O_NONBLOCK |
					     O_CLOEXEC);

	if (lock < 0)
		return -errno;
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return steal_fd(&lock);
}

void state_write_name(size_t i, char name[STATE_WRITE_NAME_MAX])
{
	snprintf(name, STATE_WRITE_NAME_MAX, "write.%zu", i);
}

/* 1 if the directory holds anything, 0 if not, -ENOENT if it is missing. */
static int holds_anything(int task_fd, const char *name)
{
	AUTO_DIR DIR *dir = state_read(task_fd, name);
	struct dirent *e;

	if (!dir)
		return errno == ENOENT ? -ENOENT : 1;
	while ((e = readdir(dir))) {
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			return 1;
	}
	return 0;
}

bool state_task_has_changes(int task_fd)
{
	int r = holds_anything(task_fd, "upper");

	/* A copy with nothing left in it was emptied. */
	if (r == 0 && faccessat(task_fd, "manifest", F_OK, 0) == 0)
		return true;
	for (size_t i = 0; r != 1; i++) {
		char name[STATE_WRITE_NAME_MAX];

		state_write_name(i, name);
		strcat(name, "/upper");
		r = holds_anything(task_fd, name);
		if (r == -ENOENT)
			return false;
	}
	return true;
}

/* What was promoted from a further layer, where it lies elsewhere. */
static void forget_promotions(int task_fd, const char *name)
{
	AUTO_CLOSE int fd = openat(task_fd, name,
				   O_PATH | O_DIRECTORY | O_NOFOLLOW |
					   O_CLOEXEC);

	if (fd >= 0)
		promote_forget(fd, NULL);
}

int state_task_drop_changes(int task_fd, struct error *err)
{
	static const char *const names[] = {
		"upper",     "work",	     MANIFEST_FILE, MANIFEST_NEW,
		"promoted",  HIDDEN_FILE,    HIDDEN_MORE,   REFRESHED_FILE,
		REFRESHED_NEW, REFRESH_STAGE};
	struct stat st;
	int r = promote_forget(task_fd, err);

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
		r = layer_remove(task_fd, names[i], err);
	for (size_t i = 0; r == 0; i++) {
		char name[STATE_WRITE_NAME_MAX];

		state_write_name(i, name);
		if (fstatat(task_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			break;
		forget_promotions(task_fd, name);
		r = layer_remove(task_fd, name, err);
	}
	return r;
}

int state_task_remove(const struct state *s, const char *id, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int lock = -1;
	int r;

	if (!state_is_id(id))
		return error_set(err, -EINVAL, "not the id of a task");
	fd = openat(s->tasks_fd, id,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return state_fail(err, -errno, "open task", id);
	lock = state_task_claim(fd);
	if (lock < 0 && lock != -ENOENT)
		return state_fail(err, lock, "remove task", id);
	promote_forget(fd, NULL);
	r = layer_remove(s->tasks_fd, id, err);
	if (r == 0)
		state_task_end(s, id);
	return r;
}

/* Opens the directory path, made if it is missing, if it is the caller's. */
static int open_runtime(const char *path, char **ret_path, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int r;

	fd = open(path, flags);
	if (fd < 0 && errno == ENOENT) {
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return state_fail(err, -errno, "make directory", path);
		fd = open(path, flags);
	}
	if (fd < 0)
		return state_fail(err, -errno, "open directory", path);
	r = check_own(fd, path, "", 077, err);
	if (r < 0)
		return r;
	if (ret_path) {
		*ret_path = strdup(path);
		if (!*ret_path)
			return error_set(err, -ENOMEM, "out of memory");
	}
	return steal_fd(&fd);
}

/* True if base is a directory of the caller's. */
static bool is_own(const char *base)
{
	struct stat st;

	return stat(base, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

int state_runtime_dir(char **ret_path, struct error *err)
{
	AUTO_FREE char *path = NULL;
	const char *base = getenv("XDG_RUNTIME_DIR");
	char standard[64];

	snprintf(standard, sizeof(standard), "/run/user/%u",
		 (unsigned)geteuid());
	if (geteuid() == 0 && owns_system())
		path = strdup("/run/pinfold");
	else if (base && base[0] == '/' && is_own(base))
		path = str_format("%s/pinfold", base);
	else if (is_own(standard))
		path = str_format("%s/pinfold", standard);
	else
		path = str_format("/tmp/pinfold-%u", (unsigned)geteuid());
	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	return open_runtime(path, ret_path, err);
}
