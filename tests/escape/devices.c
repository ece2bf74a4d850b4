/*
 * Attacks on the limits of devices and of programs that gain rights: a device
 * node opens nothing, and set-uid bits and file capabilities give nothing.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

static int open_device(const struct attack *a)
{
	return attack_result(open(a->s, (int)a->n | O_CLOEXEC | O_NONBLOCK));
}

static int make_and_open(mode_t kind, dev_t number)
{
	char name[] = "/tmp/pinfold-escape-node";
	int fd;

	unlink(name);
	if (mknod(name, kind | 0600, number) < 0)
		return -errno;
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		int result = -errno;

		unlink(name);
		return result;
	}
	unlink(name);
	return 0;
}

static int make_character(const struct attack *a)
{
	return make_and_open(S_IFCHR, (dev_t)a->n);
}

static int make_block(const struct attack *a)
{
	(void)a;
	return make_and_open(S_IFBLK, (dev_t)attack_number("rootdev"));
}

/* A whiteout is a character device 0:0: it may be made, it opens nothing. */
static int open_whiteout(const struct attack *a)
{
	char name[] = "pinfold-escape-whiteout";

	(void)a;
	unlink(name);
	if (mknod(name, S_IFCHR | 0600, makedev(0, 0)) < 0)
		return -errno;
	return attack_result(open(name, O_RDONLY | O_CLOEXEC));
}

