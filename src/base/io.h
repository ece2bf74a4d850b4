/*
 * Whole reads and writes on descriptors, with EINTR handled and maxima stated.
 */
#ifndef PINFOLD_BASE_IO_H
#define PINFOLD_BASE_IO_H

#include "base/buf.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all of data. 0 or a negative errno (partly written then). */
int io_write_all(int fd, const void *data, size_t len);

/* Appends all of fd up to its end. 0 or negative; -EFBIG beyond b->max. */
int io_read_all(int fd, struct buf *b);

/*
 * Reads a whole small file below dir_fd (AT_FDCWD for none). The path is
 * opened O_NONBLOCK, must be a regular file or a kernel file, and is not read
 * beyond b->max.
 */
int io_read_file(int dir_fd, const char *path, struct buf *b);

/* Writes data to an existing file in one write(2), as kernel files want it. */
int io_write_file(int dir_fd, const char *path, const void *data, size_t len);

/*
 * Replaces dir_fd/name atomically by a file with this content (temporary file
 * in the same directory, rename). Mode is set exactly.
 */
int io_replace_file(int dir_fd, const char *name, const void *data, size_t len,
		    mode_t mode);

/*
 * The directory that fd is of, to be read. Takes fd, also when it fails; a
 * negative one is an errno and is handed back. 0 or a negative errno.
 */
int io_dir_of(int fd, DIR **ret);

/* The same for a name below dir_fd, which is no link. */
int io_open_dir(int dir_fd, const char *name, DIR **ret);

/*
 * The path that the kernel gives for an open file, without links in it; the
 * caller's to free. NULL: out of memory, or too long.
 */
char *io_fd_path(int fd);

/* A new memfd with this content, all seals set. Descriptor or negative. */
int io_sealed_memfd(const char *name, const void *data, size_t len);

/*
 * Maps a memfd that carries every seal, at most max bytes. 0, -EPERM when a
 * seal is missing, -EFBIG, or another negative errno. munmap ends it.
 */
int io_map_sealed(int fd, size_t max, const char **ret_data, size_t *ret_len);

#endif
