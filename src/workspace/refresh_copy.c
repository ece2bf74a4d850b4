/*
 * Theory of operation. Source and copy are walked side by side, and a new
 * manifest is written as the walk goes. For each name three things are looked at:
 * what the manifest has of it (was), what the source has, and what the copy has.
 * The source's is another than it was: the host has changed it. The copy's is:
 * the task has (the kernel's change time tells). Where the host alone has, the
 * copy gets the source's; else the entry of the old manifest stays.
 *
 * An agent made the copy, but nothing runs in it now: names are looked up below
 * held descriptors and not followed, which is enough then.
 */
#include "workspace/refresh_copy.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/time.h"
#include "workspace/changes.h"
#include "workspace/compare.h"
#include "workspace/copy_file.h"
#include "workspace/layer.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 4096
#define FRESH "f"
#define GIT_CONFIG ".git/config"

struct bring {
	struct walk walk; /* the source, and the copy beside it */
	struct manifest was;
	struct manifest_writer now;
	const struct hide *hide;
	int stage;
	struct stat owner; /* of what is made: the copy's */
	dev_t state_dev;   /* the state directory, which is not copied */
	ino_t state_ino;
	uint64_t budget;   /* of bytes to compare */
	unsigned depth;
	struct refresh_counts *counts;
};

/* One name of the directory that is looked at. */
struct entry {
	const char *name;
	const struct manifest_entry *was; /* NULL: it was not there */
	struct stat source, copy;
	bool copied; /* the copy has one */
};

static void bring_done(struct bring *b)
{
	walk_done(&b->walk);
	manifest_done(&b->was);
	manifest_writer_done(&b->now);
	close_fd(b->stage);
}

#define AUTO_BRING __attribute__((cleanup(bring_done)))

static int here(struct bring *b)
{
	return walk_top(&b->walk)->other;
}

static int fail(struct bring *b, struct error *err, int code, const char *name)
{
	return walk_error(&b->walk, err, code, "cannot refresh", name);
}

static int is_equal(struct bring *b, const struct entry *e)
{
	if (e->copy.st_mode != (e->source.st_mode & ~06000u))
		return 0;
	if (S_ISLNK(e->copy.st_mode))
		return compare_links(here(b), walk_fd(&b->walk), e->name);
	return S_ISREG(e->copy.st_mode) &&
	       e->copy.st_size == e->source.st_size &&
	       compare_files(here(b), walk_fd(&b->walk), e->name,
			     (uint64_t)e->copy.st_size, CHANGES_COMPARE_FILE,
			     &b->budget);
}

/* ---- the manifest ---- */

