#include "tree.h"

#include "workspace/hidden.h"
#include "workspace/hide_renew.h"
#include "workspace/refresh_copy.h"
#include "workspace/refreshed.h"

#define START 1000
#define FIRST 2000
#define SECOND 3000

static void refresh_at(int64_t now_ns, const char *anew)
{
	AUTO_REFRESHED struct refreshed was;
	struct error err = {0};

	refreshed_open(&was, task_fd, START);
	assert_int_equal(refreshed_write(task_fd, &was, now_ns, NULL, anew,
					 &err),
			 0);
	assert_int_equal(renameat(task_fd, REFRESHED_NEW, task_fd,
				  REFRESHED_FILE),
			 0);
}

static int64_t since(const char *path)
{
	AUTO_REFRESHED struct refreshed r;

	refreshed_open(&r, task_fd, START);
	return refreshed_since(&r, path);
}

static void without_a_refresh_everything_counts_from_the_start(void **state)
{
	(void)state;
	assert_int_equal(since("f"), START);
	assert_int_equal(since("d/f"), START);
	assert_int_equal(since("."), START);
}

static void what_the_layer_held_counts_from_before_and_the_rest_from_then(
	void **state)
{
	(void)state;
	mkdir("task/upper", 0755);
	mkdir("task/upper/d", 0755);
	write_file("task/upper/d/f", "x");
	write_file("task/upper/first", "x");
	refresh_at(FIRST, NULL);
	assert_int_equal(since("first"), START);
	assert_int_equal(since("d"), START);
	assert_int_equal(since("d/f"), START);
	assert_int_equal(since("d/f/below"), START);
	assert_int_equal(since("d/g"), FIRST);
	assert_int_equal(since("second"), FIRST);
	assert_int_equal(since("firs"), FIRST);
	assert_int_equal(since("."), START);
	write_file("task/upper/second", "x");
	unlink("task/upper/first");
	refresh_at(SECOND, "second");
	assert_int_equal(since("d/f"), START);
	assert_int_equal(since("second"), SECOND);
	write_file("task/upper/third", "x");
	refresh_at(SECOND, NULL);
	assert_int_equal(since("second"), SECOND);
	assert_int_equal(since("first"), SECOND);
}

static void an_opaque_directory_covers_all_below_it(void **state)
{
	(void)state;
	mkdir("task/upper", 0755);
	mkdir("task/upper/d", 0755);
	write_file("task/upper/d/f", "x");
	if (setxattr("task/upper/d", "user.overlay.opaque", "y", 1, 0) < 0)
		skip();
	refresh_at(FIRST, NULL);
	assert_int_equal(since("d/f"), START);
	assert_int_equal(since("d/of/the/host"), START);
	assert_int_equal(since("e"), FIRST);
}

static void a_damaged_list_is_none(void **state)
{
	struct stat st;

	(void)state;
	mkdir("task/upper", 0755);
	write_file("task/upper/f", "x");
	refresh_at(FIRST, NULL);
	assert_int_equal(since("g"), FIRST);
	assert_int_equal(stat("task/" REFRESHED_FILE, &st), 0);
	for (off_t cut = st.st_size - 1; cut > 0; cut--) {
		assert_int_equal(truncate("task/" REFRESHED_FILE, cut), 0);
		assert_int_equal(since("f"), START);
		assert_int_equal(since("g"), START);
	}
	write_file("task/" REFRESHED_FILE, "nonsense that is long enough");
	assert_int_equal(since("g"), START);
}

static void more_that_is_hidden_is_added_and_read(void **state)
{
	struct error err = {0};
	struct hidden h = {0};
	struct hidden more = {0};

	(void)state;
	strlist_add(&more.paths, "a");
	assert_int_equal(hidden_add(task_fd, &more, &err), 0);
	strlist_add(&more.paths, "b/c");
	assert_int_equal(hidden_add(task_fd, &more, &err), 0);
	hidden_read(&h, task_fd, "");
	assert_int_equal(h.paths.n, 2);
	assert_true(hidden_has(&h, "b/c/d"));
	assert_false(hidden_has(&h, "b"));
	hidden_done(&h);
	hidden_done(&more);
	write_file("task/" HIDDEN_MORE, "cut");
	hidden_read(&h, task_fd, "");
	assert_true(h.lost);
	hidden_done(&h);
}

