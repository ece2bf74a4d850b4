/*
 * The question is binary (texts need not be UTF-8): little-endian 32-bit
 * numbers flags and n, then for each text the lengths of name and text and
 * both with a NUL behind each. The answer is canonical JSON; the snapshot is
 * in it as a string, byte for byte.
 */
#include "policy/compile.h"

#include "base/cleanup.h"
#include "policy/field.h"

#include <errno.h>
#include <string.h>

static void put_u32(struct buf *out, size_t v)
{
	char bytes[4];

	for (unsigned i = 0; i < 4; i++)
		bytes[i] = (char)(v >> (8 * i) & 0xff);
	buf_add(out, bytes, 4);
}

static bool get_u32(const char **at, const char *end, size_t *ret)
{
	size_t v = 0;

	if (end - *at < 4)
		return false;
	for (unsigned i = 0; i < 4; i++)
		v |= (size_t)(unsigned char)(*at)[i] << (8 * i);
	*at += 4;
	*ret = v;
	return true;
}

int compile_question_write(struct buf *out, const struct policy_input *inputs,
			   size_t n, unsigned flags)
{
	put_u32(out, flags);
	put_u32(out, n);
	for (size_t i = 0; i < n; i++) {
		put_u32(out, strlen(inputs[i].name));
		put_u32(out, inputs[i].len);
		buf_add(out, inputs[i].name, strlen(inputs[i].name) + 1);
		buf_add(out, inputs[i].text, inputs[i].len);
		buf_add_char(out, '\0');
	}
	return out->failed;
}

static bool get_bytes(const char **at, const char *end, size_t len,
		      const char **ret)
{
	if ((size_t)(end - *at) <= len || (*at)[len] != '\0')
		return false;
	*ret = *at;
	*at += len + 1;
	return true;
}

static bool get_input(const char **at, const char *end,
		      struct policy_input *ret)
{
	size_t name_len;

	return get_u32(at, end, &name_len) && get_u32(at, end, &ret->len) &&
	       name_len <= COMPILE_NAME_MAX &&
	       get_bytes(at, end, name_len, &ret->name) &&
	       strlen(ret->name) == name_len &&
	       get_bytes(at, end, ret->len, &ret->text);
}

int compile_question_read(const char *data, size_t len,
			  struct policy_input inputs[POLICY_CHAIN_MAX],
			  size_t *ret_n, unsigned *ret_flags)
{
	const char *at = data, *end = data + len;
	size_t flags, n;

	if (!get_u32(&at, end, &flags) || !get_u32(&at, end, &n) || n < 1 ||
	    n > POLICY_CHAIN_MAX || (flags & ~(size_t)POLICY_LOAD_ALL))
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		if (!get_input(&at, end, &inputs[i]))
			return -EPROTO;
	}
	if (at != end)
		return -EPROTO;
	*ret_n = n;
	*ret_flags = (unsigned)flags;
	return 0;
}

void compile_answer_done(struct compile_answer *a)
{
	if (a->compiled)
		policy_done(&a->policy);
	free(a->need);
	strlist_done(&a->problems);
	*a = (struct compile_answer){0};
}

static void write_mask(struct json_writer *w, const char *key, uint64_t mask)
{
	json_key(w, key);
	json_array(w);
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (mask & field_bit(&policy_fields[i]))
			json_string(w, policy_fields[i].name);
	}
	json_array_end(w);
}

int compile_answer_write(struct buf *out, const struct compile_answer *a)
{
	AUTO_BUF struct buf snapshot = BUF_INIT(POLICY_TEXT_MAX);
	struct json_writer w;
	int r;

	json_begin(&w, out);
	json_object(&w);
	if (a->compiled) {
		r = policy_to_json(&a->policy, &snapshot);
		if (r < 0) {
			buf_reset(out);
			return r;
		}
		write_mask(&w, "given", a->policy.given);
		json_key(&w, "policy");
		json_string_bytes(&w, snapshot.data, snapshot.len);
		write_mask(&w, "sealed", a->policy.sealed);
	} else if (a->need) {
		json_put_text(&w, "need", a->need);
	} else {
		json_key(&w, "problems");
		json_array(&w);
		for (size_t i = 0; i < a->problems.n; i++)
			json_text(&w, a->problems.items[i]);
		json_array_end(&w);
	}
	json_object_end(&w);
	return json_finish(&w);
}

static int read_mask(const struct json_value *list, uint64_t *ret)
{
	*ret = 0;
	if (!list)
		return -EPROTO;
	for (const struct json_value *v = list->first; v; v = v->next) {
		const struct policy_field *f;

		f = v->type == JSON_STRING ? field_find(v->text) : NULL;
		if (!f || !field_is_value(f))
			return -EPROTO;
		*ret |= field_bit(f);
	}
	return 0;
}

static int read_policy(const struct json_value *root,
		       const struct json_value *text,
		       struct compile_answer *ret, struct error *err)
{
	uint64_t given, sealed;
	int r;

	if (root->n != 3 ||
	    read_mask(json_get_typed(root, "given", JSON_ARRAY), &given) < 0 ||
	    read_mask(json_get_typed(root, "sealed", JSON_ARRAY), &sealed) < 0)
		return -EPROTO;
	r = policy_from_json(text->text, text->len, &ret->policy, err);
	if (r < 0)
		return r;
	ret->compiled = true;
	ret->policy.given = given;
	ret->policy.sealed = sealed;
	return 0;
}

/* Text that does nothing to a terminal: a compiler gone bad wrote it. */
static bool is_harmless(const char *text)
{
	AUTO_BUF struct buf quoted = BUF_INIT(COMPILE_ANSWER_MAX);
	size_t len = strlen(text), escaped = 2;

	for (size_t i = 0; i < len; i++)
		escaped += text[i] == '"' || text[i] == '\\';
	return str_quote(&quoted, text, len) == 0 &&
	       quoted.len == len + escaped;
}

static int read_problems(const struct json_value *list, struct strlist *ret)
{
	int r = list->n > 0 ? 0 : -EPROTO;

	for (const struct json_value *v = list->first; v && r == 0;
	     v = v->next) {
		if (v->type != JSON_STRING || strlen(v->text) != v->len ||
		    !is_harmless(v->text))
			return -EPROTO;
		r = strlist_add(ret, v->text);
	}
	return r;
}

int compile_answer_read(const char *json, size_t len,
			struct compile_answer *ret, struct error *err)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(COMPILE_ANSWER_MAX * 2,
						      1024);
	const struct json_value *root, *v;
	struct compile_answer a = {0};
	const char *need;
	int r = json_parse(json, len, JSON_INTEGERS_ONLY, &doc, &root, NULL,
			   err);

	if (r < 0)
		return r;
	r = -EPROTO;
	need = json_get_string(root, "need");
	if ((v = json_get_typed(root, "policy", JSON_STRING))) {
		r = read_policy(root, v, &a, err);
	} else if (need && root->n == 1 && extends_is_path(need)) {
		a.need = strdup(need);
		r = a.need ? 0 : -ENOMEM;
	} else if ((v = json_get_typed(root, "problems", JSON_ARRAY)) &&
		   root->n == 1) {
		r = read_problems(v, &a.problems);
	}
	if (r < 0) {
		compile_answer_done(&a);
		return error_set(err, r, "not an answer of pinfold-policy");
	}
	*ret = a;
	return 0;
}
