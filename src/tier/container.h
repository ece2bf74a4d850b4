/*
 * The container tier: a root of its own made of detached mounts. The keeper
 * makes them here; init places them. Two steps, because mounts whose ids are
 * mapped must be made before the keeper enters its user namespace.
 */
#ifndef PINFOLD_TIER_CONTAINER_H
#define PINFOLD_TIER_CONTAINER_H

#include "base/error.h"
#include "confine/landlock.h"
#include "tier/spec.h"

/*
 * The name server in the sandbox's resolv.conf: an address of documentation
 * (RFC 5737), to which there is no route. Who looks up a name tries to connect
 * to it, which fails at once and is seen by the notification of connects.
 */
#define CONTAINER_RESOLVER "192.0.2.53"

/* One mount and where it went. */
struct placement {
	int inside; /* its top, where mount points are ours to make; else -1 */
	char *path; /* inside the sandbox, normal */
};

/* Hands a detached mount to whoever places it; fd stays the caller's. */
typedef int container_place_fn(void *arg, int fd, const char *path);

struct container {
	int task_fd;      /* the task's directory */
	int support; /* tmpfs that holds the root, home, /tmp, /dev/shm, layers */
	int source_clone; /* idmapped, for root callers; -1 */
	struct strlist write_paths; /* what Landlock lets the command write */
	int *grant_clones; /* idmapped clones of spec->write, or NULL */
	size_t n_grant_clones;
	container_place_fn *place;
	void *place_arg;
	struct placement *mounts;
	size_t n_mounts, cap_mounts;
};

/*
 * Fails where two mounts of s would have one path, or where the source or a
 * grant would lie on what the sandbox has of its own. To be asked before the
 * source is copied.
 */
int container_check(const struct sandbox_spec *s, struct error *err);

/*
 * Step one, before the keeper's user namespace: mounts that only the caller can
 * make. task_fd stays the caller's.
 */
int container_prepare(struct container *c, const struct sandbox_spec *s,
		      int task_fd, struct error *err);

/*
 * Step two, inside it: makes every mount and hands it to place, ordered so that
 * each comes after the one that holds its mount point; the first is the root.
 * The text of an error names the path and the way out.
 */
int container_build(struct container *c, const struct sandbox_spec *s,
		    container_place_fn *place, void *arg, struct error *err);

/* Closes all mounts. */
void container_done(struct container *c);

#endif
