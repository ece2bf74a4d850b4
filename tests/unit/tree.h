/*
 * Trees for the tests of workspaces, in a directory of the test's own: src is a
 * source, task a task's directory. Overlay-shaped uppers are made by hand:
 * whiteouts are devices 0:0, opaque directories carry an attribute.
 */
#ifndef PINFOLD_TESTS_TREE_H
#define PINFOLD_TESTS_TREE_H

#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "workspace/changes.h"
#include "workspace/layer.h"

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

static inline const char *temporary(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

static inline int make_base(void **state)
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

static inline int remove_base(void **state)
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

static inline void write_file(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)),
			 (ssize_t)strlen(content));
	close(fd);
}

static inline void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static inline void whiteout(const char *path)
{
	assert_int_equal(mknod(path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

static inline void mark(const char *path, const char *name, const char *value)
{
	assert_int_equal(setxattr(path, name, value, strlen(value), 0), 0);
}

static inline void find_source(void)
{
	char path[512];
	struct error err = {0};

	snprintf(path, sizeof(path), "%s/src", base);
	if (source_find(path, NULL, "/nonexistent", geteuid(), &src, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void make_layer(void)
{
	find_source();
	assert_int_equal(layer_make(task_fd, &src, (uid_t)-1, (gid_t)-1, NULL),
			 0);
}

/* A chain of n directories "d" below dir, made without holding them all. */
static inline void make_deep(const char *dir, int n)
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

static inline int remember(void *arg, const struct change *c)
{
	static const char *const signs[] = {"+", "~", "-"};

	(void)arg;
	return strlist_take(&seen,
			    str_format("%s %s", signs[c->kind], c->path));
}

static inline struct changes_counts scan(bool copied)
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

static inline void expect(bool copied, const char *const *lines)
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

/* With at most n descriptors; n 0: as many as before. */
static inline void limit_descriptors(unsigned n)
{
	static struct rlimit before;
	struct rlimit low = {n, 0};

	if (n > 0) {
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		low.rlim_max = before.rlim_max;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, n > 0 ? &low : &before), 0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

#endif
