#include "unit.h"

#include "base/cleanup.h"
#include "schema/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TREE_MAX (1u << 20)

/* Canonical form by RFC 8785 of strings, one for each kind of escape. */
static const struct {
	const char *text, *json;
} strings[] = {
	{"", "\"\""},
	{"plain", "\"plain\""},
	{"\b\t\n\f\r", "\"\\b\\t\\n\\f\\r\""},
	{"\"\\/", "\"\\\"\\\\/\""},
	{"\x01\x0b\x1f", "\"\\u0001\\u000b\\u001f\""},
	{"\x7f", "\"\x7f\""},
	/* Of RFC 8785, section 3.2.2.2. */
	{"\xe2\x82\xac$\x0f\nA'B\"\\\\\"/",
	 "\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\""},
	{"\xf0\x9f\x98\x82", "\"\xf0\x9f\x98\x82\""},
	{"\xef\xbf\xbf", "\"\xef\xbf\xbf\""},
};

static void strings_are_escaped_as_rfc_8785_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1000);
		struct json_writer w;

		json_begin(&w, &out);
		json_string(&w, strings[i].text);
		assert_int_equal(json_finish(&w), 0);
		assert_string_equal(out.data, strings[i].json);
	}
}

static void keys_are_ordered_by_utf_16_units(void **state)
{
	/* The order of RFC 8785, section 3.2.3. */
	static const char *const keys[] = {
		"\r", "1", "\xc2\x80", "\xc3\xb6", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\xef\xac\xb3",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			int r = json_key_compare(keys[i], strlen(keys[i]),
						 keys[k], strlen(keys[k]));

			assert_int_equal((r > 0) - (r < 0), (i > k) - (i < k));
		}
	}
	assert_true(json_key_compare("a", 1, "ab", 2) < 0);
	assert_true(json_key_compare("ab", 2, "a", 1) > 0);
}

static void a_document_of_all_kinds_has_one_form(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(1000);
	struct json_writer w;

	(void)state;
	json_begin(&w, &out);
	json_object(&w);
	json_key(&w, "array");
	json_array(&w);
	json_int(&w, -1);
	json_uint(&w, 9007199254740991u);
	json_null(&w);
	json_object(&w);
	json_object_end(&w);
	json_array(&w);
	json_array_end(&w);
	json_array_end(&w);
	json_put_bool(&w, "bool", true);
	json_put_int(&w, "int", 0);
	json_put_string(&w, "null", NULL);
	json_key(&w, "raw");
	json_raw(&w, "[1]", 3);
	json_put_string(&w, "text", "x");
	json_put_uint(&w, "uint", 7);
	json_object_end(&w);
	assert_int_equal(json_finish(&w), 0);
	assert_string_equal(out.data,
			    "{\"array\":[-1,9007199254740991,null,{},[]],"
			    "\"bool\":true,\"int\":0,\"null\":null,"
			    "\"raw\":[1],\"text\":\"x\",\"uint\":7}");
}

static void numbers_beyond_2_to_the_53_fail(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(1000);
	struct json_writer w;

	(void)state;
	json_begin(&w, &out);
	json_uint(&w, 9007199254740992u);
	assert_int_equal(json_finish(&w), -ERANGE);
	buf_reset(&out);
	json_begin(&w, &out);
	json_int(&w, -9007199254740992);
	assert_int_equal(json_finish(&w), -ERANGE);
	buf_reset(&out);
	json_begin(&w, &out);
	json_int(&w, INT64_MIN);
	assert_int_equal(json_finish(&w), -ERANGE);
}

static void text_that_is_not_utf_8_fails_or_is_shown_as_bytes(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(1000);
	struct json_writer w;

	(void)state;
	json_begin(&w, &out);
	json_string(&w, "a\xff");
	assert_int_equal(json_finish(&w), -EILSEQ);
	buf_reset(&out);
	json_begin(&w, &out);
	json_text(&w, "a\xff\n\xe2\x82\xac\xe2\x82\"");
	assert_int_equal(json_finish(&w), 0);
	assert_string_equal(out.data, "\"a\\\\xff\\n\xe2\x82\xac\\\\xe2"
				      "\\\\x82\\\"\"");
}

static void a_full_buffer_comes_out_at_the_end(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(4);
	struct json_writer w;

	(void)state;
	json_begin(&w, &out);
	json_string(&w, "12345");
	assert_int_equal(json_finish(&w), -EFBIG);
}

static int parse(const char *text, size_t len, unsigned flags,
		 struct json_place *where)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(TREE_MAX, 1000);
	const struct json_value *root;
	struct error err = {0};
	int r = json_parse(text, len, flags, &doc, &root, where, &err);

	assert_int_equal(err.code, r);
	if (r == 0)
		assert_non_null(root);
	return r;
}