static void a_layer_that_hides_is_renewed_name_by_name(void **state)
{
	const struct hide_ids ids = {getuid(), getgid(), getuid(), getgid(), 0};
	AUTO_HIDE struct hide old = {0};
	AUTO_HIDE struct hide new = {0};
	AUTO_CLOSE int layer = -1;
	const char *path;
	struct error err = {0};
	struct stat st;

	(void)state;
	mkdir("task/hide", 0755);
	layer = open("task/hide", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	strlist_add(&old.paths, "a/x");
	strlist_add(&old.paths, "b");
	strlist_add(&new.paths, "a");
	strlist_add(&new.paths, "c/d/e");
	new.git_config = strdup("[core]\n");
	assert_int_equal(hide_look(&old, src_fd, getuid(), getgid(), &err), 0);
	assert_int_equal(hide_look(&new, src_fd, getuid(), getgid(), &err), 0);
	if (hide_make(layer, &old, &ids, &err) < 0)
		skip(); /* no whiteouts here */
	assert_true(hide_covers(layer, &old, &path));
	assert_false(hide_covers(layer, &new, &path));
	assert_int_equal(hide_renew(task_fd, "hide", &new, &ids, &err), 0);
	assert_true(hide_covers(layer, &new, &path));
	assert_false(hide_covers(layer, &old, &path));
	assert_int_equal(stat("task/hide/a", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(stat("task/hide/b", &st), -1);
	assert_int_equal(stat("task/hide.new", &st), -1);
}

/* The copy gets what the host has changed, but where the task has too. */
static void a_copy_is_brought_up_to_date(void **state)
{
	struct refresh_counts counts;
	const struct hide hide = {0};
	struct changes_counts changes;
	struct error err = {0};
	uint64_t files;
	struct stat st;

	(void)state;
	write_file("src/host", "old");
	write_file("src/both", "old");
	write_file("src/task", "old");
	mkdir("src/gone", 0755);
	write_file("src/gone/f", "old");
	find_source();
	assert_int_equal(layer_make(task_fd, &src, (uid_t)-1, (gid_t)-1, &err),
			 0);
	assert_int_equal(layer_copy(task_fd, &src, (uid_t)-1, (gid_t)-1, 0,
				    NULL, &files, &err),
			 0);
	write_file("task/upper/both", "task's");
	write_file("task/upper/task", "task's");
	write_file("src/host", "new one");
	write_file("src/both", "new one");
	unlink("src/gone/f");
	rmdir("src/gone");
	write_file("src/come", "new one");
	assert_int_equal(refresh_copy(task_fd, src_fd, &hide, &counts, &err),
			 0);
	assert_int_equal(counts.brought, 2);
	assert_int_equal(counts.removed, 2);
	assert_int_equal(stat("task/upper/host", &st), 0);
	assert_int_equal(st.st_size, 7);
	assert_int_equal(stat("task/upper/both", &st), 0);
	assert_int_equal(st.st_size, 6);
	assert_int_equal(stat("task/upper/gone", &st), -1);
	/* Before and after the manifest takes effect. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(changes_scan(task_fd, src_fd, true, 0, NULL,
					      NULL, &changes, &err),
				 0);
		assert_int_equal(changes.added, 0);
		assert_int_equal(changes.modified, 2);
		assert_int_equal(changes.deleted, 0);
		if (i == 0)
			assert_int_equal(rename("task/" MANIFEST_NEW,
						"task/" MANIFEST_FILE),
					 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_base, remove_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_a_refresh_everything_counts_from_the_start),
		TEST(what_the_layer_held_counts_from_before_and_the_rest_from_then),
		TEST(an_opaque_directory_covers_all_below_it),
		TEST(a_damaged_list_is_none),
		TEST(more_that_is_hidden_is_added_and_read),
		TEST(a_layer_that_hides_is_renewed_name_by_name),
		TEST(a_copy_is_brought_up_to_date),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
