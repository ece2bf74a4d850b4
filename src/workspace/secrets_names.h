/*
 * Other names of the files that are hidden: hard links to them, anywhere in the
 * source. Looked for only where a file says that it has more than one name.
 */
#ifndef PINFOLD_WORKSPACE_SECRETS_NAMES_H
#define PINFOLD_WORKSPACE_SECRETS_NAMES_H

#include "workspace/secrets_cache.h"

/*
 * Adds to s->found every name that a file of s->found has in the source, and to
 * s->also those of what is denied (s->denied and literal, whatever is no
 * directory), also names that are there already; paths_normalise drops one of
 * two.
 * Nothing tells when one comes, so that nothing is kept in the cache where there
 * could be any. 0, -ENOMEM, or -E2BIG where the source is too large to be looked
 * through (the text names the file and says what to do).
 */
int secrets_names_find(struct secrets *s, int source_fd,
		       const struct strlist *literal,
		       struct secrets_cache *cache, struct error *err);

#endif
