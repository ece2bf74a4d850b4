/*
 * Cleans up behind tasks that died. Nothing is touched without the task's lock,
 * so two sweeps at once, or a sweep and a discard, do not meet.
 */
#include "task/state.h"

#include "audit/record.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/time.h"
#include "task/state_private.h"
#include "workspace/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_US 1000000ull
#define HOUR_US (3600 * SECOND_US)
#define DAY_US (24 * HOUR_US)

/* What is left in a task's directory and in the runtime directory. */
static void remove_left(const char *id, int task_fd)
{
	AUTO_CLOSE int runtime = state_runtime_dir(NULL, NULL);

	if (runtime >= 0)
		layer_remove(runtime, id, NULL);
	if (!state_task_has_changes(task_fd))
		state_task_drop_changes(task_fd, NULL);
	else
		layer_remove(task_fd, "work", NULL);
}

/* Gives a dead task its record. The caller holds its lock. */
static int write_lost(const struct state *s, const char *id, int task_fd,
		      struct record *rec, struct error *err)
{
	memcpy(rec->id, id, STATE_ID_SIZE);
	rec->state = RECORD_LOST;
	rec->reason = REASON_LOST;
	rec->exit_status = -1;
	if (!rec->started_us)
		rec->started_us = state_started(s, id);
	rec->ended_us = time_wall_us();
	return record_write(task_fd, rec, err);
}

/* What became of a task that nobody holds; as look_at. */
static int bury(const struct state *s, const char *id, int task_fd,
		state_lost_fn *fn, void *arg, struct error *err)
{
	struct record rec;
	int r = 0;

	if (record_read(task_fd, &rec, NULL) < 0)
		record_init(&rec);
	/* A keeper that failed early had no rights to remove its groups. */
	if (fn)
		fn(arg, id, task_fd);
	/* Of who died while it replaced the record. */
	unlinkat(task_fd, ".task.json.new", 0);
	remove_left(id, task_fd);
	if (rec.state == RECORD_RUNNING) {
		r = write_lost(s, id, task_fd, &rec, err);
		r = r < 0 ? r : 1;
	}
	record_done(&rec);
	if (r >= 0)
		state_task_end(s, id);
	return r;
}

/*
 * Looks at one task that was alive. 1 if it was found lost, 0 if it lives or
 * ended by itself, or negative: it stays for the next sweep.
 */
static int look_at(const struct state *s, const char *id, state_lost_fn *fn,
		   void *arg, struct error *err)
{
	AUTO_CLOSE int task_fd = -1;
	AUTO_CLOSE int lock = -1;

	task_fd = openat(s->tasks_fd, id,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (task_fd < 0) {
		if (errno == ENOENT)
			state_task_end(s, id);
		return 0;
	}
	lock = state_task_claim(task_fd);
	if (lock == -EBUSY)
		return 0;
	if (lock < 0 && lock != -ENOENT)
		return state_fail(err, lock, "lock task", id);
	return bury(s, id, task_fd, fn, arg, err);
}

int state_sweep_one(const struct state *s, const char *id, state_lost_fn *fn,
		    void *arg, struct error *err)
{
	return look_at(s, id, fn, arg, err);
}

/* At most STATE_SWEEP_MAX names of live/, each with the same chance. */
static size_t choose(DIR *dir, char names[][STATE_ID_SIZE])
{
	size_t n = 0, seen = 0;
	struct dirent *e;

	while ((e = readdir(dir))) {
		uint32_t at = 0;

		if (!state_is_id(e->d_name))
			continue;
		seen++;
		if (n < STATE_SWEEP_MAX) {
			memcpy(names[n++], e->d_name, STATE_ID_SIZE);
			continue;
		}
		if (getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
			break;
		if (at % seen < STATE_SWEEP_MAX)
			memcpy(names[at % seen], e->d_name, STATE_ID_SIZE);
	}
	return n;
}

/*
 * One task of the daily sweep. Removes it when it is old and has no changes; a
 * directory that never became a task (its maker died within the first
 * microseconds) goes after an hour. 1 if something was removed.
 */
static int expire(const struct state *s, const char *id, uint64_t now,
		  state_lost_fn *fn, void *arg)
{
	AUTO_CLOSE int task_fd = -1;
	uint64_t started = state_started(s, id);
	struct stat st;

	if (started + HOUR_US > now)
		return 0;
	task_fd = openat(s->tasks_fd, id,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (task_fd < 0 || fstat(task_fd, &st) < 0)
		return 0;
	if (!started && (uint64_t)st.st_mtim.tv_sec * SECOND_US + HOUR_US > now)
		return 0;
	if (faccessat(task_fd, "task.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		struct record rec;

		if (state_task_has_changes(task_fd) ||
		    record_read(task_fd, &rec, NULL) == 0) {
			look_at(s, id, fn, arg, NULL);
			return 0;
		}
		return state_task_remove(s, id, NULL) == 0;
	}
	if (started + STATE_RECORD_DAYS * DAY_US > now ||
	    state_task_has_pending(task_fd))
		return 0;
	return state_task_remove(s, id, NULL) == 0;
}

/* True once a day, for one of those who ask. */
static bool daily_is_due(const struct state *s, uint64_t now)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstatat(s->fd, "swept", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (uint64_t)st.st_mtim.tv_sec * SECOND_US + DAY_US > now)
		return false;
	fd = openat(s->fd, "swept",
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && futimens(fd, NULL) == 0;
}

static void sweep_daily(const struct state *s, uint64_t now, state_lost_fn *fn,
			void *arg)
{
	AUTO_DIR DIR *dir = state_read(s->tasks_fd, ".");
	struct dirent *e;
	int n = 0;

	while (dir && n < STATE_EXPIRE_MAX && (e = readdir(dir))) {
		if (state_is_id(e->d_name))
			n += expire(s, e->d_name, now, fn, arg);
	}
	/* There is more: the next start goes on. */
	if (n == STATE_EXPIRE_MAX)
		unlinkat(s->fd, "swept", 0);
}

int state_sweep(const struct state *s, state_lost_fn *fn, void *arg,
		struct error *err)
{
	AUTO_DIR DIR *dir = state_read(s->fd, "live");
	char names[STATE_SWEEP_MAX][STATE_ID_SIZE];
	uint64_t now = time_wall_us();
	size_t n;
	int lost = 0, failed = 0;

	if (!dir && errno != ENOENT)
		return state_fail(err, -errno, "read live tasks in", s->path);
	n = dir ? choose(dir, names) : 0;
	for (size_t i = 0; i < n; i++) {
		int r = look_at(s, names[i], fn, arg, err);

		if (r < 0)
			failed = r;
		else
			lost += r;
	}
	if (daily_is_due(s, now))
		sweep_daily(s, now, fn, arg);
	return failed < 0 ? failed : lost;
}
