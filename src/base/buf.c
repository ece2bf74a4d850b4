#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = 0;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t len)
{
	size_t cap = b->cap ? b->cap : 64;
	char *data;

	if (b->failed)
		return NULL;
	if (len > b->max || b->len > b->max - len ||
	    b->len + len > SIZE_MAX / 2) {
		b->failed = -EFBIG;
		return NULL;
	}
	while (cap < b->len + len + 1)
		cap *= 2;
	if (cap != b->cap) {
		data = realloc(b->data, cap);
		if (!data) {
			b->failed = -ENOMEM;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	return b->data + b->len;
}

void buf_commit(struct buf *b, size_t len)
{
	assert(len < b->cap && b->len + len < b->cap);
	b->len += len;
	b->data[b->len] = '\0';
}

int buf_add(struct buf *b, const void *data, size_t len)
{
	char *to = buf_reserve(b, len);

	if (!to)
		return b->failed;
	if (len > 0)
		memcpy(to, data, len);
	buf_commit(b, len);
	return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

int buf_addf(struct buf *b, const char *format, ...)
{
	char small[256];
	va_list args;
	char *to;
	int n;

	va_start(args, format);
	n = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	if (n < 0)
		return b->failed = -EINVAL;
	if ((size_t)n < sizeof(small))
		return buf_add(b, small, (size_t)n);
	to = buf_reserve(b, (size_t)n);
	if (!to)
		return b->failed;
	va_start(args, format);
	vsnprintf(to, (size_t)n + 1, format, args);
	va_end(args);
	buf_commit(b, (size_t)n);
	return 0;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}
