#include "ipc/bus.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "ipc/bus_reply.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MESSAGE_CALL 1
#define PROTOCOL_VERSION 1
#define HELLO_SERIAL 1u
#define CALL_SERIAL 2u

/* ---- putting values together ---- */

static void pad(struct buf *b, size_t align)
{
	static const char zeros[8];

	buf_add(b, zeros, (align - b->len % align) % align);
}

void bus_put_u32(struct buf *args, uint32_t v)
{
	pad(args, 4);
	buf_add(args, &v, sizeof(v));
}

void bus_put_u64(struct buf *args, uint64_t v)
{
	pad(args, 8);
	buf_add(args, &v, sizeof(v));
}

void bus_put_bool(struct buf *args, bool v)
{
	bus_put_u32(args, v);
}

void bus_put_str(struct buf *args, const char *s)
{
	bus_put_u32(args, (uint32_t)strlen(s));
	buf_add(args, s, strlen(s) + 1);
}

void bus_put_signature(struct buf *args, const char *s)
{
	buf_add_char(args, (char)strlen(s));
	buf_add(args, s, strlen(s) + 1);
}

void bus_put_struct(struct buf *args)
{
	pad(args, 8);
}

size_t bus_array_begin(struct buf *args, size_t align)
{
	size_t place;

	bus_put_u32(args, 0);
	place = args->len - sizeof(uint32_t);
	pad(args, align);
	return place;
}

void bus_array_end(struct buf *args, size_t place, size_t align)
{
	size_t start = place + sizeof(uint32_t);
	uint32_t len;

	if (args->failed)
		return;
	/* The length is without the padding before the first element. */
	start += (align - start % align) % align;
	len = (uint32_t)(args->len - start);
	memcpy(args->data + place, &len, sizeof(len));
}

static void put_field(struct buf *b, unsigned char code, const char *type,
		      const char *value)
{
	if (!*value)
		return;
	bus_put_struct(b);
	buf_add_char(b, (char)code);
	bus_put_signature(b, type);
	if (*type == 'g')
		bus_put_signature(b, value);
	else
		bus_put_str(b, value);
}

int bus_pack(const struct bus_call *call, uint32_t serial, struct buf *out)
{
	AUTO_BUF struct buf head = BUF_INIT(BUS_CALL_MAX);
	const char start[4] = {BUS_ENDIAN, MESSAGE_CALL, 0, PROTOCOL_VERSION};
	size_t fields;

	if (call->args.failed)
		return call->args.failed;
	buf_add(&head, start, sizeof(start));
	bus_put_u32(&head, (uint32_t)call->args.len);
	bus_put_u32(&head, serial);
	fields = bus_array_begin(&head, 8);
	put_field(&head, BUS_FIELD_PATH, "o", call->path);
	put_field(&head, BUS_FIELD_INTERFACE, "s", call->interface);
	put_field(&head, BUS_FIELD_MEMBER, "s", call->member);
	put_field(&head, BUS_FIELD_DESTINATION, "s", call->destination);
	put_field(&head, BUS_FIELD_SIGNATURE, "g", call->signature);
	bus_array_end(&head, fields, 8);
	bus_put_struct(&head);
	if (head.failed)
		return head.failed;
	buf_add(out, head.data, head.len);
	if (call->args.len)
		buf_add(out, call->args.data, call->args.len);
	return out->failed;
}

/* ---- the connection ---- */

/*
 * A bus of somebody else's could tell us anything; one that does not see our
 * process ids would take them for others.
 */
static int check_peer(int fd, const char *path, struct error *err)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return error_errno(err, "%s", path);
	if (who.uid != 0 && who.uid != geteuid())
		return error_set(err, -EPERM, "%s is another user's", path);
	if (who.pid == 0)
		return error_set(err, -EPERM,
				 "%s is of another process id namespace", path);
	return 0;
}

int bus_connect(const char *socket_path, struct error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_CLOSE int fd = -1;
	int r;

	if (strlen(socket_path) >= sizeof(a.sun_path))
		return error_set(err, -ENAMETOOLONG,
				 "%s is too long for a socket", socket_path);
	strcpy(a.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(err, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_errno(err, "%s", socket_path);
	r = check_peer(fd, socket_path, err);
	return r < 0 ? r : steal_fd(&fd);
}

/* Waits for the events; 0, -ETIMEDOUT or another negative errno. */
static int wait_for(int fd, short events, uint64_t until_us)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now = time_mono_us();
	int r;

	if (now >= until_us)
		return -ETIMEDOUT;
	r = poll(&p, 1, (int)((until_us - now) / 1000 + 1));
	if (r < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int send_whole(int fd, const struct buf *b, uint64_t until_us)
{
	size_t at = 0;
	int r = 0;

	while (at < b->len && r == 0) {
		ssize_t n = send(fd, b->data + at, b->len - at, MSG_NOSIGNAL);

		if (n >= 0)
			at += (size_t)n;
		else if (errno == EAGAIN || errno == EINTR)
			r = wait_for(fd, POLLOUT, until_us);
		else
			r = -errno;
	}
	return r;
}

/* Appends what came; 0, or negative: -ECONNRESET at the end. */
static int receive(int fd, struct buf *b, uint64_t until_us)
{
	char block[4096];
	ssize_t n = recv(fd, block, sizeof(block), 0);

	if (n > 0)
		return buf_add(b, block, (size_t)n);
	if (n == 0)
		return -ECONNRESET;
	if (errno == EAGAIN || errno == EINTR)
		return wait_for(fd, POLLIN, until_us);
	return -errno;
}

/*
 * All that we have to say, at once. Who we are the bus reads from the socket:
 * no name is claimed, which would be another inside a user namespace.
 */
static int pack_conversation(const struct bus_call *call, struct buf *out)
{
	static const char begin[] = "\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";
	const struct bus_call hello = {
		.destination = "org.freedesktop.DBus",
		.path = "/org/freedesktop/DBus",
		.interface = "org.freedesktop.DBus",
		.member = "Hello",
		.signature = "",
	};
	int r;

	buf_add(out, begin, sizeof(begin) - 1);
	r = bus_pack(&hello, HELLO_SERIAL, out);
	return r < 0 ? r : bus_pack(call, CALL_SERIAL, out);
}

/* Reads until the answer is there; a failure of the reading itself has no
 * text yet. */
static int await_answer(int fd, uint64_t until_us, struct error *err)
{
	AUTO_BUF struct buf in = BUF_INIT(BUS_TOTAL_MAX);
	struct bus_reply reply = {.wanted = CALL_SERIAL};
	int r = 0;

	while (reply.state != BUS_ANSWERED) {
		r = receive(fd, &in, until_us);
		if (r < 0)
			return error_set(err, r, "no answer from the bus: %s",
					 strerror(-r));
		r = bus_reply_read(&reply, in.data, in.len, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int bus_ask(int fd, const struct bus_call *call, uint64_t until_us,
	    struct error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4 * BUS_CALL_MAX);
	int r = pack_conversation(call, &out);

	if (r == 0)
		r = send_whole(fd, &out, until_us);
	if (r < 0)
		return error_set(err, r, "cannot ask the bus: %s",
				 strerror(-r));
	return await_answer(fd, until_us, err);
}
