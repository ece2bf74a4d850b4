/*
 * Confinement that can be tried without a sandbox: identity maps, subordinate
 * ids, Landlock rulesets, and mounts in a child with namespaces of its own.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "confine/cgroup.h"
#include "confine/ids.h"
#include "confine/landlock.h"
#include "confine/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SKIPS 77

/* Maps every id to exactly one, and back. */
static void is_a_permutation(const struct id_extent *e, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(e[i].count > 0);
		all += e[i].count;
		for (size_t j = 0; j < i; j++) {
			uint64_t a = e[i].inner, b = e[j].inner;
			uint64_t c = e[i].outer, d = e[j].outer;

			assert_true(a + e[i].count <= b || b + e[j].count <= a);
			assert_true(c + e[i].count <= d || d + e[j].count <= c);
		}
	}
	assert_int_equal(all, UINT32_MAX);
}

static uint32_t mapped(const struct id_extent *e, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++) {
		if (id >= e[i].inner && id - e[i].inner < e[i].count)
			return e[i].outer + (id - e[i].inner);
	}
	return UINT32_MAX;
}

static void two_ids_are_swapped_and_all_others_stay(void **state)
{
	static const uint32_t ids[] = {0, 1, 2, 1000, 0x70000000u,
				       UINT32_MAX - 1};
	struct id_extent e[5];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(ids); j++) {
			size_t n = ids_swap(ids[i], ids[j], e);

			assert_true(n <= 5);
			is_a_permutation(e, n);
			assert_int_equal(mapped(e, n, ids[i]), ids[j]);
			assert_int_equal(mapped(e, n, ids[j]), ids[i]);
			assert_int_equal(mapped(e, n, 500), 500);
		}
	}
}

static void subordinate(const char *text, int want, uint32_t start)
{
	char path[] = "/tmp/pinfold-subid-test.XXXXXX";
	AUTO_CLOSE int fd = mkstemp(path);
	struct error err = {0};
	struct id_extent e = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	assert_int_equal(ids_subordinate(path, "agent", 1234, &e, &err), want);
	unlink(path);
	if (want < 0)
		assert_non_null(strstr(err.text, "agent"));
	else
		assert_int_equal(e.outer, start);
}

static void subordinate_ids_are_found_by_name_or_number(void **state)
{
	(void)state;
	subordinate("other:1:2\nagent:100000:65536\n", 0, 100000);
	subordinate("1234:200000:65536\n", 0, 200000);
	subordinate("agent:300000:65536", 0, 300000);
}

static void lines_that_give_nothing_are_no_subordinate_ids(void **state)
{
	(void)state;
	subordinate("", -ENOENT, 0);
	subordinate("agents:100000:65536\n", -ENOENT, 0);
	subordinate("agent:0:65536\n", -ENOENT, 0);
	subordinate("agent:100000:0\n", -ENOENT, 0);
	subordinate("agent:4294967295:65536\n", -ENOENT, 0);
	subordinate("agent:x:65536\nagent\nagent:5\n:::\n", -ENOENT, 0);
}

