/*
 * What travels once between our programs: the plan of a task, the arguments of
 * an exec, the configuration of init; and the tables of what may be said when.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "task/exec_args.h"
#include "task/init.h"
#include "task/plan.h"
#include "task/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void fill(struct task_plan *p)
{
	*p = (struct task_plan){.caller_uid = 7, .grace_ms = 9};
	p->spec.id = strdup("t-abcdefghijklmnop");
	p->spec.identity = IDENTITY_SINGLE;
	p->spec.user = strdup("agent");
	p->spec.home = strdup("/home/agent");
	p->spec.uids = (struct id_map){.n = 1, .extent = {{1000, 5000, 1}}};
	p->task_path = strdup("/var/lib/pinfold/tasks/t-x");
	p->workdir = strdup("/src");
	strlist_add(&p->argv, "true");
	strlist_add(&p->spec.tools, "/home/a/.cargo/bin");
	strlist_add(&p->spec.carried, "/home/a/.npm");
	strlist_add(&p->spec.carried_at, "/home/agent/.npm");
	strlist_add(&p->spec.masked, "/home/a/.npm/x");
	strlist_add(&p->spec.tool_env, "PATH=/usr/bin");
	strlist_add(&p->spec.sockets, "/run/db.sock");
	strlist_add(&p->spec.seeds, ".claude.json");
	strlist_add(&p->spec.seed_texts, "{}");
	strlist_add(&p->spec.hide.paths, ".env");
	p->spec.hide.git_config = strdup("[core]\n");
	memset(p->policy_digest, 'a', SHA256_HEX_SIZE - 1);
}

static void pack(struct buf *b)
{
	struct task_plan p;

	fill(&p);
	assert_int_equal(plan_pack(&p, b), 0);
	plan_done(&p);
}

static void a_plan_is_read_as_it_was_packed(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	AUTO_BUF struct buf again = BUF_INIT(PLAN_MAX);
	struct error err = {0};
	struct task_plan p;

	(void)state;
	pack(&b);
	assert_int_equal(plan_unpack(b.data, b.len, &p, &err), 0);
	assert_string_equal(p.spec.id, "t-abcdefghijklmnop");
	assert_null(p.spec.source);
	assert_string_equal(p.spec.tools.items[0], "/home/a/.cargo/bin");
	assert_string_equal(p.spec.carried.items[0], "/home/a/.npm");
	assert_string_equal(p.spec.carried_at.items[0], "/home/agent/.npm");
	assert_string_equal(p.spec.masked.items[0], "/home/a/.npm/x");
	assert_string_equal(p.spec.tool_env.items[0], "PATH=/usr/bin");
	assert_string_equal(p.spec.sockets.items[0], "/run/db.sock");
	assert_string_equal(p.spec.seeds.items[0], ".claude.json");
	assert_string_equal(p.spec.seed_texts.items[0], "{}");
	assert_string_equal(p.spec.hide.paths.items[0], ".env");
	assert_string_equal(p.spec.hide.git_config, "[core]\n");
	assert_int_equal(p.spec.uids.extent[0].outer, 5000);
	assert_int_equal(plan_pack(&p, &again), 0);
	plan_done(&p);
	assert_int_equal(again.len, b.len);
	assert_memory_equal(again.data, b.data, b.len);
}

static void what_is_carried_in_without_a_place_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	struct error err = {0};
	struct task_plan p;

	(void)state;
	fill(&p);
	strlist_add(&p.spec.carried, "/home/a/.cache/pip");
	assert_int_equal(plan_pack(&p, &b), 0);
	plan_done(&p);
	assert_int_equal(plan_unpack(b.data, b.len, &p, &err), -EPROTO);
}

static void every_beginning_of_a_plan_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	struct task_plan p;

	(void)state;
	pack(&b);
	for (size_t len = 0; len < b.len; len++) {
		struct error err = {0};

		assert_int_equal(plan_unpack(b.data, len, &p, &err), -EPROTO);
		assert_non_null(strstr(err.text, "plan"));
	}
	buf_add_char(&b, 0);
	assert_int_equal(plan_unpack(b.data, b.len, &p, NULL), -EPROTO);
}

static void an_id_that_is_a_path_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	struct task_plan p;
	char *id;

	(void)state;
	pack(&b);
	id = memmem(b.data, b.len, "t-abcdefghijklmnop", 18);
	assert_non_null(id);
	memcpy(id, "../", 3);
	assert_int_equal(plan_unpack(b.data, b.len, &p, NULL), -EPROTO);
}

static void every_allocation_of_a_plan_may_fail(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(PLAN_MAX);
	struct task_plan p;
	size_t n = 0;
	bool failed;

	(void)state;
	pack(&b);
	do {
		int r;

		heap_fail_at(n++);
		r = plan_unpack(b.data, b.len, &p, NULL);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	plan_done(&p);
	assert_true(n > 8);
}

static void arguments_arrive_as_they_were_given(void **state)
{
	char one[] = "sh", two[] = "", var[] = "A=b";
	char *argv[] = {one, two, NULL}, *envp[] = {var, NULL};
	struct error err = {0};
	struct exec_args a;
	AUTO_CLOSE int fd = exec_args_pack("/src", argv, envp, &err);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(exec_args_map(fd, &a, &err), 0);
	assert_string_equal(a.workdir, "/src");
	assert_string_equal(a.argv[0], "sh");
	assert_string_equal(a.argv[1], "");
	assert_null(a.argv[2]);
	assert_string_equal(a.envp[0], "A=b");
	assert_null(a.envp[1]);
	exec_args_done(&a);
}

static int map_bytes(const void *data, size_t len)
{
	AUTO_CLOSE int fd = io_sealed_memfd("test", data, len);
	struct error err = {0};
	struct exec_args a;
	int r = exec_args_map(fd, &a, &err);

	if (r == 0)
		exec_args_done(&a);
	else
		assert_true(err.text[0] != '\0');
	return r;
}

static void malformed_arguments_are_refused(void **state)
{
	(void)state;
	assert_int_equal(map_bytes("\1\0\0\0\0\0\0\0/\0a\0", 12), 0);
	/* no argv, no final zero, more than said, fewer than said, a lie */
	assert_int_equal(map_bytes("\0\0\0\0\0\0\0\0/\0", 10), -EPROTO);
	assert_int_equal(map_bytes("\1\0\0\0\0\0\0\0/\0a", 11), -EPROTO);
	assert_int_equal(map_bytes("\1\0\0\0\0\0\0\0/\0a\0b\0", 14), -EPROTO);
	assert_int_equal(map_bytes("\2\0\0\0\0\0\0\0/\0a\0", 12), -EPROTO);
	assert_int_equal(map_bytes("\377\377\377\377\0\0\0\0/\0a\0", 12),
			 -EPROTO);
	assert_int_equal(map_bytes("\1\0\0", 3), -EPROTO);
}

