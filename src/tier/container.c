/*
 * Theory of operation: every path that exists in the sandbox because of a
 * mount is a "want". Wants are sorted by path, so that a parent comes before
 * what lies in it, and made one after the other; the mount point of each is
 * created in the nearest tmpfs of ours above it (its "skeleton"), or is there
 * already because the parent shows the same path of the host.
 */
#include "tier/container.h"

#include "base/cleanup.h"
#include "confine/sys.h"
#include "tier/container_build.h"
#include "tier/container_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* More files than the skeleton and the mount points of 8,000 grants need. */
#define OWN_INODES 65536u
#define OWN_BYTES (4u << 20)

/* Where a fixed path of the sandbox comes from. */
static const struct want fixed[] = {
	{WANT_SYSTEM, "/usr", 0},	{WANT_SYSTEM, "/bin", 0},
	{WANT_SYSTEM, "/sbin", 0},	{WANT_SYSTEM, "/lib", 0},
	{WANT_SYSTEM, "/lib32", 0},	{WANT_SYSTEM, "/lib64", 0},
	{WANT_SYSTEM, "/libx32", 0},	{WANT_ETC, "/etc", 0},
	{WANT_DEVICE, "/dev/null", 0},	{WANT_DEVICE, "/dev/zero", 0},
	{WANT_DEVICE, "/dev/full", 0},	{WANT_DEVICE, "/dev/random", 0},
	{WANT_DEVICE, "/dev/urandom", 0}, {WANT_DEVICE, "/dev/tty", 0},
	{WANT_TMP, "/tmp", 0},		{WANT_SHM, "/dev/shm", 0},
};

/* Nothing of the host may be put at or below these. */
static const char *const reserved[] = {"/proc", "/dev", "/sys"};

/* Notes what is at path now; takes inside, -1 unless mount points are ours. */
static int remember(struct container *c, int inside, const char *path)
{
	char *copy = strdup(path);

	if (copy && c->n_mounts == c->cap_mounts) {
		size_t cap = c->cap_mounts ? c->cap_mounts * 2 : 32;
		struct placement *m =
			reallocarray(c->mounts, cap, sizeof(*m));

		if (!m) {
			free(copy);
			copy = NULL;
		} else {
			c->mounts = m;
			c->cap_mounts = cap;
		}
	}
	if (!copy) {
		close_fd(inside);
		return -ENOMEM;
	}
	c->mounts[c->n_mounts++] =
		(struct placement){.inside = inside, .path = copy};
	return 0;
}

/* The placed mount that holds path. mounts[0] is "/". */
static const struct placement *holder_of(const struct container *c,
					 const char *path)
{
	for (size_t i = c->n_mounts; i > 1; i--) {
		if (path_is_below(path, c->mounts[i - 1].path))
			return &c->mounts[i - 1];
	}
	return &c->mounts[0];
}

/* Creates the mount point at path where we own what it lies in. */
static int make_point(struct builder *b, const char *path, bool directory)
{
	const struct placement *in = holder_of(b->c, path);
	size_t n = strlen(in->path);
	const char *relative = path + (n == 1 ? 1 : n + 1);

	if (in->inside < 0)
		return 0;
	return files_make_point(in->inside, relative, directory,
				n == 1 ? (uid_t)-1 : b->s->outer_uid,
				n == 1 ? (gid_t)-1 : b->s->outer_gid, b->err);
}

/* Hands a mount over for path; takes it, and inside (see remember). */
static int place_over(struct builder *b, int mount, int inside,
		      const char *path, bool directory)
{
	int r = str_eq(path, "/") ? 0 : make_point(b, path, directory);

	if (r < 0) {
		close_fd(mount);
	} else {
		r = b->c->helpers->place(b->c->helpers->arg, mount, path);
		if (r < 0)
			error_set(b->err, r, "cannot hand over the mount of "
				  "%s: %s", path, strerror(-r));
	}
	if (r < 0) {
		close_fd(inside);
		return r;
	}
	r = remember(b->c, inside, path);
	return r < 0 ? error_set(b->err, r, "out of memory") : 0;
}

int builder_place(struct builder *b, int mount, const char *path, bool directory)
{
	return place_over(b, mount, -1, path, directory);
}

int builder_open(const char *path, struct stat *st, struct error *err)
{
	int fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fstat(fd, st) < 0) {
		int r = error_errno(err, "cannot open %s", path);

		close_fd(fd);
		return r;
	}
	return fd;
}

static int want_system(struct builder *b, const char *path)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	if (lstat(path, &st) < 0) {
		if (errno == ENOENT)
			return 0; /* this machine does not have it */
		return error_errno(b->err, "cannot look at %s", path);
	}
	if (S_ISLNK(st.st_mode))
		return files_copy_link(path, b->c->mounts[0].inside, b->err);
	fd = builder_open(path, &st, b->err);
	if (fd < 0)
		return fd;
	mount = mount_clone(fd, path, RO, -1, b->err);
	return mount < 0 ? mount : builder_place(b, mount, path, true);
}

