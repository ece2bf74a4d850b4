/*
 * What a look for secrets found, with the change times of the directories that
 * it read: while none of them has changed, it would find the same.
 */
#ifndef PINFOLD_WORKSPACE_SECRETS_CACHE_H
#define PINFOLD_WORKSPACE_SECRETS_CACHE_H

#include "base/buf.h"
#include "base/sha256.h"
#include "workspace/secrets.h"

struct secrets_cache {
	int dir_fd; /* not owned; -1: nothing is kept */
	char name[SHA256_HEX_SIZE];
	struct buf dirs;
	bool young; /* a directory changed just now: its time proves nothing */
};

#define SECRETS_CACHE_MAX (32u << 20)
#define SECRETS_CACHE_INIT {.dir_fd = -1, .dirs = BUF_INIT(SECRETS_CACHE_MAX)}
#define AUTO_SECRETS_CACHE __attribute__((cleanup(secrets_cache_done)))

void secrets_cache_done(struct secrets_cache *c);

/* The entry for this source and these globs in dir_fd. */
void secrets_cache_key(struct secrets_cache *c, int dir_fd, const char *source,
		       const struct strlist *globs);
/* 0 with what was found, if it still holds; negative else. */
int secrets_cache_get(struct secrets_cache *c, int source_fd,
		      struct secrets *ret);
/* Notes a directory, or file, that is being read. 0 or -ENOMEM. */
int secrets_cache_add(struct secrets_cache *c, int fd, const char *path);
/*
 * Notes the files that are hidden: one that gets another name changes no
 * directory that was read, but its own change time. 0 or -ENOMEM.
 */
int secrets_cache_add_hidden(struct secrets_cache *c, int source_fd,
			     const struct strlist *paths);
/* Keeps it. A failure does not matter. */
void secrets_cache_put(struct secrets_cache *c, const struct secrets *s);

#endif