/* Runs a program that says its effective uid and whether it gained any. */
static int run_gaining(const char *path)
{
	char before[32];
	int status;
	pid_t pid;

	if (geteuid() == 0 && !attack_is_inside())
		return attack_skip("root has all rights already");
	snprintf(before, sizeof(before), "before=%u", (unsigned)getuid());
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		execl(path, path, before, (char *)NULL);
		_exit(errno == EACCES || errno == EPERM ? 126 : 127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	attack_note("status %d", status);
	if (!WIFEXITED(status))
		return -EIO;
	switch (WEXITSTATUS(status)) {
	case 0:
		return 0; /* it gained */
	case 1:
		return -EPERM;
	case 126:
		return -EACCES;
	default:
		return -ENOENT;
	}
}

static int gain(const struct attack *a)
{
	return run_gaining(attack_path(a->s));
}

/* A set-uid bit of its own making, on a copy of the gaining program. */
static int gain_by_own_bit(const struct attack *a)
{
	const char *from = attack_path("{source}/gain");
	char name[] = "/tmp/pinfold-escape-gain";
	char block[65536];
	int result;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	ssize_t got;

	if (in < 0 || out < 0)
		return -errno;
	while ((got = read(in, block, sizeof(block))) > 0)
		if (write(out, block, (size_t)got) != got)
			return -errno;
	close(out);
	if (a->n && chown(name, 0, 0) < 0) {
		unlink(name);
		return -errno;
	}
	if (chmod(name, 06755) < 0)
		return -errno;
	result = run_gaining(name);
	unlink(name);
	return result;
}

static int give_capability(const struct attack *a)
{
	/* VFS_CAP_REVISION_2, effective, cap_sys_admin permitted. */
	static const unsigned char cap[20] = {1, 0, 0, 2, 0, 0, 32, 0};
	int fd = open("pinfold-escape-cap", O_WRONLY | O_CREAT | O_CLOEXEC,
		      0700);

	(void)a;
	if (fd < 0)
		return -errno;
	return attack_result(fsetxattr(fd, "security.capability", cap,
				       sizeof(cap), 0));
}

static int become(const struct attack *a)
{
	return attack_result(a->s ? setgid((gid_t)a->n) : setuid((uid_t)a->n));
}

static int become_group(const struct attack *a)
{
	const gid_t groups[1] = {0};

	(void)a;
	return attack_result(setgroups(1, groups));
}

static int run_su(const struct attack *a)
{
	int status;
	pid_t pid = fork();

	if (access(a->s, X_OK) < 0)
		return -errno;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execl(a->s, a->s, "-c", "true", (char *)NULL);
		_exit(126);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* The filter answers before the descriptor's kind is looked at. */
static int ioctl_number(const struct attack *a)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	char byte = 'x';

	if (fd < 0)
		return -errno;
	return attack_result(syscall(16, (long)fd, a->n, &byte));
}

static int chown_away(const struct attack *a)
{
	int fd = open("pinfold-escape-owned", O_WRONLY | O_CREAT | O_CLOEXEC,
		      0600);

	if (fd < 0)
		return -errno;
	return attack_result(fchown(fd, (uid_t)a->n, (gid_t)-1));
}

#define ABSENT "ENOENT EACCES EPERM"
#define DEVICE(path, mode, bare)                                               \
	{"devices", "opens " path, ABSENT, "EBUSY EIO ENXIO", open_device,     \
	 path, mode, bare}
#define MAYBE "not every host has it"

static const struct attack table[] = {
	DEVICE("/dev/mem", O_RDONLY, MAYBE),
	DEVICE("/dev/kmsg", O_RDONLY, NULL),
	DEVICE("/dev/fuse", O_RDWR, MAYBE),
	DEVICE("/dev/kvm", O_RDWR, MAYBE),
	DEVICE("/dev/net/tun", O_RDWR, MAYBE),
	DEVICE("/dev/vsock", O_RDWR, MAYBE),
	DEVICE("/dev/loop-control", O_RDWR, MAYBE),
	DEVICE("/dev/loop0", O_RDONLY, MAYBE),
	DEVICE("/dev/btrfs-control", O_RDWR, MAYBE),
	DEVICE("/dev/userfaultfd", O_RDWR, MAYBE),
	DEVICE("/dev/tty0", O_RDWR, MAYBE),
	DEVICE("/dev/tty1", O_RDWR, MAYBE),
	DEVICE("/dev/console", O_RDWR, MAYBE),
	DEVICE("/dev/ttyS0", O_RDWR, MAYBE),
	DEVICE("/dev/vcs", O_RDONLY, MAYBE),
	DEVICE("/dev/hwrng", O_RDONLY, MAYBE),
	DEVICE("/dev/cpu_dma_latency", O_RDWR, MAYBE),
	DEVICE("/dev/autofs", O_RDONLY, MAYBE),
	DEVICE("/dev/vga_arbiter", O_RDWR, MAYBE),
	DEVICE("/dev/uinput", O_RDWR, MAYBE),
	DEVICE("/dev/dri/card0", O_RDWR, MAYBE),
	DEVICE("/dev/snapshot", O_RDONLY, MAYBE),
	{"devices", "makes and opens a node of /dev/mem", "EPERM EACCES ENOSYS",
	 "ENXIO", make_character, NULL, 0x101, NULL},
	{"devices", "makes and opens a node of /dev/null",
	 "EPERM EACCES ENOSYS", NULL, make_character, NULL, 0x103, NULL},
	{"devices", "makes and opens a node of the root's disk",
	 "EPERM EACCES ENOSYS", "ENXIO EBUSY", make_block, NULL, 0,
	 "a host may guard its disk from its own root"},
	{"devices", "opens a whiteout as a device",
	 "EPERM EACCES ENOSYS ENXIO ENOENT", NULL, open_whiteout, NULL, 0,
	 "a whiteout opens nowhere"},
	{"gaining rights", "runs a set-uid program of root", "EPERM EACCES",
	 NULL, gain, "{source}/gain-suid-root", 0, NULL},
	{"gaining rights", "runs a set-uid program of another user",
	 "EPERM EACCES", NULL, gain, "{source}/gain-suid-other", 0, NULL},
	{"gaining rights", "runs a set-gid program of root", "EPERM EACCES",
	 NULL, gain, "{source}/gain-sgid-root", 0, NULL},
	{"gaining rights", "runs a program with file capabilities",
	 "EPERM EACCES", NULL, gain, "{source}/gain-cap", 0, NULL},
	{"gaining rights", "runs a set-uid program out of a read grant",
	 "EPERM EACCES", NULL, gain, "{grant}/gain-suid-root", 0, NULL},
	{"gaining rights", "sets the bits on a copy of its own",
	 "EPERM EACCES", NULL, gain_by_own_bit, NULL, 0,
	 "the copy belongs to the caller"},
	{"gaining rights", "makes a copy of its own root's",
	 "EPERM EINVAL EACCES", NULL, gain_by_own_bit, NULL, 1,
	 "only root can give files away"},
	{"gaining rights", "gives a file a capability",
	 "EPERM EACCES EOPNOTSUPP ENOSYS", NULL, give_capability, NULL, 0,
	 NULL},
	{"gaining rights", "becomes root by setuid", "EPERM EINVAL", NULL,
	 become, NULL, 0, NULL},
	{"gaining rights", "becomes another user by setuid", "EPERM EINVAL",
	 NULL, become, NULL, 12345, NULL},
	{"gaining rights", "becomes root's group by setgid", "EPERM EINVAL",
	 NULL, become, "g", 0, NULL},
	{"gaining rights", "takes root's supplementary group", "EPERM EINVAL",
	 NULL, become_group, NULL, 0, NULL},
	{"gaining rights", "gives its file to root", "EPERM EINVAL", NULL,
	 chown_away, NULL, 0, NULL},
	{"gaining rights", "gives its file to another user", "EPERM EINVAL",
	 NULL, chown_away, NULL, 12345, NULL},
	{"gaining rights", "becomes root by su", "EPERM ENOENT EACCES", NULL,
	 run_su, "/usr/bin/su", 0, NULL},
	{"terminal", "pushes a byte into an input queue", "EPERM EACCES ENOSYS",
	 "ENOTTY", ioctl_number, NULL, TIOCSTI, NULL},
	{"terminal", "pushes a byte with high bits set in the number",
	 "EPERM EACCES ENOSYS", "ENOTTY", ioctl_number, NULL,
	 TIOCSTI | 1L << 32, NULL},
	{"terminal", "pushes a byte with all high bits set",
	 "EPERM EACCES ENOSYS", "ENOTTY", ioctl_number, NULL,
	 (long)(TIOCSTI | 0xffffffff00000000UL), NULL},
	{"terminal", "pastes by the console's call", "EPERM EACCES ENOSYS",
	 "ENOTTY", ioctl_number, NULL, TIOCLINUX, NULL},
	{"terminal", "pastes by the console's call with high bits set",
	 "EPERM EACCES ENOSYS", "ENOTTY", ioctl_number, NULL,
	 TIOCLINUX | 1L << 33, NULL},
	{"terminal", "sets a line discipline", "EPERM EACCES ENOSYS", "ENOTTY",
	 ioctl_number, NULL, TIOCSETD, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
