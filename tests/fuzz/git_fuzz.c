/*
 * What a task may have left for git: a packed-refs file, the log of a stash, the
 * name of a reference, a HEAD and a configuration. The first byte says which; what
 * is taken is written again and must be taken again.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "workspace/git_log.h"
#include "workspace/git_name.h"
#include "workspace/git_packed.h"
#include "workspace/git_repo.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* A directory of its own, made once; the tests empty TMPDIR. */
static int scratch(void)
{
	static int dir = -1;
	char name[4096];
	const char *top = getenv("TMPDIR");

	if (dir >= 0)
		return dir;
	snprintf(name, sizeof(name), "%s/pinfold-fuzz-XXXXXX",
		 top ? top : "/tmp");
	require(mkdtemp(name) != NULL);
	dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(dir >= 0);
	return dir;
}

static void put(const char *name, const uint8_t *data, size_t size)
{
	AUTO_CLOSE int fd = -1;

	/* A file that is cut is written to the disk at once, a new one is not. */
	unlinkat(scratch(), name, 0);
	fd = openat(scratch(), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
}

static void try_packed(void)
{
	struct git_packed p, again;
	AUTO_STRLIST struct strlist none = {0};
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);

	if (git_packed_read(&p, scratch(), "f", 40) == 0) {
		require(git_packed_without(&p, &none, &out) == 0);
		require(out.len == p.text.len);
		for (size_t i = 0; i < p.n; i++) {
			require(git_is_id(p.refs[i].id, 40));
			require(git_packed_find(&p, p.refs[i].name) != NULL);
			strlist_add(&none, p.refs[i].name);
		}
		buf_reset(&out);
		require(git_packed_without(&p, &none, &out) == 0);
		put("f", (const uint8_t *)buf_str(&out), out.len);
		if (git_packed_read(&again, scratch(), "f", 40) == 0)
			require(again.n < p.n || p.n == 0);
		git_packed_done(&again);
	}
	git_packed_done(&p);
}

static void try_log(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf text = BUF_INIT(1u << 20);
	AUTO_BUF struct buf ids = BUF_INIT(1u << 20);

	if (size < 40 || buf_add(&text, data, size) < 0)
		return;
	/* The last line's new id, wherever it begins. */
	for (size_t i = 0; i + 82 <= size && i < 4096; i++) {
		if ((i > 0 && data[i - 1] != '\n') ||
		    !git_log_is_one(&text, 40, text.data + i + 41, 1000))
			continue;
		require(git_log_ids(&text, 40, &ids) == 0);
		require(ids.len == 41 * git_log_lines(&text));
		return;
	}
}

static void try_head(void)
{
	struct git_head head;
	struct stat st;

	if (git_read_head(scratch(), "f", 40, &head, &st) < 0)
		return;
	require((head.ref[0] == '\0') != (head.id[0] == '\0'));
	require(!head.ref[0] || !git_name_fault(head.ref));
	require(!head.id[0] || git_is_id(head.id, 40));
}

static void try_repo(const uint8_t *data, size_t size)
{
	static const char head[] = "ref: refs/heads/main\n";
	AUTO_BUF struct buf why = BUF_INIT(4096);
	struct git_repo g;
	int r;

	mkdirat(scratch(), ".git", 0700);
	mkdirat(scratch(), ".git/objects", 0700);
	put(".git/HEAD", (const uint8_t *)head, sizeof(head) - 1);
	put(".git/config", data, size);
	r = git_repo_open(&g, scratch(), &why);
	require(r == 0 || r == 1);
	require((r == 1) == (why.len > 0));
	git_repo_done(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 100000)
		return 0;
	put("f", data + 1, size - 1);
	switch (data[0]) {
	case 'p':
		try_packed();
		break;
	case 'l':
		try_log(data + 1, size - 1);
		break;
	case 'h':
		try_head();
		break;
	default:
		try_repo(data + 1, size - 1);
		break;
	}
	return 0;
}
