/*
 * Which policy is in force: files, options, ceiling and cache, with the real
 * compiler beside the build.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/policy_source.h"
#include "policy/field.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define V "version: 1\n"

/* A directory of its own for each test, and where things lie in it. */
struct place {
	char top[PATH_MAX];
	struct policy_files files;
	struct options options;
};

static char *below(const struct place *p, const char *name)
{
	char *path = str_format("%s/%s", p->top, name);

	assert_non_null(path);
	return path;
}

static int setup(void **state)
{
	const char *program = getenv("PINFOLD");
	const char *temp = getenv("TMPDIR");
	struct place *p = calloc(1, sizeof(*p));
	char *home;

	if (!p)
		return -1;
	snprintf(p->top, sizeof(p->top), "%s/policy-XXXXXX",
		 temp ? temp : "/tmp");
	if (!mkdtemp(p->top))
		return -1;
	home = below(p, "home");
	if (mkdir(home, 0700) < 0)
		return -1;
	p->files = (struct policy_files){
		.ceiling = below(p, "ceiling.yaml"),
		.user = below(p, "user.yaml"),
		.cache = below(p, "cache/pinfold/policy"),
		.compiler = str_format("%s-policy",
				       program ? program
					       : "build/bin/pinfold"),
		.home = home,
	};
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *command = str_format("rm -rf '%s'", p->top);
	int r = command ? system(command) : -1;

	policy_files_done(&p->files);
	options_done(&p->options);
	free(p);
	return r;
}

static void write_file(const struct place *p, const char *name,
		       const char *text)
{
	AUTO_FREE char *path = below(p, name);
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
}

static void give(struct place *p, enum option_id id, const char *value)
{
	assert_int_equal(strlist_add(&p->options.values[id], value), 0);
}

static void give_file(struct place *p, const char *name)
{
	AUTO_FREE char *path = below(p, name);

	give(p, OPT_POLICY, path);
}

static struct policy good(struct place *p)
{
	struct error err = {0};
	struct policy policy = {0};

	if (policy_in_force_from(&p->files, &p->options, &policy, &err) != 0)
		fail_msg("%s", err.text);
	return policy;
}

/* code 0: whatever the errno is. */
static void refused(struct place *p, int code, const char *says)
{
	struct error err = {0};
	struct policy policy;
	int r = policy_in_force_from(&p->files, &p->options, &policy, &err);

	if (r == 0 || (code && r != code) || !strstr(err.text, says))
		fail_msg("%d: %s", r, err.text);
}

static void without_files_the_built_in_policy_is_in_force(void **state)
{
	struct place *p = *state;
	struct policy policy = good(p), built_in;
	char a[SHA256_HEX_SIZE], b[SHA256_HEX_SIZE];

	assert_int_equal(policy_init(&built_in), 0);
	assert_int_equal(policy_digest(&policy, a), 0);
	assert_int_equal(policy_digest(&built_in, b), 0);
	assert_string_equal(a, b);
	assert_string_equal(policy.name, "offline");
	policy_done(&policy);
	policy_done(&built_in);
}

static void the_users_file_is_in_force_when_it_is_there(void **state)
{
	struct place *p = *state;
	struct policy policy;

	write_file(p, "user.yaml", V "limits: {wall: 5m}\n");
	policy = good(p);
	assert_int_equal(policy.limits.wall_ms, 300000);
	assert_string_equal(policy.name, p->files.user);
	policy_done(&policy);
	write_file(p, "user.yaml", V "limits: {wall: 5}\n");
	refused(p, -EINVAL, "user.yaml:2:16: limits.wall");
	/* A preset stands in its place. */
	give(p, OPT_PRESET, "offline");
	policy = good(p);
	assert_true(policy.limits.wall_ms == LIMIT_NONE);
	policy_done(&policy);
}

static void a_named_file_that_cannot_be_read_is_an_error(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *path = below(p, "big.yaml");
	AUTO_FREE char *fifo = below(p, "fifo");
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT, 0600);

	give_file(p, "missing.yaml");
	refused(p, -ENOENT, "missing.yaml\": No such file");
	give_file(p, "home");
	refused(p, -EISDIR, "home\": Is a directory");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	give_file(p, "fifo");
	refused(p, -EINVAL, "not a regular file");
	assert_int_equal(ftruncate(fd, 10000000), 0);
	give_file(p, "big.yaml");
	refused(p, -EFBIG, "larger than 1 MiB");
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	refused(p, -EINVAL, "big.yaml:1:1: a NUL character");
}

