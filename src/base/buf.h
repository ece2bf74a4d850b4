/*
 * A growable byte buffer with a stated maximum. After a failed append the
 * buffer is marked and every later append fails too, so that callers may check
 * once at the end (buf_failed).
 */
#ifndef PINFOLD_BASE_BUF_H
#define PINFOLD_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data; /* always NUL-terminated once something was appended */
	size_t len; /* bytes, without the terminating NUL */
	size_t cap;
	size_t max; /* len never exceeds this */
	int failed; /* 0, or the negative errno of the first failed append */
};

#define AUTO_BUF __attribute__((cleanup(buf_done)))

/* An empty buffer that holds at most max bytes. Nothing is allocated. */
#define BUF_INIT(max_bytes) {.max = (max_bytes)}

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
void buf_reset(struct buf *b);

/* Each returns 0, -ENOMEM, or -EFBIG when max would be exceeded. */
int buf_add(struct buf *b, const void *data, size_t len);
int buf_add_str(struct buf *b, const char *s);
int buf_add_char(struct buf *b, char c);
int buf_addf(struct buf *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Makes room for len more bytes and returns where they go; NULL on failure.
 * The caller then adds what it wrote with buf_commit.
 */
char *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

/* The content as a string, "" when empty. Owned by the buffer. */
const char *buf_str(const struct buf *b);

#endif
