#include "unit.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "policy/field.h"
#include "policy/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One text as the policy "p": 0 or the errno; problems are the caller's. */
static int load_text(const char *text, size_t len, struct policy *ret,
		     struct strlist *problems)
{
	struct policy_input in = {"p", text, len};
	char *need;
	int r = policy_load(&in, 1, 0, ret, &need, problems);

	assert_null(need);
	assert_true((r == -EINVAL) == (problems->n > 0));
	return r;
}

static struct policy load_good(const char *text)
{
	struct strlist problems = {0};
	struct policy p = {0};

	if (load_text(text, strlen(text), &p, &problems) != 0)
		fail_msg("%s: %s", text, problems.items[0]);
	return p;
}

#define V "version: 1\n"

static void every_field_has_the_value_of_the_text(void **state)
{
	struct policy p = load_good(
		V "classify: {data: public, code: trusted, impact: high}\n"
		  "tier: container\nimage: host\nidentity: range\n"
		  "nesting: true\n"
		  "files:\n  workspace: {mode: direct}\n"
		  "  read:\n    - /opt/b\n    - '/opt/a'\n    - /opt/b\n"
		  "  write: [\"/srv/\\u00e9\"]\n  deny: [.env, /opt/c/x]\n"
		  "limits:\n  cpus: 0.5\n  memory: 4GiB\n  disk: 1048576\n"
		  "  inodes: 64\n  processes: none\n  open_files: 99\n"
		  "  output: 64MiB\n  cpu_time: 1h\n  wall: 1m30s\n"
		  "  idle: 5s\n  enforce: hard\n"
		  "env:\n  pass: [A, B]\n  set: {C: \"1\", D: no, F: ''}\n"
		  "# the end\n");

	(void)state;
	assert_int_equal(p.data, DATA_PUBLIC);
	assert_int_equal(p.code, CODE_TRUSTED);
	assert_int_equal(p.impact, IMPACT_HIGH);
	assert_int_equal(p.tier, TIER_CONTAINER);
	assert_int_equal(p.identity, IDENTITY_RANGE);
	assert_true(p.nesting);
	assert_int_equal(p.workspace, WORKSPACE_DIRECT);
	assert_int_equal(p.read.n, 2);
	assert_string_equal(p.read.items[0], "/opt/a");
	assert_string_equal(p.write.items[0], "/srv/\xc3\xa9");
	assert_int_equal(p.deny.n, 2);
	assert_int_equal(p.limits.cpus_milli, 500);
	assert_int_equal(p.limits.memory, (uint64_t)4 << 30);
	assert_int_equal(p.limits.disk, 1048576);
	assert_int_equal(p.limits.inodes, 64);
	assert_true(p.limits.processes == LIMIT_NONE);
	assert_int_equal(p.limits.open_files, 99);
	assert_int_equal(p.limits.output, 64 << 20);
	assert_int_equal(p.limits.cpu_time_ms, 3600000);
	assert_int_equal(p.limits.wall_ms, 90000);
	assert_int_equal(p.limits.idle_ms, 5000);
	assert_int_equal(p.limits.enforce, ENFORCE_HARD);
	assert_int_equal(p.env_pass.n, 2);
	assert_int_equal(p.env_set.n, 3);
	assert_string_equal(p.env_set.items[1], "D=no");
	assert_string_equal(p.env_set.items[2], "F=");
	assert_string_equal(p.name, "p");
	policy_done(&p);
}

