/*
 * Copies a source for a task (copy mode). The source may change meanwhile and
 * is walked through held descriptors; the copy is nobody else's yet, so names
 * in it are safe. The manifest is written as the walk goes.
 */
#include "workspace/layer.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/copy_file.h"
#include "workspace/links.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
	struct walk walk;
	struct manifest_writer manifest;
	struct links links;
	int upper;
	dev_t state_dev; /* the state directory, which is not copied */
	ino_t state_ino;
	uid_t uid; /* of what is made; -1: the caller's */
	gid_t gid;
	const struct strlist *hide; /* relative paths; may be NULL */
	const char *git_config;
	bool no_clone;
	uint64_t bytes, max_bytes;
	uint64_t files, read;
	const struct layer_watch *watch;
};

static void copy_done(struct copy *c)
{
	walk_done(&c->walk);
	manifest_writer_done(&c->manifest);
	links_done(&c->links);
	close_fd(c->upper);
}

#define AUTO_COPY __attribute__((cleanup(copy_done)))

/* The descriptor of the copy's current directory. */
static int here(struct copy *c)
{
	return walk_top(&c->walk)->other;
}

static int fail(struct copy *c, struct error *err, int code, const char *name)
{
	return walk_error(&c->walk, err, code, "cannot copy", name);
}

