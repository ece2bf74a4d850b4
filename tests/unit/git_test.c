/*
 * Names, packed-refs, logs and repositories as an agent or a host may have
 * written them, and the confinement that git is run in.
 */
#include "tree.h"

#include "confine/apart.h"
#include "workspace/git_log.h"
#include "workspace/git_name.h"
#include "workspace/git_packed.h"
#include "workspace/git_repo.h"

#include <signal.h>
#include <sys/mman.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void names_follow_the_rules_of_git(void **state)
{
	static const char *const good[] = {
		"refs/heads/main", "refs/heads/a/b-c", "refs/heads/@",
		"refs/tags/v1.0", "refs/stash", "refs/heads/\xc3\xa4",
	};
	static const char *const bad[] = {
		"main", "refs/heads/", "refs//x", "refs/heads/.x",
		"refs/heads/x.", "refs/heads/a..b", "refs/heads/../config",
		"refs/heads/x.lock", "refs/heads/x.lock/y", "refs/heads/a b",
		"refs/heads/a~1", "refs/heads/a^", "refs/heads/a:b",
		"refs/heads/a?", "refs/heads/a*", "refs/heads/a[",
		"refs/heads/a\\b", "refs/heads/a\x7f", "refs/heads/a\nb",
		"refs/heads/a@{1}", "/refs/heads/x", "refs/heads/x/",
		"refs/heads/HEAD", "refs/tags/FETCH_HEAD", "refs/heads/-x",
	};
	char name[2048] = "refs/heads/";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_null(git_name_fault(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!git_name_fault(bad[i]))
			fail_msg("%s is a name", bad[i]);
	}
	memset(name + 11, 'x', 1000);
	assert_non_null(git_name_fault(name));
}

static int find_rival(void *arg, const char *form, const char *rival)
{
	const char *const *wanted = arg;

	return str_eq(form, wanted[0]) && str_eq(rival, wanted[1]);
}

