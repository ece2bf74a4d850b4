#include "unit.h"

#include "base/cleanup.h"
#include "policy/compile.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

static const char built_in[] =
	"{\"classify\":{\"code\":\"untrusted\",\"data\":\"internal\","
	"\"impact\":\"medium\"},\"env\":{\"git_author\":true,\"pass\":[\"COLORTERM\",\"LANG\","
	"\"LANGUAGE\",\"LC_ALL\",\"LC_COLLATE\",\"LC_CTYPE\",\"LC_MESSAGES\","
	"\"LC_NUMERIC\",\"LC_TIME\",\"NO_COLOR\",\"TERM\",\"TZ\"],\"set\":{}},"
	"\"files\":{\"agents\":[],\"deny\":[],\"protect\":[],\"read\":[],"
	"\"sockets\":[],\"toolchains\":\"auto\",\"workspace\":{\"mode\":\"auto\"},"
	"\"write\":[]},\"identity\":\"single\",\"image\":\"host\","
	"\"limits\":{\"cpu_time\":\"none\",\"cpus\":\"none\","
	"\"disk\":\"10GiB\",\"enforce\":\"best\",\"idle\":\"none\","
	"\"inodes\":1000000,\"memory\":\"half\",\"open_files\":4096,"
	"\"output\":\"none\",\"processes\":4096,\"wall\":\"none\"},"
	"\"nesting\":false,\"tier\":\"auto\",\"version\":1}";

static void assert_says(const struct error *err, const char *part)
{
	if (!strstr(err->text, part))
		fail_msg("\"%s\" does not say \"%s\"", err->text, part);
}

static void the_table_is_sorted_and_complete(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		assert_non_null(f->help);
		if (i > 0)
			assert_true(strcmp(f[-1].name, f->name) < 0);
		if (f->type != FIELD_REFUSED && f->type != FIELD_SECTION)
			assert_non_null(f->example);
		if (strchr(f->name, '.')) {
			AUTO_FREE char *section = strdup(f->name);

			*strrchr(section, '.') = '\0';
			assert_non_null(field_find(section));
			assert_int_equal(field_find(section)->type,
					 FIELD_SECTION);
		}
	}
}

static void each_default_and_bound_is_read_back_from_its_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];
		const uint64_t values[] = {f->fallback, f->min, f->max};
		size_t n = f->max > 0 ? 3 : 1;

		for (size_t k = 0; field_is_scalar(f) && k < n; k++) {
			AUTO_BUF struct buf text = BUF_INIT(100);
			struct error err = {0};
			uint64_t back = 1234;

			assert_int_equal(field_format(f, values[k], &text), 0);
			assert_int_equal(field_parse(f, text.data, &back, &err),
					 0);
			assert_int_equal(back, values[k]);
		}
	}
}

static void the_built_in_policy_has_this_snapshot(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	char digest[SHA256_HEX_SIZE], expected[SHA256_HEX_SIZE];
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_to_json(&p, &json), 0);
	assert_string_equal(json.data, built_in);
	assert_int_equal(policy_digest(&p, digest), 0);
	sha256_hex(built_in, strlen(built_in), expected);
	assert_string_equal(digest, expected);
	assert_string_equal(p.name, "offline");
	assert_int_equal(p.limits.memory, LIMIT_HALF);
	assert_int_equal(p.limits.processes, 4096);
	assert_int_equal(p.limits.disk, 10 * GIB);
	assert_true(p.limits.wall_ms == LIMIT_NONE);
	assert_int_equal(policy_check(&p, NULL), 0);
	policy_done(&p);
}

