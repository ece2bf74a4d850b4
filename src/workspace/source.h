/*
 * Which directory a task works on (its source), and where in it the command
 * starts.
 */
#ifndef PINFOLD_WORKSPACE_SOURCE_H
#define PINFOLD_WORKSPACE_SOURCE_H

#include "base/error.h"

#include <sys/types.h>

struct source {
	char *path;    /* absolute, normal, without symbolic links; NULL: none */
	char *workdir; /* likewise, at or below path; where the command starts */
	int fd;        /* O_PATH directory of path; -1: none */
	uid_t owner;   /* of path */
	gid_t group;
};

/*
 * Decides the source. wanted is NULL (the git top level above the working
 * directory if uid owns it, else the working directory), "none", or a path.
 * workdir is NULL or a path. Errors (texts name the path and give the commands
 * that would work): "/" or home without wanted, a file, a missing directory,
 * workdir outside the source. -EINVAL, -ENOTDIR, -ENOENT, -EACCES ...
 */
int source_find(const char *wanted, const char *workdir, const char *home,
		uid_t uid, struct source *ret, struct error *err);
void source_done(struct source *s);

#endif