static int want_device(struct builder *b, const char *path)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	fd = builder_open(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (!S_ISCHR(st.st_mode))
		return error_set(b->err, -ENXIO, "%s is no device", path);
	mount = mount_clone(fd, path, 0, -1, b->err);
	return mount < 0 ? mount : builder_place(b, mount, path, false);
}

/* /etc: ours over the host's, without its sockets and FIFOs. */
static int want_etc(struct builder *b)
{
	AUTO_CLOSE int fd = -1;
	struct mount_layer layers[2] = {{.fd = b->support, .path = "etc"}};
	struct stat st;
	int r, mount;

	fd = builder_open("/etc", &st, b->err);
	if (fd < 0)
		return fd;
	layers[1].fd = fd;
	r = files_make_etc(b->support, b->s, b->err);
	if (r < 0)
		return r;
	mount = mount_overlay(layers, 2, -1, -1, RO, b->err);
	return mount < 0 ? mount : builder_place(b, mount, "/etc", true);
}

/*
 * No more than what is permitted of memory and of disk; so who fills it hits
 * one of these limits and is stopped with its name.
 */
static uint64_t scratch_size(const struct sandbox_spec *s)
{
	uint64_t size = s->limits.memory < s->limits.disk ? s->limits.memory
							  : s->limits.disk;

	/* Room for our own part: the limit itself must be reached. */
	return size == LIMIT_NONE ? 0 : size + OWN_BYTES;
}

/*
 * A directory of the support tmpfs at path. They share one file system and so
 * one maximum of bytes and files, and each costs no more than a bind mount.
 */