static void what_is_json_is_read(void **state)
{
	static const char *const good[] = {
		"{}", "[]", "null", "true", " false\r\n\t", "0", "-0", "-1",
		"1.5", "1e5", "1E+5", "0.5e-3", "\"\"", "\"\\u0041\"",
		"\"\\ud83d\\ude00\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
		"[1,[2,[3]],{\"a\":{\"b\":[]}}]", "\"\\u0000\"",
		"{\"a\":1,\"b\":2,\"aa\":3}", "123456789012345678901234567890",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct json_place where;

		if (parse(good[i], strlen(good[i]), 0, &where) != 0)
			fail_msg("not read: %s", good[i]);
	}
}

static const struct {
	const char *text;
	int code;
	unsigned line, column;
} bad[] = {
	{"", -EINVAL, 1, 1},
	{" ", -EINVAL, 1, 2},
	{"{", -EINVAL, 1, 2},
	{"[", -EINVAL, 1, 2},
	{"[1", -EINVAL, 1, 3},
	{"[1,]", -EINVAL, 1, 4},
	{"{\"a\"}", -EINVAL, 1, 5},
	{"{\"a\":}", -EINVAL, 1, 6},
	{"{\"a\":1,}", -EINVAL, 1, 8},
	{"{a:1}", -EINVAL, 1, 2},
	{"{'a':1}", -EINVAL, 1, 2},
	{"[1 2]", -EINVAL, 1, 4},
	{"nul", -EINVAL, 1, 1},
	{"True", -EINVAL, 1, 1},
	{"01", -EINVAL, 1, 1},
	{"-", -EINVAL, 1, 1},
	{"+1", -EINVAL, 1, 1},
	{"1.", -EINVAL, 1, 1},
	{".5", -EINVAL, 1, 1},
	{"1e", -EINVAL, 1, 1},
	{"1e+", -EINVAL, 1, 1},
	{"0x10", -EINVAL, 1, 2},
	{"NaN", -EINVAL, 1, 1},
	{"Infinity", -EINVAL, 1, 1},
	{"\"", -EINVAL, 1, 1},
	{"\"a", -EINVAL, 1, 1},
	{"\"\\", -EINVAL, 1, 1},
	{"\"\\x41\"", -EINVAL, 1, 2},
	{"\"\\u12\"", -EINVAL, 1, 6},
	{"\"\\u123g\"", -EINVAL, 1, 7},
	{"\"\\ud800\"", -EILSEQ, 1, 8},
	{"\"\\udc00\"", -EILSEQ, 1, 8},
	{"\"\\ud800\\u0041\"", -EILSEQ, 1, 14},
	{"\"a\nb\"", -EINVAL, 1, 3},
	{"\"a\tb\"", -EINVAL, 1, 3},
	{"\"\xff\"", -EILSEQ, 1, 1},
	{"\"\xc0\x80\"", -EILSEQ, 1, 1},
	{"\"\xed\xa0\x80\"", -EILSEQ, 1, 1},
	{"1 1", -EINVAL, 1, 3},
	{"{} x", -EINVAL, 1, 4},
	{"[1]//c", -EINVAL, 1, 4},
	{"\xef\xbb\xbf{}", -EINVAL, 1, 1},
	{"{\"a\":1,\"a\":2}", -EEXIST, 1, 8},
	{"{\"a\":1,\n \"b\":2,\n \"\\u0061\":3}", -EEXIST, 3, 2},
	{"{\"\xc3\xa9\":1,\n\"\xc3\xa9\":x}", -EINVAL, 2, 5},
};

static void what_is_not_json_is_refused_with_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct json_place where = {0, 0};
		int r = parse(bad[i].text, strlen(bad[i].text), 0, &where);

		if (r != bad[i].code || where.line != bad[i].line ||
		    where.column != bad[i].column)
			fail_msg("%s: %d at %u:%u", bad[i].text, r, where.line,
				 where.column);
	}
}

static void a_nul_in_the_text_is_no_end_of_it(void **state)
{
	struct json_place where;

	(void)state;
	assert_int_equal(parse("1\0", 2, 0, &where), -EINVAL);
	assert_int_equal(parse("\0", 1, 0, &where), -EINVAL);
	assert_int_equal(parse("\"a\0\"", 4, 0, &where), -EINVAL);
}

static void only_integers_are_read_where_only_they_are_meant(void **state)
{
	static const char *const others[] = {"1.0", "1e2", "-0", "0.1",
					     "9007199254740992",
					     "-9007199254740992"};
	struct json_place where;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(parse(others[i], strlen(others[i]),
				       JSON_INTEGERS_ONLY, &where), -EINVAL);
	assert_int_equal(parse("9007199254740991", 16, JSON_INTEGERS_ONLY,
			       &where), 0);
	assert_int_equal(parse("-9007199254740991", 17, JSON_INTEGERS_ONLY,
			       &where), 0);
}

