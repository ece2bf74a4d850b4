#include "unit.h"

#include "base/cleanup.h"
#include "cli/help.h"
#include "cli/option.h"
#include "cli/option_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARGC_MAX 16

static struct options options;
static struct error err;

/* Parses "pinfold" and these words, NULL-terminated. */
static int parse_words(const char *const *words)
{
	static char *argv[ARGC_MAX + 1];
	static char name[] = "pinfold";
	int argc = 0;

	options_done(&options);
	memset(&err, 0, sizeof(err));
	argv[argc++] = name;
	for (; *words; words++)
		argv[argc++] = (char *)*words;
	argv[argc] = NULL;
	return options_parse(argc, argv, &options, &err);
}

#define PARSE(...) parse_words((const char *const[]){__VA_ARGS__, NULL})

static int release(void **state)
{
	(void)state;
	options_done(&options);
	return 0;
}

static void a_command_begins_at_the_first_operand(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "-n", "ls", "-l", "--json"), 0);
	assert_string_equal(options.verb, "run");
	assert_int_equal(options.n_rest, 3);
	assert_string_equal(options.rest[0], "ls");
	assert_string_equal(options.rest[2], "--json");
	assert_null(options.rest[3]);
	assert_true(options_has(&options, OPT_NO_STDIN));
	assert_false(options_has(&options, OPT_JSON));
}

static void two_dashes_end_the_options(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "--", "-n", "--"), 0);
	assert_int_equal(options.n_rest, 2);
	assert_string_equal(options.rest[0], "-n");
	assert_string_equal(options.rest[1], "--");
	assert_false(options_has(&options, OPT_NO_STDIN));
}

static void the_command_of_exec_begins_after_the_task(void **state)
{
	(void)state;
	assert_int_equal(PARSE("exec", "t-1", "--", "sh", "--", "-n"), 0);
	assert_int_equal(options.n_rest, 4);
	assert_string_equal(options.rest[0], "t-1");
	assert_string_equal(options.rest[1], "sh");
	assert_string_equal(options.rest[2], "--");
	assert_null(options.rest[4]);
	assert_int_equal(PARSE("exec", "-n", "t-1", "sh", "-n"), 0);
	assert_int_equal(options.n_rest, 3);
	assert_int_equal(options.values[OPT_NO_STDIN].n, 1);
}

static void without_a_command_options_may_follow_operands(void **state)
{
	(void)state;
	assert_int_equal(PARSE("stop", "t-1", "--grace", "2s", "t-2"), 0);
	assert_int_equal(options.n_rest, 2);
	assert_string_equal(options.rest[1], "t-2");
	assert_null(options.rest[2]);
	assert_string_equal(options_get(&options, OPT_GRACE), "2s");
}

static void values_follow_the_option_or_an_equals_sign(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "--env=A=b", "--env", "C", "--source",
			       "/s", "true"), 0);
	assert_int_equal(options.values[OPT_ENV].n, 2);
	assert_string_equal(options.values[OPT_ENV].items[0], "A=b");
	assert_string_equal(options_get(&options, OPT_ENV), "C");
	assert_string_equal(options_get(&options, OPT_SOURCE), "/s");
	assert_null(options_get(&options, OPT_POLICY));
}

static void an_optional_value_stands_behind_an_equals_sign_only(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "--json", "file"), 0);
	assert_string_equal(options_get(&options, OPT_JSON), "");
	assert_string_equal(options.rest[0], "file");
	assert_int_equal(PARSE("run", "--json=out", "true"), 0);
	assert_string_equal(options_get(&options, OPT_JSON), "out");
}

static void the_words_of_other_tools_lead_to_ours(void **state)
{
	static const char *const table[][3] = {
		{"run", "-v", "--read PATH and --write DIR"},
		{"run", "-e", "--env NAME=VALUE"},
		{"run", "--ro-bind", "--read PATH"},
		{"run", "--network=host", "no --network"},
		{"run", "-it", "-t gives a terminal"},
		{"apply", "x", "pinfold promote"},
		{"version", "x", "--version"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(PARSE(table[i][0], table[i][1]), -EINVAL);
		assert_non_null(strstr(err.text, table[i][2]));
	}
}

static void letters_may_stand_together(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "-nT", "true"), 0);
	assert_true(options_has(&options, OPT_NO_STDIN));
	assert_true(options_has(&options, OPT_NO_TTY));
	assert_int_equal(PARSE("run", "-nX", "true"), -EINVAL);
	assert_non_null(strstr(err.text, "\"-nX\""));
}