/* A policy in which nothing has its default. */
static void make_full(struct policy *p)
{
	static const char *const fields[][2] = {
		{"classify.code", "trusted"}, {"classify.data", "secret"},
		{"classify.impact", "low"},   {"identity", "range"},
		{"nesting", "true"},	      {"tier", "gvisor"},
		{"files.workspace", "copy"},
	};
	static const char *const limits[] = {
		"cpus=1.255",  "memory=4GiB",	"disk=1500kB",
		"inodes=64",   "processes=none", "open_files=16",
		"output=1",    "cpu_time=1h",	"wall=1m30s",
		"idle=1500ms", "enforce=hard",
	};

	assert_int_equal(policy_init(p), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		assert_int_equal(policy_set(p, fields[i][0], fields[i][1],
					    NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		assert_int_equal(policy_set_limit(p, limits[i], NULL), 0);
	assert_int_equal(policy_add_env(p, "A1=1", NULL), 0);
	assert_int_equal(policy_add_env(p, "A=quote \" and \n line", NULL), 0);
	assert_int_equal(policy_add_env(p, "A_=", NULL), 0);
	assert_int_equal(policy_add_env(p, "Z", NULL), 0);
	assert_int_equal(policy_add_path(p, false, "/opt/b", NULL), 0);
	assert_int_equal(policy_add_path(p, false, "/opt/a", NULL), 0);
	assert_int_equal(policy_add_path(p, false, "/opt/b", NULL), 0);
	assert_int_equal(policy_add_path(p, true, "/srv/\xc3\xa9\n", NULL), 0);
	assert_int_equal(strlist_add(&p->deny, ".env"), 0);
	assert_int_equal(strlist_add(&p->protect, "**/[a-c]*.yml"), 0);
}

static void a_snapshot_is_read_back_as_the_same_policy(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	AUTO_BUF struct buf again = BUF_INIT(POLICY_TEXT_MAX);
	struct error err = {0};
	struct policy p, q;

	(void)state;
	make_full(&p);
	assert_int_equal(policy_to_json(&p, &json), 0);
	if (policy_from_json(json.data, json.len, &q, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(policy_to_json(&q, &again), 0);
	assert_string_equal(json.data, again.data);
	assert_int_equal(q.limits.cpus_milli, 1255);
	assert_int_equal(q.limits.disk, 1500000);
	assert_int_equal(q.limits.wall_ms, 90000);
	assert_int_equal(q.limits.enforce, ENFORCE_HARD);
	assert_int_equal(q.workspace, WORKSPACE_COPY);
	assert_int_equal(q.read.n, 2);
	assert_string_equal(q.read.items[0], "/opt/a");
	assert_string_equal(q.protect.items[0], "**/[a-c]*.yml");
	/* Sorted by name: "A" comes before "A1" although '=' comes after. */
	assert_string_equal(q.env_set.items[0], "A=quote \" and \n line");
	assert_string_equal(q.env_set.items[1], "A1=1");
	assert_string_equal(q.env_set.items[2], "A_=");
	assert_true(q.given == FIELD_ALL);
	policy_done(&p);
	policy_done(&q);
}

/* The built-in snapshot with one part replaced. */
static const struct {
	const char *from, *to, *says;
} damaged[] = {
	{"\"version\":1", "\"version\":2", "version"},
	{"\"version\":1", "\"version\":\"1\"", "version"},
	{",\"version\":1", "", "version is missing"},
	{"\"nesting\":false,", "", "nesting is missing"},
	{"\"image\":\"host\",", "", "image is missing"},
	{"\"inodes\":1000000,", "", "limits.inodes is missing"},
	{"\"set\":{}", "\"set\":[]", "env.set"},
	{"\"mode\":\"auto\"", "", "files.workspace.mode is missing"},
	{"{\"mode\":\"auto\"}", "\"auto\"", "files.workspace"},
	{"\"nesting\":false", "\"nesting\":\"false\"", "nesting"},
	{"\"nesting\":false", "\"nesting\":0", "nesting"},
	{"\"nesting\":false,", "\"nesting\":false,\"seal\":[],", "seal"},
	{"\"env\":", "\"entv\":{},\"env\":", "\"entv\""},
	{"\"files\":{", "\"extends\":\"offline\",\"files\":{", "extends"},
	{"\"tier\":\"auto\"", "\"tier\":\"best\"", "tier"},
	{"\"tier\":\"auto\"", "\"tier\":\"auto\",\"tier\":\"auto\"", "twice"},
	{"\"tier\":\"auto\"", "\"tier\": \"auto\"", "canonical"},
	{"\"tier\":\"auto\"", "\"tier\":\"aut\\u006f\"", "canonical"},
	{"\"10GiB\"", "\"10240MiB\"", "canonical"},
	{"\"10GiB\"", "10737418240", "canonical"},
	{"\"10GiB\"", "\"1B\"", "not between 1MiB and 1024TiB"},
	{"\"10GiB\"", "10.5", "whole number"},
	{"\"processes\":4096", "\"processes\":0", "limits.processes"},
	{"\"processes\":4096", "\"processes\":4194305", "limits.processes"},
	{"\"processes\":4096", "\"processes\":-1", "limits.processes"},
	{"\"read\":[]", "\"read\":[\"/b\",\"/a\"]", "canonical"},
	{"\"read\":[]", "\"read\":[\"/a\",\"/a\"]", "canonical"},
	{"\"read\":[]", "\"read\":[\"a\"]", "absolute"},
	{"\"read\":[]", "\"read\":[\"/a\\u0000b\"]", "NUL"},
	{"\"deny\":[]", "\"deny\":[\"/*.pem\"]", "glob"},
	{"\"protect\":[]", "\"protect\":[\"/x\"]", "relative"},
	{"\"set\":{}", "\"set\":{\"1A\":\"x\"}", "variable"},
	{"\"set\":{}", "\"set\":{\"A\":1}", "env.set"},
	{"\"LANG\"", "\"LANG=x\"", "variable"},
	{"{\"classify\"", "[{\"classify\"", "line 1"},
};

static void nothing_else_is_read_as_a_snapshot(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		const char *at = strstr(built_in, damaged[i].from);
		AUTO_FREE char *text = NULL;
		struct error err = {0};
		struct policy p;
		int r;

		assert_non_null(at);
		assert_true(asprintf(&text, "%.*s%s%s", (int)(at - built_in),
				     built_in, damaged[i].to,
				     at + strlen(damaged[i].from)) > 0);
		r = policy_from_json(text, strlen(text), &p, &err);
		if (r == 0 || !strstr(err.text, damaged[i].says))
			fail_msg("%s: %d %s", damaged[i].to, r, err.text);
	}
}

static void a_snapshot_cut_anywhere_is_refused(void **state)
{
	(void)state;
	for (size_t n = 0; n < strlen(built_in); n++) {
		struct policy p;

		assert_int_not_equal(policy_from_json(built_in, n, &p, NULL),
				     0);
	}
}

static void every_failed_allocation_of_reading_is_reported(void **state)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	struct policy full;
	size_t n = 0;
	bool failed;

	(void)state;
	make_full(&full);
	assert_int_equal(policy_to_json(&full, &json), 0);
	policy_done(&full);
	do {
		struct error err = {0};
		struct policy p;
		int r;

		heap_fail_at(n++);
		r = policy_from_json(json.data, json.len, &p, &err);
		failed = heap_restore();
		if (!failed)
			assert_int_equal(r, 0);
		/* A text for a message may fail without harm. */
		if (r == 0)
			policy_done(&p);
		else
			assert_int_equal(r, -ENOMEM);
	} while (failed);
	assert_true(n > 20);
}

static void every_failed_allocation_of_the_rest_is_reported(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		struct policy p = {0}, q = {0};
		int r;

		heap_fail_at(n++);
		r = policy_init(&p);
		if (r == 0)
			r = policy_add_env(&p, "A=b", NULL);
		if (r == 0)
			r = policy_add_path(&p, true, "/srv/x", NULL);
		if (r == 0)
			r = policy_copy(&q, &p);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		policy_done(&p);
		policy_done(&q);
	} while (failed);
}

static const struct {
	const char *limit, *says;
} bad_limits[] = {
	{"memory", "has no value"},
	{"", "has no value"},
	{"=1", "not known"},
	{"memry=1GiB", "did you mean memory?"},
	{"mem-ory=1GiB", "did you mean memory?"},
	{"xyzzy=1", "\"xyzzy\" is not known; there are cpu_time, cpus"},
	{"mem=1GiB", "did you mean memory?"},
	{"memory=", "limits.memory"},
	{"memory=1G", "expected a size such as 4GiB, half or none"},
	{"memory=-1", "limits.memory"},
	{"memory=0", "not between 4MiB and"},
	{"memory=1MiB", "not between 4MiB and"},
	{"memory=99999999TiB", "not between"},
	{"memory=99999999999999999999", "not between"},
	{"memory=010MiB", "limits.memory"},
	{"memory=1.5GiB", "limits.memory"},
	{"memory= 1GiB", "limits.memory"},
	{"disk=half", "limits.disk"},
	{"processes=0", "not between 1 and 4194304"},
	{"processes=1k", "limits.processes"},
	{"open_files=none", "limits.open_files"},
	{"wall=30", "expected a duration such as 30m or none, not \"30\" (30s, "
		    "30m or 30h?)"},
	{"wall=0s", "not between"},
	{"wall=366d", "not between"},
	{"wall=1x", "limits.wall"},
	{"idle=1ms", "not between 1s and 365d"},
	{"cpus=0", "not between"},
	{"cpus=0.001", "not between 0.01"},
	{"cpus=1.2345", "limits.cpus"},
	{"cpus=1,5", "limits.cpus"},
	{"enforce=hrd", "did you mean hard?"},
	{"\033[2J=1", "\\x1b[2J"},
};

static void bad_limits_are_refused_by_name(void **state)
{
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad_limits); i++) {
		struct error err = {0};

		assert_int_equal(policy_set_limit(&p, bad_limits[i].limit,
						  &err), -EINVAL);
		assert_says(&err, bad_limits[i].says);
	}
	assert_int_equal(p.given, 0);
	policy_done(&p);
}

