#include "ipc/channel.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct frame {
	uint16_t type;
	uint16_t n_fds;
	uint32_t len;
};

int channel_pair(int ret[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
		return -errno;
	return 0;
}

int channel_send(int fd, uint16_t type, const void *data, size_t len,
		 const int *fds, size_t n_fds)
{
	return channel_send2(fd, type, data, len, NULL, 0, fds, n_fds);
}

int channel_send2(int fd, uint16_t type, const void *head, size_t head_len,
		  const void *body, size_t body_len, const int *fds,
		  size_t n_fds)
{
	struct frame frame = {.type = type, .n_fds = (uint16_t)n_fds};
	struct iovec iov[3] = {
		{&frame, sizeof(frame)},
		{(void *)(uintptr_t)head, head_len},
		{(void *)(uintptr_t)body, body_len},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)] = {0};

	if (head_len > CHANNEL_DATA_MAX ||
	    body_len > CHANNEL_DATA_MAX - head_len || n_fds > CHANNEL_FDS_MAX)
		return -EMSGSIZE;
	frame.len = (uint32_t)(head_len + body_len);
	if (n_fds > 0) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len =
			(__typeof__(c->cmsg_len))CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
		msg.msg_control = control;
		msg.msg_controllen = (__typeof__(
			msg.msg_controllen))CMSG_SPACE(sizeof(int) * n_fds);
	}
	for (;;) {
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

		if (n >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* The C libraries' macros for control messages mix signed and unsigned. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"

/* Collects passed descriptors; anything but one SCM_RIGHTS is refused. */
static int take_control(struct msghdr *msg, struct message *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(0))
			return -EPROTO;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (n > CHANNEL_FDS_MAX - m->n_fds)
			return -EPROTO;
		memcpy(m->fds + m->n_fds, CMSG_DATA(c), n * sizeof(int));
		m->n_fds += n;
	}
	return 0;
}

#pragma GCC diagnostic pop

static bool is_whole(const struct frame *frame, size_t got, int flags,
		     size_t n_fds)
{
	return got >= sizeof(*frame) && !(flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	       frame->len == got - sizeof(*frame) && frame->n_fds == n_fds;
}

int channel_recv(int fd, struct message *m)
{
	struct frame frame;
	struct iovec iov[2] = {
		{&frame, sizeof(frame)},
		{m->data, sizeof(m->data)},
	};
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int resets = 0;
	ssize_t n;

	m->n_fds = 0;
	m->len = 0;
	/*
	 * ECONNRESET comes once, before what the other end still sent, when it
	 * ended without having read all of ours.
	 */
	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR ||
			 (errno == ECONNRESET && resets++ == 0)));
	if (n < 0)
		return -errno;
	/* An empty datagram that carries descriptors is no end. */
	if (n == 0 && msg.msg_controllen == 0)
		return 0;
	if (take_control(&msg, m) < 0 ||
	    !is_whole(&frame, (size_t)n, msg.msg_flags, m->n_fds)) {
		message_done(m);
		return -EPROTO;
	}
	m->type = frame.type;
	m->len = frame.len;
	return 1;
}

int message_check(const struct message *m, const struct message_rule *rules,
		  size_t n_rules, uint32_t state, struct error *err)
{
	for (size_t i = 0; i < n_rules; i++) {
		const struct message_rule *r = &rules[i];

		if (r->type != m->type || !(r->states & state))
			continue;
		if (m->len < r->len_min || m->len > r->len_max ||
		    m->n_fds < r->fds_min || m->n_fds > r->fds_max)
			break;
		return 0;
	}
	return error_set(err, -EPROTO,
			 "protocol violation: message %u (%u bytes, "
			 "%zu descriptors) is not permitted in state 0x%x",
			 m->type, m->len, m->n_fds, state);
}

int message_take_fd(struct message *m, size_t i)
{
	if (i >= m->n_fds)
		return -1;
	return steal_fd(&m->fds[i]);
}

void message_done(struct message *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		close_fd(m->fds[i]);
	m->n_fds = 0;
}
