/*
 * What a container shows of the host beside the system: the source, and what a
 * policy grants.
 */
#include "base/cleanup.h"
#include "confine/mount.h"
#include "confine/sys.h"
#include "tier/container_build.h"
#include "tier/container_files.h"
#include "workspace/hide_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* The directory fd below a layer of ours, read-only. */
static int overlay_read_only(struct builder *b, int fd, const char *layer,
			     const char *path)
{
	const struct mount_layer layers[2] = {{.fd = b->support, .path = layer},
					      {.fd = fd}};
	int mount = mount_overlay(layers, 2, -1, -1, RO, b->err);

	if (mount < 0)
		return error_prefix(b->err, "cannot grant %s", path);
	return builder_place(b, mount, path, true);
}

int want_read(struct builder *b, const char *path)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	fd = builder_open(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (S_ISDIR(st.st_mode))
		return overlay_read_only(b, fd, "empty", path);
	if (!S_ISREG(st.st_mode))
		return error_set(b->err, -EINVAL,
				 "cannot grant %s: only directories and "
				 "regular files can be granted",
				 path);
	mount = mount_clone(fd, path, RO, -1, b->err);
	return mount < 0 ? mount : builder_place(b, mount, path, false);
}

/* An overlay whose changes stay in DIR/upper below the task's directory. */
static int overlay_with_upper(struct builder *b, int lower, const char *dir,
			      const struct mount_layer *hide)
{
	struct mount_layer layers[2];
	AUTO_CLOSE int upper = -1;
	AUTO_CLOSE int work = -1;
	char name[40];
	size_t n = 0;

	snprintf(name, sizeof(name), "%s/upper", dir);
	upper = openat(b->c->task_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof(name), "%s/work", dir);
	work = openat(b->c->task_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0 || work < 0)
		return error_errno(b->err, "cannot open the task's %s", name);
	if (hide)
		layers[n++] = *hide;
	layers[n++] = (struct mount_layer){.fd = lower};
	return mount_overlay(layers, n, upper, work, RW, b->err);
}

/* The source has a clone, before those of the write grants. */
static bool has_source_clone(const struct sandbox_spec *s)
{
	return s->root_caller && s->source && s->workspace != WORKSPACE_COPY;
}

/* .. and after it that of the layer over it, where that was made before. */
static bool has_hide_clone(const struct sandbox_spec *s)
{
	return has_source_clone(s) && s->hide_path;
}

static size_t clones_of_source(const struct sandbox_spec *s)
{
	return (size_t)has_source_clone(s) + has_hide_clone(s);
}

size_t container_clones_needed(const struct sandbox_spec *s)
{
	return s->root_caller
		       ? clones_of_source(s) + s->write.n + s->carried.n
		       : 0;
}

/*
 * Clones made outside our namespaces become ours when they are attached in
 * them; only then do they serve as layers.
 */
static int adopt(int support, int clone, const char *name, struct error *err)
{
	AUTO_CLOSE int at = -1;

	if (mkdirat(support, name, 0755) == 0)
		at = openat(support, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 ||
	    sys_move_mount(clone, "", at, "",
			   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
		    0)
		return error_errno(err, "cannot attach an id-mapped mount");
	return 0;
}

/* Has the clones ready, which the front end makes while we do the rest. */
static int need_clones(struct builder *b)
{
	struct container *c = b->c;
	char name[32];
	int r;

	if (c->adopted)
		return 0;
	r = c->helpers->fetch(c->helpers->arg, c, b->err);
	for (size_t i = 0; r == 0 && i < c->clones.n; i++) {
		snprintf(name, sizeof(name), "clone.%zu", i);
		r = adopt(b->support, c->clones.fds[i], name, b->err);
	}
	c->adopted = r == 0;
	return r;
}

int want_write(struct builder *b, const char *path, size_t index)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	size_t index_of_clone;
	char dir[24];
	int mount, r;

	if (b->s->root_caller) {
		r = need_clones(b);
		if (r < 0)
			return r;
		index_of_clone = index + clones_of_source(b->s);
		fd = fcntl(b->c->clones.fds[index_of_clone], F_DUPFD_CLOEXEC,
			   3);
		if (fd < 0 || fstat(fd, &st) < 0)
			return error_errno(b->err, "cannot open %s", path);
	} else {
		fd = builder_open(path, &st, b->err);
		if (fd < 0)
			return fd;
	}
	if (!S_ISDIR(st.st_mode))
		return error_set(b->err, -ENOTDIR,
				 "cannot grant %s for writing: it is not a "
				 "directory",
				 path);
	snprintf(dir, sizeof(dir), "write.%zu", index);
	mount = overlay_with_upper(b, fd, dir, NULL);
	if (mount < 0)
		return error_prefix(b->err, "cannot grant %s for writing",
				    path);
	r = builder_place(b, mount, path, true);
	return r < 0 ? r : strlist_add(&b->c->write_paths, path);
}

