/*
 * A source that a task writes at once. What of it is protected when the task
 * starts is pinned (mounted read-only over itself, by the tier); what is found
 * there when it has ended, and was not pinned, is moved out of the source into
 * the task's upper layer, where it is a change that is held back like any other.
 *
 * What was pinned is written down in the task's directory before the command
 * starts, so that whoever comes after a crash can do the moving.
 */
#ifndef PINFOLD_WORKSPACE_DIRECT_H
#define PINFOLD_WORKSPACE_DIRECT_H

#include "base/error.h"
#include "base/str.h"
#include "workspace/protect.h"

#include <stdbool.h>
#include <stdint.h>

/* Mounts of one source: what is pinned, and the directories above it. */
#define DIRECT_MOUNTS_MAX 4096

struct direct {
	/* Relative, in order (base/paths.h); a directory with all in it. */
	struct strlist pinned;
	/* Links cannot be pinned: they are put back. Equal lengths. */
	struct strlist links, targets;
	/* Where links lead to nothing. */
	struct strlist absent;
	/* The source's inode number, as text, and its path: one item each. */
	struct strlist top, where;
	/* "INODE CHANGE-TIME PATH": files that have another name, too. */
	struct strlist shared;
};

#define AUTO_DIRECT __attribute__((cleanup(direct_done)))

void direct_done(struct direct *d);

/*
 * Finds what is to be pinned: .git, what protect names, what hide lists (a
 * normalised set; what of it exists), what is no file, directory or link
 * (sockets, FIFOs: they would lead to processes of the host), and what links
 * among these lead to. 0, -E2BIG, or another error; the text names a path. A
 * directory that the caller may not search is passed over, for neither may the
 * command; another one that cannot be read is an error.
 */
int direct_look(int source_fd, const struct protect *protect,
		const struct strlist *hide, struct direct *ret,
		struct error *err);

/*
 * The directories that lie on the way to what is pinned, without those that are
 * pinned themselves: to rename one would take it along, so each becomes a mount
 * of its own. A normal list in order. 0, -E2BIG or -ENOMEM.
 */
int direct_anchors(const struct direct *d, struct strlist *ret,
		   struct error *err);

/* Writes d into the task's directory, and reads it. -ENOENT: there is none. */
int direct_write(int task_fd, const struct direct *d, struct error *err);
int direct_read(int task_fd, struct direct *ret, struct error *err);
/* Is there something to do? */
bool direct_is_noted(int task_fd);
/* Notes that the moving is done. */
int direct_forget(int task_fd, struct error *err);

/* What was done, with the first path of each kind; NULL: there was none. */
struct direct_swept {
	uint64_t moved, restored, set_ids, special;
	char *first_moved, *first_set_id, *first_special;
};

void direct_swept_done(struct direct_swept *s);

/* What a sweep goes by. */
struct direct_want {
	const struct direct *d;
	const struct strlist *globs; /* files.protect of the policy */
	const struct strlist *deny;  /* files.deny, relative to the source */
	int64_t since_ns;	     /* when the command started */
};

/*
 * Moves what is protected, or denied, and was not pinned to task_fd/upper, a
 * repository at the top first; puts links back; takes set-id bits, and marks that
 * an overlay would obey, from what was changed since then; counts sockets and
 * FIFOs. The task's processes have ended; nothing in the tree is trusted.
 *
 * Where upper lies in another mount, what is moved is copied, is on the disk, and
 * goes from the source then. After an interruption at any step it may be done
 * again: each path is whole in the source or in the layer. -ESTALE where source_fd
 * is another directory than was looked at. 0 or an error that names a path; then
 * the rest is still to do.
 */
int direct_sweep(int task_fd, int source_fd, const struct direct_want *want,
		 struct direct_swept *ret, struct error *err);

#endif
