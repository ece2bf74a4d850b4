/*
 * In copy mode what is restored is copied again from the source, by the
 * manifest: what that has not was never part of the copy. First all of it is
 * looked at, then the task's part goes, then the source's comes.
 */
#include "workspace/restore_copy.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "workspace/copy_file.h"
#include "workspace/layer.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 256

struct restore {
	struct manifest manifest;
	bool make; /* else: only look whether it could be made */
	unsigned depth;
};

static void restore_done(struct restore *r)
{
	manifest_done(&r->manifest);
}

#define AUTO_RESTORE __attribute__((cleanup(restore_done)))

static int each(struct restore *r, uint64_t block, int from, int to);

static int one_directory(struct restore *r, const struct manifest_entry *e,
			 int from_dir, int to_dir)
{
	AUTO_CLOSE int from = -1;
	AUTO_CLOSE int to = -1;
	int result;

	from = walk_open_at(from_dir, e->name, O_PATH | O_DIRECTORY);
	if (from < 0)
		return from;
	if (r->make) {
		if (mkdirat(to_dir, e->name, 0700) < 0)
			return -errno;
		to = walk_open_at(to_dir, e->name, O_PATH | O_DIRECTORY);
		if (to < 0)
			return to;
	}
	if (++r->depth > DEPTH_MAX)
		return -ENAMETOOLONG;
	result = each(r, e->block, from, to);
	r->depth--;
	return result;
}

/* Owner of what lies beside it, permissions and times of the source's. */
static int dress(int dir, const char *name, const struct stat *st, mode_t mode)
{
	struct stat parent;

	return fstat(dir, &parent) < 0
		       ? -errno
		       : copy_dress(dir, name, &parent, st, mode & 07777);
}

/* Looks at, or makes, what an entry of the manifest stands for. */
static int one(struct restore *r, const struct manifest_entry *e, int from,
	       int to)
{
	struct stat st;
	int result = 0;

	if (fstatat(from, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (!manifest_is_source(e, &st))
		return -ESTALE;
	if (S_ISDIR(st.st_mode))
		result = one_directory(r, e, from, to);
	else if (r->make && S_ISREG(st.st_mode))
		result = copy_make_file(from, e->name, &st, to, e->name);
	else if (r->make)
		result = copy_make_link(from, e->name, to, e->name);
	if (result == 0 && r->make)
		result = dress(to, e->name, &st, (mode_t)e->mode);
	return result;
}

static int each(struct restore *r, uint64_t block, int from, int to)
{
	uint64_t n = manifest_count(&r->manifest, block);
	int result = 0;

	for (uint64_t i = 0; i < n && result == 0; i++) {
		const struct manifest_entry *e =
			manifest_at(&r->manifest, block, i);

		result = e ? one(r, e, from, to) : -EBADMSG;
	}
	return result;
}

/* The last name of the path, where the way down has come to. */
struct end {
	int upper, source; /* -1: the source has no such directory */
	uint64_t block;	   /* 0: likewise */
};

static void end_done(struct end *e)
{
	close_fd(e->upper);
	close_fd(e->source);
}

#define AUTO_END __attribute__((cleanup(end_done)))

/* A directory on the way that the task has removed comes back, empty. */
static int make_on_way(const struct end *at, const char *name,
		       const struct manifest_entry *e)
{
	struct stat st;

	if (!e || !S_ISDIR((mode_t)e->mode))
		return -ENOENT;
	if (fstatat(at->source, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mkdirat(at->upper, name, 0700) < 0)
		return -errno;
	return dress(at->upper, name, &st, (mode_t)e->mode);
}

static int go_down(struct restore *r, struct end *at, const char *name)
{
	const struct manifest_entry *e =
		at->block ? manifest_find(&r->manifest, at->block, name) : NULL;
	AUTO_END struct end next = {-1, -1, 0};

	next.upper = walk_open_at(at->upper, name, O_PATH | O_DIRECTORY);
	if (next.upper == -ENOENT) {
		int made = make_on_way(at, name, e);

		if (made < 0)
			return made;
		next.upper = walk_open_at(at->upper, name,
					  O_PATH | O_DIRECTORY);
	}
	if (next.upper < 0)
		return next.upper == -ELOOP ? -ENOTDIR : next.upper;
	if (e && S_ISDIR((mode_t)e->mode)) {
		next.source = walk_open_at(at->source, name,
					   O_PATH | O_DIRECTORY);
		if (next.source < 0)
			return -ESTALE;
		next.block = e->block;
	}
	end_done(at);
	*at = next;
	next = (struct end){-1, -1, 0};
	return 0;
}

/* Removes name from the layer and copies it again, if it was there. */
static int replace(struct restore *r, const struct end *at, const char *name,
		   struct error *err)
{
	const struct manifest_entry *e =
		at->block ? manifest_find(&r->manifest, at->block, name) : NULL;
	int result = e ? one(r, e, at->source, -1) : 0;

	if (result == 0)
		result = layer_remove(at->upper, name, err);
	if (result == 0 && e) {
		r->make = true;
		result = one(r, e, at->source, at->upper);
		r->make = false;
	}
	return result;
}

static int replace_all(struct restore *r, const struct end *at,
		       struct error *err)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int result = io_dir_of(walk_open_at(at->upper, ".",
					    O_RDONLY | O_DIRECTORY),
			       &dir);

	if (result < 0)
		return result;
	result = each(r, at->block, at->source, -1);
	while (result == 0 && (e = readdir(dir))) {
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			result = layer_remove(at->upper, e->d_name, err);
	}
	r->make = true;
	return result == 0 ? each(r, at->block, at->source, at->upper)
			   : result;
}

static int restore(struct restore *r, struct end *at, const char *path,
		   struct error *err)
{
	int result = 0;

	if (!*path)
		return replace_all(r, at, err);
	while (result == 0) {
		const char *slash = strchr(path, '/');
		char name[NAME_MAX + 1];

		if (!slash)
			return replace(r, at, path, err);
		if (slash - path > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = '\0';
		result = go_down(r, at, name);
		path = slash + 1;
	}
	/* Neither the task nor the copy has anything there. */
	return result == -ENOENT ? 0 : result;
}

int restore_copy(int layer_fd, int source_fd, const char *path,
		 struct error *err)
{
	AUTO_RESTORE struct restore r = {.make = false};
	AUTO_END struct end at = {-1, -1, 0};
	AUTO_BUF struct buf quoted = BUF_INIT(65536);
	int result = manifest_open(layer_fd, &r.manifest, err);

	if (result < 0)
		return result;
	at.upper = walk_open_at(layer_fd, "upper", O_PATH | O_DIRECTORY);
	at.source = fcntl(source_fd, F_DUPFD_CLOEXEC, 3);
	at.block = manifest_top(&r.manifest);
	if (at.upper < 0 || at.source < 0)
		return error_set(err, -ENOENT, "cannot open the copy or its "
					       "source");
	result = restore(&r, &at, path, err);
	if (result == 0)
		return 0;
	str_quote(&quoted, *path ? path : ".", 400);
	if (result == -ESTALE)
		return error_set(err, result, "cannot restore %s: the host has "
				 "changed it since it was copied",
				 buf_str(&quoted));
	return error_set(err, result, "cannot restore %s: %s",
			 buf_str(&quoted), strerror(-result));
}
