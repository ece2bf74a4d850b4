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

/* A policy, where its first problem stands, and what is said of it. */
static const struct {
	const char *text, *place, *says;
} bad[] = {
	/* Not a document. */
	{"", "1:1", "empty"},
	{"# nothing\n", "1:1", "empty"},
	{"---\n", "2:1", "mapping of fields"},
	{"~", "1:1", "mapping of fields"},
	{"x", "1:1", "mapping of fields"},
	{"[version, 1]", "1:1", "mapping of fields"},
	{"42", "1:1", "mapping of fields"},
	{"{}", "1:1", "version is missing"},
	{"tier: auto\n", "1:1", "version is missing; write \"version: 1\""},
	/* Version. */
	{"version: 2\n", "1:10", "version: 2 is not known"},
	{"version: 0\n", "1:10", "version: 0 is not known"},
	{"version: \"1\"\n", "1:10", "expected the number 1, not \"1\""},
	{"version: 1.0\n", "1:10", "expected the number 1"},
	{"version: 01\n", "1:10", "not the number 01"},
	{"version:\n", "1:9", "not nothing"},
	{"version: one\n", "1:10", "not \"one\""},
	{"version: [1]\n", "1:10", "not a list"},
	{"Version: 1\n", "1:1", "unknown field \"Version\"; did you mean "
				"version?"},
	/* YAML that we do not take. */
	{V "tier: &a auto\n", "2:7", "anchors"},
	{V "files: &a {}\n", "2:8", "anchors"},
	{V "files: {read: &a []}\n", "2:15", "anchors"},
	{V "tier: *a\n", "2:7", "aliases"},
	{V "tier: !!str auto\n", "2:7", "tags"},
	{V "tier: !x auto\n", "2:7", "tags"},
	{V "tier: ! auto\n", "2:7", "tags"},
	{V "files: !!map {}\n", "2:8", "tags"},
	{V "env: {pass: !!seq [A]}\n", "2:13", "tags"},
	{V "<<: {tier: auto}\n", "2:1", "merge keys"},
	{V "env: {<<: {set: {}}}\n", "2:7", "merge keys"},
	{"%YAML 1.1\n---\nversion: 1\n", "1:1", "directives"},
	{"%TAG ! tag:x,2000:\n---\nversion: 1\n", "1:1", "directives"},
	{V "---\ntier: auto\n", "2:1", "one document"},
	{V "...\n---\nversion: 1\n", "3:1", "one document"},
	{V "? [a]\n: b\n", "2:3", "a key must be text"},
	{V "? {a: b}\n: c\n", "2:3", "a key must be text"},
	{V "1: b\n", "2:1", "a key must be text"},
	{V "true: b\n", "2:1", "a key must be text"},
	{V "~: b\n", "2:1", "a key is missing"},
	{V ": b\n", "2:1", ""},
	{V "env:\n\tset: {}\n", "3:1", "tab"},
	{V "tier: [auto\n", "3:1", ""},
	{V "tier: \"auto\n", "3:1", ""},
	{V "tier: auto: b\n", "2:11", ""},
	{V "tier: auto\n limits: {}\n", "3:8", ""},
	{V "tier: @x\n", "2:7", ""},
	{V "tier: `x`\n", "2:7", ""},
	{V "tier: \"\\q\"\n", "2:8", "escape"},
	{V "tier: \x01\n", "2:7", "control"},
	{V "tier: a\xff\n", "2:8", "not UTF-8"},
	{V "tier: \xc3\n", "2:7", "not UTF-8"},
	{V "# \xed\xa0\x80\n", "2:3", "not UTF-8"},
	{V "tier: auto\ntier: auto\n", "3:1", "\"tier\" occurs twice"},
	{V "limits: {wall: 1h, idle: 1m, wall: 2h}\n", "2:30",
	 "\"wall\" occurs twice"},
	{V "\"tier\": auto\ntier: auto\n", "3:1", "occurs twice"},
	{V "env: {set: {A: x, \"A\": y}}\n", "2:19", "occurs twice"},
	/* Unknown names. */
	{V "teir: auto\n", "2:1", "unknown field \"teir\"; did you mean tier?"},
	{V "xyzzy: 1\n", "2:1", "unknown field \"xyzzy\""},
	{V "limit: {}\n", "2:1", "did you mean limits?"},
	{V "limits: {memroy: 1GiB}\n", "2:10",
	 "unknown field \"memroy\" in limits; did you mean memory?"},
	{V "limits: {cpu: 2}\n", "2:10", "did you mean cpus?"},
	{V "limits: {open-file: 20}\n", "2:10", "did you mean open_files?"},
	{V "memory: 1GiB\n", "2:1", "did you mean limits.memory?"},
	{V "limits.memory: 1GiB\n", "2:1", "did you mean limits.memory?"},
	{V "files: {wirte: []}\n", "2:9", "did you mean write?"},
	{V "files: {workspace: {moed: auto}}\n", "2:21", "did you mean mode?"},
	{V "\"\\e[2J\": 1\n", "2:1", "\\x1b[2J"},
	/* Known and not supported. */
	{V "network: {allow: []}\n", "2:1", "section 'network' is not "
	 "supported by this version of pinfold; remove it"},
	{V "approvals: {}\n", "2:1", "section 'approvals'"},
	{V "audit: {}\n", "2:1", "section 'audit'"},
	{V "budget: {}\n", "2:1", "section 'budget'"},
	{V "credentials: []\n", "2:1", "section 'credentials'"},
	{V "flow: []\n", "2:1", "section 'flow'"},
	{V "promote: {}\n", "2:1", "section 'promote'"},
	{V "system: writable\n", "2:1", "section 'system'"},
	{V "tools: {}\n", "2:1", "section 'tools'"},
	{V "verify: []\n", "2:1", "section 'verify'"},
	{V "files: {label: internal}\n", "2:9", "field 'files.label'"},
	{V "files: {protect: []}\n", "2:9", "field 'files.protect'"},
	{V "files: {sockets: []}\n", "2:9", "field 'files.sockets'"},
	{V "files: {toolchains: auto}\n", "2:9", "field 'files.toolchains'"},
	{V "files: {workspace: {mode: auto, label: x}}\n", "2:33",
	 "field 'files.workspace.label'"},
	{V "image: debian@sha256:00\n", "2:8", "only host is"},
	{V "image: [host]\n", "2:8", "image: a list is not supported"},
	/* Types. */
	{V "tier: 1\n", "2:7", "not the number 1"},
	{V "tier: [auto]\n", "2:7", "not a list"},
	{V "tier:\n", "2:6", "not nothing"},
	{V "tier: automatic\n", "2:7", "expected auto, container"},
	{V "tier: Auto\n", "2:7", "did you mean auto?"},
	{V "nesting: yes\n", "2:10", "expected true or false, not \"yes\""},
	{V "nesting: on\n", "2:10", "expected true or false"},
	{V "nesting: True\n", "2:10", "expected true or false"},
	{V "nesting: \"true\"\n", "2:10", "expected true or false"},
	{V "nesting: 1\n", "2:10", "expected true or false"},
	{V "identity: root\n", "2:11", "expected single or range"},
	{V "classify: internal\n", "2:11", "expected a mapping"},
	{V "classify: {data: top-secret}\n", "2:18", "classify.data"},
	{V "classify: {code: false}\n", "2:18", "not false"},
	{V "files: []\n", "2:8", "files: expected a mapping"},
	{V "files: {workspace: fast}\n", "2:20", "files.workspace.mode"},
	{V "files: {workspace: [auto]}\n", "2:20", "not a list"},
	{V "files: {read: /opt}\n", "2:15", "expected a list"},
	{V "files: {read: {/opt: x}}\n", "2:15", "expected a list"},
	{V "files: {read: [1]}\n", "2:16", "put it in quotes"},
	{V "files: {read: [/a, ]}\nx: y\n", "3:1", "unknown field"},
	{V "files: {read: [~]}\n", "2:16", "not nothing"},
	{V "files: {read: [~/x]}\n", "2:16", "not expanded"},
	{V "files: {read: [opt]}\n", "2:16", "not an absolute path"},
	{V "files: {read: [/opt/]}\n", "2:16", "slash at its end"},
	{V "files: {read: [/opt/../etc]}\n", "2:16", "\"..\""},
	{V "files: {read: [\"\"]}\n", "2:16", "empty"},
	{V "files: {read: [\"/a\\0b\"]}\n", "2:16", "NUL"},
	{V "files: {deny: [\"**/*.pem\"]}\n", "2:16",
	 "globs in files.deny are not supported by this version"},
	{V "files: {deny: [a?]}\n", "2:16", "glob"},
	{V "files: {deny: [\"a[b]\"]}\n", "2:16", "glob"},
	{V "files: {deny: [../x]}\n", "2:16", "\"..\""},
	{V "limits: 5\n", "2:9", "limits: expected a mapping"},
	{V "limits: {memory: 4G}\n", "2:18", "expected a size such as 4GiB"},
	{V "limits: {memory: 4gib}\n", "2:18", "expected a size"},
	{V "limits: {memory: 1}\n", "2:18", "not between 4MiB"},
	{V "limits: {memory: -1}\n", "2:18", "expected a size"},
	{V "limits: {memory: 4.5GiB}\n", "2:18", "expected a size"},
	{V "limits: {memory: 1e9}\n", "2:18", "not the number 1e9"},
	{V "limits: {memory: 0x10000000}\n", "2:18", "not the number"},
	{V "limits: {memory: }\n", "2:18", "not nothing"},
	{V "limits: {memory: true}\n", "2:18", "not true"},
	{V "limits: {memory: quarter}\n", "2:18", "half or none"},
	{V "limits: {processes: 256.0}\n", "2:21", "not the number 256.0"},
	{V "limits: {processes: 0256}\n", "2:21", "not the number 0256"},
	{V "limits: {processes: 1_000}\n", "2:21", "not the number 1_000"},
	{V "limits: {processes: \"256\"}\n", "2:21", "not \"256\""},
	{V "limits: {processes: 0}\n", "2:21", "not between 1 and 4194304"},
	{V "limits: {open_files: none}\n", "2:22", "open_files"},
	{V "limits: {wall: 30}\n", "2:16", "give a unit"},
	{V "limits: {wall: 30 m}\n", "2:16", "expected a duration"},
	{V "limits: {wall: 1h30}\n", "2:16", "expected a duration"},
	{V "limits: {wall: 1:30:00}\n", "2:16", "expected a duration"},
	{V "limits: {cpus: 0.0001}\n", "2:16", "limits.cpus"},
	{V "limits: {cpus: .5}\n", "2:16", "limits.cpus"},
	{V "limits: {cpus: .inf}\n", "2:16", "limits.cpus"},
	{V "limits: {enforce: soft}\n", "2:19", "expected best or hard"},
	{V "limits: {idle: 1h, wall: 30m}\n", "2:16",
	 "limits.idle: can never take effect: limits.wall ends the task after "
	 "30m"},
	{V "env: [A]\n", "2:6", "env: expected a mapping"},
	{V "env: {pass: LANG}\n", "2:13", "expected a list"},
	{V "env: {pass: [\"A=b\"]}\n", "2:14", "not the name of a variable"},
	{V "env: {pass: [1]}\n", "2:14", "put it in quotes"},
	{V "env: {pass: [LC_*]}\n", "2:14", "not the name of a variable"},
	{V "env: {pass: [HOME]}\n", "2:13", "can never take effect"},
	{V "env: {set: [A]}\n", "2:12", "expected a mapping"},
	{V "env: {set: {A: 1}}\n", "2:16", "put it in quotes"},
	{V "env: {set: {A: 1.10}}\n", "2:16", "put it in quotes"},
	{V "env: {set: {A: true}}\n", "2:16", "put it in quotes"},
	{V "env: {set: {A: }}\n", "2:16", "not nothing; write \"\""},
	{V "env: {set: {A: [x]}}\n", "2:16", "not a list"},
	{V "env: {set: {\"A-B\": x}}\n", "2:13", "not the name"},
	{V "env: {set: {A: \"x\\0\"}}\n", "2:16", "NUL"},
	{V "env: {pass: [A, B], set: {B: \"1\"}}\n", "2:17",
	 "env.pass: B can never take effect"},
	/* extends and seal. */
	{V "extends: python-dev\n", "2:10", "preset 'python-dev' needs "
	 "network rules, which this version of pinfold does not have"},
	{V "extends: claude-code\n", "2:10", "needs network rules and "
	 "credentials"},
	{V "extends: ofline\n", "2:10", "did you mean offline?"},
	{V "extends: \"\"\n", "2:10", "expected the name of a preset"},
	{V "extends: [offline]\n", "2:10", "expected the name of a preset"},
	{V "extends: 1\n", "2:10", "expected the name of a preset"},
	{V "seal: limits\n", "2:7", "expected a list"},
	{V "seal: [limit]\n", "2:8", "did you mean limits?"},
	{V "seal: [version]\n", "2:8", "not a field that can be sealed"},
	{V "seal: [network]\n", "2:8", "not a field that can be sealed"},
	{V "seal: [\"\"]\n", "2:8", "not a field that can be sealed"},
	/* The whole. */
	{V "tier: container\nclassify: {data: secret}\n", "2:7",
	 "tier: container is weaker than microvm"},
	{V "files:\n  read: [/]\n", "3:9", "too much to grant"},
	{V "files:\n  read: [/opt/x]\n  deny: [/opt]\n", "3:9",
	 "can never take effect: files.deny hides it"},
	{V "files:\n  write: [/usr/local]\n", "3:10", "system directory"},
	{V "tier: wasm\nnesting: true\n", "3:10", "can never take effect"},
	/* JSON. */
	{"{\"version\":1,\"tier\":\"auto\",\"tier\":\"auto\"}", "1:28",
	 "occurs twice"},
	{"{\"version\":1,\n\"limits\":{\"wall\":30}}", "2:18", "give a unit"},
	{"{\"version\":1,\n\t\"teir\":\"auto\"}", "2:2", "did you mean tier?"},
	/* Line ends. */
	{"version: 1\r\nteir: auto\r\n", "2:1", "did you mean tier?"},
	{"\xef\xbb\xbfversion: 1\nteir: auto\n", "2:1", "did you mean tier?"},
	{V "env: {set: {\xc3\xa9: x}}\n", "2:13", "not the name"},
	{V "files: {read: [/\xc3\xa9, x]}\n", "2:20", "not an absolute path"},
};

