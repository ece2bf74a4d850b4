/*
 * Between the files of the container: what is being built, and the mounts that
 * are made for a path of the host. Each want_* makes one mount and places it;
 * its text names the path.
 */
#ifndef PINFOLD_TIER_CONTAINER_BUILD_H
#define PINFOLD_TIER_CONTAINER_BUILD_H

#include "confine/mount.h"
#include "tier/container.h"

#include <sys/stat.h>

#define RO (MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV)
#define RW (MOUNT_NOSUID | MOUNT_NODEV)

enum want_kind {
	WANT_SYSTEM,
	WANT_ETC,
	WANT_DEVICE,
	WANT_TMP,
	WANT_SHM,
	WANT_HOME,
	WANT_READ,
	WANT_TOOL,
	WANT_CARRIED,
	WANT_SOCKET,
	WANT_WRITE,
	WANT_SOURCE,
	WANT_PIN,
	WANT_COVER,
	WANT_ANCHOR,
};

struct want {
	enum want_kind kind;
	const char *path;
	size_t index; /* in its list of the plan */
};

struct builder {
	struct container *c;
	const struct sandbox_spec *s;
	struct error *err;
	int support; /* tmpfs with layers of ours; never placed itself */
	struct want *wants;
	size_t n_wants;
};

/* A descriptor (O_PATH) of what is at path itself, and what that is. */
int builder_open(const char *path, struct stat *st, struct error *err);
/* Makes the mount point at path and hands the mount over; takes it. */
int builder_place(struct builder *b, int mount, const char *path,
		  bool directory);

int want_read(struct builder *b, const char *path);
int want_write(struct builder *b, const char *path, size_t index);
int want_source(struct builder *b);
/* The source itself (O_PATH), which must be the one that was planned. */
int builder_source(struct builder *b);
/* The same where it is written directly, and mounts in it. */
int want_direct(struct builder *b);
int want_pin(struct builder *b, const char *path);
int want_cover(struct builder *b, const char *path);
int want_anchor(struct builder *b, const char *path);
int want_socket(struct builder *b, const char *path);
/* A tool chain: the directory without what of it is masked. */
int want_tool(struct builder *b, const char *path, size_t index);
/* What is carried in: the same, with an upper layer that ends with the task. */
int want_carried(struct builder *b, const char *path, size_t index);

#endif
