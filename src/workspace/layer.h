/*
 * The directories that hold a task's changes. Below the task's directory:
 * upper/ (overlay changes, or the whole tree in copy mode) and work/ (overlay's
 * own). An agent can write whatever it likes into upper: it is only ever
 * walked through held descriptors.
 */
#ifndef PINFOLD_WORKSPACE_LAYER_H
#define PINFOLD_WORKSPACE_LAYER_H

#include "base/error.h"
#include "workspace/source.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Why an overlay would break on this source; LAYER_OK when it would not. */
enum layer_trouble {
	LAYER_OK,
	LAYER_FOREIGN_OWNER,   /* owners or groups that cannot be mapped */
	LAYER_STATE_DIRECTORY, /* state lies on a file system without uppers */
	LAYER_SOURCE_SYSTEM,   /* the source's file system cannot be a lower */
	LAYER_OVERLAPS,	       /* the source holds the state directory */
	LAYER_SAME_IDS,	       /* root's tasks: its file system maps no ids */
};

/*
 * Looks at the source's top and its git directory only (constant time): would
 * copy-up of a file fail there for somebody who maps uid and gid alone? A
 * caller who maps every id (root) passes all_ids. What the answer cannot see
 * (a foreign owner deeper down) shows as EOVERFLOW while the command runs.
 */
enum layer_trouble layer_probe(const struct source *s, int task_fd, uid_t uid,
			       gid_t gid, bool all_ids);
const char *layer_trouble_text(enum layer_trouble t);

/*
 * Makes upper/ and work/ below task_fd. upper gets the source's mode (read from
 * its descriptor where s->mode is not set) and, when
 * as_uid is not -1, that owner and group (a root caller). -EEXIST when the task
 * has an upper already: a used one is never mounted again.
 */
int layer_make(int task_fd, const struct source *s, uid_t as_uid, gid_t as_gid,
	       struct error *err);

/*
 * Told how far something long has come; a result that is not 0 ends it with
 * -EINTR.
 */
struct layer_watch {
	int (*fn)(void *arg, uint64_t files, uint64_t bytes);
	void *arg;
};

/*
 * What layer_copy would make: files of every kind, and the bytes that they take
 * up where they are now. One walk; what cannot be read counts as empty.
 */
int layer_measure(int task_fd, const struct source *s,
		  const struct layer_watch *watch, uint64_t *ret_files,
		  uint64_t *ret_bytes, struct error *err);

/*
 * May a copy share its blocks with the source, so that it takes up none? Where
 * both lie on one file system of a kind that can.
 */
bool layer_may_share(int task_fd, const struct source *s);

/*
 * Copies the source's tree into upper/ (copy mode; after layer_make): reflinks
 * where the file system can, holes and hard links kept, modes, times and user.*
 * attributes kept (not set-id bits of files, nor user.overlay.*), sockets,
 * FIFOs, devices and what s->hide lists left out, owners as as_uid/as_gid when not -1. What the
 * caller may not read is there, empty and without any permission; a directory
 * that is another mount, and the state directory, are empty. Writes manifest
 * (workspace/manifest.h) beside upper/ for changes_scan. Never follows a link. ret_files counts
 * what was made. -EFBIG when more than max_bytes would have to be written
 * (reflinks cost nothing; 0: no bound). watch may be NULL. Fails whole:
 * layer_remove cleans.
 */
int layer_copy(int task_fd, const struct source *s, uid_t as_uid, gid_t as_gid,
	       uint64_t max_bytes, const struct layer_watch *watch,
	       uint64_t *ret_files, struct error *err);

/*
 * Removes name (a directory tree made by an agent, of any shape and mode)
 * below dir_fd (one name, without slashes), through held descriptors and in
 * constant memory. Directories without permission bits are made accessible first. A missing
 * name is success. Never goes into another mount (-EXDEV) nor through a link;
 * -ENOTEMPTY when somebody goes on writing there. Depth is unbounded.
 */
int layer_remove(int dir_fd, const char *name, struct error *err);

#endif
