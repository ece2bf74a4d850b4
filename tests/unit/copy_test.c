/*
 * Copies of a source, and what was changed in them.
 */
#include "tree.h"

static uint64_t copy(void)
{
	struct error err = {0};
	uint64_t files;

	make_layer();
	if (layer_copy(task_fd, &src, (uid_t)-1, (gid_t)-1, 0, NULL, &files, &err) <
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
	(void)state;
	make_deep("src", 3000);
	limit_descriptors(128);
	assert_int_equal(copy(), 3001);
	EXPECT(true, );
	limit_descriptors(0);
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
	EXPECT(true, );
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
	assert_int_equal(layer_copy(task_fd, &src, 4711, 4712, 0, NULL, &files,
				    &err), 0);
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
	assert_int_equal(layer_copy(fd, &src, (uid_t)-1, 0, 0, NULL, &files, &err),
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
	assert_int_equal(layer_copy(task_fd, &src, (uid_t)-1, 0, 30000, NULL,
				    &files, &err), -EFBIG);
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
		r = layer_copy(task_fd, &src, (uid_t)-1, 0, 0, NULL, &files,
			       &err);
		failed = heap_restore();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		assert_int_equal(layer_remove(task_fd, "upper", NULL), 0);
		assert_int_equal(layer_remove(task_fd, "work", NULL), 0);
		assert_int_equal(layer_remove(task_fd, "manifest", NULL), 0);
	} while (failed);
	assert_true(n > 4);
}

static int third_time(void *arg, uint64_t files, uint64_t bytes)
{
	unsigned *n = arg;

	(void)files;
	(void)bytes;
	return ++*n == 3;
}

static void what_would_be_copied_is_measured(void **state)
{
	static char big[100001];
	uint64_t files, bytes;
	struct error err = {0};

	(void)state;
	make_dir("src/d");
	write_file("src/d/one", "x");
	assert_int_equal(link("src/d/one", "src/d/two"), 0);
	assert_int_equal(mkfifo("src/fifo", 0600), 0);
	memset(big, 'x', sizeof(big) - 1);
	write_file("src/big", big);
	make_layer();
	assert_int_equal(layer_measure(task_fd, &src, NULL, &files, &bytes,
				       &err), 0);
	assert_int_equal(files, 4);
	assert_in_range(bytes, 100000, 130000);
}

static void who_watches_can_end_a_copy_and_its_measuring(void **state)
{
	unsigned asked = 0;
	const struct layer_watch watch = {third_time, &asked};
	uint64_t files, bytes;
	struct error err = {0};

	(void)state;
	for (char name[] = "src/a"; name[4] < 'f'; name[4]++)
		write_file(name, "x");
	make_layer();
	assert_int_equal(layer_measure(task_fd, &src, &watch, &files, &bytes,
				       &err), -EINTR);
	asked = 0;
	assert_int_equal(layer_copy(task_fd, &src, (uid_t)-1, 0, 0, &watch,
				    &files, &err), -EINTR);
	assert_int_equal(asked, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(a_copy_is_like_its_source),
		EACH(changes_of_a_copy_are_told),
		EACH(a_deep_source_is_copied),
		EACH(what_cannot_be_read_is_there_but_closed),
		EACH(a_copy_of_root_belongs_to_the_agent),
		EACH(the_state_directory_is_not_copied_into_itself),
		EACH(a_source_beyond_the_limit_is_refused),
		EACH(a_damaged_manifest_is_refused),
		EACH(what_would_be_copied_is_measured),
		EACH(who_watches_can_end_a_copy_and_its_measuring),
		EACH(failed_allocations_of_a_copy_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
