/*
 * What a task changed, read from trees as hostile as an agent can make them.
 */
#include "tree.h"

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
	struct changes_counts counts;

	(void)state;
	make_layer();
	make_deep("src", DEEP / 2);
	make_deep("task/upper", DEEP);
	limit_descriptors(128);
	counts = scan(false);
	limit_descriptors(0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
