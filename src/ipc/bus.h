/*
 * One method call over a D-Bus socket: connection, authentication, the call and
 * its reply, with every size and the whole time bounded. Only types that our
 * calls need can be put together, and of a reply only success or the error's
 * name and text is taken.
 * Source: D-Bus specification 0.42, "Message Format" and "Authentication
 * Protocol".
 */
#ifndef PINFOLD_IPC_BUS_H
#define PINFOLD_IPC_BUS_H

#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define BUS_CALL_MAX 4096u   /* bytes of a call's arguments */
#define BUS_REPLY_MAX 16384u /* bytes of one message that is received */
#define BUS_TOTAL_MAX 65536u /* bytes received until the reply */

struct bus_call {
	const char *destination, *path, *interface, *member;
	const char *signature; /* of args; "" for none */
	struct buf args;       /* made by bus_put_*, from BUF_INIT */
};

/* Each appends one value with its padding; a failure shows in args.failed. */
void bus_put_u32(struct buf *args, uint32_t v);
void bus_put_u64(struct buf *args, uint64_t v);
void bus_put_bool(struct buf *args, bool v);
void bus_put_str(struct buf *args, const char *s);
/* A signature: also the beginning of a variant, before its value. */
void bus_put_signature(struct buf *args, const char *s);
/* Padding to where a structure begins. */
void bus_put_struct(struct buf *args);
/*
 * An array: begin returns its place for end. align is that of the elements, 1
 * to 8. Arrays may be nested.
 */
size_t bus_array_begin(struct buf *args, size_t align);
void bus_array_end(struct buf *args, size_t place, size_t align);

/*
 * Appends the whole message to out, as call number serial. 0 or a negative
 * errno.
 */
int bus_pack(const struct bus_call *call, uint32_t serial, struct buf *out);

/*
 * Connects to the bus at socket_path, which must be ours or root's and in sight
 * of our process ids. A descriptor (closed on exec, not blocking) or negative.
 */
int bus_connect(const char *socket_path, struct error *err);

/*
 * Makes the call over a new connection and waits for the reply until until_us
 * (time_mono_us). 0; -ETIMEDOUT; -EPERM when the bus does not take us;
 * -EREMOTEIO with the error that was answered; -EPROTO or -EFBIG for an answer
 * that is no D-Bus or too long; or another negative errno.
 */
int bus_ask(int fd, const struct bus_call *call, uint64_t until_us,
	    struct error *err);

#endif
