#include "tree.h"

#include "ipc/channel.h"
#include "workspace/differ.h"
#include "workspace/lines.h"
#include "workspace/patch.h"

#define FILE_MODE (S_IFREG | 0644)

static char *patch_of(const char *path, const char *before, const char *after)
{
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);
	struct patch_change c = {.path = path};

	if (before)
		c.before = (struct patch_side){FILE_MODE, strlen(before),
					       before, strlen(before), NULL};
	if (after)
		c.after = (struct patch_side){FILE_MODE, strlen(after), after,
					      strlen(after), NULL};
	assert_int_equal(patch_write(&out, &c), 0);
	return strdup(buf_str(&out));
}

static void expect_patch(const char *before, const char *after,
			 const char *want)
{
	AUTO_FREE char *got = patch_of("f", before, after);

	assert_string_equal(got, want);
}

static void a_patch_is_what_git_writes(void **state)
{
	(void)state;
	expect_patch("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nf\ng\nh\n",
		     "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
		     "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
	expect_patch("", "a\n", "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
				"@@ -0,0 +1 @@\n+a\n");
	expect_patch("a", "a\n", "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
				 "@@ -1 +1 @@\n-a\n\\ No newline at end of "
				 "file\n+a\n");
	expect_patch(NULL, "x\ny", "diff --git a/f b/f\nnew file mode 100644\n"
				   "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n"
				   "+x\n+y\n\\ No newline at end of file\n");
	expect_patch("x\n", NULL, "diff --git a/f b/f\ndeleted file mode "
				  "100644\n--- a/f\n+++ /dev/null\n"
				  "@@ -1 +0,0 @@\n-x\n");
	expect_patch(NULL, "", "diff --git a/f b/f\nnew file mode 100644\n");
	expect_patch("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n3\n4\n5\n6\n7\n8\nx\n9\n",
		     "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
		     "@@ -1,9 +1,9 @@\n 1\n-2\n 3\n 4\n 5\n 6\n 7\n 8\n+x\n"
		     " 9\n");
	expect_patch("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "3\n4\n5\n6\n7\n8\n9\nx\n",
		     "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
		     "@@ -1,5 +1,3 @@\n-1\n-2\n 3\n 4\n 5\n"
		     "@@ -7,3 +5,4 @@\n 7\n 8\n 9\n+x\n");
}

static void names_are_quoted_as_git_does(void **state)
{
	AUTO_FREE char *plain = patch_of("a b", "x\n", "y\n");
	AUTO_FREE char *odd = patch_of("\xc3\xa4\n\"\x1b", "x\n", "y\n");

	(void)state;
	assert_non_null(strstr(plain, "diff --git a/a b b/a b\n--- a/a b\t\n"
				      "+++ b/a b\t\n"));
	assert_non_null(strstr(odd, "+++ \"b/\\303\\244\\n\\\"\\033\"\n"));
}

static struct patch_side side(mode_t mode, const char *data)
{
	return (struct patch_side){mode, strlen(data), data, strlen(data),
				   NULL};
}

static void expect_change(const struct patch_change *c, const char *want)
{
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);

	assert_int_equal(patch_write(&out, c), 0);
	assert_string_equal(buf_str(&out), want);
}

static void what_is_no_text_is_said_in_words(void **state)
{
	struct patch_side binary = {FILE_MODE, 3, "a\0b", 3, NULL};
	struct patch_side large = {FILE_MODE, 9u << 20, NULL, 0, "too large"};

	(void)state;
	expect_change(&(struct patch_change){.path = "f", .before = binary,
					     .after = large},
		      "# f: too large, 3 bytes -> 9.0 MiB\n"
		      "diff --git a/f b/f\nindex 0000000..0000000\nBinary files a/f and b/f differ\n");
	expect_change(&(struct patch_change){.path = "f", .after = binary},
		      "# f: binary, nothing -> 3 bytes\ndiff --git a/f b/f\n"
		      "new file mode 100644\nindex 0000000..0000000\n"
		      "Binary files /dev/null and b/f differ\n");
	expect_change(&(struct patch_change){.path = "p",
					     .after = {.mode = S_IFIFO | 0600}},
		      "# p is a FIFO\n");
	expect_change(&(struct patch_change){.path = "d",
					     .before = {.mode = S_IFDIR | 0755},
					     .after = {.mode = S_IFDIR | 0700}},
		      "# d was a directory\n# d is a directory\n"
		      "# d: permissions 0755 -> 0700\n");
}

