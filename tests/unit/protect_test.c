#include "tree.h"

#include "workspace/protect.h"

static struct change change_of(const char *path, enum change_kind kind,
			       mode_t mode, mode_t before)
{
	return (struct change){.path = path,
			       .kind = kind,
			       .mode = mode,
			       .mode_before = before};
}

static const char *reason_of(const struct protect *p, const char *path)
{
	struct change c = change_of(path, CHANGE_ADDED, S_IFREG | 0644, 0);

	return protect_reason(p, &c);
}

#define FILE_MODE (S_IFREG | 0644)
#define DIR_MODE (S_IFDIR | 0755)
#define LINK_MODE (S_IFLNK | 0777)

static void what_the_host_would_run_is_protected(void **state)
{
	static const char *const held[] = {
		".git/hooks/post-commit", ".git/hooks/new/deep", ".git/config",
		".git/config.worktree", ".git/info/attributes",
		".git/objects/info/alternates", ".git/modules/m/config",
		".git/worktrees/w/gitdir", ".git/commondir",
		".git/rebase-merge/git-rebase-todo", ".gitattributes",
		"sub/.gitattributes", ".gitmodules", "vendor/x/.git/HEAD",
		"vendor/x/.git", "vendor/x/.git/objects/ab/cd", ".GIT/config",
		"a/.Git /config", "a/.git./x", "a/git~1/config",
		"a/.git::$INDEX_ALLOCATION/config", ".envrc", "a/b/.envrc",
		".direnv/bin/x", ".hg/hgrc", "a/.jj/repo/config.toml",
		".svn/wc.db", ".pdbrc", "a/.ghci", ".clinerules/hooks/x",
		".vscode/tasks.json", ".VSCODE/settings.json",
		"pkg/.vscode/settings.json", "x.code-workspace", ".idea/a.xml",
		".claude/settings.json", ".codex/config.toml",
		".cursor/mcp.json", ".mcp.json", ".husky/pre-commit",
		".pre-commit-config.yaml", "scripts/hooks/pre-commit",
		"hooks/post-merge/x", ".cargo/config.toml", ".npmrc",
		"fixtures/repo.git/config", "fixtures/repo.git/hooks/update",
		"new/HEAD", "HEAD",
	};
	struct protect p = PROTECT_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		if (!reason_of(&p, held[i]))
			fail_msg("%s is not protected", held[i]);
	}
}

static void ordinary_files_are_not_protected(void **state)
{
	static const char *const free_paths[] = {
		"a", "src/main.c", "Makefile", "package.json", ".gitignore",
		".github/workflows/ci.yml", ".git/objects/ab/cdef",
		".git/refs/heads/main", ".git/index", ".git/HEAD",
		".git/logs/HEAD", ".git/COMMIT_EDITMSG", "git/config", "config",
		"config/app.yml", "info/x", "src/modules/a.js", "src/HEAD.txt",
		"head", ".envrc.example", "x.vscode/a", ".cargo/registry/x",
		"hooks/useThing.js", "src/hooks/index.ts", "a.git", "AGENTS.md",
		"\xff\xfe", "remotes/a",
	};
	struct protect p = PROTECT_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(free_paths); i++) {
		if (reason_of(&p, free_paths[i]))
			fail_msg("%s: %s", free_paths[i],
				 reason_of(&p, free_paths[i]));
	}
}

static void what_stands_in_the_way_is_protected_too(void **state)
{
	struct protect p = PROTECT_INIT;
	struct change link = change_of(".cargo", CHANGE_ADDED, LINK_MODE, 0);
	struct change dir = change_of(".cargo", CHANGE_ADDED, DIR_MODE, 0);
	struct change gone = change_of(".cargo", CHANGE_DELETED, DIR_MODE,
				       DIR_MODE);
	struct change git = change_of(".git", CHANGE_MODIFIED, LINK_MODE,
				      DIR_MODE);
	struct change mode = change_of(".git", CHANGE_MODIFIED, DIR_MODE,
				       DIR_MODE);
	struct change now_dir = change_of(".git", CHANGE_MODIFIED, DIR_MODE,
					  FILE_MODE);

	(void)state;
	assert_non_null(protect_reason(&p, &link));
	assert_null(protect_reason(&p, &dir));
	assert_non_null(protect_reason(&p, &gone));
	assert_non_null(protect_reason(&p, &git));
	assert_null(protect_reason(&p, &mode));
	assert_non_null(protect_reason(&p, &now_dir));
}

static void the_policy_protects_further_paths(void **state)
{
	AUTO_STRLIST struct strlist globs = {0};
	struct protect p = {.globs = &globs, .source_fd = -1};
	struct change link = change_of(".github", CHANGE_ADDED, LINK_MODE, 0);
	struct change dir = change_of(".github", CHANGE_ADDED, DIR_MODE, 0);

	(void)state;
	strlist_add(&globs, ".github/workflows/**");
	strlist_add(&globs, "**/Makefile");
	assert_string_equal(reason_of(&p, ".github/workflows/a/ci.yml"),
			    "files.protect of the policy");
	assert_non_null(reason_of(&p, "x/y/Makefile"));
	assert_null(reason_of(&p, "x/Makefile.am"));
	assert_non_null(protect_reason(&p, &link));
	assert_null(protect_reason(&p, &dir));
	strlist_add(&globs, ".git/refs/heads/main");
	assert_non_null(reason_of(&p, ".git/refs/heads/main"));
}

