#include "task/watch.h"

#include "confine/seccomp.h"
#include "confine/start.h"
#include "task/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Which argument of the call points to the address, and which has its size. */
static int address_arguments(int call, int *ret_size)
{
	if (call == SYS_connect) {
		*ret_size = 2;
		return 1;
	}
	*ret_size = 5;
	return 4;
}

/* Copies the address; returns how many bytes of it could be read. */
static size_t copy_address(const struct seccomp_notif *n, void *to, size_t max)
{
	int size_at, at = address_arguments(n->data.nr, &size_at);
	uint64_t size = n->data.args[size_at];
	struct iovec here = {to, size < max ? (size_t)size : max};
	struct iovec there = {(void *)(uintptr_t)n->data.args[at],
			      here.iov_len};
	ssize_t got = process_vm_readv((pid_t)n->pid, &here, 1, &there, 1, 0);

	return got < 0 ? 0 : (size_t)got;
}

static void describe(const struct seccomp_notif *n, struct watch_record *w)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a;
	size_t len;

	memset(&a, 0, sizeof(a));
	len = copy_address(n, &a, sizeof(a));
	w->pid = (int32_t)n->pid;
	w->call = n->data.nr;
	w->family = AF_UNSPEC;
	if (len < sizeof(a.any.sa_family))
		return;
	if (a.any.sa_family == AF_INET && len >= sizeof(a.in)) {
		memcpy(w->address, &a.in.sin_addr, sizeof(a.in.sin_addr));
		w->port = ntohs(a.in.sin_port);
	} else if (a.any.sa_family == AF_INET6 && len >= 24) {
		memcpy(w->address, &a.in6.sin6_addr, sizeof(a.in6.sin6_addr));
		w->port = ntohs(a.in6.sin6_port);
	} else {
		return;
	}
	w->family = a.any.sa_family;
}

/* ioctl(2), whose request is an int in one C library and a long in the other. */
static int notify_ioctl(unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, WATCH_FD_NOTIFY, request, arg);
}

/* One notification: 0, or -1 when the sandbox or the keeper is gone. */
static int answer(void)
{
	static struct seccomp_notif n;
	struct seccomp_notif_resp go_on = {
		.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE,
	};
	struct watch_record w = {0};

	memset(&n, 0, sizeof(n));
	if (notify_ioctl(SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return errno == EINTR || errno == ENOENT ? 0 : -1;
	describe(&n, &w);
	/* Whoever asked is gone: its number may be another process's by now,
	 * and what was read may be that one's. */
	if (notify_ioctl(SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id) < 0)
		return errno == ENOENT ? 0 : -1;
	/* Told before it happens; without the keeper nothing happens. */
	if (w.family != AF_UNSPEC &&
	    channel_send(WATCH_FD_CHANNEL, WATCH_RECORD, &w, sizeof(w), NULL,
			 0) < 0)
		return -1;
	go_on.id = n.id;
	if (notify_ioctl(SECCOMP_IOCTL_NOTIF_SEND, &go_on) < 0 &&
	    errno != ENOENT)
		return -1;
	return 0;
}

int watch_main(void)
{
	start_die_with_parent(WATCH_FD_KEEPER);
	start_close_from(WATCH_FD_COUNT);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_load(SECCOMP_WATCH) < 0)
		return 125;
	for (;;) {
		struct pollfd p[2] = {
			{.fd = WATCH_FD_NOTIFY, .events = POLLIN},
			{.fd = WATCH_FD_CHANNEL},
		};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return 125;
		if (p[1].revents || p[0].revents & (POLLHUP | POLLERR))
			return 0;
		if (p[0].revents & POLLIN && answer() < 0)
			return 0;
	}
}
