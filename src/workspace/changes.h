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

/*
 * One changed path. A directory that merely holds changes is not one; a
 * directory whose own mode changed is "modified"; one that was deleted is one
 * entry (its content is not listed); an opaque directory (replaced) is
 * reported as the deletions and additions that it amounts to at its top.
 */
struct change {
	const char *path; /* relative to the source; any bytes but NUL */
	enum change_kind kind;
	mode_t mode;      /* type and permissions now (before, if deleted) */
	mode_t mode_before; /* 0 if added */
	uint64_t size;    /* now; 0 if deleted or not a regular file */
};

/* Called for each change in the order of the walk; non-zero ends the scan. */
typedef int change_fn(void *arg, const struct change *c);

struct changes_counts {
	uint64_t added, modified, deleted;
	uint64_t bytes, inodes; /* held by the layer */
};

/*
 * Enumerates. task_fd holds upper/; source_fd is the source (O_PATH or
 * readable). copied: compare with work/manifest instead of reading whiteouts.
 * Memory is flat. fn may be NULL: only counts. A file system error names the
 * path. Ends after max_entries with -E2BIG (0: no bound).
 */
int changes_scan(int task_fd, int source_fd, bool copied, uint64_t max_entries,
		 change_fn *fn, void *arg, struct changes_counts *ret,
		 struct error *err);

/*
 * Bytes (allocated) and inodes below dir_fd/name, for the disk watchdog.
 * Stops early once either maximum is passed. 0 or negative.
 */
int changes_usage(int dir_fd, const char *name, uint64_t max_bytes,
		  uint64_t max_inodes, uint64_t *ret_bytes,
		  uint64_t *ret_inodes);

#endif
