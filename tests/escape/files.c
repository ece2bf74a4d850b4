/*
 * Attacks on the limit of files: what lies outside of the source and the grants
 * is neither read nor written, by whatever name or descriptor it is reached.
 */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static int read_byte(int fd)
{
	char byte;
	ssize_t got = read(fd, &byte, 1);

	return got < 0 ? -errno : got == 0 ? -ENODATA : 0;
}

static int read_file(const struct attack *a)
{
	int fd = open(attack_path(a->s), O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : read_byte(fd);
}

static int list_directory(const struct attack *a)
{
	DIR *dir = opendir(attack_path(a->s));
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			attack_note("saw %s", entry->d_name);
			return 0;
		}
	return -ENOENT;
}

static int create_file(const struct attack *a)
{
	const char *path = attack_path(a->s);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	unlink(path);
	return 0;
}

static int open_for_writing(const struct attack *a)
{
	int fd = open(attack_path(a->s), O_WRONLY | O_CLOEXEC | O_NONBLOCK);

	return attack_result(fd);
}

static int change_mode(const struct attack *a)
{
	const char *path = attack_path(a->s);
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	return attack_result(chmod(path, st.st_mode & 07777));
}

static int change_times(const struct attack *a)
{
	return attack_result(utimensat(AT_FDCWD, attack_path(a->s), NULL, 0));
}

static int climb_by_dotdot(const struct attack *a)
{
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return -errno;
	/* The path is absolute: without its "/" it is relative to the root. */
	return attack_result(open(attack_path(a->s) + 1, O_RDONLY | O_CLOEXEC));
}

static int climb_by_descriptor(const struct attack *a)
{
	int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 64 && fd >= 0; i++) {
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		close(fd);
		fd = up;
	}
	if (fd < 0)
		return -errno;
	return attack_result(openat(fd, attack_path(a->s) + 1, O_RDONLY));
}

static int symlink_and_read(const struct attack *a)
{
	unlink("planted-link");
	if (symlink(attack_path(a->s), "planted-link") < 0)
		return -errno;
	return attack_result(open("planted-link", O_RDONLY | O_CLOEXEC));
}

