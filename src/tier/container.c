/*
 * Theory of operation: every path that exists in the sandbox because of a
 * mount is a "want". Wants are sorted by path, so that a parent comes before
 * what lies in it, and made one after the other; the mount point of each is
 * created in the nearest tmpfs of ours above it (its "skeleton"), or is there
 * already because the parent shows the same path of the host.
 */
#include "tier/container.h"

#include "base/cleanup.h"
#include "confine/mount.h"
#include "confine/sys.h"
#include "tier/container_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RO (MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV)
#define RW (MOUNT_NOSUID | MOUNT_NODEV)
/* More files than the skeleton and the mount points of 8,000 grants need. */
#define OWN_INODES 65536u
#define OWN_BYTES (4u << 20)

enum want_kind {
	WANT_SYSTEM,
	WANT_ETC,
	WANT_DEVICE,
	WANT_TMP,
	WANT_SHM,
	WANT_HOME,
	WANT_READ,
	WANT_WRITE,
	WANT_SOURCE,
};

struct want {
	enum want_kind kind;
	const char *path;
	size_t index; /* of a write grant */
};

struct builder {
	struct container *c;
	const struct sandbox_spec *s;
	struct error *err;
	int support; /* tmpfs with layers of ours; never placed itself */
	struct want *wants;
	size_t n_wants;
};

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

static int place(struct builder *b, int mount, const char *path, bool directory)
{
	return place_over(b, mount, -1, path, directory);
}

static int open_path(const char *path, struct stat *st, struct error *err)
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
	fd = open_path(path, &st, b->err);
	if (fd < 0)
		return fd;
	mount = mount_clone(fd, path, RO, -1, b->err);
	return mount < 0 ? mount : place(b, mount, path, true);
}

static int want_device(struct builder *b, const char *path)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	fd = open_path(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (!S_ISCHR(st.st_mode))
		return error_set(b->err, -ENXIO, "%s is no device", path);
	mount = mount_clone(fd, path, 0, -1, b->err);
	return mount < 0 ? mount : place(b, mount, path, false);
}

/* /etc: ours over the host's, without its sockets and FIFOs. */
static int want_etc(struct builder *b)
{
	AUTO_CLOSE int fd = -1;
	struct mount_layer layers[2] = {{.fd = b->support, .path = "etc"}};
	struct stat st;
	int r, mount;

	fd = open_path("/etc", &st, b->err);
	if (fd < 0)
		return fd;
	layers[1].fd = fd;
	r = files_make_etc(b->support, b->s, b->err);
	if (r < 0)
		return r;
	mount = mount_overlay(layers, 2, -1, -1, RO, b->err);
	return mount < 0 ? mount : place(b, mount, "/etc", true);
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

static int want_read(struct builder *b, const char *path)
{
	struct mount_layer layers[2] = {{.fd = b->support, .path = "empty"}};
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int mount;

	fd = open_path(path, &st, b->err);
	if (fd < 0)
		return fd;
	if (S_ISDIR(st.st_mode)) {
		layers[1].fd = fd;
		mount = mount_overlay(layers, 2, -1, -1, RO, b->err);
		if (mount < 0)
			return error_prefix(b->err, "cannot grant %s", path);
		return place(b, mount, path, true);
	}
	if (!S_ISREG(st.st_mode))
		return error_set(b->err, -EINVAL,
				 "cannot grant %s: only directories and "
				 "regular files can be granted",
				 path);
	mount = mount_clone(fd, path, RO, -1, b->err);
	return mount < 0 ? mount : place(b, mount, path, false);
}

/* An overlay whose changes stay in DIR/upper below the task's directory. */
static int overlay_with_upper(struct builder *b, int lower, const char *dir,
			      bool hide)
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
		layers[n++] = (struct mount_layer){.fd = b->support,
						   .path = "hide"};
	layers[n++] = (struct mount_layer){.fd = lower};
	return mount_overlay(layers, n, upper, work, RW, b->err);
}

/* The source has a clone, before those of the write grants. */
static bool has_source_clone(const struct sandbox_spec *s)
{
	return s->root_caller && s->source && s->workspace != WORKSPACE_COPY;
}

size_t container_clones_needed(const struct sandbox_spec *s)
{
	return s->root_caller ? has_source_clone(s) + s->write.n : 0;
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

static int want_write(struct builder *b, const char *path, size_t index)
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
		index_of_clone = index + has_source_clone(b->s);
		fd = fcntl(b->c->clones.fds[index_of_clone], F_DUPFD_CLOEXEC,
			   3);
		if (fd < 0 || fstat(fd, &st) < 0)
			return error_errno(b->err, "cannot open %s", path);
	} else {
		fd = open_path(path, &st, b->err);
		if (fd < 0)
			return fd;
	}
	if (!S_ISDIR(st.st_mode))
		return error_set(b->err, -ENOTDIR,
				 "cannot grant %s for writing: it is not a "
				 "directory",
				 path);
	snprintf(dir, sizeof(dir), "write.%zu", index);
	mount = overlay_with_upper(b, fd, dir, false);
	if (mount < 0)
		return error_prefix(b->err, "cannot grant %s for writing",
				    path);
	r = place(b, mount, path, true);
	return r < 0 ? r : strlist_add(&b->c->write_paths, path);
}

