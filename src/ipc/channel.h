/*
 * Framed messages between two of our processes over one SOCK_SEQPACKET end:
 * a type, a payload of bounded size, a bounded number of descriptors. A table
 * says which message is permitted in which state; anything else is a protocol
 * violation (-EPROTO), and the caller ends the channel and the task.
 */
#ifndef PINFOLD_IPC_CHANNEL_H
#define PINFOLD_IPC_CHANNEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define CHANNEL_DATA_MAX 16384
#define CHANNEL_FDS_MAX 16

struct message {
	uint16_t type;
	uint32_t len;
	size_t n_fds;
	int fds[CHANNEL_FDS_MAX]; /* owned; -1 once taken */
	_Alignas(8) unsigned char data[CHANNEL_DATA_MAX];
};

/* One row: this type is permitted in these states (bit mask), of this shape. */
struct message_rule {
	uint16_t type;
	uint32_t states;
	uint32_t len_min, len_max;
	size_t fds_min, fds_max;
};

/* Two connected close-on-exec ends. 0 or a negative errno. */
int channel_pair(int ret[2]);

/*
 * Sends one message. -EMSGSIZE beyond the maxima; -EAGAIN when the peer does
 * not read and fd is non-blocking; -EPIPE when it is gone. Descriptors stay the
 * caller's.
 */
int channel_send(int fd, uint16_t type, const void *data, size_t len,
		 const int *fds, size_t n_fds);

/* The same with a payload in two parts, a fixed head and a body. */
int channel_send2(int fd, uint16_t type, const void *head, size_t head_len,
		  const void *body, size_t body_len, const int *fds,
		  size_t n_fds);

/*
 * Receives one message: 1, or 0 at the peer's end, or a negative errno (-EPROTO
 * for anything truncated or malformed, -EAGAIN where nothing waits). The
 * descriptors in m are close-on-exec and belong to the caller: message_done.
 */
int channel_recv(int fd, struct message *m);

/* -EPROTO with a text unless a rule permits m in the state (one bit). */
int message_check(const struct message *m, const struct message_rule *rules,
		  size_t n_rules, uint32_t state, struct error *err);

/* Takes descriptor i out of m; -1 if there is none. */
int message_take_fd(struct message *m, size_t i);
/* Closes the descriptors that were not taken. */
void message_done(struct message *m);

#endif
