/*
 * Workspaces: the source that is taken, layers made and removed, changes
 * enumerated in hostile trees, and copies. Overlay-shaped uppers are made by
 * hand: whiteouts are devices 0:0, opaque directories carry an attribute.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "workspace/changes.h"
#include "workspace/layer.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define DEEP 10000

static char base[256]; /* the test's own directory, and the working one */
static int base_fd = -1, task_fd = -1, src_fd = -1;
static struct source src;

static const char *temporary(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

static int make_base(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "%s/pinfold-ws-XXXXXX", temporary());
	if (!mkdtemp(base) || chdir(base) < 0 || mkdir("task", 0700) < 0 ||
	    mkdir("src", 0755) < 0 || chmod("src", 0755) < 0)
		return -1;
	base_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	task_fd = open("task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	src_fd = open("src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int remove_base(void **state)
{
	struct error err = {0};
	int tmp = open(temporary(), O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	close(base_fd);
	close(task_fd);
	close(src_fd);
	source_done(&src);
	if (layer_remove(tmp, strrchr(base, '/') + 1, &err) < 0)
		print_error("%s\n", err.text);
	close(tmp);
	return err.code;
}

static void write_file(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)),
			 (ssize_t)strlen(content));
	close(fd);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static void whiteout(const char *path)
{
	assert_int_equal(mknod(path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

static void mark(const char *path, const char *name, const char *value)
{
	assert_int_equal(setxattr(path, name, value, strlen(value), 0), 0);
}

static void find_source(void)
{
	char path[512];
	struct error err = {0};

	snprintf(path, sizeof(path), "%s/src", base);
	if (source_find(path, NULL, "/nonexistent", geteuid(), &src, &err) < 0)
		fail_msg("%s", err.text);
}

static void make_layer(void)
{
	find_source();
	assert_int_equal(layer_make(task_fd, &src, (uid_t)-1, (gid_t)-1, NULL),
			 0);
}

/* A chain of n directories "d" below dir, made without holding them all. */
static void make_deep(const char *dir, int n)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	close(openat(fd, "leaf", O_CREAT | O_WRONLY, 0644));
	close(fd);
}

/* Changes as lines: "+ path", "~ path", "- path", sorted. */
static struct strlist seen;

static int remember(void *arg, const struct change *c)
{
	static const char *const signs[] = {"+", "~", "-"};

	(void)arg;
	return strlist_take(&seen,
			    str_format("%s %s", signs[c->kind], c->path));
}

static struct changes_counts scan(bool copied)
{
	struct changes_counts counts;
	struct error err = {0};

	strlist_done(&seen);
	if (changes_scan(task_fd, src_fd, copied, 0, remember, NULL, &counts,
			 &err) != 0)
		fail_msg("%s", err.text);
	strlist_sort(&seen);
	assert_int_equal(counts.added + counts.modified + counts.deleted,
			 seen.n);
	return counts;
}

static void expect(bool copied, const char *const *lines)
{
	size_t n = 0;

	scan(copied);
	for (; lines[n]; n++) {
		if (n >= seen.n || !str_eq(seen.items[n], lines[n]))
			fail_msg("line %zu: %s instead of %s", n,
				 n < seen.n ? seen.items[n] : "(nothing)",
				 lines[n]);
	}
	if (seen.n > n)
		fail_msg("unexpected: %s", seen.items[n]);
	strlist_done(&seen);
}

#define EXPECT(copied, ...)                                                    \
	expect(copied, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* The source. */

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

/* Layers. */

static void a_layer_has_the_mode_of_its_source(void **state)
{
	static const mode_t modes[] = {0755, 0700, 0777, 01777, 02775, 0555};
	mode_t mask = umask(077);
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(fchmod(src_fd, modes[i]), 0);
		source_done(&src);
		make_layer();
		assert_int_equal(fstatat(task_fd, "upper", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, modes[i]);
		assert_int_equal(fstatat(task_fd, "work", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, 0700);
		assert_int_equal(layer_make(task_fd, &src, (uid_t)-1, 0, NULL),
				 -EEXIST);
		assert_int_equal(layer_remove(task_fd, "upper", NULL), 0);
		assert_int_equal(layer_remove(task_fd, "work", NULL), 0);
	}
	umask(mask);
}

static void a_layer_of_root_belongs_to_the_agent(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(fchmod(src_fd, 02755), 0);
	find_source();
	assert_int_equal(layer_make(task_fd, &src, 0x70000000, 0x70000001,
				    NULL), 0);
	assert_int_equal(fstatat(task_fd, "upper", &st, 0), 0);
	assert_int_equal(st.st_uid, 0x70000000);
	assert_int_equal(st.st_gid, 0x70000001);
	assert_int_equal(st.st_mode & 07777, 02755);
}

static void foreign_owners_are_trouble_unless_all_ids_are_mapped(void **state)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	(void)state;
	find_source();
	assert_int_equal(layer_probe(&src, task_fd, uid, gid, false), LAYER_OK);
	assert_int_equal(layer_probe(&src, task_fd, uid + 1, gid, false),
			 LAYER_FOREIGN_OWNER);
	assert_int_equal(layer_probe(&src, task_fd, uid, gid + 1, false),
			 LAYER_FOREIGN_OWNER);
	assert_int_equal(layer_probe(&src, task_fd, uid + 1, gid, true),
			 LAYER_OK);
	if (uid == 0) {
		make_dir("src/.git");
		assert_int_equal(chown("src/.git", 0, 12345), 0);
		assert_int_equal(layer_probe(&src, task_fd, uid, gid, false),
				 LAYER_FOREIGN_OWNER);
	}
}

static void a_source_that_holds_the_state_is_trouble(void **state)
{
	struct source s = {0};

	(void)state;
	assert_int_equal(source_find(base, NULL, NULL, 0, &s, NULL), 0);
	assert_int_equal(layer_probe(&s, task_fd, geteuid(), getegid(), false),
			 LAYER_OVERLAPS);
	source_done(&s);
	assert_int_equal(source_find("/proc", NULL, NULL, 0, &s, NULL), 0);
	assert_int_equal(layer_probe(&s, task_fd, 0, 0, true),
			 LAYER_SOURCE_SYSTEM);
	source_done(&s);
	for (int t = LAYER_OK; t <= LAYER_OVERLAPS; t++)
		assert_true(strlen(layer_trouble_text(
				    (enum layer_trouble)t)) > 10);
}

static void what_is_missing_is_removed_already(void **state)
{
	(void)state;
	assert_int_equal(layer_remove(base_fd, "nothing", NULL), 0);
	write_file("file", "");
	assert_int_equal(layer_remove(base_fd, "file", NULL), 0);
	assert_int_equal(access("file", F_OK), -1);
}

static void directories_without_permissions_are_removed(void **state)
{
	(void)state;
	make_dir("x");
	make_dir("x/shut");
	make_dir("x/shut/in");
	write_file("x/shut/in/file", "");
	assert_int_equal(chmod("x/shut/in", 0), 0);
	assert_int_equal(chmod("x/shut", 0500), 0);
	assert_int_equal(chmod("x", 0), 0);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
	assert_int_equal(access("x", F_OK), -1);
}

static void links_are_removed_and_not_followed(void **state)
{
	(void)state;
	make_dir("kept");
	write_file("kept/file", "");
	make_dir("x");
	assert_int_equal(symlink("../kept", "x/link"), 0);
	assert_int_equal(symlink("kept", "top"), 0);
	assert_int_equal(mkfifo("x/fifo", 0600), 0);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
	assert_int_equal(layer_remove(base_fd, "top", NULL), 0);
	assert_int_equal(access("kept/file", F_OK), 0);
}

static void a_tree_of_ten_thousand_levels_is_removed(void **state)
{
	struct rlimit old, low = {64, 64};

	(void)state;
	make_dir("x");
	make_deep("x", DEEP);
	make_dir("x/e");
	make_deep("x/e", 200);
	/* Also where a directory of the same name as a moved one lies. */
	make_dir("x/.moved-0");
	write_file("x/.moved-1", "");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(access("x", F_OK), -1);
}

static void a_wide_directory_is_removed(void **state)
{
	(void)state;
	make_dir("x");
	for (int i = 0; i < 5000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "x/%d-%d", i, i * 7);
		if (i % 10 == 0)
			make_dir(name);
		else
			write_file(name, "");
	}
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
}

static void files_of_others_are_removed_by_root(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make_dir("x");
	make_dir("x/y");
	write_file("x/y/z", "");
	assert_int_equal(chown("x/y", 4711, 4711), 0);
	assert_int_equal(chmod("x/y", 0), 0);
	assert_int_equal(chown("x", 4711, 4711), 0);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
}

static void another_mount_is_not_emptied(void **state)
{
	struct error err = {0};

	(void)state;
	if (geteuid() != 0)
		skip();
	make_dir("x");
	make_dir("x/mnt");
	if (mount("none", "x/mnt", "tmpfs", 0, NULL) < 0)
		skip();
	write_file("x/mnt/precious", "");
	assert_int_equal(layer_remove(base_fd, "x", &err), -EXDEV);
	assert_non_null(strstr(err.text, "mnt"));
	assert_int_equal(access("x/mnt/precious", F_OK), 0);
	assert_int_equal(umount("x/mnt"), 0);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
}

static void what_may_not_be_removed_is_an_error_that_names_it(void **state)
{
	struct error err = {0};

	(void)state;
	if (geteuid() == 0)
		skip();
	make_dir("x");
	make_dir("x/y");
	assert_int_equal(chmod("x", 0500), 0);
	{
		AUTO_CLOSE int x = open("x", O_PATH | O_DIRECTORY);

		assert_int_equal(layer_remove(x, "y", &err), -EACCES);
		assert_non_null(strstr(err.text, "\"y\""));
	}
	assert_int_equal(chmod("x", 0700), 0);
}

/* Changes. */

static void nothing_changed_is_nothing(void **state)
{
	struct changes_counts counts;

	(void)state;
	write_file("src/file", "x");
	make_layer();
	counts = scan(false);
	assert_int_equal(counts.added + counts.modified + counts.deleted, 0);
	assert_int_equal(counts.inodes + counts.bytes, 0);
}

static void each_kind_of_change_is_told(void **state)
{
	(void)state;
	make_dir("src/dir");
	make_dir("src/gone");
	write_file("src/gone/in", "");
	write_file("src/dir/file", "old");
	write_file("src/dir/same", "same");
	write_file("src/dir/mode", "mode");
	write_file("src/dir/grown", "a");
	write_file("src/deleted", "");
	assert_int_equal(symlink("a", "src/link"), 0);
	assert_int_equal(symlink("a", "src/touched"), 0);
	make_layer();
	make_dir("task/upper/dir");
	make_dir("task/upper/new");
	write_file("task/upper/new/file", "");
	write_file("task/upper/dir/file", "new");
	write_file("task/upper/dir/same", "same");
	write_file("task/upper/dir/mode", "mode");
	assert_int_equal(chmod("task/upper/dir/mode", 0755), 0);
	write_file("task/upper/dir/grown", "ab");
	write_file("task/upper/dir/added", "");
	whiteout("task/upper/deleted");
	whiteout("task/upper/gone");
	whiteout("task/upper/never-was");
	assert_int_equal(symlink("b", "task/upper/link"), 0);
	assert_int_equal(symlink("a", "task/upper/touched"), 0);
	assert_int_equal(mkfifo("task/upper/fifo", 0600), 0);
	EXPECT(false, "+ dir/added", "+ fifo", "+ new", "+ new/file",
	       "- deleted", "- gone", "~ dir/file", "~ dir/grown", "~ dir/mode",
	       "~ link");
}

static void a_directory_is_changed_by_its_mode_alone(void **state)
{
	(void)state;
	make_dir("src/a");
	make_dir("src/b");
	make_layer();
	make_dir("task/upper/a");
	make_dir("task/upper/b");
	assert_int_equal(chmod("task/upper/b", 0700), 0);
	assert_int_equal(chmod("task/upper", 0711), 0);
	EXPECT(false, "~ .", "~ b");
}

static void a_changed_type_is_a_modification(void **state)
{
	(void)state;
	write_file("src/file", "");
	make_dir("src/dir");
	write_file("src/dir/in", "");
	assert_int_equal(symlink("x", "src/link"), 0);
	make_layer();
	make_dir("task/upper/file");
	write_file("task/upper/file/in", "");
	write_file("task/upper/dir", "");
	write_file("task/upper/link", "");
	EXPECT(false, "+ file/in", "~ dir", "~ file", "~ link");
}

static void an_opaque_directory_is_compared_by_name(void **state)
{
	(void)state;
	make_dir("src/d");
	make_dir("src/d/sub");
	make_dir("src/d/sub/gone");
	write_file("src/d/sub/same", "same");
	write_file("src/d/sub/other", "");
	write_file("src/d/kept", "kept");
	write_file("src/d/lost", "");
	make_layer();
	make_dir("task/upper/d");
	mark("task/upper/d", "user.overlay.opaque", "y");
	make_dir("task/upper/d/sub");
	write_file("task/upper/d/sub/same", "same");
	write_file("task/upper/d/sub/new", "");
	write_file("task/upper/d/kept", "kept");
	EXPECT(false, "+ d/sub/new", "- d/lost", "- d/sub/gone",
	       "- d/sub/other");
}

static void whiteouts_made_of_attributes_are_known(void **state)
{
	(void)state;
	make_dir("src/d");
	write_file("src/d/gone", "x");
	write_file("src/d/empty", "x");
	make_layer();
	make_dir("task/upper/d");
	mark("task/upper/d", "user.overlay.opaque", "x");
	write_file("task/upper/d/gone", "");
	mark("task/upper/d/gone", "user.overlay.whiteout", "y");
	write_file("task/upper/d/empty", "");
	EXPECT(false, "- d/gone", "~ d/empty");
}

static void names_of_any_bytes_pass(void **state)
{
	(void)state;
	make_layer();
	write_file("task/upper/a\nb", "");
	write_file("task/upper/\xff\xfe", "");
	write_file("task/upper/\x1b[31m", "");
	write_file("task/upper/...", "");
	EXPECT(false, "+ \x1b[31m", "+ ...", "+ a\nb", "+ \xff\xfe");
}

static void ten_thousand_levels_are_scanned(void **state)
{
	struct rlimit old, low = {256, 256};
	struct changes_counts counts;

	(void)state;
	make_layer();
	make_deep("src", DEEP / 2);
	make_deep("task/upper", DEEP);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	counts = scan(false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(counts.added, DEEP / 2 + 1);
	assert_int_equal(counts.modified + counts.deleted, 0);
	assert_int_equal(counts.inodes, DEEP + 1);
	strlist_done(&seen);
}

static void siblings_on_the_way_back_up_are_not_forgotten(void **state)
{
	char path[1024] = "task/upper";
	struct changes_counts counts;

	(void)state;
	make_layer();
	for (int i = 0; i < 150; i++) {
		char file[1040];

		for (int k = 0; k < 3; k++) {
			snprintf(file, sizeof(file), "%s/f%d", path, k);
			write_file(file, "");
		}
		strcat(path, "/m");
		make_dir(path);
	}
	counts = scan(false);
	assert_int_equal(counts.added, 150 * 4);
	strlist_done(&seen);
}

static void a_link_in_the_upper_layer_leads_nowhere(void **state)
{
	(void)state;
	make_dir("src/d");
	write_file("src/d/file", "x");
	make_layer();
	make_dir("outside");
	write_file("outside/secret", "");
	assert_int_equal(symlink("../../outside", "task/upper/d"), 0);
	EXPECT(false, "~ d");
}

static void a_scan_ends_at_its_bound(void **state)
{
	struct changes_counts counts;
	struct error err = {0};

	(void)state;
	make_layer();
	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "task/upper/%d", i);
		write_file(name, "x");
	}
	assert_int_equal(changes_scan(task_fd, src_fd, false, 10, NULL, NULL,
				      &counts, &err), -E2BIG);
	assert_int_equal(counts.added, 10);
	assert_int_equal(changes_scan(task_fd, src_fd, false, 20, NULL, NULL,
				      &counts, &err), 0);
	assert_int_equal(counts.added, 20);
	assert_true(counts.bytes >= 20);
}

static int refuse(void *arg, const struct change *c)
{
	(void)arg;
	(void)c;
	return 42;
}

static void the_listener_can_end_the_scan(void **state)
{
	struct changes_counts counts;

	(void)state;
	make_layer();
	write_file("task/upper/a", "");
	assert_int_equal(changes_scan(task_fd, src_fd, false, 0, refuse, NULL,
				      &counts, NULL), 42);
}

static void a_missing_layer_is_an_error(void **state)
{
	struct changes_counts counts;
	struct error err = {0};

	(void)state;
	assert_int_equal(changes_scan(task_fd, src_fd, false, 0, NULL, NULL,
				      &counts, &err), -ENOENT);
	assert_non_null(strstr(err.text, "upper"));
	assert_int_equal(changes_scan(task_fd, src_fd, true, 0, NULL, NULL,
				      &counts, &err), -ENOENT);
	assert_non_null(strstr(err.text, "manifest"));
}

static void a_closed_directory_is_an_error_that_names_it(void **state)
{
	struct changes_counts counts;
	struct error err = {0};
	uint64_t bytes, inodes;

	(void)state;
	if (geteuid() == 0)
		skip();
	make_layer();
	make_dir("task/upper/a");
	assert_int_equal(mkdir("task/upper/a/shut", 0), 0);
	assert_int_equal(changes_scan(task_fd, src_fd, false, 0, NULL, NULL,
				      &counts, &err), -EACCES);
	assert_non_null(strstr(err.text, "a/shut"));
	assert_int_equal(changes_usage(task_fd, "upper", UINT64_MAX, UINT64_MAX,
				       &bytes, &inodes), -EACCES);
	assert_int_equal(inodes, 2);
}

static void usage_counts_links_once_and_stops_early(void **state)
{
	uint64_t bytes, inodes, one;
	struct stat st;

	(void)state;
	make_layer();
	write_file("task/upper/a", "content");
	assert_int_equal(stat("task/upper/a", &st), 0);
	one = (uint64_t)st.st_blocks * 512;
	assert_int_equal(link("task/upper/a", "task/upper/b"), 0);
	make_dir("task/upper/d");
	assert_int_equal(link("task/upper/a", "task/upper/d/c"), 0);
	assert_int_equal(stat("task/upper/d", &st), 0);
	assert_int_equal(changes_usage(task_fd, "upper", UINT64_MAX, UINT64_MAX,
				       &bytes, &inodes), 0);
	assert_int_equal(inodes, 4);
	assert_in_range(bytes, one + (uint64_t)st.st_blocks * 512 - 3,
			one + (uint64_t)st.st_blocks * 512);
	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "task/upper/%d", i);
		write_file(name, "");
	}
	assert_int_equal(changes_usage(task_fd, "upper", UINT64_MAX, 10, &bytes,
				       &inodes), 0);
	assert_int_equal(inodes, 11);
	assert_int_equal(changes_usage(task_fd, "none", 0, 0, &bytes, &inodes),
			 0);
	assert_int_equal(inodes, 0);
}

