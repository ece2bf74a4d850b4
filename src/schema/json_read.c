/*
 * The strict JSON reader (RFC 8259). It is for small documents of our own
 * programs and for policies: depth, number of values and memory are bounded,
 * the tree lives in one arena, and every error names its line and column.
 */
#include "base/str.h"
#include "schema/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE 4096

struct json_chunk {
	struct json_chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char data[];
};

struct reader {
	const char *text;
	size_t len, pos;
	unsigned flags;
	unsigned depth;
	size_t seen; /* offset whose place is known */
	struct json_place place;
	struct json_doc *doc;
	struct json_place *where;
	struct error *err;
	int failed; /* the first failure's code */
};

void json_doc_done(struct json_doc *doc)
{
	struct json_chunk *c = doc->chunks;

	while (c) {
		struct json_chunk *next = c->next;

		free(c);
		c = next;
	}
	*doc = (struct json_doc){.max = doc->max, .max_values = doc->max_values};
}

static void *alloc_failed(struct json_doc *doc, int code)
{
	doc->failed = code;
	return NULL;
}

void *json_doc_alloc(struct json_doc *doc, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	struct json_chunk *c = doc->chunks;
	void *p;

	if (size > doc->max || doc->max > SIZE_MAX / 2)
		return alloc_failed(doc, -EFBIG);
	size = (size + align - 1) & ~(align - 1);
	if (size > doc->max - doc->used)
		return alloc_failed(doc, -EFBIG);
	if (!c || c->size - c->used < size) {
		size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;

		c = malloc(sizeof(*c) + room);
		if (!c)
			return alloc_failed(doc, -ENOMEM);
		*c = (struct json_chunk){.next = doc->chunks, .size = room};
		doc->chunks = c;
	}
	p = c->data + c->used;
	c->used += size;
	doc->used += size;
	return p;
}

struct json_value *json_doc_value(struct json_doc *doc, enum json_type type)
{
	struct json_value *v;

	if (doc->values >= doc->max_values)
		return alloc_failed(doc, -E2BIG);
	v = json_doc_alloc(doc, sizeof(*v));
	if (!v)
		return NULL;
	*v = (struct json_value){.type = type};
	doc->values++;
	return v;
}

char *json_doc_copy(struct json_doc *doc, const char *s, size_t len)
{
	char *p = len < SIZE_MAX ? json_doc_alloc(doc, len + 1) : NULL;

	if (!p)
		return NULL;
	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

void json_append(struct json_value *parent, struct json_value *child)
{
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	parent->last = child;
	parent->n++;
}

static int compare_members(const void *a, const void *b)
{
	const struct json_value *x = *(const struct json_value *const *)a;
	const struct json_value *y = *(const struct json_value *const *)b;
	size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
	int r = memcmp(x->key, y->key, n);

	if (r != 0)
		return r;
	if (x->key_len != y->key_len)
		return x->key_len < y->key_len ? -1 : 1;
	/* Equal keys in the order of the text: the later is the duplicate. */
	if (x->key_line != y->key_line)
		return x->key_line < y->key_line ? -1 : 1;
	if (x->key_column != y->key_column)
		return x->key_column < y->key_column ? -1 : 1;
	return 0;
}

int json_find_duplicate(struct json_doc *doc, const struct json_value *object,
			const struct json_value **ret)
{
	const struct json_value **all;
	size_t n = 0;

	*ret = NULL;
	if (object->n < 2)
		return 0;
	all = json_doc_alloc(doc, object->n * sizeof(*all));
	if (!all)
		return doc->failed;
	for (const struct json_value *v = object->first; v; v = v->next)
		all[n++] = v;
	qsort(all, n, sizeof(*all), compare_members);
	for (size_t i = 1; i < n; i++) {
		if (all[i]->key_len == all[i - 1]->key_len &&
		    !memcmp(all[i]->key, all[i - 1]->key, all[i]->key_len)) {
			*ret = all[i];
			break;
		}
	}
	return 0;
}

/* Line and column of an offset; offsets mostly grow, so this is linear. */
static struct json_place place_of(struct reader *r, size_t pos)
{
	if (pos < r->seen) {
		r->seen = 0;
		r->place = (struct json_place){1, 1};
	}
	for (; r->seen < pos; r->seen++) {
		if (r->text[r->seen] == '\n') {
			r->place.line++;
			r->place.column = 1;
		} else if (((unsigned char)r->text[r->seen] & 0xc0) != 0x80) {
			r->place.column++;
		}
	}
	return r->place;
}

static int fail_at(struct reader *r, size_t pos, int code, const char *what)
{
	struct json_place p = place_of(r, pos);

	if (r->failed)
		return r->failed;
	r->failed = code;
	if (r->where)
		*r->where = p;
	return error_set(r->err, code, "line %u, column %u: %s", p.line,
			 p.column, what);
}

static int fail_memory(struct reader *r, size_t pos)
{
	int code = r->doc->failed;

	if (code == -E2BIG)
		return fail_at(r, pos, code, "too many values");
	if (code == -EFBIG)
		return fail_at(r, pos, code, "the text needs too much memory");
	return fail_at(r, pos, -ENOMEM, "out of memory");
}

static void skip_space(struct reader *r)
{
	while (r->pos < r->len && strchr(" \t\r\n", r->text[r->pos]) &&
	       r->text[r->pos])
		r->pos++;
}

static int peek(const struct reader *r)
{
	return r->pos < r->len ? (unsigned char)r->text[r->pos] : -1;
}

static int hex_digits(struct reader *r, unsigned *ret)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++, r->pos++) {
		int c = peek(r);

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (unsigned)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			v = v << 4 | (unsigned)(c - 'A' + 10);
		else
			return fail_at(r, r->pos, -EINVAL,
				       "four hexadecimal digits expected");
	}
	*ret = v;
	return 0;
}

