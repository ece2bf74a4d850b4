/*
 * Promotion below the command line: uppers made by hand, so that what no
 * sandbox would let an agent make is there too, and every allocation fails
 * once.
 */
#include "tree.h"

#include "workspace/place.h"
#include "workspace/promote.h"
#include "workspace/protect.h"
#include "workspace/taken.h"

static struct strlist none;
static struct protect nothing = PROTECT_INIT;

static struct promote_layer layer(void)
{
	return (struct promote_layer){
		.fd = task_fd,
		.source_fd = src_fd,
		.source = src.path,
		.since_ns = INT64_MAX,
		.protect = &nothing,
	};
}

static int promote(const struct promote_layer *l, struct promote_counts *counts,
		   struct error *err)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	const struct promote_want want = {.only = &none, .held = &none};
	unsigned number = 0;
	int r = taken_last(l->fd, false, &number);

	if (r == 0)
		r = promote_begin(&p, l, number + 1, err);
	if (r < 0)
		return r;
	r = promote_plan(&p, l, &want, true, counts, err);
	if (r == 0)
		r = promote_commit(&p, l, counts, err);
	if (r < 0 && p.journal.phase == JOURNAL_NEW)
		promote_drop(&p, l, NULL);
	return r;
}

static struct promote_counts promote_all(void)
{
	const struct promote_layer l = layer();
	struct promote_counts counts = {0};
	struct error err = {0};

	if (promote(&l, &counts, &err) < 0)
		fail_msg("%s", err.text);
	return counts;
}

static uint64_t undo_all(void)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	const struct promote_layer l = layer();
	struct error err = {0};
	uint64_t left = 0;
	unsigned number;

	assert_int_equal(taken_last(task_fd, true, &number), 0);
	if (promote_undo(&p, &l, number, &left, &err) < 0)
		fail_msg("%s", err.text);
	return left;
}

static void expect_file(const char *path, const char *content)
{
	char text[256];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		fail_msg("%s: %s", path, strerror(errno));
	text[n] = '\0';
	close(fd);
	assert_string_equal(text, content);
}

