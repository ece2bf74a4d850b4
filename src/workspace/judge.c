/*
 * Theory of conflicts. What a command read before it wrote a file nobody can
 * know, so "when the task first touched it" is taken to be the task's start, or
 * the last refresh before the path came into the layer (refreshed.h):
 * whatever the host changed later is a conflict, unless both sides are equal
 * (then changes_scan does not tell it at all).
 *
 * In an overlay the change time tells: the kernel sets it, also when a file is
 * renamed into its place, and nobody else can. In copy mode the manifest knows
 * each file's change time when it was copied. A directory's own change time
 * says that names came or went; which ones these are, their own tell. It is a
 * sign only where it differs from the modification time: then the directory
 * itself was moved or given other permissions.
 */
#include "workspace/judge.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/xattr.h>
#include <unistd.h>

#define REASON_MAX 4096
#define QUOTED_MAX 200
#define CHANGED "changed on the host since the task began"
#define IN_GIT "in a git directory, which is not promoted file by file"
#define MOVED                                                                  \
	"a directory above it was moved, or given other permissions, on the "  \
	"host since the task began"
#define REMOVED "removed on the host since the task began"

int judge_init(struct judge *j, const struct promote_layer *l,
	       const struct strlist *named, struct error *err)
{
	*j = (struct judge){
		.layer = l,
		.named = named,
		.reason = BUF_INIT(REASON_MAX),
		.parent = BUF_INIT(WALK_PATH_MAX),
		.away = GIT_AWAY_INIT,
	};
	renames_init(&j->renames, -1, -1);
	refreshed_open(&j->refreshed, l->fd, l->since_ns);
	j->since_ns = l->since_ns;
	return taken_load(&j->taken, l->fd, err);
}

void judge_done(struct judge *j)
{
	taken_done(&j->taken);
	refreshed_done(&j->refreshed);
	renames_done(&j->renames);
	git_away_done(&j->away);
	buf_done(&j->reason);
	buf_done(&j->parent);
}

static int leave(struct judge *j, enum journal_class class, const char *reason)
{
	buf_reset(&j->reason);
	buf_add_str(&j->reason, reason);
	return (int)class + 1;
}

/* "holds WHAT, which REASON" */
static int leave_for(struct judge *j, enum journal_class class,
		     struct walk *w, const char *name, const char *reason)
{
	AUTO_BUF struct buf whole = BUF_INIT(WALK_PATH_MAX + 512);

	buf_add(&whole, w->path.data ? w->path.data : "", w->path.len);
	if (w->path.len > 0)
		buf_add_char(&whole, '/');
	buf_add_str(&whole, name);
	buf_reset(&j->reason);
	buf_add_str(&j->reason, "holds ");
	str_quote(&j->reason, buf_str(&whole), QUOTED_MAX);
	buf_addf(&j->reason, ", which %s", reason);
	return (int)class + 1;
}

/* Was the directory itself moved or closed since? */
static bool was_moved(const struct stat *st, int64_t since_ns)
{
	return time_ns(&st->st_ctim) > since_ns &&
	       time_ns(&st->st_ctim) != time_ns(&st->st_mtim);
}

/* One entry below a directory that is to go. 0, or as leave. */
static int judge_below(struct judge *j, struct walk *w, const char *name,
		       const struct manifest *m, const struct stat *st,
		       uint64_t *ret_block)
{
	const struct manifest_entry *was;

	*ret_block = 0;
	if (!strcasecmp(name, ".git"))
		return leave_for(j, LEAVE_HELD, w, name, "is a repository");
	if (!m) {
		if (S_ISDIR(st->st_mode)
			    ? !was_moved(st, j->since_ns)
			    : time_ns(&st->st_ctim) <= j->since_ns)
			return 0;
		return leave_for(j, LEAVE_CONFLICT, w, name,
				 "was changed on the host");
	}
	was = manifest_find(m, walk_top(w)->block, name);
	if (!was)
		return leave_for(j, LEAVE_CONFLICT, w, name,
				 "the task has not seen");
	*ret_block = was->block;
	return manifest_is_source(was, st)
		       ? 0
		       : leave_for(j, LEAVE_CONFLICT, w, name,
				   "was changed on the host");
}