static size_t put_utf8(char *to, unsigned cp)
{
	if (cp < 0x80) {
		to[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		to[0] = (char)(0xc0 | cp >> 6);
		to[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		to[0] = (char)(0xe0 | cp >> 12);
		to[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		to[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | cp >> 18);
	to[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	to[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	to[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

/* The second half of a surrogate pair, as another escape. */
static int read_low(struct reader *r, unsigned *cp)
{
	unsigned low = 0;

	if (r->len - r->pos >= 2 && r->text[r->pos] == '\\' &&
	    r->text[r->pos + 1] == 'u') {
		r->pos += 2;
		if (hex_digits(r, &low) < 0)
			return r->failed;
	}
	if (low < 0xdc00 || low > 0xdfff)
		return fail_at(r, r->pos, -EILSEQ, "lone surrogate");
	*cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

/* \uXXXX behind the "u"; surrogates in pairs only. */
static int read_unicode(struct reader *r, char *to, size_t *n)
{
	unsigned cp;

	if (hex_digits(r, &cp) < 0)
		return r->failed;
	if (cp >= 0xdc00 && cp <= 0xdfff)
		return fail_at(r, r->pos, -EILSEQ, "lone surrogate");
	if (cp >= 0xd800 && cp <= 0xdbff && read_low(r, &cp) < 0)
		return r->failed;
	*n += put_utf8(to + *n, cp);
	return 0;
}

static int read_escape(struct reader *r, char *to, size_t *n)
{
	static const char from[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
	int c = peek(r);
	const char *at = c > 0 ? strchr(from, c) : NULL;

	if (at) {
		to[(*n)++] = plain[at - from];
		r->pos++;
		return 0;
	}
	if (c != 'u')
		return fail_at(r, r->pos - 1, -EINVAL, "unknown escape");
	r->pos++;
	return read_unicode(r, to, n);
}

/* At the opening quote. The decoded text is never longer than its source. */
static int read_string(struct reader *r, const char **ret, size_t *ret_len)
{
	size_t start = r->pos++, end = r->pos, n = 0;
	char *to;

	while (end < r->len && r->text[end] != '"')
		end += r->text[end] == '\\' ? 2 : 1;
	if (end >= r->len)
		return fail_at(r, start, -EINVAL, "string without its end");
	to = json_doc_alloc(r->doc, end - r->pos + 1);
	if (!to)
		return fail_memory(r, start);
	while (r->text[r->pos] != '"') {
		unsigned char c = (unsigned char)r->text[r->pos];

		if (c < 0x20)
			return fail_at(r, r->pos, -EINVAL,
				       "control character in a string");
		r->pos++;
		if (c != '\\')
			to[n++] = (char)c;
		else if (read_escape(r, to, &n) < 0)
			return r->failed;
	}
	r->pos++;
	to[n] = '\0';
	*ret = to;
	*ret_len = n;
	return 0;
}

static size_t skip_digits(const struct reader *r, size_t pos)
{
	while (pos < r->len && r->text[pos] >= '0' && r->text[pos] <= '9')
		pos++;
	return pos;
}

static bool at_any(const struct reader *r, size_t pos, const char *chars)
{
	return pos < r->len && r->text[pos] && strchr(chars, r->text[pos]);
}

/* The end of the digits that must stand at pos; 0 if none do. */
static size_t need_digits(const struct reader *r, size_t pos)
{
	size_t end = skip_digits(r, pos);

	return end > pos ? end : 0;
}

/* The end of the number at pos, 0 if there is none. Sets *integer. */
static size_t number_end(const struct reader *r, size_t pos, bool *integer)
{
	size_t digits = pos + at_any(r, pos, "-");
	size_t end = need_digits(r, digits);

	*integer = true;
	if (end > digits + 1 && r->text[digits] == '0')
		return 0;
	if (end && at_any(r, end, ".")) {
		*integer = false;
		end = need_digits(r, end + 1);
	}
	if (end && at_any(r, end, "eE")) {
		*integer = false;
		end = need_digits(r, end + 1 + at_any(r, end + 1, "+-"));
	}
	return end;
}

/* The number in text[start..end); false if it is out of range or -0. */
static bool integer_value(const struct reader *r, size_t start, size_t end,
			  int64_t *ret)
{
	bool negative = r->text[start] == '-';
	int64_t n = 0;

	for (size_t i = start + negative; i < end; i++) {
		n = n * 10 + (r->text[i] - '0');
		if (n > JSON_INT_MAX)
			return false;
	}
	*ret = negative ? -n : n;
	return !negative || n != 0;
}

static int read_number(struct reader *r, struct json_value *v)
{
	bool integer;
	size_t start = r->pos, end = number_end(r, start, &integer);

	if (end == 0)
		return fail_at(r, start, -EINVAL, "not a JSON number");
	integer = integer && integer_value(r, start, end, &v->integer);
	if (!integer && (r->flags & JSON_INTEGERS_ONLY))
		return fail_at(r, start, -EINVAL,
			       "a whole number of at most 2^53 - 1 expected");
	v->type = integer ? JSON_INT : JSON_NUMBER;
	v->text = json_doc_copy(r->doc, r->text + start, end - start);
	v->len = end - start;
	r->pos = end;
	return v->text ? 0 : fail_memory(r, start);
}

static int read_word(struct reader *r, struct json_value *v)
{
	static const struct {
		const char *word;
		enum json_type type;
		bool value;
	} words[] = {
		{"true", JSON_BOOL, true},
		{"false", JSON_BOOL, false},
		{"null", JSON_NULL, false},
	};

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(words[i].word);

		if (r->len - r->pos < n ||
		    memcmp(r->text + r->pos, words[i].word, n))
			continue;
		v->type = words[i].type;
		v->boolean = words[i].value;
		r->pos += n;
		return 0;
	}
	return fail_at(r, r->pos, -EINVAL, "a JSON value expected");
}

static int read_value(struct reader *r, struct json_value **ret);

static int read_member(struct reader *r, bool object, struct json_value *parent)
{
	struct json_value *v;
	const char *key = NULL;
	size_t key_len = 0, key_pos = r->pos;
	struct json_place p = {0, 0};

	if (object) {
		if (peek(r) != '"')
			return fail_at(r, r->pos, -EINVAL,
				       "a key in double quotes expected");
		p = place_of(r, key_pos);
		if (read_string(r, &key, &key_len) < 0)
			return r->failed;
		skip_space(r);
		if (peek(r) != ':')
			return fail_at(r, r->pos, -EINVAL, "':' expected");
		r->pos++;
		skip_space(r);
	}
	if (read_value(r, &v) < 0)
		return r->failed;
	v->key = key;
	v->key_len = key_len;
	v->key_line = p.line;
	v->key_column = p.column;
	json_append(parent, v);
	return 0;
}

static int check_duplicates(struct reader *r, const struct json_value *object)
{
	const struct json_value *again;

	if (json_find_duplicate(r->doc, object, &again) < 0)
		return fail_memory(r, r->pos);
	if (!again)
		return 0;
	r->failed = -EEXIST;
	if (r->where)
		*r->where = (struct json_place){again->key_line,
						again->key_column};
	return error_set(r->err, -EEXIST,
			 "line %u, column %u: key occurs twice",
			 again->key_line, again->key_column);
}

/* At the opening bracket. */
static int read_list(struct reader *r, struct json_value *v)
{
	bool object = v->type == JSON_OBJECT;
	char close = object ? '}' : ']';

	if (r->depth >= JSON_DEPTH_MAX)
		return fail_at(r, r->pos, -E2BIG, "nested too deeply");
	r->depth++;
	r->pos++;
	skip_space(r);
	if (peek(r) == close) {
		r->pos++;
		r->depth--;
		return 0;
	}
	for (;;) {
		if (read_member(r, object, v) < 0)
			return r->failed;
		skip_space(r);
		if (peek(r) == close)
			break;
		if (peek(r) != ',')
			return fail_at(r, r->pos, -EINVAL,
				       object ? "',' or '}' expected"
					      : "',' or ']' expected");
		r->pos++;
		skip_space(r);
	}
	r->pos++;
	r->depth--;
	return object ? check_duplicates(r, v) : 0;
}

static int read_value(struct reader *r, struct json_value **ret)
{
	struct json_value *v = json_doc_value(r->doc, JSON_NULL);
	struct json_place p;
	int c = peek(r);

	if (!v)
		return fail_memory(r, r->pos);
	p = place_of(r, r->pos);
	v->line = p.line;
	v->column = p.column;
	*ret = v;
	if (c == '{' || c == '[') {
		v->type = c == '{' ? JSON_OBJECT : JSON_ARRAY;
		return read_list(r, v);
	}
	if (c == '"') {
		v->type = JSON_STRING;
		return read_string(r, &v->text, &v->len);
	}
	if (c == '-' || (c >= '0' && c <= '9'))
		return read_number(r, v);
	return read_word(r, v);
}

int json_parse(const char *text, size_t len, unsigned flags,
	       struct json_doc *doc, const struct json_value **ret_root,
	       struct json_place *where, struct error *err)
{
	struct reader r = {
		.text = text,
		.len = len,
		.flags = flags,
		.place = {1, 1},
		.doc = doc,
		.where = where,
		.err = err,
	};
	struct json_value *root;

	if (!str_is_utf8(text, len))
		return fail_at(&r, 0, -EILSEQ, "the text is not UTF-8");
	skip_space(&r);
	if (read_value(&r, &root) < 0)
		return r.failed;
	skip_space(&r);
	if (r.pos < len)
		return fail_at(&r, r.pos, -EINVAL, "text behind the value");
	*ret_root = root;
	return 0;
}

const struct json_value *json_get(const struct json_value *v, const char *key)
{
	size_t n = strlen(key);

	if (!v || v->type != JSON_OBJECT)
		return NULL;
	for (const struct json_value *m = v->first; m; m = m->next) {
		if (m->key_len == n && !memcmp(m->key, key, n))
			return m;
	}
	return NULL;
}

const struct json_value *json_get_typed(const struct json_value *v,
					const char *key, enum json_type type)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type == type ? m : NULL;
}

const char *json_get_string(const struct json_value *v, const char *key)
{
	const struct json_value *m = json_get_typed(v, key, JSON_STRING);

	return m && strlen(m->text) == m->len ? m->text : NULL;
}