static void modes_links_and_moves_are_told(void **state)
{
	(void)state;
	expect_change(&(struct patch_change){
			      .path = "f",
			      .before = side(S_IFREG | 0644, "x\n"),
			      .after = side(S_IFREG | 0755, "x\n")},
		      "diff --git a/f b/f\nold mode 100644\n"
		      "new mode 100755\n");
	expect_change(&(struct patch_change){
			      .path = "f",
			      .before = side(S_IFREG | 0644, "x\n"),
			      .after = side(S_IFREG | 0600, "x\n")},
		      "# f: permissions 0644 -> 0600\n");
	expect_change(&(struct patch_change){
			      .path = "l",
			      .held = "why",
			      .before = side(S_IFREG | 0644, "x\n"),
			      .after = side(S_IFLNK | 0777, "to")},
		      "# l held back: why\n# l: permissions 0644 -> 0777\n"
		      "diff --git a/l b/l\n"
		      "deleted file mode 100644\n--- a/l\n+++ /dev/null\n"
		      "@@ -1 +0,0 @@\n-x\ndiff --git a/l b/l\n"
		      "new file mode 120000\n--- /dev/null\n+++ b/l\n"
		      "@@ -0,0 +1 @@\n+to\n\\ No newline at end of file\n");
	expect_change(&(struct patch_change){
			      .path = "n",
			      .path_before = "o",
			      .before = side(S_IFREG | 0644, "x\n"),
			      .after = side(S_IFREG | 0644, "x\n")},
		      "diff --git a/o b/n\nsimilarity index 100%\n"
		      "rename from o\nrename to n\n");
}

/* Rebuilds both texts from the marks: whatever was marked, it must be right. */
static void check_marks(const struct lines *a, const struct lines *b)
{
	uint32_t i = 0, k = 0;

	for (;;) {
		while (i < a->n && a->changed[i])
			i++;
		while (k < b->n && b->changed[k])
			k++;
		if (i == a->n || k == b->n)
			break;
		assert_int_equal(a->id[i], b->id[k]);
		i++;
		k++;
	}
	assert_int_equal(i, a->n);
	assert_int_equal(k, b->n);
}

static size_t count_marks(const struct lines *l)
{
	size_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->changed[i];
	return n;
}

static char *random_text(unsigned *seed, size_t lines, unsigned kinds)
{
	AUTO_BUF struct buf b = BUF_INIT(64u << 20);

	for (size_t i = 0; i < lines; i++)
		buf_addf(&b, "%u\n", (unsigned)rand_r(seed) % kinds);
	return strdup(buf_str(&b));
}

static void any_two_texts_are_compared_rightly(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		size_t n = (size_t)rand_r(&seed) % 40;
		size_t m = (size_t)rand_r(&seed) % 40;
		unsigned kinds = 1 + (unsigned)rand_r(&seed) % 12;
		AUTO_FREE char *x = random_text(&seed, n, kinds);
		AUTO_FREE char *y = random_text(&seed, m, kinds);
		AUTO_LINES struct lines a = {0};
		AUTO_LINES struct lines b = {0};

		assert_int_equal(lines_compare(&a, x, strlen(x), &b, y,
					       strlen(y)), 0);
		check_marks(&a, &b);
	}
}

/* The length of the longest common part, by the book. */
static size_t common(const struct lines *a, const struct lines *b)
{
	size_t table[41][41] = {0};

	for (uint32_t i = 1; i <= a->n; i++)
		for (uint32_t k = 1; k <= b->n; k++) {
			size_t up = table[i - 1][k], left = table[i][k - 1];

			table[i][k] = a->id[i - 1] == b->id[k - 1]
					      ? table[i - 1][k - 1] + 1
				      : up > left ? up
						  : left;
		}
	return table[a->n][b->n];
}

static void small_texts_are_compared_in_the_shortest_way(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 500; round++) {
		AUTO_FREE char *x = random_text(&seed, 40, 6);
		AUTO_FREE char *y = random_text(&seed, 30, 6);
		AUTO_LINES struct lines a = {0};
		AUTO_LINES struct lines b = {0};

		assert_int_equal(lines_compare(&a, x, strlen(x), &b, y,
					       strlen(y)), 0);
		assert_int_equal(a.n - count_marks(&a), common(&a, &b));
	}
}