static void the_same_policy_in_other_notations_is_the_same(void **state)
{
	static const char *const texts[] = {
		V "limits:\n  wall: 30m\nfiles: {workspace: copy}\n",
		"{\"version\": 1, \"limits\": {\"wall\": \"30m\"}, "
		"\"files\": {\"workspace\": {\"mode\": \"copy\"}}}",
		"version: 1\r\nlimits: {wall: '30m'}\r\nfiles: "
		"{\"workspace\": \"copy\"}\r\n",
		"\xef\xbb\xbf--- # x\nfiles:\n  workspace:\n    mode: copy\n"
		"limits: {wall: 1800s}\nversion: 1\n...\n",
		"\t{\n\t\"version\":\t1,\n\t\"files\":{\"workspace\":\"co"
		"\\u0070y\"},\"limits\":{\"wall\":\"30m\"}\n}\n",
		"{version: 1, limits: {wall: 30m}, files: {workspace: copy}}",
	};
	char first[SHA256_HEX_SIZE], digest[SHA256_HEX_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct policy p = load_good(texts[i]);

		assert_int_equal(policy_digest(&p, i ? digest : first), 0);
		if (i > 0)
			assert_string_equal(digest, first);
		policy_done(&p);
	}
}

static void a_snapshot_is_itself_a_policy(void **state)
{
	struct policy p = load_good(V "limits: {cpus: 1.5, wall: 90s}\n"
				      "files: {read: [/opt/x]}\n"
				      "env: {set: {A: \"\\n\\u20ac\"}}\n");
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	AUTO_BUF struct buf again = BUF_INIT(POLICY_TEXT_MAX);
	struct policy q;

	(void)state;
	assert_int_equal(policy_to_json(&p, &json), 0);
	q = load_good(json.data);
	assert_int_equal(policy_to_json(&q, &again), 0);
	assert_string_equal(json.data, again.data);
	policy_done(&p);
	policy_done(&q);
}

static void presets_are_what_their_texts_say(void **state)
{
	static const char *const names[] = {"offline", "aider", "claude-code",
					    "codex", "gemini-cli", "opencode"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char digest[SHA256_HEX_SIZE], loaded[SHA256_HEX_SIZE];
		AUTO_FREE char *text = str_format(
			"version: 1\nextends: %s\n", names[i]);
		struct policy p, q = load_good(text);
		struct error err = {0};

		assert_int_equal(policy_preset(names[i], &p, &err), 0);
		assert_string_equal(p.name, names[i]);
		assert_int_equal(policy_digest(&p, digest), 0);
		assert_int_equal(policy_digest(&q, loaded), 0);
		assert_string_equal(digest, loaded);
		assert_int_equal(p.agents.n, i == 0 ? 0 : 1);
		policy_done(&p);
		policy_done(&q);
	}
}

static void the_preset_offline_is_the_built_in_policy(void **state)
{
	const char *text = preset_text("offline");
	char a[SHA256_HEX_SIZE], b[SHA256_HEX_SIZE], c[SHA256_HEX_SIZE];
	struct policy p, q, r;

	(void)state;
	assert_non_null(text);
	p = load_good(text);
	q = load_good(V "extends: offline\n");
	assert_int_equal(policy_init(&r), 0);
	assert_int_equal(policy_digest(&p, a), 0);
	assert_int_equal(policy_digest(&q, b), 0);
	assert_int_equal(policy_digest(&r, c), 0);
	assert_string_equal(a, b);
	assert_string_equal(a, c);
	assert_int_equal(q.given, 0);
	policy_done(&p);
	policy_done(&q);
	policy_done(&r);
}

/* A chain of texts; returns as policy_load. */
static int load_chain(const char *const *texts, size_t n, struct policy *ret,
		      char **need, struct strlist *problems)
{
	struct policy_input in[POLICY_CHAIN_MAX];
	static char names[POLICY_CHAIN_MAX][24];

	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "f%zu", i);
		in[i] = (struct policy_input){names[i], texts[i],
					      strlen(texts[i])};
	}
	return policy_load(in, n, 0, ret, need, problems);
}