static int open_source(struct builder *b)
{
	struct stat st;
	int fd;

	if (has_source_clone(b->s)) {
		int r = need_clones(b);

		return r < 0 ? r
			     : fcntl(b->c->clones.fds[0], F_DUPFD_CLOEXEC, 3);
	}
	fd = open_path(b->s->source, &st, b->err);
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

static int want_source(struct builder *b)
{
	AUTO_CLOSE int fd = -1;
	int mount, r;

	if (b->s->workspace == WORKSPACE_COPY) {
		fd = openat(b->c->task_fd, "upper",
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return error_errno(b->err, "cannot open the copy");
		mount = mount_clone(fd, "the copy", RW, -1, b->err);
	} else {
		fd = open_source(b);
		if (fd < 0)
			return fd;
		mount = overlay_with_upper(b, fd, ".", spec_hides(b->s));
	}
	if (mount < 0)
		return error_prefix(b->err,
				    "cannot make an overlay over %s (try "
				    "--workspace copy)",
				    b->s->source);
	r = place(b, mount, b->s->source, true);
	return r < 0 ? r : strlist_add(&b->c->write_paths, b->s->source);
}

static int want_home(struct builder *b, const char *path)
{
	int r = want_scratch(b, "home", path, 0700);

	return r < 0 ? r : files_make_git(b->support, b->s, b->err);
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
	case WANT_WRITE:
		return want_write(b, w->path, w->index);
	case WANT_SOURCE:
		return want_source(b);
	}
	return -EINVAL;
}

static int compare_wants(const void *a, const void *b)
{
	return strcmp(((const struct want *)a)->path,
		      ((const struct want *)b)->path);
}

static int collect_wants(struct builder *b)
{
	const struct sandbox_spec *s = b->s;
	size_t n = ARRAY_SIZE(fixed) + s->read.n + s->write.n + 2;
	struct want *w = calloc(n, sizeof(*w));

	if (!w)
		return error_set(b->err, -ENOMEM, "out of memory");
	b->wants = w;
	memcpy(w, fixed, sizeof(fixed));
	w += ARRAY_SIZE(fixed);
	*w++ = (struct want){WANT_HOME, s->home, 0};
	if (s->source)
		*w++ = (struct want){WANT_SOURCE, s->source, 0};
	for (size_t i = 0; i < s->read.n; i++)
		*w++ = (struct want){WANT_READ, s->read.items[i], 0};
	for (size_t i = 0; i < s->write.n; i++)
		*w++ = (struct want){WANT_WRITE, s->write.items[i], i};
	b->n_wants = (size_t)(w - b->wants);
	qsort(b->wants, b->n_wants, sizeof(*w), compare_wants);
	return 0;
}

static bool is_of_host(enum want_kind kind)
{
	return kind == WANT_READ || kind == WANT_WRITE || kind == WANT_SOURCE;
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

/* A clone of path in which its owner's files belong to the command. */
static int idmapped_clone(const struct sandbox_spec *s, const char *path,
			  struct stat *ret_st, struct error *err)
{
	struct id_extent uids[5], gids[5];
	AUTO_CLOSE int userns = -1;
	AUTO_CLOSE int fd = open_path(path, ret_st, err);
	size_t n_uids, n_gids;
	int clone;

	if (fd < 0)
		return fd;
	n_uids = ids_swap(ret_st->st_uid, s->outer_uid, uids);
	n_gids = ids_swap(ret_st->st_gid, s->outer_gid, gids);
	userns = ids_userns_fd(uids, n_uids, gids, n_gids, err);
	if (userns < 0)
		return userns;
	clone = mount_clone(fd, path, 0, userns, err);
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

static int clone_source(const struct sandbox_spec *s, struct error *err)
{
	struct stat st;
	int fd = idmapped_clone(s, s->source, &st, err);

	if (fd < 0)
		return fd;
	if (st.st_dev == s->source_dev && st.st_ino == s->source_ino)
		return fd;
	close(fd);
	return error_set(err, -ESTALE,
			 "%s was replaced while the task started", s->source);
}

int container_clone(const struct sandbox_spec *s, struct container_clones *ret,
		    struct error *err)
{
	size_t source = has_source_clone(s), n = container_clones_needed(s);
	struct stat st;
	int fd = 0;

	*ret = (struct container_clones){0};
	if (n == 0)
		return 0;
	ret->fds = calloc(n, sizeof(int));
	if (!ret->fds)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && fd >= 0; i++) {
		fd = i < source ? clone_source(s, err)
				: idmapped_clone(s, s->write.items[i - source],
						 &st, err);
		if (fd >= 0)
			ret->fds[ret->n++] = fd;
	}
	if (fd < 0)
		container_clones_done(ret);
	return fd < 0 ? fd : 0;
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
	*c = (struct container){.task_fd = -1, .support = -1};
}

void container_done(struct container *c)
{
	for (size_t i = 0; i < c->n_mounts; i++) {
		close_fd(c->mounts[i].inside);
		free(c->mounts[i].path);
	}
	free(c->mounts);
	close_fd(c->support);
	container_clones_done(&c->clones);
	strlist_done(&c->write_paths);
	container_init(c);
}
