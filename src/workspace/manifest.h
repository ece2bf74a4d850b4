/*
 * The manifest of a copied source: what each file of the copy was when the copy
 * was made, so that a task's changes can be told from it. It lies beside upper/,
 * where no sandbox ever sees it.
 *
 * Layout: a head, then for each directory its entries (fixed fields and the
 * name), the offsets of these in the order of names, and a block that tells
 * their number. A directory's entry holds the offset of its own block. All numbers are of the
 * machine that wrote them: a manifest is not moved. A reader checks each offset
 * it uses, for the file may have been cut by a full disk.
 */
#ifndef PINFOLD_WORKSPACE_MANIFEST_H
#define PINFOLD_WORKSPACE_MANIFEST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define MANIFEST_MAGIC "pinfoldM"
#define MANIFEST_FILE "manifest"
#define MANIFEST_NEW "manifest.new" /* of a refresh that goes on */

struct manifest_head {
	char magic[8];
	uint64_t top; /* written last: 0 in a manifest that was never finished */
};

struct manifest_block {
	uint64_t n;
	uint64_t index; /* where n offsets of entries are */
};

struct manifest_entry {
	uint64_t block; /* directories: where its entries are; 0 else */
	uint64_t size;
	int64_t mtime_ns;	 /* of source and copy */
	int64_t ctime_ns;	 /* of the copy, when it was made */
	int64_t source_ctime_ns; /* of the source's file */
	uint32_t mode;
	uint32_t name_len;
	char name[]; /* name_len bytes and a NUL; padded to 8 */
};

struct manifest {
	const char *data;
	size_t len;
};

#define AUTO_MANIFEST __attribute__((cleanup(manifest_done)))

/* Maps the manifest in task_fd. 0 or negative; -EBADMSG if it is damaged. */
int manifest_open(int task_fd, struct manifest *ret, struct error *err);
/* Likewise another file of this form, without a text. */
int manifest_map(int dir_fd, const char *name, struct manifest *ret);
void manifest_done(struct manifest *m);

/* The block of the top directory. */
uint64_t manifest_top(const struct manifest *m);

/* How many entries a block has; the i-th in order of names; the one of that
 * name. NULL: none, or the manifest is damaged. */
uint64_t manifest_count(const struct manifest *m, uint64_t block);
const struct manifest_entry *manifest_at(const struct manifest *m,
					 uint64_t block, uint64_t i);
const struct manifest_entry *manifest_find(const struct manifest *m,
					   uint64_t block, const char *name);

/*
 * Is what the source has there still what was copied? Two files that were
 * written within one tick of the kernel's clock have the same change time, so
 * size and time of modification count too; a directory is one while it is one.
 */
bool manifest_is_source(const struct manifest_entry *e, const struct stat *st);

/*
 * Is the copy's entry still what was noted? The kernel's change time tells; a
 * directory's other times say only that names came or went.
 */
bool manifest_is_copy(const struct manifest_entry *e, const struct stat *st);

/* Writing: entries in the order of a walk, each directory's before its block. */
struct manifest_writer {
	int fd;
	char *buf; /* not written yet; its start is at offset flushed */
	size_t used;
	uint64_t flushed;
	uint64_t *offsets; /* of the entries of all directories not ended yet */
	size_t n, cap;
};

#define AUTO_MANIFEST_WRITER __attribute__((cleanup(manifest_writer_done)))

/* Makes the file in dir_fd. 0 or negative. */
int manifest_writer_init(struct manifest_writer *w, int dir_fd,
			 const char *name);
void manifest_writer_done(struct manifest_writer *w);
/* Adds an entry (name_len is set from name). 0 or negative. */
int manifest_add(struct manifest_writer *w, const struct manifest_entry *e,
		 const char *name);
/*
 * Ends the directory whose first entry was the start-th of those not ended
 * (w->n when it was entered). Sets the offset of its block.
 */
int manifest_end(struct manifest_writer *w, size_t start, uint64_t *ret_block);
/* Writes the head. Only then is it a manifest. */
int manifest_finish(struct manifest_writer *w, uint64_t top);

#endif
