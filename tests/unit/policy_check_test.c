#include "unit.h"

#include "base/cleanup.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static void assert_says(const struct error *err, const char *part)
{
	if (!strstr(err->text, part))
		fail_msg("\"%s\" does not say \"%s\"", err->text, part);
}

static const struct {
	const char *path;
	bool write;
	const char *says; /* NULL: may be granted */
} grants[] = {
	{"/opt/models", false, NULL},
	{"/opt/models", true, NULL},
	{"/home/ada/src", false, NULL},
	{"/usr/share/dict", false, NULL},
	{"/tmp/x", true, NULL},
	{"/var/cache/x", false, NULL},
	{"/home/ada/.sshx", false, NULL},
	{"/", false, "too much"},
	{"/home", false, "too much"},
	{"/root", true, "too much"},
	{"/etc", false, "too much"},
	{"/tmp", false, "too much"},
	{"/home/ada", false, "is a home"},
	{"/home/ada/.ssh", false, "holds secrets"},
	{"/home/ada/.ssh/config", false, "holds secrets"},
	{"/root/.aws", false, "holds secrets"},
	{"/home/ada/.config/gcloud", false, "holds secrets"},
	{"/home/ada/.local/state/pinfold", false, "holds secrets"},
	{"/etc/shadow", false, "holds secrets"},
	{"/etc/ssl/private/x", false, "holds secrets"},
	{"/proc/1", false, "has its own"},
	{"/sys/fs/cgroup", true, "has its own"},
	{"/dev/sda", true, "has its own"},
	{"/usr/local", true, "system directory"},
	{"/etc/x", true, "system directory"},
};

static void grants_of_what_the_sandbox_keeps_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(grants); i++) {
		struct error err = {0};
		struct policy p;
		int r;

		assert_int_equal(policy_init(&p), 0);
		assert_int_equal(policy_add_path(&p, grants[i].write,
						 grants[i].path, NULL), 0);
		r = policy_check(&p, &err);
		if ((r == 0) != !grants[i].says)
			fail_msg("%s: %s", grants[i].path, err.text);
		if (grants[i].says) {
			assert_says(&err, grants[i].says);
			assert_says(&err, grants[i].path);
		}
		policy_done(&p);
	}
}

static void rules_that_can_never_take_effect_are_errors(void **state)
{
	struct error err = {0};
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_add_path(&p, false, "/opt/a/b", NULL), 0);
	assert_int_equal(strlist_add(&p.deny, "/opt/a"), 0);
	assert_int_equal(policy_check(&p, &err), -EINVAL);
	assert_says(&err, "files.read: \"/opt/a/b\" can never take effect");
	strlist_done(&p.deny);
	assert_int_equal(policy_add_env(&p, "HOME", NULL), 0);
	assert_int_equal(policy_check(&p, &err), -EINVAL);
	assert_says(&err, "env.pass: \"HOME\" can never take effect");
	policy_done(&p);

	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_set(&p, "tier", "wasm", NULL), 0);
	assert_int_equal(policy_set(&p, "nesting", "true", NULL), 0);
	assert_int_equal(policy_check(&p, &err), -EINVAL);
	assert_says(&err, "nesting");
	policy_done(&p);
}

static void the_least_tier_grows_with_every_risk(void **state)
{
	static const unsigned strength[] = {
		[TIER_CONTAINER] = 1, [TIER_GVISOR] = 2, [TIER_MICROVM] = 3};
	const char *why;

	(void)state;
	for (unsigned d = 0; d < 4; d++)
		for (unsigned c = 0; c < 3; c++)
			for (unsigned i = 0; i < 3; i++) {
				struct policy p = {
					.data = d, .code = c, .impact = i};
				unsigned s =
					strength[policy_least_tier(&p, &why)];

				assert_non_null(why);
				assert_true(s >= 1);
				p.data = d < 3 ? d + 1 : d;
				assert_true(strength[policy_least_tier(
						    &p, NULL)] >= s);
				p.data = d;
				p.code = c < 2 ? c + 1 : c;
				assert_true(strength[policy_least_tier(
						    &p, NULL)] >= s);
				p.code = c;
				p.impact = i < 2 ? i + 1 : i;
				assert_true(strength[policy_least_tier(
						    &p, NULL)] >= s);
			}
}