/* Is the path what is denied, or below it? */
static bool is_below(const char *path, const char *deny)
{
	size_t n = strlen(deny);

	if (glob_is_magic(deny) && glob_covers(deny, path))
		return true;
	return !strncmp(path, deny, n) && (path[n] == '\0' || path[n] == '/');
}

bool judge_is_denied(const struct strlist *deny, const char *path)
{
	for (size_t i = 0; deny && i < deny->n; i++) {
		if (is_below(path, deny->items[i]))
			return true;
	}
	return false;
}

/* Why an entry below the path of c was hidden from the task; NULL: it was not. */
static const char *hidden_reason(const struct judge *j, const struct change *c,
				 const struct walk *w, const char *name,
				 const struct stat *st)
{
	const struct hidden *hidden = j->layer->protect->hidden;
	AUTO_BUF struct buf path = BUF_INIT(WALK_PATH_MAX + NAME_MAX + 2);

	buf_addf(&path, "%s/", c->path);
	buf_add(&path, w->path.data ? w->path.data : "", w->path.len);
	if (w->path.len > 0)
		buf_add_char(&path, '/');
	buf_add_str(&path, name);
	if (!S_ISDIR(st->st_mode) && protect_is_secret(buf_str(&path)))
		return "may hold secrets that the task did not see";
	return path.failed || judge_is_denied(j->layer->deny, buf_str(&path)) ||
			       (hidden && hidden_has(hidden, buf_str(&path)))
		       ? "was hidden from the task"
		       : NULL;
}

static int judge_entry(struct judge *j, struct walk *w, const char *name,
		       const struct change *c, struct error *err)
{
	const struct manifest *m = c->place->manifest;
	const char *hidden;
	struct stat st;
	uint64_t block;
	int r;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : walk_error(w, err, -errno,
						    "cannot read the source's",
						    name);
	hidden = hidden_reason(j, c, w, name, &st);
	if (hidden)
		return leave_for(j, LEAVE_HELD, w, name, hidden);
	r = judge_below(j, w, name, m, &st, &block);
	if (r != 0 || !S_ISDIR(st.st_mode))
		return r;
	r = walk_enter(w, name, false, err);
	if (r == -EXDEV)
		return leave_for(j, LEAVE_REFUSED, w, name,
				 "is another file system");
	if (r == -EACCES)
		return leave_for(j, LEAVE_REFUSED, w, name, "cannot be read");
	if (r == 0)
		walk_top(w)->block = block;
	return r;
}

/*
 * All that goes with a directory. 0, as leave, or negative: -ENOENT and the like
 * if the host takes it away at the same moment.
 */
static int judge_tree(struct judge *j, const struct change *c,
		      struct error *err)
{
	const struct change_place *at = c->place;
	AUTO_WALK struct walk w = {0};
	struct dirent *e;
	int r = walk_init(&w, at->below_fd, at->name, -1, err);

	if (r == -EXDEV)
		return leave(j, LEAVE_REFUSED, "another file system");
	if (r == -EACCES)
		return leave(j, LEAVE_REFUSED, "a directory that cannot be "
					       "read");
	if (r < 0)
		return r;
	walk_top(&w)->block = at->was ? at->was->block : 0;
	for (;;) {
		r = walk_next(&w, &e, err);
		if (r > 0)
			r = judge_entry(j, &w, e->d_name, c, err);
		else if (r == 0 && w.depth == 1)
			return 0;
		else if (r == 0)
			r = walk_leave(&w, err);
		if (r != 0)
			return r;
	}
}

