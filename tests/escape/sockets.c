/*
 * Attacks on the limits of the network and of local sockets. The runner holds
 * listeners, sockets and FIFOs outside and looks there for what arrived: an
 * errno alone is not believed.
 */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} u;
	socklen_t len;
};

static void fill_address(const char *text, unsigned short port,
			 struct address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (strchr(text, ':')) {
		ret->u.v6.sin6_family = AF_INET6;
		ret->u.v6.sin6_port = htons(port);
		inet_pton(AF_INET6, text, &ret->u.v6.sin6_addr);
		ret->len = sizeof(ret->u.v6);
		return;
	}
	ret->u.v4.sin_family = AF_INET;
	ret->u.v4.sin_port = htons(port);
	inet_pton(AF_INET, text, &ret->u.v4.sin_addr);
	ret->len = sizeof(ret->u.v4);
}

/* Waits for an asynchronous connect, at most two seconds. */
static int wait_connected(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t len = sizeof(error);

	if (poll(&p, 1, 2000) == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	return -error;
}

static int connect_tcp(const char *text, unsigned short port)
{
	struct address to;
	int fd;

	fill_address(text, port, &to);
	fd = socket(to.u.any.sa_family,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, &to.u.any, to.len) == 0)
		return 0;
	return errno == EINPROGRESS ? wait_connected(fd) : -errno;
}

static int tcp(const struct attack *a)
{
	long port = a->n ? a->n : attack_number("port");
	const char *address = attack_path(a->s);

	if (!*address || !strcmp(address, "none"))
		return attack_skip("the host has no such address");
	return connect_tcp(address, (unsigned short)port);
}

/* Success is an answer: a datagram into nothing is no way out. */
static int udp(const struct attack *a)
{
	struct address to;
	const char *address = attack_path(a->s);
	char answer[16];
	struct pollfd p;
	int fd;

	if (!*address || !strcmp(address, "none"))
		return attack_skip("the host has no such address");
	fill_address(address, (unsigned short)attack_number("udpport"), &to);
	fd = socket(to.u.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, "leak", 4, 0, &to.u.any, to.len) < 0)
		return -errno;
	p = (struct pollfd){.fd = fd, .events = POLLIN};
	if (poll(&p, 1, 500) == 0)
		return -ECONNREFUSED;
	return attack_result(recv(fd, answer, sizeof(answer), 0));
}

static int tcp_fast_open(const struct attack *a)
{
	struct address to;
	int fd;

	fill_address(attack_path(a->s), (unsigned short)attack_number("port"),
		     &to);
	fd = socket(to.u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	return attack_result(sendto(fd, "leak", 4, MSG_FASTOPEN, &to.u.any,
				    to.len));
}

static int sendmsg_address(const struct attack *a)
{
	struct address to;
	struct iovec iov = {(char[]){"leak"}, 4};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct mmsghdr many = {0};
	struct pollfd p;
	char answer[16];
	int fd;

	fill_address("127.0.0.1", (unsigned short)attack_number("udpport"),
		     &to);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	msg.msg_name = &to.u;
	msg.msg_namelen = to.len;
	many.msg_hdr = msg;
	if (fd < 0)
		return -errno;
	if (a->n ? sendmmsg(fd, &many, 1, 0) < 0 : sendmsg(fd, &msg, 0) < 0)
		return -errno;
	p = (struct pollfd){.fd = fd, .events = POLLIN};
	if (poll(&p, 1, 500) == 0)
		return -ECONNREFUSED;
	return attack_result(recv(fd, answer, sizeof(answer), 0));
}

static int resolve_name(const struct attack *a)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int r = getaddrinfo(attack_path(a->s), NULL, &hints, &found);

	attack_note("%s", r ? gai_strerror(r) : "resolved");
	return r ? -ENOENT : 0;
}

static int connect_unix(const struct attack *a)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = attack_path(a->s);
	size_t len = strlen(path);
	int fd = socket(AF_UNIX, (a->n & SOCK_DGRAM ? SOCK_DGRAM : SOCK_STREAM)
			| SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (len >= sizeof(to.sun_path)) {
		attack_note("path too long for a socket");
		return -EUSERS;
	}
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = 0;
	return attack_result(connect(fd, (struct sockaddr *)&to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)));
}

