/*
 * Finds what of a source is to be pinned, before the command starts. What a
 * protected link leads to is obeyed under the link's name, so it is pinned too.
 * Only the host can change the tree meanwhile; whoever starts the task trusts it.
 */
#include "workspace/direct.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/time.h"
#include "workspace/direct_private.h"
#include "workspace/tree.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOPS_MAX 40 /* as the kernel's */

struct look {
	struct walk walk;
	struct tree tree;
	char *source; /* its path, to tell where absolute links lead */
	const struct protect *protect;
	const struct strlist *hide;
	struct direct *d;
	struct error *err;
};

static void look_done(struct look *l)
{
	walk_done(&l->walk);
	tree_done(&l->tree);
	free(l->source);
}

static int add_pin(struct look *l, const char *path)
{
	if (l->d->pinned.n >= DIRECT_MOUNTS_MAX)
		return direct_too_many(l->err);
	return strlist_add(&l->d->pinned, path);
}

/* Its content can be changed under a name that is not pinned. */
static int add_shared(struct look *l, const struct stat *st, const char *path)
{
	if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
		return 0;
	return strlist_take(&l->d->shared,
			    str_format("%ju %jd %s", (uintmax_t)st->st_ino,
				       (intmax_t)time_ns(&st->st_ctim), path));
}

/* ---- where links lead ---- */

struct trail {
	struct look *look;
	struct buf at;	 /* absolute, "" for "/"; no link of the source in it */
	struct buf rest; /* what is still to be gone from there */
	unsigned hops;
};

static void trail_done(struct trail *t)
{
	buf_done(&t->at);
	buf_done(&t->rest);
}

/* What at is below the source; NULL: it is not below it. */
static const char *inside(const struct trail *t)
{
	size_t n = strlen(t->look->source);

	return t->at.len > n && path_is_below(buf_str(&t->at), t->look->source)
		       ? buf_str(&t->at) + n + 1
		       : NULL;
}