static void a_lone_dash_is_an_operand(void **state)
{
	(void)state;
	assert_int_equal(PARSE("policy", "check", "-"), 0);
	assert_string_equal(options.rest[1], "-");
}

static void wrong_words_are_named_with_a_near_one(void **state)
{
	(void)state;
	assert_int_equal(PARSE("rnu", "true"), -EINVAL);
	assert_string_equal(err.text, "unknown command \"rnu\"; did you mean "
				      "run?");
	assert_int_equal(PARSE("run", "--sorce", "x", "true"), -EINVAL);
	assert_string_equal(err.text, "run: unknown option \"--sorce\"; did "
				      "you mean --source?");
	assert_int_equal(PARSE("run", "--sorce=x", "true"), -EINVAL);
	assert_non_null(strstr(err.text, "did you mean --source?"));
	assert_int_equal(PARSE("frobnicate"), -EINVAL);
	assert_string_equal(err.text, "unknown command \"frobnicate\"; see "
				      "pinfold help");
}

static void an_option_of_another_command_is_unknown(void **state)
{
	(void)state;
	assert_int_equal(PARSE("ps", "--tty"), -EINVAL);
	assert_string_equal(err.text, "ps: unknown option \"--tty\"; see "
				      "pinfold help ps");
	assert_int_equal(PARSE("ps", "-t"), -EINVAL);
	assert_int_equal(PARSE("run", "--version"), -EINVAL);
	assert_int_equal(PARSE("--json"), -EINVAL);
}

static void no_option_may_be_shortened(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "--time", "1s", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--no", "true"), -EINVAL);
	assert_int_equal(PARSE("--", "run"), -EINVAL);
}

static void hostile_words_are_quoted_and_cut(void **state)
{
	char word[4000];

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	memcpy(word, "--\033[2J", 6);
	assert_int_equal(PARSE("run", word, "true"), -EINVAL);
	assert_null(strchr(err.text, '\033'));
	assert_true(strlen(err.text) < 200);
}

static void a_missing_or_empty_value_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "--source"), -EINVAL);
	assert_string_equal(err.text,
			    "run: --source needs a value, DIR|none");
	assert_int_equal(PARSE("run", "--source=", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--source", "", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--source", "--", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--json=", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--tty=yes", "true"), -EINVAL);
	assert_string_equal(err.text, "run: --tty takes no value");
}

static void contradictions_are_errors_in_either_order(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "-tT", "true"), -EINVAL);
	assert_string_equal(err.text,
			    "run: --tty and --no-tty exclude each other");
	assert_int_equal(PARSE("run", "-n", "-t", "true"), -EINVAL);
	assert_int_equal(PARSE("run", "-t", "-n", "true"), -EINVAL);
	assert_int_equal(PARSE("diff", "--stat", "--json"), -EINVAL);
	assert_int_equal(PARSE("run", "--policy", "a", "--policy", "b",
			       "true"), -EINVAL);
	assert_string_equal(err.text, "run: --policy is given twice");
	assert_int_equal(PARSE("run", "--limit", "wall=1s", "--limit",
			       "wall=1h", "true"), -EINVAL);
	assert_string_equal(err.text, "run: --limit wall is given twice");
	assert_int_equal(PARSE("run", "--env", "A", "--env", "A=1", "true"),
			 -EINVAL);
	assert_int_equal(PARSE("run", "--label", "a=b", "--label", "a=c",
			       "true"), -EINVAL);
	assert_int_equal(PARSE("run", "--label", "a=b", "--label", "aa=b",
			       "--label", "A=b", "true"), 0);
	assert_int_equal(PARSE("run", "-nn", "true"), 0);
}

static void operands_are_counted(void **state)
{
	(void)state;
	assert_int_equal(PARSE("run", "-n"), -EINVAL);
	assert_string_equal(err.text, "run: no command given; usage: pinfold "
				      "run [OPTION]... [--] COMMAND "
				      "[ARGUMENT]...");
	assert_int_equal(PARSE("exec", "t-1", "--"), -EINVAL);
	assert_int_equal(PARSE("ps", "t-1", "x"), -EINVAL);
	assert_string_equal(err.text, "ps: unexpected word \"x\"; see "
				      "pinfold help ps");
	assert_int_equal(PARSE("doctor", "A", "B"), 0);
	assert_int_equal(PARSE("run", "--help"), 0);
	assert_true(options_has(&options, OPT_HELP));
}