/* Was the directory path[0..len) moved? What a promotion made was not. */
static bool is_moved(struct judge *j, const char *path, size_t len)
{
	char dir[PATH_MAX];
	struct stat st;

	if (len >= sizeof(dir))
		return false;
	memcpy(dir, path, len);
	dir[len] = '\0';
	return fstatat(j->layer->source_fd, dir, &st, AT_SYMLINK_NOFOLLOW) ==
		       0 &&
	       was_moved(&st, j->since_ns) &&
	       !taken_has(&j->taken, dir) &&
	       !taken_restored(&j->taken, dir, &st);
}

static size_t common(const char *a, const char *b, size_t len)
{
	size_t n = 0;

	while (n < len && a[n] == b[n])
		n++;
	return n;
}

/* The first directory on the way that was moved, beyond from bytes; or 0. */
static size_t find_moved(struct judge *j, const char *path, size_t from,
			 size_t len)
{
	for (size_t i = from > 0 ? from : 1; i <= len; i++) {
		if ((i == len || path[i] == '/') && is_moved(j, path, i))
			return i;
	}
	return 0;
}

/*
 * The files of a directory that the host moved here have old change times. So
 * each directory on the way is looked at, once as long as the paths have it in
 * common. In copy mode the manifest knows the files.
 */
static int judge_parents(struct judge *j, const struct change *c)
{
	const char *slash = strrchr(c->path, '/');
	size_t len = slash ? (size_t)(slash - c->path) : 0;
	size_t n = common(buf_str(&j->parent), c->path,
			  len < j->parent.len ? len : j->parent.len);

	if (j->layer->copied)
		return 0;
	if (j->moved > n)
		j->moved = 0;
	if (!j->moved && len > n)
		j->moved = find_moved(j, c->path, n, len);
	buf_reset(&j->parent);
	if (buf_add(&j->parent, c->path, len) < 0)
		return -ENOMEM;
	return j->moved && j->moved <= len
		       ? leave(j, LEAVE_CONFLICT, MOVED)
		       : 0;
}

static bool has_origin(const struct change_place *at)
{
	char link[NAME_MAX + 64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d/%s", at->upper_fd,
		 at->name);
	return lgetxattr(link, "user.overlay.origin", NULL, 0) >= 0;
}

static int find_renames(struct judge *j, struct error *err)
{
	AUTO_CLOSE int upper = walk_open_at(j->layer->fd, "upper",
					    O_PATH | O_DIRECTORY);
	struct changes_counts counts;
	int r;

	if (upper < 0)
		return error_set(err, upper, "cannot open the layer: %s",
				 strerror(-upper));
	renames_init(&j->renames, upper, j->layer->source_fd);
	j->renames_known = true;
	r = changes_scan(j->layer->fd, j->layer->source_fd, j->layer->copied, 0,
			 renames_add, &j->renames, &counts, err);
	if (r == 0)
		renames_find(&j->renames);
	return r;
}

/* Is an added file one of the source's under another name? */
static int was_renamed(struct judge *j, const struct change *c,
		       struct error *err)
{
	int r = S_ISREG(c->mode) && !j->renames_known ? find_renames(j, err)
						      : 0;

	return r < 0 ? r
		     : S_ISREG(c->mode) &&
			       renames_from(&j->renames, c->path) != NULL;
}

/* When a name last came or went in the directory that holds the change. */
static int64_t last_change(const struct judge *j, const struct change *c)
{
	struct stat st;

	/* What we have made in the source's top ourselves does not count. */
	if (!strchr(c->path, '/'))
		return j->layer->top_ctime_ns;
	return fstat(c->place->below_fd, &st) < 0 ? 0
						  : time_ns(&st.st_ctim);
}

/*
 * Nothing lies below it now; was there something when the task began? What was
 * copied up carries its origin. A directory keeps its name in an overlay; a
 * file may have been renamed, unless nothing in its directory has changed.
 */
