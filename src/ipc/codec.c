#include "ipc/codec.h"

#include <errno.h>
#include <string.h>

#define NO_STRING UINT32_MAX

int codec_put_u32(struct buf *b, uint32_t v)
{
	return buf_add(b, &v, sizeof(v));
}

int codec_put_u64(struct buf *b, uint64_t v)
{
	return buf_add(b, &v, sizeof(v));
}

int codec_put_str(struct buf *b, const char *s)
{
	size_t n;

	if (!s)
		return codec_put_u32(b, NO_STRING);
	n = strlen(s);
	if (n >= NO_STRING)
		return b->failed = -EFBIG;
	codec_put_u32(b, (uint32_t)n);
	return buf_add(b, s, n + 1);
}

int codec_put_list(struct buf *b, const struct strlist *list)
{
	codec_put_u32(b, (uint32_t)list->n);
	for (size_t i = 0; i < list->n; i++)
		codec_put_str(b, list->items[i]);
	return b->failed;
}

static const void *take(struct codec_reader *r, size_t n)
{
	const char *p = r->data + r->at;

	if (r->failed)
		return NULL;
	if (n > r->len - r->at) {
		r->failed = -EPROTO;
		return NULL;
	}
	r->at += n;
	return p;
}

uint32_t codec_get_u32(struct codec_reader *r)
{
	uint32_t v = 0;
	const void *p = take(r, sizeof(v));

	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

uint64_t codec_get_u64(struct codec_reader *r)
{
	uint64_t v = 0;
	const void *p = take(r, sizeof(v));

	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

const char *codec_get_str(struct codec_reader *r)
{
	uint32_t n = codec_get_u32(r);
	const char *s;

	if (r->failed || n == NO_STRING)
		return NULL;
	s = take(r, (size_t)n + 1);
	if (s && memchr(s, '\0', (size_t)n + 1) != s + n) {
		r->failed = -EPROTO;
		return NULL;
	}
	return s;
}

void codec_get_list(struct codec_reader *r, uint32_t max, struct strlist *ret)
{
	uint32_t n = codec_get_u32(r);

	if (n > max)
		r->failed = -EPROTO;
	for (uint32_t i = 0; i < n && !r->failed; i++) {
		const char *s = codec_get_str(r);

		if (!s)
			r->failed = -EPROTO;
		else if (strlist_add(ret, s) < 0)
			r->failed = -ENOMEM;
	}
}

int codec_end(const struct codec_reader *r)
{
	if (r->failed)
		return r->failed;
	return r->at == r->len ? 0 : -EPROTO;
}