static void without_a_verb_help_and_version_are_known(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--help"), 0);
	assert_null(options.verb);
	assert_int_equal(PARSE("--version"), 0);
	assert_true(options_has(&options, OPT_VERSION));
	assert_int_equal(parse_words((const char *const[]){NULL}), 0);
	assert_null(options.verb);
	assert_int_equal(options_parse(0, NULL, &options, &err), -EINVAL);
}

static void without_memory_nothing_is_left_behind(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		int r;

		options_done(&options);
		heap_fail_at(n++);
		r = PARSE("run", "--env=A", "--env=B", "--json", "-n", "true");
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 4);
}

static void every_row_of_the_table_is_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_rows[i];

		assert_non_null(row->name);
		assert_true(strlen(row->help) > 0);
		assert_true(strlen(row->manual) > 0);
		assert_int_equal(row->argument == ARGUMENT_NONE,
				 row->metavar == NULL);
		/* Letters can stand together because none takes a value. */
		if (row->letter)
			assert_int_equal(row->argument, ARGUMENT_NONE);
	}
	for (size_t i = 0; i < n_verb_rows; i++) {
		assert_ptr_equal(verb_find(verb_rows[i].name), &verb_rows[i]);
		assert_true(strlen(verb_rows[i].manual) > 0);
		if (verb_rows[i].min_operands > 0)
			assert_non_null(verb_rows[i].missing);
	}
}

static void assert_fits_80_columns(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n > 80)
			fail_msg("%zu columns: %.*s", n, (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static void help_fits_a_terminal_and_names_every_option(void **state)
{
	AUTO_BUF struct buf all = BUF_INIT(HELP_MAX);

	(void)state;
	assert_int_equal(help_overview(&all, false), 0);
	assert_fits_80_columns(buf_str(&all));
	for (size_t i = 0; i < n_verb_rows; i++) {
		AUTO_BUF struct buf help = BUF_INIT(HELP_MAX);

		assert_non_null(strstr(buf_str(&all), verb_rows[i].name));
		assert_int_equal(help_verb(&help, &verb_rows[i], false), 0);
		assert_null(strchr(buf_str(&help), '\033'));
		assert_fits_80_columns(buf_str(&help));
		for (size_t j = 0; j < OPT_COUNT; j++) {
			char name[32] = "--";

			if (!verb_takes(&verb_rows[i], (enum option_id)j))
				continue;
			strncat(name, option_rows[j].name, 20);
			assert_non_null(strstr(buf_str(&help), name));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_begins_at_the_first_operand),
		cmocka_unit_test(two_dashes_end_the_options),
		cmocka_unit_test(the_command_of_exec_begins_after_the_task),
		cmocka_unit_test(without_a_command_options_may_follow_operands),
		cmocka_unit_test(values_follow_the_option_or_an_equals_sign),
		cmocka_unit_test(
			an_optional_value_stands_behind_an_equals_sign_only),
		cmocka_unit_test(letters_may_stand_together),
		cmocka_unit_test(a_lone_dash_is_an_operand),
		cmocka_unit_test(wrong_words_are_named_with_a_near_one),
		cmocka_unit_test(an_option_of_another_command_is_unknown),
		cmocka_unit_test(no_option_may_be_shortened),
		cmocka_unit_test(hostile_words_are_quoted_and_cut),
		cmocka_unit_test(a_missing_or_empty_value_is_an_error),
		cmocka_unit_test(contradictions_are_errors_in_either_order),
		cmocka_unit_test(operands_are_counted),
		cmocka_unit_test(without_a_verb_help_and_version_are_known),
		cmocka_unit_test(the_words_of_other_tools_lead_to_ours),
		cmocka_unit_test(without_memory_nothing_is_left_behind),
		cmocka_unit_test(every_row_of_the_table_is_whole),
		cmocka_unit_test(help_fits_a_terminal_and_names_every_option),
	};

	return cmocka_run_group_tests(tests, NULL, release);
}
