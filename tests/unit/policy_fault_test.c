/*
 * A table of faults that a policy can have: each is refused at its line and
 * column with words that name it.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "policy/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define V "version: 1\n"

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
	{V "files: {sockets: [x]}\n", "2:19", "not an absolute path"},
	{V "files: {agents: [codx]}\n", "2:18", "did you mean codex?"},
	{V "files: {agents: codex}\n", "2:17", "expected a list"},
	{V "files: {toolchains: on}\n", "2:21", "expected off or auto"},
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
	{V "files: {deny: [\"/x/*.pem\"]}\n", "2:16", "relative to the source"},
	{V "files: {deny: [\"a**\"]}\n", "2:16", "no whole component"},
	{V "files: {deny: [\"a[b\"]}\n", "2:16", "never closed"},
	{V "files: {deny: [../x]}\n", "2:16", "\"..\""},
	{V "files: {protect: [/x]}\n", "2:19", "not relative to the source"},
	{V "files: {protect: [\"a**\"]}\n", "2:19", "no whole component"},
	{V "files: {protect: [\"[a\"]}\n", "2:19", "never closed"},
	{V "files: {protect: [a/../b]}\n", "2:19", "\"..\""},
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
	{V "extends: stage-1-public\n", "2:10", "needs network rules and "
	 "approvals"},
	{V "extends: ofline\n", "2:10", "did you mean offline?"},
	{V "extends: ../base\n", "2:10", "a file's name ends in .yaml, .yml "
	 "or .json"},
	{V "extends: /home/x/.ssh/id_rsa\n", "2:10", "is not known"},
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
	{V "files:\n  read: [/opt/x]\n  deny: [/opt/x/y]\n", "4:9",
	 "this version cannot hide it"},
	{V "files: {deny: [/etc/ssl]}\n", "2:15", "system directory"},
	{V "files: {deny: [/]}\n", "2:15", "would hide everything"},
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_named_with_its_place),
		cmocka_unit_test(all_faults_of_a_text_are_found_in_one_reading),
		cmocka_unit_test(a_flood_of_faults_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
