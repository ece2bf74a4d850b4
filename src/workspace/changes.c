/*
 * Tells what a task changed. The upper tree and what lies below it are walked
 * side by side (workspace/walk.h); nothing the agent wrote is believed: a file
 * is the same only if its bytes are.
 *
 * Theory: "before" is what a name stood for when the task began: in an overlay
 * the entry of the lower directory, in copy mode the entry of the manifest. A
 * directory whose lower one does not shine through (opaque, below an opaque
 * one, or a copy) is "hidden": what it had and has no more is looked for after
 * its entries were read. Elsewhere a deletion is a whiteout.
 */
#include "workspace/changes.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "workspace/compare.h"
#include "workspace/manifest.h"
#include "workspace/taken.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MODE_BITS 07777

struct scan {
	struct walk walk;
	struct manifest manifest;
	struct taken taken;
	bool copied;
	uint64_t seen, max_entries;
	uint64_t budget; /* bytes that may still be compared */
	change_fn *fn;
	void *arg;
	const struct manifest_entry *was; /* of the entry that is looked at */
	struct changes_counts counts;
};

/* What a name was before the task; mode 0: it was not there. */
struct before {
	mode_t mode;
	uint64_t size;
	uint64_t block;	      /* copy mode: of a directory */
	bool untouched;	      /* copy mode: the kernel says so */
	bool comparable;      /* the source's entry is still what it was */
};

static void scan_done(struct scan *s)
{
	walk_done(&s->walk);
	manifest_done(&s->manifest);
	taken_done(&s->taken);
}

#define AUTO_SCAN __attribute__((cleanup(scan_done)))

static void count(struct scan *s, enum change_kind kind)
{
	s->counts.added += kind == CHANGE_ADDED;
	s->counts.modified += kind == CHANGE_MODIFIED;
	s->counts.deleted += kind == CHANGE_DELETED;
}

static int tell(struct scan *s, const char *path, const char *name,
		enum change_kind kind, const struct stat *now, mode_t before)
{
	const struct change_place place = {
		.upper_fd = walk_fd(&s->walk),
		.below_fd = walk_top(&s->walk)->other,
		.name = name,
		.manifest = s->copied ? &s->manifest : NULL,
		.was = s->was,
	};
	const struct change c = {
		.path = path,
		.kind = kind,
		.mode = now ? now->st_mode : before,
		.mode_before = before,
		.size = now && S_ISREG(now->st_mode) ? (uint64_t)now->st_size
						     : 0,
		.place = &place,
	};

	if (taken_has(&s->taken, path))
		return 0;
	count(s, kind);
	return s->fn ? s->fn(s->arg, &c) : 0;
}

static int report(struct scan *s, const char *name, enum change_kind kind,
		  const struct stat *now, mode_t before, struct error *err)
{
	struct buf *path = &s->walk.path;
	size_t len = path->len;
	int r;

	if (!s->fn && s->taken.n == 0) {
		count(s, kind);
		return 0;
	}
	if (len > 0)
		buf_add_char(path, '/');
	if (buf_add_str(path, name) < 0)
		return error_set(err, path->failed,
				 "cannot hold a path of %zu bytes", len);
	r = tell(s, buf_str(path), name, kind, now, before);
	path->len = len;
	path->data[len] = '\0';
	return r;
}

static int look_below(struct scan *s, const char *name, struct before *ret,
		      struct error *err)
{
	struct walk_level *l = walk_top(&s->walk);
	struct stat st;

