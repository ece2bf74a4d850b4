/*
 * Canonical JSON output (RFC 8785). Numbers are integers within +-(2^53 - 1),
 * for which the canonical form is plain decimal. What is written is always
 * well-formed as long as json_finish returns 0.
 */
#include "base/str.h"
#include "schema/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

void json_begin(struct json_writer *w, struct buf *out)
{
	*w = (struct json_writer){.out = out};
}

int json_finish(struct json_writer *w)
{
	assert(w->depth == 0 && !w->levels[0].has_key);
	if (w->failed)
		return w->failed;
	return w->out->failed;
}

static void fail(struct json_writer *w, int code)
{
	if (!w->failed)
		w->failed = code;
}

/* What has to stand in front of a value: a comma, or nothing after a key. */
static void before_value(struct json_writer *w)
{
	struct json_level *l = &w->levels[w->depth];

	if (l->object) {
		assert(l->has_key);
		l->has_key = false;
		return;
	}
	assert(w->depth > 0 || !l->any);
	if (l->any)
		buf_add_char(w->out, ',');
	l->any = true;
}

static void begin_level(struct json_writer *w, bool object)
{
	before_value(w);
	buf_add_char(w->out, object ? '{' : '[');
	/* Callers' depth is fixed by their code; data never nests. */
	assert(w->depth < JSON_DEPTH_MAX);
	w->depth++;
	w->levels[w->depth] = (struct json_level){.object = object};
}

static void end_level(struct json_writer *w, bool object)
{
	assert(w->depth > 0 && w->levels[w->depth].object == object &&
	       !w->levels[w->depth].has_key);
	w->depth--;
	buf_add_char(w->out, object ? '}' : ']');
}

void json_object(struct json_writer *w)
{
	begin_level(w, true);
}

void json_object_end(struct json_writer *w)
{
	end_level(w, true);
}

void json_array(struct json_writer *w)
{
	begin_level(w, false);
}

void json_array_end(struct json_writer *w)
{
	end_level(w, false);
}

/*
 * UTF-16 order differs from byte order above U+FFFF alone: surrogates sort
 * below U+E000 to U+FFFF. So lead bytes ee and ef move behind f0 to f4.
 */
static int rank(char c)
{
	unsigned char u = (unsigned char)c;

	return u == 0xee || u == 0xef ? u + 0x100 : u;
}

int json_key_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = a_len < b_len ? a_len : b_len;

	for (size_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return rank(a[i]) - rank(b[i]);
	}
	return a_len < b_len ? -1 : a_len > b_len;
}

static void add_escaped(struct buf *out, unsigned char c)
{
	static const char letters[] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n',  ['\f'] = 'f',
		['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\',
	};

	if (c < sizeof(letters) && letters[c])
		buf_addf(out, "\\%c", letters[c]);
	else
		buf_addf(out, "\\u%04x", c);
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

static void add_string(struct json_writer *w, const char *s, size_t len)
{
	size_t start = 0;

	if (!str_is_utf8(s, len)) {
		fail(w, -EILSEQ);
		len = 0;
	}
	buf_add_char(w->out, '"');
	for (size_t i = 0; i < len; i++) {
		if (is_plain((unsigned char)s[i]))
			continue;
		buf_add(w->out, s + start, i - start);
		add_escaped(w->out, (unsigned char)s[i]);
		start = i + 1;
	}
	if (len > start)
		buf_add(w->out, s + start, len - start);
	buf_add_char(w->out, '"');
}

void json_key_bytes(struct json_writer *w, const char *key, size_t len)
{
	struct json_level *l = &w->levels[w->depth];

	assert(l->object && !l->has_key);
	assert(!l->any || json_key_compare(l->key, l->key_len, key, len) < 0);
	if (l->any)
		buf_add_char(w->out, ',');
	add_string(w, key, len);
	buf_add_char(w->out, ':');
	l->key = key;
	l->key_len = len;
	l->any = true;
	l->has_key = true;
}

void json_key(struct json_writer *w, const char *key)
{
	json_key_bytes(w, key, strlen(key));
}

void json_string_bytes(struct json_writer *w, const char *s, size_t len)
{
	before_value(w);
	add_string(w, s, len);
}

void json_string(struct json_writer *w, const char *s)
{
	json_string_bytes(w, s, strlen(s));
}

/* Length of the longest well-formed start of s, at most four bytes. */
static size_t sequence_length(const char *s, size_t len)
{
	for (size_t n = 1; n <= 4 && n <= len; n++) {
		if (str_is_utf8(s, n))
			return n;
	}
	return 0;
}

void json_text(struct json_writer *w, const char *s)
{
	size_t len = strlen(s);

	before_value(w);
	if (str_is_utf8(s, len)) {
		add_string(w, s, len);
		return;
	}
	buf_add_char(w->out, '"');
	for (size_t i = 0; i < len;) {
		size_t n = sequence_length(s + i, len - i);

		if (n == 0)
			buf_addf(w->out, "\\\\x%02x", (unsigned char)s[i]);
		else if (n == 1 && !is_plain((unsigned char)s[i]))
			add_escaped(w->out, (unsigned char)s[i]);
		else
			buf_add(w->out, s + i, n);
		i += n ? n : 1;
	}
	buf_add_char(w->out, '"');
}

void json_int(struct json_writer *w, int64_t v)
{
	before_value(w);
	if (v > JSON_INT_MAX || v < -JSON_INT_MAX) {
		fail(w, -ERANGE);
		v = 0;
	}
	buf_addf(w->out, "%" PRId64, v);
}

void json_uint(struct json_writer *w, uint64_t v)
{
	if (v > (uint64_t)JSON_INT_MAX) {
		fail(w, -ERANGE);
		v = 0;
	}
	json_int(w, (int64_t)v);
}

void json_bool(struct json_writer *w, bool v)
{
	before_value(w);
	buf_add_str(w->out, v ? "true" : "false");
}

void json_null(struct json_writer *w)
{
	before_value(w);
	buf_add_str(w->out, "null");
}

void json_raw(struct json_writer *w, const char *json, size_t len)
{
	before_value(w);
	buf_add(w->out, json, len);
}

void json_put_string(struct json_writer *w, const char *key, const char *s)
{
	json_key(w, key);
	if (s)
		json_string(w, s);
	else
		json_null(w);
}

void json_put_text(struct json_writer *w, const char *key, const char *s)
{
	json_key(w, key);
	if (s)
		json_text(w, s);
	else
		json_null(w);
}

void json_put_int(struct json_writer *w, const char *key, int64_t v)
{
	json_key(w, key);
	json_int(w, v);
}

void json_put_uint(struct json_writer *w, const char *key, uint64_t v)
{
	json_key(w, key);
	json_uint(w, v);
}

void json_put_bool(struct json_writer *w, const char *key, bool v)
{
	json_key(w, key);
	json_bool(w, v);
}
