/*
 * Which directory a task works on (its source), and where in it the command
 * starts.
 */
#ifndef PINFOLD_WORKSPACE_SOURCE_H
#define PINFOLD_WORKSPACE_SOURCE_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <sys/types.h>

struct source {
	char *path;    /* absolute, normal, without symbolic links; NULL: none */
	char *workdir; /* likewise, at or below path; where the command starts;
			* NULL: no source, and none was named */
	int fd;        /* O_PATH directory of path; -1: none */
	uid_t owner;   /* of path */
	gid_t group;
	mode_t mode;   /* type and permissions */
	/* For a copy, not owned, NULL: none: paths below it that are left out,
	 * in order (base/paths.h), and what .git/config is to be. */
	const struct strlist *hide;
	const char *git_config;
};

/*
 * Decides the source. wanted is NULL (the git top level at or above the working
 * directory if uid owns it and it is neither "/" nor home, else the working
 * directory), "none", or a path. workdir is NULL (the working directory where
 * that lies in the source, else the source itself) or a path; with "none" it is
 * kept as it is, for it need exist inside only. Errors (texts name the path and
 * give the commands that would work): "/" or home or what lies above home
 * without wanted; "/" always; a file, a missing directory, workdir outside the
 * source. -EINVAL, -ENOTDIR, -ENOENT, -EACCES ... ret is set only on success.
 */
int source_find(const char *wanted, const char *workdir, const char *home,
		uid_t uid, struct source *ret, struct error *err);
void source_done(struct source *s);

/*
 * Does a link at path, relative to a source, lead out of it? By the names alone:
 * a link on the way is not followed.
 */
bool source_link_leaves(const char *source, const char *path,
			const char *target);

#endif
