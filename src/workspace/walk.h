/*
 * A walk over one directory tree, or over two side by side, that an agent may
 * be changing at the same moment. Every directory is opened by one name below
 * a held descriptor, never through a link or into another mount. At most
 * WALK_WINDOW levels hold descriptors: a shallower directory is closed, and
 * opened again as ".." of its child, where it must be the same directory (same
 * device and inode) or the walk ends. Depth costs memory only, about 100 bytes
 * and one name a level.
 */
#ifndef PINFOLD_WORKSPACE_WALK_H
#define PINFOLD_WORKSPACE_WALK_H

#include "base/buf.h"
#include "base/error.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WALK_WINDOW 48
/* Deeper trees are refused with -ENAMETOOLONG and a text that says so. */
#define WALK_DEPTH_MAX 65536
#define WALK_PATH_MAX (32u << 20)

struct walk_level {
	DIR *dir;	/* the tree that is read; NULL while closed */
	int other;	/* O_PATH of its counterpart; -1: none, or closed */
	bool has_other;
	dev_t dev, other_dev; /* known once closed */
	ino_t ino, other_ino;
	long pos;	 /* where to go on reading */
	size_t path_len; /* of this directory's path in walk.path */
	/* For the user of the walk; zero when a level is entered. */
	bool hidden;
	bool marks;
	uint64_t block;
	uint64_t start;
};

struct walk {
	struct walk_level *levels;
	size_t depth; /* levels in use */
	size_t cap;
	struct buf path; /* of the current directory, relative, "" at the top */
};

#define AUTO_WALK __attribute__((cleanup(walk_done)))

/*
 * Starts at the directory below_fd/name (name NULL: below_fd itself) and, when
 * other_fd is not -1, its counterpart. The descriptors stay the caller's.
 */
int walk_init(struct walk *w, int below_fd, const char *name, int other_fd,
	      struct error *err);
void walk_done(struct walk *w);

/* The current level; its descriptor. Valid until the next enter or leave. */
struct walk_level *walk_top(struct walk *w);
int walk_fd(const struct walk *w);

/*
 * The next entry of the current directory, "." and ".." left out. 1, 0 at its
 * end, or negative.
 */
int walk_next(struct walk *w, struct dirent **ret, struct error *err);

/*
 * Goes down into name. With pair, the counterpart is entered too where it is a
 * directory of the same mount. -ENOTDIR and -ELOOP (a link) mean that name is
 * no directory any more.
 */
int walk_enter(struct walk *w, const char *name, bool pair, struct error *err);

/* Goes up. The top itself cannot be left. */
int walk_leave(struct walk *w, struct error *err);

/*
 * Fills err with "WHAT PATH: reason" for name (NULL: the directory itself) in
 * the current directory; the path is quoted and cut. Returns code.
 */
int walk_error(struct walk *w, struct error *err, int code, const char *what,
	       const char *name);

/*
 * Opens one name below dir_fd: no link is followed and no mount is crossed.
 * A name with a slash is not one name. Descriptor or negative errno.
 */
int walk_open_at(int dir_fd, const char *name, int flags);

#endif
