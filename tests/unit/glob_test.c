#include "unit.h"

#include "base/glob.h"

#include <string.h>

static void patterns_go_component_by_component(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool whole, covers;
	} cases[] = {
		{"a", "a", true, true},
		{"a", "a/b", false, true},
		{"a/b", "a", false, false},
		{"*", "a/b", false, true},
		{"*", ".hidden", true, true},
		{"*.pem", "x/a.pem", false, false},
		{"**/*.pem", "a.pem", true, true},
		{"**/*.pem", "x/y/a.pem", true, true},
		{"**/*.pem", "x/y/a.pem.txt", false, false},
		{"**/*.pem", "x.pem/y", false, true},
		{"a/**", "a", true, true},
		{"a/**", "a/b/c", true, true},
		{"a/**", "ab", false, false},
		{"a/**/z", "a/z", true, true},
		{"a/**/z", "a/b/c/z", true, true},
		{"a/**/z", "a/z/y", false, true},
		{"**", "anything/at/all", true, true},
		{"**/a/**/b", "a/x/a/c/b", true, true},
		{"*a*b*c", "xxaxxbxxcxxc", true, true},
		{"*a*b*c", "xxaxxbxxcxxd", false, false},
		{"?.c", "\xc3\xa4.c", true, true},
		{"?.c", "\xff.c", true, true},
		{"[a-c]x", "bx", true, true},
		{"[!a-c]x", "bx", false, false},
		{"[^a-c]x", "dx", true, true},
		{"[]]x", "]x", true, true},
		{"[\xc3\xa4-\xc3\xb6]", "\xc3\xa5", true, true},
		{"[\\]-]", "-", true, true},
		{"\\*", "*", true, true},
		{"\\*", "a", false, false},
		{"A", "a", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (glob_match(cases[i].pattern, cases[i].path) !=
			    cases[i].whole ||
		    glob_covers(cases[i].pattern, cases[i].path) !=
			    cases[i].covers)
			fail_msg("%s and %s", cases[i].pattern, cases[i].path);
		assert_null(glob_fault(cases[i].pattern));
	}
}

static void a_path_on_the_way_to_a_pattern_is_known(void **state)
{
	(void)state;
	assert_true(glob_leads_through(".github/workflows/**", ".github"));
	assert_true(glob_leads_through("a/*/c", "a/b"));
	assert_false(glob_leads_through("a/*/c", "a/b/c"));
	assert_false(glob_leads_through("a/*/c", "b"));
	assert_false(glob_leads_through("**/c", "b"));
}

static void a_broken_pattern_is_told(void **state)
{
	static const char *const broken[] = {
		"", "/a", "a/", "a//b", "./a", "a/..", "a**", "**a/b", "[a",
		"a[b/c]", "a\\", "a\\/b",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		if (!glob_fault(broken[i]))
			fail_msg("%s", broken[i]);
	}
	assert_true(glob_is_magic("a*"));
	assert_false(glob_is_magic("a/b.c"));
}

static void no_pattern_takes_exponential_time(void **state)
{
	char pattern[4096] = "", path[4096];

	(void)state;
	for (int i = 0; i < 500; i++)
		strcat(pattern, "**/*a");
	for (int i = 0; i < 400; i++)
		strcat(strcpy(pattern + i * 5, "**/*a"), "/");
	strcat(pattern, "b");
	memset(path, 'a', sizeof(path));
	for (size_t i = 1; i < sizeof(path); i += 2)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	path[sizeof(path) - 2] = 'a';
	assert_false(glob_match(pattern, path));
	memset(pattern, 0, sizeof(pattern));
	for (int i = 0; i < 1000; i++)
		strcpy(pattern + i * 2, "*a");
	strcat(pattern, "b");
	memset(path, 'a', sizeof(path) - 1);
	assert_false(glob_match(pattern, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_go_component_by_component),
		cmocka_unit_test(a_path_on_the_way_to_a_pattern_is_known),
		cmocka_unit_test(a_broken_pattern_is_told),
		cmocka_unit_test(no_pattern_takes_exponential_time),
	};

	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
