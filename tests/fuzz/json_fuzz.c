/*
 * The JSON reader: no fault, memory within its bounds, and what it accepted
 * can be written canonically and is read back the same.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "schema/json.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_MAX (1u << 20)

static void write_value(struct json_writer *w, const struct json_value *v);

static int compare_keys(const void *a, const void *b)
{
	const struct json_value *x = *(const struct json_value *const *)a;
	const struct json_value *y = *(const struct json_value *const *)b;

	return json_key_compare(x->key, x->key_len, y->key, y->key_len);
}

static void write_object(struct json_writer *w, const struct json_value *v)
{
	AUTO_FREE const struct json_value **members =
		calloc(v->n + 1, sizeof(*members));
	size_t n = 0;

	if (!members)
		abort();
	for (const struct json_value *m = v->first; m; m = m->next)
		members[n++] = m;
	qsort(members, n, sizeof(*members), compare_keys);
	json_object(w);
	for (size_t i = 0; i < n; i++) {
		json_key_bytes(w, members[i]->key, members[i]->key_len);
		write_value(w, members[i]);
	}
	json_object_end(w);
}

static void write_value(struct json_writer *w, const struct json_value *v)
{
	switch (v->type) {
	case JSON_NULL:
		json_null(w);
		break;
	case JSON_BOOL:
		json_bool(w, v->boolean);
		break;
	case JSON_INT:
		json_int(w, v->integer);
		break;
	case JSON_NUMBER:
		abort(); /* JSON_INTEGERS_ONLY was asked for */
	case JSON_STRING:
		json_string_bytes(w, v->text, v->len);
		break;
	case JSON_ARRAY:
		json_array(w);
		for (const struct json_value *m = v->first; m; m = m->next)
			write_value(w, m);
		json_array_end(w);
		break;
	case JSON_OBJECT:
		write_object(w, v);
		break;
	}
}

/* Canonical text of text, into out; false if it is refused. */
static bool canonical(const char *text, size_t len, struct buf *out)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(MEMORY_MAX, 10000);
	const struct json_value *root;
	struct json_writer w;
	struct json_place place;
	struct error err = {0};

	if (json_parse(text, len, JSON_INTEGERS_ONLY, &doc, &root, &place,
		       &err) < 0) {
		if (!err.text[0])
			abort();
		return false;
	}
	if (doc.used > MEMORY_MAX)
		abort();
	json_begin(&w, out);
	write_value(&w, root);
	if (json_finish(&w) < 0)
		abort();
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf once = BUF_INIT(16 * MEMORY_MAX);
	AUTO_BUF struct buf twice = BUF_INIT(16 * MEMORY_MAX);

	if (!canonical((const char *)data, size, &once))
		return 0;
	if (!canonical(once.data, once.len, &twice) || once.len != twice.len ||
	    memcmp(once.data, twice.data, once.len) != 0)
		abort();
	return 0;
}
