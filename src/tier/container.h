/*
 * The container tier: a root of its own made of detached mounts. The keeper
 * makes them here; init places them. Two steps, because mounts whose ids are
 * mapped can be made only outside of the keeper's user namespace.
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

struct container;

/* What container_build asks of the keeper. */
struct container_helpers {
	/* Hands a mount to whoever places it; takes fd, on failure too. */
	int (*place)(void *arg, int fd, const char *path);
	/* Fills c->clones, before the first mount that needs them. */
	int (*fetch)(void *arg, struct container *c, struct error *err);
	void *arg;
};

/*
 * For a root caller: id-mapped clones of the source, if it is not copied, of
 * each directory that may be written, and of each that is carried in. In this
 * order.
 */
struct container_clones {
	int *fds;
	size_t n;
};

struct container {
	int task_fd;      /* the task's directory */
	int support; /* tmpfs that holds the root, home, /tmp, /dev/shm, layers */
	int hide_fd; /* holds the layer over the source that was made before */
	struct container_clones clones;
	struct strlist write_paths; /* what Landlock lets the command write */
	bool adopted; /* the clones are attached in our namespace */
	bool carried_read_only; /* this tmpfs cannot be an upper layer */
	const struct container_helpers *helpers;
	struct placement *mounts;
	size_t n_mounts, cap_mounts;
};

/*
 * Fails where two mounts of s would have one path, or where the source or a
 * grant would lie on what the sandbox has of its own. To be asked before the
 * source is copied.
 */
int container_check(const struct sandbox_spec *s, struct error *err);

/* Step one, by the caller itself. The clones are its own. */
int container_clone(const struct sandbox_spec *s, struct container_clones *ret,
		    struct error *err);
void container_clones_done(struct container_clones *c);
/* Can the file system of path be cloned so? */
bool container_clones(const struct sandbox_spec *s, const char *path);

/* How many of them there are. */
size_t container_clones_needed(const struct sandbox_spec *s);

/*
 * Step two, by the keeper: makes every mount and hands it to be placed, ordered
 * so that each comes after the one that holds its mount point; the first is the
 * root. c->task_fd is of the keeper's own mount namespace. The text of an error
 * names the path and the way out.
 */
void container_init(struct container *c);
int container_build(struct container *c, const struct sandbox_spec *s,
		    const struct container_helpers *helpers, struct error *err);

/* Closes all mounts. */
void container_done(struct container *c);

#endif