static void a_tier_below_the_least_or_not_there_is_refused(void **state)
{
	enum policy_tier tier;
	struct error err = {0};
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_tier_to_run(&p, &tier, &err), 0);
	assert_int_equal(tier, TIER_CONTAINER);
	p.data = DATA_SECRET;
	assert_int_equal(policy_tier_to_run(&p, &tier, &err), -EOPNOTSUPP);
	assert_says(&err, "asks for tier microvm");
	p.tier = TIER_CONTAINER;
	assert_int_equal(policy_check(&p, &err), -EINVAL);
	assert_says(&err, "tier: container is weaker than microvm");
	p.tier = TIER_MICROVM;
	assert_int_equal(policy_check(&p, &err), 0);
	assert_int_equal(policy_tier_to_run(&p, &tier, &err), -EOPNOTSUPP);
	assert_says(&err, "tier: microvm is not supported");
	policy_done(&p);
}

static const struct {
	const char *field, *ceiling, *wider, *within;
} orders[] = {
	{"classify.data", "confidential", "internal", "secret"},
	{"classify.code", "internal", "trusted", "untrusted"},
	{"classify.impact", "medium", "low", "high"},
	{"identity", "single", "range", "single"},
	{"nesting", "false", "true", "false"},
	{"tier", "gvisor", "container", "microvm"},
	{"tier", "gvisor", "auto", "wasm"},
	{"files.workspace", "overlay", "direct", "copy"},
	{"limits.cpus", "2", "2.5", "0.5"},
	{"limits.memory", "1GiB", "2GiB", "1GiB"},
	{"limits.memory", "1GiB", "none", "512MiB"},
	{"limits.memory", "1GiB", "half", "512MiB"},
	{"limits.memory", "half", "512MiB", "half"},
	{"limits.disk", "1GiB", "1025MiB", "1MiB"},
	{"limits.processes", "100", "101", "1"},
	{"limits.open_files", "100", "101", "16"},
	{"limits.wall", "1h", "none", "59m"},
	{"limits.enforce", "hard", "best", "hard"},
};

static void each_field_compares_with_a_ceiling(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct error err = {0};
		struct policy p, ceiling;

		assert_int_equal(policy_init(&p), 0);
		assert_int_equal(policy_init(&ceiling), 0);
		assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
		assert_int_equal(policy_set(&ceiling, orders[i].field,
					    orders[i].ceiling, NULL), 0);
		assert_int_equal(policy_set(&p, orders[i].field,
					    orders[i].wider, NULL), 0);
		if (policy_check_ceiling(&p, &ceiling, &err) != -EPERM)
			fail_msg("%s: %s is within %s", orders[i].field,
				 orders[i].wider, orders[i].ceiling);
		assert_says(&err, orders[i].field);
		assert_int_equal(policy_set(&p, orders[i].field,
					    orders[i].within, NULL), 0);
		if (policy_check_ceiling(&p, &ceiling, &err) != 0)
			fail_msg("%s: %s is not within %s: %s",
				 orders[i].field, orders[i].within,
				 orders[i].ceiling, err.text);
		policy_done(&p);
		policy_done(&ceiling);
	}
}

