/*
 * Guarantees: a layer under its name is complete, and is not removed while it is
 * held. It is made under another name and renamed; it is held by a shared flock and
 * removed under an exclusive one. The digest covers the boot, so that what a crash
 * left half on disk is never taken for a whole; times of directories are not
 * covered, for they change with every file beside the hidden ones.
 */
#include "workspace/hide_store.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEY_MAX (64u << 20)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define KEPT_SECONDS (24 * 3600)
#define TRIES 8

static int find_name(const struct hide *h, const struct hide_ids *ids,
		     char name[SHA256_HEX_SIZE])
{
	AUTO_BUF struct buf boot = BUF_INIT(128);
	AUTO_BUF struct buf key = BUF_INIT(KEY_MAX);
	int r = io_read_file(AT_FDCWD, BOOT_ID, &boot);

	if (r < 0)
		return r;
	codec_put_str(&key, buf_str(&boot));
	codec_put_list(&key, &h->paths);
	codec_put_str(&key, h->git_config);
	buf_add(&key, ids, sizeof(*ids));
	for (size_t i = 0; i < h->n_dirs; i++) {
		codec_put_str(&key, h->dirs[i].path);
		codec_put_u32(&key, h->dirs[i].mode);
		codec_put_u32(&key, h->dirs[i].uid);
		codec_put_u32(&key, h->dirs[i].gid);
	}
	sha256_hex(buf_str(&key), key.len, name);
	return key.failed;
}

/* Is the descriptor's directory still the one of that name? */
static bool is_named(int dir_fd, const char *name, int fd)
{
	struct stat here, there;

	return fstat(fd, &here) == 0 &&
	       fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

/* -ENOENT: there is none; -EAGAIN: it is going. */
static int open_held(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, DIR_FLAGS);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (!is_named(dir_fd, name, fd))
		return -EAGAIN;
	/* When it was last of use; who may not say so removes it sooner. */
	(void)futimens(fd, NULL);
	return steal_fd(&fd);
}

static bool is_old(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       st.st_mtim.tv_sec < time(NULL) - KEPT_SECONDS;
}

static void remove_unheld(int dir_fd, const char *name, bool young)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, DIR_FLAGS);
	char going[NAME_MAX + 1];
	struct error ignored;

	if (fd < 0 || (!young && !is_old(fd)) ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_named(dir_fd, name, fd))
		return;
	snprintf(going, sizeof(going), "going.%.*s", SHA256_HEX_SIZE, name);
	if (str_starts(name, "going.") ||
	    renameat(dir_fd, name, dir_fd, going) == 0)
		layer_remove(dir_fd, str_starts(name, "going.") ? name : going,
			     &ignored);
}

/* Only where one was made: each look is a look at everything that is kept. */
static void sweep(int dir_fd)
{
	AUTO_DIR DIR *d = NULL;
	size_t n = 0;
	struct dirent *e;

	if (io_open_dir(dir_fd, ".", &d) < 0)
		return;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		remove_unheld(dir_fd, e->d_name, n > HIDE_STORE_MOST);
	}
}

/* Makes it aside; whoever comes first with the name has made it for both. */
static int make(int dir_fd, const char *name, const struct hide *h,
		const struct hide_ids *ids, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct error ignored;
	char aside[32];
	int r;

	snprintf(aside, sizeof(aside), "new.%d", getpid());
	layer_remove(dir_fd, aside, &ignored);
	if (mkdirat(dir_fd, aside, 0755) < 0)
		return error_errno(err, "cannot make a layer");
	fd = openat(dir_fd, aside, DIR_FLAGS);
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 ||
	    fchown(fd, ids->layer_uid, ids->layer_gid) < 0)
		r = error_errno(err, "cannot open a layer");
	else
		r = hide_make(fd, h, ids, err);
	if (r == 0 && renameat(dir_fd, aside, dir_fd, name) < 0 &&
	    errno != EEXIST && errno != ENOTEMPTY)
		r = error_errno(err, "cannot rename a layer");
	layer_remove(dir_fd, aside, &ignored);
	return r;
}

int hide_store_open(int dir_fd, const struct hide *h,
		    const struct hide_ids *ids, char ret_name[SHA256_HEX_SIZE],
		    struct error *err)
{
	int r = find_name(h, ids, ret_name);

	if (r < 0)
		return error_set(err, r, "cannot name a layer: %s",
				 strerror(-r));
	for (int i = 0; i < TRIES; i++) {
		int fd = open_held(dir_fd, ret_name);

		if (fd >= 0)
			return fd;
		if (fd == -ENOENT) {
			r = make(dir_fd, ret_name, h, ids, err);
			sweep(dir_fd);
		} else if (fd != -EAGAIN) {
			r = error_set(err, fd, "cannot open a layer: %s",
				      strerror(-fd));
		}
		if (r < 0)
			return r;
	}
	return error_set(err, -EBUSY, "a layer that hides is always going");
}

int hide_store_hold(const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, DIR_FLAGS);

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return error_errno(err, "cannot open the layer %s", path);
	return steal_fd(&fd);
}