static int judge_new(struct judge *j, const struct change *c, struct error *err)
{
	const struct change_place *at = c->place;
	int r;

	if (j->layer->copied)
		return at->was ? leave(j, LEAVE_CONFLICT, REMOVED) : 0;
	if (!S_ISDIR(c->mode) && !S_ISREG(c->mode))
		return 0;
	/* Its directory has changed since by our own hand. */
	if (taken_was_new(&j->taken, c->path))
		return 0;
	if (S_ISREG(c->mode) && last_change(j, c) <= j->since_ns)
		return 0;
	if (!has_origin(at))
		return 0;
	r = was_renamed(j, c, err);
	return r == 0 ? leave(j, LEAVE_CONFLICT, REMOVED) : r < 0 ? r : 0;
}

/*
 * A reference is what its file says or, without one, packed-refs: whoever had
 * its own of the one did not see the host's.
 */
int64_t judge_since(const struct judge *j, const char *path)
{
	int64_t since = refreshed_since(&j->refreshed, path), packed;

	if (!str_starts(path, ".git/refs/"))
		return since;
	packed = refreshed_since(&j->refreshed, ".git/packed-refs");
	return packed < since ? packed : since;
}

bool judge_is_newer(const struct judge *j, const char *path,
		    const struct stat *st)
{
	return time_ns(&st->st_ctim) > judge_since(j, path);
}

/* What is known of the directories above holds for one time alone. */
static void look_from(struct judge *j, const char *path)
{
	int64_t since = judge_since(j, path);

	if (since == j->since_ns)
		return;
	j->since_ns = since;
	j->moved = 0;
	buf_reset(&j->parent);
}

bool judge_host_changed(struct judge *j, const struct change *c,
			const struct stat *st)
{
	const struct manifest_entry *was = c->place->was;

	look_from(j, c->path);
	if (taken_restored(&j->taken, c->path, st))
		return false;
	if (S_ISDIR(st->st_mode))
		return was ? ((st->st_mode ^ was->mode) & (S_IFMT | 0777)) != 0
			   : was_moved(st, j->since_ns);
	if (j->layer->copied)
		return !was || !manifest_is_source(was, st);
	return time_ns(&st->st_ctim) > j->since_ns;
}

static int judge_conflict(struct judge *j, const struct change *c,
			  struct stat *old, struct error *err)
{
	const struct change_place *at = c->place;

	if (at->below_fd < 0)
		return leave(j, LEAVE_CONFLICT,
			     "its directory was removed or replaced on the "
			     "host since the task began");
	if (fstatat(at->below_fd, at->name, old, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return error_errno(err, "cannot read the source");
		*old = (struct stat){0};
		if (c->kind == CHANGE_DELETED)
			return 0; /* On both sides: nothing is to be done. */
		return c->kind == CHANGE_ADDED
			       ? judge_new(j, c, err)
			       : leave(j, LEAVE_CONFLICT, REMOVED);
	}
	if (c->kind == CHANGE_ADDED)
		return leave(j, LEAVE_CONFLICT,
			     "added on the host since the task began");
	j->both = judge_host_changed(j, c, old);
	if (j->both)
		return leave(j, LEAVE_CONFLICT, CHANGED);
	return judge_parents(j, c);
}

/* Does a directory with all that is in it go? */
static bool goes(const struct change *c, const struct stat *old)
{
	return S_ISDIR(old->st_mode) &&
	       (c->kind == CHANGE_DELETED || !S_ISDIR(c->mode));
}

int judge_both(struct judge *j, const struct change *c, struct error *err)
{
	struct stat old;
	int r;

	look_from(j, c->path);
	r = judge_conflict(j, c, &old, err);
	if (r == 0 && goes(c, &old))
		r = judge_tree(j, c, err);
	return r > 0 ? r - 1 == LEAVE_CONFLICT : r;
}

static const char *special(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
		return NULL;
	case S_IFIFO:
		return "a FIFO, on which programs of the host would wait";
	case S_IFSOCK:
		return "a socket, which nobody serves any more";
	default:
		return "a device";
	}
}

