#include "workspace/hide.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define GIT_CONFIG ".git/config"
#define NS 1000000000u

void hide_done(struct hide *h)
{
	for (size_t i = 0; i < h->n_dirs; i++)
		free(h->dirs[i].path);
	free(h->dirs);
	free(h->git_config);
	strlist_done(&h->paths);
	*h = (struct hide){0};
}

bool hide_is_empty(const struct hide *h)
{
	return h->paths.n == 0 && !h->git_config;
}

static int add_dir(struct hide *h, const struct hide_dir *d)
{
	char *path = strdup(d->path);

	if (path && h->n_dirs == h->cap_dirs) {
		size_t cap = h->cap_dirs ? 2 * h->cap_dirs : 16;
		struct hide_dir *dirs = reallocarray(h->dirs, cap,
						     sizeof(*dirs));

		if (dirs) {
			h->dirs = dirs;
			h->cap_dirs = cap;
		}
	}
	if (!path || h->n_dirs == h->cap_dirs) {
		free(path);
		return -ENOMEM;
	}
	h->dirs[h->n_dirs] = *d;
	h->dirs[h->n_dirs++].path = path;
	return 0;
}

/* What a directory gives to others, for everybody. */
static uint32_t as_others(uint32_t mode)
{
	return (mode & 07) * 0111;
}

/* As the layer is to have it. */
static struct hide_dir translate(const struct hide_dir *in,
				 const struct hide_ids *ids)
{
	bool known = in->uid == ids->owner_uid;
	bool same_group = in->gid == ids->owner_gid;
	struct hide_dir d = *in;

	if (known || !ids->all)
		d.uid = ids->layer_uid;
	if (same_group || !ids->all)
		d.gid = ids->layer_gid;
	if (!ids->all && !known)
		d.mode = as_others(d.mode);
	else if (!ids->all && !same_group)
		d.mode = (d.mode & 0707) | (as_others(d.mode) & 070);
	return d;
}

/* The directory that begins path, n bytes of it; t is the source. */
static int look_dir(struct hide *h, struct tree *t, const char *path, size_t n,
		    const struct hide_dir *absent, struct error *err)
{
	/* What lies in it is what a tree is asked for. */
	AUTO_FREE char *name = str_format("%.*s/-", (int)n, path);
	struct hide_dir d = *absent;
	const char *last;
	struct stat st;
	int fd;

	if (!name)
		return error_set(err, -ENOMEM, "out of memory");
	if (h->n_dirs == HIDE_DIRS_MAX)
		return error_set(err, -E2BIG, "what is to be hidden lies in "
				 "more than %d directories; deny directories "
				 "instead", HIDE_DIRS_MAX);
	fd = tree_parent(t, name, &last);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		d.mode = st.st_mode & 07777;
		d.uid = st.st_uid;
		d.gid = st.st_gid;
		d.mtime_ns = (uint64_t)st.st_mtim.tv_sec * NS +
			     (uint64_t)st.st_mtim.tv_nsec;
	}
	name[n] = '\0';
	d.path = name;
	return add_dir(h, &d) < 0 ? error_set(err, -ENOMEM, "out of memory")
				  : 0;
}

/* How much of path's beginning are directories of last, too. */
static size_t shared_dirs(const char *path, const char *last)
{
	size_t n = 0;

	for (size_t i = 0; path[i] && path[i] == last[i]; i++) {
		if (path[i] == '/')
			n = i + 1;
	}
	return n;
}

static int look_path(struct hide *h, struct tree *t, const char *path,
		     const char *last, const struct hide_dir *absent,
		     struct error *err)
{
	int r = 0;

	for (size_t i = shared_dirs(path, last); path[i] && r == 0; i++) {
		if (path[i] == '/')
			r = look_dir(h, t, path, i, absent, err);
	}
	return r;
}

static bool has_git_dir(const struct hide *h)
{
	for (size_t i = 0; i < h->n_dirs; i++) {
		if (str_eq(h->dirs[i].path, ".git"))
			return true;
	}
	return false;
}

int hide_look(struct hide *h, int source_fd, uint32_t uid, uint32_t gid,
	      struct error *err)
{
	const struct hide_dir absent = {.mode = 0755, .uid = uid, .gid = gid};
	AUTO_TREE struct tree t;
	const char *last = "";
	int r = 0;

	tree_init(&t, source_fd);
	for (size_t i = 0; i < h->paths.n && r == 0; i++) {
		r = look_path(h, &t, h->paths.items[i], last, &absent,
			      err);
		last = h->paths.items[i];
	}
	if (r == 0 && h->git_config && !has_git_dir(h))
		r = look_path(h, &t, GIT_CONFIG, "", &absent, err);
	return r;
}

/* Opens the directory of path in the layer. */
static int reach(struct tree *t, const char *path, const char **ret_name,
		 struct error *err)
{
	int fd = tree_parent(t, path, ret_name);

