/*
 * Changes in the order of their paths, in memory and through a file.
 */
#include "cli/sorted.h"

#include "base/cleanup.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int dir_fd = -1; /* where runs go */

struct seen {
	size_t n;
	char last[64];
	bool ordered, whole;
};

static int look(void *arg, const struct change *c)
{
	struct seen *s = arg;
	unsigned number = 0;

	if (s->n > 0 && strcmp(s->last, c->path) >= 0)
		s->ordered = false;
	snprintf(s->last, sizeof(s->last), "%s", c->path);
	/* The numbers that add_many derives from one another. */
	if (sscanf(c->path, "d/%u", &number) != 1 || c->size != number ||
	    c->mode != (number & 0777) || c->mode_before != 0644 ||
	    c->kind != (enum change_kind)(number % 3))
		s->whole = false;
	s->n++;
	return 0;
}

static int add_many(struct sorted *s, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; i < n && r == 0; i++) {
		char path[32];
		/* Each number below n once, in an order of no kind. */
		unsigned number = (unsigned)((uint64_t)i * 7919 % n);
		const struct change c = {
			.path = path,
			.kind = (enum change_kind)(number % 3),
			.mode = number & 0777,
			.mode_before = 0644,
			.size = number,
		};

		snprintf(path, sizeof(path), "d/%u", number);
		r = sorted_add(s, &c);
	}
	return r;
}

static size_t runs_for(size_t memory, unsigned n)
{
	struct seen seen = {.ordered = true, .whole = true};
	AUTO_SORTED struct sorted s;

	sorted_init(&s, dir_fd);
	s.memory = memory;
	assert_int_equal(add_many(&s, n), 0);
	assert_int_equal(sorted_each(&s, look, &seen), 0);
	assert_int_equal(seen.n, n);
	assert_true(seen.ordered);
	assert_true(seen.whole);
	return s.n_runs;
}

static void few_changes_are_sorted_in_memory(void **state)
{
	(void)state;
	assert_int_equal(runs_for(SORTED_MEMORY, 0), 0);
	assert_int_equal(runs_for(SORTED_MEMORY, 1), 0);
	assert_int_equal(runs_for(SORTED_MEMORY, 5000), 0);
}

static void more_than_fits_is_sorted_in_runs(void **state)
{
	(void)state;
	assert_in_range(runs_for(16384, 5000), 2, SORTED_RUNS);
}

static void more_runs_than_there_may_be_are_joined(void **state)
{
	(void)state;
	assert_in_range(runs_for(1024, 5000), 2, SORTED_RUNS);
	assert_in_range(runs_for(1, 300), 2, SORTED_RUNS);
}

static void a_path_longer_than_a_piece_is_kept_whole(void **state)
{
	static char path[3 * SORTED_READ];
	const struct change c = {.path = path};
	struct seen seen = {.ordered = true};
	AUTO_SORTED struct sorted s;

	(void)state;
	sorted_init(&s, dir_fd);
	s.memory = 1024;
	for (char last = 'c'; last >= 'a'; last--) {
		memset(path, 'x', sizeof(path) - 1);
		path[0] = last;
		assert_int_equal(sorted_add(&s, &c), 0);
	}
	assert_int_equal(sorted_each(&s, look, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_true(seen.ordered);
}

static void a_missing_place_for_runs_is_an_error(void **state)
{
	struct seen seen = {0};
	AUTO_SORTED struct sorted s;

	(void)state;
	sorted_init(&s, -1);
	s.memory = 1024;
	assert_int_equal(add_many(&s, 5000), -EBADF);
	assert_int_equal(sorted_each(&s, look, &seen), -EBADF);
	assert_int_equal(seen.n, 0);
}

static void every_failed_allocation_is_reported(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		struct seen seen = {.ordered = true, .whole = true};
		AUTO_SORTED struct sorted s;
		int r;

		sorted_init(&s, dir_fd);
		s.memory = 16384;
		heap_fail_at(n++);
		r = add_many(&s, 5000);
		if (r == 0)
			r = sorted_each(&s, look, &seen);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 4);
}

static int open_dir(void **state)
{
	const char *dir = getenv("TMPDIR");

	(void)state;
	dir_fd = open(dir && *dir ? dir : "/tmp",
		      O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int close_dir(void **state)
{
	(void)state;
	close_fd(dir_fd);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_changes_are_sorted_in_memory),
		cmocka_unit_test(more_than_fits_is_sorted_in_runs),
		cmocka_unit_test(more_runs_than_there_may_be_are_joined),
		cmocka_unit_test(a_path_longer_than_a_piece_is_kept_whole),
		cmocka_unit_test(a_missing_place_for_runs_is_an_error),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, open_dir, close_dir);
}