/* Makes, moves and removes what is being scanned, until killed. */
static void disturb(void)
{
	for (unsigned i = 0;; i++) {
		char a[64], b[64];

		snprintf(a, sizeof(a), "task/upper/r%u", i % 7);
		snprintf(b, sizeof(b), "task/upper/d/r%u", i % 5);
		mkdir(a, 0755);
		snprintf(a + strlen(a), 8, "/x");
		mkdir(a, 0755);
		a[strlen(a) - 2] = '\0';
		rename(a, b);
		if (symlink("/etc", a) == 0)
			unlink(a);
		snprintf(b + strlen(b), 8, "/x");
		rmdir(b);
		b[strlen(b) - 2] = '\0';
		rmdir(b);
	}
}

static void a_racing_writer_does_no_harm(void **state)
{
	struct changes_counts counts;
	pid_t pid;

	(void)state;
	make_layer();
	make_dir("task/upper/d");
	pid = fork();
	if (pid == 0)
		disturb();
	for (int i = 0; i < 300; i++) {
		struct error err = {0};
		int r = changes_scan(task_fd, src_fd, false, 0, remember, NULL,
				     &counts, &err);

		if (r != 0 && r != -ESTALE)
			fail_msg("%s", err.text);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (size_t i = 0; i < seen.n; i++)
		assert_null(strstr(seen.items[i], "passwd"));
	strlist_done(&seen);
}

static void failed_allocations_of_a_scan_are_errors(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	make_layer();
	make_deep("task/upper", 40);
	do {
		struct changes_counts counts;
		struct error err = {0};
		int r;

		heap_fail_at(n++);
		r = changes_scan(task_fd, src_fd, false, 0, NULL, NULL, &counts,
				 &err);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
	} while (failed);
	assert_true(n > 2);
}

/* Copies. */

static uint64_t copy(void)
{
	struct error err = {0};
	uint64_t files;

	make_layer();
	if (layer_copy(task_fd, &src, (uid_t)-1, (gid_t)-1, 0, &files, &err) <
	    0)
		fail_msg("%s", err.text);
	return files;
}

static void a_copy_is_like_its_source(void **state)
{
	char value[16];
	struct stat st, like;

	(void)state;
	make_dir("src/d");
	make_dir("src/d/e");
	write_file("src/d/a", "content");
	assert_int_equal(link("src/d/a", "src/d/e/b"), 0);
	assert_int_equal(symlink("../a", "src/d/e/link"), 0);
	write_file("src/x\n\xff", "");
	assert_int_equal(chmod("src/d/a", 0750), 0);
	mark("src/d/a", "user.note", "hello");
	mark("src/d/a", "user.overlay.origin", "no");
	mark("src/d", "user.note", "dir");
	assert_int_equal(mkfifo("src/fifo", 0600), 0);
	assert_int_equal(truncate("src/x\n\xff", 10 << 20), 0);
	assert_int_equal(chmod("src/d/e", 0500), 0);
	assert_int_equal(copy(), 6);
	assert_int_equal(stat("task/upper/d/a", &st), 0);
	assert_int_equal(stat("src/d/a", &like), 0);
	assert_int_equal(st.st_mode, like.st_mode);
	assert_int_equal(st.st_mtim.tv_nsec, like.st_mtim.tv_nsec);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(getxattr("task/upper/d/a", "user.note", value, 16), 5);
	assert_int_equal(getxattr("task/upper/d", "user.note", value, 16), 3);
	assert_int_equal(getxattr("task/upper/d/a", "user.overlay.origin",
				  value, 16), -1);
	assert_int_equal(readlink("task/upper/d/e/link", value, 16), 4);
	assert_int_equal(access("task/upper/fifo", F_OK), -1);
	assert_int_equal(stat("task/upper/x\n\xff", &st), 0);
	assert_int_equal(st.st_size, 10 << 20);
	assert_true(st.st_blocks < 1024);
	assert_int_equal(stat("task/upper/d/e", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0500);
	EXPECT(true, );
}

static void changes_of_a_copy_are_told(void **state)
{
	struct timespec t[2];
	struct stat st;

	(void)state;
	make_dir("src/d");
	make_dir("src/gone");
	write_file("src/gone/in", "");
	write_file("src/d/file", "old");
	write_file("src/d/sly", "old");
	write_file("src/d/touched", "same");
	write_file("src/d/host", "old");
	write_file("src/deleted", "");
	assert_int_equal(symlink("a", "src/link"), 0);
	copy();
	EXPECT(true, );
	usleep(20000);
	/* What the host does meanwhile is not the task's. */
	write_file("src/d/host", "changed by the host");
	write_file("src/d/host-new", "");
	write_file("task/upper/d/file", "newer");
	/* Same size, and the time put back. */
	assert_int_equal(stat("task/upper/d/sly", &st), 0);
	t[0] = st.st_atim;
	t[1] = st.st_mtim;
	write_file("task/upper/d/sly", "new");
	assert_int_equal(utimensat(AT_FDCWD, "task/upper/d/sly", t, 0), 0);
	write_file("task/upper/d/touched", "same");
	make_dir("task/upper/new");
	write_file("task/upper/new/x", "");
	assert_int_equal(unlink("task/upper/deleted"), 0);
	assert_int_equal(unlink("task/upper/gone/in"), 0);
	assert_int_equal(rmdir("task/upper/gone"), 0);
	assert_int_equal(unlink("task/upper/link"), 0);
	assert_int_equal(symlink("b", "task/upper/link"), 0);
	EXPECT(true, "+ new", "+ new/x", "- deleted", "- gone", "~ d/file",
	       "~ d/sly", "~ link");
}

static void a_deep_source_is_copied(void **state)
{
	struct rlimit old, low = {256, 256};

	(void)state;
	make_deep("src", 3000);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(copy(), 3001);
	EXPECT(true, );
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void what_cannot_be_read_is_there_but_closed(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid() == 0)
		skip();
	write_file("src/secret", "x");
	assert_int_equal(chmod("src/secret", 0), 0);
	make_dir("src/shut");
	assert_int_equal(chmod("src/shut", 0), 0);
	assert_int_equal(copy(), 2);
	assert_int_equal(stat("task/upper/secret", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(stat("task/upper/shut", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	/* Its deletion is a change. */
	assert_int_equal(unlink("task/upper/secret"), 0);
	assert_int_equal(rmdir("task/upper/shut"), 0);
	EXPECT(true, "- secret", "- shut");
}

static void a_copy_of_root_belongs_to_the_agent(void **state)
{
	struct error err = {0};
	uint64_t files;
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	make_dir("src/d");
	write_file("src/d/file", "x");
	assert_int_equal(chmod("src/d/file", 06755), 0);
	find_source();
	assert_int_equal(layer_make(task_fd, &src, 4711, 4712, &err), 0);
	assert_int_equal(layer_copy(task_fd, &src, 4711, 4712, 0, &files, &err),
			 0);
	assert_int_equal(stat("task/upper/d/file", &st), 0);
	assert_int_equal(st.st_uid, 4711);
	assert_int_equal(st.st_gid, 4712);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(stat("task/upper/d", &st), 0);
	assert_int_equal(st.st_uid, 4711);
}

static void the_state_directory_is_not_copied_into_itself(void **state)
{
	struct error err = {0};
	uint64_t files;
	int fd;

	(void)state;
	make_dir("src/pinfold");
	make_dir("src/pinfold/tasks");
	make_dir("src/pinfold/tasks/id");
	write_file("src/file", "");
	find_source();
	fd = open("src/pinfold/tasks/id", O_RDONLY | O_DIRECTORY);
	assert_int_equal(layer_make(fd, &src, (uid_t)-1, 0, &err), 0);
	assert_int_equal(layer_copy(fd, &src, (uid_t)-1, 0, 0, &files, &err),
			 0);
	assert_int_equal(files, 1);
	close(fd);
}

static void a_source_beyond_the_limit_is_refused(void **state)
{
	struct error err = {0};
	char big[20001];
	uint64_t files;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	write_file("src/a", big);
	write_file("src/b", big);
	make_layer();
	assert_int_equal(layer_copy(task_fd, &src, (uid_t)-1, 0, 30000, &files,
				    &err), -EFBIG);
	assert_non_null(strstr(err.text, "30000"));
	assert_int_equal(layer_remove(task_fd, "upper", NULL), 0);
	assert_int_equal(layer_remove(task_fd, "work", NULL), 0);
}

static void a_damaged_manifest_is_refused(void **state)
{
	struct changes_counts counts;
	struct stat st;

	(void)state;
	for (int i = 0; i < 50; i++) {
		char name[32];

		snprintf(name, sizeof(name), "src/%d", i);
		write_file(name, "x");
	}
	copy();
	assert_int_equal(stat("task/manifest", &st), 0);
	for (off_t size = st.st_size - 8; size >= 0; size -= 8) {
		struct error err = {0};
		int r;

		assert_int_equal(truncate("task/manifest", size), 0);
		r = changes_scan(task_fd, src_fd, true, 0, NULL, NULL, &counts,
				 &err);
		assert_int_equal(r, -EBADMSG);
	}
}

static void failed_allocations_of_a_copy_are_errors(void **state)
{
	size_t n = 0;
	bool failed;

	(void)state;
	make_dir("src/d");
	write_file("src/d/a", "x");
	assert_int_equal(link("src/d/a", "src/d/b"), 0);
	mark("src/d/a", "user.note", "x");
	find_source();
	do {
		struct error err = {0};
		uint64_t files;
		int r;

		assert_int_equal(layer_make(task_fd, &src, (uid_t)-1, 0, NULL),
				 0);
		heap_fail_at(n++);
		r = layer_copy(task_fd, &src, (uid_t)-1, 0, 0, &files, &err);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		assert_int_equal(layer_remove(task_fd, "upper", NULL), 0);
		assert_int_equal(layer_remove(task_fd, "work", NULL), 0);
		assert_int_equal(layer_remove(task_fd, "manifest", NULL), 0);
	} while (failed);
	assert_true(n > 4);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

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
		EACH(a_layer_has_the_mode_of_its_source),
		EACH(a_layer_of_root_belongs_to_the_agent),
		EACH(foreign_owners_are_trouble_unless_all_ids_are_mapped),
		EACH(a_source_that_holds_the_state_is_trouble),
		EACH(what_is_missing_is_removed_already),
		EACH(directories_without_permissions_are_removed),
		EACH(links_are_removed_and_not_followed),
		EACH(a_tree_of_ten_thousand_levels_is_removed),
		EACH(a_wide_directory_is_removed),
		EACH(files_of_others_are_removed_by_root),
		EACH(another_mount_is_not_emptied),
		EACH(what_may_not_be_removed_is_an_error_that_names_it),
		EACH(nothing_changed_is_nothing),
		EACH(each_kind_of_change_is_told),
		EACH(a_directory_is_changed_by_its_mode_alone),
		EACH(a_changed_type_is_a_modification),
		EACH(an_opaque_directory_is_compared_by_name),
		EACH(whiteouts_made_of_attributes_are_known),
		EACH(names_of_any_bytes_pass),
		EACH(ten_thousand_levels_are_scanned),
		EACH(siblings_on_the_way_back_up_are_not_forgotten),
		EACH(a_link_in_the_upper_layer_leads_nowhere),
		EACH(a_scan_ends_at_its_bound),
		EACH(the_listener_can_end_the_scan),
		EACH(a_missing_layer_is_an_error),
		EACH(a_closed_directory_is_an_error_that_names_it),
		EACH(usage_counts_links_once_and_stops_early),
		EACH(a_racing_writer_does_no_harm),
		EACH(failed_allocations_of_a_scan_are_errors),
		EACH(a_copy_is_like_its_source),
		EACH(changes_of_a_copy_are_told),
		EACH(a_deep_source_is_copied),
		EACH(what_cannot_be_read_is_there_but_closed),
		EACH(a_copy_of_root_belongs_to_the_agent),
		EACH(the_state_directory_is_not_copied_into_itself),
		EACH(a_source_beyond_the_limit_is_refused),
		EACH(a_damaged_manifest_is_refused),
		EACH(failed_allocations_of_a_copy_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