static void lists_compare_with_a_ceiling_entry_by_entry(void **state)
{
	struct error err = {0};
	struct policy p, ceiling;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_init(&ceiling), 0);
	assert_int_equal(policy_add_path(&ceiling, false, "/opt", NULL), 0);
	assert_int_equal(policy_add_path(&p, false, "/opt/x", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	/* Not stated by the ceiling: as one likes. */
	assert_int_equal(policy_add_path(&p, true, "/srv/x", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	assert_int_equal(policy_add_path(&ceiling, true, "/data", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), -EPERM);
	assert_says(&err, "files.write: \"/srv/x\"");
	strlist_done(&p.write);
	/* What may be written may be read. */
	assert_int_equal(policy_add_path(&p, false, "/data/x", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	assert_int_equal(policy_add_path(&p, false, "/optional", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), -EPERM);
	assert_says(&err, "files.read: \"/optional\"");
	strlist_done(&p.read);
	assert_int_equal(strlist_add(&ceiling.deny, "/opt/secret"), 0);
	ceiling.given |= field_mask("files.deny");
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), -EPERM);
	assert_says(&err, "\"/opt/secret\"");
	assert_int_equal(strlist_add(&p.deny, "/opt"), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	/* Relative ones, of one letter too. */
	assert_int_equal(strlist_add(&ceiling.deny, "x/y"), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), -EPERM);
	assert_int_equal(strlist_add(&p.deny, "x"), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	assert_int_equal(strlist_add(&ceiling.protect, "ci/**"), 0);
	ceiling.given |= field_mask("files.protect");
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), -EPERM);
	assert_says(&err, "the protection of \"ci/**\" is missing");
	assert_int_equal(strlist_add(&p.protect, "ci"), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	/* "/" in a ceiling is any path. */
	assert_int_equal(policy_add_path(&ceiling, false, "/", NULL), 0);
	assert_int_equal(policy_add_path(&p, false, "/any/path", NULL), 0);
	assert_int_equal(policy_check_ceiling(&p, &ceiling, &err), 0);
	policy_done(&p);
	policy_done(&ceiling);
}

static void defaults_are_lowered_to_a_ceiling_and_words_are_not(void **state)
{
	struct error err = {0};
	struct policy p, ceiling;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_init(&ceiling), 0);
	assert_int_equal(policy_set_limit(&ceiling, "memory=2GiB", NULL), 0);
	assert_int_equal(policy_set_limit(&ceiling, "processes=100", NULL), 0);
	assert_int_equal(policy_set(&ceiling, "files.toolchains", "off", NULL),
			 0);
	assert_int_equal(policy_set(&ceiling, "classify.data", "confidential",
				    NULL), 0);
	assert_int_equal(strlist_add(&ceiling.deny, ".env"), 0);
	assert_int_equal(strlist_add(&ceiling.protect, "ci/**"), 0);
	ceiling.given |= field_mask("files.deny") | field_mask("env.pass");
	strlist_done(&ceiling.env_pass);
	assert_int_equal(strlist_add(&ceiling.env_pass, "LANG"), 0);
	assert_int_equal(policy_apply_ceiling(&p, &ceiling, 64 * GIB, &err),
			 0);
	assert_int_equal(p.limits.memory, 2 * GIB);
	assert_int_equal(p.limits.processes, 100);
	assert_int_equal(p.toolchains, TOOLCHAINS_OFF);
	assert_int_equal(p.data, DATA_CONFIDENTIAL);
	assert_true(strlist_has(&p.deny, ".env"));
	assert_true(strlist_has(&p.protect, "ci/**"));
	assert_int_equal(p.env_pass.n, 1);
	/* Stated, it is an error. */
	assert_int_equal(policy_set_limit(&p, "processes=101", NULL), 0);
	assert_int_equal(policy_apply_ceiling(&p, &ceiling, 64 * GIB, &err),
			 -EPERM);
	assert_says(&err, "limits.processes: 101 permits more than 100");
	assert_int_equal(policy_set_limit(&p, "processes=9", NULL), 0);
	assert_int_equal(policy_set(&p, "files.toolchains", "auto", NULL), 0);
	assert_int_equal(policy_apply_ceiling(&p, &ceiling, 64 * GIB, &err),
			 -EPERM);
	assert_says(&err, "files.toolchains: auto permits more than off");
	policy_done(&p);
	policy_done(&ceiling);
}

static void half_of_the_memory_is_compared_by_the_machine(void **state)
{
	static const struct {
		const char *mine, *ceiling;
		uint64_t machine, result; /* 0: refused */
	} cases[] = {
		{NULL, "4GiB", 2 * GIB, LIMIT_HALF},
		{NULL, "4GiB", 16 * GIB, 4 * GIB},
		{"half", "4GiB", 16 * GIB, 1},
		{"half", "4GiB", 2 * GIB, LIMIT_HALF},
		{"512MiB", "half", 2 * GIB, 512 * MIB},
		{"2GiB", "half", 2 * GIB, 1},
		{NULL, "half", 2 * GIB, LIMIT_HALF},
		{"none", "half", 2 * GIB, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct policy p, ceiling;
		int r;

		assert_int_equal(policy_init(&p), 0);
		assert_int_equal(policy_init(&ceiling), 0);
		if (cases[i].mine)
			assert_int_equal(policy_set(&p, "limits.memory",
						    cases[i].mine, NULL), 0);
		assert_int_equal(policy_set(&ceiling, "limits.memory",
					    cases[i].ceiling, NULL), 0);
		r = policy_apply_ceiling(&p, &ceiling, cases[i].machine, NULL);
		if (cases[i].result == 1) {
			assert_int_equal(r, -EPERM);
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(p.limits.memory, cases[i].result);
		}
		policy_done(&p);
		policy_done(&ceiling);
	}
}

static void what_is_sealed_is_not_raised_by_words(void **state)
{
	struct error err = {0};
	struct policy p, base;

	(void)state;
	assert_int_equal(policy_init(&base), 0);
	base.sealed = field_mask("limits");
	assert_int_equal(policy_copy(&p, &base), 0);
	assert_int_equal(policy_set_limit(&p, "processes=10", NULL), 0);
	assert_int_equal(policy_add_path(&p, false, "/opt/x", NULL), 0);
	assert_int_equal(policy_check_sealed(&p, &base, &err), 0);
	assert_int_equal(policy_set_limit(&p, "processes=10000", NULL), 0);
	assert_int_equal(policy_check_sealed(&p, &base, &err), -EPERM);
	assert_says(&err, "limits.processes: 10000 permits more than 4096");
	policy_done(&p);
	policy_done(&base);
}

static void warnings_name_what_is_worth_a_word(void **state)
{
	struct strlist warnings = {0};
	struct policy p;

	(void)state;
	assert_int_equal(policy_init(&p), 0);
	assert_int_equal(policy_warnings(&p, &warnings), 0);
	assert_int_equal(warnings.n, 0);
	assert_int_equal(policy_add_env(&p, "GITHUB_TOKEN", NULL), 0);
	assert_int_equal(policy_add_env(&p, "DB_PASSWORD=hunter2", NULL), 0);
	assert_int_equal(policy_set(&p, "nesting", "true", NULL), 0);
	assert_int_equal(policy_add_path(&p, false, "/opt", NULL), 0);
	assert_int_equal(policy_add_path(&p, false, "/opt/x", NULL), 0);
	assert_int_equal(policy_warnings(&p, &warnings), 0);
	assert_int_equal(warnings.n, 4);
	assert_non_null(strstr(warnings.items[0], "\"/opt/x\" is granted"));
	assert_non_null(strstr(warnings.items[1], "GITHUB_TOKEN"));
	assert_non_null(strstr(warnings.items[2], "DB_PASSWORD"));
	assert_null(strstr(warnings.items[2], "hunter2"));
	strlist_done(&warnings);
	policy_done(&p);
}

static void presets_are_known_by_name(void **state)
{
	struct error err = {0};
	struct policy p;

	(void)state;
	assert_int_equal(policy_preset("offline", &p, &err), 0);
	policy_done(&p);
	assert_int_equal(policy_preset("python-dev", &p, &err), -EOPNOTSUPP);
	assert_says(&err, "preset 'python-dev' needs network rules");
	assert_int_equal(policy_preset("ofline", &p, &err), -ENOENT);
	assert_says(&err, "did you mean offline?");
	assert_int_equal(policy_preset("", &p, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_of_what_the_sandbox_keeps_are_refused),
		cmocka_unit_test(rules_that_can_never_take_effect_are_errors),
		cmocka_unit_test(the_least_tier_grows_with_every_risk),
		cmocka_unit_test(
			a_tier_below_the_least_or_not_there_is_refused),
		cmocka_unit_test(each_field_compares_with_a_ceiling),
		cmocka_unit_test(lists_compare_with_a_ceiling_entry_by_entry),
		cmocka_unit_test(
			defaults_are_lowered_to_a_ceiling_and_words_are_not),
		cmocka_unit_test(half_of_the_memory_is_compared_by_the_machine),
		cmocka_unit_test(what_is_sealed_is_not_raised_by_words),
		cmocka_unit_test(warnings_name_what_is_worth_a_word),
		cmocka_unit_test(presets_are_known_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