static void fields_are_set_by_name_and_refused_by_name(void **state)
{
	static const struct {
		const char *field, *text, *says;
	} bad[] = {
		{"teir", "auto", "did you mean tier?"},
		{"workspace", "copy", "did you mean files.workspace?"},
		{"limit.memory", "1GiB", "did you mean limits.memory?"},
		{"tier", "conatiner", "did you mean container?"},
		{"tier", "", "expected auto, container, gvisor, microvm or "
			     "wasm"},
		{"network", "x", "not supported by this version"},
		{"files.read", "/x", "not a single value"},
		{"limits", "1", "not a single value"},
		{"version", "1", "not a single value"},
		{"nesting", "yes", "expected true or false"},
		{"", "", "not known"},
	};
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = {0};

		assert_int_equal(policy_set(&p, bad[i].field, bad[i].text,
					    &err), -EINVAL);
		assert_says(&err, bad[i].says);
	}
	assert_int_equal(policy_set(&p, "tier", "microvm", NULL), 0);
	assert_int_equal(p.tier, TIER_MICROVM);
	assert_true(p.given == field_mask("tier"));
	assert_int_equal(policy_set(&p, "limits.wall", "2m", NULL), 0);
	assert_int_equal(p.limits.wall_ms, 120000);
	policy_done(&p);
}

