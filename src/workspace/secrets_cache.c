#include "workspace/secrets_cache.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "ipc/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VERSION 3
/* What an entry is of. */
enum { END, DIRECTORY, HIDDEN_FILE_THERE };
/* Clocks of file systems tick in steps; a change within one is not seen. */
#define SETTLED_NS 100000000

void secrets_cache_done(struct secrets_cache *c)
{
	buf_done(&c->dirs);
}

void secrets_cache_key(struct secrets_cache *c, int dir_fd, const char *source,
		       const struct strlist *globs)
{
	AUTO_BUF struct buf key = BUF_INIT(SECRETS_CACHE_MAX);

	codec_put_str(&key, source);
	codec_put_list(&key, globs);
	c->dir_fd = key.failed ? -1 : dir_fd;
	sha256_hex(buf_str(&key), key.len, c->name);
}

static void put_times(struct buf *b, const struct stat *st)
{
	codec_put_u64(b, st->st_dev);
	codec_put_u64(b, st->st_ino);
	codec_put_u64(b, (uint64_t)time_ns(&st->st_mtim));
	codec_put_u64(b, (uint64_t)time_ns(&st->st_ctim));
}

static int add(struct secrets_cache *c, uint32_t kind, const struct stat *st,
	       const char *path)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (time_ns(&now) < time_ns(&st->st_ctim) + SETTLED_NS)
		c->young = true;
	codec_put_u32(&c->dirs, kind);
	codec_put_str(&c->dirs, path);
	put_times(&c->dirs, st);
	/* Too many to be kept: there is no cache then. */
	if (c->dirs.failed == -EFBIG)
		c->dir_fd = -1;
	return c->dirs.failed == -ENOMEM ? -ENOMEM : 0;
}

int secrets_cache_add(struct secrets_cache *c, int fd, const char *path)
{
	struct stat st;

	if (c->dir_fd < 0)
		return 0;
	return fstat(fd, &st) < 0 ? -errno : add(c, DIRECTORY, &st, path);
}

int secrets_cache_add_hidden(struct secrets_cache *c, int source_fd,
			     const struct strlist *paths)
{
	struct stat st;
	int r = 0;

	for (size_t i = 0; i < paths->n && r == 0 && c->dir_fd >= 0; i++) {
		if (fstatat(source_fd, paths->items[i], &st,
			    AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
			r = add(c, HIDDEN_FILE_THERE, &st, paths->items[i]);
	}
	return r;
}

static bool is_same(int source_fd, const char *path, struct codec_reader *r)
{
	uint64_t dev = codec_get_u64(r), ino = codec_get_u64(r);
	uint64_t mtime = codec_get_u64(r), ctime = codec_get_u64(r);
	struct stat st;

	if (r->failed || !path ||
	    fstatat(source_fd, path, &st,
		    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return false;
	return st.st_dev == dev && st.st_ino == ino &&
	       (uint64_t)time_ns(&st.st_mtim) == mtime &&
	       (uint64_t)time_ns(&st.st_ctim) == ctime;
}

static int read_entry(struct codec_reader *r, int source_fd,
		      struct secrets *ret)
{
	uint32_t kind;

	if (codec_get_u32(r) != VERSION)
		return -EPROTO;
	ret->cut = codec_get_u32(r) != 0;
	codec_get_list(r, HIDE_PATHS_MAX + 1, &ret->found);
	codec_get_list(r, HIDE_PATHS_MAX + 1, &ret->denied);
	while ((kind = codec_get_u32(r)) == DIRECTORY ||
	       kind == HIDDEN_FILE_THERE) {
		const char *path = codec_get_str(r);

		if (!is_same(source_fd, path, r))
			return -ESTALE;
		ret->dirs += kind == DIRECTORY;
	}
	return kind == END && !r->failed ? codec_end(r) : -EPROTO;
}

int secrets_cache_get(struct secrets_cache *c, int source_fd,
		      struct secrets *ret)
{
	AUTO_BUF struct buf text = BUF_INIT(SECRETS_CACHE_MAX);
	struct codec_reader r;
	int e;

	if (c->dir_fd < 0)
		return -ENOENT;
	e = io_read_file(c->dir_fd, c->name, &text);
	if (e < 0)
		return e;
	r = (struct codec_reader){.data = buf_str(&text), .len = text.len};
	return read_entry(&r, source_fd, ret);
}

void secrets_cache_put(struct secrets_cache *c, const struct secrets *s)
{
	AUTO_BUF struct buf text = BUF_INIT(SECRETS_CACHE_MAX);
	AUTO_CLOSE int fd = -1;
	char temporary[SHA256_HEX_SIZE + 32];

	if (c->dir_fd < 0 || c->young || s->found.n > HIDE_PATHS_MAX)
		return;
	codec_put_u32(&text, VERSION);
	codec_put_u32(&text, s->cut);
	codec_put_list(&text, &s->found);
	codec_put_list(&text, &s->denied);
	buf_add(&text, c->dirs.data, c->dirs.len);
	codec_put_u32(&text, END);
	if (text.failed)
		return;
	snprintf(temporary, sizeof(temporary), "%s.%d", c->name, getpid());
	fd = openat(c->dir_fd, temporary,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (io_write_all(fd, text.data, text.len) < 0 ||
	    renameat(c->dir_fd, temporary, c->dir_fd, c->name) < 0)
		unlinkat(c->dir_fd, temporary, 0);
}
