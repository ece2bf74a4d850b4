#include "tree.h"

#include "base/cleanup.h"
#include "base/paths.h"
#include "workspace/hide.h"
#include "workspace/hide_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void sets_of_many_orders_are_sorted_alike(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (size_t n = 0; n < 200; n++) {
		AUTO_STRLIST struct strlist set = {0};

		for (size_t i = 0; i < n; i++) {
			seed = seed * 1103515245 + 12345;
			strlist_take(&set, str_format("%c/%u", 'a' + (int)i % 3,
						      seed >> 16 & 63));
		}
		paths_normalise(&set);
		for (size_t i = 1; i < set.n; i++)
			assert_true(path_compare(set.items[i - 1],
						 set.items[i]) < 0);
		for (size_t i = 0; i < set.n; i++)
			assert_true(paths_have(&set, set.items[i]));
	}
}

static void what_lies_below_another_one_is_dropped(void **state)
{
	AUTO_STRLIST struct strlist set = {0};

	(void)state;
	strlist_add(&set, "b/c");
	strlist_add(&set, "a-b");
	strlist_add(&set, "a");
	strlist_add(&set, "a/b");
	strlist_add(&set, "b/c");
	paths_normalise(&set);
	assert_int_equal(set.n, 3);
	assert_string_equal(set.items[0], "a");
	assert_string_equal(set.items[1], "a-b");
	assert_string_equal(set.items[2], "b/c");
	assert_true(paths_cover(&set, "a/b/c"));
	assert_false(paths_cover(&set, "b"));
}

static struct hide_ids own(void)
{
	const struct hide_ids ids = {getuid(), getgid(), getuid(), getgid(), 0};

	return ids;
}

/* A source with d (0750) and d/e, and what is hidden of it. */
static void fill(struct hide *h, int top)
{
	struct error err = {0};

	assert_int_equal(mkdirat(top, "source", 0755), 0);
	assert_int_equal(mkdirat(top, "source/d", 0755), 0);
	assert_int_equal(mkdirat(top, "source/d/e", 0755), 0);
	assert_int_equal(fchmodat(top, "source/d", 0750, 0), 0);
	strlist_add(&h->paths, "d/e/one");
	strlist_add(&h->paths, "d/two");
	strlist_add(&h->paths, "gone/three");
	h->git_config = strdup("[core]\n");
	{
		AUTO_CLOSE int fd = openat(top, "source",
					   O_PATH | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(hide_look(h, fd, getuid(), getgid(), &err), 0);
	}
}

static void a_layer_has_whiteouts_and_the_sources_directories(void **state)
{
	AUTO_HIDE struct hide h = {0};
	const int top = base_fd;
	AUTO_CLOSE int fd = -1;
	const struct hide_ids ids = own();
	struct error err = {0};
	struct stat st;

	(void)state;
	fill(&h, top);
	mkdirat(top, "layer", 0755);
	fd = openat(top, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(hide_make(fd, &h, &ids, &err), 0);
	assert_int_equal(fstatat(fd, "d/e/one", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
	assert_int_equal(fstatat(fd, "d/two", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(fstatat(fd, "gone/three", &st, AT_SYMLINK_NOFOLLOW),
			 0);
	assert_int_equal(fstatat(fd, "d", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(fstatat(fd, ".git/config", &st, AT_SYMLINK_NOFOLLOW),
			 0);
	assert_int_equal(st.st_size, 7);
}

static void a_foreign_directory_gives_what_it_gives_to_others(void **state)
{
	AUTO_HIDE struct hide h = {0};
	const int top = base_fd;
	AUTO_CLOSE int fd = -1;
	const struct hide_ids ids = own();
	struct error err = {0};
	struct stat st;

	(void)state;
	fill(&h, top);
	for (size_t i = 0; i < h.n_dirs; i++) {
		h.dirs[i].uid = getuid() + 1;
		h.dirs[i].mode = 0775;
	}
	mkdirat(top, "layer", 0755);
	fd = openat(top, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(hide_make(fd, &h, &ids, &err), 0);
	assert_int_equal(fstatat(fd, "d/e", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_int_equal(st.st_uid, getuid());
}

static void it_passes_through_a_message(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1u << 20);
	AUTO_HIDE struct hide h = {0}, again = {0};
	const int top = base_fd;
	struct codec_reader r;

	(void)state;
	fill(&h, top);
	assert_int_equal(hide_put(&b, &h), 0);
	r = (struct codec_reader){.data = b.data, .len = b.len};
	hide_get(&r, &again);
	assert_int_equal(codec_end(&r), 0);
	assert_int_equal(again.paths.n, 3);
	assert_int_equal(again.n_dirs, h.n_dirs);
	assert_string_equal(again.dirs[0].path, "d");
	assert_int_equal(again.dirs[0].mode, 0750);
	/* Cut anywhere, it is refused. */
	for (size_t len = 0; len < b.len; len++) {
		AUTO_HIDE struct hide cut = {0};

		r = (struct codec_reader){.data = b.data, .len = len};
		hide_get(&r, &cut);
		assert_int_equal(codec_end(&r), -EPROTO);
	}
}

static void a_kept_layer_is_found_again_and_held_while_it_is_open(void **state)
{
	AUTO_HIDE struct hide h = {0};
	const int top = base_fd;
	AUTO_CLOSE int first = -1, second = -1, other = -1;
	char name[SHA256_HEX_SIZE], same[SHA256_HEX_SIZE];
	const struct timespec old[2] = {{1, 0}, {1, 0}};
	const struct hide_ids ids = own();
	struct error err = {0};
	struct stat st;

	(void)state;
	fill(&h, top);
	mkdirat(top, "kept", 0755);
	{
		AUTO_CLOSE int kept = openat(top, "kept",
					     O_PATH | O_DIRECTORY | O_CLOEXEC);

		first = hide_store_open(kept, &h, &ids, name, &err);
		assert_true(first >= 0);
		second = hide_store_open(kept, &h, &ids, same, &err);
		assert_true(second >= 0);
		assert_string_equal(name, same);
		/* Another one is made, and what is old is looked at. */
		futimens(first, old);
		strlist_add(&h.paths, "z");
		other = hide_store_open(kept, &h, &ids, same, &err);
		assert_true(other >= 0);
		assert_int_equal(fstatat(kept, name, &st, 0), 0);
		/* Nobody holds it any more. */
		close_fd(first);
		close_fd(second);
		first = second = -1;
		strlist_add(&h.paths, "zz");
		close_fd(other);
		other = hide_store_open(kept, &h, &ids, same, &err);
		assert_true(other >= 0);
		assert_int_equal(fstatat(kept, name, &st, 0), -1);
	}
}

#define WITH_BASE(f) cmocka_unit_test_setup_teardown(f, make_base, remove_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_of_many_orders_are_sorted_alike),
		cmocka_unit_test(what_lies_below_another_one_is_dropped),
		WITH_BASE(a_layer_has_whiteouts_and_the_sources_directories),
		WITH_BASE(a_foreign_directory_gives_what_it_gives_to_others),
		WITH_BASE(it_passes_through_a_message),
		WITH_BASE(a_kept_layer_is_found_again_and_held_while_it_is_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
