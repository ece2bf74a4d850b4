/*
 * JSON for programs that link the C library alone.
 *
 * The writer makes canonical JSON (RFC 8785) over a struct buf: keys in order
 * of their UTF-16 code units (asserted), integers within +-(2^53 - 1) and no
 * other numbers, the shortest escapes. The reader is strict (RFC 8259, UTF-8
 * checked, no duplicate keys, no lone surrogates, nothing behind the value)
 * and takes its memory from an arena whose size the caller bounds.
 */
#ifndef PINFOLD_SCHEMA_JSON_H
#define PINFOLD_SCHEMA_JSON_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 64
#define JSON_INT_MAX ((int64_t)9007199254740991) /* 2^53 - 1 */

/*
 * Writing. Failures (memory, buffer's maximum, a number out of range, text that
 * is not UTF-8) are kept in the writer and come out of json_finish; calls in
 * between need no check. Keys out of order, a value without a key, and
 * unbalanced ends are bugs of the caller and abort.
 */
struct json_level {
	const char *key; /* last key written at this level */
	size_t key_len;
	bool object;
	bool any;     /* something was written at this level */
	bool has_key; /* a key waits for its value */
};

struct json_writer {
	struct buf *out;
	int failed;
	unsigned depth;
	struct json_level levels[JSON_DEPTH_MAX + 1];
};

void json_begin(struct json_writer *w, struct buf *out);
/* 0, -ENOMEM, -EFBIG, -ERANGE (number), -EILSEQ (text) or -E2BIG (depth). */
int json_finish(struct json_writer *w);

void json_object(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array(struct json_writer *w);
void json_array_end(struct json_writer *w);
/* key must live until the next key of the same object is written. */
void json_key(struct json_writer *w, const char *key);
void json_key_bytes(struct json_writer *w, const char *key, size_t len);
void json_string(struct json_writer *w, const char *s);
void json_string_bytes(struct json_writer *w, const char *s, size_t len);
/* Any bytes: those that are not UTF-8 are written as the four characters \xNN. */
void json_text(struct json_writer *w, const char *s);
void json_int(struct json_writer *w, int64_t v);
void json_uint(struct json_writer *w, uint64_t v);
void json_bool(struct json_writer *w, bool v);
void json_null(struct json_writer *w);

/* A value that is canonical JSON already, such as a policy snapshot. */
void json_raw(struct json_writer *w, const char *json, size_t len);

/* A member: key and value in one. s == NULL writes null. */
void json_put_string(struct json_writer *w, const char *key, const char *s);
void json_put_text(struct json_writer *w, const char *key, const char *s);
void json_put_int(struct json_writer *w, const char *key, int64_t v);
void json_put_uint(struct json_writer *w, const char *key, uint64_t v);
void json_put_bool(struct json_writer *w, const char *key, bool v);

/* Order of two UTF-8 strings by UTF-16 code units: <0, 0, >0. */
int json_key_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* Reading. */
enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_INT,    /* an integer within +-(2^53 - 1) */
	JSON_NUMBER, /* any other number: its text alone is kept */
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

struct json_value {
	enum json_type type;
	bool boolean;
	int64_t integer;
	const char *text; /* string, or number as written; NUL-terminated */
	size_t len;       /* of text: a string may hold NUL characters */
	size_t n;         /* members of an array or object */
	struct json_value *first, *last, *next;
	const char *key; /* in an object: the member's key */
	size_t key_len;
	unsigned line, column;         /* of the value; from 1, characters */
	unsigned key_line, key_column; /* of the key */
};

struct json_chunk;

/* The memory behind a tree of values. */
struct json_doc {
	struct json_chunk *chunks;
	size_t used; /* bytes taken so far */
	size_t max;  /* never exceeded */
	size_t values;
	size_t max_values;
	int failed; /* why the last allocation failed: -EFBIG, -E2BIG, -ENOMEM */
};

#define AUTO_JSON __attribute__((cleanup(json_doc_done)))
#define JSON_DOC_INIT(max_bytes, max_count)                                    \
	{.max = (max_bytes), .max_values = (max_count)}

void json_doc_done(struct json_doc *doc);

enum json_flags {
	JSON_INTEGERS_ONLY = 1, /* JSON_NUMBER and -0 are errors */
};

/*
 * Parses all of text into doc (fresh, with its maxima set). 0 with *ret_root,
 * -EINVAL (syntax), -EILSEQ (not UTF-8), -EEXIST (duplicate key), -E2BIG
 * (depth, number of values), -EFBIG (memory of the arena) or -ENOMEM. The
 * error's text starts with "line L, column C: "; where gives the same place
 * if it is not NULL.
 */
struct json_place {
	unsigned line, column;
};
int json_parse(const char *text, size_t len, unsigned flags,
	       struct json_doc *doc, const struct json_value **ret_root,
	       struct json_place *where, struct error *err);

/* The member of an object, or NULL (also when v is not an object). */
const struct json_value *json_get(const struct json_value *v, const char *key);
/* The member if it has this type, or NULL. */
const struct json_value *json_get_typed(const struct json_value *v,
					const char *key, enum json_type type);
/* The text of a string member without NUL characters, or NULL. */
const char *json_get_string(const struct json_value *v, const char *key);

/* For others who build such a tree (the YAML loader). NULL: no memory/limit. */
void *json_doc_alloc(struct json_doc *doc, size_t size);
struct json_value *json_doc_value(struct json_doc *doc, enum json_type type);
char *json_doc_copy(struct json_doc *doc, const char *s, size_t len);
void json_append(struct json_value *parent, struct json_value *child);
/*
 * Finds a member whose key occurs before in the same object: NULL when there
 * is none. O(n log n). 0, or doc->failed when there was no memory.
 */
int json_find_duplicate(struct json_doc *doc, const struct json_value *object,
			const struct json_value **ret);

#endif