static void cut(struct buf *b, size_t len)
{
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

static void go_up(struct trail *t)
{
	const char *slash = strrchr(buf_str(&t->at), '/');

	cut(&t->at, slash ? (size_t)(slash - t->at.data) : 0);
}

/* Takes the first name of the rest. False: there is none. */
static bool next_name(struct trail *t, char name[NAME_MAX + 1])
{
	const char *rest = buf_str(&t->rest);
	size_t from = strspn(rest, "/");
	size_t n = strcspn(rest + from, "/");

	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(name, rest + from, n);
	name[n] = '\0';
	memmove(t->rest.data, rest + from + n, t->rest.len - from - n);
	cut(&t->rest, t->rest.len - from - n);
	return true;
}

/* The rest begins with the link's target; at is the link. */
static int turn(struct trail *t, const char *target)
{
	AUTO_BUF struct buf rest = BUF_INIT(1u << 20);

	if (++t->hops > HOPS_MAX)
		return 1;
	buf_addf(&rest, "%s/%s", target, buf_str(&t->rest));
	buf_reset(&t->rest);
	buf_add_str(&t->rest, buf_str(&rest));
	if (target[0] == '/')
		cut(&t->at, 0);
	else
		go_up(t);
	return rest.failed ? rest.failed : t->rest.failed;
}

static int take_link(struct trail *t, int dir_fd, const char *name,
		     const char *path)
{
	struct direct *d = t->look->d;
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
	int r = 0;

	if (n < 0)
		return error_errno(t->look->err, "cannot read a link");
	target[n] = '\0';
	/* In what is pinned no link needs to be put back. */
	if (!strlist_has(&d->links, path) &&
	    !walk_top(&t->look->walk)->hidden) {
		r = strlist_add(&d->links, path);
		if (r == 0)
			r = strlist_add(&d->targets, target);
	}
	return r < 0 ? r : turn(t, target);
}

/* Nothing is there; who makes it makes what the link leads to. */
static int take_absent(struct trail *t, const char *path)
{
	AUTO_BUF struct buf whole = BUF_INIT(1u << 20);
	const char *rest = buf_str(&t->rest);

	rest += strspn(rest, "/");
	buf_addf(&whole, "/%s%s%s", path, *rest ? "/" : "", rest);
	while (whole.len > 1 && whole.data[whole.len - 1] == '/')
		cut(&whole, whole.len - 1);
	if (whole.failed)
		return whole.failed;
	/* By a way that goes back up: all of what is made there. */
	if (!path_is_normal(buf_str(&whole)))
		return strlist_add(&t->look->d->absent, path) < 0 ? -ENOMEM : 1;
	return strlist_add(&t->look->d->absent, buf_str(&whole) + 1) < 0
		       ? -ENOMEM
		       : 1;
}

/* One name further. 0, 1 where there is nothing more to be found, negative. */
static int go_on(struct trail *t, const char *name)
{
	const char *path, *last;
	struct stat st;
	int dir;

	if (str_eq(name, "."))
		return 0;
	if (str_eq(name, "..")) {
		go_up(t);
		return 0;
	}
	buf_addf(&t->at, "/%s", name);
	if (t->at.failed)
		return t->at.failed;
	path = inside(t);
	/* Of what lies elsewhere the command can change nothing. */
	if (!path)
		return 0;
	dir = tree_parent(&t->look->tree, path, &last);
	if (dir < 0)
		return dir == -ENOMEM ? dir : 1;
	if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? take_absent(t, path) : 1;
	return S_ISLNK(st.st_mode) ? take_link(t, dir, last, path) : 0;
}

static int arrive(struct trail *t, const char *link)
{
	struct look *l = t->look;
	const char *path = inside(t), *name;
	struct stat st;
	int dir, r;

	if (str_eq(buf_str(&t->at), l->source))
		return walk_error(&l->walk, l->err, -ELOOP,
				  "cannot pin what a protected link leads to, "
				  "the source itself:", link);
	if (!path)
		return 0;
	r = add_pin(l, path);
	dir = r == 0 ? tree_parent(&l->tree, path, &name) : -1;
	if (dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = add_shared(l, &st, path);
	return r;
}

/* The link path, which is name in the walk's directory, and where it leads. */
static int follow(struct look *l, const char *name, const char *path)
{
	__attribute__((cleanup(trail_done))) struct trail t = {
		.look = l, .at = BUF_INIT(1u << 20),
		.rest = BUF_INIT(1u << 20)};
	char next[NAME_MAX + 1];
	int r;

	buf_addf(&t.at, "%s/%s", l->source, path);
	if (t.at.failed)
		return t.at.failed;
	r = take_link(&t, walk_fd(&l->walk), name, path);
	while (r == 0 && next_name(&t, next))
		r = go_on(&t, next);
	return r == 0 ? arrive(&t, name) : r < 0 ? r : 0;
}

/* ---- the walk ---- */

static bool is_to_pin(const struct look *l, const struct change *c)
{
	return str_eq(c->path, ".git") || paths_have(l->hide, c->path) ||
	       protect_reason(l->protect, c) ||
	       !(S_ISREG(c->mode) || S_ISDIR(c->mode) || S_ISLNK(c->mode));
}

/*
 * What we may not read the command may not either, who has no more rights than
 * we: but its own directories it can open, and one that can be searched it need
 * not read.
 */
static bool is_closed(const struct look *l, const char *name,
		      const struct stat *st)
{
	return st->st_uid != geteuid() &&
	       faccessat(walk_fd(&l->walk), name, X_OK,
			 AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0;
}

static int enter(struct look *l, const char *name, const struct stat *st,
		 bool pinned)
{
	int r = walk_enter(&l->walk, name, false, l->err);

	if (r == -EACCES && is_closed(l, name, st))
		return 0;
	if (r == 0)
		walk_top(&l->walk)->hidden = pinned;
	return r;
}

static int pin(struct look *l, const char *name, const char *path,
	       const struct stat *st)
{
	int r;

	if (S_ISLNK(st->st_mode))
		return follow(l, name, path);
	r = add_pin(l, path);
	if (r == 0)
		r = add_shared(l, st, path);
	return r == 0 && S_ISDIR(st->st_mode) && !paths_have(l->hide, path)
		       ? enter(l, name, st, true)
		       : r;
}

/* In what is pinned only what leads out of it is of interest. */
static int look_pinned(struct look *l, const char *name, const char *path,
		       const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		return follow(l, name, path);
	if (!S_ISDIR(st->st_mode))
		return add_shared(l, st, path);
	/* Objects have their digest for a name; git finds what was changed. */
	return str_eq(name, "objects") ? 0 : enter(l, name, st, true);
}

static int look_at(struct look *l, const char *name)
{
	AUTO_BUF struct buf path = BUF_INIT(WALK_PATH_MAX);
	struct change c = {.kind = CHANGE_ADDED};
	struct stat st;

	if (l->walk.path.len > 0)
		buf_addf(&path, "%s/", buf_str(&l->walk.path));
	buf_add_str(&path, name);
	if (path.failed)
		return path.failed;
	if (fstatat(walk_fd(&l->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : walk_error(&l->walk, l->err, -errno,
						    "cannot look at", name);
	c.path = buf_str(&path);
	c.mode = st.st_mode;
	if (walk_top(&l->walk)->hidden)
		return look_pinned(l, name, c.path, &st);
	if (is_to_pin(l, &c))
		return pin(l, name, c.path, &st);
	return S_ISDIR(st.st_mode) ? enter(l, name, &st, false) : 0;
}

static int begin(struct look *l, int source_fd)
{
	struct stat st;
	int r;

	tree_init(&l->tree, source_fd);
	if (fstat(source_fd, &st) < 0)
		return error_errno(l->err, "cannot look at the source");
	l->source = io_fd_path(source_fd);
	r = l->source ? strlist_take(&l->d->top,
				     str_format("%ju", (uintmax_t)st.st_ino))
		      : -ENOMEM;
	if (r == 0)
		r = strlist_add(&l->d->where, l->source);
	return r < 0 ? r : walk_init(&l->walk, source_fd, NULL, -1, l->err);
}

int direct_look(int source_fd, const struct protect *protect,
		const struct strlist *hide, struct direct *ret,
		struct error *err)
{
	__attribute__((cleanup(look_done))) struct look l = {
		.protect = protect, .hide = hide, .d = ret, .err = err};
	int r = begin(&l, source_fd);

	while (r == 0) {
		struct dirent *e;

		r = walk_next(&l.walk, &e, err);
		if (r > 0)
			r = look_at(&l, e->d_name);
		else if (r == 0 && l.walk.depth > 1)
			r = walk_leave(&l.walk, err);
		else
			break;
	}
	if (r == -ENOMEM)
		error_set(err, r, "out of memory");
	if (r == 0)
		paths_normalise(&ret->pinned);
	return r;
}