/* As the copy has it now, which is what the source has. */
static int note(struct bring *b, const char *name, const struct stat *source,
		uint64_t block, struct error *err)
{
	struct manifest_entry e = {.block = block};
	struct stat st;
	int r;

	if (fstatat(here(b), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(b, err, -errno, name);
	e.size = (uint64_t)st.st_size;
	e.mode = st.st_mode;
	e.mtime_ns = time_ns(&st.st_mtim);
	e.ctime_ns = time_ns(&st.st_ctim);
	e.source_ctime_ns = time_ns(&source->st_ctim);
	r = manifest_add(&b->now, &e, name);
	return r < 0 ? fail(b, err, r, name) : 0;
}

/* As it was, with all that was in it. 0 or a negative errno. */
static int carry(struct bring *b, const struct manifest_entry *was)
{
	struct manifest_entry e = *was;
	size_t start = b->now.n;
	uint64_t n = S_ISDIR((mode_t)was->mode)
			     ? manifest_count(&b->was, was->block)
			     : 0;
	int r = b->depth++ < DEPTH_MAX ? 0 : -ENAMETOOLONG;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		const struct manifest_entry *in =
			manifest_at(&b->was, was->block, i);

		r = in ? carry(b, in) : -EBADMSG;
	}
	if (r == 0 && S_ISDIR((mode_t)was->mode))
		r = manifest_end(&b->now, start, &e.block);
	b->depth--;
	return r == 0 ? manifest_add(&b->now, &e, was->name) : r;
}

/* Both have changed it: the task's stays, and the conflict is found later. */
static int stay(struct bring *b, const struct entry *e, struct error *err)
{
	int r = e->was ? carry(b, e->was) : 0;

	return r < 0 ? fail(b, err, r, e->name) : 0;
}

/* ---- what goes ---- */

static int drop_tree(struct bring *b, int dir, const struct manifest_entry *was);

/* 1: it is gone from the copy; 0: the task has changed it, or it is none. */
static int drop(struct bring *b, int dir, const struct manifest_entry *was)
{
	struct stat st;

	if (fstatat(dir, was->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (((st.st_mode ^ was->mode) & S_IFMT) != 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return drop_tree(b, dir, was);
	if (!manifest_is_copy(was, &st))
		return 0;
	if (unlinkat(dir, was->name, 0) < 0)
		return -errno;
	b->counts->removed++;
	return 1;
}

static int drop_tree(struct bring *b, int dir, const struct manifest_entry *was)
{
	AUTO_CLOSE int fd = walk_open_at(dir, was->name, O_PATH | O_DIRECTORY);
	uint64_t n = manifest_count(&b->was, was->block);
	int r = fd < 0 ? fd : b->depth++ < DEPTH_MAX ? 0 : -ENAMETOOLONG;

	for (uint64_t i = 0; i < n && r >= 0; i++) {
		const struct manifest_entry *in =
			manifest_at(&b->was, was->block, i);

		r = in ? drop(b, fd, in) : -EBADMSG;
	}
	b->depth -= fd >= 0;
	if (r < 0)
		return r;
	if (unlinkat(dir, was->name, AT_REMOVEDIR) < 0)
		return errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
	b->counts->removed++;
	return 1;
}

/* What the source has no more. */
static int drop_gone(struct bring *b, const struct manifest_entry *was,
		     struct error *err)
{
	int r = drop(b, here(b), was);

	if (r == 0)
		r = carry(b, was);
	return r < 0 ? fail(b, err, r, was->name) : 0;
}

/* ---- what comes ---- */

static bool is_git_config(struct bring *b, const char *name)
{
	return b->hide->git_config && str_eq(name, "config") &&
	       str_eq(buf_str(&b->walk.path), ".git");
}

static int make_text(int dir, const char *text)
{
	AUTO_CLOSE int fd = openat(dir, FRESH,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
					   O_CLOEXEC,
				   0600);

	return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

/* In the stage. 0 or negative: -ENOENT, -ELOOP if it went meanwhile. */
static int make_fresh(struct bring *b, const struct entry *e)
{
	mode_t mode = e->source.st_mode & 01777;
	int from = walk_fd(&b->walk), r;

	if (unlinkat(b->stage, FRESH, 0) < 0 && errno != ENOENT)
		return -errno;
	if (S_ISLNK(e->source.st_mode))
		r = copy_make_link(from, e->name, b->stage, FRESH);
	else if (is_git_config(b, e->name))
		r = make_text(b->stage, b->hide->git_config);
	else
		r = copy_make_file(from, e->name, &e->source, b->stage, FRESH);
	/* What cannot be read is there, and closed, as in the first copy. */
	if (r == -EACCES) {
		mode = 0;
		r = make_text(b->stage, "");
	}
	return r == 0 ? copy_dress(b->stage, FRESH, &b->owner, &e->source, mode)
		      : r;
}

/* The source's file or link, in the place of what the copy had. */
static int bring_file(struct bring *b, const struct entry *e, struct error *err)
{
	int r = make_fresh(b, e);

	if (r == -ENOENT || r == -ELOOP)
		return stay(b, e, err);
	if (r == 0 && renameat(b->stage, FRESH, here(b), e->name) < 0)
		r = -errno;
	if (r < 0)
		return fail(b, err, r, e->name);
	b->counts->brought++;
	return note(b, e->name, &e->source, 0, err);
}

/* The host has not changed it. What was touched and is equal is known anew. */
static int keep(struct bring *b, const struct entry *e, struct error *err)
{
	if (e->copied && !manifest_is_copy(e->was, &e->copy) &&
	    time_ns(&e->copy.st_mtim) == e->was->mtime_ns && is_equal(b, e))
		return note(b, e->name, &e->source, 0, err);
	return stay(b, e, err);
}

/* In the place of a directory, if nothing of the task's is in it. */
static int bring_over_directory(struct bring *b, const struct entry *e,
				struct error *err)
{
	int r = drop(b, here(b), e->was);

	if (r < 0)
		return fail(b, err, r, e->name);
	return r > 0 ? bring_file(b, e, err) : stay(b, e, err);
}

/* Both have changed it; perhaps to the same. */
static int look_at_both(struct bring *b, const struct entry *e,
			struct error *err)
{
	int r;

	if (!is_equal(b, e))
		return stay(b, e, err);
	r = copy_dress(here(b), e->name, &b->owner, &e->source,
		       e->copy.st_mode & 07777);
	return r < 0 ? fail(b, err, r, e->name)
		     : note(b, e->name, &e->source, 0, err);
}

static int look_at_file(struct bring *b, const struct entry *e,
			struct error *err)
{
	const struct manifest_entry *was = e->was;

	if (!was)
		return e->copied ? look_at_both(b, e, err)
				 : bring_file(b, e, err);
	if (manifest_is_source(was, &e->source))
		return keep(b, e, err);
	if (!e->copied)
		return stay(b, e, err);
	if (S_ISDIR((mode_t)was->mode) && S_ISDIR(e->copy.st_mode))
		return bring_over_directory(b, e, err);
	return manifest_is_copy(was, &e->copy) ? bring_file(b, e, err)
					       : look_at_both(b, e, err);
}

/* ---- directories ---- */

/* One into which the walk does not go. */
static int end_empty(struct bring *b, const struct entry *e, mode_t mode,
		     struct error *err)
{
	uint64_t block = 0;
	int r = copy_dress(here(b), e->name, &b->owner, &e->source, mode);

	if (r == 0)
		r = manifest_end(&b->now, b->now.n, &block);
	return r < 0 ? fail(b, err, r, e->name)
		     : note(b, e->name, &e->source, block, err);
}

static int go_down(struct bring *b, const struct entry *e, bool made,
		   struct error *err)
{
	bool known = e->was && S_ISDIR((mode_t)e->was->mode);
	int r = walk_enter(&b->walk, e->name, true, err);

	switch (r) {
	case 0:
		walk_top(&b->walk)->block = known ? e->was->block : 0;
		walk_top(&b->walk)->start = b->now.n;
		walk_top(&b->walk)->hidden = made;
		return 0;
	case -EXDEV: /* another mount */
	case -EACCES:
		if (!made)
			return stay(b, e, err);
		return end_empty(b, e, r == -EACCES ? 0
						    : e->source.st_mode & 03777,
				 err);
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP: /* It went or was replaced meanwhile. */
		if (made && unlinkat(here(b), e->name, AT_REMOVEDIR) < 0)
			return fail(b, err, -errno, e->name);
		return made ? 0 : stay(b, e, err);
	default:
		return r;
	}
}

static int bring_directory(struct bring *b, const struct entry *e,
			   struct error *err)
{
	if (mkdirat(here(b), e->name, 0700) < 0)
		return fail(b, err, -errno, e->name);
	b->counts->brought++;
	return go_down(b, e, true, err);
}

static int look_at_directory(struct bring *b, const struct entry *e,
			     struct error *err)
{
	const struct manifest_entry *was = e->was;

	if (e->source.st_dev == b->state_dev &&
	    e->source.st_ino == b->state_ino)
		return 0;
	if (e->copied && S_ISDIR(e->copy.st_mode))
		return go_down(b, e, false, err);
	if (!e->copied)
		return was ? stay(b, e, err) : bring_directory(b, e, err);
	if (!was || S_ISDIR((mode_t)was->mode) || !manifest_is_copy(was, &e->copy))
		return stay(b, e, err);
	if (unlinkat(here(b), e->name, 0) < 0)
		return fail(b, err, -errno, e->name);
	return bring_directory(b, e, err);
}

static bool is_hidden(struct bring *b, const char *name)
{
	struct buf *path = &b->walk.path;
	size_t len = path->len;
	bool hidden;

	if (len > 0)
		buf_add_char(path, '/');
	buf_add_str(path, name);
	/* Without memory for a path the walk would end all the same. */
	hidden = path->failed || paths_have(&b->hide->paths, buf_str(path));
	path->len = len;
	if (path->data)
		path->data[len] = '\0';
	return hidden;
}

/* 1: the source has it, and it is one that is copied. */
static int find_source(struct bring *b, const char *name, struct stat *ret,
		       struct error *err)
{
	if (is_hidden(b, name))
		return 0;
	if (fstatat(walk_fd(&b->walk), name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(b, err, -errno, name);
	return S_ISREG(ret->st_mode) || S_ISDIR(ret->st_mode) ||
	       S_ISLNK(ret->st_mode);
}

static int look_at(struct bring *b, const char *name, struct error *err)
{
	uint64_t block = walk_top(&b->walk)->block;
	struct entry e = {
		.name = name,
		.was = block ? manifest_find(&b->was, block, name) : NULL,
	};
	int r = find_source(b, name, &e.source, err);

	if (r <= 0)
		return r;
	e.copied = fstatat(here(b), name, &e.copy, AT_SYMLINK_NOFOLLOW) == 0;
	if (!e.copied && errno != ENOENT)
		return fail(b, err, -errno, name);
	return S_ISDIR(e.source.st_mode) ? look_at_directory(b, &e, err)
					 : look_at_file(b, &e, err);
}

/* What the directory had, and the source's has no more. */
static int drop_all_gone(struct bring *b, struct error *err)
{
	uint64_t block = walk_top(&b->walk)->block;
	uint64_t n = block ? manifest_count(&b->was, block) : 0;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		const struct manifest_entry *was =
			manifest_at(&b->was, block, i);
		struct stat st;

		if (!was)
			return fail(b, err, -EBADMSG, NULL);
		r = find_source(b, was->name, &st, err);
		if (r == 0)
			r = drop_gone(b, was, err);
		else if (r > 0)
			r = 0;
	}
	return r;
}

static const struct manifest_entry *known_directory(struct bring *b,
						    const char *name)
{
	uint64_t block = walk_top(&b->walk)->block;
	const struct manifest_entry *was =
		block ? manifest_find(&b->was, block, name) : NULL;

	return was && S_ISDIR((mode_t)was->mode) ? was : NULL;
}

static bool is_other_directory(const struct manifest_entry *was,
			       const struct stat *source)
{
	return ((source->st_mode ^ was->mode) & 01777) != 0 ||
	       time_ns(&source->st_mtim) != was->mtime_ns;
}

/* A directory with what is in it: permissions by the same rule as a file. */
static int note_directory(struct bring *b, const char *name,
			  const struct stat *source, uint64_t block, bool made,
			  struct error *err)
{
	const struct manifest_entry *was = known_directory(b, name);
	struct manifest_entry e;
	struct stat copy;
	int r = 0;

	if (fstatat(here(b), name, &copy, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(b, err, -errno, name);
	if (was && !manifest_is_copy(was, &copy)) {
		e = *was;
		e.block = block;
		r = manifest_add(&b->now, &e, name);
		return r < 0 ? fail(b, err, r, name) : 0;
	}
	if (made || (was && is_other_directory(was, source)))
		r = copy_dress(here(b), name, &b->owner, source,
			       source->st_mode & 03777);
	return r < 0 ? fail(b, err, r, name)
		     : note(b, name, source, block, err);
}

/* The current directory was read to its end. 1 at the top. */
static int leave(struct bring *b, struct error *err)
{
	struct walk *w = &b->walk;
	bool made = walk_top(w)->hidden;
	char name[NAME_MAX + 1];
	struct stat source;
	uint64_t block;
	size_t at;
	int r = drop_all_gone(b, err);

	if (r < 0)
		return r;
	if (fstat(walk_fd(w), &source) < 0)
		return fail(b, err, -errno, NULL);
	r = manifest_end(&b->now, walk_top(w)->start, &block);
	if (r == 0 && w->depth == 1)
		r = manifest_finish(&b->now, block);
	if (r < 0)
		return fail(b, err, r, NULL);
	if (w->depth == 1)
		return 1;
	at = w->levels[w->depth - 2].path_len;
	snprintf(name, sizeof(name), "%s",
		 w->path.data + at + (at > 0 ? 1 : 0));
	r = walk_leave(w, err);
	return r < 0 ? r
		     : note_directory(b, name, &source, block, made, err);
}

static int begin(struct bring *b, int layer_fd, int source_fd, int upper_fd,
		 struct error *err)
{
	struct stat st;
	int r = manifest_open(layer_fd, &b->was, err);

	if (r == 0)
		r = layer_remove(layer_fd, REFRESH_STAGE, err);
	if (r == 0)
		r = layer_remove(layer_fd, MANIFEST_NEW, err);
	if (r < 0)
		return r;
	if (fstat(upper_fd, &b->owner) < 0 ||
	    mkdirat(layer_fd, REFRESH_STAGE, 0700) < 0)
		return error_errno(err, "cannot prepare the copy's new files");
	b->stage = walk_open_at(layer_fd, REFRESH_STAGE, O_PATH | O_DIRECTORY);
	r = b->stage < 0 ? b->stage
			 : manifest_writer_init(&b->now, layer_fd, MANIFEST_NEW);
	if (r < 0)
		return error_set(err, r, "cannot make the copy's manifest: %s",
				 strerror(-r));
	/* tasks/ID is two levels below the state directory. */
	if (fstatat(layer_fd, "../..", &st, 0) == 0) {
		b->state_dev = st.st_dev;
		b->state_ino = st.st_ino;
	}
	r = walk_init(&b->walk, source_fd, NULL, upper_fd, err);
	if (r == 0)
		walk_top(&b->walk)->block = manifest_top(&b->was);
	return r;
}

int refresh_copy(int layer_fd, int source_fd, const struct hide *hide,
		 struct refresh_counts *ret, struct error *err)
{
	AUTO_BRING struct bring b = {
		.now = {.fd = -1},
		.stage = -1,
		.hide = hide,
		.budget = CHANGES_COMPARE_ALL,
		.counts = ret,
	};
	AUTO_CLOSE int upper = walk_open_at(layer_fd, "upper",
					    O_PATH | O_DIRECTORY);
	struct dirent *e;
	int r;

	*ret = (struct refresh_counts){0};
	if (upper < 0)
		return error_set(err, upper, "cannot open the copy: %s",
				 strerror(-upper));
	r = begin(&b, layer_fd, source_fd, upper, err);
	while (r == 0) {
		r = walk_next(&b.walk, &e, err);
		if (r > 0)
			r = look_at(&b, e->d_name, err);
		else if (r == 0)
			r = leave(&b, err);
	}
	if (r > 0 && fsync(b.now.fd) < 0)
		r = error_errno(err, "cannot write the copy's manifest");
	if (r < 0)
		return r;
	return layer_remove(layer_fd, REFRESH_STAGE, err);
}