static void a_name_has_all_rivals_that_git_would_take_for_it(void **state)
{
	static const char *const found[][3] = {
		{"refs/tags/a", "a", "refs/heads/a"},
		{"refs/heads/a", "a", "refs/tags/a"},
		{"refs/heads/a", "a", "refs/remotes/a/HEAD"},
		{"refs/heads/o/a", "o/a", "refs/remotes/o/a"},
		{"refs/heads/a", "heads/a", "refs/tags/heads/a"},
		{"refs/tags/heads/a", "heads/a", "refs/heads/a"},
		{"refs/heads/refs/tags/a", "refs/tags/a", "refs/tags/a"},
		{"refs/tags/a", "refs/tags/a", "refs/heads/refs/tags/a"},
		{"refs/stash", "stash", "refs/heads/stash"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		if (git_name_each_rival(found[i][0], find_rival,
					(void *)&found[i][1]) != 1)
			fail_msg("%s has not %s", found[i][0], found[i][2]);
	}
	/* Not itself, and nothing that is no reference. */
	assert_int_equal(git_name_each_rival(
				 "refs/heads/a", find_rival,
				 (void *)(const char *[]){"a",
							  "refs/heads/a"}),
			 0);
	assert_int_equal(git_name_each_rival(
				 "refs/heads/a", find_rival,
				 (void *)(const char *[]){"a", "a"}),
			 0);
}

static void kinds_that_tell_of_others_are_left(void **state)
{
	char buf[GIT_NAME_MAX];

	(void)state;
	assert_null(git_name_kind("refs/heads/x"));
	assert_null(git_name_kind("refs/stash"));
	assert_non_null(git_name_kind("refs/remotes/origin/x"));
	assert_non_null(git_name_kind("refs/replace/" A));
	assert_non_null(git_name_kind("refs/bisect/bad"));
	assert_non_null(git_name_kind("refs/stash/x"));
	assert_string_equal(git_name_short("refs/heads/a/b", buf), "a/b");
	assert_string_equal(git_name_short("refs/tags/v", buf), "tag v");
	assert_true(git_names_clash("refs/heads/a", "refs/heads/a/b"));
	assert_true(git_names_clash("refs/heads/a/b", "refs/heads/a"));
	assert_false(git_names_clash("refs/heads/a", "refs/heads/ab"));
	assert_false(git_names_clash("refs/heads/a", "refs/heads/a"));
}

static int read_packed(struct git_packed *p, const char *text)
{
	write_file("src/packed-refs", text);
	return git_packed_read(p, src_fd, "packed-refs", 40);
}

static void packed_references_are_found_and_taken_out(void **state)
{
	struct git_packed p;
	AUTO_STRLIST struct strlist names = {0};
	AUTO_BUF struct buf out = BUF_INIT(4096);

	(void)state;
	assert_int_equal(git_packed_read(&p, src_fd, "none", 40), 0);
	assert_int_equal(p.n, 0);
	assert_null(git_packed_find(&p, "refs/heads/x"));
	assert_int_equal(read_packed(&p, "# pack-refs with: peeled\n" A
					 " refs/tags/t\n^" B "\n" B
					 " refs/heads/x\n" A
					 " refs/heads/a\n"),
			 0);
	assert_int_equal(p.n, 3);
	assert_string_equal(git_packed_find(&p, "refs/heads/x"), B);
	assert_null(git_packed_find(&p, "refs/heads"));
	strlist_add(&names, "refs/heads/a");
	strlist_add(&names, "refs/tags/t");
	strlist_add(&names, "refs/heads/unknown");
	assert_int_equal(git_packed_without(&p, &names, &out), 0);
	assert_string_equal(buf_str(&out), "# pack-refs with: peeled\n" B
					   " refs/heads/x\n");
	git_packed_done(&p);
}

static void packed_references_that_git_did_not_write_are_none(void **state)
{
	static const char *const bad[] = {
		A " refs/heads/x", "x\n", A "\n", A "a refs/heads/x\n",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA refs/heads/x\n",
		A "  \n" A "\n", "^" A "\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct git_packed p;

		if (read_packed(&p, bad[i]) != -EBADMSG)
			fail_msg("%s is one", bad[i]);
		git_packed_done(&p);
	}
}

static bool is_log(const char *text, const char *last)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);

	buf_add_str(&b, text);
	return git_log_is_one(&b, 40, last, 3);
}

#define LINE(a, b) a " " b " A <a@b> 1700000000 +0100\tWIP: words\n"

static void a_stash_is_a_log_that_ends_with_what_it_is(void **state)
{
	static const char *const bad[] = {
		"", "x\n", A " " B "\n", A " " B " A <a@b> 1 +0100",
		A " " B " A <a@b> x +0100\n", A " " B " A <a@b> 1 +010\n",
		A " " B " A <a@b> 1 0100\n", A " " B " A <a@b 1 +0100\n",
		A " " B " A <a@b> 1 +0100 x\n",
		A " " B " A <a@b> 1 +0100\tx\033[2J\n",
		A "a " B " A <a@b> 1 +0100\n",
	};
	AUTO_BUF struct buf log = BUF_INIT(65536);
	AUTO_BUF struct buf ids = BUF_INIT(65536);

	(void)state;
	assert_true(is_log(LINE(A, B), B));
	assert_true(is_log(LINE(A, B) LINE(B, A), A));
	assert_true(is_log(A " " B " A <a@b> 1 -0100\n", B));
	assert_false(is_log(LINE(A, B) LINE(B, A), B));
	assert_false(is_log(LINE(A, B) LINE(B, A) LINE(A, B) LINE(B, A), A));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (is_log(bad[i], B))
			fail_msg("%s is one", bad[i]);
	}
	assert_int_equal(git_log_add(&log, 40, "", A, "t-x"), 0);
	assert_int_equal(git_log_add(&log, 40, A, B, "t-x"), 0);
	assert_true(git_log_is_one(&log, 40, B, 3));
	assert_int_equal(git_log_lines(&log), 2);
	assert_int_equal(git_log_ids(&log, 40, &ids), 0);
	assert_string_equal(buf_str(&ids), A "\n" B "\n");
}

