/*
 * The record of a task: what goes in comes out, whatever it is made of; what
 * is not a record is refused; every allocation may fail.
 */
#include "unit.h"

#include "audit/record.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "schema/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[256];
static int dir_fd = -1;

static const char *temporary(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

static int make_base(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "%s/pinfold-record-XXXXXX", temporary());
	if (!mkdtemp(base))
		return -1;
	dir_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int remove_base(void **state)
{
	(void)state;
	unlinkat(dir_fd, "task.json", 0);
	unlinkat(dir_fd, "lock", 0);
	close(dir_fd);
	return rmdir(base);
}

/* A record in which every field has a value. 0 or -ENOMEM. */
static int fill(struct record *r)
{
	const struct record_refusal refusal = {
		.action = (char[]){"connect"},
		.object = (char[]){"192.0.2.1:443"},
		.rule = (char[]){"network: default deny"},
		.comm = (char[]){"cu\xffrl"},
		.error = ENETUNREACH,
		.claimed = true,
		.at_us = 1700000000000000u,
	};
	int bad = 0;

	record_init(r);
	strcpy(r->id, "t-aaaaaaaaaaaaaaaa");
	bad |= !(r->name = strdup("name"));
	r->state = RECORD_ENDED;
	r->reason = REASON_LIMIT;
	bad |= !(r->limit = strdup("memory"));
	bad |= !(r->error = strdup("text"));
	r->exit_status = 137;
	r->signal = 9;
	bad |= strlist_add(&r->argv, "sh");
	bad |= strlist_add(&r->argv, "-c\n\x01\xfe");
	bad |= strlist_add(&r->argv, "");
	bad |= strlist_add(&r->labels, "a=b");
	bad |= strlist_add(&r->tools, "/home/a/.cargo/bin");
	bad |= strlist_add(&r->carried, "/home/a/.npm/_cacache");
	bad |= strlist_add(&r->tool_env, "PATH=/usr/bin");
	bad |= !(r->source = strdup("/src/\xff"));
	bad |= !(r->workdir = strdup("/src"));
	bad |= !(r->home = strdup("/home/a"));
	bad |= !(r->workspace = strdup("overlay"));
	bad |= !(r->tier = strdup("container"));
	bad |= !(r->identity = strdup("single"));
	bad |= !(r->kernel = strdup("6.18"));
	bad |= !(r->policy_name = strdup("offline"));
	memset(r->policy_digest, 'a', 64);
	r->uid = 1000;
	r->started_us = 1700000000000000u;
	r->ended_us = 1700000001000000u;
	bad |= record_add_enforced(r, "memory", "cgroup v2", true);
	bad |= record_add_enforced(r, "disk", "watchdog", false);
	bad |= record_add_refusal(r, &refusal);
	bad |= record_add_refusal(r, &refusal);
	r->refusals_dropped = 7;
	r->usage = (struct record_usage){1, 2, 3, 4, 5, 6, 7};
	r->changes = (struct record_changes){true, 1, 2, 3, 1};
	return bad ? -ENOMEM : 0;
}

static void to_json(const struct record *r, struct buf *out)
{
	buf_reset(out);
	assert_int_equal(record_to_json(r, out), 0);
}

static void what_is_written_is_read_again(void **state)
{
	AUTO_BUF struct buf first = BUF_INIT(RECORD_MAX);
	AUTO_BUF struct buf second = BUF_INIT(RECORD_MAX);
	struct record r, again;
	struct error err = {0};

	(void)state;
	assert_int_equal(fill(&r), 0);
	to_json(&r, &first);
	if (record_from_json(first.data, first.len, &again, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(again.source, "/src/\\xff");
	assert_string_equal(again.argv.items[1], "-c\n\x01\\xfe");
	assert_string_equal(again.argv.items[2], "");
	assert_int_equal(again.n_enforced, 2);
	assert_string_equal(again.enforced[0].mechanism, "cgroup v2");
	assert_true(again.enforced[0].hard);
	assert_int_equal(again.refusals[0].count, 2);
	assert_string_equal(again.refusals[0].comm, "cu\\xffrl");
	assert_int_equal(again.usage.wall_us, 1);
	assert_true(again.changes.known);
	to_json(&again, &second);
	assert_string_equal(buf_str(&first), buf_str(&second));
	record_done(&r);
	record_done(&again);
}

static void an_empty_record_is_a_record(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct record r, again;

	(void)state;
	record_init(&r);
	to_json(&r, &json);
	assert_non_null(strstr(json.data, "\"changes\":null"));
	assert_non_null(strstr(json.data, "\"schema\":\"pinfold-task-1\""));
	assert_int_equal(record_from_json(json.data, json.len, &again, NULL),
			 0);
	assert_null(again.source);
	assert_false(again.changes.known);
	assert_int_equal(again.exit_status, -1);
	record_done(&again);
	record_done(&r);
}

static void equal_refusals_are_counted(void **state)
{
	struct record_refusal f = {.action = (char[]){"connect"}};
	struct record r;

	(void)state;
	record_init(&r);
	for (int i = 0; i < 2 * RECORD_REFUSALS_MAX; i++) {
		char object[16];

		snprintf(object, sizeof(object), "%d", i);
		f.object = object;
		f.count = 2;
		assert_int_equal(record_add_refusal(&r, &f), 0);
	}
	f.object = (char[]){"5"};
	f.count = 0; /* one */
	assert_int_equal(record_add_refusal(&r, &f), 0);
	assert_int_equal(r.n_refusals, RECORD_REFUSALS_MAX);
	assert_int_equal(r.refusals_dropped, 2 * RECORD_REFUSALS_MAX);
	assert_int_equal(r.refusals[5].count, 3);
	assert_string_equal(r.refusals[5].rule, "");
	record_done(&r);
}

static void a_long_command_is_cut_and_the_rest_is_counted(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	char big[RECORD_ARGV_MAX];
	struct record r, again;

	(void)state;
	record_init(&r);
	memset(big, 'x', sizeof(big));
	big[10000] = '\0';
	assert_int_equal(strlist_add(&r.argv, "cmd"), 0);
	assert_int_equal(strlist_add(&r.argv, big), 0);
	/* The cut must not split a character: 2 bytes each. */
	for (size_t i = 0; i < 10000; i += 2)
		memcpy(big + i, "\xc3\xa9", 2);
	assert_int_equal(strlist_add(&r.argv, big), 0);
	assert_int_equal(strlist_add(&r.argv, "last"), 0);
	to_json(&r, &json);
	assert_null(strstr(json.data, "\\\\x"));
	assert_int_equal(record_from_json(json.data, json.len, &again, NULL),
			 0);
	assert_int_equal(again.argv.n, 3);
	assert_int_equal(again.argv_dropped,
			 10000 - strlen(again.argv.items[2]) + 5);
	assert_true(strlen(again.argv.items[2]) > 6000);
	record_done(&again);
	record_done(&r);
}

static void many_words_of_no_length_are_bounded(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct record r, again;

	(void)state;
	record_init(&r);
	for (int i = 0; i < 2 * RECORD_ARGV_MAX; i++)
		assert_int_equal(strlist_add(&r.argv, ""), 0);
	to_json(&r, &json);
	assert_int_equal(record_from_json(json.data, json.len, &again, NULL),
			 0);
	assert_int_equal(again.argv.n, RECORD_ARGV_MAX);
	assert_int_equal(again.argv_dropped, RECORD_ARGV_MAX);
	record_done(&again);
	record_done(&r);
}

static void numbers_beyond_json_are_held_at_its_end(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct record r, again;

	(void)state;
	record_init(&r);
	r.usage.disk_bytes = UINT64_MAX;
	to_json(&r, &json);
	assert_int_equal(record_from_json(json.data, json.len, &again, NULL),
			 0);
	assert_int_equal(again.usage.disk_bytes, JSON_INT_MAX);
	record_done(&again);
	record_done(&r);
}

/* Replaces from by to in a good record; it must be refused, naming what. */
static void expect_refused(const char *from, const char *to, const char *what)
{
	AUTO_BUF struct buf good = BUF_INIT(RECORD_MAX);
	AUTO_BUF struct buf bad = BUF_INIT(RECORD_MAX);
	struct error err = {0};
	struct record r, again;
	const char *at;

	assert_int_equal(fill(&r), 0);
	to_json(&r, &good);
	record_done(&r);
	at = strstr(good.data, from);
	if (!at)
		fail_msg("no %s in %s", from, good.data);
	buf_add(&bad, good.data, (size_t)(at - good.data));
	buf_add_str(&bad, to);
	buf_add_str(&bad, at + strlen(from));
	if (record_from_json(bad.data, bad.len, &again, &err) != -EBADMSG)
		fail_msg("accepted: %s -> %s", from, to);
	if (!strstr(err.text, what))
		fail_msg("%s does not name %s", err.text, what);
}

static void what_is_no_record_is_refused_by_name(void **state)
{
	(void)state;
	expect_refused("\"uid\":1000", "\"uid\":-1", "uid");
	expect_refused("\"uid\":1000", "\"uid\":\"1000\"", "uid");
	expect_refused("\"uid\":1000,", "", "uid");
	expect_refused("\"uid\":1000", "\"uid\":1000,\"zzz\":1", "another");
	expect_refused("\"uid\":1000", "\"uid\":1000,\"uid\":1000", "twice");
	expect_refused("\"exit_status\":137", "\"exit_status\":9999999999",
		       "exit_status");
	expect_refused("\"ended\"", "\"over\"", "state");
	expect_refused("\"reason\":\"limit\"", "\"reason\":3", "reason");
	expect_refused("pinfold-task-1", "pinfold-task-2", "schema");
	expect_refused("\"argv\":[", "\"argv\":[1,", "argv");
	expect_refused("\"argv\":[", "\"argv\":[\"a\\u0000b\",", "argv");
	expect_refused("\"tier\":\"container\"", "\"tier\":7", "tier");
	expect_refused("\"hard\":true", "\"hard\":1", "enforced");
	expect_refused("\"hard\":true", "\"hard\":true,\"x\":1", "enforced");
	expect_refused("\"comm\":\"cu", "\"comm\":null,\"x\":\"", "refusals");
	expect_refused("\"claimed\":true", "\"claimed\":null", "claimed");
	expect_refused("\"wall_us\":1", "\"wall_us\":1.5", "");
	expect_refused("\"deleted\":3", "\"deleted\":[]", "deleted");
	expect_refused("t-aaaaaaaaaaaaaaaa",
		       "t-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "id");
}

static void a_truncated_record_is_refused(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct record r, again;

	(void)state;
	assert_int_equal(fill(&r), 0);
	to_json(&r, &json);
	record_done(&r);
	for (size_t n = 0; n < json.len; n++)
		assert_int_equal(record_from_json(json.data, n, &again, NULL),
				 -EBADMSG);
}

static void the_end_replaces_the_start(void **state)
{
	struct error err = {0};
	struct record r, again;
	struct stat st;
	int lock;

	(void)state;
	lock = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(record_read(dir_fd, &again, &err), -ENODATA);
	assert_int_equal(fill(&r), 0);
	r.state = RECORD_RUNNING;
	assert_int_equal(record_begin(lock, &r, NULL), 0);
	assert_int_equal(record_read(dir_fd, &again, NULL), 0);
	assert_int_equal(again.state, RECORD_RUNNING);
	record_done(&again);
	/* Again, and shorter. */
	strlist_done(&r.argv);
	assert_int_equal(record_begin(lock, &r, NULL), 0);
	assert_int_equal(record_read(dir_fd, &again, NULL), 0);
	assert_int_equal(again.argv.n, 0);
	record_done(&again);
	r.state = RECORD_ENDED;
	assert_int_equal(record_write(dir_fd, &r, NULL), 0);
	assert_int_equal(record_read(dir_fd, &again, NULL), 0);
	assert_int_equal(again.state, RECORD_ENDED);
	record_done(&again);
	record_done(&r);
	assert_int_equal(fstatat(dir_fd, "task.json", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(lock);
}

static void a_task_without_files_has_no_record(void **state)
{
	struct error err = {0};
	struct record r;

	(void)state;
	assert_int_equal(record_read(dir_fd, &r, &err), -ENOENT);
	assert_int_equal(io_replace_file(dir_fd, "task.json", "{", 1, 0600), 0);
	assert_int_equal(record_read(dir_fd, &r, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "task.json"));
}

static void a_directory_that_cannot_be_written_is_an_error(void **state)
{
	struct error err = {0};
	struct record r;
	int full = open("/dev/full", O_RDWR | O_CLOEXEC);

	(void)state;
	record_init(&r);
	assert_int_equal(record_write(-1, &r, &err), -EBADF);
	assert_non_null(strstr(err.text, "task.json"));
	assert_true(record_begin(full, &r, &err) < 0);
	close(full);
}

static void every_allocation_may_fail(void **state)
{
	size_t n = 0;
	bool failed;
	struct record r, again;

	(void)state;
	do {
		int e;

		heap_fail_at(n++);
		e = fill(&r);
		failed = heap_restore();
		assert_int_equal(e, failed ? -ENOMEM : 0);
		record_done(&r);
	} while (failed);
	assert_true(n > 15);
	assert_int_equal(fill(&r), 0);
	n = 0;
	do {
		AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
		struct error err = {0};
		int e;

		heap_fail_at(n++);
		e = record_to_json(&r, &json);
		if (e == 0)
			e = record_from_json(json.data, json.len, &again,
					     &err);
		failed = heap_restore();
		assert_int_equal(e, failed ? -ENOMEM : 0);
		if (e == 0)
			record_done(&again);
	} while (failed);
	assert_true(n > 20);
	n = 0;
	do {
		struct error err = {0};
		int e;

		heap_fail_at(n++);
		e = record_write(dir_fd, &r, &err);
		if (e == 0)
			e = record_read(dir_fd, &again, &err);
		failed = heap_restore();
		assert_int_equal(e, failed ? -ENOMEM : 0);
		if (e == 0)
			record_done(&again);
	} while (failed);
	record_done(&r);
}

static void each_state_and_reason_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(record_state_name(RECORD_LOST), "lost");
	assert_string_equal(record_state_name((enum record_state)99),
			    "unknown");
	assert_string_equal(record_reason_name(REASON_STOPPED), "stopped");
	assert_string_equal(record_reason_name((enum record_reason)99),
			    "unknown");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(what_is_written_is_read_again),
		EACH(an_empty_record_is_a_record),
		EACH(equal_refusals_are_counted),
		EACH(a_long_command_is_cut_and_the_rest_is_counted),
		EACH(many_words_of_no_length_are_bounded),
		EACH(numbers_beyond_json_are_held_at_its_end),
		EACH(what_is_no_record_is_refused_by_name),
		EACH(a_truncated_record_is_refused),
		EACH(the_end_replaces_the_start),
		EACH(a_task_without_files_has_no_record),
		EACH(a_directory_that_cannot_be_written_is_an_error),
		EACH(every_allocation_may_fail),
		EACH(each_state_and_reason_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
