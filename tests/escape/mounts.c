/*
 * Attacks on the limits of mounts and namespaces: the tree that was built stays
 * as it is, and no namespace is made or entered in which it could be changed.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define SYS_open_tree_attr_nr 467
#define OPEN_TREE_CLONE_FLAG 1
#define OPEN_TREE_RECURSIVE 0x8000
#define MOVE_MOUNT_EMPTY_PATH 4
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* A private directory that is a place to mount at. */
static const char *mount_point(void)
{
	static char name[] = "/tmp/pinfold-escape-mount-XXXXXX";

	return mkdtemp(name);
}

static int undo_mount(int result, const char *at)
{
	if (result == 0)
		umount2(at, MNT_DETACH);
	rmdir(at);
	return result;
}

static int mount_kind(const struct attack *a)
{
	const char *at = mount_point();

	if (!at)
		return -errno;
	return undo_mount(attack_result(mount("none", at, a->s, 0, NULL)), at);
}

static int bind_path(const struct attack *a)
{
	const char *at = mount_point();
	const char *from = attack_path(a->s);

	if (!at)
		return -errno;
	return undo_mount(attack_result(mount(from, at, NULL,
					      (unsigned long)a->n, NULL)), at);
}

/* Outside this makes the mount writable and puts it back, in a namespace of
 * the driver's. */
static int remount_writable(const struct attack *a)
{
	return attack_result(mount(NULL, attack_path(a->s), NULL,
				   MS_REMOUNT | MS_BIND, NULL));
}

static int make_shared(const struct attack *a)
{
	return attack_result(mount(NULL, a->s, NULL,
				   (unsigned long)a->n, NULL));
}

static int unmount(const struct attack *a)
{
	return attack_result(umount2(attack_path(a->s), (int)a->n));
}

static int clone_tree(const struct attack *a)
{
	long flags = OPEN_TREE_CLONE_FLAG | OPEN_TREE_RECURSIVE | O_CLOEXEC;

	return attack_result(syscall(SYS_open_tree, AT_FDCWD, a->s, flags));
}

static int clone_tree_with_attributes(const struct attack *a)
{
	uint64_t attr[4] = {0};
	long r = syscall(SYS_open_tree_attr_nr, AT_FDCWD, a->s,
			 OPEN_TREE_CLONE_FLAG, attr, sizeof(attr));

	return attack_result(r);
}

static int move_a_mount(const struct attack *a)
{
	const char *at = mount_point();
	long fd = syscall(SYS_open_tree, AT_FDCWD, a->s, O_CLOEXEC);

	if (!at)
		return -errno;
	if (fd < 0)
		fd = open(a->s, O_PATH | O_CLOEXEC);
	/* EINVAL: permitted, but this is not the root of a mount. */
	return undo_mount(attack_result(syscall(SYS_move_mount, fd, "",
						AT_FDCWD, at,
						MOVE_MOUNT_EMPTY_PATH)), at);
}

static int set_mount_attributes(const struct attack *a)
{
	uint64_t attr[4] = {0, 1, 0, 0}; /* clears MOUNT_ATTR_RDONLY */

	return attack_result(syscall(SYS_mount_setattr, AT_FDCWD, a->s, 0, attr,
				     sizeof(attr)));
}

static int open_filesystem(const struct attack *a)
{
	return attack_result(syscall(SYS_fsopen, a->s, 0));
}

static int pick_filesystem(const struct attack *a)
{
	return attack_result(syscall(SYS_fspick, AT_FDCWD, a->s, 0));
}

static int mount_filesystem(const struct attack *a)
{
	/* Without rights EPERM comes first; with them the descriptor is bad. */
	(void)a;
	return attack_result(syscall(SYS_fsmount, -1, 0, 0));
}

static int configure_filesystem(const struct attack *a)
{
	(void)a;
	return attack_result(syscall(SYS_fsconfig, -1, 6, NULL, NULL, 0));
}

static int pivot(const struct attack *a)
{
	(void)a;
	return attack_result(syscall(SYS_pivot_root, "/nonexistent", "/"));
}

static int change_root(const struct attack *a)
{
	return attack_result(chroot(a->s));
}

/* The classical way out of a chroot: a directory held outside of a new root. */
static int chroot_and_climb(const struct attack *a)
{
	int held = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (held < 0 || chroot("/tmp") < 0)
		return -errno;
	if (fchdir(held) < 0)
		return -errno;
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return -errno;
	if (chroot(".") < 0)
		return -errno;
	return attack_result(open(attack_path(a->s), O_RDONLY | O_CLOEXEC));
}

static int unshare_kind(const struct attack *a)
{
	return attack_result(unshare((int)a->n));
}