static void the_last_word_about_a_variable_holds(void **state)
{
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_true(strlist_has(&p.env_pass, "LANG"));
	assert_int_equal(policy_add_env(&p, "LANG=C", NULL), 0);
	assert_false(strlist_has(&p.env_pass, "LANG"));
	assert_int_equal(policy_add_env(&p, "LANG=D", NULL), 0);
	assert_int_equal(p.env_set.n, 1);
	assert_string_equal(p.env_set.items[0], "LANG=D");
	assert_int_equal(policy_add_env(&p, "LANG", NULL), 0);
	assert_int_equal(p.env_set.n, 0);
	assert_true(strlist_has(&p.env_pass, "LANG"));
	assert_int_equal(policy_add_env(&p, "X=a=b", NULL), 0);
	assert_string_equal(p.env_set.items[0], "X=a=b");
	policy_done(&p);
}

static void bad_variables_and_paths_are_refused(void **state)
{
	static const char *const names[] = {"", "=x", "1A", "A-B=1", "A B",
					    "\xc3\xa9", "A=\xff"};
	static const char *const paths[] = {"", "x", "./x", "/x/", "/x//y",
					    "/x/../y", "/./x", "~/x",
					    "/x\xff"};
	AUTO_FREE char *longest = malloc(5000);
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(policy_add_env(&p, names[i], NULL), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(policy_add_path(&p, false, paths[i], NULL),
				 -EINVAL);
	memset(longest, 'a', 4999);
	longest[0] = '/';
	longest[4999] = '\0';
	assert_int_equal(policy_add_path(&p, false, longest, NULL), -EINVAL);
	policy_done(&p);
}

static void questions_and_answers_are_read_back(void **state)
{
	static const char nul[] = "a\0b";
	struct policy_input in[2] = {{"x.yaml", nul, 3}, {"", "", 0}};
	struct policy_input out[POLICY_CHAIN_MAX];
	AUTO_BUF struct buf question = BUF_INIT(1000);
	AUTO_BUF struct buf json = BUF_INIT(COMPILE_ANSWER_MAX);
	struct compile_answer a = {.compiled = true}, b;
	unsigned flags;
	size_t n;

	(void)state;
	assert_int_equal(compile_question_write(&question, in, 2, 1), 0);
	assert_int_equal(compile_question_read(question.data, question.len,
					       out, &n, &flags), 0);
	assert_int_equal(n, 2);
	assert_int_equal(flags, 1);
	assert_string_equal(out[0].name, "x.yaml");
	assert_int_equal(out[0].len, 3);
	assert_memory_equal(out[0].text, nul, 4);
	for (size_t i = 0; i < question.len; i++)
		assert_int_equal(compile_question_read(question.data, i, out,
						       &n, &flags), -EPROTO);

	make_full(&a.policy);
	a.policy.sealed = field_mask("limits");
	assert_int_equal(compile_answer_write(&json, &a), 0);
	assert_int_equal(compile_answer_read(json.data, json.len, &b, NULL),
			 0);
	assert_true(b.compiled);
	assert_true(b.policy.given == a.policy.given);
	assert_true(b.policy.sealed == a.policy.sealed);
	assert_int_equal(b.policy.limits.wall_ms, 90000);
	compile_answer_done(&a);
	compile_answer_done(&b);
}

static void other_answers_are_refused(void **state)
{
	static const char *const answers[] = {
		"", "{}", "[]", "{\"need\":\"\"}", "{\"need\":1}",
		"{\"need\":\"x.yaml\",\"problems\":[\"y\"]}", "{\"problems\":[]}",
		"{\"problems\":[\"\\u001b[2J\"]}",
		"{\"problems\":[1]}", "{\"problems\":[\"a\\u0000\"]}",
		"{\"policy\":\"{}\"}",
		"{\"given\":[],\"policy\":\"{}\",\"sealed\":[]}",
		"{\"given\":[\"x\"],\"policy\":\"{}\",\"sealed\":[]}",
		"{\"need\":\"/root/.ssh/id_rsa\"}", "{\"need\":\"x.yaml\"} ",
	};

	(void)state;
	/* The last one, with a space behind it, is right. */
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct compile_answer a;
		int r = compile_answer_read(answers[i], strlen(answers[i]), &a,
					    NULL);

		if (i + 1 < ARRAY_SIZE(answers)) {
			assert_int_not_equal(r, 0);
			continue;
		}
		assert_int_equal(r, 0);
		assert_string_equal(a.need, "x.yaml");
		compile_answer_done(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_sorted_and_complete),
		cmocka_unit_test(
			each_default_and_bound_is_read_back_from_its_text),
		cmocka_unit_test(the_built_in_policy_has_this_snapshot),
		cmocka_unit_test(a_snapshot_is_read_back_as_the_same_policy),
		cmocka_unit_test(nothing_else_is_read_as_a_snapshot),
		cmocka_unit_test(a_snapshot_cut_anywhere_is_refused),
		cmocka_unit_test(
			every_failed_allocation_of_reading_is_reported),
		cmocka_unit_test(
			every_failed_allocation_of_the_rest_is_reported),
		cmocka_unit_test(bad_limits_are_refused_by_name),
		cmocka_unit_test(fields_are_set_by_name_and_refused_by_name),
		cmocka_unit_test(the_last_word_about_a_variable_holds),
		cmocka_unit_test(bad_variables_and_paths_are_refused),
		cmocka_unit_test(questions_and_answers_are_read_back),
		cmocka_unit_test(other_answers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
