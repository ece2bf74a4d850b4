/*
 * The state directory: whose it is, how tasks are made, found, told from dead
 * ones, swept and removed.
 */
#include "unit.h"

#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "task/state.h"
#include "workspace/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DAY 86400

static char base[256];

static const char *temporary(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

static int make_base(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "%s/pinfold-state-XXXXXX", temporary());
	return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
	AUTO_CLOSE int tmp = open(temporary(), O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	return layer_remove(tmp, strrchr(base, '/') + 1, NULL);
}

static void open_state(struct state *s)
{
	AUTO_FREE char *path = str_format("%s/a/b/pinfold", base);
	struct error err = {0};

	if (state_open_path(path, s, &err) < 0)
		fail_msg("%s", err.text);
}

static bool exists(const struct state *s, const char *format, const char *id)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/", s->path);
	strcat(path, format);
	strcat(path, id);
	return access(path, F_OK) == 0;
}

static int new_task(const struct state *s, char id[STATE_ID_SIZE], int *fd,
		    int *lock)
{
	int r = state_new_id(id, NULL);

	return r < 0 ? r : state_task_new(s, id, fd, lock, NULL);
}

/* A task as a run leaves it: ended, or with the lock simply let go. */
static void make_task(const struct state *s, const char *source, bool ended,
		      char id[STATE_ID_SIZE])
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int lock = -1;
	struct record r;

	assert_int_equal(new_task(s, id, &fd, &lock), 0);
	record_init(&r);
	strcpy(r.id, id);
	r.source = source ? strdup(source) : NULL;
	r.started_us = time_wall_us();
	assert_int_equal(record_begin(lock, &r, NULL), 0);
	assert_int_equal(mkdirat(fd, "upper", 0755), 0);
	assert_int_equal(mkdirat(fd, "work", 0700), 0);
	assert_int_equal(mkdirat(fd, "work/work", 0), 0);
	if (ended) {
		r.state = RECORD_ENDED;
		r.changes.known = true;
		assert_int_equal(record_write(fd, &r, NULL), 0);
	}
	record_done(&r);
}

static void add_change(const struct state *s, const char *id)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/upper/file", id);
	fd = openat(s->tasks_fd, path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void age(const struct state *s, const char *id, const char *name,
		long seconds)
{
	struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}};
	char path[64];

	t[1] = t[0];
	snprintf(path, sizeof(path), "%s%s", id, name);
	assert_int_equal(utimensat(s->tasks_fd, path, t, 0), 0);
}

