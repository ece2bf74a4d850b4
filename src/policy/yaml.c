/*
 * A strict subset of YAML, read from libyaml's events into the same tree that
 * the JSON reader makes. What different YAML readers understand differently is
 * refused (anchors, tags, merge keys, directives) or kept as text: a plain
 * scalar is true or false, a decimal number, nothing, or text.
 */
#include "base/str.h"
#include "policy/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct frame {
	struct json_value *value;
	/* In a mapping: the key that waits for its value. */
	const char *key;
	size_t key_len;
	struct json_place key_place;
};

struct reader {
	yaml_parser_t parser;
	struct json_doc *doc;
	struct json_value *root;
	struct frame frames[POLICY_DEPTH_MAX];
	unsigned depth;
	bool had_document;
	bool done;
	struct json_place *where;
	struct error *err;
};

static int fail_at(struct reader *r, const yaml_mark_t *mark, int code,
		   const char *text)
{
	*r->where = (struct json_place){(unsigned)mark->line + 1,
					(unsigned)mark->column + 1};
	return error_set(r->err, code, "%s", text);
}

static int fail_memory(struct reader *r, const yaml_mark_t *mark)
{
	if (r->doc->failed == -E2BIG)
		return fail_at(r, mark, -E2BIG, "too many values in a policy");
	if (r->doc->failed == -EFBIG)
		return fail_at(r, mark, -EFBIG, "the policy needs too much "
						"memory");
	return fail_at(r, mark, -ENOMEM, "out of memory");
}

static const char *skip_digits(const char *s)
{
	while (*s >= '0' && *s <= '9')
		s++;
	return s;
}

static bool is_any(const char *s, const char *const *words)
{
	for (; *words; words++) {
		if (str_eq(s, *words))
			return true;
	}
	return false;
}

/* Hexadecimal, octal and binary numbers of some version of YAML. */
static bool has_radix(const char *s)
{
	return s[0] == '0' && s[1] && strchr("xob", s[1]) && s[2] &&
	       !s[2 + strspn(s + 2, "0123456789abcdefABCDEF_")];
}

/* What some reader of YAML would take for a number. */
static bool looks_like_number(const char *s)
{
	static const char *const words[] = {".inf", ".Inf", ".INF", ".nan",
					    ".NaN", ".NAN", NULL};
	const char *p = s + (*s == '+' || *s == '-');
	size_t mantissa = strspn(p, "0123456789_.");

	if (is_any(p, words) || has_radix(p))
		return true;
	if (*p == '_' || strcspn(p, "0123456789") >= mantissa)
		return false;
	p += mantissa;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '+' || p[1] == '-');
		if (skip_digits(p) == p)
			return false;
		p = skip_digits(p);
	}
	return *p == '\0';
}

static bool is_integer(const char *s, int64_t *ret)
{
	const char *digits = s + (*s == '-');
	size_t n = strlen(digits);
	int64_t v = 0;

	if (n == 0 || n > 16 || *skip_digits(digits) != '\0' ||
	    (digits[0] == '0' && (n > 1 || digits != s)))
		return false;
	for (const char *p = digits; *p; p++)
		v = v * 10 + (*p - '0');
	if (v > JSON_INT_MAX)
		return false;
	*ret = *s == '-' ? -v : v;
	return true;
}

static void resolve_plain(struct json_value *v)
{
	const char *s = v->text;

	if (strlen(s) != v->len)
		return;
	if (!*s || str_eq(s, "~") || str_eq(s, "null") || str_eq(s, "Null") ||
	    str_eq(s, "NULL")) {
		v->type = JSON_NULL;
	} else if (str_eq(s, "true") || str_eq(s, "false")) {
		v->type = JSON_BOOL;
		v->boolean = str_eq(s, "true");
	} else if (is_integer(s, &v->integer)) {
		v->type = JSON_INT;
	} else if (looks_like_number(s)) {
		v->type = JSON_NUMBER;
	}
}

static int check_marks(struct reader *r, const yaml_event_t *event,
		       const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		return fail_at(r, &event->start_mark, -EINVAL,
			       "anchors (&name) are not supported in a policy");
	if (tag)
		return fail_at(r, &event->start_mark, -EINVAL,
			       "tags (!name) are not supported in a policy");
	return 0;
}

