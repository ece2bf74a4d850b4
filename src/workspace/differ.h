/*
 * Comparing files in a process of its own (pinfold-diff), which has neither
 * files nor anything else: it is sent two open files, and sends back text. It
 * is the only one that looks at what is in them.
 */
#ifndef PINFOLD_WORKSPACE_DIFFER_H
#define PINFOLD_WORKSPACE_DIFFER_H

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Longer paths and targets are not sent. */
#define DIFFER_NAME_MAX 3800
/* The longest text of one change. */
#define DIFFER_TEXT_MAX (64u << 20)

struct differ_side {
	mode_t mode;	    /* 0: there is none */
	uint64_t size;
	int fd;		    /* of a regular file; -1: none, or see omitted */
	const char *target; /* of a link, else NULL */
	const char *omitted; /* why a file is not compared, or NULL */
};

struct differ_ask {
	const char *path;
	const char *path_before; /* of what was moved here, or NULL */
	const char *held;
	struct differ_side before, after;
};

/* Sends a question over the channel fd. -ENAMETOOLONG, or as channel_send. */
int differ_send(int fd, const struct differ_ask *ask);

/*
 * Receives a part of the answer: 1 and text appended to out, 0 when the answer
 * is complete, or negative: -EPIPE when the other side is gone, -EPROTO for
 * anything that is no answer, what the other side failed with (-EFBIG, -ENOMEM).
 */
int differ_recv(int fd, struct buf *out);

/* Answers questions until there are no more. 0 or negative. */
int differ_serve(int fd);

#endif
