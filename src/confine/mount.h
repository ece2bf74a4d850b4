/*
 * Mounts by descriptor: each function makes one detached mount, which lives as
 * long as its descriptor, and which mount_place puts somewhere. Paths are
 * resolved once; nothing is limited by the length of an option string except
 * an overlay's layers, which are named through /proc/self/fd.
 */
#ifndef PINFOLD_CONFINE_MOUNT_H
#define PINFOLD_CONFINE_MOUNT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Attributes, named after the mount options. */
enum {
	MOUNT_RDONLY = 1,
	MOUNT_NOSUID = 2,
	MOUNT_NODEV = 4,
	MOUNT_NOEXEC = 8,
};

/*
 * A tmpfs of at most size bytes and inodes files (0: the kernel's default)
 * whose top has this mode. Descriptor or negative.
 */
int mount_tmpfs(uint64_t size, uint64_t inodes, mode_t mode, unsigned attr,
		struct error *err);

/*
 * A clone of what fd refers to, submounts included, with attr set on all of
 * it. fd must lie in the caller's mount namespace. idmap_fd is a user namespace
 * for MOUNT_ATTR_IDMAP, or -1; with one the mount alone is cloned, without those
 * below it, whose file systems may not know how. name is for messages.
 */
int mount_clone(int fd, const char *name, unsigned attr, int idmap_fd,
		struct error *err);

/* One directory in the stack of an overlay: fd, or path below fd. */
struct mount_layer {
	int fd;
	const char *path; /* NULL: fd itself */
};

/*
 * An overlay of lowers (top first). upper_fd and work_fd are directories, or -1
 * for a read-only overlay, which needs two lowers. Made for a user namespace:
 * userxattr, and volatile where there is an upper.
 */
int mount_overlay(const struct mount_layer *lowers, size_t n_lowers,
		  int upper_fd, int work_fd, unsigned attr, struct error *err);

/* A file system of this type with string options "key=value" (NULL: none). */
int mount_new(const char *type, const char *const *options, unsigned attr,
	      struct error *err);

/*
 * Makes an overlay forget which files it has looked up below its layers, so that
 * who looks next sees what is there now. What processes hold at this moment (open
 * files, working directories, mappings) and the directories above that stay what
 * they were, for everybody: there must be none. fd is the mount's top; read_only:
 * it has no upper layer. The layers, the upper one too, are not touched. 0 or
 * negative; -EMEDIUMTYPE if it is no overlay.
 */
int mount_renew(int fd, bool read_only, struct error *err);

/* Sets attr on a mount (and, recursive, on all below it). 0 or negative. */
int mount_set(int fd, unsigned attr, bool recursive, struct error *err);

/* What is mounted elsewhere from now on does not show in the detached mount fd. */
int mount_private(int fd, struct error *err);

/*
 * Attaches mount_fd at path below root_fd. The path is resolved without
 * following links out of it (RESOLVE_IN_ROOT, no symbolic links). 0/negative.
 */
int mount_place(int mount_fd, int root_fd, const char *path, struct error *err);

/*
 * Makes a detached mount the root directory of this process and its mount
 * namespace, in two steps: mount_attach_root covers "/" with it, so that more
 * can be placed below it while the old root is still in sight;
 * mount_enter_root moves into it and detaches the old root. 0/negative.
 */
int mount_attach_root(int root_fd, struct error *err);
int mount_enter_root(int root_fd, struct error *err);

#endif