static void a_granted_path_that_is_missing_is_named(void **state)
{
	const struct path_grant grant = {"/no/such/dir", PATH_READ};
	struct error err = {0};

	(void)state;
	if (landlock_abi() < 1)
		skip();
	assert_int_equal(landlock_ruleset(&grant, 1, 1, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/no/such/dir"));
}

static void a_weaker_domain_than_asked_for_is_never_made(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(landlock_ruleset(NULL, 0, 10000, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "10000"));
}

/* Runs in a child: 0, or the number of the step that was wrong. */
static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CHILD_SKIPS)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int enter_domain(void)
{
	const struct path_grant grant = {"/usr", PATH_READ | PATH_EXEC};
	AUTO_CLOSE int ruleset = -1;

	if (landlock_abi() < 1)
		return CHILD_SKIPS;
	ruleset = landlock_ruleset(&grant, 1, 1, NULL);
	if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    landlock_enter(ruleset) < 0)
		return 1;
	if (open("/usr/bin/env", O_RDONLY) < 0)
		return 2;
	if (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
		return 3;
	if (open("/tmp/pinfold-x", O_WRONLY | O_CREAT, 0600) >= 0)
		return 4;
	return 0;
}

static void a_domain_holds_what_was_not_granted_back(void **state)
{
	(void)state;
	in_child(enter_domain);
}

static int own_namespaces(void)
{
	struct id_extent u = {0, geteuid(), 1}, g = {0, getegid(), 1};

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	return ids_write_maps(0, true, &u, 1, &g, 1, NULL);
}

/* A tmpfs of one MiB with a directory and a link to "/"; -1: it is not. */
static int make_top(void)
{
	struct statfs fs;
	int fd = mount_tmpfs(1 << 20, 16, 0750, MOUNT_NOSUID | MOUNT_NODEV,
			     NULL);

	if (fd < 0 || mkdirat(fd, "place", 0755) < 0 ||
	    symlinkat("/", fd, "link") < 0 || fstatfs(fd, &fs) < 0 ||
	    fs.f_blocks * (uint64_t)fs.f_bsize != 1 << 20)
		return -1;
	return fd;
}

static int mount_in_child(void)
{
	struct error err = {0};
	int fd, at;

	if (own_namespaces() < 0)
		return CHILD_SKIPS;
	fd = make_top();
	if (fd < 0)
		return 1;
	at = mount_tmpfs(0, 0, 0755, MOUNT_RDONLY, &err);
	if (at < 0 || mount_attach_root(fd, &err) < 0)
		return 4;
	/* A link on the way is never followed. */
	if (mount_place(at, fd, "/link/tmp", &err) >= 0 || !err.text[0])
		return 5;
	if (mount_place(at, fd, "/place", &err) < 0)
		return 6;
	if (mkdirat(at, "x", 0755) >= 0 || errno != EROFS)
		return 7;
	return 0;
}

static int set_in_child(void)
{
	int fd;

	if (own_namespaces() < 0)
		return CHILD_SKIPS;
	fd = make_top();
	if (fd < 0 || mount_set(fd, MOUNT_RDONLY, false, NULL) < 0)
		return 1;
	return mkdirat(fd, "y", 0755) < 0 && errno == EROFS ? 0 : 2;
}

static void a_mount_can_be_made_read_only_later(void **state)
{
	(void)state;
	in_child(set_in_child);
}

static void mounts_go_where_they_are_placed_and_hold_their_attributes(void **s)
{
	(void)s;
	in_child(mount_in_child);
}

static int unknown_type(void)
{
	struct error err = {0};

	if (own_namespaces() < 0)
		return CHILD_SKIPS;
	if (mount_new("no-such-fs", NULL, 0, &err) >= 0)
		return 1;
	return strstr(err.text, "no-such-fs") ? 0 : 2;
}

static void a_file_system_that_is_missing_is_named(void **state)
{
	(void)state;
	in_child(unknown_type);
}

static void groups_of_a_task_that_never_was_are_removed_quietly(void **state)
{
	(void)state;
	cgroup_remove_stale("t-0000000000000000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_ids_are_swapped_and_all_others_stay),
		cmocka_unit_test(subordinate_ids_are_found_by_name_or_number),
		cmocka_unit_test(lines_that_give_nothing_are_no_subordinate_ids),
		cmocka_unit_test(a_granted_path_that_is_missing_is_named),
		cmocka_unit_test(a_weaker_domain_than_asked_for_is_never_made),
		cmocka_unit_test(a_domain_holds_what_was_not_granted_back),
		cmocka_unit_test(
			mounts_go_where_they_are_placed_and_hold_their_attributes),
		cmocka_unit_test(a_mount_can_be_made_read_only_later),
		cmocka_unit_test(a_file_system_that_is_missing_is_named),
		cmocka_unit_test(
			groups_of_a_task_that_never_was_are_removed_quietly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
