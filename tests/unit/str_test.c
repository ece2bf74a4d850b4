#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

static void a_list_grows_and_ends_with_null(void **state)
{
	AUTO_STRLIST struct strlist list = {0};

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(strlist_take(&list, str_format("%02d", i)), 0);
	assert_int_equal(list.n, 100);
	assert_null(list.items[100]);
	assert_string_equal(list.items[99], "99");
	assert_true(strlist_has(&list, "42"));
	assert_false(strlist_has(&list, "4"));
}

static void sorting_goes_by_bytes(void **state)
{
	AUTO_STRLIST struct strlist list = {0};

	(void)state;
	strlist_sort(&list);
	strlist_add(&list, "b");
	strlist_add(&list, "\xc3\xa4");
	strlist_add(&list, "B");
	strlist_add(&list, "");
	strlist_sort(&list);
	assert_string_equal(list.items[0], "");
	assert_string_equal(list.items[1], "B");
	assert_string_equal(list.items[3], "\xc3\xa4");
}

static void without_memory_a_list_keeps_what_it_has(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		AUTO_STRLIST struct strlist list = {0};
		int r = 0;

		heap_fail_at(n++);
		for (int i = 0; i < 20 && r == 0; i++)
			r = strlist_take(&list, str_format("%d", i));
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		if (list.n > 0)
			assert_null(list.items[list.n]);
	} while (failed);
	assert_true(n > 20);
}

static void beginnings_and_endings_are_compared(void **state)
{
	(void)state;
	assert_true(str_starts("abc", "ab"));
	assert_true(str_starts("abc", ""));
	assert_false(str_starts("ab", "abc"));
	assert_true(str_ends("abc", "bc"));
	assert_true(str_ends("abc", ""));
	assert_false(str_ends("bc", "abc"));
}

static const char *quoted(const char *s, size_t max)
{
	static struct buf b = BUF_INIT(1000);

	buf_done(&b);
	assert_int_equal(str_quote(&b, s, max), 0);
	return buf_str(&b);
}

static void what_a_terminal_acts_on_is_quoted_as_escapes(void **state)
{
	(void)state;
	assert_string_equal(quoted("plain text", 100), "\"plain text\"");
	assert_string_equal(quoted("a\"b\\c", 100), "\"a\\\"b\\\\c\"");
	assert_string_equal(quoted("\n\t\r", 100), "\"\\n\\t\\x0d\"");
	assert_string_equal(quoted("\033[2J\177", 100), "\"\\x1b[2J\\x7f\"");
	/* U+009B is a control sequence introducer of its own. */
	assert_string_equal(quoted("\xc2\x9b", 100), "\"\\xc2\\x9b\"");
	assert_string_equal(quoted("\xc3\xa4\xe2\x82\xac", 100),
			    "\"\xc3\xa4\xe2\x82\xac\"");
	assert_string_equal(quoted("\xff" "a\xc3", 100), "\"\\xffa\\xc3\"");
	assert_string_equal(quoted("", 100), "\"\"");
}

