/* One file's content and attributes, copied. */
#ifndef PINFOLD_WORKSPACE_COPY_FILE_H
#define PINFOLD_WORKSPACE_COPY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Told of every piece that was copied; what it returns if not 0 ends the copy. */
typedef int copy_step_fn(void *arg, uint64_t bytes);

/*
 * Copies size bytes of from_fd into the empty file to_fd, holes kept. Sets
 * *cloned when the file system shares the blocks instead; *no_clone, when not,
 * is remembered for the next files. step may be NULL. 0 or a negative errno, or
 * what step returned.
 */
int copy_content(int from_fd, int to_fd, uint64_t size, bool sparse,
		 bool *no_clone, bool *cloned, copy_step_fn *step, void *arg);

/*
 * Makes the regular file, or the link, from_dir/name anew as to_dir/as, which
 * must not exist: content, and user.* attributes of a file; nothing is followed.
 * 0 or a negative errno.
 */
int copy_make_file(int from_dir, const char *name, const struct stat *st,
		   int to_dir, const char *as);
int copy_make_link(int from_dir, const char *name, int to_dir, const char *as);

/* Gives dir/name an owner, a mode (no link has one) and the times of st. */
int copy_dress(int dir, const char *name, const struct stat *owner,
	       const struct stat *st, mode_t mode);

/* Copies user.* attributes, user.overlay.* left out. 0 or a negative errno. */
int copy_attributes(int from_fd, int to_fd);

#endif
