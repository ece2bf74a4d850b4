/*
 * Numbers from text: whole strings only, ranges checked, no sign or space
 * accepted where none is meant. Sizes and durations carry their units.
 */
#ifndef PINFOLD_BASE_NUM_H
#define PINFOLD_BASE_NUM_H

#include "base/buf.h"

#include <stdint.h>

/* Each returns 0, -EINVAL (not a number, unknown unit) or -ERANGE. */
int num_parse_u64(const char *s, uint64_t *ret);
/* Bytes: "4096", "4KiB", "2MiB", "1GiB", "1TiB", and kB/MB/GB/TB (1000s). */
int num_parse_size(const char *s, uint64_t *ret);
/* Milliseconds from "500ms", "30s", "5m", "8h", "90d", "1m30s". */
int num_parse_duration(const char *s, uint64_t *ret_ms);
/* Thousandths from "2" or "0.5" (three digits after the point at most). */
int num_parse_milli(const char *s, uint64_t *ret_milli);

/* The shortest exact text that num_parse_size/_duration read back. */
int num_format_size(struct buf *b, uint64_t bytes);
int num_format_duration(struct buf *b, uint64_t ms);
int num_format_milli(struct buf *b, uint64_t milli);
/* For people: "1.4 MiB", "850 ms", "2.3 s", "4 min 10 s". */
int num_human_size(struct buf *b, uint64_t bytes);
int num_human_duration(struct buf *b, uint64_t us);

#endif