static int symlink_and_write(const struct attack *a)
{
	unlink("planted-way");
	if (symlink(attack_path(a->s), "planted-way") < 0)
		return -errno;
	return attack_result(open("planted-way",
				  O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static int link_outside_in(const struct attack *a)
{
	unlink("linked-in");
	return attack_result(link(attack_path(a->s), "linked-in"));
}

static int link_inside_out(const struct attack *a)
{
	int fd = open("to-be-linked", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	return attack_result(link("to-be-linked", attack_path(a->s)));
}

static int rename_inside_out(const struct attack *a)
{
	int fd = open("to-be-moved", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	return attack_result(rename("to-be-moved", attack_path(a->s)));
}

static int tmpfile_linked_out(const struct attack *a)
{
	char name[64];
	int fd = open(".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	/* Overlays of older kernels have none. */
	if (fd < 0 && errno == EOPNOTSUPP)
		return attack_skip("no O_TMPFILE to start from");
	if (fd < 0) {
		attack_note("no O_TMPFILE to start from");
		return -errno;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return attack_result(linkat(AT_FDCWD, name, AT_FDCWD,
				    attack_path(a->s), AT_SYMLINK_FOLLOW));
}

static int through_every_process(const struct attack *a)
{
	const char *path = attack_path(a->s);
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int last = -ENOENT;

	while (dir && (entry = readdir(dir))) {
		char name[5000];

		snprintf(name, sizeof(name), "/proc/%s/%s%s", entry->d_name,
			 a->n ? "cwd" : "root", path);
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (open(name, O_RDONLY | O_CLOEXEC) >= 0) {
			attack_note("by %s", name);
			return 0;
		}
		if (errno != EACCES)
			last = -errno;
	}
	return last;
}

/* Every descriptor of every process that can be seen, as a way to a tree. */
static int through_descriptors(const struct attack *a)
{
	const char *path = attack_path(a->s);

	(void)a;
	for (int pid = 1; pid < 64; pid++)
		for (int fd = 0; fd < 64; fd++) {
			char name[5000];

			snprintf(name, sizeof(name), "/proc/%d/fd/%d/../../../"
				 "../../../../..%s", pid, fd, path);
			if (open(name, O_RDONLY | O_CLOEXEC) >= 0)
				return 0;
			snprintf(name, sizeof(name), "/proc/self/fd/%d/../../"
				 "../../../../../..%s", fd, path);
			if (open(name, O_RDONLY | O_CLOEXEC) >= 0)
				return 0;
		}
	return -ENOENT;
}

static int open_by_handle(const struct attack *a)
{
	union {
		struct file_handle handle;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
	int mount_id;
	int mount_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (mount_fd < 0)
		return -errno;
	if (name_to_handle_at(AT_FDCWD, attack_path(a->s), &u.handle, &mount_id,
			      0) < 0) {
		/* The root inode of an ext4, as the well-known attack has it. */
		const unsigned root[2] = {2, 0};

		u.handle.handle_bytes = sizeof(root);
		u.handle.handle_type = 1;
		memcpy(u.handle.f_handle, root, sizeof(root));
	}
	return attack_result(open_by_handle_at(mount_fd, &u.handle, O_RDONLY));
}

static int inherited_descriptors(const struct attack *a)
{
	(void)a;
	attack_note("%d descriptors above 2", attack_inherited());
	return attack_inherited() > 0 ? 0 : -EBADF;
}

static int standard_stream_is_a_file(const struct attack *a)
{
	struct stat st;

	if (fstat((int)a->n, &st) < 0)
		return -errno;
	attack_note("mode %o", (unsigned)st.st_mode);
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? 0 : -ESPIPE;
}

static int truncate_stream(const struct attack *a)
{
	return attack_result(ftruncate((int)a->n, 0));
}

static int reopen_stream_by_proc(const struct attack *a)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%ld", a->n);
	fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	return attack_result(lseek(fd, 0, SEEK_SET));
}

/* Gives the planted descriptor numbers a try, whatever F_GETFD says. */
static int openat_planted_numbers(const struct attack *a)
{
	(void)a;
	for (int fd = 3; fd < 1024; fd++)
		if (openat(fd, ".", O_RDONLY | O_CLOEXEC) >= 0)
			return 0;
	return -EBADF;
}

static int set_xattr(const struct attack *a)
{
	return attack_result(setxattr(attack_path(a->s), "trusted.overlay.opaque",
				      "y", 1, 0));
}

static int grow_by_append(const struct attack *a)
{
	return attack_result(truncate(attack_path(a->s), 1 << 20));
}

static int swap_in(const struct attack *a)
{
	return attack_result(syscall(SYS_renameat2, AT_FDCWD, "swap-me",
				     AT_FDCWD, attack_path(a->s), 2));
}

static const struct attack table[] = {
	{"files", "reads the host's password hashes", "EACCES ENOENT", NULL,
	 read_file, "/etc/shadow", 0, NULL},
	{"files", "reads the host's group password hashes", "EACCES ENOENT",
	 NULL, read_file, "/etc/gshadow", 0, NULL},
	{"files", "reads a file beside the source", "ENOENT", NULL, read_file,
	 "{outside}/secret", 0, NULL},
	{"files", "lists the directory beside the source", "ENOENT", NULL,
	 list_directory, "{outside}", 0, NULL},
	{"files", "reads a private key in the caller's home", "ENOENT", NULL,
	 read_file, "{home}/.ssh/id_ed25519", 0, NULL},
	{"files", "reads cloud credentials in the caller's home", "ENOENT",
	 NULL, read_file, "{home}/.aws/credentials", 0, NULL},
	{"files", "reads the shell history in the caller's home", "ENOENT",
	 NULL, read_file, "{home}/.bash_history", 0, NULL},
	{"files", "reads a file in the host's /tmp", "ENOENT", NULL, read_file,
	 "{hosttmp}", 0, NULL},
	{"files", "reads a file in the host's /var/tmp", "ENOENT", NULL,
	 read_file, "{hostvartmp}", 0, NULL},
	{"files", "reads a file in the host's /dev/shm", "ENOENT", NULL,
	 read_file, "{hostshm}", 0, NULL},
	{"files", "lists root's home", "ENOENT EACCES", NULL, list_directory,
	 "/root", 0, NULL},
	{"files", "lists other users' homes", "ENOENT EACCES", NULL,
	 list_directory, "/home/pinfold-escape-other", 0,
	 "a host that has such a home is not made up"},
	{"files", "reads the host's machine-id through /var/lib/dbus",
	 "ENOENT", NULL, read_file, "/var/lib/dbus/machine-id", 0,
	 "only hosts with dbus have it"},
	{"files", "lists the host's logs", "ENOENT EACCES", NULL,
	 list_directory, "/var/log", 0, NULL},
	{"files", "lists the host's run-time directory", "ENOENT EACCES", NULL,
	 list_directory, "/run/systemd", 0, "only hosts with systemd have it"},
	{"files", "lists the host's boot files", "ENOENT EACCES", NULL,
	 list_directory, "/boot", 0, "not every host keeps files there"},
	{"files", "creates a file in /usr", "EROFS EACCES", NULL, create_file,
	 "/usr/pinfold-escape-made", 0, NULL},
	{"files", "creates a file in /usr/bin", "EROFS EACCES", NULL,
	 create_file, "/usr/bin/pinfold-escape-made", 0, NULL},
	{"files", "creates a file in /etc", "EROFS EACCES", NULL, create_file,
	 "/etc/pinfold-escape-made", 0, NULL},
	{"files", "creates a file in the root directory",
	 "EROFS EACCES EPERM", NULL, create_file, "/pinfold-escape-made", 0,
	 NULL},
	{"files", "opens /etc/passwd for writing", "EROFS EACCES", NULL,
	 open_for_writing, "/etc/passwd", 0, NULL},
	{"files", "opens the shell for writing", "EROFS EACCES ETXTBSY", NULL,
	 open_for_writing, "/usr/bin/env", 0, NULL},
	{"files", "changes the mode of a system file", "EROFS EPERM EACCES",
	 NULL, change_mode, "/usr/bin/env", 0, NULL},
	{"files", "changes the times of a system file", "EROFS EPERM EACCES",
	 NULL, change_times, "/usr/bin/env", 0, NULL},
	{"files", "writes into a read-only grant", "EROFS EACCES", NULL,
	 create_file, "{grant}/pinfold-escape-made", 0, NULL},
	{"files", "opens a granted file for writing", "EROFS EACCES", NULL,
	 open_for_writing, "{grant}/file", 0, NULL},
	{"files", "truncates a granted file", "EROFS EACCES", NULL,
	 grow_by_append, "{grant}/file", 0, NULL},
	{"files", "sets an overlay attribute on a granted file",
	 "EROFS EPERM EACCES EOPNOTSUPP", NULL, set_xattr, "{grant}/file", 0,
	 NULL},
	{"files", "climbs out of the source by ..", "ENOENT", NULL,
	 climb_by_dotdot, "{outside}/secret", 0, NULL},
	{"files", "climbs out of the source by descriptors of ..", "ENOENT",
	 NULL, climb_by_descriptor, "{outside}/secret", 0, NULL},
	{"links", "reads through the host's symbolic link in the source",
	 "ENOENT", NULL, read_file, "{source}/link-out", 0, NULL},
	{"links", "lists through the host's directory link in the source",
	 "ENOENT", NULL, list_directory, "{source}/dir-out", 0, NULL},
	{"links", "writes through the host's directory link in the source",
	 "ENOENT EROFS EACCES", NULL, create_file,
	 "{source}/dir-out/pinfold-escape-made", 0, NULL},
	{"links", "reads through a symbolic link of its own", "ENOENT", NULL,
	 symlink_and_read, "{outside}/secret", 0, NULL},
	{"links", "writes through a symbolic link of its own",
	 "ENOENT EROFS EACCES", NULL, symlink_and_write, "{outside}/written",
	 0, NULL},
	{"links", "makes a hard link of an outside file in the source",
	 "ENOENT", NULL, link_outside_in, "{outside}/secret", 0, NULL},
	{"links", "makes a hard link of its own file outside",
	 "ENOENT EXDEV EROFS EACCES", NULL, link_inside_out,
	 "{outside}/linked", 0, NULL},
	{"links", "renames its own file to outside", "ENOENT EXDEV EROFS EACCES",
	 NULL, rename_inside_out, "{outside}/moved", 0, NULL},
	{"links", "exchanges its own file with an outside one",
	 "ENOENT EXDEV EROFS EACCES", NULL, swap_in, "{outside}/swapped", 0,
	 NULL},
	{"links", "links a nameless file of the source outside",
	 "ENOENT EXDEV EROFS EACCES", NULL, tmpfile_linked_out,
	 "{outside}/nameless", 0, NULL},
	{"files", "reads outside through /proc/self/root", "ENOENT EACCES",
	 NULL, read_file, "/proc/self/root{outside}/secret", 0, NULL},
	{"files", "reads outside through /proc/1/root", "ENOENT EACCES", NULL,
	 read_file, "/proc/1/root{outside}/secret", 0, NULL},
	{"files", "reads outside through /proc/1/cwd", "ENOENT EACCES", NULL,
	 read_file, "/proc/1/cwd/../../../../../..{outside}/secret", 0, NULL},
	{"files", "reads outside through every process's root",
	 "ENOENT EACCES", NULL, through_every_process, "{outside}/secret", 0,
	 NULL},
	{"files", "reads outside through every process's directory",
	 "ENOENT EACCES", NULL, through_every_process,
	 "/../../../../../../..{outside}/secret", 1, NULL},
	{"descriptors", "reads outside through descriptor links of processes",
	 "ENOENT EACCES", NULL, through_descriptors, "{outside}/secret", 0,
	 NULL},
	{"files", "opens a file by its handle", "EPERM ENOSYS", NULL,
	 open_by_handle, "{source}", 0, NULL},
	{"descriptors", "finds descriptors that the caller had open", "EBADF",
	 NULL, inherited_descriptors, NULL, 0, NULL},
	{"descriptors", "opens directories by planted descriptor numbers",
	 "EBADF", NULL, openat_planted_numbers, NULL, 0, NULL},
	{"descriptors", "finds the caller's file at standard input", "ESPIPE",
	 NULL, standard_stream_is_a_file, NULL, 0, NULL},
	{"descriptors", "finds the caller's file at standard error", "ESPIPE",
	 NULL, standard_stream_is_a_file, NULL, 2, NULL},
	{"descriptors", "truncates the caller's log through standard error",
	 "EINVAL ESPIPE", NULL, truncate_stream, NULL, 2, NULL},
	{"descriptors", "rewinds the caller's log by reopening standard error",
	 "ESPIPE EACCES ENXIO", NULL, reopen_stream_by_proc, NULL, 2, NULL},
	{"files", "opens pinfold's own program for writing",
	 "ENOENT EROFS EACCES ETXTBSY", NULL, open_for_writing,
	 "/proc/1/exe", 0, "a running program is busy"},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
