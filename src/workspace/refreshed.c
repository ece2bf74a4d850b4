/*
 * Of an entry of the list size tells whether it covers what lies below it (what
 * is no directory, and an opaque one, through which the source does not shine),
 * and source_ctime_ns since when the host's changes of it count.
 */
#include "workspace/refreshed.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NS 1000000000

void refreshed_done(struct refreshed *r)
{
	manifest_done(&r->list);
	*r = (struct refreshed){0};
}

void refreshed_open(struct refreshed *r, int layer_fd, int64_t start_ns)
{
	struct stat st;

	*r = (struct refreshed){.start_ns = start_ns, .base_ns = start_ns};
	if (fstatat(layer_fd, REFRESHED_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    manifest_map(layer_fd, REFRESHED_FILE, &r->list) < 0)
		return;
	r->known = true;
	r->base_ns = time_ns(&st.st_mtim);
}

/* The entry of the first n bytes of at, which are one name. */
static const struct manifest_entry *find(const struct refreshed *r,
					 uint64_t block, const char *at,
					 size_t n)
{
	char name[NAME_MAX + 1];

	if (n > NAME_MAX)
		return NULL;
	memcpy(name, at, n);
	name[n] = '\0';
	return manifest_find(&r->list, block, name);
}

int64_t refreshed_since(const struct refreshed *r, const char *path)
{
	uint64_t block;

	if (!r->known)
		return r->start_ns;
	/* The layer's top is there from the beginning. */
	if (str_eq(path, "."))
		return r->start_ns;
	block = manifest_top(&r->list);
	for (;;) {
		size_t n = strcspn(path, "/");
		const struct manifest_entry *e = find(r, block, path, n);

		if (!e)
			return r->base_ns;
		if (e->size || path[n] == '\0')
			return e->source_ctime_ns;
		block = e->block;
		path += n + 1;
	}
}

int refreshed_now(int layer_fd, int64_t *ret_ns, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (unlinkat(layer_fd, REFRESHED_NEW, 0) < 0 && errno != ENOENT)
		return error_errno(err, "cannot remove an old list");
	fd = openat(layer_fd, REFRESHED_NEW,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, "cannot write to the task's directory");
	*ret_ns = time_ns(&st.st_mtim);
	unlinkat(layer_fd, REFRESHED_NEW, 0);
	return 0;
}

struct lister {
	struct walk walk;
	struct manifest_writer writer;
	const struct refreshed *was;
	const struct manifest *copy;
	const char *anew;
};

static void lister_done(struct lister *l)
{
	walk_done(&l->walk);
	manifest_writer_done(&l->writer);
}

#define AUTO_LISTER __attribute__((cleanup(lister_done)))

/* Adds name in the current directory. */
static int add(struct lister *l, const char *name, bool covers, uint64_t block,
	       struct error *err)
{
	struct manifest_entry e = {.block = block, .size = covers};
	struct buf *path = &l->walk.path;
	size_t len = path->len;
	int r;

	if (len > 0)
		buf_add_char(path, '/');
	r = buf_add_str(path, name);
	if (r == 0 && !(l->anew && str_eq(l->anew, buf_str(path)))) {
		e.source_ctime_ns = refreshed_since(l->was, buf_str(path));
		r = manifest_add(&l->writer, &e, name);
	}
	path->len = len;
	if (path->data)
		path->data[len] = '\0';
	return r < 0 ? walk_error(&l->walk, err, r, "cannot list", name) : 0;
}

static bool is_opaque(const struct walk *w)
{
	char value[8];

	return fgetxattr(walk_fd(w), "user.overlay.opaque", value,
			 sizeof(value)) == 1 &&
	       value[0] == 'y';
}

/* What a copy had of name in the current directory; NULL: nothing. */
static const struct manifest_entry *known(struct lister *l, const char *name)
{
	uint64_t block = walk_top(&l->walk)->block;

	return l->copy && block ? manifest_find(l->copy, block, name) : NULL;
}

/* What a copy had and has no more. */
static int add_gone(struct lister *l, struct error *err)
{
	uint64_t block = walk_top(&l->walk)->block;
	uint64_t n = l->copy && block && l->walk.depth > 1
			     ? manifest_count(l->copy, block)
			     : 0;
	struct stat st;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		const struct manifest_entry *e = manifest_at(l->copy, block, i);

		if (!e)
			return error_set(err, -EBADMSG,
					 "the manifest of the copy is damaged");
		if (fstatat(walk_fd(&l->walk), e->name, &st,
			    AT_SYMLINK_NOFOLLOW) < 0)
			r = add(l, e->name, true, 0, err);
	}
	return r;
}