static void options_come_on_top_of_the_file(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *dir = below(p, "data");
	AUTO_FREE char *link = below(p, "link");
	AUTO_FREE char *real = NULL;
	struct policy policy;

	write_file(p, "p.yaml", V "limits: {wall: 5m, memory: 1GiB}\n"
				  "env: {pass: [A], set: {B: x}}\n");
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(symlink("data", link), 0);
	real = realpath(dir, NULL);
	give_file(p, "p.yaml");
	give(p, OPT_TIER, "container");
	give(p, OPT_READ, link);
	give(p, OPT_ENV, "A=1");
	give(p, OPT_ENV, "B");
	give(p, OPT_LIMIT, "memory=2GiB");
	give(p, OPT_TIMEOUT, "10s");
	give(p, OPT_WORKSPACE, "copy");
	policy = good(p);
	assert_int_equal(policy.tier, TIER_CONTAINER);
	assert_int_equal(policy.read.n, 1);
	assert_string_equal(policy.read.items[0], real);
	assert_string_equal(policy.env_set.items[0], "A=1");
	assert_int_equal(policy.env_set.n, 1);
	assert_string_equal(policy.env_pass.items[0], "B");
	assert_int_equal(policy.limits.memory, (uint64_t)2 << 30);
	assert_int_equal(policy.limits.wall_ms, 10000);
	assert_int_equal(policy.workspace, WORKSPACE_COPY);
	policy_done(&policy);
}

static void options_that_are_wrong_are_named(void **state)
{
	static const struct {
		enum option_id id;
		const char *value;
		int code;
		const char *says;
	} wrong[] = {
		{OPT_TIER, "contaner", -EINVAL, "did you mean container?"},
		{OPT_TIER, "", -EINVAL, "tier"},
		{OPT_READ, "/no/such/dir", -ENOENT,
		 "--read \"/no/such/dir\": No such file"},
		{OPT_WRITE, "/no/such", -ENOENT, "--write \"/no/such\""},
		{OPT_READ, "/", -EINVAL, "too much to grant"},
		{OPT_READ, "/proc", -EINVAL, "has its own"},
		{OPT_WRITE, "/usr", -EINVAL, "system directory"},
		{OPT_ENV, "A-B", -EINVAL, "not the name of a variable"},
		{OPT_LIMIT, "memry=1GiB", -EINVAL, "did you mean memory?"},
		{OPT_TIMEOUT, "10", -EINVAL, "--timeout: limits.wall"},
		{OPT_WORKSPACE, "cpy", -EINVAL, "did you mean copy?"},
		{OPT_PRESET, "ofline", -ENOENT, "did you mean offline?"},
		{OPT_PRESET, "python-dev", -EOPNOTSUPP, "needs network rules"},
	};
	struct place *p = *state;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		give(p, wrong[i].id, wrong[i].value);
		refused(p, wrong[i].code, wrong[i].says);
		options_done(&p->options);
	}
}

static void a_grant_that_holds_the_home_is_refused(void **state)
{
	struct place *p = *state;

	give(p, OPT_READ, p->files.home);
	refused(p, -EINVAL, "holds your home");
	options_done(&p->options);
	give(p, OPT_READ, p->top);
	refused(p, -EINVAL, "holds your home");
}

static void extends_is_found_beside_the_file_that_says_so(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *sub = below(p, "sub");
	struct policy policy;

	assert_int_equal(mkdir(sub, 0700), 0);
	write_file(p, "top.yaml", V "extends: sub/middle.yaml\n");
	write_file(p, "sub/middle.yaml",
		   V "extends: base.yaml\nlimits: {processes: 10}\n");
	write_file(p, "sub/base.yaml",
		   V "extends: offline\nlimits: {wall: 1h}\n");
	give_file(p, "top.yaml");
	policy = good(p);
	assert_int_equal(policy.limits.processes, 10);
	assert_int_equal(policy.limits.wall_ms, 3600000);
	policy_done(&policy);
	/* From the cache, a change of the last one is seen all the same. */
	write_file(p, "sub/base.yaml", V "limits: {wall: 2h}\n");
	policy = good(p);
	assert_int_equal(policy.limits.wall_ms, 7200000);
	policy_done(&policy);
	write_file(p, "sub/base.yaml", V "limits: {wall: 2}\n");
	refused(p, -EINVAL, "sub/base.yaml:2:16: limits.wall");
	write_file(p, "sub/base.yaml", V "extends: ../top.yaml\n");
	refused(p, -EINVAL, "in a circle");
	write_file(p, "sub/base.yaml", V "extends: ./base.yaml\n");
	refused(p, -EINVAL, "in a circle");
	write_file(p, "sub/base.yaml", V "extends: ./nothing.yaml\n");
	refused(p, -EINVAL, "sub/base.yaml:2:10: extends: policy");
	refused(p, -EINVAL, "sub/./nothing.yaml");
}

