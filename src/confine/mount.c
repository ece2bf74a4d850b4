#include "confine/mount.h"

#include "base/cleanup.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static uint64_t attributes(unsigned attr)
{
	return (attr & MOUNT_RDONLY ? MOUNT_ATTR_RDONLY : 0u) |
	       (attr & MOUNT_NOSUID ? MOUNT_ATTR_NOSUID : 0u) |
	       (attr & MOUNT_NODEV ? MOUNT_ATTR_NODEV : 0u) |
	       (attr & MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0u);
}

static int set_string(int fs, const char *key, const char *value)
{
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0);
}

/* Creates the superblock and its detached mount; closes nothing. */
static int finish(int fs, const char *type, unsigned attr, struct error *err)
{
	int fd;

	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return error_errno(err, "cannot create a %s file system", type);
	fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes(attr));
	if (fd < 0)
		return error_errno(err, "cannot mount a %s file system", type);
	return fd;
}

int mount_new(const char *type, const char *const *options, unsigned attr,
	      struct error *err)
{
	AUTO_CLOSE int fs = sys_fsopen(type, FSOPEN_CLOEXEC);

	if (fs < 0)
		return error_errno(err, "cannot open file system type %s", type);
	for (; options && *options; options++) {
		char key[64];
		const char *value = strchr(*options, '=');
		size_t n = value ? (size_t)(value - *options) : 0;
		int r;

		if (!value) {
			r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, *options, NULL,
					 0);
		} else if (n >= sizeof(key)) {
			return error_set(err, -EINVAL, "option %s is too long",
					 *options);
		} else {
			memcpy(key, *options, n);
			key[n] = '\0';
			r = set_string(fs, key, value + 1);
		}
		if (r < 0)
			return error_errno(err, "cannot set %s option %s", type,
					   *options);
	}
	return finish(fs, type, attr, err);
}

int mount_tmpfs(uint64_t size, uint64_t inodes, mode_t mode, unsigned attr,
		struct error *err)
{
	char text[3][40];
	const char *options[4] = {0};
	size_t n = 0;

	snprintf(text[n], sizeof(text[n]), "mode=%o", (unsigned)mode);
	n++;
	if (size) {
		snprintf(text[n], sizeof(text[n]), "size=%ju", (uintmax_t)size);
		n++;
	}
	if (inodes) {
		snprintf(text[n], sizeof(text[n]), "nr_inodes=%ju",
			 (uintmax_t)inodes);
		n++;
	}
	for (size_t i = 0; i < n; i++)
		options[i] = text[i];
	return mount_new("tmpfs", options, attr, err);
}

int mount_clone(int fd, const char *name, unsigned attr, int idmap_fd,
		struct error *err)
{
	struct mount_attr set = {.attr_set = attributes(attr)};
	unsigned below = idmap_fd < 0 ? AT_RECURSIVE : 0;
	AUTO_CLOSE int tree = -1;

	tree = sys_open_tree(fd, "",
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
				     AT_EMPTY_PATH | below);
	if (tree < 0)
		return error_errno(err, "cannot clone the mount of %s", name);
	if (idmap_fd >= 0) {
		set.attr_set |= MOUNT_ATTR_IDMAP;
		set.userns_fd = (unsigned)idmap_fd;
	}
	if (set.attr_set &&
	    sys_mount_setattr(tree, "", AT_EMPTY_PATH | below, &set) < 0)
		return error_errno(err, "cannot set attributes of the mount "
				   "of %s", name);
	return steal_fd(&tree);
}

int mount_set(int fd, unsigned attr, bool recursive, struct error *err)
{
	struct mount_attr set = {.attr_set = attributes(attr)};

	if (sys_mount_setattr(fd, "",
			      AT_EMPTY_PATH |
				      (unsigned)(recursive ? AT_RECURSIVE : 0),
			      &set) < 0)
		return error_errno(err, "cannot set mount attributes");
	return 0;
}

