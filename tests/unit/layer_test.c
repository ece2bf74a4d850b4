/*
 * Layers: made with the mode of their source, judged, and removed whatever they
 * hold.
 */
#include "tree.h"

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
	/* None that source_find takes, but there are others that it does. */
	assert_int_equal(source_find("/proc", NULL, NULL, 0, &s, NULL),
			 -EINVAL);
	assert_int_equal(source_find("/usr", NULL, NULL, 0, &s, NULL), 0);
	close(s.fd);
	s.fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(s.fd >= 0);
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
	(void)state;
	make_dir("x");
	make_deep("x", DEEP);
	make_dir("x/e");
	make_deep("x/e", 200);
	/* Also where a directory of the same name as a moved one lies. */
	make_dir("x/.moved-0");
	write_file("x/.moved-1", "");
	limit_descriptors(128);
	assert_int_equal(layer_remove(base_fd, "x", NULL), 0);
	limit_descriptors(0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