	return fd < 0 ? error_set(err, fd, "cannot hide %s: %s", path,
				  strerror(-fd))
		      : fd;
}

static int make_dir(struct tree *t, const struct hide_dir *d,
		    struct error *err)
{
	const char *name;
	int fd = reach(t, d->path, &name, err);

	if (fd < 0)
		return fd;
	if (mkdirat(fd, name, 0700) < 0)
		return error_errno(err, "cannot make %s in a layer", d->path);
	return 0;
}

/* Last, from below upwards: nothing changes in a directory any more. */
static int finish_dir(struct tree *t, const struct hide_dir *source,
		      const struct hide_ids *ids, struct error *err)
{
	const struct hide_dir made = translate(source, ids), *d = &made;
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(d->mtime_ns / NS),
		 .tv_nsec = (long)(d->mtime_ns % NS)}};
	const char *name;
	int fd = reach(t, d->path, &name, err);

	if (fd < 0)
		return fd;
	/* Times first: who has given a directory away may not set them. */
	if ((d->mtime_ns > 0 &&
	     utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW) < 0) ||
	    fchownat(fd, name, d->uid, d->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(fd, name, d->mode, 0) < 0)
		return error_errno(err, "cannot give %s its owner in a layer",
				   d->path);
	return 0;
}

static int make_whiteout(struct tree *t, const char *path, struct error *err)
{
	const char *name;
	int fd = reach(t, path, &name, err);

	if (fd < 0)
		return fd;
	if (mknodat(fd, name, S_IFCHR, makedev(0, 0)) < 0)
		return error_errno(err, "cannot hide %s", path);
	return 0;
}

static int make_config(struct tree *t, const struct hide *h,
		       const struct hide_ids *ids, struct error *err)
{
	AUTO_CLOSE int file = -1;
	const char *name;
	int r, fd = reach(t, GIT_CONFIG, &name, err);

	if (fd < 0)
		return fd;
	file = openat(fd, name,
		      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      0644);
	if (file < 0)
		return error_errno(err, "cannot make %s in a layer", GIT_CONFIG);
	r = io_write_all(file, h->git_config, strlen(h->git_config));
	if (r == 0 && (fchown(file, ids->layer_uid, ids->layer_gid) < 0 ||
		       fchmod(file, 0644) < 0))
		r = -errno;
	return r < 0 ? error_set(err, r, "cannot write %s in a layer: %s",
				 GIT_CONFIG, strerror(-r))
		     : 0;
}

int hide_make(int layer_fd, const struct hide *h, const struct hide_ids *ids,
	      struct error *err)
{
	AUTO_TREE struct tree t;
	int r = 0;

	tree_init(&t, layer_fd);
	for (size_t i = 0; i < h->n_dirs && r == 0; i++)
		r = make_dir(&t, &h->dirs[i], err);
	for (size_t i = 0; i < h->paths.n && r == 0; i++)
		r = make_whiteout(&t, h->paths.items[i], err);
	if (r == 0 && h->git_config)
		r = make_config(&t, h, ids, err);
	for (size_t i = h->n_dirs; i > 0 && r == 0; i--)
		r = finish_dir(&t, &h->dirs[i - 1], ids, err);
	return r;
}

int hide_put(struct buf *b, const struct hide *h)
{
	codec_put_list(b, &h->paths);
	codec_put_str(b, h->git_config);
	codec_put_u32(b, (uint32_t)h->n_dirs);
	for (size_t i = 0; i < h->n_dirs; i++) {
		const struct hide_dir *d = &h->dirs[i];

		codec_put_str(b, d->path);
		codec_put_u32(b, d->mode);
		codec_put_u32(b, d->uid);
		codec_put_u32(b, d->gid);
		codec_put_u64(b, d->mtime_ns);
	}
	return b->failed;
}

static bool get_dir(struct codec_reader *r, struct hide *h)
{
	struct hide_dir d = {.path = (char *)(uintptr_t)codec_get_str(r)};

	d.mode = codec_get_u32(r);
	d.uid = codec_get_u32(r);
	d.gid = codec_get_u32(r);
	d.mtime_ns = codec_get_u64(r);
	if (r->failed || !d.path || d.mode > 07777) {
		r->failed = -EPROTO;
		return false;
	}
	if (add_dir(h, &d) < 0)
		r->failed = -ENOMEM;
	return !r->failed;
}

void hide_get(struct codec_reader *r, struct hide *h)
{
	const char *config;
	uint32_t n;

	codec_get_list(r, HIDE_PATHS_MAX, &h->paths);
	config = codec_get_str(r);
	if (config) {
		h->git_config = strdup(config);
		if (!h->git_config)
			r->failed = -ENOMEM;
	}
	n = codec_get_u32(r);
	if (n > HIDE_DIRS_MAX)
		r->failed = -EPROTO;
	while (!r->failed && n-- > 0 && get_dir(r, h))
		;
}