static void a_chain_that_is_too_long_is_refused(void **state)
{
	struct place *p = *state;

	for (int i = 0; i < 10; i++) {
		char name[32], text[64];

		snprintf(name, sizeof(name), "f%d.yaml", i);
		snprintf(text, sizeof(text), V "extends: f%d.yaml\n", i + 1);
		write_file(p, name, text);
	}
	give_file(p, "f0.yaml");
	refused(p, -EINVAL, "f7.yaml:2:10: extends: more than 8");
}

static void what_a_file_seals_the_command_line_cannot_raise(void **state)
{
	struct place *p = *state;
	struct policy policy;

	write_file(p, "p.yaml", V "limits: {memory: 1GiB}\nseal: [limits]\n");
	give_file(p, "p.yaml");
	give(p, OPT_LIMIT, "memory=512MiB");
	policy = good(p);
	assert_int_equal(policy.limits.memory, 512 << 20);
	policy_done(&policy);
	give(p, OPT_LIMIT, "memory=2GiB");
	refused(p, -EPERM, "limits.memory: 2GiB permits more than 1GiB");
}

static void the_ceiling_holds_for_all(void **state)
{
	struct place *p = *state;
	struct policy policy;

	write_file(p, "ceiling.yaml",
		   V "limits: {memory: 64MiB, processes: 100}\n"
		     "files: {read: [/usr], deny: [.env]}\nnesting: false\n");
	policy = good(p);
	assert_int_equal(policy.limits.memory, 64 << 20);
	assert_int_equal(policy.limits.processes, 100);
	assert_true(strlist_has(&policy.deny, ".env"));
	policy_done(&policy);
	give(p, OPT_LIMIT, "processes=101");
	refused(p, -EPERM, "limits.processes: 101 permits more than 100 "
			   "(the machine's ceiling)");
	options_done(&p->options);
	give(p, OPT_READ, "/opt");
	refused(p, -EPERM, "files.read: \"/opt\" is not permitted");
	options_done(&p->options);
	write_file(p, "p.yaml", V "nesting: true\n");
	give_file(p, "p.yaml");
	refused(p, -EPERM, "nesting");
}

static void a_ceiling_that_is_no_policy_refuses_everything(void **state)
{
	struct place *p = *state;

	write_file(p, "ceiling.yaml", V "limts: {}\n");
	refused(p, -EINVAL, "the machine's ceiling: ");
	refused(p, -EINVAL, "did you mean limits?");
}

/* The one entry of the cache: its path is owned by the caller. */
static char *entry_path(const struct place *p)
{
	AUTO_DIR DIR *dir = opendir(p->files.cache);
	struct dirent *e;
	char *path = NULL;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		assert_null(path);
		path = str_format("%s/%s", p->files.cache, e->d_name);
	}
	assert_non_null(path);
	return path;
}

static void read_entry(const char *path, struct buf *b)
{
	buf_reset(b);
	assert_int_equal(io_read_file(AT_FDCWD, path, b), 0);
}