static int note(struct copy *c, const char *name, const struct stat *source,
		uint64_t block, struct error *err)
{
	struct manifest_entry e = {.block = block};
	struct stat st;
	int r;

	if (fstatat(here(c), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(c, err, -errno, name);
	e.size = (uint64_t)st.st_size;
	e.mode = st.st_mode;
	e.mtime_ns = time_ns(&st.st_mtim);
	e.ctime_ns = time_ns(&st.st_ctim);
	e.source_ctime_ns = time_ns(&source->st_ctim);
	r = manifest_add(&c->manifest, &e, name);
	if (r < 0)
		return fail(c, err, r, name);
	c->files++;
	return 0;
}

/* Owner, mode and times of what is made; a link has no mode. */
static int dress(struct copy *c, const char *name, const struct stat *st,
		 mode_t mode)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int dir = here(c);

	if (c->uid != (uid_t)-1 &&
	    fchownat(dir, name, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st->st_mode) && fchmodat(dir, name, mode, 0) < 0)
		return -errno;
	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* What cannot be read is shown as what it would be: there, and closed. */
static int copy_closed(struct copy *c, const char *name, const struct stat *st,
		       struct error *err)
{
	AUTO_CLOSE int to = openat(here(c), name,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
					   O_CLOEXEC,
				   0);
	int r;

	if (to < 0)
		return fail(c, err, -errno, name);
	r = dress(c, name, st, 0);
	return r < 0 ? fail(c, err, r, name) : note(c, name, st, 0, err);
}

/* 1 if name was made as another link to a file that was copied before. */
static int copy_as_link(struct copy *c, const char *name, const struct stat *st,
			struct error *err)
{
	const char *first = links_find(&c->links, st->st_dev, st->st_ino);
	int r;

	if (!first)
		return 0;
	/* A path too long to be linked to makes a file of its own. */
	if (linkat(c->upper, first, here(c), name, 0) < 0)
		return 0;
	r = note(c, name, st, 0, err);
	return r < 0 ? r : 1;
}

static int remember_link(struct copy *c, const char *name,
			 const struct stat *st)
{
	struct buf *path = &c->walk.path;
	size_t len = path->len;
	int r;

	if (len > 0)
		buf_add_char(path, '/');
	r = buf_add_str(path, name);
	if (r == 0)
		r = links_add(&c->links, st->st_dev, st->st_ino, buf_str(path));
	path->len = len;
	if (path->data)
		path->data[len] = '\0';
	return r;
}

static int interrupted(struct error *err)
{
	return error_set(err, -EINTR, "interrupted while the source was "
				      "copied");
}

static int tell(const struct copy *c)
{
	const struct layer_watch *w = c->watch;

	return w && w->fn(w->arg, c->files, c->read) ? -EINTR : 0;
}

static int step(void *arg, uint64_t bytes)
{
	struct copy *c = arg;

	c->read += bytes;
	return tell(c);
}

static int fill_file(struct copy *c, int from, int to, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size;
	uint64_t held = (uint64_t)st->st_blocks * 512;
	uint64_t cost = held < size ? held : size;
	bool cloned;
	int r;

	if (c->max_bytes && c->no_clone && cost > c->max_bytes - c->bytes)
		return -EFBIG;
	r = copy_content(from, to, size, held < size, &c->no_clone, &cloned,
			 step, c);
	if (r < 0)
		return r;
	if (!cloned)
		c->bytes += cost;
	else
		c->read += cost;
	if (c->max_bytes && c->bytes > c->max_bytes)
		return -EFBIG;
	return copy_attributes(from, to);
}

static int too_large(const struct copy *c, struct error *err)
{
	return error_set(err, -EFBIG,
			 "the source is too large to be copied: more than %llu "
			 "bytes (limit disk)",
			 (unsigned long long)c->max_bytes);
}

/* Is this the file that is to be shown as something else? */
static bool is_git_config(const struct copy *c, const char *name)
{
	return c->git_config && str_eq(name, "config") &&
	       str_eq(buf_str(&c->walk.path), ".git");
}

/* Makes name a copy of the file from. */
static int copy_open_file(struct copy *c, const char *name, int from,
			  const struct stat *st, struct error *err)
{
	AUTO_CLOSE int to = openat(here(c), name,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
					   O_CLOEXEC,
				   0600);
	int r;

	if (to < 0)
		return fail(c, err, -errno, name);
	r = is_git_config(c, name) ? io_write_all(to, c->git_config,
						   strlen(c->git_config))
				    : fill_file(c, from, to, st);
	if (r == -EFBIG)
		return too_large(c, err);
	if (r == -EINTR)
		return interrupted(err);
	if (r == 0)
		r = dress(c, name, st, st->st_mode & 01777);
	if (r == 0 && st->st_nlink > 1)
		r = remember_link(c, name, st);
	return r < 0 ? fail(c, err, r, name) : note(c, name, st, 0, err);
}

static int copy_regular(struct copy *c, const char *name,
			const struct stat *seen, struct error *err)
{
	AUTO_CLOSE int from = -1;
	struct stat st;
	int r;

	from = walk_open_at(walk_fd(&c->walk), name,
			    O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (from == -ENOENT || from == -ELOOP)
		return 0; /* It went or was replaced meanwhile. */
	if (from == -EACCES)
		return copy_closed(c, name, seen, err);
	if (from < 0)
		return fail(c, err, from, name);
	if (fstat(from, &st) < 0)
		return fail(c, err, -errno, name);
	if (!S_ISREG(st.st_mode))
		return 0;
	if (st.st_nlink > 1) {
		r = copy_as_link(c, name, &st, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	return copy_open_file(c, name, from, &st, err);
}

static int copy_symlink(struct copy *c, const char *name,
			const struct stat *st, struct error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(walk_fd(&c->walk), name, target,
			       sizeof(target) - 1);
	int r;

	if (n < 0)
		return errno == ENOENT || errno == EINVAL
			       ? 0
			       : fail(c, err, -errno, name);
	target[n] = '\0';
	if (symlinkat(target, here(c), name) < 0)
		return fail(c, err, -errno, name);
	r = dress(c, name, st, 0);
	return r < 0 ? fail(c, err, r, name) : note(c, name, st, 0, err);
}

/* A directory into which the walk does not go: its block is an empty one. */
static int end_empty(struct copy *c, const char *name, const struct stat *st,
		     mode_t mode, struct error *err)
{
	uint64_t block = 0;
	int r = dress(c, name, st, mode);

	if (r == 0)
		r = manifest_end(&c->manifest, c->manifest.n, &block);
	return r < 0 ? fail(c, err, r, name) : note(c, name, st, block, err);
}

static int enter_directory(struct copy *c, const char *name,
			   const struct stat *st, struct error *err)
{
	int r;

	if (st->st_dev == c->state_dev && st->st_ino == c->state_ino)
		return 0;
	if (mkdirat(here(c), name, 0700) < 0)
		return fail(c, err, -errno, name);
	r = walk_enter(&c->walk, name, true, err);
	switch (r) {
	case 0:
		walk_top(&c->walk)->block = c->manifest.n;
		return 0;
	case -EXDEV:
		return end_empty(c, name, st, st->st_mode & 03777, err);
	case -EACCES:
		return end_empty(c, name, st, 0, err);
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP: /* It went or was replaced meanwhile. */
		if (unlinkat(here(c), name, AT_REMOVEDIR) < 0)
			return fail(c, err, -errno, name);
		return 0;
	default:
		return r;
	}
}

/* Is name in the current directory one of the paths to be left out? */
static bool is_hidden(struct copy *c, const char *name)
{
	struct buf *path = &c->walk.path;
	size_t len = path->len;
	bool hidden;

	if (!c->hide || c->hide->n == 0)
		return false;
	if (len > 0)
		buf_add_char(path, '/');
	buf_add_str(path, name);
	/* Without memory for a path the walk would end all the same. */
	hidden = path->failed || paths_have(c->hide, buf_str(path));
	path->len = len;
	if (path->data)
		path->data[len] = '\0';
	return hidden;
}

static int copy_entry(struct copy *c, const char *name, struct error *err)
{
	struct stat st;

	if (is_hidden(c, name))
		return 0;
	if (fstatat(walk_fd(&c->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(c, err, -errno, name);
	if (S_ISREG(st.st_mode))
		return copy_regular(c, name, &st, err);
	if (S_ISDIR(st.st_mode))
		return enter_directory(c, name, &st, err);
	if (S_ISLNK(st.st_mode))
		return copy_symlink(c, name, &st, err);
	return 0;
}

/* The current directory was read to its end. */
static int leave_directory(struct copy *c, struct error *err)
{
	struct walk *w = &c->walk;
	AUTO_CLOSE int to = -1;
	char name[NAME_MAX + 1];
	struct stat st;
	uint64_t block;
	size_t at;
	int r;

	if (fstat(walk_fd(w), &st) < 0)
		return fail(c, err, -errno, NULL);
	to = walk_open_at(here(c), ".", O_RDONLY | O_DIRECTORY);
	r = to < 0 ? to : copy_attributes(walk_fd(w), to);
	if (r == 0)
		r = manifest_end(&c->manifest, walk_top(w)->block, &block);
	if (r < 0)
		return fail(c, err, r, NULL);
	if (w->depth == 1)
		return manifest_finish(&c->manifest, block) < 0
			       ? fail(c, err, -EIO, NULL)
			       : 0;
	at = w->levels[w->depth - 2].path_len;
	snprintf(name, sizeof(name), "%s",
		 w->path.data + at + (at > 0 ? 1 : 0));
	r = walk_leave(w, err);
	if (r < 0)
		return r;
	r = dress(c, name, &st, st.st_mode & 03777);
	return r < 0 ? fail(c, err, r, name) : note(c, name, &st, block, err);
}

/* tasks/ID is two levels below the state directory. */
static void know_state(struct copy *c, int task_fd)
{
	struct stat st;

	if (fstatat(task_fd, "../..", &st, 0) == 0) {
		c->state_dev = st.st_dev;
		c->state_ino = st.st_ino;
	}
}

static int begin(struct copy *c, int task_fd, const struct source *s,
		 struct error *err)
{
	int r;

	know_state(c, task_fd);
	if (fchmodat(task_fd, "upper", 0700, 0) < 0)
		return error_errno(err, "cannot open the copy's directory");
	c->upper = walk_open_at(task_fd, "upper", O_PATH | O_DIRECTORY);
	if (c->upper < 0)
		return error_set(err, c->upper,
				 "cannot open the copy's directory: %s",
				 strerror(-c->upper));
	r = manifest_writer_init(&c->manifest, task_fd, MANIFEST_FILE);
	if (r < 0)
		return error_set(err, r, "cannot make the copy's manifest: %s",
				 strerror(-r));
	return walk_init(&c->walk, s->fd, NULL, c->upper, err);
}

int layer_copy(int task_fd, const struct source *s, uid_t as_uid, gid_t as_gid,
	       uint64_t max_bytes, const struct layer_watch *watch,
	       uint64_t *ret_files, struct error *err)
{
	AUTO_COPY struct copy c = {
		.upper = -1,
		.manifest = {.fd = -1},
		.uid = as_uid,
		.gid = as_gid,
		.max_bytes = max_bytes,
		.hide = s->hide,
		.git_config = s->git_config,
		.watch = watch,
	};
	struct dirent *e;
	size_t depth;
	int r = begin(&c, task_fd, s, err);

	while (r >= 0) {
		depth = c.walk.depth;
		r = walk_next(&c.walk, &e, err);
		if (r < 0)
			break;
		if (r > 0) {
			r = tell(&c) < 0 ? interrupted(err)
					 : copy_entry(&c, e->d_name, err);
			continue;
		}
		r = leave_directory(&c, err);
		if (r < 0 || depth == 1)
			break;
	}
	if (r < 0)
		return r;
	if (fchmodat(task_fd, "upper", s->mode & 03777, 0) < 0)
		return error_errno(err, "cannot set the mode of the copy");
	*ret_files = c.files;
	return 0;
}

/* ---- how much there is to copy ---- */

/* Sockets, FIFOs and devices are not copied. */
static bool is_copied(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode);
}

static int measure_entry(struct copy *c, const char *name)
{
	struct stat st;
	int r;

	if (is_hidden(c, name) ||
	    fstatat(walk_fd(&c->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_copied(st.st_mode) ||
	    (st.st_dev == c->state_dev && st.st_ino == c->state_ino))
		return 0;
	c->files++;
	/* A file of n links is copied once. */
	c->read += (uint64_t)st.st_blocks * 512 /
		   (S_ISDIR(st.st_mode) || !st.st_nlink ? 1 : st.st_nlink);
	if (!S_ISDIR(st.st_mode))
		return 0;
	r = walk_enter(&c->walk, name, false, NULL);
	return r == -ENAMETOOLONG || r == -ENOMEM ? r : 0;
}

int layer_measure(int task_fd, const struct source *s,
		  const struct layer_watch *watch, uint64_t *ret_files,
		  uint64_t *ret_bytes, struct error *err)
{
	AUTO_COPY struct copy c = {
		.upper = -1,
		.manifest = {.fd = -1},
		.hide = s->hide,
		.git_config = s->git_config,
		.watch = watch,
	};
	struct dirent *e;
	int r = walk_init(&c.walk, s->fd, NULL, -1, err);

	know_state(&c, task_fd);
	while (r >= 0) {
		r = walk_next(&c.walk, &e, err);
		if (r > 0)
			r = tell(&c) < 0 ? interrupted(err)
					 : measure_entry(&c, e->d_name);
		else if (r == 0 && c.walk.depth == 1)
			break;
		else if (r == 0)
			r = walk_leave(&c.walk, err);
	}
	*ret_files = c.files;
	*ret_bytes = c.read;
	return r;
}
