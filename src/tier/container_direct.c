/*
 * A source that the command writes directly: a clone of it, and over it mounts
 * of what it may not change. A mount point cannot be renamed, removed or
 * replaced in its mount namespace (EBUSY), but a directory above it can, and
 * takes it along; so each directory on the way is a mount too.
 */
#include "base/cleanup.h"
#include "confine/mount.h"
#include "confine/sys.h"
#include "tier/container_build.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* path, which lies in the source, opened below it: never through a link. */
static int open_below(struct builder *b, const char *path, struct stat *st)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH |
					  RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS |
					  RESOLVE_NO_XDEV};
	AUTO_CLOSE int source = builder_source(b);
	AUTO_CLOSE int fd = -1;

	if (source < 0)
		return source;
	fd = sys_openat2(source, path + strlen(b->s->source) + 1, &how);
	if (fd < 0 || fstat(fd, st) < 0)
		return error_errno(b->err, "cannot pin %s", path);
	if (S_ISLNK(st->st_mode))
		return error_set(b->err, -ESTALE,
				 "%s was replaced while the task started",
				 path);
	return steal_fd(&fd);
}

/* What fd is, at path; nothing that the host mounts in it later. */
static int place_clone(struct builder *b, int fd, const char *path,
		       unsigned attributes, bool directory)
{
	AUTO_CLOSE int mount = mount_clone(fd, path, attributes, -1, b->err);
	int r = mount < 0 ? mount : mount_private(mount, b->err);

	return r < 0 ? r
		     : builder_place(b, steal_fd(&mount), path, directory);
}

int want_direct(struct builder *b)
{
	AUTO_CLOSE int fd = builder_source(b);
	int r = fd < 0 ? fd : place_clone(b, fd, b->s->source, RW, true);

	return r < 0 ? r : strlist_add(&b->c->write_paths, b->s->source);
}

int want_anchor(struct builder *b, const char *path)
{
	struct stat st;
	AUTO_CLOSE int fd = open_below(b, path, &st);

	return fd < 0 ? fd
		      : place_clone(b, fd, path, RW, S_ISDIR(st.st_mode));
}

/* What is seen instead: an empty file or directory that nobody may open. */
static int open_cover(struct builder *b, bool directory)
{
	const char *name = directory ? "cover.d" : "cover";
	int r = directory ? mkdirat(b->support, name, 0)
			  : mknodat(b->support, name, S_IFREG, 0);
	int fd;

	if (r < 0 && errno != EEXIST)
		return error_errno(b->err, "cannot make a cover");
	fd = openat(b->support, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_errno(b->err, "cannot open a cover") : fd;
}

static bool is_scrubbed(const struct builder *b, const char *path)
{
	return b->s->hide.git_config &&
	       str_eq(path + strlen(b->s->source), "/.git/config");
}

int want_cover(struct builder *b, const char *path)
{
	struct stat st;
	AUTO_CLOSE int under = open_below(b, path, &st);
	AUTO_CLOSE int fd = -1;

	if (under < 0)
		return under;
	if (is_scrubbed(b, path)) {
		fd = openat(b->support, "hide/.git/config",
			    O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return error_errno(b->err, "cannot open what %s is to "
						   "be", path);
	} else {
		fd = open_cover(b, S_ISDIR(st.st_mode));
		if (fd < 0)
			return fd;
	}
	return place_clone(b, fd, path, RO, S_ISDIR(st.st_mode));
}

int want_pin(struct builder *b, const char *path)
{
	struct stat st;
	AUTO_CLOSE int fd = open_below(b, path, &st);

	if (fd < 0)
		return fd;
	/* A socket or a FIFO leads to a process of the host. */
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return want_cover(b, path);
	return place_clone(b, fd, path, RO, S_ISDIR(st.st_mode));
}
