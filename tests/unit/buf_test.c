#include "unit.h"

#include "base/buf.h"

#include <errno.h>
#include <string.h>

static void an_empty_buffer_is_an_empty_string(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(10);

	(void)state;
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_string_equal(buf_str(&b), "");
}

static void content_up_to_the_maximum_is_kept(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(5);

	(void)state;
	assert_int_equal(buf_add_str(&b, "1234"), 0);
	assert_int_equal(buf_add_char(&b, '5'), 0);
	assert_int_equal(b.len, 5);
	assert_string_equal(buf_str(&b), "12345");
}

static void one_byte_beyond_the_maximum_fails_and_stays_failed(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(5);

	(void)state;
	assert_int_equal(buf_add_str(&b, "123456"), -EFBIG);
	assert_int_equal(b.failed, -EFBIG);
	assert_int_equal(buf_add_char(&b, 'x'), -EFBIG);
	assert_int_equal(b.len, 0);
	buf_reset(&b);
	assert_int_equal(buf_add_char(&b, 'x'), 0);
	assert_string_equal(buf_str(&b), "x");
}

static void a_length_that_wraps_around_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX);

	(void)state;
	assert_int_equal(buf_add_str(&b, "some"), 0);
	assert_null(buf_reserve(&b, SIZE_MAX));
	assert_int_equal(b.failed, -EFBIG);
	buf_reset(&b);
	assert_int_equal(buf_add_str(&b, "some"), 0);
	assert_null(buf_reserve(&b, SIZE_MAX - 4));
	assert_int_not_equal(b.failed, 0);
}

static void zero_bytes_are_content_like_others(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(100);

	(void)state;
	assert_int_equal(buf_add(&b, "a\0b", 3), 0);
	assert_int_equal(buf_add_char(&b, '\0'), 0);
	assert_int_equal(b.len, 4);
	assert_memory_equal(b.data, "a\0b\0", 5);
}

/* buf_addf formats into 256 bytes first: both sides of that. */
static void formatted_text_of_any_length_is_whole(void **state)
{
	char text[600];

	(void)state;
	for (size_t n = 250; n < 260; n++) {
		AUTO_BUF struct buf b = BUF_INIT(1000);

		memset(text, 'f', n);
		text[n] = '\0';
		assert_int_equal(buf_addf(&b, "<%s>", text), 0);
		assert_int_equal(b.len, n + 2);
		assert_memory_equal(b.data + 1, text, n);
		assert_int_equal(b.data[n + 1], '>');
	}
}

static void formatted_text_keeps_to_the_maximum(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(300);

	(void)state;
	assert_int_equal(buf_addf(&b, "%301s", ""), -EFBIG);
	buf_reset(&b);
	assert_int_equal(buf_addf(&b, "%300s", ""), 0);
}

static void what_is_reserved_can_be_committed(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(100);
	char *to = buf_reserve(&b, 100);

	(void)state;
	assert_non_null(to);
	memset(to, 'r', 100);
	buf_commit(&b, 100);
	assert_int_equal(strlen(buf_str(&b)), 100);
}

static void without_memory_each_append_fails(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		AUTO_BUF struct buf b = BUF_INIT(10000);
		int r;

		heap_fail_at(n++);
		buf_add_str(&b, "begin");
		buf_addf(&b, "%1000d", 1);
		r = buf_add_str(&b, "end");
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_is_an_empty_string),
		cmocka_unit_test(content_up_to_the_maximum_is_kept),
		cmocka_unit_test(one_byte_beyond_the_maximum_fails_and_stays_failed),
		cmocka_unit_test(a_length_that_wraps_around_is_refused),
		cmocka_unit_test(zero_bytes_are_content_like_others),
		cmocka_unit_test(formatted_text_of_any_length_is_whole),
		cmocka_unit_test(formatted_text_keeps_to_the_maximum),
		cmocka_unit_test(what_is_reserved_can_be_committed),
		cmocka_unit_test(without_memory_each_append_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
