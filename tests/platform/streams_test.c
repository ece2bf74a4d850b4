/*
 * Streams and descriptors: pipes and splice, terminals of a sandbox's own,
 * sealed memory, and what a local socket carries at once.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define RIGHTS_MAX 253
#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define NEEDS_USERNS "no user namespaces here"

static int file_in_directory(int flags)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/log", fact_directory());
	return open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
}

static int splice_to_file(void)
{
	int fd = file_in_directory(0);
	int ends[2];

	if (pipe(ends) < 0 || write(ends[1], "text", 4) != 4)
		return fact_works(-1, "pipe");
	return fact_is(splice(ends[0], NULL, fd, NULL, 4, 0) == 4, "%s",
		       strerror(errno));
}

static int splice_to_append(void)
{
	int fd = file_in_directory(O_APPEND);
	int ends[2];

	if (pipe(ends) < 0 || write(ends[1], "text", 4) != 4)
		return fact_works(-1, "pipe");
	return fact_fails(splice(ends[0], NULL, fd, NULL, 4, 0), EINVAL,
			  "splice");
}

static int tee_keeps_the_data(void)
{
	int one[2], two[2];
	char text[8];

	if (pipe(one) < 0 || pipe(two) < 0 || write(one[1], "text", 4) != 4)
		return fact_works(-1, "pipe");
	if (tee(one[0], two[1], 4, 0) != 4)
		return fact_works(-1, "tee");
	return fact_is(read(one[0], text, 8) == 4 && read(two[0], text, 8) == 4,
		       "data is missing");
}

static int splice_between_pipes(void)
{
	int one[2], two[2];

	if (pipe(one) < 0 || pipe(two) < 0 || write(one[1], "text", 4) != 4)
		return fact_works(-1, "pipe");
	return fact_is(splice(one[0], NULL, two[1], NULL, 65536,
			      SPLICE_F_MOVE | SPLICE_F_NONBLOCK) == 4, "%s",
		       strerror(errno));
}

static int pipe_grows(void)
{
	int ends[2];

	if (pipe(ends) < 0)
		return fact_works(-1, "pipe");
	return fact_works(fcntl(ends[0], F_SETPIPE_SZ, 1 << 20), "fcntl");
}

/* /dev/stderr of a command is opened by its permissions: they are the uid's
 * that made the pipe. */
static int pipe_belongs_to_its_maker(void)
{
	char name[64];
	int ends[2];

	if (!fact_is_root())
		return fact_skip("needs root");
	if (pipe(ends) < 0 || setresuid(65534, 65534, 65534) < 0)
		return fact_works(-1, "setresuid");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	return fact_fails(open(name, O_WRONLY | O_CLOEXEC), EACCES, "open");
}

static int own_terminal(void)
{
	char path[600], ptmx[640];
	int master, slave, unlock = 0;
	unsigned number = 99;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	snprintf(path, sizeof(path), "%s/pts", fact_directory());
	mkdir(path, 0755);
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0 ||
	    mount("devpts", path, "devpts", 0,
		  "newinstance,ptmxmode=0666,mode=0620") < 0)
		return fact_works(-1, "mount");
	snprintf(ptmx, sizeof(ptmx), "%s/ptmx", path);
	master = open(ptmx, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
	    ioctl(master, TIOCGPTN, &number) < 0)
		return fact_works(-1, "ptmx");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	if (slave < 0)
		return fact_works(-1, "TIOCGPTPEER");
	return fact_is(number == 0 && isatty(slave), "number %u", number);
}

static int master_ends_with_eio(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char byte;
	int slave;

	if (master < 0 || unlockpt(master) < 0)
		return fact_works(-1, "posix_openpt");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	close(slave);
	return fact_fails(read(master, &byte, 1), EIO, "read");
}

static int seals_hold(void)
{
	int fd = memfd_create("fact", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, "text", 4) != 4 ||
	    fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
		return fact_works(-1, "memfd_create");
	if (ftruncate(fd, 0) == 0)
		return fact_is(false, "it could be truncated");
	return fact_fails(pwrite(fd, "x", 1, 0), EPERM, "pwrite");
}

