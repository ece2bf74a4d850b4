/*
 * Names and values of git's references, as an agent may have written them: by
 * the rules of git-check-ref-format(1), and which kinds are taken over.
 */
#ifndef PINFOLD_WORKSPACE_GIT_NAME_H
#define PINFOLD_WORKSPACE_GIT_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define GIT_ID_MAX 64 /* digits of SHA-256; SHA-1 has 40 */
#define GIT_NAME_MAX 1024

/* Is text, up to its end or a newline, an id of len digits? */
bool git_is_id(const char *text, size_t len);

/* Why name ("refs/heads/x") is none, or NULL. Static. */
const char *git_name_fault(const char *name);

/* Why references of this kind are left to the host, or NULL. Static. */
const char *git_name_kind(const char *name);

/* What a user calls it: "x" for refs/heads/x, "tag x", "stash". */
const char *git_name_short(const char *name, char buf[GIT_NAME_MAX]);

/*
 * Calls fn for each other reference that some form of name, short or not, may
 * mean as well by the rules of gitrevisions(7), until it returns other than 0,
 * and returns that. form: as one would write it.
 */
int git_name_each_rival(const char *name,
			int (*fn)(void *arg, const char *form,
				  const char *rival),
			void *arg);

/* Is one a directory on the way to the other? git cannot have both. */
bool git_names_clash(const char *a, const char *b);

#endif