static void hooks_elsewhere_are_found(void **state)
{
	AUTO_PROTECT struct protect p = PROTECT_INIT;

	(void)state;
	make_dir("src/.git");
	make_dir("src/tools");
	assert_int_equal(symlink("../tools/./git//hooks", "src/.git/hooks"), 0);
	write_file("src/.git/config",
		   "[user]\n\thooksPath = no\n[core]\n"
		   "\tbare = false\n\tHooksPath = \"ci/run\" \n"
		   "[core \"x\"]\nhooksPath = neither\n");
	assert_int_equal(protect_init(&p, NULL, src_fd, NULL), 0);
	assert_non_null(reason_of(&p, "tools/git/hooks/anything"));
	assert_non_null(reason_of(&p, "ci/run"));
	assert_non_null(reason_of(&p, "ci/run/x"));
	assert_null(reason_of(&p, "ci/runner"));
	assert_null(reason_of(&p, "no/x"));
	assert_null(reason_of(&p, "neither/x"));
	assert_null(reason_of(&p, ".git/index"));
}

static void hooks_of_a_worktree_are_found_in_the_shared_directory(void **state)
{
	AUTO_PROTECT struct protect p = PROTECT_INIT;
	AUTO_FREE char *text = str_format("[core]\nhooksPath = %s/src/my\n",
					  base);

	(void)state;
	make_dir("shared");
	make_dir("shared/worktrees");
	make_dir("shared/worktrees/w");
	write_file("shared/config", text);
	write_file("shared/worktrees/w/commondir", "../..\n");
	write_file("src/.git", "gitdir: ../shared/worktrees/w\n");
	assert_int_equal(protect_init(&p, NULL, src_fd, NULL), 0);
	assert_non_null(reason_of(&p, "my/hook"));
	/* The file became a directory: nothing in it is known. */
	assert_non_null(reason_of(&p, ".git/index"));
}

static void a_bare_repository_is_known_by_what_the_host_has(void **state)
{
	AUTO_PROTECT struct protect p = PROTECT_INIT;

	(void)state;
	make_dir("src/store");
	write_file("src/store/HEAD", "ref: refs/heads/main\n");
	make_dir("src/store/objects");
	make_dir("src/store/refs");
	assert_int_equal(protect_init(&p, NULL, src_fd, NULL), 0);
	assert_non_null(reason_of(&p, "store/config"));
	assert_non_null(reason_of(&p, "store/info/attributes"));
	assert_null(reason_of(&p, "other/config"));
	assert_null(reason_of(&p, "store/description"));
	/* The source is no repository: whatever .git appears is new. */
	assert_non_null(reason_of(&p, ".git/index"));
}

static void odd_git_directories_do_no_harm(void **state)
{
	AUTO_PROTECT struct protect p = PROTECT_INIT;
	AUTO_PROTECT struct protect q = PROTECT_INIT;

	(void)state;
	assert_int_equal(mkfifo("src/.git", 0644), 0);
	assert_int_equal(protect_init(&p, NULL, src_fd, NULL), 0);
	unlink("src/.git");
	make_dir("src/.git");
	assert_int_equal(mkfifo("src/.git/config", 0644), 0);
	assert_int_equal(symlink("/etc", "src/.git/hooks"), 0);
	assert_int_equal(mkfifo("src/.git/commondir", 0644), 0);
	assert_int_equal(protect_init(&q, NULL, src_fd, NULL), 0);
	assert_int_equal(q.dirs.n, 0);
}

static void without_memory_nothing_is_left(void **state)
{
	struct protect p = PROTECT_INIT;
	bool failed;
	size_t n = 0;
	int r;

	(void)state;
	make_dir("src/.git");
	assert_int_equal(symlink("../a", "src/.git/hooks"), 0);
	write_file("src/.git/config", "[core]\nhooksPath = b\n");
	do {
		heap_fail_at(n++);
		r = protect_init(&p, NULL, src_fd, NULL);
		failed = heap_restore();
		if (r == 0 && !failed)
			assert_int_equal(p.dirs.n, 2);
		protect_done(&p);
	} while (failed);
	assert_int_equal(r, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_host_would_run_is_protected),
		cmocka_unit_test(ordinary_files_are_not_protected),
		cmocka_unit_test(what_stands_in_the_way_is_protected_too),
		cmocka_unit_test(the_policy_protects_further_paths),
		EACH(hooks_elsewhere_are_found),
		EACH(hooks_of_a_worktree_are_found_in_the_shared_directory),
		EACH(a_bare_repository_is_known_by_what_the_host_has),
		EACH(odd_git_directories_do_no_harm),
		EACH(without_memory_nothing_is_left),
	};

	return cmocka_run_group_tests_name("protect", tests, NULL, NULL);
}
