/*
 * Packs and unpacks structures of one machine: numbers, strings, lists, in
 * order, with every length checked. After the first failure the reader stays
 * failed and yields zeros, so that callers check once (codec_end).
 */
#ifndef PINFOLD_IPC_CODEC_H
#define PINFOLD_IPC_CODEC_H

#include "base/buf.h"
#include "base/str.h"

#include <stdint.h>

struct codec_reader {
	const char *data;
	size_t len, at;
	int failed;
};

int codec_put_u32(struct buf *b, uint32_t v);
int codec_put_u64(struct buf *b, uint64_t v);
/* NULL and "" are told apart. */
int codec_put_str(struct buf *b, const char *s);
int codec_put_list(struct buf *b, const struct strlist *list);

uint32_t codec_get_u32(struct codec_reader *r);
uint64_t codec_get_u64(struct codec_reader *r);
/* Points into the data (NUL-terminated there); NULL for NULL or on failure. */
const char *codec_get_str(struct codec_reader *r);
/* Copies a list of at most max strings. */
void codec_get_list(struct codec_reader *r, uint32_t max, struct strlist *ret);
/* 0 when everything was read well and nothing is left over; else -EPROTO. */
int codec_end(const struct codec_reader *r);

#endif
