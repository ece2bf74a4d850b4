/* The error object, the clocks, and "did you mean". */
#include "unit.h"

#include "base/error.h"
#include "base/near.h"
#include "base/time.h"

#include <errno.h>
#include <string.h>

static void an_error_returns_its_code_and_keeps_its_text(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(error_set(&err, -EPERM, "no %s", "entry"), -EPERM);
	assert_int_equal(err.code, -EPERM);
	assert_string_equal(err.text, "no entry");
	assert_int_equal(error_set(NULL, -EPERM, "no %s", "entry"), -EPERM);
}

static void errno_is_returned_and_named(void **state)
{
	struct error err = {0};

	(void)state;
	errno = ENOENT;
	assert_int_equal(error_errno(&err, "/x"), -ENOENT);
	assert_string_equal(err.text, "/x: No such file or directory");
	errno = ENOENT;
	assert_int_equal(error_errno(NULL, "/x"), -ENOENT);
	errno = 0;
	assert_true(error_errno(&err, "/x") < 0);
}

static void a_prefix_goes_in_front(void **state)
{
	struct error err = {0};

	(void)state;
	error_set(&err, -EINVAL, "line 3");
	assert_int_equal(error_prefix(&err, "file %d", 1), -EINVAL);
	assert_string_equal(err.text, "file 1: line 3");
}

static void a_text_without_end_is_cut(void **state)
{
	char big[3 * ERROR_TEXT_MAX];
	struct error err = {0};

	(void)state;
	memset(big, 'e', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	error_set(&err, -EINVAL, "%s", big);
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	errno = EIO;
	error_errno(&err, "%s", big);
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	error_prefix(&err, "in front");
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	assert_memory_equal(err.text, "in front: eee", 13);
}

static void times_are_rfc_3339_in_utc(void **state)
{
	char text[32];

	(void)state;
	time_format(0, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
	time_format(951782399999999u, text);
	assert_string_equal(text, "2000-02-28T23:59:59.999Z");
	time_format(1709164800001000u, text);
	assert_string_equal(text, "2024-02-29T00:00:00.001Z");
	time_format(253402300799000000u, text);
	assert_string_equal(text, "9999-12-31T23:59:59.000Z");
}

static void the_monotonic_clock_does_not_go_back(void **state)
{
	uint64_t last = time_mono_us();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = time_mono_us();

		assert_true(now >= last);
		last = now;
	}
	assert_true(time_wall_us() > 1700000000000000u);
}

static void distances_count_single_letters(void **state)
{
	char big[NEAR_WORD_MAX + 2];

	(void)state;
	assert_int_equal(near_distance("", ""), 0);
	assert_int_equal(near_distance("", "abc"), 3);
	assert_int_equal(near_distance("abc", ""), 3);
	assert_int_equal(near_distance("memory", "memroy"), 1);
	assert_int_equal(near_distance("sorce", "source"), 1);
	assert_int_equal(near_distance("kitten", "sitting"), 3);
	assert_int_equal(near_distance("Open-Files", "open_files"), 0);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(near_distance(big, "x"), NEAR_WORD_MAX + 1);
	big[NEAR_WORD_MAX] = '\0';
	assert_int_equal(near_distance(big, big), 0);
}

static void only_a_word_that_may_be_meant_is_near(void **state)
{
	const char *best = NULL;

	(void)state;
	near_consider("polcy", "preset", &best);
	assert_null(best);
	near_consider("polcy", "policy", &best);
	near_consider("polcy", "poly", &best);
	assert_string_equal(best, "policy");
	best = NULL;
	near_consider("x", "y", &best);
	assert_null(best);
	near_consider("", "y", &best);
	assert_null(best);
	near_consider("me", "memory", &best);
	assert_null(best);
	near_consider("Mem", "memory", &best);
	assert_string_equal(best, "memory");
	near_consider("mem", "mem", &best);
	assert_string_equal(best, "mem");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_returns_its_code_and_keeps_its_text),
		cmocka_unit_test(errno_is_returned_and_named),
		cmocka_unit_test(a_prefix_goes_in_front),
		cmocka_unit_test(a_text_without_end_is_cut),
		cmocka_unit_test(times_are_rfc_3339_in_utc),
		cmocka_unit_test(the_monotonic_clock_does_not_go_back),
		cmocka_unit_test(distances_count_single_letters),
		cmocka_unit_test(only_a_word_that_may_be_meant_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