/* Opens for writing without waiting: ENXIO says that nobody reads here. */
static int write_fifo(const struct attack *a)
{
	int fd = open(attack_path(a->s), O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return attack_result(write(fd, "leak", 4));
}

/* A reader's and a writer's end at once never fails: what is written must
 * stay inside. The runner looks at its end. */
static int write_fifo_both_ends(const struct attack *a)
{
	int fd = open(attack_path(a->s), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	char back[8] = {0};

	if (fd < 0)
		return -errno;
	if (write(fd, "leak", 4) < 0)
		return -errno;
	/* The host's reader would have taken it away. */
	usleep(200000);
	return read(fd, back, 4) == 4 ? -ENXIO : 0;
}

static int open_socket(const struct attack *a)
{
	static const struct {
		int family, type, protocol;
	} kinds[] = {
		{AF_PACKET, SOCK_RAW, 0x300}, {AF_PACKET, SOCK_DGRAM, 0x300},
		{AF_INET, SOCK_RAW, IPPROTO_ICMP}, {AF_INET, SOCK_RAW, 255},
		{AF_INET6, SOCK_RAW, IPPROTO_ICMPV6}, {38, SOCK_SEQPACKET, 0},
		{15, SOCK_RAW, 2}, {31, SOCK_RAW, 1}, {40, SOCK_STREAM, 0},
		{40, SOCK_DGRAM, 0}, {44, SOCK_RAW, 0}, {30, SOCK_RDM, 0},
		{29, SOCK_RAW, 1}, {21, SOCK_SEQPACKET, 0}, {41, SOCK_STREAM, 0},
		{43, SOCK_STREAM, 0}, {3, SOCK_DGRAM, 0}, {24, SOCK_DGRAM, 0},
		{AF_INET, SOCK_STREAM, 262}, {AF_INET, SOCK_STREAM, 132},
		{45, SOCK_DGRAM, 0}, {39, SOCK_SEQPACKET, 0},
		{AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
	};
	int fd = socket(kinds[a->n].family, kinds[a->n].type,
			kinds[a->n].protocol);

	return attack_result(fd);
}

static int open_netlink(const struct attack *a)
{
	return attack_result(socket(AF_NETLINK, SOCK_RAW, (int)a->n));
}

/* socket()'s arguments are ints: high bits must not pass a filter. */
static int open_socket_high(const struct attack *a)
{
	return attack_result(syscall(41, 0x100000000L | AF_NETLINK,
				     0x100000000L | SOCK_RAW,
				     0x100000000L | a->n));
}

static int socket_pair(const struct attack *a)
{
	int ends[2];

	return attack_result(socketpair((int)a->n, SOCK_STREAM, 0, ends));
}

static int list_interfaces(const struct attack *a)
{
	FILE *file = fopen("/proc/net/dev", "re");
	char line[256];
	int others = 0;

	(void)a;
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (strchr(line, ':') && !strstr(line, " lo:"))
			others++;
	attack_note("%d interfaces beside lo", others);
	return others ? 0 : -ENOENT;
}

static int read_routes(const struct attack *a)
{
	FILE *file = fopen("/proc/net/tcp", "re");
	char line[512];
	char port[16];

	(void)a;
	snprintf(port, sizeof(port), ":%04lX ", attack_number("port"));
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (strstr(line, port))
			return 0;
	return -ENOENT;
}

static int list_unix_sockets(const struct attack *a)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];
	const char *mark = attack_arg("marker");

	(void)a;
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (strstr(line, mark))
			return 0;
	return -ENOENT;
}

static int bind_low_port(const struct attack *a)
{
	struct address at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fill_address("0.0.0.0", (unsigned short)a->n, &at);
	if (fd < 0)
		return -errno;
	return attack_result(bind(fd, &at.u.any, at.len));
}

/* SO_DEBUG, SO_MARK, SO_SNDBUFFORCE and transparent need rights. */
static int set_option(const struct attack *a)
{
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return attack_result(setsockopt(fd, a->n > 1000 ? SOL_IP : SOL_SOCKET,
					(int)(a->n % 1000), &one, sizeof(one)));
}

#define REFUSED "ECONNREFUSED ENETUNREACH EADDRNOTAVAIL EHOSTUNREACH"
#define NOSOCK "EAFNOSUPPORT EPROTONOSUPPORT EPERM EACCES ENOSYS "             \
	"ESOCKTNOSUPPORT EINVAL"
#define SOCKET(what, n, bare)                                                  \
	{"sockets", what, NOSOCK, NULL, open_socket, NULL, n, bare}
#define NETLINK(what, n, bare)                                                 \
	{"sockets", what, NOSOCK, NULL, open_netlink, NULL, n, bare}
#define MAYBE "not every kernel has it"

static const struct attack table[] = {
	{"network", "connects to the host's listener by 127.0.0.1", REFUSED,
	 NULL, tcp, "127.0.0.1", 0, NULL},
	{"network", "connects to the host's listener by ::1", REFUSED, NULL,
	 tcp, "::1", 0, NULL},
	{"network", "connects to the host's listener by a mapped address",
	 REFUSED, NULL, tcp, "::ffff:127.0.0.1", 0, NULL},
	{"network", "connects to the host's listener by 0.0.0.0", REFUSED,
	 NULL, tcp, "0.0.0.0", 0, NULL},
	{"network", "connects to the host's listener by the host's address",
	 REFUSED, NULL, tcp, "{hostaddress}", 0, NULL},
	{"network", "connects to the metadata address", REFUSED, NULL, tcp,
	 "169.254.169.254", 80, "only cloud hosts have one"},
	{"network", "connects to the metadata address of IPv6", REFUSED, NULL,
	 tcp, "fd00:ec2::254", 80, "only cloud hosts have one"},
	{"network", "connects to a public address", REFUSED, NULL, tcp,
	 "192.0.2.1", 443, "the address is for documentation"},
	{"network", "connects to a public resolver", REFUSED, NULL, tcp,
	 "198.51.100.53", 53, "the address is for documentation"},
	{"network", "connects while sending by fast open",
	 REFUSED " EPERM EACCES ENOSYS EOPNOTSUPP", NULL, tcp_fast_open,
	 "127.0.0.1", 0, NULL},
	{"network", "asks the host's datagram server by 127.0.0.1", REFUSED,
	 NULL, udp, "127.0.0.1", 0, NULL},
	{"network", "asks the host's datagram server by the host's address",
	 REFUSED, NULL, udp, "{hostaddress}", 0, NULL},
	{"network", "asks the host's datagram server by sendmsg", REFUSED,
	 NULL, sendmsg_address, NULL, 0, NULL},
	{"network", "asks the host's datagram server by sendmmsg", REFUSED,
	 NULL, sendmsg_address, NULL, 1, NULL},
	{"network", "resolves a public name", "ENOENT", NULL, resolve_name,
	 "pinfold-escape.example.com", 0, "the name does not exist"},
	{"network", "resolves a metadata server's name", "ENOENT", NULL,
	 resolve_name, "metadata.google.internal", 0,
	 "only cloud hosts have one"},
	{"network", "sees the host's interfaces", "ENOENT", NULL,
	 list_interfaces, NULL, 0, "a host may have lo alone"},
	{"network", "sees the host's connections", "ENOENT", NULL, read_routes,
	 NULL, 0, NULL},
	{"network", "sees the host's local sockets", "ENOENT", NULL,
	 list_unix_sockets, NULL, 0, NULL},
	{"network", "binds a port below 1024", "EACCES EPERM", NULL,
	 bind_low_port, NULL, 81, NULL},
	{"network", "marks its packets", "EPERM EACCES", NULL, set_option,
	 NULL, 36, NULL},
	{"network", "forces a large send buffer", "EPERM EACCES", NULL,
	 set_option, NULL, 32, NULL},
	{"network", "makes a transparent socket", "EPERM EACCES", NULL,
	 set_option, NULL, 1019, NULL},
	{"local sockets", "connects to the host's abstract socket",
	 "ECONNREFUSED", NULL, connect_unix, "@{marker}", 0, NULL},
	{"local sockets", "connects to the host's abstract datagram socket",
	 "ECONNREFUSED", NULL, connect_unix, "@{marker}-d", SOCK_DGRAM, NULL},
	{"local sockets", "connects to the host's socket in the source",
	 "ECONNREFUSED ENOENT", NULL, connect_unix, "{source}/sock", 0, NULL},
	{"local sockets", "connects to the host's socket in a read grant",
	 "ECONNREFUSED ENOENT", NULL, connect_unix, "{grant}/sock", 0, NULL},
	{"local sockets", "connects to the host's datagram socket in a grant",
	 "ECONNREFUSED ENOENT", NULL, connect_unix, "{grant}/sock-d",
	 SOCK_DGRAM, NULL},
	{"local sockets", "connects to the host's socket beside the source",
	 "ENOENT", NULL, connect_unix, "{outside}/sock", 0, NULL},
	{"local sockets", "connects to the host's bus", "ENOENT ECONNREFUSED",
	 NULL, connect_unix, "/run/dbus/system_bus_socket", 0,
	 "only hosts with dbus have it"},
	{"local sockets", "connects to the container engine",
	 "ENOENT ECONNREFUSED", NULL, connect_unix, "/run/docker.sock", 0,
	 "only hosts with an engine have it"},
	{"fifos", "writes to the host's FIFO in the source", "ENXIO", NULL,
	 write_fifo, "{source}/fifo", 0, NULL},
	{"fifos", "writes to the host's FIFO in a read grant",
	 "ENXIO EROFS EACCES", NULL, write_fifo, "{grant}/fifo", 0, NULL},
	{"fifos", "writes to the host's FIFO in the source from both ends",
	 "ENXIO", NULL, write_fifo_both_ends, "{source}/fifo", 0, NULL},
	{"fifos", "writes to the host's FIFO in a read grant from both ends",
	 "ENXIO EROFS EACCES", NULL, write_fifo_both_ends, "{grant}/fifo", 0,
	 NULL},
	SOCKET("opens a raw packet socket", 0, NULL),
	SOCKET("opens a cooked packet socket", 1, NULL),
	SOCKET("opens a raw ICMP socket", 2, NULL),
	SOCKET("opens a raw IP socket", 3, NULL),
	SOCKET("opens a raw ICMPv6 socket", 4, NULL),
	SOCKET("opens a kernel cryptography socket", 5, MAYBE),
	SOCKET("opens an IPsec key socket", 6, MAYBE),
	SOCKET("opens a Bluetooth socket", 7, MAYBE),
	SOCKET("opens a virtual machine's stream socket", 8, MAYBE),
	SOCKET("opens a virtual machine's datagram socket", 9, MAYBE),
	SOCKET("opens an express data path socket", 10, MAYBE),
	SOCKET("opens a TIPC socket", 11, MAYBE),
	SOCKET("opens a CAN socket", 12, MAYBE),
	SOCKET("opens an RDS socket", 13, MAYBE),
	SOCKET("opens a connection multiplexer socket", 14, MAYBE),
	SOCKET("opens an SMC socket", 15, MAYBE),
	SOCKET("opens an amateur radio socket", 16, MAYBE),
	SOCKET("opens a PPPoE socket", 17, MAYBE),
	SOCKET("opens a multipath TCP socket", 18, MAYBE),
	SOCKET("opens an SCTP socket", 19, MAYBE),
	SOCKET("opens an MCTP socket", 20, MAYBE),
	SOCKET("opens a near-field socket", 21, MAYBE),
	SOCKET("opens a ping socket", 22, MAYBE),
	NETLINK("opens netlink's packet filter", 12, NULL),
	NETLINK("opens netlink's audit", 9, MAYBE),
	NETLINK("opens netlink's socket diagnosis", 4, MAYBE),
	NETLINK("opens netlink's IPsec policy", 6, MAYBE),
	NETLINK("opens netlink's device events", 15, NULL),
	NETLINK("opens netlink's generic families", 16, NULL),
	NETLINK("opens netlink's connector", 11, MAYBE),
	NETLINK("opens netlink's cryptography", 21, MAYBE),
	NETLINK("opens netlink's SELinux events", 7, MAYBE),
	NETLINK("opens netlink's SCSI transport", 18, MAYBE),
	NETLINK("opens netlink's RDMA", 20, MAYBE),
	{"sockets", "opens netlink's packet filter with high bits set", NOSOCK,
	 NULL, open_socket_high, NULL, 12, NULL},
	{"sockets", "makes a pair of TIPC sockets", NOSOCK " EOPNOTSUPP", NULL,
	 socket_pair, NULL, 30, MAYBE},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
