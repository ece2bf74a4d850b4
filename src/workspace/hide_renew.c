#include "workspace/hide_renew.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/layer.h"
#include "workspace/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASIDE "hide.new"
#define GIT_CONFIG ".git/config"

static int names_in(int dir_fd, struct strlist *ret)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int r = io_open_dir(dir_fd, ".", &dir);

	while (r == 0 && (e = readdir(dir))) {
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			r = strlist_add(ret, e->d_name);
	}
	return r;
}

/* Afterwards the new one is in the layer and the old one, if any, aside. */
static int exchange(int new_fd, int layer_fd, const char *name)
{
	if (syscall(SYS_renameat2, new_fd, name, layer_fd, name,
		    RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	return syscall(SYS_renameat2, new_fd, name, layer_fd, name,
		       RENAME_NOREPLACE) < 0
		       ? -errno
		       : 0;
}

/* What is hidden no more goes last. */
static int swap(int new_fd, int layer_fd, struct error *err)
{
	AUTO_STRLIST struct strlist new = {0};
	AUTO_STRLIST struct strlist old = {0};
	int r = names_in(new_fd, &new);

	if (r == 0)
		r = names_in(layer_fd, &old);
	for (size_t i = 0; i < new.n && r == 0; i++)
		r = exchange(new_fd, layer_fd, new.items[i]);
	if (r < 0)
		return error_set(err, r, "cannot renew what is hidden: %s",
				 strerror(-r));
	for (size_t i = 0; i < old.n && r == 0; i++) {
		if (!strlist_has(&new, old.items[i]))
			r = layer_remove(layer_fd, old.items[i], err);
	}
	return r;
}

static int make_aside(int dir_fd, const struct hide *h,
		      const struct hide_ids *ids, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = layer_remove(dir_fd, ASIDE, err);

	if (r < 0)
		return r;
	if (mkdirat(dir_fd, ASIDE, 0755) < 0)
		return error_errno(err, "cannot make a layer");
	fd = openat(dir_fd, ASIDE,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, "cannot open a layer");
	r = hide_make(fd, h, ids, err);
	return r < 0 ? r : steal_fd(&fd);
}

int hide_renew(int dir_fd, const char *name, const struct hide *h,
	       const struct hide_ids *ids, struct error *err)
{
	AUTO_CLOSE int layer = openat(dir_fd, name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					      O_CLOEXEC);
	AUTO_CLOSE int new = -1;
	int r;

	if (layer < 0)
		return error_errno(err, "cannot open the layer that hides");
	new = make_aside(dir_fd, h, ids, err);
	if (new < 0)
		return new;
	r = swap(new, layer, err);
	return r < 0 ? r : layer_remove(dir_fd, ASIDE, err);
}

static bool is_whiteout(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

static bool has_config(int layer_fd, const char *config)
{
	AUTO_BUF struct buf text = BUF_INIT(1u << 20);

	return io_read_file(layer_fd, GIT_CONFIG, &text) == 0 &&
	       str_eq(buf_str(&text), config);
}

bool hide_covers(int layer_fd, const struct hide *h, const char **ret_path)
{
	AUTO_TREE struct tree t;
	const char *name;

	tree_init(&t, layer_fd);
	for (size_t i = 0; i < h->paths.n; i++) {
		int fd = tree_parent(&t, h->paths.items[i], &name);

		*ret_path = h->paths.items[i];
		/* A directory on the way may be hidden itself. */
		if (fd == -ENOTDIR ? false : fd < 0 || !is_whiteout(fd, name))
			return false;
	}
	*ret_path = GIT_CONFIG;
	return !h->git_config || has_config(layer_fd, h->git_config);
}
