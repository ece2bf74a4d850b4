/*
 * What a task changed: read from its upper layer (or, in copy mode, by
 * comparing with the manifest), never by trusting anything the agent wrote.
 */
#ifndef PINFOLD_WORKSPACE_CHANGES_H
#define PINFOLD_WORKSPACE_CHANGES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED };

struct manifest;
struct manifest_entry;

/* Where a change stands, for who takes it over. Valid during the call alone. */
struct change_place {
	int upper_fd;	  /* the directory that holds it */
	int below_fd;	  /* that directory in the source; -1: none */
	const char *name; /* "." for the top itself */
	const struct manifest *manifest;  /* copy mode, else NULL */
	const struct manifest_entry *was; /* copy mode: NULL if added */
};

/*
 * One changed path. A directory that merely holds changes is not one; a
 * directory whose own mode changed is "modified" (the top itself is "."); one
 * that was deleted is one entry (its content is not listed), one that was added
 * is an entry like all that is in it. An opaque directory (replaced) is compared
 * name by name with what it hides. A path whose type changed is "modified".
 *
 * A regular file of the same size and mode is compared by content, up to
 * CHANGES_COMPARE_FILE bytes of one file and CHANGES_COMPARE_ALL of a scan: an
 * equal one (touched, opened for writing) is no change. What is larger counts
 * as modified: times are the agent's to set and prove nothing. Owners, times
 * and extended attributes are not looked at.
 */
#define CHANGES_COMPARE_FILE (64u << 20)
#define CHANGES_COMPARE_ALL (1u << 30)

struct change {
	const char *path; /* relative to the source; any bytes but NUL */
	enum change_kind kind;
	mode_t mode;      /* type and permissions now (before, if deleted) */
	mode_t mode_before; /* 0 if added */
	uint64_t size;    /* now; 0 if deleted or not a regular file */
	const struct change_place *place; /* NULL where nobody scanned */
};

/* Called for each change in the order of the walk; non-zero ends the scan. */
typedef int change_fn(void *arg, const struct change *c);

struct changes_counts {
	uint64_t added, modified, deleted;
	uint64_t bytes, inodes; /* held by the layer */
};

/*
 * Enumerates. task_fd holds upper/; source_fd is the source (O_PATH or
 * readable; -1: none, all is added). copied: compare with manifest instead
 * of reading whiteouts. Memory is flat: about 100 bytes and a name for each
 * level of depth, WALK_DEPTH_MAX levels at most (-ENAMETOOLONG). fn may be NULL: only
 * counts. A file system error names the path; -EACCES is a directory that its
 * maker closed to us (a caller with CAP_DAC_READ_SEARCH never sees it). Ends
 * after max_entries paths looked at with -E2BIG (0: no bound), *ret then holds
 * what was counted. What fn returned, if not 0.
 */
int changes_scan(int task_fd, int source_fd, bool copied, uint64_t max_entries,
		 change_fn *fn, void *arg, struct changes_counts *ret,
		 struct error *err);

/*
 * Bytes (allocated) and inodes below dir_fd/name (itself not counted), for the
 * disk watchdog. A missing name is empty.
 * Stops early once either maximum is passed. A file of n links counts 1/n of
 * its bytes at each. What vanishes meanwhile is left out; so is a directory
 * that may not be read, but then the result is -EACCES and the sums hold for
 * the rest. Deeper than WALK_DEPTH_MAX: -ENAMETOOLONG, and what lies below was
 * not counted. 0 or negative.
 */
int changes_usage(int dir_fd, const char *name, uint64_t max_bytes,
		  uint64_t max_inodes, uint64_t *ret_bytes,
		  uint64_t *ret_inodes);

#endif
