/*
 * Which directory a task works on, and what is refused.
 */
#include "tree.h"

static int find_from(const char *dir, const char *wanted, const char *workdir,
		     const char *home, struct error *err)
{
	source_done(&src);
	assert_int_equal(chdir(dir), 0);
	return source_find(wanted, workdir, home, geteuid(), &src, err);
}

static void the_working_directory_is_the_source_outside_git(void **state)
{
	char want[512];

	(void)state;
	snprintf(want, sizeof(want), "%s/src", base);
	assert_int_equal(find_from("src", NULL, NULL, "/nonexistent", NULL), 0);
	assert_string_equal(src.path, want);
	assert_string_equal(src.workdir, want);
	assert_int_equal(src.owner, geteuid());
	assert_int_equal(src.mode, S_IFDIR | 0755);
	assert_true(fcntl(src.fd, F_GETFD) & FD_CLOEXEC);
}

static void the_git_top_level_above_is_the_source(void **state)
{
	char want[512], at[512];

	(void)state;
	make_dir("src/.git");
	write_file("src/.git/HEAD", "ref: refs/heads/main\n");
	make_dir("src/a");
	make_dir("src/a/b");
	snprintf(want, sizeof(want), "%s/src", base);
	snprintf(at, sizeof(at), "%s/src/a/b", base);
	assert_int_equal(find_from("src/a/b", NULL, NULL, NULL, NULL), 0);
	assert_string_equal(src.path, want);
	assert_string_equal(src.workdir, at);
}

static void a_git_file_marks_a_top_level_too(void **state)
{
	char want[512];

	(void)state;
	write_file("src/.git", "gitdir: /elsewhere/.git/worktrees/x\n");
	make_dir("src/a");
	snprintf(want, sizeof(want), "%s/src", base);
	assert_int_equal(find_from("src/a", NULL, NULL, NULL, NULL), 0);
	assert_string_equal(src.path, want);
}

static void an_empty_git_directory_marks_nothing(void **state)
{
	(void)state;
	make_dir("src/.git");
	make_dir("src/a");
	make_dir("src/a/.git");
	make_dir("src/a/b");
	write_file("src/a/b/.git", "no");
	assert_int_equal(find_from("src/a/b", NULL, NULL, NULL, NULL), 0);
	assert_true(str_ends(src.path, "/src/a/b"));
}

static void a_top_level_of_somebody_else_is_not_taken(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make_dir("src/.git");
	write_file("src/.git/HEAD", "ref: refs/heads/main\n");
	make_dir("src/a");
	assert_int_equal(chown("src", 12345, 12345), 0);
	assert_int_equal(find_from("src/a", NULL, NULL, NULL, NULL), 0);
	assert_true(str_ends(src.path, "/src/a"));
}

static void the_home_is_refused_with_both_commands(void **state)
{
	char home[512];
	struct error err = {0};

	(void)state;
	snprintf(home, sizeof(home), "%s/src", base);
	assert_int_equal(find_from("src", NULL, NULL, home, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--source DIR -- CMD"));
	assert_non_null(strstr(err.text, "--source none -- CMD"));
	assert_non_null(strstr(err.text, home));
	/* Above the home is no better; named it is the user's own wish. */
	assert_int_equal(find_from(base, NULL, NULL, home, &err), -EINVAL);
	assert_int_equal(find_from(base, "src", NULL, home, &err), 0);
	/* A home that is reached by a link is still the home. */
	assert_int_equal(symlink("src", "link"), 0);
	snprintf(home, sizeof(home), "%s/link", base);
	assert_int_equal(find_from("src", NULL, NULL, home, &err), -EINVAL);
}

static void a_git_top_level_that_is_the_home_is_not_taken(void **state)
{
	char home[512];

	(void)state;
	snprintf(home, sizeof(home), "%s/src", base);
	make_dir("src/.git");
	write_file("src/.git/HEAD", "ref: refs/heads/main\n");
	make_dir("src/a");
	assert_int_equal(find_from("src/a", NULL, NULL, home, NULL), 0);
	assert_true(str_ends(src.path, "/src/a"));
}

static void the_root_is_refused_always(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(find_from("/", NULL, NULL, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--source none"));
	assert_int_equal(find_from(base, "/", NULL, NULL, &err), -EINVAL);
}

static void a_bad_source_is_an_error_that_names_it(void **state)
{
	struct error err = {0};

	(void)state;
	write_file("file", "");
	assert_int_equal(find_from(base, "file", NULL, NULL, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, "\"file\""));
	assert_int_equal(find_from(base, "no\nsuch", NULL, NULL, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "no\\nsuch"));
	assert_int_equal(find_from(base, "", NULL, NULL, &err), -EINVAL);
	make_dir("gone");
	assert_int_equal(chdir("gone"), 0);
	assert_int_equal(rmdir("../gone"), 0);
	assert_int_equal(source_find(NULL, NULL, NULL, geteuid(), &src, &err),
			 -ENOENT);
	assert_int_equal(src.fd, -1);
	if (geteuid() != 0) {
		assert_int_equal(chdir(base), 0);
		assert_int_equal(mkdir("shut", 0), 0);
		assert_int_equal(find_from(base, "shut/x", NULL, NULL, &err),
				 -EACCES);
	}
}

static void a_source_named_by_a_link_has_its_own_path(void **state)
{
	(void)state;
	assert_int_equal(symlink("src", "link"), 0);
	assert_int_equal(find_from(base, "./link/../link", NULL, NULL, NULL),
			 0);
	assert_true(str_ends(src.path, "/src"));
}

static void without_a_source_there_is_none(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(find_from(base, "none", NULL, NULL, NULL), 0);
	assert_null(src.path);
	assert_null(src.workdir);
	assert_int_equal(src.fd, -1);
	assert_int_equal(find_from(base, "none", "/tmp", NULL, NULL), 0);
	assert_string_equal(src.workdir, "/tmp");
	assert_int_equal(find_from(base, "none", "rel", NULL, &err), -EINVAL);
}

static void the_working_directory_lies_in_the_source(void **state)
{
	struct error err = {0};

	(void)state;
	make_dir("src/a");
	assert_int_equal(find_from(base, "src", "src/a", NULL, NULL), 0);
	assert_true(str_ends(src.workdir, "/src/a"));
	assert_int_equal(find_from(base, "src", NULL, NULL, NULL), 0);
	assert_true(str_ends(src.workdir, "/src"));
	assert_int_equal(find_from(base, "src", "task", NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "not below the source"));
	assert_int_equal(symlink("../task", "src/out"), 0);
	assert_int_equal(find_from(base, "src", "src/out", NULL, &err),
			 -EINVAL);
}

static void failed_allocations_of_the_source_are_errors(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	make_dir("src/a");
	do {
		struct error err = {0};
		int r;

		heap_fail_at(n++);
		r = find_from(base, "src", "src/a", NULL, &err);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(the_working_directory_is_the_source_outside_git),
		EACH(the_git_top_level_above_is_the_source),
		EACH(a_git_file_marks_a_top_level_too),
		EACH(an_empty_git_directory_marks_nothing),
		EACH(a_top_level_of_somebody_else_is_not_taken),
		EACH(the_home_is_refused_with_both_commands),
		EACH(a_git_top_level_that_is_the_home_is_not_taken),
		EACH(the_root_is_refused_always),
		EACH(a_bad_source_is_an_error_that_names_it),
		EACH(a_source_named_by_a_link_has_its_own_path),
		EACH(without_a_source_there_is_none),
		EACH(the_working_directory_lies_in_the_source),
		EACH(failed_allocations_of_the_source_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