int builder_source(struct builder *b)
{
	struct stat st;
	int fd;

	if (has_source_clone(b->s)) {
		int r = need_clones(b);

		return r < 0 ? r
			     : fcntl(b->c->clones.fds[0], F_DUPFD_CLOEXEC, 3);
	}
	fd = builder_open(b->s->source, &st, b->err);
	if (fd < 0)
		return fd;
	if (st.st_dev != b->s->source_dev || st.st_ino != b->s->source_ino) {
		close(fd);
		return error_set(b->err, -ESTALE,
				 "%s was replaced while the task started",
				 b->s->source);
	}
	return fd;
}

/* What lies over the source, if anything is to be hidden: 1, 0 or negative. */
static int open_hide(struct builder *b, struct mount_layer *ret)
{
	*ret = (struct mount_layer){.fd = b->support, .path = "hide"};
	if (!b->s->hide_path)
		return !hide_is_empty(&b->s->hide);
	b->c->hide_fd = hide_store_hold(b->s->hide_path, b->err);
	*ret = (struct mount_layer){.fd = has_hide_clone(b->s)
						? b->c->clones.fds[1]
						: b->c->hide_fd};
	return b->c->hide_fd < 0 ? b->c->hide_fd : 1;
}

int want_source(struct builder *b)
{
	struct mount_layer hide;
	AUTO_CLOSE int fd = -1;
	int mount, r;

	if (b->s->workspace == WORKSPACE_DIRECT)
		return want_direct(b);
	if (b->s->workspace == WORKSPACE_COPY) {
		fd = openat(b->c->task_fd, "upper",
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return error_errno(b->err, "cannot open the copy");
		mount = mount_clone(fd, "the copy", RW, -1, b->err);
	} else {
		fd = builder_source(b);
		if (fd < 0)
			return fd;
		r = open_hide(b, &hide);
		if (r < 0)
			return r;
		mount = overlay_with_upper(b, fd, ".", r > 0 ? &hide : NULL);
	}
	if (mount < 0)
		return error_prefix(b->err,
				    "cannot make an overlay over %s (try "
				    "--workspace copy)",
				    b->s->source);
	r = builder_place(b, mount, b->s->source, true);
	return r < 0 ? r : strlist_add(&b->c->write_paths, b->s->source);
}

/* The way out, where nobody asked for what cannot be had. */
#define WITHOUT "cannot show %s (a policy with toolchains: off starts without)"

int want_tool(struct builder *b, const char *path, size_t index)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	char name[32];
	int r;

	fd = builder_open(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (!S_ISDIR(st.st_mode))
		return error_set(b->err, -ENOTDIR,
				 "%s was replaced while the task started",
				 path);
	snprintf(name, sizeof(name), "tool.%zu", index);
	r = files_make_mask(b->support, name, path, fd, b->s, b->err);
	if (r >= 0)
		r = overlay_read_only(b, fd, r > 0 ? name : "empty", path);
	return r < 0 ? error_prefix(b->err, WITHOUT, "tool chain") : 0;
}

/* DIR/upper and DIR/work in the support tmpfs; the upper looks like lower. */
static int make_upper(struct builder *b, const char *dir, int lower,
		      int *ret_upper, int *ret_work)
{
	AUTO_CLOSE int at = -1;
	struct stat st;
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

	if (mkdirat(b->support, dir, 0700) == 0)
		at = openat(b->support, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || fstat(lower, &st) < 0 ||
	    mkdirat(at, "upper", st.st_mode & 0777) < 0 ||
	    mkdirat(at, "work", 0700) < 0 ||
	    fchownat(at, "upper", b->s->outer_uid, b->s->outer_gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(b->err, "cannot make a layer");
	*ret_upper = openat(at, "upper", flags);
	*ret_work = openat(at, "work", flags);
	if (*ret_upper < 0 || *ret_work < 0)
		return error_errno(b->err, "cannot open a layer");
	return 0;
}

/* Since Linux 6.6; an overlay's marks are such attributes. */
static bool takes_attributes(int fd)
{
	return fsetxattr(fd, "user.pinfold", "", 0, 0) == 0;
}

static int carried_lower(struct builder *b, size_t index)
{
	struct stat st;
	int fd, r = 0;

	if (b->s->root_caller)
		r = need_clones(b);
	if (r < 0)
		return r;
	if (!b->s->root_caller)
		return builder_open(b->s->carried.items[index], &st, b->err);
	index += clones_of_source(b->s) + b->s->write.n;
	fd = fcntl(b->c->clones.fds[index], F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? error_errno(b->err, "cannot use a clone") : fd;
}

int want_carried(struct builder *b, const char *path, size_t index)
{
	const char *from = b->s->carried.items[index];
	struct mount_layer layers[2] = {{.fd = b->support}};
	AUTO_CLOSE int lower = carried_lower(b, index);
	AUTO_CLOSE int upper = -1;
	AUTO_CLOSE int work = -1;
	char name[32], dir[32];
	int r, mount;

	if (lower < 0)
		return lower;
	snprintf(name, sizeof(name), "mask.%zu", index);
	snprintf(dir, sizeof(dir), "carried.%zu", index);
	r = files_make_mask(b->support, name, from, lower, b->s, b->err);
	if (r < 0)
		return r;
	layers[0].path = r > 0 ? name : "empty";
	layers[1].fd = lower;
	r = make_upper(b, dir, lower, &upper, &work);
	if (r < 0)
		return r;
	b->c->carried_read_only = !takes_attributes(upper);
	if (b->c->carried_read_only)
		return overlay_read_only(b, lower, layers[0].path, path);
	mount = mount_overlay(layers, 2, upper, work, RW, b->err);
	if (mount < 0)
		return error_prefix(b->err, WITHOUT, from);
	r = builder_place(b, mount, path, true);
	return r < 0 || path_is_below(path, b->s->home)
		       ? r
		       : strlist_add(&b->c->write_paths, path);
}

/*
 * The socket itself: who connects reaches the server. Where it lies in a copy of
 * the source, there is no such file to mount it on.
 */
int want_socket(struct builder *b, const char *path)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	if (b->s->source && path_is_below(path, b->s->source) &&
	    b->s->workspace == WORKSPACE_COPY)
		return error_set(b->err, -EINVAL,
				 "cannot pass the socket %s: it lies in the "
				 "source, which is copied; --workspace overlay "
				 "can", path);
	fd = builder_open(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (!S_ISSOCK(st.st_mode))
		return error_set(b->err, -EINVAL,
				 "cannot pass %s: it is no socket", path);
	mount = mount_clone(fd, path, RO | MOUNT_NOEXEC, -1, b->err);
	return mount < 0 ? mount : builder_place(b, mount, path, false);
}

/* Whose files become the command's: one that was made serves again. */
struct id_swap {
	uid_t uid;
	gid_t gid;
	int userns; /* -1: none was made */
};

static int swap_for(struct id_swap *swap, const struct sandbox_spec *s,
		    const struct stat *st, struct error *err)
{
	struct id_extent uids[5], gids[5];
	size_t n_uids = ids_swap(st->st_uid, s->outer_uid, uids);
	size_t n_gids = ids_swap(st->st_gid, s->outer_gid, gids);

	if (swap->userns >= 0 && swap->uid == st->st_uid &&
	    swap->gid == st->st_gid)
		return 0;
	close_fd(swap->userns);
	*swap = (struct id_swap){st->st_uid, st->st_gid, -1};
	swap->userns = ids_userns_fd(uids, n_uids, gids, n_gids, err);
	return swap->userns < 0 ? swap->userns : 0;
}

/* A clone of path in which its owner's files belong to the command. */
static int idmapped_clone(struct id_swap *swap, const struct sandbox_spec *s,
			  const char *path, struct stat *ret_st,
			  struct error *err)
{
	AUTO_CLOSE int fd = builder_open(path, ret_st, err);
	int clone;

	if (fd < 0)
		return fd;
	clone = swap_for(swap, s, ret_st, err);
	if (clone < 0)
		return clone;
	clone = mount_clone(fd, path, 0, swap->userns, err);
	if (clone < 0)
		return error_prefix(err,
				    "the file system of %s cannot map ids (use "
				    "--workspace copy)",
				    path);
	return clone;
}

void container_clones_done(struct container_clones *c)
{
	for (size_t i = 0; i < c->n; i++)
		close_fd(c->fds[i]);
	free(c->fds);
	*c = (struct container_clones){0};
}

bool container_clones(const struct sandbox_spec *s, const char *path)
{
	struct error ignored;
	struct stat st;
	struct id_swap swap = {.userns = -1};
	AUTO_CLOSE int fd = idmapped_clone(&swap, s, path, &st, &ignored);

	close_fd(swap.userns);
	return fd >= 0;
}

static int clone_source(struct id_swap *swap, const struct sandbox_spec *s,
			struct error *err)
{
	struct stat st;
	int fd = idmapped_clone(swap, s, s->source, &st, err);

	if (fd < 0)
		return fd;
	if (st.st_dev == s->source_dev && st.st_ino == s->source_ino)
		return fd;
	close(fd);
	return error_set(err, -ESTALE,
			 "%s was replaced while the task started", s->source);
}

/* What the ith clone is of, after the source's own. */
static const char *clone_path(const struct sandbox_spec *s, size_t i,
			      size_t source, size_t writes)
{
	if (i < source)
		return s->hide_path;
	return i < writes ? s->write.items[i - source]
			  : s->carried.items[i - writes];
}

int container_clone(const struct sandbox_spec *s, struct container_clones *ret,
		    struct error *err)
{
	size_t source = clones_of_source(s), n = container_clones_needed(s);
	size_t writes = source + s->write.n;
	struct id_swap swap = {.userns = -1};
	struct stat st;
	int fd = 0;

	*ret = (struct container_clones){0};
	if (n == 0)
		return 0;
	ret->fds = calloc(n, sizeof(int));
	if (!ret->fds)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && fd >= 0; i++) {
		if (i == 0 && source > 0)
			fd = clone_source(&swap, s, err);
		else
			fd = idmapped_clone(&swap, s,
					    clone_path(s, i, source, writes),
					    &st, err);
		if (fd >= 0)
			ret->fds[ret->n++] = fd;
	}
	close_fd(swap.userns);
	if (fd < 0)
		container_clones_done(ret);
	return fd < 0 ? fd : 0;
}