static void expect_none(const char *path)
{
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

static void make_some(void)
{
	make_dir("src/d");
	write_file("src/d/old", "old");
	write_file("src/d/gone", "gone");
	make_layer();
	make_dir("task/upper/d");
	write_file("task/upper/d/old", "new");
	whiteout("task/upper/d/gone");
	make_dir("task/upper/n");
	write_file("task/upper/n/f", "f");
}

static void what_was_promoted_is_no_change_until_it_is_undone(void **state)
{
	struct promote_counts counts;

	(void)state;
	make_some();
	counts = promote_all();
	assert_int_equal(counts.added, 2);
	assert_int_equal(counts.modified, 1);
	assert_int_equal(counts.deleted, 1);
	expect_file("src/d/old", "new");
	expect_file("src/n/f", "f");
	expect_none("src/d/gone");
	EXPECT(false);
	assert_int_equal(undo_all(), 0);
	expect_file("src/d/old", "old");
	expect_file("src/d/gone", "gone");
	expect_none("src/n");
	EXPECT(false, "+ n", "+ n/f", "- d/gone", "~ d/old");
}

static void every_allocation_that_fails_leaves_one_side(void **state)
{
	struct promote_counts counts;
	size_t n = 0;
	bool failed;

	(void)state;
	make_some();
	do {
		const struct promote_layer l = layer();
		struct error err = {0};
		enum journal_phase found;
		int r;

		heap_fail_at(n++);
		r = promote(&l, &counts, &err);
		failed = heap_restore();
		assert_int_equal(promote_recover(&l, &found, &err), 0);
		if (r < 0) {
			assert_true(failed);
			expect_file("src/d/old", "old");
			expect_none("src/n");
		} else {
			expect_file("src/d/old", "new");
			expect_file("src/n/f", "f");
			assert_int_equal(undo_all(), 0);
		}
	} while (failed);
	assert_true(n > 10);
}

static void set_id_bits_and_strange_attributes_stay_behind(void **state)
{
	struct stat st;

	(void)state;
	make_layer();
	write_file("task/upper/f", "f");
	make_dir("task/upper/d");
	assert_int_equal(chmod("task/upper/f", 06755), 0);
	assert_int_equal(chmod("task/upper/d", 07755), 0);
	mark("task/upper/f", "user.overlay.metacopy", "x");
	mark("task/upper/f", "user.mine", "kept");
	promote_all();
	assert_int_equal(stat("src/f", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(stat("src/d", &st), 0);
	assert_int_equal(st.st_mode & 07777, 01755);
	assert_int_equal(getxattr("src/f", "user.mine", NULL, 0), 4);
	assert_true(getxattr("src/f", "user.overlay.metacopy", NULL, 0) < 0);
}

/* version 2; user::rw-, user:4242:r--, group::r--, mask::r--, other::--- */
static const unsigned char list[] = {
	2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0x92, 0x10, 0,
	0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32,
	0, 0, 0, 255, 255, 255, 255};

static void access_lists_are_the_hosts(void **state)
{
	char name[] = "system.posix_acl_access";

	(void)state;
	make_dir("src/d");
	write_file("src/with", "old");
	write_file("src/without", "old");
	if (setxattr("src/with", name, list, sizeof(list), 0) < 0)
		skip();
	assert_int_equal(setxattr("src/d", "system.posix_acl_default", list,
				  sizeof(list), 0),
			 0);
	make_layer();
	make_dir("task/upper/d");
	write_file("task/upper/with", "new");
	write_file("task/upper/without", "new");
	write_file("task/upper/d/new", "new");
	make_dir("task/upper/d/sub");
	assert_int_equal(
		setxattr("task/upper/without", name, list, sizeof(list), 0), 0);
	promote_all();
	expect_file("src/with", "new");
	assert_int_equal(getxattr("src/with", name, NULL, 0), sizeof(list));
	assert_true(getxattr("src/without", name, NULL, 0) < 0);
	assert_int_equal(getxattr("src/d/new", name, NULL, 0), sizeof(list));
	assert_int_equal(
		getxattr("src/d/sub", "system.posix_acl_default", NULL, 0),
		sizeof(list));
}

static void a_tree_of_any_depth_comes_and_goes_back(void **state)
{
	(void)state;
	make_layer();
	make_deep("task/upper", 3000);
	assert_int_equal(promote_all().added, 3001);
	EXPECT(false);
	assert_int_equal(undo_all(), 0);
	expect_none("src/d");
	assert_int_equal(scan(false).added, 3001);
}

static void a_save_between_look_and_rename_is_a_conflict(void **state)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	const struct promote_want want = {.only = &none, .held = &none};
	struct promote_counts counts = {0};
	struct error err = {0};
	struct promote_layer l;

	(void)state;
	make_some();
	l = layer();
	assert_int_equal(promote_begin(&p, &l, 1, &err), 0);
	assert_int_equal(promote_plan(&p, &l, &want, true, &counts, &err), 0);
	write_file("src/save", "the host's");
	assert_int_equal(rename("src/save", "src/d/old"), 0);
	make_dir("src/n");
	if (promote_commit(&p, &l, &counts, &err) < 0)
		fail_msg("%s", err.text);
	expect_file("src/d/old", "the host's");
	assert_int_equal(counts.skipped, 2);
	assert_int_equal(counts.deleted, 1);
}

/* Which entry of the journal an act leads to. */
static struct journal_entry *entry(struct promotion *p, const char *path)
{
	struct journal_entry *e = journal_next(&p->journal, NULL);

	while (e && !str_eq(e->path, path))
		e = journal_next(&p->journal, e);
	assert_non_null(e);
	return e;
}

static void an_undo_of_a_directory_that_was_filled_leaves_it(void **state)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	struct promote_layer l;
	struct error err = {0};
	uint64_t left;

	(void)state;
	make_some();
	promote_all();
	write_file("src/n/mine", "the host's");
	l = layer();
	assert_int_equal(promote_undo(&p, &l, 1, &left, &err), 0);
	assert_int_equal(left, 1);
	assert_int_equal(entry(&p, "n")->why, SKIP_NOT_EMPTY);
	assert_int_equal(entry(&p, "n")->state, STATE_PLACED);
	expect_file("src/n/mine", "the host's");
	expect_none("src/n/f");
}

static void a_journal_that_was_cut_is_no_journal(void **state)
{
	const struct promote_layer *l;
	struct promote_layer one;
	struct error err = {0};
	enum journal_phase found;

	(void)state;
	make_some();
	promote_all();
	assert_int_equal(truncate("task/held/1/journal.done", 100), 0);
	one = layer();
	l = &one;
	assert_int_equal(promote_recover(l, &found, &err), 0);
	assert_int_equal(found, JOURNAL_NONE);
	strlist_done(&seen);
	assert_true(changes_scan(task_fd, src_fd, false, 0, remember, NULL,
				 &(struct changes_counts){0}, &err) < 0);
	assert_non_null(strstr(err.text, "journal of promotion 1"));
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat st;

	assert_int_equal(fstat(in, &st), 0);
	assert_int_equal(copy_file_range(in, NULL, out, NULL,
					 (size_t)st.st_size, 0), st.st_size);
	close(in);
	close(out);
}

/* Where the first entry of a finished journal ends; its size; its count. */
static off_t end_of_first(off_t *size)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	int dir = open("task/held/1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct journal_entry *first;

	assert_int_equal(journal_open(&p.journal, dir), 0);
	first = journal_next(&p.journal, NULL);
	assert_non_null(first);
	assert_true(journal_head(&p.journal)->n > 1);
	*size = (off_t)p.journal.len;
	return (off_t)(sizeof(struct journal_head) + first->size);
}

static void nothing_is_done_by_a_journal_that_is_not_whole(void **state)
{
	static const char *const names[] = {"task/held/1/journal.go",
					    "task/held/1/journal.back",
					    "task/held/1/journal.done"};
	off_t cuts[6], size;
	size_t n = 0;

	(void)state;
	make_some();
	promote_all();
	cuts[n++] = end_of_first(&size); /* between two entries */
	cuts[n++] = cuts[0] + 8;
	cuts[n++] = size - 8;
	cuts[n++] = (off_t)sizeof(struct journal_head); /* none is left */
	cuts[n++] = 100;
	cuts[n++] = size + 8;
	for (size_t i = 0; i < n * ARRAY_SIZE(names); i++) {
		AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
		const char *name = names[i % ARRAY_SIZE(names)];
		const struct promote_layer l = layer();
		bool done = strstr(name, ".done");
		enum journal_phase found;
		struct error err = {0};
		uint64_t left;

		copy_file("task/held/1/journal.done", "whole");
		assert_int_equal(rename("task/held/1/journal.done", name), 0);
		assert_int_equal(truncate(name, cuts[i / ARRAY_SIZE(names)]),
				 0);
		assert_int_equal(done ? promote_undo(&p, &l, 1, &left, &err)
				      : promote_recover(&l, &found, &err),
				 -EUCLEAN);
		/* The originals are where they were, and so is the source. */
		assert_int_equal(access(name, F_OK), 0);
		expect_file("src/d/old", "new");
		expect_file("src/n/f", "f");
		assert_int_equal(changes_scan(task_fd, src_fd, false, 0, NULL,
					      NULL,
					      &(struct changes_counts){0},
					      &err),
				 -EUCLEAN);
		assert_non_null(strstr(err.text, "journal of promotion 1"));
		assert_int_equal(unlink(name), 0);
		assert_int_equal(rename("whole", "task/held/1/journal.done"),
				 0);
	}
	assert_int_equal(undo_all(), 0);
	expect_file("src/d/old", "old");
}

static void a_name_that_differs_in_case_is_a_name(void **state)
{
	(void)state;
	make_layer();
	write_file("task/upper/Readme", "a");
	write_file("task/upper/README", "b");
	write_file("task/upper/\xff\n\x1b", "odd");
	assert_int_equal(promote_all().added, 3);
	expect_file("src/Readme", "a");
	expect_file("src/README", "b");
	expect_file("src/\xff\n\x1b", "odd");
}

static void special_files_of_the_host_can_be_deleted(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkfifo("src/fifo", 0600), 0);
	make_layer();
	whiteout("task/upper/fifo");
	assert_int_equal(promote_all().deleted, 1);
	expect_none("src/fifo");
	assert_int_equal(undo_all(), 0);
	assert_int_equal(stat("src/fifo", &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
}

static void forgetting_leaves_what_is_in_the_source(void **state)
{
	struct error err = {0};

	(void)state;
	make_some();
	promote_all();
	assert_int_equal(promote_forget(task_fd, &err), 0);
	expect_none("task/held");
	expect_file("src/d/old", "new");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(what_was_promoted_is_no_change_until_it_is_undone),
		EACH(every_allocation_that_fails_leaves_one_side),
		EACH(set_id_bits_and_strange_attributes_stay_behind),
		EACH(access_lists_are_the_hosts),
		EACH(a_tree_of_any_depth_comes_and_goes_back),
		EACH(a_save_between_look_and_rename_is_a_conflict),
		EACH(an_undo_of_a_directory_that_was_filled_leaves_it),
		EACH(a_journal_that_was_cut_is_no_journal),
		EACH(nothing_is_done_by_a_journal_that_is_not_whole),
		EACH(a_name_that_differs_in_case_is_a_name),
		EACH(special_files_of_the_host_can_be_deleted),
		EACH(forgetting_leaves_what_is_in_the_source),
	};

	umask(022);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
