/*
 * Which path a hard-linked file was copied to first. Beyond LINKS_MAX files
 * nothing more is remembered: their further links become files of their own.
 */
#ifndef PINFOLD_WORKSPACE_LINKS_H
#define PINFOLD_WORKSPACE_LINKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINKS_MAX (1u << 20)

struct link_entry {
	dev_t dev;
	ino_t ino;
	char *path; /* NULL: free */
};

struct links {
	struct link_entry *table; /* open addressing; cap is a power of two */
	size_t n, cap;
};

void links_done(struct links *l);
/* The path, or NULL. Owned by the table. */
const char *links_find(const struct links *l, dev_t dev, ino_t ino);
/* 0 or -ENOMEM. The file must not be known yet. */
int links_add(struct links *l, dev_t dev, ino_t ino, const char *path);

#endif