static void compiled_policies_are_kept_and_found_again(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf first = BUF_INIT(1 << 20), now = BUF_INIT(1 << 20);
	struct stat before, after;
	struct policy policy;

	write_file(p, "p.yaml", V "limits: {wall: 5m}\n");
	give_file(p, "p.yaml");
	policy = good(p);
	policy_done(&policy);
	path = entry_path(p);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(before.st_mode & 07777, 0600);
	policy = good(p);
	assert_int_equal(policy.limits.wall_ms, 300000);
	policy_done(&policy);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_ino == after.st_ino);
	/* Damaged anywhere, an entry counts as missing and is replaced. */
	read_entry(path, &first);
	for (size_t at = 0; at < first.len; at += first.len / 7) {
		AUTO_CLOSE int fd = open(path, O_WRONLY);

		assert_int_equal(pwrite(fd, "\x01", 1, (off_t)at), 1);
		policy = good(p);
		assert_int_equal(policy.limits.wall_ms, 300000);
		policy_done(&policy);
		read_entry(path, &now);
		assert_string_equal(now.data, first.data);
	}
	assert_int_equal(truncate(path, 0), 0);
	policy = good(p);
	policy_done(&policy);
	read_entry(path, &now);
	assert_string_equal(now.data, first.data);
}

static void an_entry_that_others_could_have_written_is_not_read(void **state)
{
	struct place *p = *state;
	AUTO_FREE char *path = NULL;
	struct stat before, after;
	struct policy policy;

	write_file(p, "p.yaml", V "limits: {wall: 5m}\n");
	give_file(p, "p.yaml");
	policy = good(p);
	policy_done(&policy);
	path = entry_path(p);
	assert_int_equal(chmod(path, 0622), 0);
	assert_int_equal(stat(path, &before), 0);
	policy = good(p);
	policy_done(&policy);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_mode & 07777, 0600);
	assert_int_equal(chmod(p->files.cache, 0777), 0);
	policy = good(p);
	assert_int_equal(policy.limits.wall_ms, 300000);
	policy_done(&policy);
}

static void the_cache_does_not_grow_without_end(void **state)
{
	struct place *p = *state;
	AUTO_DIR DIR *dir = NULL;
	size_t n = 0;

	give_file(p, "p.yaml");
	for (int i = 1; i <= 150; i++) {
		struct policy policy;
		char text[64];

		snprintf(text, sizeof(text), V "limits: {wall: %dm}\n", i);
		write_file(p, "p.yaml", text);
		policy = good(p);
		assert_int_equal(policy.limits.wall_ms, i * 60000);
		policy_done(&policy);
	}
	dir = opendir(p->files.cache);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	assert_true(n <= 66);
}

static void without_a_compiler_files_are_refused(void **state)
{
	struct place *p = *state;
	struct policy policy = good(p);

	/* Nothing to compile: nothing is missed. */
	policy_done(&policy);
	free(p->files.compiler);
	p->files.compiler = below(p, "none");
	write_file(p, "p.yaml", V);
	give_file(p, "p.yaml");
	refused(p, 0, "cannot start");
	write_file(p, "none", "#!/bin/sh\nexit 1\n");
	refused(p, 0, "cannot start");
	assert_int_equal(chmod(p->files.compiler, 0700), 0);
	refused(p, -EIO, "pinfold-policy failed");
	write_file(p, "none", "#!/bin/sh\nkill -9 $$\n");
	refused(p, -EIO, "died of signal 9");
	write_file(p, "none", "#!/bin/sh\necho '{\"policy\":\"{}\"}'\n");
	refused(p, -EPROTO, "not an answer of pinfold-policy");
	write_file(p, "none", "#!/bin/sh\necho '{\"need\":\"p.yaml\"}'\n");
	refused(p, -ELOOP, "in a circle");
	write_file(p, "none", "#!/bin/sh\nexec cat /dev/zero\n");
	refused(p, -EFBIG, "answer of pinfold-policy");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_files_the_built_in_policy_is_in_force),
		TEST(the_users_file_is_in_force_when_it_is_there),
		TEST(a_named_file_that_cannot_be_read_is_an_error),
		TEST(options_come_on_top_of_the_file),
		TEST(options_that_are_wrong_are_named),
		TEST(a_grant_that_holds_the_home_is_refused),
		TEST(extends_is_found_beside_the_file_that_says_so),
		TEST(a_chain_that_is_too_long_is_refused),
		TEST(what_a_file_seals_the_command_line_cannot_raise),
		TEST(the_ceiling_holds_for_all),
		TEST(a_ceiling_that_is_no_policy_refuses_everything),
		TEST(compiled_policies_are_kept_and_found_again),
		TEST(an_entry_that_others_could_have_written_is_not_read),
		TEST(the_cache_does_not_grow_without_end),
		TEST(without_a_compiler_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