static int open_with(struct git_repo *g, const char *config, struct buf *why)
{
	write_file("src/.git/config", config);
	return git_repo_open(g, src_fd, why);
}

static void what_a_repository_is_extended_by_is_known_or_it_is_refused(
	void **state)
{
	static const struct {
		const char *config;
		const char *why; /* NULL: it is taken */
		size_t id_len;
	} cases[] = {
		{"[core]\n\tbare = false\n", NULL, 40},
		{"[core] bare = false ; x\n[Extensions]\n objectFormat=\"sha256\"",
		 NULL, 64},
		{"[extensions]\nobjectformat = sha512\n", "sha512", 0},
		{"[extensions]\nworktreeConfig\n", NULL, 40},
		{"[extensions]\nrefStorage = files\n", NULL, 40},
		{"[extensions]\nrefStorage = reftable\n", "refstorage", 0},
		{"[extensions]\npartialClone = origin\n", "partial", 0},
		{"[extensions]\nnext = 1\n", "next", 0},
		{"[core]\nbare\n", "core.bare", 0},
		{"[core]\nworktree = /x\n", "core.worktree", 0},
		{"[core]\nsparseCheckout = on\n", "sparse", 0},
		{"[core]\nrepositoryformatversion = 2\n", "version", 0},
		{"[remote \"extensions\"]\nnext = 1\n", NULL, 40},
	};

	(void)state;
	make_dir("src/.git");
	make_dir("src/.git/objects");
	write_file("src/.git/HEAD", "ref: refs/heads/main\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF struct buf why = BUF_INIT(1024);
		struct git_repo g;
		int r = open_with(&g, cases[i].config, &why);

		if (r != (cases[i].why != NULL))
			fail_msg("%s: %d %s", cases[i].config, r,
				 buf_str(&why));
		if (!cases[i].why)
			assert_int_equal(g.id_len, cases[i].id_len);
		else if (!strcasestr(buf_str(&why), cases[i].why))
			fail_msg("%s: %s", cases[i].config, buf_str(&why));
		git_repo_done(&g);
	}
}

static void values_are_files_or_packed_and_nothing_that_leads_elsewhere(
	void **state)
{
	AUTO_BUF struct buf why = BUF_INIT(1024);
	struct git_repo g;
	struct git_value v;

	(void)state;
	make_dir("src/.git");
	make_dir("src/.git/objects");
	make_dir("src/.git/refs");
	make_dir("src/.git/refs/heads");
	make_dir("src/.git/refs/heads/empty");
	write_file("src/.git/HEAD", A "\n");
	write_file("src/.git/packed-refs", A " refs/heads/p\n" A
					   " refs/heads/both\n" A
					   " refs/heads/empty\n");
	write_file("src/.git/refs/heads/both", B "\n");
	write_file("src/.git/refs/heads/symbolic", "ref: refs/heads/p\n");
	write_file("src/.git/refs/heads/rubbish", "x\n");
	write_file("secret", A "\n");
	assert_int_equal(symlink("../../../../secret",
				 "src/.git/refs/heads/link"),
			 0);
	assert_int_equal(symlink(".", "src/.git/refs/loop"), 0);
	assert_int_equal(open_with(&g, "", &why), 0);
	assert_string_equal(g.head.id, A);
	assert_int_equal(git_repo_value(&g, "refs/heads/p", &v), 0);
	assert_string_equal(v.id, A);
	assert_false(v.loose);
	assert_int_equal(git_repo_value(&g, "refs/heads/both", &v), 0);
	assert_string_equal(v.id, B);
	assert_true(v.loose);
	assert_int_equal(git_repo_value(&g, "refs/heads/none", &v), 0);
	assert_string_equal(v.id, "");
	assert_int_equal(git_repo_value(&g, "refs/heads/symbolic", &v),
			 -EBADMSG);
	assert_int_equal(git_repo_value(&g, "refs/heads/rubbish", &v),
			 -EBADMSG);
	assert_int_equal(git_repo_value(&g, "refs/heads/link", &v), -EBADMSG);
	assert_int_equal(git_repo_value(&g, "refs/loop/heads/both", &v),
			 -EBADMSG);
	git_repo_done(&g);
}

