#include "workspace/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void links_done(struct links *l)
{
	for (size_t i = 0; i < l->cap; i++)
		free(l->table[i].path);
	free(l->table);
	*l = (struct links){0};
}

/* The entry of that file, or the free one where it belongs. */
static struct link_entry *slot(const struct links *l, dev_t dev, ino_t ino)
{
	uint64_t hash = ((uint64_t)ino ^ (uint64_t)dev << 32) *
			0x9e3779b97f4a7c15u;
	size_t i = (size_t)(hash >> 32) & (l->cap - 1);

	while (l->table[i].path &&
	       (l->table[i].ino != ino || l->table[i].dev != dev))
		i = (i + 1) & (l->cap - 1);
	return &l->table[i];
}

const char *links_find(const struct links *l, dev_t dev, ino_t ino)
{
	return l->cap ? slot(l, dev, ino)->path : NULL;
}

static int grow(struct links *l)
{
	struct links bigger = {.n = l->n, .cap = l->cap ? l->cap * 2 : 64};

	bigger.table = calloc(bigger.cap, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (size_t i = 0; i < l->cap; i++) {
		struct link_entry *e = &l->table[i];

		if (e->path)
			*slot(&bigger, e->dev, e->ino) = *e;
	}
	free(l->table);
	*l = bigger;
	return 0;
}

int links_add(struct links *l, dev_t dev, ino_t ino, const char *path)
{
	struct link_entry *e;

	if (l->n >= LINKS_MAX)
		return 0;
	if (l->n * 2 >= l->cap && grow(l) < 0)
		return -ENOMEM;
	e = slot(l, dev, ino);
	e->path = strdup(path);
	if (!e->path)
		return -ENOMEM;
	e->dev = dev;
	e->ino = ino;
	l->n++;
	return 0;
}