/* Into a directory, unless what is in it is all the task's. */
static int go_down(struct lister *l, const char *name,
		   const struct manifest_entry *e, struct error *err)
{
	int r = walk_enter(&l->walk, name, false, err);

	if (r < 0)
		return r;
	if (l->copy || !is_opaque(&l->walk)) {
		walk_top(&l->walk)->start = l->writer.n;
		walk_top(&l->walk)->block = e ? e->block : 0;
		return 0;
	}
	r = walk_leave(&l->walk, err);
	return r == 0 ? add(l, name, true, 0, err) : r;
}

static int add_entry(struct lister *l, const char *name, struct error *err)
{
	const struct manifest_entry *e = known(l, name);
	struct stat st;

	if (l->copy && l->walk.depth == 1 && !str_eq(name, ".git"))
		return 0;
	if (fstatat(walk_fd(&l->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return walk_error(&l->walk, err, -errno, "cannot read", name);
	if (S_ISDIR(st.st_mode))
		return go_down(l, name, e, err);
	return e && manifest_is_copy(e, &st) ? 0 : add(l, name, true, 0, err);
}

/* The current directory was read to its end. 1 at the top. */
static int leave(struct lister *l, struct error *err)
{
	struct walk *w = &l->walk;
	char name[NAME_MAX + 1];
	uint64_t block;
	size_t at;
	int r = add_gone(l, err);

	if (r < 0)
		return r;
	r = manifest_end(&l->writer, walk_top(w)->start, &block);
	if (r == 0 && w->depth == 1)
		r = manifest_finish(&l->writer, block);
	if (r < 0)
		return walk_error(w, err, r, "cannot list", NULL);
	if (w->depth == 1)
		return 1;
	at = w->levels[w->depth - 2].path_len;
	snprintf(name, sizeof(name), "%s",
		 w->path.data + at + (at > 0 ? 1 : 0));
	r = walk_leave(w, err);
	return r == 0 ? add(l, name, false, block, err) : r;
}

/* Whole and on the disk, with the time of the refresh. */
static int settle(const struct lister *l, int64_t now_ns)
{
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = now_ns / NS, .tv_nsec = now_ns % NS},
	};

	return futimens(l->writer.fd, times) < 0 || fsync(l->writer.fd) < 0
		       ? -errno
		       : 0;
}

int refreshed_write(int layer_fd, const struct refreshed *was, int64_t now_ns,
		    const struct manifest *copy, const char *anew,
		    struct error *err)
{
	AUTO_LISTER struct lister l = {.writer = {.fd = -1}, .was = was,
				       .copy = copy, .anew = anew};
	struct dirent *e;
	int r;

	if (unlinkat(layer_fd, REFRESHED_NEW, 0) < 0 && errno != ENOENT)
		return error_errno(err, "cannot remove an old list");
	r = manifest_writer_init(&l.writer, layer_fd, REFRESHED_NEW);
	if (r < 0)
		return error_set(err, r, "cannot list what the task has "
				 "changed: %s", strerror(-r));
	r = walk_init(&l.walk, layer_fd, "upper", -1, err);
	if (r == 0 && copy)
		walk_top(&l.walk)->block = manifest_top(copy);
	while (r == 0) {
		r = walk_next(&l.walk, &e, err);
		if (r > 0)
			r = add_entry(&l, e->d_name, err);
		else if (r == 0)
			r = leave(&l, err);
	}
	if (r < 0)
		return r;
	r = settle(&l, now_ns);
	return r < 0 ? error_set(err, r, "cannot write the list of what the "
				 "task has changed: %s", strerror(-r))
		     : 0;
}
