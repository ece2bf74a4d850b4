/* Whether a text of settings holds a token. */
#include "unit.h"

#include "cli/agent_table.h"

#include <string.h>

static void a_token_is_found_in_settings(void **state)
{
	static const struct {
		const char *text;
		bool holds;
	} rows[] = {
		{"", false},
		{"model = \"x\"\nmax_output_tokens = 128000000\n", false},
		{"env_key = \"OPENAI_API_KEY\"\n", false},
		{"{\"apiKey\": \"{env:OPENAI_KEY}\"}", false},
		{"{\"apiKey\": \"{file:~/.key-of-mine}\"}", false},
		{"token: $HOME_TOKEN_OF_MINE\n", false},
		{"bearer_token_env_var = \"MY_VERY_OWN_TOKEN\"\n", false},
		{"# no api key here: see the manual page\n", false},
		{"{\"token\": \"short\"}", false},
		{"{\"task-\": \"desk-and-risk-management\"}", false},
		{"GITHUB_TOKEN = \"abcdefgh12345678\"", true},
		{"{\"env\":{\"ANTHROPIC_API_KEY\":\"abcdefgh1\"}}", true},
		{"openai-api-key: abcdefgh12\n", true},
		{"{\"password\" :\n  'correct-horse'}", true},
		{"Authorization: Bearer x.y\n", true},
		{"{\"Authorization\": \"Bearer abc\"}", true},
		{"{\"Authorization\": \"Bearer ${TOKEN}\"}", false},
		{"x = sk-abcdefghijklmnopqrstuvwx", true},
		{"url = https://u:ghp_abcdefghijklmnopqrstuvwxyz@h/", true},
		{"-----BEGIN OPENSSH PRIVATE KEY-----", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (agent_holds_token(rows[i].text) != rows[i].holds)
			fail_msg("wrong about %s", rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_found_in_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