static int take_key(struct reader *r, const yaml_event_t *event,
		    struct json_value *v)
{
	struct frame *top = &r->frames[r->depth - 1];

	if (v->type == JSON_STRING && v->len == 2 && str_eq(v->text, "<<") &&
	    event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return fail_at(r, &event->start_mark, -EINVAL,
			       "merge keys (<<) are not supported in a policy");
	if (v->type != JSON_STRING)
		return fail_at(r, &event->start_mark, -EINVAL,
			       v->type == JSON_NULL
				       ? "a key is missing"
				       : "a key must be text; put it in quotes");
	top->key = v->text;
	top->key_len = v->len;
	top->key_place = (struct json_place){
		(unsigned)event->start_mark.line + 1,
		(unsigned)event->start_mark.column + 1,
	};
	return 0;
}

/* Hangs v below the innermost open sequence or mapping. */
static void place_value(struct reader *r, struct json_value *v)
{
	struct frame *top;

	if (r->depth == 0) {
		r->root = v;
		return;
	}
	top = &r->frames[r->depth - 1];
	if (top->value->type == JSON_OBJECT) {
		v->key = top->key;
		v->key_len = top->key_len;
		v->key_line = top->key_place.line;
		v->key_column = top->key_place.column;
		top->key = NULL;
	}
	json_append(top->value, v);
}

static bool wants_key(const struct reader *r)
{
	return r->depth > 0 &&
	       r->frames[r->depth - 1].value->type == JSON_OBJECT &&
	       !r->frames[r->depth - 1].key;
}

static struct json_value *new_value(struct reader *r, const yaml_mark_t *mark,
				    enum json_type type)
{
	struct json_value *v = json_doc_value(r->doc, type);

	if (v) {
		v->line = (unsigned)mark->line + 1;
		v->column = (unsigned)mark->column + 1;
	}
	return v;
}

static int on_scalar(struct reader *r, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	struct json_value *v;
	int code = check_marks(r, event, event->data.scalar.anchor,
			       event->data.scalar.tag);

	if (code < 0)
		return code;
	v = new_value(r, &event->start_mark, JSON_STRING);
	if (v)
		v->text = json_doc_copy(r->doc, text, len);
	if (!v || !v->text)
		return fail_memory(r, &event->start_mark);
	v->len = len;
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		resolve_plain(v);
	if (wants_key(r))
		return take_key(r, event, v);
	place_value(r, v);
	return 0;
}

static int on_start(struct reader *r, const yaml_event_t *event, bool mapping)
{
	const yaml_char_t *anchor = mapping ? event->data.mapping_start.anchor
					    : event->data.sequence_start.anchor;
	const yaml_char_t *tag = mapping ? event->data.mapping_start.tag
					 : event->data.sequence_start.tag;
	struct json_value *v;
	int code = check_marks(r, event, anchor, tag);

	if (code < 0)
		return code;
	if (wants_key(r))
		return fail_at(r, &event->start_mark, -EINVAL,
			       "a key must be text, not a list or a mapping");
	if (r->depth >= POLICY_DEPTH_MAX)
		return fail_at(r, &event->start_mark, -E2BIG,
			       "nested too deeply");
	v = new_value(r, &event->start_mark,
		      mapping ? JSON_OBJECT : JSON_ARRAY);
	if (!v)
		return fail_memory(r, &event->start_mark);
	place_value(r, v);
	r->frames[r->depth++] = (struct frame){.value = v};
	return 0;
}

static int on_end(struct reader *r, const yaml_event_t *event)
{
	const struct json_value *v = r->frames[--r->depth].value;
	const struct json_value *again;
	AUTO_BUF struct buf text = BUF_INIT(1024);

	if (v->type != JSON_OBJECT)
		return 0;
	if (json_find_duplicate(r->doc, v, &again) < 0)
		return fail_memory(r, &event->start_mark);
	if (!again)
		return 0;
	str_quote(&text, again->key, 80);
	buf_add_str(&text, " occurs twice");
	*r->where = (struct json_place){again->key_line, again->key_column};
	return error_set(r->err, -EEXIST, "%s", buf_str(&text));
}

static int on_document(struct reader *r, const yaml_event_t *event)
{
	if (event->data.document_start.version_directive ||
	    event->data.document_start.tag_directives.start !=
		    event->data.document_start.tag_directives.end)
		return fail_at(r, &event->start_mark, -EINVAL,
			       "directives (%) are not supported in a policy");
	if (r->had_document)
		return fail_at(r, &event->start_mark, -EINVAL,
			       "a policy is one document: remove the second");
	r->had_document = true;
	return 0;
}

static int on_event(struct reader *r, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return on_document(r, event);
	case YAML_ALIAS_EVENT:
		return fail_at(r, &event->start_mark, -EINVAL,
			       "aliases (*name) are not supported in a policy");
	case YAML_SCALAR_EVENT:
		return on_scalar(r, event);
	case YAML_SEQUENCE_START_EVENT:
		return on_start(r, event, false);
	case YAML_MAPPING_START_EVENT:
		return on_start(r, event, true);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return on_end(r, event);
	case YAML_STREAM_END_EVENT:
		r->done = true;
		return 0;
	default:
		return 0;
	}
}

