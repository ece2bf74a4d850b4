/*
 * Mounts: overlays, detached and idmapped clones, caps of tmpfs, the new root,
 * and what opening below a directory refuses.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TREE_CLONE 1
#define EMPTY_PATH 4
#define ATTR_IDMAP 0x00100000
#define NEEDS_USERNS "no user namespaces here"

struct mount_attributes {
	uint64_t set, clear, propagation, userns_fd;
};

static char place[600];

/* name below the fact's directory; one at a time. */
static const char *at(const char *name)
{
	snprintf(place, sizeof(place), "%s/%s", fact_directory(), name);
	return place;
}

static void make(const char *name)
{
	mkdir(at(name), 0755);
}

static int create(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

static long clone_tree(const char *path)
{
	return syscall(SYS_open_tree, AT_FDCWD, path,
		       TREE_CLONE | O_CLOEXEC);
}

static long place_mount(int fd, const char *to)
{
	return syscall(SYS_move_mount, fd, "", AT_FDCWD, to, EMPTY_PATH);
}

/* Layers in a namespace of its own, merged at "merged". 0 or -errno. */
static int mount_overlay(const char *options)
{
	char text[2500];
	const char *dir = fact_directory();

	for (const char *const *n = (const char *const[]){"lower", "upper",
	     "work", "merged", NULL}; *n; n++)
		make(*n);
	create(at("lower/file"), "lower");
	make("lower/dir");
	snprintf(text, sizeof(text), "lowerdir=%s/lower,upperdir=%s/upper,"
		 "workdir=%s/work,%s", dir, dir, dir, options);
	if (mount("overlay", at("merged"), "overlay", 0, text) < 0)
		return -errno;
	return 0;
}

static int enter_mounts(void)
{
	return fact_enter_userns(CLONE_NEWNS, geteuid());
}

static int overlay_in_userns(void)
{
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = enter_mounts();
	if (r == 0)
		r = mount_overlay("userxattr");
	if (r < 0)
		return fact_is(false, "error %d", -r);
	r = create(at("merged/file"), "upper");
	return fact_is(r == 0 && access(at("upper/file"), F_OK) == 0,
		       "copy-up: error %d", -r);
}

static int overlay_whiteout(void)
{
	struct stat st;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0 || mount_overlay("userxattr") < 0)
		return fact_is(false, "no overlay");
	if (unlink(at("merged/file")) < 0 || lstat(at("upper/file"), &st) < 0)
		return fact_works(-1, "unlink");
	return fact_is(S_ISCHR(st.st_mode) && st.st_rdev == 0, "mode %o",
		       st.st_mode);
}

static int overlay_opaque(void)
{
	char value[8] = {0};

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0 || mount_overlay("userxattr") < 0)
		return fact_is(false, "no overlay");
	if (rmdir(at("merged/dir")) < 0 || mkdir(at("merged/dir"), 0755) < 0)
		return fact_works(-1, "mkdir");
	if (getxattr(at("upper/dir"), "user.overlay.opaque", value, 8) < 0)
		return fact_works(-1, "getxattr");
	return fact_is(value[0] == 'y', "value %s", value);
}

static int overlay_rename_is_exdev(void)
{
	char from[600];

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0 || mount_overlay("userxattr") < 0)
		return fact_is(false, "no overlay");
	strcpy(from, at("merged/dir"));
	return fact_fails(rename(from, at("merged/dir2")), EXDEV, "rename");
}

static int overlay_volatile_once(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0 || mount_overlay("userxattr,volatile") < 0)
		return fact_works(-1, "mount");
	if (create(at("merged/new"), "x") < 0 || umount(at("merged")) < 0)
		return fact_works(-1, "umount");
	errno = -mount_overlay("userxattr,volatile");
	return fact_fails(errno ? -1 : 0, EINVAL, "second mount");
}

/* A socket that listens in the lower layer, reached through the overlay. */
static int overlay_cuts_sockets(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "sock"};
	int ear = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int mouth = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("lower");
	if (chdir(at("lower")) < 0 || bind(ear, (struct sockaddr *)&to,
	    sizeof(to)) < 0 || listen(ear, 1) < 0)
		return fact_works(-1, "listen");
	if (enter_mounts() < 0 || mount_overlay("userxattr") < 0 ||
	    chdir(at("merged")) < 0)
		return fact_works(-1, "mount");
	return fact_fails(connect(mouth, (struct sockaddr *)&to, sizeof(to)),
			  ECONNREFUSED, "connect");
}