/* Is the path, or anything that goes with it, hidden from the task? */
static bool is_denied(const struct judge *j, const struct change *c)
{
	const struct strlist *deny = j->layer->deny;

	if (judge_is_denied(deny, c->path))
		return true;
	for (size_t i = 0; deny && i < deny->n; i++) {
		const char *path = deny->items[i];
		size_t n = strlen(path), m = strlen(c->path);

		if (!S_ISDIR(c->mode) || c->kind == CHANGE_DELETED) {
			if (m < n && !strncmp(path, c->path, m) &&
			    path[m] == '/')
				return true;
		}
	}
	return false;
}

size_t judge_repository(const char *path)
{
	for (const char *at = path;; at++) {
		size_t n = strcspn(at, "/");

		if (n == 4 && !strncasecmp(at, ".git", 4))
			return (size_t)(at - path) + n;
		at += n;
		if (*at == '\0')
			return 0;
	}
}

bool judge_is_git(const char *path)
{
	return judge_repository(path) > 0;
}

/* What holds whatever was named. */
static int judge_always(struct judge *j, const struct change *c)
{
	const char *why = c->kind == CHANGE_DELETED ? NULL : special(c->mode);

	if (j->layer->is_git || judge_is_git(c->path)) {
		const char *held = protect_reason(j->layer->protect, c);

		return leave(j, held ? LEAVE_GIT_HELD : LEAVE_GIT,
			     held ? held : IN_GIT);
	}
	if (str_starts(c->path, ".pinfold-"))
		return leave(j, LEAVE_REFUSED, "pinfold's own");
	if (is_denied(j, c))
		return leave(j, LEAVE_REFUSED,
			     "files.deny hides it, or a part of it, from the "
			     "task");
	return why ? leave(j, LEAVE_REFUSED, why) : 0;
}

/* Has the user named a directory that it is in? */
static bool is_below_named(const struct judge *j, const char *path)
{
	for (size_t i = 0; j->named && i < j->named->n; i++) {
		const char *dir = j->named->items[i];

		if (*dir && !str_eq(dir, path) && path_is_below(path, dir))
			return true;
	}
	return false;
}

/* What the task committed stays where its branch is, and the host is not. */
static int judge_away(struct judge *j, const struct change *c)
{
	struct git_away *a = &j->away;
	bool tree = c->kind == CHANGE_DELETED && S_ISDIR(c->mode);

	if (a->named || !git_away_has(a, c->path, tree))
		return 0;
	a->kept++;
	buf_reset(&j->reason);
	buf_addf(&j->reason, "%s, and %s since the task began",
		 a->all ? "it may be committed" : "it was committed",
		 buf_str(&a->where));
	return (int)LEAVE_CONFLICT + 1;
}

/* What holds unless the user has named the path. */
static int judge_unnamed(struct judge *j, const struct change *c, int conflict,
			 struct stat *old, struct error *err)
{
	const char *why = protect_reason(j->layer->protect, c);

	/* A conflict wants a name of its own: it is the host's work. */
	if (why && !is_below_named(j, c->path))
		return leave(j, LEAVE_HELD, why);
	if (conflict != 0)
		return judge_conflict(j, c, old, err);
	conflict = judge_away(j, c);
	if (conflict != 0)
		return conflict;
	return goes(c, old) ? judge_tree(j, c, err) : 0;
}

int judge_change(struct judge *j, const struct change *c, bool fresh,
		 enum journal_class *ret_class, struct stat *old,
		 struct error *err)
{
	bool named = j->named && strlist_has(j->named, c->path);
	int r, conflict = 0;

	j->both = false;
	*old = (struct stat){0};
	look_from(j, c->path);
	if (!fresh)
		conflict = judge_conflict(j, c, old, err);
	if (conflict < 0)
		return conflict;
	r = judge_always(j, c);
	/* Whoever named it has seen the warning; an undo has the host's. */
	if (r == 0 && !(named && (fresh || c->place->below_fd >= 0)))
		r = judge_unnamed(j, c, conflict, old, err);
	if (r <= 0)
		return r;
	*ret_class = (enum journal_class)(r - 1);
	return 1;
}