/* Turns libyaml's own error into ours. */
static int scanner_error(struct reader *r, const char *text, size_t len)
{
	const yaml_mark_t *mark = &r->parser.problem_mark;
	const char *problem = r->parser.problem ? r->parser.problem
						: "not YAML";

	if (r->parser.error == YAML_MEMORY_ERROR)
		return fail_at(r, &r->parser.mark, -ENOMEM, "out of memory");
	if (r->parser.error == YAML_READER_ERROR) {
		yaml_mark_t at = {0, 0, 0};

		for (size_t i = 0; i < r->parser.problem_offset && i < len;
		     i++) {
			if (text[i] == '\n') {
				at.line++;
				at.column = 0;
			} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
				at.column++;
			}
		}
		return fail_at(r, &at, -EINVAL, problem);
	}
	if (mark->index < len && text[mark->index] == '\t')
		problem = "a tab where YAML wants spaces";
	return fail_at(r, mark, -EINVAL, problem);
}

/* libyaml counts characters; an offset of the text is wanted once at most. */
static int check_text(const char *text, size_t len, struct reader *r)
{
	yaml_mark_t at = {0, 0, 0};

	for (size_t i = 0, n; i < len; i += n) {
		for (n = 1; n < 4 && i + n < len &&
			    ((unsigned char)text[i + n] & 0xc0) == 0x80;)
			n++;
		if (!str_is_utf8(text + i, n))
			return fail_at(r, &at, -EILSEQ, "not UTF-8");
		if (text[i] == '\0')
			return fail_at(r, &at, -EINVAL, "a NUL character");
		at.column++;
		if (text[i] == '\n') {
			at.line++;
			at.column = 0;
		}
	}
	return 0;
}

static int read_events(struct reader *r, const char *text, size_t len)
{
	while (!r->done) {
		yaml_event_t event;
		int code;

		if (!yaml_parser_parse(&r->parser, &event))
			return scanner_error(r, text, len);
		code = on_event(r, &event);
		yaml_event_delete(&event);
		if (code < 0)
			return code;
	}
	return 0;
}

int yaml_parse(const char *text, size_t len, struct json_doc *doc,
	       const struct json_value **ret_root, struct json_place *where,
	       struct error *err)
{
	struct reader r = {.doc = doc, .where = where, .err = err};
	static const yaml_mark_t start;
	int code;

	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		text += 3;
		len -= 3;
	}
	code = check_text(text, len, &r);
	if (code < 0)
		return code;
	if (!yaml_parser_initialize(&r.parser))
		return fail_at(&r, &start, -ENOMEM, "out of memory");
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text,
				     len);
	code = read_events(&r, text, len);
	yaml_parser_delete(&r.parser);
	if (code < 0)
		return code;
	if (!r.root)
		return fail_at(&r, &start, -EINVAL,
			       "the policy is empty; it starts with "
			       "\"version: 1\"");
	*ret_root = r.root;
	return 0;
}
