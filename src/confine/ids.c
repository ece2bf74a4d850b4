#include "confine/ids.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "confine/start.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Ids of a whole system. */
#define RANGE 65536u

static int write_proc(pid_t pid, const char *file, const char *text, size_t len,
		      struct error *err)
{
	char path[64];
	int r;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	else
		snprintf(path, sizeof(path), "/proc/self/%s", file);
	r = io_write_file(AT_FDCWD, path, text, len);
	if (r < 0)
		return error_set(err, r, "cannot write %s: %s", path,
				 strerror(-r));
	return 0;
}

static int write_map(pid_t pid, const char *file, const struct id_extent *map,
		     size_t n, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(16384);

	for (size_t i = 0; i < n; i++)
		buf_addf(&b, "%u %u %u\n", map[i].inner, map[i].outer,
			 map[i].count);
	if (b.failed)
		return error_set(err, b.failed, "map for %s is too long", file);
	return write_proc(pid, file, buf_str(&b), b.len, err);
}

int ids_write_maps(pid_t pid, bool deny_setgroups,
		   const struct id_extent *uids, size_t n_uids,
		   const struct id_extent *gids, size_t n_gids,
		   struct error *err)
{
	int r;

	if (deny_setgroups) {
		r = write_proc(pid, "setgroups", "deny", 4, err);
		if (r < 0)
			return r;
	}
	r = write_map(pid, "uid_map", uids, n_uids, err);
	if (r < 0)
		return r;
	return write_map(pid, "gid_map", gids, n_gids, err);
}

size_t ids_swap(uint32_t a, uint32_t b, struct id_extent ret[5])
{
	uint32_t low = a < b ? a : b, high = a < b ? b : a;
	size_t n = 0;

	if (a == b) {
		ret[0] = (struct id_extent){0, 0, UINT32_MAX};
		return 1;
	}
	if (low > 0)
		ret[n++] = (struct id_extent){0, 0, low};
	ret[n++] = (struct id_extent){low, high, 1};
	if (high > low + 1)
		ret[n++] = (struct id_extent){low + 1, low + 1, high - low - 1};
	ret[n++] = (struct id_extent){high, low, 1};
	if (high < UINT32_MAX - 1)
		ret[n++] = (struct id_extent){high + 1, high + 1,
					      UINT32_MAX - high - 1};
	return n;
}

/*
 * Lives only until its namespace's descriptor has been taken, and no longer
 * than we do. Others wait for the end of our descriptors: it keeps no copies.
 */
static int wait_for_end(void *arg)
{
	const pid_t *parent = arg;

	start_close_from(0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != *parent)
		return 1;
	/* Returns only with a signal, and the one that comes ends it. */
	return pause();
}

int ids_userns_fd(const struct id_extent *uids, size_t n_uids,
		  const struct id_extent *gids, size_t n_gids,
		  struct error *err)
{
	_Alignas(16) char stack[8192];
	char path[64];
	pid_t self = getpid();
	pid_t pid;
	int fd, r;

	pid = start_beside(wait_for_end, &self, CLONE_NEWUSER, -1, stack,
			   sizeof(stack), NULL);
	if (pid < 0)
		return error_errno(err, "cannot create a user namespace");
	r = ids_write_maps(pid, false, uids, n_uids, gids, n_gids, err);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? error_errno(err, "cannot open %s", path) : fd;
	}
	if (kill(pid, SIGKILL) == 0)
		waitpid(pid, NULL, 0);
	else if (r >= 0)
		r = error_errno(err, "cannot end our helper");
	return r;
}

/* "name:start:count"; false for anything else. The name is cut off in line. */
static bool parse_subordinate(char *line, struct id_extent *ret)
{
	char *start = strchr(line, ':');
	char *count = start ? strchr(start + 1, ':') : NULL;
	uint64_t from, n;

	if (!count)
		return false;
	*start++ = '\0';
	*count++ = '\0';
	if (num_parse_u64(start, &from) < 0 || num_parse_u64(count, &n) < 0 ||
	    from == 0 || n == 0 || from > UINT32_MAX - n)
		return false;
	*ret = (struct id_extent){0, (uint32_t)from, (uint32_t)n};
	return true;
}

int ids_subordinate(const char *file, const char *name, uid_t id,
		    struct id_extent *ret, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(1u << 20);
	uint32_t unused = 100000;
	struct id_extent e;
	char number[16];
	char *at, *line;

	snprintf(number, sizeof(number), "%u", (unsigned)id);
	at = io_read_file(AT_FDCWD, file, &b) == 0 ? b.data : NULL;
	while ((line = strsep(&at, "\n"))) {
		if (!parse_subordinate(line, &e))
			continue;
		if (e.count >= RANGE && (!strcmp(line, name) ||
					 !strcmp(line, number))) {
			*ret = e;
			return 0;
		}
		if (e.outer + e.count > unused)
			unused = e.outer + e.count;
	}
	return error_set(err, -ENOENT,
			 "identity 'range' needs %u subordinate ids for %s in "
			 "%s; add the line: %s:%u:%u",
			 RANGE, name, file, name, unused, RANGE);
}

/* By the kernel's own structure: not every C library has one. */
static int look(const char *path, struct statx *ret)
{
	return (int)syscall(SYS_statx, AT_FDCWD, path, 0,
			    STATX_INO | STATX_MNT_ID, ret);
}

bool ids_in_chroot(int r)
{
	struct statx root, first;

	if (look("/", &root) < 0)
		return false;
	if (root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	    !(root.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return true;
	if (look("/proc/1/root/", &first) == 0)
		return root.stx_ino != first.stx_ino ||
		       root.stx_mnt_id != first.stx_mnt_id;
	return r == -EPERM && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
}

static bool sysctl_is(const char *path, char value)
{
	AUTO_BUF struct buf b = BUF_INIT(64);

	return io_read_file(AT_FDCWD, path, &b) == 0 && b.len > 0 &&
	       b.data[0] == value;
}

/* Why the kernel refuses a user namespace, and what changes that. */
static const char *userns_fix(int r)
{
	if (r == -ENOSPC || r == -EUSERS)
		return "user.max_user_namespaces is used up: sudo sysctl "
		       "user.max_user_namespaces=10000";
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
		return "sudo sysctl kernel.unprivileged_userns_clone=1";
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
		      '1'))
		return "AppArmor forbids it: sudo apparmor_parser -r "
		       "/etc/apparmor.d/pinfold (after make install)";
	if (ids_in_chroot(r))
		return "this is a chroot, where the kernel makes none: "
		       IDS_CHROOT_FIX;
	return "`pinfold doctor` names the cause and the command that fixes "
	       "it";
}

int ids_userns_blocked(int r, struct error *err)
{
	if (r == -EPERM || r == -EACCES || r == -ENOSPC || r == -EUSERS)
		return error_prefix(err,
				    "this machine does not let us make a user "
				    "namespace; %s", userns_fix(r));
	return r;
}
