#include "ipc/bus_reply.h"

#include "ipc/bus.h"

#include <errno.h>
#include <string.h>

#define HEADER 16u /* bytes up to the first field */
#define LINE_LIMIT 1024u
#define MESSAGE_RETURN 2
#define MESSAGE_ERROR 3

/* A message's bytes, read forward; failed is set beyond their end. */
struct cursor {
	const char *data;
	size_t len, at;
	bool failed;
};

/* What counts of one message. */
struct heading {
	int type;
	uint32_t reply_to;
	const char *error_name;
	const char *signature;
};

static const char *take(struct cursor *c, size_t align, size_t n)
{
	size_t at = c->at + (align - c->at % align) % align;

	if (c->failed || at > c->len || n > c->len - at) {
		c->failed = true;
		return NULL;
	}
	c->at = at + n;
	return c->data + at;
}

static uint32_t take_u32(struct cursor *c)
{
	const char *p = take(c, 4, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

/* n bytes and a NUL, with none before it; NULL when they are not there. */
static const char *take_text(struct cursor *c, size_t n)
{
	const char *s = n < BUS_REPLY_MAX ? take(c, 1, n + 1) : NULL;

	if (!s || s[n] != '\0' || memchr(s, '\0', n)) {
		c->failed = true;
		return NULL;
	}
	return s;
}

static const char *take_signature(struct cursor *c)
{
	const char *n = take(c, 1, 1);

	return n ? take_text(c, (unsigned char)*n) : NULL;
}

/* One header field; those that are not ours must be of a type we can pass. */
static void take_field(struct cursor *c, struct heading *h)
{
	const char *code = take(c, 8, 1);
	const char *type = take_signature(c);

	if (!code || !type) {
		c->failed = true;
	} else if (!strcmp(type, "u")) {
		uint32_t v = take_u32(c);

		if (*code == BUS_FIELD_REPLY_SERIAL)
			h->reply_to = v;
	} else if (!strcmp(type, "s") || !strcmp(type, "o")) {
		const char *s = take_text(c, take_u32(c));

		if (*code == BUS_FIELD_ERROR_NAME)
			h->error_name = s;
	} else if (!strcmp(type, "g")) {
		const char *s = take_signature(c);

		if (*code == BUS_FIELD_SIGNATURE)
			h->signature = s;
	} else {
		c->failed = true;
	}
}

/* The error's name and, when its arguments begin with one, its text. */
static int tell_error(const struct heading *h, struct cursor *c,
		      struct error *err)
{
	const char *text = NULL;

	take(c, 8, 0);
	if (h->signature && h->signature[0] == 's')
		text = take_text(c, take_u32(c));
	return error_set(err, -EREMOTEIO, "%s: %s",
			 h->error_name ? h->error_name : "error",
			 text ? text : "without a text");
}

/* Looks at one whole message. 0, or the answer's error. */
static int judge(struct bus_reply *b, const char *data, size_t len,
		 size_t fields, struct error *err)
{
	struct cursor c = {.data = data, .len = HEADER + fields, .at = HEADER};
	struct heading h = {.type = data[1]};

	while (!c.failed && c.at < c.len)
		take_field(&c, &h);
	if (c.failed)
		return error_set(err, -EPROTO, "malformed message of the bus");
	c.len = len;
	/* Of our two calls; who greets us with an error does not serve us. */
	if (h.type == MESSAGE_ERROR)
		b->state = BUS_ANSWERED;
	else if (h.type == MESSAGE_RETURN && h.reply_to == b->wanted)
		b->state = BUS_ANSWERED;
	return h.type == MESSAGE_ERROR ? tell_error(&h, &c, err) : 0;
}

/* The next message, if it is whole. */
static int read_message(struct bus_reply *b, const char *data, size_t len,
			bool *ret_more, struct error *err)
{
	uint32_t body, fields;
	size_t whole;

	*ret_more = false;
	if (len < HEADER)
		return 0;
	memcpy(&body, data + 4, sizeof(body));
	memcpy(&fields, data + 12, sizeof(fields));
	if (data[0] != BUS_ENDIAN || data[3] != 1)
		return error_set(err, -EPROTO, "the bus does not speak D-Bus");
	if (body > BUS_REPLY_MAX || fields > BUS_REPLY_MAX)
		return error_set(err, -EFBIG, "the bus sent a message of more "
				 "than %u bytes", BUS_REPLY_MAX);
	whole = HEADER + (fields + 7) / 8 * 8 + body;
	if (len < whole)
		return 0;
	*ret_more = true;
	b->at += whole;
	return judge(b, data, whole, fields, err);
}

/* One line of the authentication: challenge, consent, or no. */
static int read_line(struct bus_reply *b, const char *data, size_t len,
		     bool *ret_more, struct error *err)
{
	const char *end = len ? memmem(data, len, "\r\n", 2) : NULL;
	size_t n = end ? (size_t)(end - data) : 0;

	*ret_more = end != NULL;
	if (end ? n >= LINE_LIMIT : len > LINE_LIMIT)
		return error_set(err, -EPROTO, "the bus does not speak D-Bus");
	if (!end)
		return 0;
	b->at += n + 2;
	if (n >= 3 && !memcmp(data, "OK ", 3))
		b->state = BUS_LISTENING;
	else if (n < 4 || memcmp(data, "DATA", 4) != 0)
		return error_set(err, -EPERM, "the bus refuses us");
	return 0;
}

int bus_reply_read(struct bus_reply *b, const char *data, size_t len,
		   struct error *err)
{
	bool more = true;
	int r = 0;

	while (r == 0 && more && b->state != BUS_ANSWERED) {
		if (b->state == BUS_AUTHENTICATING)
			r = read_line(b, data + b->at, len - b->at, &more, err);
		else
			r = read_message(b, data + b->at, len - b->at, &more,
					 err);
	}
	return r;
}