static void a_base_is_asked_for_and_built_upon(void **state)
{
	static const char *const texts[] = {
		V "extends: ./base.yaml\nlimits: {wall: 1h}\n"
		  "files: {read: [/opt/b], workspace: copy}\n"
		  "env: {pass: [B], set: {LANG: C, Y: \"2\"}}\n",
		V "limits: {wall: 2h, processes: 10}\n"
		  "files: {read: [/opt/a], deny: [.env]}\n"
		  "env: {pass: [LANG, X], set: {B: \"1\", Y: \"1\"}}\n",
	};
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;
	char *need;

	(void)state;
	assert_int_equal(load_chain(texts, 1, &p, &need, &problems), 0);
	assert_string_equal(need, "./base.yaml");
	free(need);
	assert_int_equal(load_chain(texts, 2, &p, &need, &problems), 0);
	assert_null(need);
	assert_int_equal(p.limits.wall_ms, 3600000);
	assert_int_equal(p.limits.processes, 10);
	assert_int_equal(p.workspace, WORKSPACE_COPY);
	assert_int_equal(p.read.n, 2);
	assert_true(strlist_has(&p.deny, ".env"));
	/* What is said later of a name holds. */
	assert_int_equal(p.env_pass.n, 2);
	assert_true(strlist_has(&p.env_pass, "B"));
	assert_true(strlist_has(&p.env_pass, "X"));
	assert_int_equal(p.env_set.n, 2);
	assert_string_equal(p.env_set.items[0], "LANG=C");
	assert_string_equal(p.env_set.items[1], "Y=2");
	policy_done(&p);
}

static void what_a_base_seals_is_only_narrowed(void **state)
{
	static const struct {
		const char *top, *says; /* NULL: permitted */
	} cases[] = {
		{V "extends: ./b.yaml\nlimits: {memory: 2GiB}\n", NULL},
		{V "extends: ./b.yaml\nfiles: {read: [/opt/a/x]}\n", NULL},
		{V "extends: ./b.yaml\nfiles: {deny: [x]}\n", NULL},
		{V "extends: ./b.yaml\nenv: {pass: [A]}\n", NULL},
		{V "extends: ./b.yaml\nlimits: {memory: 4097MiB}\n",
		 "f0:3:18: limits.memory: 4097MiB permits more than 4GiB "
		 "(sealed by the policy that this one extends)"},
		{V "extends: ./b.yaml\nlimits:\n  wall: none\n  memory: none\n",
		 "f0:5:11: limits.memory"},
		{V "extends: ./b.yaml\nfiles: {read: [/opt/b]}\n",
		 "f0:3:15: files.read: \"/opt/b\" is not permitted"},
		{V "extends: ./b.yaml\nenv: {set: {S: \"2\"}}\n",
		 "f0:3:12: env.set: S is not permitted"},
	};
	static const char base[] =
		V "seal: [limits, files.read, env.set, files.deny]\n"
		  "limits: {memory: 4GiB}\nfiles: {read: [/opt/a]}\n"
		  "env: {set: {S: \"1\"}}\n";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_STRLIST struct strlist problems = {0};
		const char *const texts[] = {cases[i].top, base};
		struct policy p;
		char *need;
		int r = load_chain(texts, 2, &p, &need, &problems);

		if (!cases[i].says) {
			if (r != 0)
				fail_msg("%s", problems.items[0]);
			assert_true(p.sealed & field_mask("limits.wall"));
			policy_done(&p);
			continue;
		}
		assert_int_equal(r, -EINVAL);
		if (!str_starts(problems.items[0], cases[i].says))
			fail_msg("%s", problems.items[0]);
	}
}

static void faults_of_a_base_are_named_by_its_file(void **state)
{
	static const char *const texts[] = {
		V "extends: ./b.yaml\nteir: auto\n", V "nesting: 1\n"};
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;
	char *need;

	(void)state;
	assert_int_equal(load_chain(texts, 2, &p, &need, &problems), -EINVAL);
	assert_int_equal(problems.n, 2);
	assert_true(str_starts(problems.items[0], "f1:2:10: nesting"));
	assert_true(str_starts(problems.items[1], "f0:3:1: unknown"));
}

