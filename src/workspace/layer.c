/*
 * Makes and judges the directories that hold a task's changes. Everything here
 * is on the path of every start: a handful of system calls, none of which
 * depends on the size of the source.
 */
#include "workspace/layer.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* linux/magic.h, and a few that it does not list. */
#define FS_OVERLAY 0x794c7630u
#define FS_NFS 0x6969u
#define FS_CIFS 0xff534d42u
#define FS_SMB2 0xfe534d42u
#define FS_FUSE 0x65735546u
#define FS_9P 0x01021997u
#define FS_VFAT 0x4d44u
#define FS_EXFAT 0x2011bab0u
#define FS_ECRYPT 0xf15fu
#define FS_CEPH 0x00c36400u
#define FS_TMPFS 0x01021994u
#define FS_RAMFS 0x858458f6u
#define FS_PROC 0x9fa0u
#define FS_SYS 0x62656572u
#define FS_XFS 0x58465342u
#define FS_BTRFS 0x9123683eu
#define FS_BCACHEFS 0xca451a4eu
#define FS_ZFS 0x2fc12fc1u

/* An upper layer marks directories by them; tmpfs has none before 6.6. */
static bool has_user_attributes(int dir)
{
	if (fsetxattr(dir, "user.pinfold", "", 0, 0) < 0)
		return false;
	fremovexattr(dir, "user.pinfold");
	return true;
}

static bool carries_upper(int dir, uint32_t type)
{
	static const uint32_t unfit[] = {
		FS_OVERLAY, FS_NFS,   FS_CIFS,	 FS_SMB2, FS_FUSE,  FS_9P,
		FS_VFAT,    FS_EXFAT, FS_ECRYPT, FS_CEPH, FS_RAMFS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(unfit); i++) {
		if (type == unfit[i])
			return false;
	}
	return type != FS_TMPFS || has_user_attributes(dir);
}

/* File systems with names of their own kind (case) are refused as lowers. */
static bool serves_as_lower(uint32_t type)
{
	return type != FS_VFAT && type != FS_EXFAT && type != FS_PROC &&
	       type != FS_SYS;
}

/* An overlay whose upper lies in its lower is refused by the kernel. */
static bool holds_state(const struct source *s, int task_fd)
{
	AUTO_FREE char *path = io_fd_path(task_fd);

	return path && path_is_below(path, s->path);
}

/* Does the source, or its git directory, belong to others? */
static bool is_foreign(const struct source *s, uid_t uid, gid_t gid)
{
	struct stat st;

	if (s->owner != uid || s->group != gid)
		return true;
	return fstatat(s->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (st.st_uid != uid || st.st_gid != gid);
}

enum layer_trouble layer_probe(const struct source *s, int task_fd, uid_t uid,
			       gid_t gid, bool all_ids)
{
	struct statfs fs;

	if (fstatfs(task_fd, &fs) == 0 && !carries_upper(task_fd, (uint32_t)fs.f_type))
		return LAYER_STATE_DIRECTORY;
	if (s->fd < 0)
		return LAYER_OK;
	if (fstatfs(s->fd, &fs) == 0 && !serves_as_lower((uint32_t)fs.f_type))
		return LAYER_SOURCE_SYSTEM;
	if (holds_state(s, task_fd))
		return LAYER_OVERLAPS;
	return !all_ids && is_foreign(s, uid, gid) ? LAYER_FOREIGN_OWNER
						   : LAYER_OK;
}

bool layer_may_share(int task_fd, const struct source *s)
{
	static const uint32_t kinds[] = {FS_XFS, FS_BTRFS, FS_BCACHEFS, FS_ZFS};
	struct stat a, b;
	struct statfs fs;

	if (fstat(task_fd, &a) < 0 || fstat(s->fd, &b) < 0 ||
	    a.st_dev != b.st_dev || fstatfs(task_fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((uint32_t)fs.f_type == kinds[i])
			return true;
	}
	return false;
}

const char *layer_trouble_text(enum layer_trouble t)
{
	switch (t) {
	case LAYER_OK:
		return "an overlay serves";
	case LAYER_FOREIGN_OWNER:
		return "the source's directory belongs to another user or "
		       "group, whose files an overlay could not change";
	case LAYER_STATE_DIRECTORY:
		return "the state directory lies on a file system that cannot "
		       "hold an overlay's changes";
	case LAYER_SOURCE_SYSTEM:
		return "the source lies on a file system that cannot be below "
		       "an overlay";
	case LAYER_OVERLAPS:
		return "the source holds the state directory itself";
	case LAYER_SAME_IDS:
		return "the source lies on a file system that cannot show its "
		       "files as another user's, which root's tasks are";
	}
	return "unknown trouble";
}

int layer_make(int task_fd, const struct source *s, uid_t as_uid, gid_t as_gid,
	       struct error *err)
{
	struct stat st = {.st_mode = s->fd < 0 ? S_IFDIR | 0755 : s->mode};
	mode_t mode, mask;
	int r;

	/* Who has only opened a directory leaves the mode to us. */
	if (!S_ISDIR(st.st_mode) && fstat(s->fd, &st) < 0)
		return error_errno(err, "cannot read the source");
	mode = st.st_mode & 07777;
	mask = umask(0);
	r = mkdirat(task_fd, "upper", mode & 01777);
	umask(mask);
	if (r < 0)
		return error_errno(err, "cannot make the directory for "
					"changes (upper)");
	if (as_uid != (uid_t)-1 &&
	    fchownat(task_fd, "upper", as_uid, as_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, "cannot give the directory for "
					"changes to user %u",
				   (unsigned)as_uid);
	/* Set-id bits are not taken by mkdir and are dropped by chown. */
	if ((mode & 06000) != 0 && fchmodat(task_fd, "upper", mode, 0) < 0)
		return error_errno(err, "cannot set the mode of the directory "
					"for changes");
	if (mkdirat(task_fd, "work", 0700) < 0)
		return error_errno(err, "cannot make the overlay's work "
					"directory");
	return 0;
}