static void values_and_keys_have_the_places_of_the_text(void **state)
{
	static const char text[] = "{\n  \"a\": [1,\n 22],\n \"b\":\"x\\ty\"}";
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(TREE_MAX, 100);
	const struct json_value *root, *a, *b;

	(void)state;
	assert_int_equal(json_parse(text, strlen(text), 0, &doc, &root, NULL,
				    NULL), 0);
	a = json_get_typed(root, "a", JSON_ARRAY);
	b = json_get(root, "b");
	assert_non_null(a);
	assert_int_equal(root->n, 2);
	assert_int_equal(a->n, 2);
	assert_int_equal(a->key_line, 2);
	assert_int_equal(a->key_column, 3);
	assert_int_equal(a->column, 8);
	assert_int_equal(a->last->integer, 22);
	assert_int_equal(a->last->line, 3);
	assert_int_equal(a->last->column, 2);
	assert_string_equal(json_get_string(root, "b"), "x\ty");
	assert_int_equal(b->line, 4);
	assert_null(json_get(root, "c"));
	assert_null(json_get(a, "a"));
	assert_null(json_get_typed(root, "a", JSON_OBJECT));
	assert_null(json_get_string(root, "a"));
}

static void a_string_with_nul_is_not_a_c_string(void **state)
{
	static const char text[] = "{\"a\":\"x\\u0000y\"}";
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(TREE_MAX, 100);
	const struct json_value *root;

	(void)state;
	assert_int_equal(json_parse(text, strlen(text), 0, &doc, &root, NULL,
				    NULL), 0);
	assert_int_equal(json_get(root, "a")->len, 3);
	assert_null(json_get_string(root, "a"));
}

static void depth_is_bounded(void **state)
{
	struct json_place where;
	char text[2 * JSON_DEPTH_MAX + 3];
	size_t n = JSON_DEPTH_MAX;

	(void)state;
	memset(text, '[', n);
	memset(text + n, ']', n);
	assert_int_equal(parse(text, 2 * n, 0, &where), 0);
	n++;
	memset(text, '[', n);
	memset(text + n, ']', n);
	assert_int_equal(parse(text, 2 * n, 0, &where), -E2BIG);
	assert_int_equal(where.column, n);
}

static void number_of_values_and_memory_are_bounded(void **state)
{
	struct json_doc few = JSON_DOC_INIT(TREE_MAX, 3);
	struct json_doc small = JSON_DOC_INIT(400, 1000);
	const struct json_value *root;

	(void)state;
	assert_int_equal(json_parse("[1,2]", 5, 0, &few, &root, NULL, NULL), 0);
	json_doc_done(&few);
	assert_int_equal(json_parse("[1,2,3]", 7, 0, &few, &root, NULL, NULL),
			 -E2BIG);
	json_doc_done(&few);
	assert_int_equal(json_parse("[1,2,3]", 7, 0, &small, &root, NULL,
				    NULL), -EFBIG);
	json_doc_done(&small);
}

static void a_hundred_thousand_keys_are_read_in_good_time(void **state)
{
	AUTO_BUF struct buf text = BUF_INIT(16u << 20);
	struct json_doc doc = JSON_DOC_INIT(64u << 20, 200000);
	const struct json_value *root;

	(void)state;
	buf_add_char(&text, '{');
	for (unsigned i = 0; i < 100000; i++)
		buf_addf(&text, "%s\"key-%u\":%u", i ? ",\n" : "", i, i);
	buf_add_char(&text, '}');
	assert_int_equal(json_parse(text.data, text.len, 0, &doc, &root, NULL,
				    NULL), 0);
	assert_int_equal(root->n, 100000);
	json_doc_done(&doc);
	/* The last one is a duplicate of the first. */
	text.data[text.len - 1] = ',';
	buf_add_str(&text, "\"key-0\":1}");
	assert_int_equal(json_parse(text.data, text.len, 0, &doc, &root, NULL,
				    NULL), -EEXIST);
	json_doc_done(&doc);
}

static void every_failed_allocation_is_reported(void **state)
{
	static const char text[] = "{\"a\":[1,2,\"x\"],\"b\":{\"c\":null}}";
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		struct json_place where;
		int r;

		heap_fail_at(n++);
		r = parse(text, strlen(text), 0, &where);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_are_escaped_as_rfc_8785_says),
		cmocka_unit_test(keys_are_ordered_by_utf_16_units),
		cmocka_unit_test(a_document_of_all_kinds_has_one_form),
		cmocka_unit_test(numbers_beyond_2_to_the_53_fail),
		cmocka_unit_test(
			text_that_is_not_utf_8_fails_or_is_shown_as_bytes),
		cmocka_unit_test(a_full_buffer_comes_out_at_the_end),
		cmocka_unit_test(what_is_json_is_read),
		cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
		cmocka_unit_test(a_nul_in_the_text_is_no_end_of_it),
		cmocka_unit_test(
			only_integers_are_read_where_only_they_are_meant),
		cmocka_unit_test(values_and_keys_have_the_places_of_the_text),
		cmocka_unit_test(a_string_with_nul_is_not_a_c_string),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(number_of_values_and_memory_are_bounded),
		cmocka_unit_test(a_hundred_thousand_keys_are_read_in_good_time),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