static int place_own(struct builder *b, const char *name, const char *path,
		     unsigned attr)
{
	int dir = openat(b->support, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int mount;

	if (dir < 0)
		return error_errno(b->err, "cannot open the layer of %s", path);
	mount = mount_clone(dir, path, attr, -1, b->err);
	if (mount < 0) {
		close(dir);
		return mount;
	}
	return place_over(b, mount, dir, path, true);
}

static int want_scratch(struct builder *b, const char *name, const char *path,
			mode_t mode)
{
	int r;

	if (mkdirat(b->support, name, 0700) < 0 ||
	    fchownat(b->support, name, b->s->outer_uid, b->s->outer_gid,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(b->support, name, mode, 0) < 0)
		return error_errno(b->err, "cannot make %s", path);
	r = place_own(b, name, path, RW);
	if (r == 0)
		r = strlist_add(&b->c->write_paths, path);
	return r;
}

static int want_home(struct builder *b, const char *path)
{
	int r = want_scratch(b, "home", path, 0700);

	if (r == 0)
		r = files_make_git(b->support, b->s, b->err);
	return r < 0 ? r : files_make_seeds(b->support, b->s, b->err);
}

static int build_want(struct builder *b, const struct want *w)
{
	switch (w->kind) {
	case WANT_SYSTEM:
		return want_system(b, w->path);
	case WANT_ETC:
		return want_etc(b);
	case WANT_DEVICE:
		return want_device(b, w->path);
	case WANT_TMP:
		return want_scratch(b, "tmp", w->path, 01777);
	case WANT_SHM:
		return want_scratch(b, "shm", w->path, 01777);
	case WANT_HOME:
		return want_home(b, w->path);
	case WANT_READ:
		return want_read(b, w->path);
	case WANT_TOOL:
		return want_tool(b, w->path, w->index);
	case WANT_CARRIED:
		return want_carried(b, w->path, w->index);
	case WANT_SOCKET:
		return want_socket(b, w->path);
	case WANT_WRITE:
		return want_write(b, w->path, w->index);
	case WANT_SOURCE:
		return want_source(b);
	case WANT_PIN:
		return want_pin(b, w->path);
	case WANT_COVER:
		return want_cover(b, w->path);
	case WANT_ANCHOR:
		return want_anchor(b, w->path);
	}
	return -EINVAL;
}

static int compare_wants(const void *a, const void *b)
{
	return strcmp(((const struct want *)a)->path,
		      ((const struct want *)b)->path);
}

static struct want *add_wants(struct want *w, enum want_kind kind,
			      const struct strlist *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		*w++ = (struct want){kind, paths->items[i], i};
	return w;
}

static int collect_wants(struct builder *b)
{
	const struct sandbox_spec *s = b->s;
	size_t n = ARRAY_SIZE(fixed) + s->read.n + s->write.n + s->tools.n +
		   s->carried_at.n + s->sockets.n + s->pinned.n +
		   s->covered.n + s->anchors.n + 2;
	struct want *w = calloc(n, sizeof(*w));

	if (!w)
		return error_set(b->err, -ENOMEM, "out of memory");
	b->wants = w;
	memcpy(w, fixed, sizeof(fixed));
	w += ARRAY_SIZE(fixed);
	*w++ = (struct want){WANT_HOME, s->home, 0};
	if (s->source)
		*w++ = (struct want){WANT_SOURCE, s->source, 0};
	w = add_wants(w, WANT_READ, &s->read);
	w = add_wants(w, WANT_WRITE, &s->write);
	w = add_wants(w, WANT_TOOL, &s->tools);
	w = add_wants(w, WANT_CARRIED, &s->carried_at);
	w = add_wants(w, WANT_SOCKET, &s->sockets);
	w = add_wants(w, WANT_PIN, &s->pinned);
	w = add_wants(w, WANT_COVER, &s->covered);
	w = add_wants(w, WANT_ANCHOR, &s->anchors);
	b->n_wants = (size_t)(w - b->wants);
	qsort(b->wants, b->n_wants, sizeof(*w), compare_wants);
	return 0;
}

static bool is_of_host(enum want_kind kind)
{
	return kind == WANT_READ || kind == WANT_WRITE ||
	       kind == WANT_SOURCE || kind == WANT_TOOL ||
	       kind == WANT_CARRIED || kind == WANT_SOCKET ||
	       kind == WANT_PIN || kind == WANT_COVER || kind == WANT_ANCHOR;
}

static int refuse_pair(const struct want *a, const struct want *b,
		       struct error *err)
{
	if (is_of_host(a->kind) && is_of_host(b->kind))
		return error_set(err, -EEXIST, "%s is asked for twice",
				 a->path);
	if (a->kind == WANT_SOURCE || b->kind == WANT_SOURCE)
		return error_set(err, -EEXIST,
				 "%s cannot be the source: the sandbox has its "
				 "own; name a directory below, or --source none",
				 a->path);
	return error_set(err, -EEXIST,
			 "%s cannot be granted: the sandbox has its own; name "
			 "a directory below", a->path);
}

static int check_wants(struct builder *b)
{
	for (size_t i = 0; i < b->n_wants; i++) {
		const struct want *w = &b->wants[i];

		if (i > 0 && str_eq(w->path, w[-1].path))
			return refuse_pair(w - 1, w, b->err);
		/* Shared memory is a place for files like any other. */
		if (!is_of_host(w->kind) || path_is_below(w->path, "/dev/shm"))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(reserved); k++) {
			if (path_is_below(w->path, reserved[k]))
				return error_set(b->err, -EPERM,
						 "%s cannot be granted: the "
						 "sandbox has its own %s",
						 w->path, reserved[k]);
		}
	}
	return 0;
}

int container_check(const struct sandbox_spec *s, struct error *err)
{
	struct builder b = {.s = s, .err = err};
	int r = collect_wants(&b);

	if (r == 0)
		r = check_wants(&b);
	free(b.wants);
	return r;
}

/* The root comes first: mount points are made in it while others are placed. */
static int build_root(struct builder *b)
{
	int r = files_make_layers(b->support, b->s, b->err);

	return r < 0 ? r : place_own(b, "root", "/", RO);
}

int container_build(struct container *c, const struct sandbox_spec *s,
		    const struct container_helpers *helpers, struct error *err)
{
	uint64_t inodes = s->limits.inodes == LIMIT_NONE
				  ? 0
				  : s->limits.inodes + OWN_INODES;
	int support = mount_tmpfs(scratch_size(s), inodes, 0755, RW, err);
	struct builder b = {.c = c, .s = s, .err = err, .support = support};
	int r;

	c->support = support;
	c->helpers = helpers;
	if (support < 0)
		return support;
	/* Kernels before 6.15 take only attached mounts as layers. */
	if (sys_move_mount(support, "", c->task_fd, "",
			   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return error_errno(err, "cannot attach the keeper's layers");
	r = build_root(&b);
	if (r == 0)
		r = collect_wants(&b);
	if (r == 0)
		r = check_wants(&b);
	for (size_t i = 0; r == 0 && i < b.n_wants; i++)
		r = build_want(&b, &b.wants[i]);
	free(b.wants);
	return r;
}

void container_init(struct container *c)
{
	*c = (struct container){.task_fd = -1, .support = -1, .hide_fd = -1};
}

void container_done(struct container *c)
{
	for (size_t i = 0; i < c->n_mounts; i++) {
		close_fd(c->mounts[i].inside);
		free(c->mounts[i].path);
	}
	free(c->mounts);
	close_fd(c->support);
	close_fd(c->hide_fd);
	container_clones_done(&c->clones);
	strlist_done(&c->write_paths);
	container_init(c);
}
