/*
 * The host's own tree is walked, through held descriptors and never through a
 * link; nothing but directories is opened.
 */
#include "workspace/secrets_names.h"

#include "base/cleanup.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

struct file {
	dev_t dev;
	ino_t ino;
	const char *path; /* one of its names */
	bool denied;	  /* by the policy, rather than found by the list */
	nlink_t left;	  /* names that were not found yet */
};

struct files {
	struct file *items;
	size_t n;
	size_t open; /* that have names left */
	uint64_t entries;
};

static int by_inode(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

/* Those of a list with several names. */
static void collect(struct files *f, const struct strlist *paths, bool denied,
		    int source_fd)
{
	for (size_t i = 0; paths && i < paths->n; i++) {
		const char *path = paths->items[i];
		struct stat st;

		if (fstatat(source_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_nlink > 1)
			f->items[f->n++] = (struct file){st.st_dev, st.st_ino,
							 path, denied,
							 st.st_nlink};
	}
}

/* Each once; what was found is no other. */
static int collect_all(struct files *f, const struct secrets *s,
		       const struct strlist *literal, int source_fd)
{
	size_t n, kept = 0;

	f->items = calloc(s->found.n + s->denied.n +
				  (literal ? literal->n : 0) + 1,
			  sizeof(*f->items));
	if (!f->items)
		return -ENOMEM;
	collect(f, &s->found, false, source_fd);
	collect(f, &s->denied, true, source_fd);
	collect(f, literal, true, source_fd);
	n = f->n;
	qsort(f->items, n, sizeof(*f->items), by_inode);
	for (size_t i = 0; i < n; i++) {
		struct file *last = kept > 0 ? &f->items[kept - 1] : NULL;

		if (!last || by_inode(last, &f->items[i]) != 0)
			f->items[kept++] = f->items[i];
		else
			last->denied |= f->items[i].denied;
	}
	f->n = f->open = kept;
	return 0;
}

static int look_at(struct files *f, struct secrets *s, const struct walk *w,
		   const char *name, const struct stat *st)
{
	const struct file key = {.dev = st->st_dev, .ino = st->st_ino};
	struct file *file = bsearch(&key, f->items, f->n, sizeof(key),
				    by_inode);
	AUTO_FREE char *path = NULL;

	if (!file)
		return 0;
	if (file->left > 0 && --file->left == 0)
		f->open--;
	path = str_format("%s%s%s", buf_str(&w->path),
			  w->path.len > 0 ? "/" : "", name);
	if (!path)
		return -ENOMEM;
	/* That one of them is there already is for the caller. */
	return strlist_add(file->denied ? &s->also : &s->found, path);
}

static int look_at_entry(struct files *f, struct secrets *s, struct walk *w,
			 const char *name, struct error *err)
{
	struct stat st;
	int r;

	if (++f->entries > SECRETS_ENTRIES_MAX)
		return error_set(err, -E2BIG, "%s has more than one name, and "
				 "the source more than %d files to look for "
				 "the others; remove them, or, if no "
				 "policy denies it, show it with --read", f->items[0].path,
				 SECRETS_ENTRIES_MAX);
	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) && st.st_nlink > 1
			       ? look_at(f, s, w, name, &st)
			       : 0;
	r = walk_enter(w, name, false, err);
	/* Another mount, or closed to the caller: nothing of it is shown. */
	return r == -EXDEV || r == -EACCES || r == -ENOENT || r == -ENOTDIR ||
			       r == -ELOOP
		       ? 0
		       : r;
}

static int search(struct files *f, struct secrets *s, struct walk *w,
		  struct error *err)
{
	struct dirent *e;
	int r = 0;

	while (r >= 0 && f->open > 0) {
		r = walk_next(w, &e, err);
		if (r > 0)
			r = look_at_entry(f, s, w, e->d_name, err);
		else if (r == 0 && w->depth == 1)
			break;
		else if (r == 0)
			r = walk_leave(w, err);
	}
	return r < 0 ? r : 0;
}

int secrets_names_find(struct secrets *s, int source_fd,
		       const struct strlist *literal,
		       struct secrets_cache *cache, struct error *err)
{
	AUTO_WALK struct walk w = {0};
	struct files f = {0};
	int r = collect_all(&f, s, literal, source_fd);

	if (r == 0 && f.n > 0) {
		cache->young = true;
		r = walk_init(&w, source_fd, NULL, -1, err);
		if (r == 0)
			r = search(&f, s, &w, err);
	}
	free(f.items);
	return r;
}