static void a_chain_has_eight_links_at_most(void **state)
{
	const char *texts[POLICY_CHAIN_MAX];
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;
	char *need;

	(void)state;
	for (size_t i = 0; i < POLICY_CHAIN_MAX; i++)
		texts[i] = V "extends: ./next.yaml\n";
	assert_int_equal(load_chain(texts, 7, &p, &need, &problems), 0);
	assert_string_equal(need, "./next.yaml");
	free(need);
	assert_int_equal(load_chain(texts, 8, &p, &need, &problems), -EINVAL);
	assert_non_null(strstr(problems.items[0], "more than 8"));
	strlist_done(&problems);
	texts[7] = V;
	assert_int_equal(load_chain(texts, 8, &p, &need, &problems), 0);
	policy_done(&p);
}

static void a_ceiling_may_be_as_broad_as_it_likes(void **state)
{
	static const char text[] = V "files: {read: [/home], deny: [/home/x]}\n";
	struct policy_input in = {"c", text, sizeof(text) - 1};
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;
	char *need;

	(void)state;
	assert_int_equal(policy_load(&in, 1, POLICY_LOAD_CEILING, &p, &need,
				     &problems), 0);
	assert_true(p.given == (field_mask("files.read") |
				field_mask("files.deny")));
	policy_done(&p);
	assert_int_equal(policy_load(&in, 1, 0, &p, &need, &problems),
			 -EINVAL);
}

static void assert_refused(const struct buf *text, const char *says)
{
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;

	assert_int_equal(text->failed, 0);
	assert_int_equal(load_text(text->data, text->len, &p, &problems),
			 -EINVAL);
	if (!strstr(problems.items[0], says))
		fail_msg("%s", problems.items[0]);
}

static void what_is_too_much_is_refused(void **state)
{
	AUTO_BUF struct buf text = BUF_INIT(16u << 20);

	(void)state;
	/* Ten megabytes are not even looked at. */
	while (text.len < 10000000)
		buf_add_str(&text, "# 3456789 123456789 123456789\n");
	assert_refused(&text, "p:1:1: larger than 1 MiB");
	buf_reset(&text);
	buf_add_str(&text, V "files: ");
	for (int i = 0; i < 100000; i++)
		buf_add_char(&text, '[');
	assert_refused(&text, "nested too deeply");
	buf_reset(&text);
	buf_add_str(&text, V "files: ");
	for (int i = 0; i < 1000; i++)
		buf_add_str(&text, "{a: ");
	assert_refused(&text, "nested too deeply");
	buf_reset(&text);
	buf_add_str(&text, V "files:\n  ");
	for (int i = 0; i < 100000; i++)
		buf_add_str(&text, "- ");
	assert_refused(&text, "nested too deeply");
	buf_reset(&text);
	buf_add_str(&text, "{\"version\":1,\"files\":");
	for (int i = 0; i < 100000; i++)
		buf_add_char(&text, '[');
	assert_refused(&text, "nested too deeply");
}

static void a_hundred_thousand_entries_are_refused(void **state)
{
	AUTO_BUF struct buf text = BUF_INIT(16u << 20);

	(void)state;
	buf_add_str(&text, V "env:\n set:\n");
	for (int i = 0; i < 5000; i++)
		buf_addf(&text, "  A%d: x\n", i);
	assert_refused(&text, "p:4:3: env.set: more than 4096 entries");
	buf_reset(&text);
	buf_add_str(&text, V);
	for (int i = 0; i < 100000; i++)
		buf_addf(&text, "%05x:\n", i + 0xa0000);
	assert_refused(&text, "too many values");
	buf_reset(&text);
	buf_add_str(&text, V "files:\n read:\n");
	for (int i = 0; i < 4097; i++)
		buf_addf(&text, "  - /opt/%d\n", i);
	assert_refused(&text, "files.read: more than 4096 entries");
}

