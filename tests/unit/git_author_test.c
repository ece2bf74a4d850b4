/*
 * The caller's name and mail address from git's configuration: as git itself
 * reads them.
 */
#include "unit.h"

#include "cli/git_author.h"

#include <string.h>

static struct git_author parsed(const char *text)
{
	struct git_author a = {0};

	git_author_parse(text, &a);
	return a;
}

static void name_and_address_are_read_as_git_does(void **state)
{
	static const struct {
		const char *text, *name, *email;
	} rows[] = {
		{"", "", ""},
		{"[user]\n\tname = Ada L\n\temail = a@b.c\n", "Ada L", "a@b.c"},
		{"[USER]\nName=Ada\nEMAIL=a@b", "Ada", "a@b"},
		{"[user] name = Ada\n", "Ada", ""},
		{"[user]\nname = Ada # not this\nemail = a@b ; nor this\n",
		 "Ada", "a@b"},
		{"[user]\nname = \"Ada # this\"\n", "Ada # this", ""},
		{"[user]\nname = \"  Ada \" \n", "  Ada ", ""},
		{"[user]\nname = A \\\n  B\n", "A   B", ""},
		{"[user]\nname = \\\"A\\\\B\n", "\"A\\B", ""},
		{"[user]\nname = \"a\\\\\" # b\n", "a\\", ""},
		{"[user]\r\nname = Ada\r\n", "Ada", ""},
		{"\xef\xbb\xbf[user]\nname = Ada\n", "Ada", ""},
		{"# [user]\nname = x\n", "", ""},
		{"[core]\nname = x\n[user]\nname = y\n[other]\nname = z\n",
		 "y", ""},
		{"[user \"work\"]\nname = x\n", "", ""},
		{"[a \"]\\\"\"]\nname = x\n[user]\nname = y\n", "y", ""},
		{"[user]\nname = a\nname = b\n", "b", ""},
		{"[user]\nname\nemail = a@b\n", "", "a@b"},
		{"[user]\nsigningkey = secret\nname = \xc3\x85sa\n",
		 "\xc3\x85sa", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct git_author a = parsed(rows[i].text);

		assert_string_equal(a.name, rows[i].name);
		assert_string_equal(a.email, rows[i].email);
	}
}

static void what_cannot_stand_in_a_commit_counts_as_none(void **state)
{
	char text[1024] = "[user]\nname = ";
	size_t n = strlen(text);

	(void)state;
	assert_string_equal(parsed("[user]\nname = A <b>\n").name, "");
	assert_string_equal(parsed("[user]\nname = A\\nB\n").name, "");
	assert_string_equal(parsed("[user]\nname = A\x1b[2J\n").name, "");
	assert_string_equal(parsed("[user]\nname = \xff\n").name, "");
	memset(text + n, 'x', GIT_AUTHOR_MAX);
	assert_int_equal(strlen(parsed(text).name), GIT_AUTHOR_MAX);
	text[n + GIT_AUTHOR_MAX] = 'x';
	assert_string_equal(parsed(text).name, "");
}

static void text_of_no_kind_is_read_to_its_end(void **state)
{
	static const char *const texts[] = {
		"[", "[user", "[user]", "[user]\nname", "[user]\nname =",
		"[user]\nname = \\", "[user]\nname = \"", "[user]\nname = \\\r",
		"[a \"\\", "=", "\\", "]", "[user]\n= x\n", "[user]\nname = \"\\",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_string_equal(parsed(texts[i]).name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_and_address_are_read_as_git_does),
		cmocka_unit_test(what_cannot_stand_in_a_commit_counts_as_none),
		cmocka_unit_test(text_of_no_kind_is_read_to_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
