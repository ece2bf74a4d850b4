/*
 * Cleanup attributes: a descriptor, allocation or stream declared with AUTO_*
 * is released when its scope ends. steal_fd and steal_ptr hand ownership on.
 */
#ifndef PINFOLD_BASE_CLEANUP_H
#define PINFOLD_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Closes a descriptor if it is one; errno is kept. */
static inline void close_fd(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}

static inline void cleanup_close(int *fd)
{
	close_fd(*fd);
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void cleanup_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_DIR __attribute__((cleanup(cleanup_dir)))
#define AUTO_FILE __attribute__((cleanup(cleanup_file)))

/* Returns the descriptor and leaves -1 behind, so that its owner changes. */
static inline int steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define steal_ptr(p)                                                           \
	({                                                                     \
		__typeof__(*(p)) *steal_from_ = (p);                           \
		__typeof__(*(p)) steal_taken_ = *steal_from_;                  \
		*steal_from_ = NULL;                                           \
		steal_taken_;                                                  \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
