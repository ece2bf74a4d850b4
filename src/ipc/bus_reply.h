/*
 * What a bus says to a client that made one call: the lines of the
 * authentication, then messages, of which those that answer the client count.
 * Fed with all bytes so far as often as more come.
 */
#ifndef PINFOLD_IPC_BUS_REPLY_H
#define PINFOLD_IPC_BUS_REPLY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Values of a message's header fields. */
enum bus_field {
	BUS_FIELD_PATH = 1,
	BUS_FIELD_INTERFACE = 2,
	BUS_FIELD_MEMBER = 3,
	BUS_FIELD_ERROR_NAME = 4,
	BUS_FIELD_REPLY_SERIAL = 5,
	BUS_FIELD_DESTINATION = 6,
	BUS_FIELD_SIGNATURE = 8,
};

/* This machine's byte order; a bus here has the same. */
#define BUS_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 'l' : 'B')

enum bus_state { BUS_AUTHENTICATING, BUS_LISTENING, BUS_ANSWERED };

struct bus_reply {
	uint32_t wanted; /* serial of the call */
	enum bus_state state;
	size_t at; /* bytes that are done with */
};

/*
 * Goes on reading in data, which holds everything from the start. 0 (state says
 * whether the answer is there), or as bus_ask with a text.
 */
int bus_reply_read(struct bus_reply *b, const char *data, size_t len,
		   struct error *err);

#endif