int mount_private(int fd, struct error *err)
{
	struct mount_attr set = {.propagation = MS_PRIVATE};

	if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &set) < 0)
		return error_errno(err, "cannot make a mount private");
	return 0;
}

static int set_directory(int fs, const char *key, int fd, struct error *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (set_string(fs, key, path) < 0)
		return error_errno(err, "cannot set overlay option %s", key);
	return 0;
}

/* "lowerdir" as one string: kernels before 6.7 know no other way. */
static int set_lowers(int fs, const struct mount_layer *lowers, size_t n,
		      struct error *err)
{
	char text[4096];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(text + used, sizeof(text) - used,
				   "%s/proc/self/fd/%d%s%s", i ? ":" : "",
				   lowers[i].fd, lowers[i].path ? "/" : "",
				   lowers[i].path ? lowers[i].path : "");

		if (len < 0 || (size_t)len >= sizeof(text) - used)
			return error_set(err, -E2BIG,
					 "an overlay of %zu layers is too deep",
					 n);
		used += (size_t)len;
	}
	if (set_string(fs, "lowerdir", text) < 0)
		return error_errno(err, "cannot set overlay layers %s", text);
	return 0;
}

int mount_overlay(const struct mount_layer *lowers, size_t n_lowers,
		  int upper_fd, int work_fd, unsigned attr, struct error *err)
{
	AUTO_CLOSE int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
	int r;

	if (fs < 0)
		return error_errno(err, "cannot open file system type overlay");
	r = set_lowers(fs, lowers, n_lowers, err);
	if (r < 0)
		return r;
	if (sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		return error_errno(err, "cannot set overlay option userxattr");
	if (upper_fd >= 0) {
		r = set_directory(fs, "upperdir", upper_fd, err);
		if (r == 0)
			r = set_directory(fs, "workdir", work_fd, err);
		if (r < 0)
			return r;
		if (sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) <
		    0)
			return error_errno(err,
					   "cannot set overlay option volatile");
	}
	return finish(fs, "overlay", attr, err);
}

/*
 * A reconfiguration drops the entries of directories that nobody uses, before it
 * does anything else (tests/platform/renewal_test.c); here nothing else is asked.
 */
int mount_renew(int fd, bool read_only, struct error *err)
{
	AUTO_CLOSE int fs = -1;
	struct statfs type;

	if (fstatfs(fd, &type) < 0)
		return error_errno(err, "cannot look at a mount");
	if (type.f_type != OVERLAYFS_SUPER_MAGIC)
		return error_set(err, -EMEDIUMTYPE, "it is no overlay");
	fs = sys_fspick(fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (fs < 0)
		return error_errno(err, "cannot pick an overlay");
	/* One without an upper layer refuses to become writable. */
	if (read_only &&
	    sys_fsconfig(fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0)
		return error_errno(err, "cannot set an option of an overlay");
	if (sys_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return error_errno(err, "cannot renew an overlay");
	return 0;
}

int mount_place(int mount_fd, int root_fd, const char *path, struct error *err)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int to = sys_openat2(root_fd, path, &how);

	if (to < 0)
		return error_errno(err, "cannot open mount point %s", path);
	if (sys_move_mount(mount_fd, "", to, "",
			   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return error_errno(err, "cannot place the mount at %s", path);
	return 0;
}

int mount_attach_root(int root_fd, struct error *err)
{
	/* This process still sees the uncovered "/". */
	if (sys_move_mount(root_fd, "", AT_FDCWD, "/",
			   MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return error_errno(err, "cannot attach the new root");
	return 0;
}

int mount_enter_root(int root_fd, struct error *err)
{
	if (fchdir(root_fd) < 0 || sys_pivot_root(".", ".") < 0)
		return error_errno(err, "cannot pivot into the new root");
	/* The old root now lies over the new one, at ".". */
	if (sys_umount2(".", MNT_DETACH) < 0)
		return error_errno(err, "cannot detach the old root");
	if (chdir("/") < 0)
		return error_errno(err, "cannot enter the new root");
	return 0;
}