static int seals_refuse_shared_writing(void)
{
	int fd = memfd_create("fact", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *area;

	if (fd < 0 || ftruncate(fd, 4096) < 0 ||
	    fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
		return fact_works(-1, "memfd_create");
	area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return fact_fails(area == MAP_FAILED ? -1 : 0, EPERM, "mmap");
}

static int seals_are_final(void)
{
	int fd = memfd_create("fact", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0)
		return fact_works(-1, "memfd_create");
	return fact_fails(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM, "fcntl");
}

/* Sends the same descriptor n times in one message. */
static int send_many(int n)
{
	static char space[CMSG_SPACE(sizeof(int) * 300)];
	struct iovec iov = {(char[]){"x"}, 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
		.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
	memset(CMSG_DATA(head), 0, sizeof(int) * (size_t)n);
	return (int)sendmsg(ends[0], &msg, 0);
}

static int many_descriptors(void)
{
	return fact_works(send_many(RIGHTS_MAX), "sendmsg");
}

static int too_many_descriptors(void)
{
	return fact_fails(send_many(RIGHTS_MAX + 1), EINVAL, "sendmsg");
}

static int truncated_rights_are_told(void)
{
	char space[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1,
			     .msg_control = space, .msg_controllen = 0};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0 ||
	    fact_send(ends[0], 0) < 0 || recvmsg(ends[1], &msg, 0) < 0)
		return fact_works(-1, "recvmsg");
	return fact_is(msg.msg_flags & MSG_CTRUNC, "no MSG_CTRUNC");
}

static int packet_of(size_t size)
{
	char *data = calloc(1, size);
	int ends[2];

	if (!data || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0,
				ends) < 0)
		return -1;
	return (int)send(ends[0], data, size, 0);
}

static int packet_that_fits(void)
{
	return fact_works(packet_of(128 << 10), "send of 128 KiB");
}

static int packet_too_large(void)
{
	return fact_fails(packet_of(8 << 20), EMSGSIZE, "send of 8 MiB");
}

static int long_packet_is_told(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0 ||
	    send(ends[0], "long", 4, 0) != 4 || recvmsg(ends[1], &msg, 0) != 1)
		return fact_works(-1, "recvmsg");
	return fact_is(msg.msg_flags & MSG_TRUNC, "no MSG_TRUNC");
}

static int peer_credentials(void)
{
	struct ucred peer = {0, 99, 99};
	socklen_t len = sizeof(peer);
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0 ||
	    getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return fact_works(-1, "getsockopt");
	return fact_is(peer.pid == getpid() && peer.uid == geteuid(),
		       "pid %d, uid %u", peer.pid, peer.uid);
}

static int file_size_signal(void)
{
	const struct rlimit limit = {4096, 4096};
	char block[8192] = {0};
	int fd = file_in_directory(0);

	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
		return fact_works(-1, "setrlimit");
	if (write(fd, block, sizeof(block)) != 4096)
		return fact_is(false, "the first write was not cut");
	return fact_fails(write(fd, block, 1), EFBIG, "write");
}

static const struct fact table[] = {
	{"splice moves from a pipe to a file", splice_to_file},
	{"splice to a file opened for appending is EINVAL", splice_to_append},
	{"splice moves between pipes", splice_between_pipes},
	{"tee copies and leaves the data", tee_keeps_the_data},
	{"a pipe grows to 1 MiB", pipe_grows},
	{"a pipe cannot be reopened by another uid than its maker's",
	 pipe_belongs_to_its_maker},
	{"a terminal of a sandbox's own devpts is number 0 and has its peer",
	 own_terminal},
	{"a master without slaves reads EIO", master_ends_with_eio},
	{"a sealed memfd refuses writing", seals_hold},
	{"a sealed memfd refuses shared writable maps",
	 seals_refuse_shared_writing},
	{"seals cannot be changed once sealed", seals_are_final},
	{"a message carries 253 descriptors", many_descriptors},
	{"a message does not carry 254 descriptors", too_many_descriptors},
	{"descriptors without room are told by MSG_CTRUNC",
	 truncated_rights_are_told},
	{"a packet of 128 KiB passes", packet_that_fits},
	{"a packet of 8 MiB is EMSGSIZE", packet_too_large},
	{"a packet longer than its buffer is told by MSG_TRUNC",
	 long_packet_is_told},
	{"a socket pair tells its maker's credentials", peer_credentials},
	{"writing beyond RLIMIT_FSIZE is EFBIG and SIGXFSZ", file_size_signal},
};

int main(void)
{
	return fact_main(FACTS(table));
}