/* Otherwise a name could show as another one ("trojan source"). */
static void what_reorders_or_hides_text_is_quoted_as_escapes(void **state)
{
	static const char *const marks[][2] = {
		{"\xe2\x80\x8b", "\"\\xe2\\x80\\x8b\""}, /* zero width space */
		{"\xe2\x80\x8f", "\"\\xe2\\x80\\x8f\""}, /* right-to-left mark */
		{"\xe2\x80\xa8", "\"\\xe2\\x80\\xa8\""}, /* line separator */
		{"\xe2\x80\xae", "\"\\xe2\\x80\\xae\""}, /* override */
		{"\xe2\x81\xa6", "\"\\xe2\\x81\\xa6\""}, /* isolate */
		{"\xef\xbb\xbf", "\"\\xef\\xbb\\xbf\""}, /* byte order mark */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		assert_string_equal(quoted(marks[i][0], 100), marks[i][1]);
	assert_string_equal(quoted("\xe2\x80\x93", 100), "\"\xe2\x80\x93\"");
}

static void long_text_is_cut_between_characters(void **state)
{
	(void)state;
	assert_string_equal(quoted("12345", 5), "\"12345\"");
	assert_string_equal(quoted("123456", 5), "\"12345\"...");
	assert_string_equal(quoted("\xe2\x82\xac\xe2\x82\xac", 4),
			    "\"\xe2\x82\xac\xe2\x82\xac\"");
	assert_string_equal(quoted("\xe2\x82\xac\xe2\x82\xac", 3),
			    "\"\xe2\x82\xac\"...");
	assert_string_equal(quoted("x", 0), "\"\"...");
}

/* The boundaries of RFC 3629, section 4. */
static void well_formed_utf8_is_told_from_the_rest(void **state)
{
	static const struct {
		const char *bytes;
		bool good;
	} examples[] = {
		{"", true},		    {"\x7f", true},
		{"\x80", false},	    {"\xc1\xbf", false},
		{"\xc2\x80", true},	    {"\xdf\xbf", true},
		{"\xc2", false},	    {"\xc2\x41", false},
		{"\xe0\x9f\xbf", false},    {"\xe0\xa0\x80", true},
		{"\xed\x9f\xbf", true},	    {"\xed\xa0\x80", false},
		{"\xed\xbf\xbf", false},    {"\xee\x80\x80", true},
		{"\xef\xbf\xbf", true},	    {"\xe2\x82", false},
		{"\xf0\x8f\xbf\xbf", false}, {"\xf0\x90\x80\x80", true},
		{"\xf4\x8f\xbf\xbf", true}, {"\xf4\x90\x80\x80", false},
		{"\xf5\x80\x80\x80", false}, {"\xf0\x90\x80", false},
		{"\xff", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		const char *s = examples[i].bytes;

		if (str_is_utf8(s, strlen(s)) != examples[i].good)
			fail_msg("example %zu", i);
	}
	/* A sequence must not be read beyond its length. */
	assert_false(str_is_utf8("\xe2\x82\xac", 2));
}

static void normal_paths_have_one_spelling(void **state)
{
	static const char *const normal[] = {"/", "/a", "/a/b", "/...", "/.a",
					     "/a..", "/ "};
	static const char *const others[] = {"", "a", "//", "/a/", "/a//b",
					     "/.", "/..", "/a/./b", "/a/..",
					     "/../a", "./a"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(normal); i++)
		assert_true(path_is_normal(normal[i]));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(path_is_normal(others[i]));
}

static void below_ends_at_a_component(void **state)
{
	(void)state;
	assert_true(path_is_below("/a/b", "/a"));
	assert_true(path_is_below("/a", "/a"));
	assert_true(path_is_below("/a", "/"));
	assert_true(path_is_below("/", "/"));
	assert_false(path_is_below("/ab", "/a"));
	assert_true(path_is_below("a/b", "a"));
	assert_true(path_is_below("a", "a"));
	assert_false(path_is_below("b", "a"));
	assert_false(path_is_below("/a", "a"));
	assert_false(path_is_below("/", "/a"));
	assert_true(path_is_below("a", "a"));
	assert_true(path_is_below("a/b", "a"));
	assert_false(path_is_below("b", "a"));
	assert_false(path_is_below("ab", "a"));
}

static void white_space_at_the_ends_is_cut(void **state)
{
	char text[] = " \t a b \n", blank[] = " \n", empty[] = "";

	(void)state;
	assert_string_equal(str_strip(text), "a b");
	assert_string_equal(str_strip(blank), "");
	assert_string_equal(str_strip(empty), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_grows_and_ends_with_null),
		cmocka_unit_test(sorting_goes_by_bytes),
		cmocka_unit_test(without_memory_a_list_keeps_what_it_has),
		cmocka_unit_test(beginnings_and_endings_are_compared),
		cmocka_unit_test(what_a_terminal_acts_on_is_quoted_as_escapes),
		cmocka_unit_test(
			what_reorders_or_hides_text_is_quoted_as_escapes),
		cmocka_unit_test(long_text_is_cut_between_characters),
		cmocka_unit_test(well_formed_utf8_is_told_from_the_rest),
		cmocka_unit_test(normal_paths_have_one_spelling),
		cmocka_unit_test(below_ends_at_a_component),
		cmocka_unit_test(white_space_at_the_ends_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
