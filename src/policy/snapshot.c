/*
 * The policy snapshot: canonical JSON of every field. It is written in the
 * words of the policy language and read back only in exactly these bytes, so
 * that a policy has one snapshot and one digest.
 */
#include "base/cleanup.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

/* Bytes that the tree of the largest snapshot can take. */
#define TREE_MAX ((size_t)64 << 20)
#define VALUES_MAX (7 * POLICY_LIST_MAX)

static bool in_snapshot(const struct policy_field *f)
{
	return field_is_value(f) || f->type == FIELD_CONST ||
	       f->type == FIELD_VERSION;
}

static void write_list(struct json_writer *w, const struct strlist *list)
{
	json_array(w);
	for (size_t i = 0; i < list->n; i++)
		json_string(w, list->items[i]);
	json_array_end(w);
}

static void write_env(struct json_writer *w, const struct strlist *list)
{
	json_object(w);
	for (size_t i = 0; i < list->n; i++) {
		size_t n = strcspn(list->items[i], "=");

		json_key_bytes(w, list->items[i], n);
		json_string(w, list->items[i] + n + 1);
	}
	json_object_end(w);
}

static void write_scalar(struct json_writer *w, const struct policy_field *f,
			 uint64_t v)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (f->type == FIELD_BOOL) {
		json_bool(w, v != 0);
	} else if (f->type == FIELD_COUNT && v != LIMIT_NONE) {
		json_uint(w, v);
	} else {
		if (field_format(f, v, &text) < 0 && !w->failed)
			w->failed = text.failed;
		json_string(w, buf_str(&text));
	}
}

static void write_field(struct json_writer *w, const struct policy_field *f,
			const struct policy *p)
{
	if (f->type == FIELD_VERSION)
		json_int(w, POLICY_VERSION);
	else if (f->type == FIELD_CONST)
		json_string(w, f->values[0]);
	else if (f->type == FIELD_ENV)
		write_env(w, field_list_const(f, p));
	else if (field_is_list(f))
		write_list(w, field_list_const(f, p));
	else
		write_scalar(w, f, field_get(f, p));
}

/* Number of dots in a name: how deep its object lies. */
static unsigned depth_of(const char *name)
{
	unsigned n = 0;

	for (; *name; name++)
		n += *name == '.';
	return n;
}

int policy_to_json(const struct policy *p, struct buf *out)
{
	struct json_writer w;
	unsigned depth = 0;

	json_begin(&w, out);
	json_object(&w);
	/* Rows are sorted, a section's row stands before its fields. */
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];
		const char *dot = strrchr(f->name, '.');

		if (f->type != FIELD_SECTION && !in_snapshot(f))
			continue;
		for (; depth > depth_of(f->name); depth--)
			json_object_end(&w);
		json_key(&w, dot ? dot + 1 : f->name);
		if (f->type == FIELD_SECTION) {
			json_object(&w);
			depth++;
		} else {
			write_field(&w, f, p);
		}
	}
	for (; depth > 0; depth--)
		json_object_end(&w);
	json_object_end(&w);
	return json_finish(&w);
}

int policy_digest(const struct policy *p, char hex[SHA256_HEX_SIZE])
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	int r = policy_to_json(p, &json);

	if (r < 0)
		return r;
	sha256_hex(json.data, json.len, hex);
	return 0;
}

/* The first problem ends the reading: a snapshot is right or it is not. */
static int take_problem(void *arg, const struct bind_problem *problem)
{
	return error_set(arg, -EINVAL, "policy snapshot: line %u, column %u: %s",
			 problem->line, problem->column, problem->text);
}

static int check_canonical(const struct policy *p, const char *json, size_t len,
			   struct error *err)
{
	AUTO_BUF struct buf again = BUF_INIT(POLICY_TEXT_MAX);
	int r = policy_to_json(p, &again);

	if (r == -ENOMEM)
		return error_set(err, r, "out of memory");
	if (r < 0 || again.len != len || memcmp(again.data, json, len) != 0)
		return error_set(err, -EINVAL,
				 "policy snapshot: not in canonical form");
	return 0;
}

int policy_from_json(const char *json, size_t len, struct policy *p,
		     struct error *err)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(TREE_MAX, VALUES_MAX);
	const struct json_value *root;
	struct policy new = {0};
	struct bind b = {
		.p = &new, .complete = true, .report = take_problem, .arg = err,
	};
	int r;

	if (len > POLICY_TEXT_MAX)
		return error_set(err, -EFBIG, "policy snapshot: larger than "
				 "%u bytes", POLICY_TEXT_MAX);
	r = json_parse(json, len, JSON_INTEGERS_ONLY, &doc, &root, NULL, err);
	if (r < 0)
		return error_prefix(err, "policy snapshot");
	r = bind_policy(&b, root);
	if (r == -ENOMEM)
		error_set(err, r, "out of memory");
	if (r == 0)
		r = check_canonical(&new, json, len, err);
	if (r == 0) {
		new.name = strdup("snapshot");
		if (!new.name)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	if (r < 0) {
		policy_done(&new);
		return r;
	}
	new.given = FIELD_ALL;
	*p = new;
	return 0;
}