static void each_fault_is_named_with_its_place(void **state)
{
	size_t failures = 0;

	(void)state;
	assert_true(ARRAY_SIZE(bad) >= 80);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_STRLIST struct strlist problems = {0};
		AUTO_FREE char *start = NULL;
		struct policy p;
		int r = load_text(bad[i].text, strlen(bad[i].text), &p,
				  &problems);

		assert_true(asprintf(&start, "p:%s: ", bad[i].place) > 0);
		if (r == -EINVAL && str_starts(problems.items[0], start) &&
		    strstr(problems.items[0], bad[i].says))
			continue;
		print_message("%s\n  want %s %s\n  have %d %s\n", bad[i].text,
			      bad[i].place, bad[i].says, r,
			      r == -EINVAL ? problems.items[0] : "");
		failures++;
	}
	assert_int_equal(failures, 0);
}

static void all_faults_of_a_text_are_found_in_one_reading(void **state)
{
	static const char text[] =
		V "teir: auto\nnetwork: {}\nlimits: {wall: 5, memory: 1G}\n"
		  "files: {read: [a, b]}\n";
	AUTO_STRLIST struct strlist problems = {0};
	struct policy p;

	(void)state;
	assert_int_equal(load_text(text, strlen(text), &p, &problems), -EINVAL);
	assert_int_equal(problems.n, 6);
	assert_true(str_starts(problems.items[0], "p:2:1: "));
	assert_true(str_starts(problems.items[1], "p:3:1: "));
	assert_true(str_starts(problems.items[2], "p:4:16: "));
	assert_true(str_starts(problems.items[3], "p:4:27: "));
	assert_true(str_starts(problems.items[4], "p:5:16: "));
	assert_true(str_starts(problems.items[5], "p:5:19: "));
}

