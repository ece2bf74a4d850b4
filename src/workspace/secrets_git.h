/*
 * Files of git, beside the source's own configuration, that hold secrets:
 * configurations of nested and bare repositories, of submodules and of work
 * trees, copies of them, FETCH_HEAD, remotes and logs with URLs.
 */
#ifndef PINFOLD_WORKSPACE_SECRETS_GIT_H
#define PINFOLD_WORKSPACE_SECRETS_GIT_H

#include "workspace/secrets_cache.h"

/* Is this the name of a directory that git takes for a repository? */
bool secrets_git_is_name(const char *name);

/* Does it hold what git's repositories do, whatever it is called? */
bool secrets_git_is_repository(int at_fd, const char *name);

/*
 * Adds those of the repository at_fd/name, which is path below the source, to
 * s->found. own: it is the source's, whose config is shown without its secrets.
 * What cannot be opened is none: the task cannot open it either. 0 or -ENOMEM.
 */
int secrets_git_look(struct secrets *s, int at_fd, const char *name,
		     const char *path, bool own, struct secrets_cache *cache);

#endif
