/* git's packed-refs: one file with many references (gitrepository-layout(5)). */
#ifndef PINFOLD_WORKSPACE_GIT_PACKED_H
#define PINFOLD_WORKSPACE_GIT_PACKED_H

#include "base/buf.h"
#include "base/str.h"

#include <sys/stat.h>

#define GIT_PACKED_MAX (64u << 20)

struct git_packed_ref {
	const char *name, *id;
	size_t at, len; /* in the file, with what belongs to it */
};

struct git_packed {
	struct buf text, names; /* as it was read; and cut into strings */
	struct git_packed_ref *refs; /* by name */
	size_t n;
	struct stat st; /* st_ino 0: there is none */
};

#define GIT_PACKED_INIT                                                        \
	{.text = BUF_INIT(GIT_PACKED_MAX), .names = BUF_INIT(GIT_PACKED_MAX)}
#define AUTO_GIT_PACKED __attribute__((cleanup(git_packed_done)))

/*
 * Reads dir_fd/name; one that is not there has no references. id_len: digits of
 * an id. 0, -EBADMSG for what git would not take, or another negative errno.
 */
int git_packed_read(struct git_packed *p, int dir_fd, const char *name,
		    size_t id_len);
void git_packed_done(struct git_packed *p);

/* The id of a reference, or NULL. */
const char *git_packed_find(const struct git_packed *p, const char *name);

/* The file without these references. 0 or negative. */
int git_packed_without(const struct git_packed *p, const struct strlist *names,
		       struct buf *out);

#endif