static void arguments_that_can_still_be_changed_are_refused(void **state)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_CLOEXEC);
	struct error err = {0};
	struct exec_args a;

	(void)state;
	assert_int_equal(write(fd, "\1\0\0\0\0\0\0\0/\0a\0", 12), 12);
	assert_true(exec_args_map(fd, &a, &err) < 0);
}

static void too_many_arguments_are_refused_with_a_text(void **state)
{
	char *big = malloc(EXEC_ARGS_MAX);
	char *argv[] = {big, NULL}, *envp[] = {NULL};
	struct error err = {0};

	(void)state;
	assert_non_null(big);
	memset(big, 'x', EXEC_ARGS_MAX - 1);
	big[EXEC_ARGS_MAX - 1] = '\0';
	assert_int_equal(exec_args_pack("/", argv, envp, &err), -E2BIG);
	assert_non_null(strstr(err.text, "too long"));
	free(big);
}

static void a_configuration_is_read_whole_or_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	struct init_config c = {.hostname = strdup("t-a"), .nesting = true,
				.uid = 3, .processes = UINT64_MAX};
	struct init_config again;

	(void)state;
	strlist_add(&c.write_paths, "/tmp");
	assert_int_equal(init_config_pack(&c, &b), 0);
	init_config_done(&c);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(init_config_unpack(b.data, len, &again),
				 -EPROTO);
	assert_int_equal(init_config_unpack(b.data, b.len, &again), 0);
	assert_string_equal(again.hostname, "t-a");
	assert_true(again.nesting);
	assert_string_equal(again.write_paths.items[0], "/tmp");
	init_config_done(&again);
}

/* Types of messages are told apart on every channel. */
static void no_table_holds_a_type_that_fits_no_message(void **state)
{
	const struct {
		const struct message_rule *rules;
		size_t n;
	} tables[] = {
		{keeper_from_front, n_keeper_from_front},
		{keeper_from_init, n_keeper_from_init},
		{keeper_from_watch, n_keeper_from_watch},
		{front_from_keeper, n_front_from_keeper},
		{init_from_keeper, n_init_from_keeper},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		for (size_t j = 0; j < tables[i].n; j++) {
			const struct message_rule *r = &tables[i].rules[j];

			assert_true(r->len_min <= r->len_max);
			assert_true(r->len_max <= CHANNEL_DATA_MAX);
			assert_true(r->fds_min <= r->fds_max);
			assert_true(r->fds_max <= CHANNEL_FDS_MAX);
			assert_true(r->states != 0);
		}
	}
}

static void a_plan_is_taken_only_once(void **state)
{
	static struct message m = {.type = FRONT_PLAN, .n_fds = PLAN_FD_COUNT};
	struct error err = {0};

	(void)state;
	assert_int_equal(message_check(&m, keeper_from_front,
				       n_keeper_from_front, KEEPER_WAITING,
				       &err), 0);
	assert_int_equal(message_check(&m, keeper_from_front,
				       n_keeper_from_front, KEEPER_RUNNING,
				       &err), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_is_read_as_it_was_packed),
		cmocka_unit_test(
			what_is_carried_in_without_a_place_is_refused),
		cmocka_unit_test(every_beginning_of_a_plan_is_refused),
		cmocka_unit_test(an_id_that_is_a_path_is_refused),
		cmocka_unit_test(every_allocation_of_a_plan_may_fail),
		cmocka_unit_test(arguments_arrive_as_they_were_given),
		cmocka_unit_test(malformed_arguments_are_refused),
		cmocka_unit_test(arguments_that_can_still_be_changed_are_refused),
		cmocka_unit_test(too_many_arguments_are_refused_with_a_text),
		cmocka_unit_test(a_configuration_is_read_whole_or_refused),
		cmocka_unit_test(no_table_holds_a_type_that_fits_no_message),
		cmocka_unit_test(a_plan_is_taken_only_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