static void a_flood_of_faults_is_cut(void **state)
{
	AUTO_STRLIST struct strlist problems = {0};
	AUTO_BUF struct buf text = BUF_INIT(1u << 20);
	struct policy p;

	(void)state;
	buf_add_str(&text, V);
	for (int i = 0; i < 1000; i++)
		buf_addf(&text, "x%d: 1\n", i);
	assert_int_equal(load_text(text.data, text.len, &p, &problems),
			 -EINVAL);
	assert_int_equal(problems.n, POLICY_PROBLEMS_MAX);
}

static void every_field_has_the_value_of_the_text(void **state)
{
	struct policy p = load_good(
		V "classify: {data: public, code: trusted, impact: high}\n"
		  "tier: container\nimage: host\nidentity: range\n"
		  "nesting: true\n"
		  "files:\n  workspace: {mode: direct}\n"
		  "  read:\n    - /opt/b\n    - '/opt/a'\n    - /opt/b\n"
		  "  write: [\"/srv/\\u00e9\"]\n  deny: [.env, /opt/a/x]\n"
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
		{V "extends: ./b\nlimits: {memory: 2GiB}\n", NULL},
		{V "extends: ./b\nfiles: {read: [/opt/a/x]}\n", NULL},
		{V "extends: ./b\nfiles: {deny: [x]}\n", NULL},
		{V "extends: ./b\nenv: {pass: [A]}\n", NULL},
		{V "extends: ./b\nlimits: {memory: 4097MiB}\n",
		 "f0:3:18: limits.memory: 4097MiB permits more than 4GiB "
		 "(sealed by the policy that this one extends)"},
		{V "extends: ./b\nlimits:\n  wall: none\n  memory: none\n",
		 "f0:5:11: limits.memory"},
		{V "extends: ./b\nfiles: {read: [/opt/b]}\n",
		 "f0:3:15: files.read: \"/opt/b\" is not permitted"},
		{V "extends: ./b\nenv: {set: {S: \"2\"}}\n",
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
		V "extends: ./b\nteir: auto\n", V "nesting: 1\n"};
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
		texts[i] = V "extends: ./next\n";
	assert_int_equal(load_chain(texts, 7, &p, &need, &problems), 0);
	assert_string_equal(need, "./next");
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
		V "extends: ./b\nfiles: {read: [/opt/a], deny: [b]}\n"
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

		assert_true(asprintf(&item, "\n.It Cm %s\n",
				     policy_fields[i].name) > 0);
		assert_non_null(strstr(page.data, item));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_named_with_its_place),
		cmocka_unit_test(all_faults_of_a_text_are_found_in_one_reading),
		cmocka_unit_test(a_flood_of_faults_is_cut),
		cmocka_unit_test(every_field_has_the_value_of_the_text),
		cmocka_unit_test(
			the_same_policy_in_other_notations_is_the_same),
		cmocka_unit_test(a_snapshot_is_itself_a_policy),
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