/* A FIFO that is read in the lower layer has no reader in the overlay. */
static int overlay_cuts_fifos(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("lower");
	if (mkfifo(at("lower/fifo"), 0600) < 0 ||
	    open(at("lower/fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC) < 0)
		return fact_works(-1, "mkfifo");
	if (enter_mounts() < 0 || mount_overlay("userxattr") < 0)
		return fact_works(-1, "mount");
	return fact_fails(open(at("merged/fifo"), O_WRONLY | O_NONBLOCK |
			       O_CLOEXEC), ENXIO, "open");
}

static int whiteout_in_userns(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0)
		return fact_works(-1, "unshare");
	return fact_works(mknod(at("w"), S_IFCHR, makedev(0, 0)), "mknod");
}

static int device_in_userns(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0)
		return fact_works(-1, "unshare");
	return fact_fails(mknod(at("n"), S_IFCHR, makedev(1, 3)), EPERM,
			  "mknod");
}

static int lower_by_descriptor(void)
{
	char text[2500];
	int fd;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (enter_mounts() < 0)
		return fact_works(-1, "unshare");
	make("a");
	make("b");
	make("m");
	create(at("a/seen"), "x");
	fd = open(at("a"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(text, sizeof(text), "lowerdir=/proc/self/fd/%d:%s", fd,
		 at("b"));
	if (mount("overlay", at("m"), "overlay", MS_RDONLY, text) < 0)
		return fact_works(-1, "mount");
	return fact_works(access(at("m/seen"), F_OK), "access");
}

/* A keeper's detached clone is placed by a process in another namespace. */
static int detached_mount_crosses(void)
{
	int ends[2];
	int pid, fd, r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("given");
	make("target");
	create(at("given/file"), "x");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return fact_works(-1, "socketpair");
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return fact_works(-1, "unshare");
	pid = fork();
	if (pid == 0) {
		r = fact_enter_userns(CLONE_NEWNS, geteuid());
		fd = r < 0 ? r : fact_take(ends[1]);
		if (fd < 0 || place_mount(fd, at("target")) < 0)
			_exit(1);
		_exit(access(at("target/file"), F_OK) == 0 ? 0 : 2);
	}
	fd = (int)clone_tree(at("given"));
	if (fd < 0)
		return fact_works(fd, "open_tree");
	r = fact_send(ends[0], fd);
	return fact_is(r == 0 && fact_wait(pid) == 0, "send %d", r);
}

static int plain_descriptor_does_not_cross(void)
{
	int pid, fd;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("given");
	make("target");
	fd = open(at("given"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid = fork();
	if (pid == 0) {
		char from[64];

		if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
			_exit(1);
		snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
		if (mount(from, at("target"), NULL, MS_BIND, NULL) == 0)
			_exit(2);
		_exit(errno == EINVAL ? 0 : 3);
	}
	return fact_is(fact_wait(pid) == 0, "bind was not EINVAL");
}

static int clone_needs_rights(void)
{
	if (fact_is_root() && setresuid(65534, 65534, 65534) < 0)
		return fact_works(-1, "setresuid");
	if (geteuid() == 0)
		return fact_skip("uid 0 of this namespace has the right");
	return fact_fails(clone_tree("/usr"), EPERM, "open_tree");
}

/* A user namespace that maps outer 0 to inner 70000, for idmapped mounts. */
static int mapping_namespace(int *ret_pid)
{
	char path[64];
	int pid = fork();

	if (pid == 0) {
		unshare(CLONE_NEWUSER);
		pause();
	}
	usleep(100000);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	fact_write(path, "0 70000 1\n");
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	fact_write(path, "0 70000 1\n");
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	*ret_pid = pid;
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int idmapped_as_root(void)
{
	struct mount_attributes attr = {.set = ATTR_IDMAP};
	struct stat st;
	int pid, fd;

	if (!fact_is_root())
		return fact_skip("needs root");
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return fact_works(-1, "unshare");
	make("given");
	make("target");
	create(at("given/file"), "x");
	attr.userns_fd = (uint64_t)mapping_namespace(&pid);
	fd = (int)clone_tree(at("given"));
	if (fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr,
			      sizeof(attr)) < 0)
		return fact_works(-1, "mount_setattr");
	if (place_mount(fd, at("target")) < 0 ||
	    stat(at("target/file"), &st) < 0)
		return fact_works(-1, "move_mount");
	kill(pid, SIGKILL);
	return fact_is(st.st_uid == 70000, "uid %u", st.st_uid);
}

static int idmapped_from_inside(void)
{
	struct mount_attributes attr = {.set = ATTR_IDMAP};
	int fd;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("given");
	if (enter_mounts() < 0)
		return fact_works(-1, "unshare");
	attr.userns_fd = (uint64_t)open("/proc/self/ns/user", O_RDONLY);
	fd = (int)clone_tree(at("given"));
	return fact_fails(syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH,
				  &attr, sizeof(attr)), EPERM, "mount_setattr");
}

static int tmpfs_size_holds(void)
{
	static char block[65536];
	long written = 0;
	ssize_t got;
	int fd;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("t");
	if (enter_mounts() < 0 ||
	    mount("tmpfs", at("t"), "tmpfs", 0, "size=1m,nr_inodes=100") < 0)
		return fact_works(-1, "mount");
	fd = open(at("t/file"), O_WRONLY | O_CREAT, 0600);
	while ((got = write(fd, block, sizeof(block))) > 0)
		written += got;
	if (errno != ENOSPC)
		return fact_works(-1, "write");
	return fact_is(written == 1 << 20, "%ld bytes", written);
}

static int tmpfs_inodes_hold(void)
{
	char name[32];
	int made = 0;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("t");
	if (enter_mounts() < 0 ||
	    mount("tmpfs", at("t"), "tmpfs", 0, "size=1m,nr_inodes=100") < 0)
		return fact_works(-1, "mount");
	while (made < 200) {
		snprintf(name, sizeof(name), "t/%d", made);
		if (create(at(name), "") < 0)
			break;
		made++;
	}
	return fact_is(made >= 90 && made < 100, "%d files", made);
}

static int pivot_onto_itself(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("root");
	if (enter_mounts() < 0 ||
	    mount("tmpfs", at("root"), "tmpfs", 0, NULL) < 0 ||
	    chdir(at("root")) < 0)
		return fact_works(-1, "mount");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return fact_works(-1, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return fact_works(-1, "umount2");
	return fact_is(access("/usr", F_OK) < 0, "the old root is there");
}

static int locked_mount_stays(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("hidden");
	if (enter_mounts() < 0 ||
	    mount("tmpfs", at("hidden"), "tmpfs", 0, NULL) < 0)
		return fact_works(-1, "mount");
	/* A further namespace must not uncover what this one covered. */
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return fact_works(-1, "unshare");
	return fact_fails(umount2(at("hidden"), MNT_DETACH), EINVAL, "umount2");
}

static int readonly_is_locked(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	make("ro");
	if (enter_mounts() < 0 ||
	    mount("tmpfs", at("ro"), "tmpfs", MS_RDONLY, NULL) < 0 ||
	    fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return fact_works(-1, "mount");
	return fact_fails(mount(NULL, at("ro"), NULL, MS_REMOUNT | MS_BIND,
				NULL), EPERM, "remount");
}

static int open_below(const char *path, uint64_t resolve)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
			       .resolve = resolve};
	int dir = open(fact_directory(), O_PATH | O_DIRECTORY | O_CLOEXEC);

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static int beneath_refuses_dotdot(void)
{
	return fact_fails(open_below("../../etc/passwd", RESOLVE_BENEATH),
			  EXDEV, "openat2");
}

static int beneath_refuses_links_out(void)
{
	if (symlink("/etc/passwd", at("link")) < 0)
		return fact_works(-1, "symlink");
	return fact_fails(open_below("link", RESOLVE_BENEATH), EXDEV,
			  "openat2");
}

static int no_links_at_all(void)
{
	create(at("file"), "x");
	if (symlink("file", at("link")) < 0)
		return fact_works(-1, "symlink");
	return fact_fails(open_below("link", RESOLVE_NO_SYMLINKS), ELOOP,
			  "openat2");
}

static int no_magic_links(void)
{
	struct open_how how = {.flags = O_RDONLY,
			       .resolve = RESOLVE_NO_MAGICLINKS};

	return fact_fails(syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how,
				  sizeof(how)), ELOOP, "openat2");
}

static int no_crossing_of_mounts(void)
{
	struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_NO_XDEV};

	return fact_fails(syscall(SYS_openat2, AT_FDCWD, "/proc/self/status",
				  &how, sizeof(how)), EXDEV, "openat2");
}

static int in_root_stays(void)
{
	make("etc");
	create(at("etc/passwd"), "inner");
	if (symlink("/etc/passwd", at("link")) < 0)
		return fact_works(-1, "symlink");
	return fact_works(open_below("link", RESOLVE_IN_ROOT), "openat2");
}

/* up/dir and up/file, each mounted over itself, in a namespace of our own. */
static int mount_two_over_themselves(void)
{
	int r = fact_enter_userns(CLONE_NEWNS, 0);

	make("up");
	make("up/dir");
	create(at("up/file"), "x");
	if (r == 0 && mount(at("up/dir"), place, NULL, MS_BIND, NULL) < 0)
		r = -errno;
	if (r == 0 && mount(at("up/file"), place, NULL, MS_BIND, NULL) < 0)
		r = -errno;
	return r;
}

static int mount_points_stay(void)
{
	char other[600];
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = mount_two_over_themselves();
	if (r < 0)
		return fact_is(false, "mount: %s", strerror(-r));
	snprintf(other, sizeof(other), "%s/other", fact_directory());
	create(other, "y");
	r = fact_fails(rename(other, at("up/file")), EBUSY, "rename over it");
	strcat(other, "s");
	if (r == FACT_HOLDS)
		r = fact_fails(rename(at("up/dir"), other), EBUSY, "rename");
	if (r == FACT_HOLDS)
		r = fact_fails(unlink(at("up/file")), EBUSY, "unlink");
	return r == FACT_HOLDS ? fact_fails(rmdir(at("up/dir")), EBUSY, "rmdir")
			       : r;
}

static int directory_takes_mounts_along(void)
{
	char other[600];
	int r;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	r = mount_two_over_themselves();
	if (r < 0)
		return fact_is(false, "mount: %s", strerror(-r));
	snprintf(other, sizeof(other), "%s/other", fact_directory());
	return fact_works(rename(at("up"), other), "rename");
}

static const struct fact table[] = {
	{"an overlay works in a user namespace with userxattr",
	 overlay_in_userns},
	{"a removed file leaves a character device 0:0 in the upper layer",
	 overlay_whiteout},
	{"a replaced directory is marked by user.overlay.opaque",
	 overlay_opaque},
	{"rename of a lower directory is EXDEV in such an overlay",
	 overlay_rename_is_exdev},
	{"an upper layer that was mounted volatile is refused a second time",
	 overlay_volatile_once},
	{"a socket of the lower layer is dead in an overlay",
	 overlay_cuts_sockets},
	{"a FIFO of the lower layer is dead in an overlay", overlay_cuts_fifos},
	{"a whiteout can be made in a user namespace", whiteout_in_userns},
	{"a real device cannot be made in a user namespace", device_in_userns},
	{"lower layers can be named by /proc/self/fd", lower_by_descriptor},
	{"a detached clone passed by a socket is placed in another namespace",
	 detached_mount_crosses},
	{"a directory descriptor of another namespace cannot be bound",
	 plain_descriptor_does_not_cross},
	{"cloning a tree in the host's namespace needs rights",
	 clone_needs_rights},
	{"root can map the ids of a detached clone", idmapped_as_root},
	{"mapping ids from inside a user namespace is EPERM",
	 idmapped_from_inside},
	{"a tmpfs in a user namespace keeps its size", tmpfs_size_holds},
	{"a tmpfs in a user namespace keeps its number of files",
	 tmpfs_inodes_hold},
	{"pivot_root of . onto . and a detached unmount leave no old root",
	 pivot_onto_itself},
	{"a further user namespace cannot uncover what is mounted over",
	 locked_mount_stays},
	{"a further user namespace cannot lift read-only",
	 readonly_is_locked},
	{"a mount point cannot be renamed, replaced or removed",
	 mount_points_stay},
	{"a directory above mount points can be renamed",
	 directory_takes_mounts_along},
	{"openat2 beneath a directory refuses ..", beneath_refuses_dotdot},
	{"openat2 beneath a directory refuses absolute links",
	 beneath_refuses_links_out},
	{"openat2 can refuse every symbolic link", no_links_at_all},
	{"openat2 can refuse links of /proc", no_magic_links},
	{"openat2 can refuse to cross mounts", no_crossing_of_mounts},
	{"openat2 in a root resolves absolute links inside", in_root_stays},
};

int main(void)
{
	return fact_main(FACTS(table));
}