	*ret = (struct before){0};
	if (l->other < 0)
		return 0;
	if (fstatat(l->other, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		return walk_error(&s->walk, err, -errno,
				  "cannot read the source's", name);
	}
	ret->mode = st.st_mode;
	ret->size = (uint64_t)st.st_size;
	ret->comparable = true;
	return 0;
}

/* What the source has of a name now. */
static bool find_source(struct scan *s, const char *name, struct stat *ret)
{
	struct walk_level *l = walk_top(&s->walk);

	return l->other >= 0 &&
	       fstatat(l->other, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static void look_up(struct scan *s, const char *name, const struct stat *now,
		    struct before *ret)
{
	struct walk_level *l = walk_top(&s->walk);
	const struct manifest_entry *e;
	struct stat st;

	*ret = (struct before){0};
	e = l->block ? manifest_find(&s->manifest, l->block, name) : NULL;
	s->was = e;
	if (!e) {
		/* Both sides may have made the same directory. */
		if (S_ISDIR(now->st_mode) && find_source(s, name, &st) &&
		    S_ISDIR(st.st_mode))
			ret->mode = st.st_mode;
		return;
	}
	ret->mode = (mode_t)e->mode;
	ret->size = e->size;
	ret->block = e->block;
	ret->untouched = manifest_is_copy(e, now) &&
			 time_ns(&now->st_ctim) == e->ctime_ns;
	if (S_ISDIR(e->mode) || ret->untouched || l->other < 0)
		return;
	/* The host may have changed its file since it was copied. */
	ret->comparable = find_source(s, name, &st) &&
			  manifest_is_source(e, &st);
}

static bool is_whiteout(struct scan *s, const char *name, const struct stat *st)
{
	AUTO_CLOSE int fd = -1;

	if (s->copied)
		return false;
	if (S_ISCHR(st->st_mode))
		return st->st_rdev == makedev(0, 0);
	if (!walk_top(&s->walk)->marks || !S_ISREG(st->st_mode) || st->st_size)
		return false;
	fd = walk_open_at(walk_fd(&s->walk), name, O_RDONLY | O_NONBLOCK);
	return fd >= 0 &&
	       fgetxattr(fd, "user.overlay.whiteout", NULL, 0) >= 0;
}

/* A directory in whose place another mount lies: what it was is under that. */
static bool is_mount(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name, O_PATH | O_DIRECTORY);

	return fd == -EXDEV;
}

static bool is_changed(struct scan *s, const char *name, const struct stat *now,
		       const struct before *before)
{
	struct walk_level *l = walk_top(&s->walk);

	if (now->st_mode != before->mode)
		return !S_ISDIR(now->st_mode) || !S_ISDIR(before->mode) ||
		       l->other < 0 || !is_mount(l->other, name);
	if (before->untouched)
		return false;
	if (S_ISREG(now->st_mode))
		return (uint64_t)now->st_size != before->size ||
		       !before->comparable ||
		       !compare_files(walk_fd(&s->walk), l->other, name,
				      before->size, CHANGES_COMPARE_FILE,
				      &s->budget);
	if (S_ISLNK(now->st_mode))
		return !before->comparable ||
		       !compare_links(walk_fd(&s->walk), l->other, name);
	return false;
}

/* Reads the marks that overlayfs leaves on a directory. */
static void read_marks(struct scan *s, struct walk_level *l, bool hidden)
{
	char value[8];
	ssize_t n;

	n = fgetxattr(walk_fd(&s->walk), "user.overlay.opaque", value,
		      sizeof(value));
	l->hidden = hidden || (n == 1 && value[0] == 'y');
	/* "x": not opaque, but may hold whiteouts made of attributes. */
	l->marks = n == 1 && value[0] == 'x';
}

static int enter(struct scan *s, const char *name, const struct before *before,
		 struct error *err)
{
	bool hidden = walk_top(&s->walk)->hidden;
	bool pair = S_ISDIR(before->mode);
	struct walk_level *l;
	int r;

	r = walk_enter(&s->walk, name, pair, err);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0; /* Replaced while it was looked at. */
	/* It was closed when it was copied, empty, and nobody touched it. */
	if (r == -EACCES && before->untouched)
		return 0;
	if (r < 0)
		return r;
	l = walk_top(&s->walk);
	l->block = before->block;
	if (s->copied)
		l->hidden = true;
	else
		read_marks(s, l, hidden);
	return 0;
}

/* Allocated bytes; a file of several links counts its part at each. */
static uint64_t bytes_of(const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	return S_ISDIR(st->st_mode) || st->st_nlink < 2 ? bytes
							: bytes / st->st_nlink;
}

/*
 * In copy mode, of what the host has changed too: have both sides come to the
 * same? In an overlay that is no change by itself.
 */
static bool is_as_source(struct scan *s, const char *name,
			 const struct stat *now)
{
	const int below = walk_top(&s->walk)->other;
	struct stat st;

	if (!s->copied || S_ISDIR(now->st_mode) ||
	    !find_source(s, name, &st) || st.st_mode != now->st_mode)
		return false;
	if (S_ISLNK(now->st_mode))
		return compare_links(walk_fd(&s->walk), below, name);
	return S_ISREG(now->st_mode) && st.st_size == now->st_size &&
	       compare_files(walk_fd(&s->walk), below, name,
			     (uint64_t)now->st_size, CHANGES_COMPARE_FILE,
			     &s->budget);
}

static int report_entry(struct scan *s, const char *name,
			const struct stat *now, const struct before *before,
			struct error *err)
{
	if (!before->comparable && !before->untouched &&
	    is_as_source(s, name, now))
		return 0;
	if (!before->mode)
		return report(s, name, CHANGE_ADDED, now, 0, err);
	if (is_changed(s, name, now, before))
		return report(s, name, CHANGE_MODIFIED, now, before->mode, err);
	return 0;
}

static int scan_entry(struct scan *s, const char *name, struct error *err)
{
	struct before before;
	struct stat now;
	int r = 0;

	if (fstatat(walk_fd(&s->walk), name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : walk_error(&s->walk, err, -errno,
						    "cannot read", name);
	if (s->copied)
		look_up(s, name, &now, &before);
	else
		r = look_below(s, name, &before, err);
	if (r < 0)
		return r;
	s->counts.inodes++;
	if (is_whiteout(s, name, &now))
		return before.mode ? report(s, name, CHANGE_DELETED, NULL,
					    before.mode, err)
				   : 0;
	s->counts.bytes += bytes_of(&now);
	r = report_entry(s, name, &now, &before, err);
	if (r != 0 || !S_ISDIR(now.st_mode))
		return r;
	return enter(s, name, &before, err);
}

static int report_if_gone(struct scan *s, const char *name, mode_t mode,
			  struct error *err)
{
	struct stat st;

	if (s->max_entries && ++s->seen > s->max_entries)
		return -E2BIG;
	if (fstatat(walk_fd(&s->walk), name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return walk_error(&s->walk, err, -errno, "cannot read", name);
	return report(s, name, CHANGE_DELETED, NULL, mode, err);
}

static int list_deleted_copied(struct scan *s, struct error *err)
{
	uint64_t block = walk_top(&s->walk)->block;
	uint64_t n = manifest_count(&s->manifest, block);
	struct stat st;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		const struct manifest_entry *e =
			manifest_at(&s->manifest, block, i);

		if (!e)
			return error_set(err, -EBADMSG,
					 "the manifest of the copy is damaged");
		s->was = e;
		if (walk_top(&s->walk)->other < 0 ||
		    find_source(s, e->name, &st) || errno != ENOENT)
			r = report_if_gone(s, e->name, (mode_t)e->mode, err);
	}
	return r;
}

/* What the lower directory has and a hidden one has not. */
static int list_deleted(struct scan *s, struct error *err)
{
	struct walk_level *l = walk_top(&s->walk);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	struct stat st;
	int r = io_dir_of(walk_open_at(l->other, ".", O_RDONLY | O_DIRECTORY),
			  &dir);

	if (r < 0)
		return walk_error(&s->walk, err, r, "cannot read the source's",
				  NULL);
	for (;;) {
		errno = 0;
		e = readdir(dir);
		if (!e)
			return errno ? walk_error(&s->walk, err, -errno,
						  "cannot read the source's",
						  NULL)
				     : 0;
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
		    fstatat(l->other, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = report_if_gone(s, e->d_name, st.st_mode, err);
		if (r != 0)
			return r;
	}
}

/* The directory on top was read to its end. */
static int finish(struct scan *s, struct error *err)
{
	struct walk_level *l = walk_top(&s->walk);
	int r = 0;

	if (s->copied && l->block)
		r = list_deleted_copied(s, err);
	else if (!s->copied && l->hidden && l->other >= 0)
		r = list_deleted(s, err);
	if (r != 0)
		return r;
	if (s->walk.depth > 1)
		return walk_leave(&s->walk, err);
	return 0;
}

/* The top's own mode, and the marks of its level. */
static int begin(struct scan *s, int source_fd, struct error *err)
{
	struct walk_level *l = walk_top(&s->walk);
	struct stat now, before;

	if (s->copied) {
		l->block = manifest_top(&s->manifest);
		l->hidden = true;
	}
	if (source_fd < 0)
		return 0;
	if (fstat(walk_fd(&s->walk), &now) < 0 || fstat(source_fd, &before) < 0)
		return error_errno(err, "cannot read the source");
	if ((now.st_mode & MODE_BITS) == (before.st_mode & MODE_BITS))
		return 0;
	return report(s, ".", CHANGE_MODIFIED, &now, before.st_mode, err);
}

static int run_scan(struct scan *s, struct error *err)
{
	struct dirent *e;
	size_t depth;
	int r;

	for (;;) {
		r = walk_next(&s->walk, &e, err);
		if (r < 0)
			return r;
		depth = s->walk.depth;
		if (r == 0) {
			r = finish(s, err);
			if (r != 0 || depth == 1)
				return r;
			continue;
		}
		if (s->max_entries && ++s->seen > s->max_entries)
			return -E2BIG;
		r = scan_entry(s, e->d_name, err);
		if (r != 0)
			return r;
	}
}

int changes_scan(int task_fd, int source_fd, bool copied, uint64_t max_entries,
		 change_fn *fn, void *arg, struct changes_counts *ret,
		 struct error *err)
{
	AUTO_SCAN struct scan s = {
		.copied = copied,
		.max_entries = max_entries,
		.budget = CHANGES_COMPARE_ALL,
		.fn = fn,
		.arg = arg,
	};
	int r;

	if (copied) {
		r = manifest_open(task_fd, &s.manifest, err);
		if (r < 0)
			return r;
	}
	r = taken_load(&s.taken, task_fd, err);
	if (r == 0)
		r = walk_init(&s.walk, task_fd, "upper", source_fd, err);
	if (r == 0)
		r = begin(&s, source_fd, err);
	if (r == 0)
		r = run_scan(&s, err);
	if (r == 0 || r == -E2BIG)
		*ret = s.counts;
	if (r == -E2BIG)
		error_set(err, r, "more than %llu paths were changed",
			  (unsigned long long)max_entries);
	return r;
}

struct usage {
	struct walk walk;
	uint64_t bytes, inodes;
	bool incomplete; /* a directory could not be read */
};

static int use_entry(struct usage *u, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(walk_fd(&u->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		u->incomplete = u->incomplete || errno == EACCES;
		return 0;
	}
	u->inodes++;
	u->bytes += bytes_of(&st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	r = walk_enter(&u->walk, name, false, NULL);
	u->incomplete = u->incomplete || r == -EACCES;
	return r == -EACCES || r == -ENOENT || r == -ENOTDIR || r == -ELOOP
		       ? 0
		       : r;
}

/* 1: goes on, 0: the walk is over, or negative. */
static int use_next(struct usage *u)
{
	struct dirent *e;
	int r = walk_next(&u->walk, &e, NULL);

	if (r == 0 && u->walk.depth == 1)
		return 0;
	if (r == 0)
		r = walk_leave(&u->walk, NULL);
	else if (r > 0)
		r = use_entry(u, e->d_name);
	return r < 0 ? r : 1;
}

int changes_usage(int dir_fd, const char *name, uint64_t max_bytes,
		  uint64_t max_inodes, uint64_t *ret_bytes,
		  uint64_t *ret_inodes)
{
	struct usage u = {0};
	int r = walk_init(&u.walk, dir_fd, name, -1, NULL);

	if (r == 0)
		r = 1;
	while (r > 0 && u.bytes <= max_bytes && u.inodes <= max_inodes)
		r = use_next(&u);
	walk_done(&u.walk);
	*ret_bytes = u.bytes;
	*ret_inodes = u.inodes;
	if (r < 0 && r != -ENOENT)
		return r;
	return u.incomplete ? -EACCES : 0;
}
