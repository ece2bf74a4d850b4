/* CPU time summed over looks at processes that come and go. */
#include "unit.h"

#include "task/keeper.h"

#include <stdlib.h>

/* A look at n processes; what is known of all after it. */
static uint64_t look(struct keeper_cpu *c, const struct cpu_seen *seen,
		     size_t n)
{
	for (size_t i = 0; i < n; i++)
		keeper_cpu_add(c, &seen[i]);
	return keeper_cpu_end(c);
}

#define LOOK(c, ...)                                                           \
	look(c, (const struct cpu_seen[]){__VA_ARGS__},                        \
	     sizeof((const struct cpu_seen[]){__VA_ARGS__}) /                  \
		     sizeof(struct cpu_seen))

static void done(struct keeper_cpu *c)
{
	free(c->before.items);
	free(c->now.items);
}

static void a_child_that_nobody_waits_for_keeps_counting(void **state)
{
	struct keeper_cpu c = {0};

	(void)state;
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}, {9, 7, 30, 4}), 35);
	assert_int_equal(LOOK(&c, {1, 5, 2, 0}), 36);
	assert_int_equal(LOOK(&c, {1, 5, 2, 0}, {10, 8, 5, 0}), 41);
	assert_int_equal(LOOK(&c, {1, 5, 2, 0}), 41);
	done(&c);
}

static void a_child_that_was_waited_for_counts_once(void **state)
{
	struct keeper_cpu c = {0};

	(void)state;
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}, {9, 7, 30, 4}), 35);
	/* It used two more before its end. */
	assert_int_equal(LOOK(&c, {1, 5, 1, 36}), 37);
	assert_int_equal(LOOK(&c, {1, 5, 1, 36}), 37);
	done(&c);
}

static void a_number_that_is_used_again_is_another_process(void **state)
{
	struct keeper_cpu c = {0};

	(void)state;
	assert_int_equal(LOOK(&c, {1, 5, 0, 0}, {9, 7, 30, 0}), 30);
	assert_int_equal(LOOK(&c, {1, 5, 0, 0}, {9, 8, 1, 0}), 31);
	done(&c);
}

static void who_was_not_looked_at_is_not_gone(void **state)
{
	struct keeper_cpu c = {0};

	(void)state;
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}, {9, 7, 30, 0}), 31);
	c.partial = true;
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}), 1);
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}, {9, 7, 31, 0}), 32);
	done(&c);
}

static void without_memory_a_look_is_partial(void **state)
{
	struct keeper_cpu c = {0};

	(void)state;
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}, {9, 7, 30, 0}), 31);
	heap_fail_at(0);
	keeper_cpu_add(&c, &(const struct cpu_seen){1, 5, 1, 0});
	assert_true(heap_restore());
	assert_int_equal(keeper_cpu_end(&c), 1);
	assert_int_equal(LOOK(&c, {1, 5, 1, 0}), 31);
	done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_that_nobody_waits_for_keeps_counting),
		cmocka_unit_test(a_child_that_was_waited_for_counts_once),
		cmocka_unit_test(a_number_that_is_used_again_is_another_process),
		cmocka_unit_test(who_was_not_looked_at_is_not_gone),
		cmocka_unit_test(without_memory_a_look_is_partial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