static void texts_made_to_be_hard_take_bounded_time(void **state)
{
	unsigned seed = 3;
	AUTO_FREE char *x = random_text(&seed, 400000, 2);
	AUTO_FREE char *y = random_text(&seed, 400000, 2);
	AUTO_LINES struct lines a = {0};
	AUTO_LINES struct lines b = {0};
	struct timespec from, to;

	(void)state;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	assert_int_equal(lines_compare(&a, x, strlen(x), &b, y, strlen(y)), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	check_marks(&a, &b);
	assert_true(to.tv_sec - from.tv_sec < 20);
}

static void more_lines_than_are_compared_are_told_as_binary(void **state)
{
	AUTO_FREE char *x = malloc(LINES_MAX + 2);
	AUTO_FREE char *patch = NULL;

	(void)state;
	memset(x, '\n', LINES_MAX + 1);
	x[LINES_MAX + 1] = '\0';
	patch = patch_of("f", x, "a\n");
	assert_non_null(strstr(patch, "# f: more lines than are compared, "));
	assert_non_null(strstr(patch, "Binary files a/f and b/f differ\n"));
	assert_null(strstr(patch, "@@"));
}

/* ---- the other process ---- */

static int channel = -1;
static pid_t server;

static void serve(void)
{
	int ends[2];

	assert_int_equal(channel_pair(ends), 0);
	server = fork();
	if (server == 0) {
		close(ends[0]);
		_exit(differ_serve(ends[1]) < 0);
	}
	close(ends[1]);
	channel = ends[0];
}

static int finish(void)
{
	int status;

	close(channel);
	assert_int_equal(waitpid(server, &status, 0), server);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int ask(const struct differ_ask *ask, struct buf *out)
{
	int r = differ_send(channel, ask);

	if (r < 0)
		return r;
	do
		r = differ_recv(channel, out);
	while (r > 0);
	return r;
}

static void files_are_compared_by_another_process(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(DIFFER_TEXT_MAX);
	struct differ_ask q = {.path = "f"};
	AUTO_CLOSE int before = -1;
	AUTO_CLOSE int after = -1;

	(void)state;
	write_file("src/a", "one\ntwo\n");
	write_file("src/b", "one\nthree\n");
	before = open("src/a", O_RDONLY);
	after = open("src/b", O_RDONLY);
	serve();
	q.before = (struct differ_side){FILE_MODE, 8, before, NULL, NULL};
	q.after = (struct differ_side){FILE_MODE, 10, after, NULL, NULL};
	assert_int_equal(ask(&q, &out), 0);
	assert_string_equal(buf_str(&out),
			    "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
			    "@@ -1,2 +1,2 @@\n one\n-two\n+three\n");
	buf_reset(&out);
	q.before = (struct differ_side){S_IFLNK | 0777, 0, -1, "old", NULL};
	q.after = (struct differ_side){S_IFLNK | 0777, 0, -1, "new", NULL};
	assert_int_equal(ask(&q, &out), 0);
	assert_non_null(strstr(buf_str(&out), "-old\n\\ No newline"));
	buf_reset(&out);
	q.before = (struct differ_side){.fd = -1};
	q.after = (struct differ_side){FILE_MODE, 1, -1, NULL, "closed to us"};
	assert_int_equal(ask(&q, &out), 0);
	assert_non_null(strstr(buf_str(&out), "# f: closed to us, nothing -> "));
	assert_int_equal(finish(), 0);
}

static void a_file_beyond_the_bound_is_not_read_into_memory(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(DIFFER_TEXT_MAX);
	struct differ_ask q = {.path = "f", .before = {.fd = -1}};
	AUTO_CLOSE int fd = -1;

	(void)state;
	write_file("src/big", "");
	assert_int_equal(truncate("src/big", (off_t)PATCH_FILE_MAX + 1), 0);
	fd = open("src/big", O_RDONLY);
	q.after = (struct differ_side){FILE_MODE, PATCH_FILE_MAX + 1, fd, NULL,
				       NULL};
	serve();
	assert_int_equal(ask(&q, &out), 0);
	assert_non_null(strstr(buf_str(&out), "too large to be compared, "
					      "nothing -> 8.0 MiB\n"));
	assert_int_equal(finish(), 0);
}

static void what_is_no_question_ends_the_other_process(void **state)
{
	static const char junk[] = "\xff\xff\xff\x7f""junk";
	struct message m;

	(void)state;
	for (uint16_t type = 0; type < 5; type++) {
		serve();
		assert_int_equal(channel_send(channel, type, junk,
					      sizeof(junk), NULL, 0), 0);
		assert_int_equal(channel_recv(channel, &m), 0);
		assert_int_equal(finish(), 1);
	}
}

static void an_answer_of_another_kind_is_refused(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(DIFFER_TEXT_MAX);
	int32_t code = 5;
	int ends[2];

	(void)state;
	assert_int_equal(channel_pair(ends), 0);
	assert_int_equal(channel_send(ends[1], 1, "x", 1, NULL, 0), 0);
	assert_int_equal(differ_recv(ends[0], &out), -EPROTO);
	assert_int_equal(channel_send(ends[1], 3, &code, 4, NULL, 0), 0);
	assert_int_equal(differ_recv(ends[0], &out), -EPROTO);
	close(ends[1]);
	assert_int_equal(differ_recv(ends[0], &out), -EPIPE);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_patch_is_what_git_writes),
		cmocka_unit_test(names_are_quoted_as_git_does),
		cmocka_unit_test(what_is_no_text_is_said_in_words),
		cmocka_unit_test(modes_links_and_moves_are_told),
		cmocka_unit_test(any_two_texts_are_compared_rightly),
		cmocka_unit_test(small_texts_are_compared_in_the_shortest_way),
		cmocka_unit_test(texts_made_to_be_hard_take_bounded_time),
		cmocka_unit_test(more_lines_than_are_compared_are_told_as_binary),
		EACH(files_are_compared_by_another_process),
		EACH(a_file_beyond_the_bound_is_not_read_into_memory),
		EACH(what_is_no_question_ends_the_other_process),
		cmocka_unit_test(an_answer_of_another_kind_is_refused),
	};

	return cmocka_run_group_tests_name("patch", tests, NULL, NULL);
}