static void directories_are_made_for_the_owner_alone(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	struct stat st;

	(void)state;
	open_state(&s);
	assert_int_equal(fstat(s.fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fstat(s.tasks_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void state_that_others_can_write_is_refused(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_STATE struct state again = STATE_INIT;
	struct error err = {0};

	(void)state;
	open_state(&s);
	assert_int_equal(fchmodat(s.tasks_fd, ".", 0770, 0), 0);
	assert_int_equal(state_open_path(s.path, &again, &err), -EPERM);
	assert_non_null(strstr(err.text, "/tasks"));
	assert_non_null(strstr(err.text, "chmod 700"));
	assert_int_equal(fchmodat(s.tasks_fd, ".", 0700, 0), 0);
	assert_int_equal(chmod(s.path, 0702), 0);
	assert_int_equal(state_open_path(s.path, &again, &err), -EPERM);
	assert_int_equal(again.fd, -1);
}

static void state_of_somebody_else_is_refused(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	struct error err = {0};

	(void)state;
	if (geteuid() == 0) {
		open_state(&s);
		assert_int_equal(chown(s.path, 12345, 12345), 0);
		state_close(&s);
		AUTO_FREE char *path = str_format("%s/a/b/pinfold", base);
		assert_int_equal(state_open_path(path, &s, &err), -EPERM);
		assert_non_null(strstr(err.text, "user 12345"));
	} else {
		assert_int_equal(state_open_path("/usr", &s, &err), -EPERM);
		assert_non_null(strstr(err.text, "belongs to user 0"));
	}
}

static void a_file_in_place_of_the_state_is_an_error_that_names_it(void **state)
{
	AUTO_FREE char *path = str_format("%s/file", base);
	AUTO_FREE char *below = str_format("%s/file/pinfold", base);
	AUTO_STATE struct state s = STATE_INIT;
	struct error err = {0};

	(void)state;
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(state_open_path(path, &s, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(state_open_path(below, &s, &err), -ENOTDIR);
}

static void the_state_lies_where_the_environment_says(void **state)
{
	char home[512], want[640], xdg[512], want_xdg[640];
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_STATE struct state t = STATE_INIT;

	(void)state;
	if (geteuid() == 0)
		skip();
	snprintf(home, sizeof(home), "%s/home", base);
	snprintf(want, sizeof(want), "%s/.local/state/pinfold", home);
	snprintf(xdg, sizeof(xdg), "%s/xdg", base);
	snprintf(want_xdg, sizeof(want_xdg), "%s/pinfold", xdg);
	setenv("HOME", home, 1);
	unsetenv("XDG_STATE_HOME");
	assert_int_equal(state_open(&s, NULL), 0);
	assert_string_equal(s.path, want);
	setenv("XDG_STATE_HOME", xdg, 1);
	assert_int_equal(state_open(&t, NULL), 0);
	assert_string_equal(t.path, want_xdg);
}

static void a_task_is_alive_exactly_while_its_lock_is_held(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_CLOSE int fd = -1;
	char id[STATE_ID_SIZE];
	int lock, copy;

	(void)state;
	open_state(&s);
	assert_int_equal(new_task(&s, id, &fd, &lock), 0);
	assert_true(state_is_id(id));
	assert_true(fcntl(lock, F_GETFD) & FD_CLOEXEC);
	assert_true(state_task_alive(fd));
	assert_int_equal(state_task_claim(fd), -EBUSY);
	copy = dup(lock);
	close(lock);
	assert_true(state_task_alive(fd));
	close(copy);
	assert_false(state_task_alive(fd));
	lock = state_task_claim(fd);
	assert_true(lock >= 0);
	close(lock);
}

static void two_hundred_tasks_have_as_many_ids(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n;

	(void)state;
	open_state(&s);
	for (int i = 0; i < 200; i++) {
		char id[STATE_ID_SIZE];

		make_task(&s, NULL, true, id);
	}
	assert_int_equal(state_list(&s, &tasks, &n, NULL), 0);
	assert_int_equal(n, 200);
}

static void who_has_ended_is_not_among_those_that_may_be_alive(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int lock = -1;
	char old[STATE_ID_SIZE], id[STATE_ID_SIZE];
	struct state_task *tasks;
	size_t n;

	(void)state;
	open_state(&s);
	assert_int_equal(state_list_live(&s, &tasks, &n, NULL), 0);
	assert_int_equal(n, 0);
	make_task(&s, NULL, true, old);
	state_task_end(&s, old);
	assert_int_equal(new_task(&s, id, &fd, &lock), 0);
	assert_int_equal(state_list_live(&s, &tasks, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(tasks[0].id, id);
	free(tasks);
	state_task_end(&s, id);
	assert_int_equal(state_list_live(&s, &tasks, &n, NULL), 0);
	assert_int_equal(n, 0);
	free(tasks);
}

static void the_newest_task_of_a_source_is_found(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char first[STATE_ID_SIZE], second[STATE_ID_SIZE], other[STATE_ID_SIZE];
	char found[STATE_ID_SIZE];
	struct error err = {0};
	int fd;

	(void)state;
	open_state(&s);
	assert_int_equal(state_task_open(&s, NULL, NULL, found, &fd, &err),
			 -ENOENT);
	make_task(&s, "/src/\xff odd", true, first);
	make_task(&s, "/src/\xff odd", false, second);
	make_task(&s, "/other", true, other);
	age(&s, first, "/lock", 20);
	age(&s, second, "/lock", 10);
	assert_int_equal(state_task_open(&s, NULL, "/src/\xff odd", found, &fd,
					 NULL), 0);
	assert_string_equal(found, second);
	close(fd);
	assert_int_equal(state_task_open(&s, NULL, NULL, found, &fd, NULL), 0);
	assert_string_equal(found, other);
	close(fd);
	assert_int_equal(state_task_open(&s, NULL, "/none", found, &fd, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "\"/none\""));
}

static void a_task_is_found_by_the_beginning_of_its_id(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char found[STATE_ID_SIZE], prefix[8];
	struct error err = {0};
	int fd;

	(void)state;
	open_state(&s);
	assert_int_equal(mkdirat(s.tasks_fd, "t-aaaaaaaaaaaaaaaa", 0700), 0);
	assert_int_equal(mkdirat(s.tasks_fd, "t-aaaaaaaaaaaaaaab", 0700), 0);
	assert_int_equal(mkdirat(s.tasks_fd, "t-baaaaaaaaaaaaaaa", 0700), 0);
	assert_int_equal(state_task_open(&s, "t-b", NULL, found, &fd, NULL), 0);
	close(fd);
	assert_string_equal(found, "t-baaaaaaaaaaaaaaa");
	assert_int_equal(state_task_open(&s, "b", NULL, found, &fd, NULL), 0);
	close(fd);
	assert_int_equal(state_task_open(&s, "aaaaaaaaaaaaaaab", NULL, found,
					 &fd, NULL), 0);
	close(fd);
	assert_int_equal(state_task_open(&s, "t-a", NULL, found, &fd, &err),
			 -ENOTUNIQ);
	assert_non_null(strstr(err.text, "t-aaaaaaaaaaaaaaab"));
	assert_int_equal(state_task_open(&s, "t-c", NULL, found, &fd, &err),
			 -ENOENT);
	strcpy(prefix, "t-../x");
	assert_int_equal(state_task_open(&s, prefix, NULL, found, &fd, &err),
			 -EINVAL);
	assert_int_equal(state_task_open(&s, "", NULL, found, &fd, &err),
			 -EINVAL);
	assert_int_equal(state_task_open(&s, "t-", NULL, found, &fd, &err),
			 -EINVAL);
	assert_int_equal(state_task_open(&s, "a b\x1b[1m", NULL, found, &fd,
					 &err), -EINVAL);
	assert_null(strchr(err.text, '\x1b'));
	assert_int_equal(state_task_open(&s, "t-ccccccccccccccccc", NULL,
					 found, &fd, &err), -EINVAL);
	assert_int_equal(state_task_open(&s, "t-cccccccccccccccc", NULL,
					 found, &fd, &err), -ENOENT);
}

static void remember(void *arg, const char *id, int task_fd)
{
	assert_true(task_fd >= 0);
	strcpy(arg, id);
}

static void a_task_that_died_is_recorded_as_lost(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char id[STATE_ID_SIZE], found[STATE_ID_SIZE], told[STATE_ID_SIZE] = "";
	struct record r;
	int fd;

	(void)state;
	open_state(&s);
	make_task(&s, "/src", false, id);
	assert_true(exists(&s, "live/", id));
	assert_int_equal(state_sweep(&s, remember, told, NULL), 1);
	assert_string_equal(told, id);
	assert_int_equal(state_task_open(&s, id, NULL, found, &fd, NULL), 0);
	assert_int_equal(record_read(fd, &r, NULL), 0);
	assert_int_equal(r.state, RECORD_LOST);
	assert_int_equal(r.reason, REASON_LOST);
	assert_string_equal(r.source, "/src");
	assert_true(r.ended_us > 0);
	record_done(&r);
	assert_int_equal(faccessat(fd, "upper", F_OK, 0), -1);
	assert_int_equal(faccessat(fd, "work", F_OK, 0), -1);
	close(fd);
	assert_false(exists(&s, "live/", id));
	assert_int_equal(state_sweep(&s, remember, told, NULL), 0);
}

static void a_task_that_died_before_its_first_record_is_found_too(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char id[STATE_ID_SIZE];
	struct record r;
	int fd, lock;

	(void)state;
	open_state(&s);
	assert_int_equal(new_task(&s, id, &fd, &lock), 0);
	assert_int_equal(record_read(fd, &r, NULL), -ENODATA);
	close(lock);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 1);
	assert_int_equal(record_read(fd, &r, NULL), 0);
	assert_int_equal(r.state, RECORD_LOST);
	assert_string_equal(r.id, id);
	assert_true(r.started_us > 0);
	record_done(&r);
	close(fd);
}

/* Not what comes of going on without the directory: "no such file". */
static void a_task_that_cannot_be_made_says_why(void **state)
{
	AUTO_CLOSE int sys = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct state s = {.path = (char *)(uintptr_t) "/sys", .fd = -1,
			  .tasks_fd = sys};
	char id[STATE_ID_SIZE];
	int fd, lock, r;

	(void)state;
	if (sys < 0)
		skip();
	r = new_task(&s, id, &fd, &lock);
	assert_true(r == -EPERM || r == -EACCES || r == -EROFS);
}

static void changes_of_a_lost_task_stay(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char id[STATE_ID_SIZE], path[128];

	(void)state;
	open_state(&s);
	make_task(&s, "/src", false, id);
	add_change(&s, id);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 1);
	snprintf(path, sizeof(path), "%s/upper/file", id);
	assert_int_equal(faccessat(s.tasks_fd, path, F_OK, 0), 0);
	snprintf(path, sizeof(path), "%s/work", id);
	assert_int_equal(faccessat(s.tasks_fd, path, F_OK, 0), -1);
}

static void changes_outside_the_source_are_changes_too(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_CLOSE int fd = -1;
	int lock;
	char id[STATE_ID_SIZE];

	(void)state;
	open_state(&s);
	assert_int_equal(new_task(&s, id, &fd, &lock), 0);
	close(lock);
	assert_false(state_task_has_changes(fd));
	assert_int_equal(mkdirat(fd, "upper", 0755), 0);
	for (size_t i = 0; i < 3; i++) {
		char name[STATE_WRITE_NAME_MAX];

		state_write_name(i, name);
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		strcat(name, "/upper");
		assert_int_equal(mkdirat(fd, name, 0755), 0);
	}
	assert_false(state_task_has_changes(fd));
	assert_int_equal(mkdirat(fd, "write.2/upper/x", 0755), 0);
	assert_true(state_task_has_changes(fd));
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 1);
	assert_int_equal(faccessat(fd, "write.2/upper/x", F_OK, 0), 0);
	assert_int_equal(state_task_drop_changes(fd, NULL), 0);
	assert_false(state_task_has_changes(fd));
	assert_int_equal(faccessat(fd, "write.0", F_OK, 0), -1);
	assert_int_equal(faccessat(fd, "task.json", F_OK, 0), 0);
}

static void a_living_task_is_left_alone(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char id[STATE_ID_SIZE];
	int fd, lock;

	(void)state;
	open_state(&s);
	assert_int_equal(new_task(&s, id, &fd, &lock), 0);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 0);
	assert_true(exists(&s, "live/", id));
	assert_int_equal(state_task_remove(&s, id, NULL), -EBUSY);
	close(lock);
	close(fd);
	assert_int_equal(state_task_remove(&s, id, NULL), 0);
	assert_false(exists(&s, "live/", id));
	assert_false(exists(&s, "tasks/", id));
	assert_int_equal(state_task_remove(&s, id, NULL), -ENOENT);
	assert_int_equal(state_task_remove(&s, "../a", NULL), -EINVAL);
}

static void an_ended_task_is_not_called_lost(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char id[STATE_ID_SIZE];

	(void)state;
	open_state(&s);
	make_task(&s, "/src", true, id);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 0);
	assert_false(exists(&s, "live/", id));
	assert_true(exists(&s, "tasks/", id));
	make_task(&s, "/src", true, id);
	state_task_end(&s, id);
	assert_false(exists(&s, "live/", id));
}

static void one_sweep_looks_at_a_bounded_number_of_tasks(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	int found, total = 0, rounds = 0;

	(void)state;
	open_state(&s);
	for (int i = 0; i < 100; i++) {
		char id[STATE_ID_SIZE];

		make_task(&s, "/src", false, id);
	}
	do {
		found = state_sweep(&s, NULL, NULL, NULL);
		assert_in_range(found, 0, STATE_SWEEP_MAX);
		total += found;
		rounds++;
	} while (found > 0);
	assert_int_equal(total, 100);
	assert_true(rounds >= 4);
}

static void old_records_without_changes_go_and_others_stay(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	char old[STATE_ID_SIZE], young[STATE_ID_SIZE], kept[STATE_ID_SIZE];
	char half[] = "t-aaaaaaaaaaaaaaaa";

	(void)state;
	open_state(&s);
	make_task(&s, "/src", true, old);
	make_task(&s, "/src", true, young);
	make_task(&s, "/src", true, kept);
	add_change(&s, kept);
	/* One whose maker died between two system calls. */
	assert_int_equal(mkdirat(s.tasks_fd, half, 0700), 0);
	age(&s, half, "", 2 * 3600);
	age(&s, old, "/lock", 91L * DAY);
	age(&s, kept, "/lock", 91L * DAY);
	age(&s, young, "/lock", 89L * DAY);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 0);
	assert_false(exists(&s, "tasks/", old));
	assert_true(exists(&s, "tasks/", young));
	assert_true(exists(&s, "tasks/", kept));
	assert_false(exists(&s, "tasks/", half));
	assert_true(exists(&s, "swept", ""));
	/* Not again today. */
	age(&s, young, "/lock", 91L * DAY);
	assert_int_equal(state_sweep(&s, NULL, NULL, NULL), 0);
	assert_true(exists(&s, "tasks/", young));
}

static void a_task_killed_at_any_moment_of_its_start_is_swept(void **state)
{
	AUTO_STATE struct state s = STATE_INIT;
	AUTO_FREE struct state_task *tasks = NULL;
	size_t n;

	(void)state;
	open_state(&s);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (;;) {
				char id[STATE_ID_SIZE];
				int fd, lock;

				new_task(&s, id, &fd, &lock);
				close(fd);
				close(lock);
			}
		}
		usleep((useconds_t)(i * 37 % 1000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	for (int i = 0; i < 100000 && state_sweep(&s, NULL, NULL, NULL); i++)
		;
	/* Whatever is left has a record or never got as far as a lock. */
	assert_int_equal(state_list(&s, &tasks, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/task.json", tasks[i].id);
		if (faccessat(s.tasks_fd, path, F_OK, 0) < 0)
			age(&s, tasks[i].id, "", 2 * 3600);
	}
}

static void failed_allocations_are_errors(void **state)
{
	AUTO_FREE char *path = str_format("%s/pinfold", base);
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		struct state s = STATE_INIT;
		struct error err = {0};
		int r;

		heap_fail_at(n++);
		r = state_open_path(path, &s, &err);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		state_close(&s);
	} while (failed);
}

static void the_runtime_directory_is_the_owners_alone(void **state)
{
	char own[512], want[640];
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *next = NULL;
	AUTO_CLOSE int fd = -1;
	struct error err = {0};
	struct stat st;

	(void)state;
	if (geteuid() == 0)
		skip();
	snprintf(own, sizeof(own), "%s/run", base);
	snprintf(want, sizeof(want), "%s/pinfold", own);
	assert_int_equal(mkdir(own, 0700), 0);
	setenv("XDG_RUNTIME_DIR", own, 1);
	fd = state_runtime_dir(&path, NULL);
	assert_true(fd >= 0);
	assert_string_equal(path, want);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(chmod(want, 0750), 0);
	assert_int_equal(state_runtime_dir(NULL, &err), -EPERM);
	assert_non_null(strstr(err.text, "open to others"));
	/* Somebody else's variable, as su leaves it, is passed over. */
	setenv("XDG_RUNTIME_DIR", "/usr", 1);
	close(state_runtime_dir(&next, &err));
	assert_null(strstr(next, "/usr"));
	rmdir(next);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(directories_are_made_for_the_owner_alone),
		EACH(state_that_others_can_write_is_refused),
		EACH(state_of_somebody_else_is_refused),
		EACH(a_file_in_place_of_the_state_is_an_error_that_names_it),
		EACH(the_state_lies_where_the_environment_says),
		EACH(a_task_is_alive_exactly_while_its_lock_is_held),
		EACH(two_hundred_tasks_have_as_many_ids),
		EACH(who_has_ended_is_not_among_those_that_may_be_alive),
		EACH(the_newest_task_of_a_source_is_found),
		EACH(a_task_is_found_by_the_beginning_of_its_id),
		EACH(a_task_that_died_is_recorded_as_lost),
		EACH(a_task_that_died_before_its_first_record_is_found_too),
		EACH(a_task_that_cannot_be_made_says_why),
		EACH(changes_of_a_lost_task_stay),
		EACH(changes_outside_the_source_are_changes_too),
		EACH(a_living_task_is_left_alone),
		EACH(an_ended_task_is_not_called_lost),
		EACH(one_sweep_looks_at_a_bounded_number_of_tasks),
		EACH(old_records_without_changes_go_and_others_stay),
		EACH(a_task_killed_at_any_moment_of_its_start_is_swept),
		EACH(failed_allocations_are_errors),
		EACH(the_runtime_directory_is_the_owners_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