/* ---- confinement ---- */

static int apart_dirs[2];

/* Runs a shell that can start no other program; its exit status. */
static int shell(const char *script, uint64_t memory, unsigned seconds,
		 struct error *err)
{
	static const struct path_grant system[] = {
		{"/usr", PATH_READ | PATH_EXEC},
		{"/bin", PATH_READ | PATH_EXEC},
		{"/lib", PATH_READ | PATH_EXEC},
		{"/lib64", PATH_READ | PATH_EXEC},
		{"/etc/ld.so.cache", PATH_READ},
		{"/dev/null", PATH_READ | PATH_WRITE},
	};
	const char *argv[] = {"bash", "-c", script, NULL}, *env[] = {NULL};
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return apart_run(&(struct apart){
				 .program = "/bin/bash",
				 .argv = (char *const *)(uintptr_t)argv,
				 .env = (char *const *)(uintptr_t)env,
				 .fds = {null, null, null},
				 .dirs = apart_dirs,
				 .n_dirs = 2,
				 .system = system,
				 .n_system = ARRAY_SIZE(system),
				 .memory_max = memory,
				 .file_max = 1u << 20,
				 .seconds = seconds,
			 },
			 err);
}

static void a_program_apart_has_its_directories_and_nothing_else(void **state)
{
	static const struct {
		const char *script;
		int status;
	} cases[] = {
		{"exit 7", 7},
		{"read x </proc/self/fd/4/given && [ $x = yes ]", 0},
		{"echo x >made && [ -e /proc/self/fd/3/made ]", 0},
		{"{ echo x >/proc/self/fd/4/new; } || exit 3", 3},
		{"{ read x </etc/passwd; } || exit 3", 3},
		{"{ read x <../outside; } || exit 3", 3},
		{"{ read x <leads-out; } || exit 3", 3},
		{"{ echo >/dev/tcp/127.0.0.1/9; } || exit 3", 3},
		{"{ kill -0 $PPID; } || exit 3", 3},
		{"[ $$ = 1 ]", 0},
		{"x=$(echo y); [ \"$x\" = y ] || exit 3", 3},
		{"printf '%2000000s' x >large || exit 3", 3},
	};
	struct error err = {0};

	(void)state;
	if (landlock_abi() < 1)
		skip();
	write_file("outside", "secret");
	write_file("src/given", "yes\n");
	make_dir("task/upper");
	assert_int_equal(symlink("../../outside", "task/upper/leads-out"), 0);
	apart_dirs[0] = open("task/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	apart_dirs[1] = open("src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = shell(cases[i].script, 256u << 20, 20, &err);

		if (r != cases[i].status && !(cases[i].status == 3 && r > 0))
			fail_msg("%s: %d %s", cases[i].script, r, err.text);
	}
	assert_int_equal(shell("while :; do :; done", 256u << 20, 1, &err),
			 -ETIMEDOUT);
	assert_non_null(strstr(err.text, "within 1 second"));
	assert_int_not_equal(shell("x=x; while :; do x=$x$x; done", 32u << 20,
				   20, &err),
			     0);
	close(apart_dirs[0]);
	close(apart_dirs[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_follow_the_rules_of_git),
		cmocka_unit_test(
			a_name_has_all_rivals_that_git_would_take_for_it),
		cmocka_unit_test(kinds_that_tell_of_others_are_left),
		EACH(packed_references_are_found_and_taken_out),
		EACH(packed_references_that_git_did_not_write_are_none),
		cmocka_unit_test(a_stash_is_a_log_that_ends_with_what_it_is),
		EACH(
			what_a_repository_is_extended_by_is_known_or_it_is_refused),
		EACH(
			values_are_files_or_packed_and_nothing_that_leads_elsewhere),
		EACH(a_program_apart_has_its_directories_and_nothing_else),
	};

	return cmocka_run_group_tests_name("git", tests, NULL, NULL);
}
