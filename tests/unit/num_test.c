#include "unit.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>

struct example {
	const char *text;
	int result;
	uint64_t value;
};

static void check(int (*parse)(const char *, uint64_t *),
		  const struct example *examples, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = 4711;
		int r = parse(examples[i].text, &v);

		if (r != examples[i].result)
			fail_msg("\"%s\" gives %d", examples[i].text, r);
		assert_int_equal(v, r < 0 ? 4711 : examples[i].value);
	}
}

static void whole_numbers_alone_are_read(void **state)
{
	static const struct example examples[] = {
		{"0", 0, 0},
		{"007", 0, 7},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
	};

	(void)state;
	check(num_parse_u64, examples, ARRAY_SIZE(examples));
}

static void sizes_carry_binary_and_decimal_units(void **state)
{
	static const struct example examples[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"1B", 0, 1},
		{"4KiB", 0, 4096},
		{"4kB", 0, 4000},
		{"2MiB", 0, 2 << 20},
		{"1TB", 0, 1000000000000},
		{"16777215TiB", 0, 16777215ull << 40},
		{"16777216TiB", -ERANGE, 0},
		{"1K", -EINVAL, 0},
		{"1kib", -EINVAL, 0},
		{"1KB", -EINVAL, 0},
		{"1 KiB", -EINVAL, 0},
		{"KiB", -EINVAL, 0},
		{"1.5GiB", -EINVAL, 0},
		{"-1MiB", -EINVAL, 0},
	};

	(void)state;
	check(num_parse_size, examples, ARRAY_SIZE(examples));
}

static void durations_carry_a_unit_for_each_number(void **state)
{
	static const struct example examples[] = {
		{"500ms", 0, 500},
		{"0s", 0, 0},
		{"30s", 0, 30000},
		{"1m30s", 0, 90000},
		{"8h", 0, 28800000},
		{"90d", 0, 7776000000},
		{"1d2h3m4s5ms", 0, 93784005},
		{"213503982334601ms", 0, 213503982334601},
		{"213503982335d", -ERANGE, 0},
		{"18446744073709551615ms1ms", -ERANGE, 0},
		{"30", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"1m30", -EINVAL, 0},
		{"1.5s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1w", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
	};

	(void)state;
	check(num_parse_duration, examples, ARRAY_SIZE(examples));
}

static void thousandths_have_three_digits_at_most(void **state)
{
	static const struct example examples[] = {
		{"2", 0, 2000},
		{"0.5", 0, 500},
		{"1.25", 0, 1250},
		{"0.001", 0, 1},
		{"0.000", 0, 0},
		{"0.0001", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.x", -EINVAL, 0},
		{"1.5.2", -EINVAL, 0},
		{"18446744073709551.615", 0, UINT64_MAX},
		{"18446744073709551.616", -ERANGE, 0},
		{"18446744073709552", -ERANGE, 0},
	};

	(void)state;
	check(num_parse_milli, examples, ARRAY_SIZE(examples));
}

static const uint64_t samples[] = {
	0, 1, 999, 1000, 1001, 1023, 1024, 1500, 59999, 60000, 90000, 86400000,
	1 << 20, 1 << 30, 1ull << 40, (1ull << 40) + 1024, UINT64_MAX - 1,
	UINT64_MAX,
};

static void what_is_formatted_is_read_back_unchanged(void **state)
{
	static const struct {
		int (*format)(struct buf *, uint64_t);
		int (*parse)(const char *, uint64_t *);
	} pairs[] = {
		{num_format_size, num_parse_size},
		{num_format_duration, num_parse_duration},
		{num_format_milli, num_parse_milli},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(pairs); j++) {
			AUTO_BUF struct buf b = BUF_INIT(64);
			uint64_t v;

			assert_int_equal(pairs[j].format(&b, samples[i]), 0);
			assert_int_equal(pairs[j].parse(buf_str(&b), &v), 0);
			assert_int_equal(v, samples[i]);
		}
	}
}

static const char *formatted(int (*format)(struct buf *, uint64_t), uint64_t v)
{
	static struct buf b = BUF_INIT(64);

	buf_done(&b);
	assert_int_equal(format(&b, v), 0);
	return buf_str(&b);
}

static void the_largest_unit_that_fits_exactly_is_chosen(void **state)
{
	(void)state;
	assert_string_equal(formatted(num_format_size, 4096), "4KiB");
	assert_string_equal(formatted(num_format_size, 4097), "4097");
	assert_string_equal(formatted(num_format_size, 1ull << 40), "1TiB");
	assert_string_equal(formatted(num_format_duration, 90000), "90s");
	assert_string_equal(formatted(num_format_duration, 1), "1ms");
	assert_string_equal(formatted(num_format_milli, 1250), "1.25");
	assert_string_equal(formatted(num_format_milli, 3000), "3");
	assert_int_equal(formatted(num_format_size, 0)[0], '0');
}

static void people_get_one_digit_behind_the_point(void **state)
{
	(void)state;
	assert_string_equal(formatted(num_human_size, 0), "0 bytes");
	assert_string_equal(formatted(num_human_size, 1023), "1023 bytes");
	assert_string_equal(formatted(num_human_size, 1024), "1.0 KiB");
	assert_string_equal(formatted(num_human_size, 1536), "1.5 KiB");
	assert_string_equal(formatted(num_human_size, (1 << 20) - 1),
			    "1023.9 KiB");
	assert_string_equal(formatted(num_human_size, 1 << 20), "1.0 MiB");
	assert_string_equal(formatted(num_human_duration, 999), "999 us");
	assert_string_equal(formatted(num_human_duration, 850000), "850 ms");
	assert_string_equal(formatted(num_human_duration, 2300000), "2.3 s");
	assert_string_equal(formatted(num_human_duration, 250000000),
			    "4 min 10 s");
	formatted(num_human_duration, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_alone_are_read),
		cmocka_unit_test(sizes_carry_binary_and_decimal_units),
		cmocka_unit_test(durations_carry_a_unit_for_each_number),
		cmocka_unit_test(thousandths_have_three_digits_at_most),
		cmocka_unit_test(what_is_formatted_is_read_back_unchanged),
		cmocka_unit_test(the_largest_unit_that_fits_exactly_is_chosen),
		cmocka_unit_test(people_get_one_digit_behind_the_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