static long clone_with(unsigned long flags)
{
	return syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static int wait_child(long pid)
{
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(0);
	waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int clone_kind(const struct attack *a)
{
	return wait_child(clone_with((unsigned long)a->n));
}

/* flags with unused high bits: a filter that looks at the low half alone. */
static int clone_kind_high(const struct attack *a)
{
	return wait_child(clone_with((unsigned long)a->n | 1UL << 36));
}

static int clone3_kind(const struct attack *a)
{
	struct clone_args args = {
		.flags = (uint64_t)a->n,
		.exit_signal = SIGCHLD,
	};

	return wait_child(syscall(SYS_clone3, &args, sizeof(args)));
}

static int enter_namespace(const struct attack *a)
{
	int fd = open(a->s, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return attack_result(setns(fd, (int)a->n));
}

static int enter_by_pidfd(const struct attack *a)
{
	long fd = syscall(SYS_pidfd_open, 1, 0);

	if (fd < 0)
		return -errno;
	return attack_result(setns((int)fd, (int)a->n));
}

/* A new user namespace's parent, by the namespace ioctl. */
static int parent_of_namespace(const struct attack *a)
{
	int fd = open(a->s, O_RDONLY | O_CLOEXEC);
	int up;

	if (fd < 0)
		return -errno;
	up = (int)syscall(SYS_ioctl, fd, a->n);
	return up < 0 ? -errno : attack_result(setns(up, 0));
}

#define DENIED "EPERM ENOSYS EACCES"
#define BIND(path, what)                                                       \
	{"mounts", what, DENIED " ENOENT", NULL, bind_path, path, MS_BIND, NULL}
#define NS_ROWS(kind, flag)                                                    \
	{"namespaces", "unshares a " kind " namespace", DENIED " ENOSPC",      \
	 "EINVAL", unshare_kind, NULL, flag, NULL},                            \
	{"namespaces", "clones into a new " kind " namespace",                 \
	 DENIED " ENOSPC", NULL, clone_kind, NULL, flag, NULL},                \
	{"namespaces", "clones into a new " kind " namespace by clone3",       \
	 DENIED " ENOSPC", NULL, clone3_kind, NULL, flag, NULL}
#define SETNS_ROW(kind, path, flag)                                            \
	{"namespaces", "enters pid 1's " kind " namespace",                    \
	 DENIED " ENOENT", "EINVAL", enter_namespace, path, flag, NULL}

static const struct attack table[] = {
	{"mounts", "mounts a tmpfs", DENIED, NULL, mount_kind, "tmpfs", 0,
	 NULL},
	{"mounts", "mounts a fresh /proc", DENIED, NULL, mount_kind, "proc", 0,
	 NULL},
	{"mounts", "mounts a sysfs", DENIED, NULL, mount_kind, "sysfs", 0,
	 NULL},
	{"mounts", "mounts the cgroup tree", DENIED, "EBUSY", mount_kind,
	 "cgroup2", 0, NULL},
	{"mounts", "mounts a devpts", DENIED, NULL, mount_kind, "devpts", 0,
	 NULL},
	{"mounts", "mounts a devtmpfs", DENIED, NULL, mount_kind, "devtmpfs",
	 0, NULL},
	BIND("/proc/self/root", "binds its root through /proc/self/root"),
	BIND("/proc/1/root", "binds pid 1's root through /proc/1/root"),
	BIND("{outside}", "binds the directory beside the source"),
	BIND("{source}", "binds the source elsewhere"),
	{"mounts", "binds the whole root with its mounts", DENIED, NULL,
	 bind_path, "/", MS_BIND | MS_REC, NULL},
	{"mounts", "remounts /usr writable", DENIED, "EINVAL",
	 remount_writable, "/usr", 0, NULL},
	{"mounts", "remounts /etc writable", DENIED, "EINVAL",
	 remount_writable, "/etc", 0, NULL},
	{"mounts", "remounts /proc/sys writable", DENIED, "EINVAL",
	 remount_writable, "/proc/sys", 0, NULL},
	{"mounts", "remounts the root writable", DENIED, "EINVAL",
	 remount_writable, "/", 0, NULL},
	{"mounts", "remounts a read-only grant writable", DENIED, "EINVAL",
	 remount_writable, "{grant}", 0, NULL},
	{"mounts", "makes the root shared", DENIED, NULL, make_shared, "/",
	 MS_SHARED | MS_REC, NULL},
	{"mounts", "makes the root a slave", DENIED, NULL, make_shared, "/",
	 MS_SLAVE | MS_REC, NULL},
	{"mounts", "unmounts the mask over /proc/kcore", DENIED, "EINVAL",
	 unmount, "/proc/kcore", 0, "not every kernel has it"},
	{"mounts", "unmounts the mask over /proc/sys", DENIED, "EINVAL",
	 unmount, "/proc/sys", 0, NULL},
	{"mounts", "unmounts the mask over /proc/sysrq-trigger", DENIED,
	 "EINVAL", unmount, "/proc/sysrq-trigger", 0,
	 "not every kernel has it"},
	{"mounts", "unmounts the mount of /usr", DENIED, "EINVAL", unmount,
	 "/usr", 0, NULL},
	{"mounts", "detaches the mount of /tmp", DENIED, "EINVAL", unmount,
	 "/tmp", MNT_DETACH, NULL},
	{"mounts", "detaches the mount of the source", DENIED, "EINVAL",
	 unmount, "{source}", MNT_DETACH, NULL},
	{"mounts", "detaches the mount of the home", DENIED, "EINVAL", unmount,
	 "{home}", MNT_DETACH, NULL},
	{"mounts", "clones the tree of mounts by open_tree", DENIED, NULL,
	 clone_tree, "/", 0, NULL},
	{"mounts", "clones /proc by open_tree", DENIED, NULL, clone_tree,
	 "/proc", 0, NULL},
	{"mounts", "clones the tree by open_tree_attr", DENIED, NULL,
	 clone_tree_with_attributes, "/", 0,
	 "only kernels from 6.15 have the call"},
	{"mounts", "moves a mount", DENIED, "EINVAL", move_a_mount, "/usr", 0,
	 NULL},
	{"mounts", "makes /usr writable by mount_setattr", DENIED, "EINVAL",
	 set_mount_attributes, "/usr", 0, NULL},
	{"mounts", "makes the root writable by mount_setattr", DENIED,
	 "EINVAL", set_mount_attributes, "/", 0, NULL},
	{"mounts", "opens a file system by fsopen", DENIED, NULL,
	 open_filesystem, "tmpfs", 0, NULL},
	{"mounts", "opens an overlay by fsopen", DENIED, NULL, open_filesystem,
	 "overlay", 0, NULL},
	{"mounts", "opens the root's file system by fspick", DENIED, NULL,
	 pick_filesystem, "/", 0, NULL},
	{"mounts", "mounts by fsmount", DENIED, "EBADF", mount_filesystem,
	 NULL, 0, NULL},
	{"mounts", "configures a file system by fsconfig", DENIED,
	 "EBADF EINVAL", configure_filesystem, NULL, 0, NULL},
	{"mounts", "changes the root by pivot_root", DENIED, "ENOENT", pivot,
	 NULL, 0, NULL},
	{"mounts", "changes the root by chroot", DENIED, NULL, change_root,
	 "/tmp", 0, NULL},
	{"mounts", "climbs out by the second chroot", DENIED, NULL,
	 chroot_and_climb, "{outside}/secret", 0, NULL},
	NS_ROWS("user", CLONE_NEWUSER),
	NS_ROWS("mount", CLONE_NEWNS),
	NS_ROWS("pid", CLONE_NEWPID),
	NS_ROWS("network", CLONE_NEWNET),
	NS_ROWS("ipc", CLONE_NEWIPC),
	NS_ROWS("host name", CLONE_NEWUTS),
	NS_ROWS("cgroup", CLONE_NEWCGROUP),
	NS_ROWS("user and mount", CLONE_NEWUSER | CLONE_NEWNS),
	{"namespaces", "unshares a time namespace", DENIED, NULL,
	 unshare_kind, NULL, CLONE_NEWTIME, "not every kernel has them"},
	{"namespaces", "clones into a user namespace with unused high bits set",
	 DENIED " ENOSPC", "EINVAL", clone_kind_high, NULL, CLONE_NEWUSER,
	 NULL},
	SETNS_ROW("user", "/proc/1/ns/user", CLONE_NEWUSER),
	SETNS_ROW("mount", "/proc/1/ns/mnt", CLONE_NEWNS),
	SETNS_ROW("pid", "/proc/1/ns/pid", CLONE_NEWPID),
	SETNS_ROW("network", "/proc/1/ns/net", CLONE_NEWNET),
	SETNS_ROW("ipc", "/proc/1/ns/ipc", CLONE_NEWIPC),
	SETNS_ROW("host name", "/proc/1/ns/uts", CLONE_NEWUTS),
	SETNS_ROW("cgroup", "/proc/1/ns/cgroup", CLONE_NEWCGROUP),
	{"namespaces", "enters its own mount namespace again", DENIED, NULL,
	 enter_namespace, "/proc/self/ns/mnt", CLONE_NEWNS, NULL},
	{"namespaces", "enters pid 1's namespaces by its pidfd", DENIED,
	 "EINVAL", enter_by_pidfd, NULL, CLONE_NEWNS | CLONE_NEWNET, NULL},
	{"namespaces", "enters the parent user namespace by ioctl", DENIED,
	 "EINVAL", parent_of_namespace, "/proc/self/ns/user", 0xb702,
	 "the host's own namespace has no parent"},
	{"namespaces", "enters the owner of its network namespace by ioctl",
	 DENIED, "EINVAL", parent_of_namespace, "/proc/self/ns/net", 0xb701,
	 NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