static void a_nul_or_a_long_scalar_is_no_way_around(void **state)
{
	static const char nul[] = V "tier: auto\0tier: x\n";
	AUTO_STRLIST struct strlist problems = {0};
	AUTO_BUF struct buf text = BUF_INIT(2u << 20);
	struct policy p;

	(void)state;
	assert_int_equal(load_text(nul, sizeof(nul) - 1, &p, &problems),
			 -EINVAL);
	assert_string_equal(problems.items[0], "p:2:11: a NUL character");
	buf_add_str(&text, V "tier: ");
	for (int i = 0; i < 100000; i++)
		buf_add_str(&text, "\033[2J");
	assert_refused(&text, "");
	buf_reset(&text);
	buf_add_str(&text, V "tier: \"");
	for (int i = 0; i < 100000; i++)
		buf_add_str(&text, "\\e[2J");
	buf_add_str(&text, "\"\n");
	assert_refused(&text, "\\x1b[2J");
}

static void every_failed_allocation_is_reported(void **state)
{
	static const char *const texts[] = {
		V "extends: ./b.yaml\nfiles: {read: [/opt/a], deny: [b]}\n"
		  "env: {pass: [A], set: {B: x}}\nlimits: {wall: 1h}\n",
		V "extends: offline\nseal: [limits]\n"};
	size_t n = 0;
	bool failed;

	(void)state;
	do {
		AUTO_STRLIST struct strlist problems = {0};
		struct policy p;
		char *need;
		int r;

		heap_fail_at(n++);
		r = load_chain(texts, 2, &p, &need, &problems);
		failed = heap_restore();
		if (r != 0 && (!failed || r != -ENOMEM))
			fail_msg("%zu: %d %s", n, r, problems.n ? problems.items[0] : "");
		assert_null(need);
		if (r == 0)
			policy_done(&p);
	} while (failed);
	assert_true(n > 50);
}

static void the_schema_in_the_tree_is_current(void **state)
{
	const char *top = getenv("PINFOLD_TOP");
	AUTO_BUF struct buf now = BUF_INIT(1u << 20);
	AUTO_BUF struct buf file = BUF_INIT(1u << 20);
	AUTO_FREE char *path = NULL;

	(void)state;
	if (!top)
		skip();
	assert_true(asprintf(&path, "%s/schema/policy.json", top) > 0);
	assert_int_equal(policy_write_schema(&now), 0);
	assert_int_equal(io_read_file(AT_FDCWD, path, &file), 0);
	assert_string_equal(now.data, file.data);
}

static void the_manual_names_every_field(void **state)
{
	AUTO_BUF struct buf page = BUF_INIT(1u << 20);

	(void)state;
	assert_int_equal(policy_write_manual(&page), 0);
	for (size_t i = 0; i < n_policy_fields; i++) {
		AUTO_FREE char *item = NULL;

		assert_true(asprintf(&item, "\n.TP\n.B %s\n",
				     policy_fields[i].name) > 0);
		assert_non_null(strstr(page.data, item));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_has_the_value_of_the_text),
		cmocka_unit_test(
			the_same_policy_in_other_notations_is_the_same),
		cmocka_unit_test(a_snapshot_is_itself_a_policy),
		cmocka_unit_test(presets_are_what_their_texts_say),
		cmocka_unit_test(the_preset_offline_is_the_built_in_policy),
		cmocka_unit_test(a_base_is_asked_for_and_built_upon),
		cmocka_unit_test(what_a_base_seals_is_only_narrowed),
		cmocka_unit_test(faults_of_a_base_are_named_by_its_file),
		cmocka_unit_test(a_chain_has_eight_links_at_most),
		cmocka_unit_test(a_ceiling_may_be_as_broad_as_it_likes),
		cmocka_unit_test(what_is_too_much_is_refused),
		cmocka_unit_test(a_hundred_thousand_entries_are_refused),
		cmocka_unit_test(a_nul_or_a_long_scalar_is_no_way_around),
		cmocka_unit_test(every_failed_allocation_is_reported),
		cmocka_unit_test(the_schema_in_the_tree_is_current),
		cmocka_unit_test(the_manual_names_every_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
