/*
 * A task's record as canonical JSON. One table of fields, in the order of their
 * names, serves writing and reading, so that neither can know a field that the
 * other does not.
 */
#include "audit/record.h"

#include "base/cleanup.h"
#include "schema/json.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA "pinfold-task-1"
/* Of the values of one record: argv is the longest list. */
#define VALUES_MAX (4 * RECORD_ARGV_MAX)
#define ARENA_MAX (64u << 20)

enum type {
	TYPE_STRING,   /* char *, null for NULL */
	TYPE_UINT,     /* uint64_t */
	TYPE_INT,      /* int */
	TYPE_BOOL,     /* bool */
	TYPE_ID,       /* char[32] */
	TYPE_DIGEST,   /* char[SHA256_HEX_SIZE] */
	TYPE_STATE,
	TYPE_REASON,
	TYPE_STRINGS,  /* struct strlist */
	TYPE_ARGV,     /* the same, cut */
	TYPE_DROPPED,  /* argv_dropped: known once argv was written */
	TYPE_ENFORCED,
	TYPE_REFUSALS,
	TYPE_USAGE,
	TYPE_CHANGES,
	TYPE_SCHEMA,
};

struct field {
	const char *key;
	enum type type;
	size_t offset;
};

#define FIELD(name, kind) {#name, kind, offsetof(struct record, name)}
static const struct field record_fields[] = {
	FIELD(argv, TYPE_ARGV),
	FIELD(argv_dropped, TYPE_DROPPED),
	FIELD(carried, TYPE_STRINGS),
	FIELD(changes, TYPE_CHANGES),
	FIELD(ended_us, TYPE_UINT),
	FIELD(enforced, TYPE_ENFORCED),
	FIELD(error, TYPE_STRING),
	FIELD(exit_status, TYPE_INT),
	FIELD(hidden_digest, TYPE_DIGEST),
	FIELD(home, TYPE_STRING),
	FIELD(id, TYPE_ID),
	FIELD(identity, TYPE_STRING),
	FIELD(kernel, TYPE_STRING),
	FIELD(labels, TYPE_STRINGS),
	FIELD(limit, TYPE_STRING),
	FIELD(name, TYPE_STRING),
	FIELD(policy_digest, TYPE_DIGEST),
	FIELD(policy_name, TYPE_STRING),
	FIELD(reason, TYPE_REASON),
	FIELD(refusals, TYPE_REFUSALS),
	FIELD(refusals_dropped, TYPE_UINT),
	{"schema", TYPE_SCHEMA, 0},
	FIELD(signal, TYPE_INT),
	FIELD(sockets, TYPE_STRINGS),
	FIELD(source, TYPE_STRING),
	FIELD(started_us, TYPE_UINT),
	FIELD(state, TYPE_STATE),
	FIELD(tier, TYPE_STRING),
	FIELD(tool_env, TYPE_STRINGS),
	FIELD(tools, TYPE_STRINGS),
	FIELD(uid, TYPE_UINT),
	FIELD(usage, TYPE_USAGE),
	FIELD(workdir, TYPE_STRING),
	FIELD(workspace, TYPE_STRING),
};
#undef FIELD

#define FIELD(name, kind) {#name, kind, offsetof(struct record_refusal, name)}
static const struct field refusal_fields[] = {
	FIELD(action, TYPE_STRING),
	FIELD(at_us, TYPE_UINT),
	FIELD(claimed, TYPE_BOOL),
	FIELD(comm, TYPE_STRING),
	FIELD(count, TYPE_UINT),
	FIELD(error, TYPE_INT),
	FIELD(object, TYPE_STRING),
	FIELD(rule, TYPE_STRING),
};
#undef FIELD

#define FIELD(name, kind) {#name, kind, offsetof(struct record_usage, name)}
static const struct field usage_fields[] = {
	FIELD(cpu_us, TYPE_UINT),
	FIELD(disk_bytes, TYPE_UINT),
	FIELD(inodes, TYPE_UINT),
	FIELD(memory_peak, TYPE_UINT),
	FIELD(output_bytes, TYPE_UINT),
	FIELD(processes_peak, TYPE_UINT),
	FIELD(wall_us, TYPE_UINT),
};
#undef FIELD

#define FIELD(name, kind) {#name, kind, offsetof(struct record_changes, name)}
static const struct field changes_fields[] = {
	FIELD(added, TYPE_UINT),
	FIELD(deleted, TYPE_UINT),
	FIELD(held, TYPE_UINT),
	FIELD(modified, TYPE_UINT),
};
#undef FIELD

static const char *const state_names[] = {
	[RECORD_RUNNING] = "running",
	[RECORD_ENDED] = "ended",
	[RECORD_LOST] = "lost",
};

static const char *const reason_names[] = {
	[REASON_NONE] = "none",	      [REASON_EXIT] = "exit",
	[REASON_SIGNAL] = "signal",   [REASON_LIMIT] = "limit",
	[REASON_STOPPED] = "stopped", [REASON_REFUSED] = "refused",
	[REASON_LOST] = "lost",
};

const char *record_state_name(enum record_state state)
{
	return (size_t)state < ARRAY_SIZE(state_names) ? state_names[state]
						       : "unknown";
}

const char *record_reason_name(enum record_reason reason)
{
	return (size_t)reason < ARRAY_SIZE(reason_names) ? reason_names[reason]
							 : "unknown";
}

/* Writing. */

static void put_uint(struct json_writer *w, uint64_t v)
{
	json_uint(w, v > (uint64_t)JSON_INT_MAX ? (uint64_t)JSON_INT_MAX : v);
}

static void put_text(struct json_writer *w, const char *s)
{
	if (s)
		json_text(w, s);
	else
		json_null(w);
}

/* How many bytes of s may be shown of room, without cutting a character. */
static size_t cut(const char *s, size_t len, size_t room)
{
	if (len <= room)
		return len;
	for (size_t back = 0; back < 4 && back < room; back++) {
		if (((unsigned char)s[room - back] & 0xc0) != 0x80)
			return room - back;
	}
	return room;
}

static void put_part(struct json_writer *w, const char *s, size_t len)
{
	AUTO_FREE char *part = strndup(s, len);

	if (part)
		json_text(w, part);
	else
		w->failed = -ENOMEM;
}

/* Writes argv, or (w NULL) only counts the bytes that are left out of it. */
static uint64_t put_argv(struct json_writer *w, const struct record *r)
{
	size_t room = RECORD_ARGV_MAX;
	uint64_t dropped = r->argv_dropped;
	bool full = false;

	if (w)
		json_array(w);
	for (size_t i = 0; i < r->argv.n; i++) {
		const char *s = r->argv.items[i];
		size_t len = strlen(s);
		size_t kept;

		if (full) {
			dropped += len + 1;
			continue;
		}
		kept = cut(s, len, room);
		dropped += len - kept;
		if (w)
			put_part(w, s, kept);
		full = kept < len || kept + 1 >= room;
		room -= full ? 0 : kept + 1;
	}
	if (w)
		json_array_end(w);
	return dropped;
}

static void put_strings(struct json_writer *w, const struct strlist *list)
{
	json_array(w);
	for (size_t i = 0; i < list->n; i++)
		json_text(w, list->items[i]);
	json_array_end(w);
}

static void put_enforced(struct json_writer *w, const struct record *r)
{
	json_array(w);
	for (size_t i = 0; i < r->n_enforced; i++) {
		json_object(w);
		json_put_bool(w, "hard", r->enforced[i].hard);
		json_put_text(w, "mechanism", r->enforced[i].mechanism);
		json_put_text(w, "what", r->enforced[i].what);
		json_object_end(w);
	}
	json_array_end(w);
}

static void put_fields(struct json_writer *w, const struct field *fields,
		       size_t n, const void *base);

static void put_refusals(struct json_writer *w, const struct record *r)
{
	json_array(w);
	for (size_t i = 0; i < r->n_refusals; i++)
		put_fields(w, refusal_fields, ARRAY_SIZE(refusal_fields),
			   &r->refusals[i]);
	json_array_end(w);
}

static void put_changes(struct json_writer *w, const struct record_changes *c)
{
	if (c->known)
		put_fields(w, changes_fields, ARRAY_SIZE(changes_fields), c);
	else
		json_null(w);
}

static void put_field(struct json_writer *w, const struct field *f,
		      const void *base)
{
	const char *at = (const char *)base + f->offset;
	const struct record *r = base; /* where the type says so */

	json_key(w, f->key);
	switch (f->type) {
	case TYPE_STRING:
		put_text(w, *(char *const *)(const void *)at);
		break;
	case TYPE_UINT:
		put_uint(w, *(const uint64_t *)(const void *)at);
		break;
	case TYPE_INT:
		json_int(w, *(const int *)(const void *)at);
		break;
	case TYPE_BOOL:
		json_bool(w, *(const bool *)at);
		break;
	case TYPE_ID:
	case TYPE_DIGEST:
		json_text(w, at);
		break;
	case TYPE_STATE:
		json_string(w, record_state_name(r->state));
		break;
	case TYPE_REASON:
		json_string(w, record_reason_name(r->reason));
		break;
	case TYPE_STRINGS:
		put_strings(w, (const struct strlist *)(const void *)at);
		break;
	case TYPE_ARGV:
		put_argv(w, r);
		break;
	case TYPE_DROPPED:
		put_uint(w, put_argv(NULL, r));
		break;
	case TYPE_ENFORCED:
		put_enforced(w, r);
		break;
	case TYPE_REFUSALS:
		put_refusals(w, r);
		break;
	case TYPE_USAGE:
		put_fields(w, usage_fields, ARRAY_SIZE(usage_fields),
			   &r->usage);
		break;
	case TYPE_CHANGES:
		put_changes(w, &r->changes);
		break;
	case TYPE_SCHEMA:
		json_string(w, SCHEMA);
		break;
	}
}

static void put_fields(struct json_writer *w, const struct field *fields,
		       size_t n, const void *base)
{
	json_object(w);
	for (size_t i = 0; i < n; i++)
		put_field(w, &fields[i], base);
	json_object_end(w);
}

int record_to_json(const struct record *r, struct buf *out)
{
	struct json_writer w;

	json_begin(&w, out);
	put_fields(&w, record_fields, ARRAY_SIZE(record_fields), r);
	return json_finish(&w);
}

/* Reading. */

static int bad(struct error *err, const char *key)
{
	return error_set(err, -EBADMSG, "field %s has no valid value", key);
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

/* A string without NUL characters. */
static bool is_text(const struct json_value *v)
{
	return v->type == JSON_STRING && strlen(v->text) == v->len;
}

static int get_strings(const struct json_value *v, const char *key,
		       struct strlist *list, struct error *err)
{
	if (v->type != JSON_ARRAY)
		return bad(err, key);
	for (const struct json_value *i = v->first; i; i = i->next) {
		if (!is_text(i))
			return bad(err, key);
		if (strlist_add(list, i->text) < 0)
			return no_memory(err);
	}
	return 0;
}

static int get_name(const struct json_value *v, const char *key,
		    const char *const *names, size_t n, struct error *err)
{
	for (size_t i = 0; i < n && is_text(v); i++) {
		if (str_eq(v->text, names[i]))
			return (int)i;
	}
	return bad(err, key);
}

static int get_fields(const struct json_value *v, const char *key,
		      const struct field *fields, size_t n, void *base,
		      struct error *err);

static int get_enforced(const struct json_value *v, const char *key,
			struct record *r, struct error *err)
{
	if (v->type != JSON_ARRAY)
		return bad(err, key);
	for (const struct json_value *i = v->first; i; i = i->next) {
		const char *what = json_get_string(i, "what");
		const char *how = json_get_string(i, "mechanism");
		const struct json_value *hard =
			json_get_typed(i, "hard", JSON_BOOL);
		struct strlist *own = &r->enforced_text;

		if (!what || !how || !hard || i->n != 3)
			return bad(err, key);
		if (strlist_add(own, what) < 0 || strlist_add(own, how) < 0 ||
		    record_add_enforced(r, own->items[own->n - 2],
					own->items[own->n - 1],
					hard->boolean) < 0)
			return no_memory(err);
	}
	return 0;
}

static int get_refusals(const struct json_value *v, const char *key,
			struct record *r, struct error *err)
{
	if (v->type != JSON_ARRAY || v->n > RECORD_REFUSALS_MAX)
		return bad(err, key);
	if (v->n == 0)
		return 0;
	r->refusals = calloc(v->n, sizeof(*r->refusals));
	if (!r->refusals)
		return no_memory(err);
	for (const struct json_value *i = v->first; i; i = i->next) {
		struct record_refusal *f = &r->refusals[r->n_refusals++];
		int e = get_fields(i, key, refusal_fields,
				   ARRAY_SIZE(refusal_fields), f, err);

		if (e < 0)
			return e;
		if (!f->action || !f->object || !f->rule || !f->comm)
			return bad(err, key);
	}
	return 0;
}

static bool is_between(const struct json_value *v, int64_t min, int64_t max)
{
	return v->type == JSON_INT && v->integer >= min && v->integer <= max;
}

static int get_string(const struct json_value *v, const char *key, char **ret,
		      struct error *err)
{
	if (v->type == JSON_NULL)
		return 0;
	if (!is_text(v))
		return bad(err, key);
	*ret = strdup(v->text);
	return *ret ? 0 : no_memory(err);
}

static int get_scalar(const struct json_value *v, const struct field *f,
		      char *at, struct error *err)
{
	size_t size = f->type == TYPE_ID ? sizeof(((struct record *)0)->id)
					 : SHA256_HEX_SIZE;
	void *to = at;

	switch (f->type) {
	case TYPE_STRING:
		return get_string(v, f->key, to, err);
	case TYPE_UINT:
	case TYPE_DROPPED:
		if (!is_between(v, 0, JSON_INT_MAX))
			return bad(err, f->key);
		*(uint64_t *)to = (uint64_t)v->integer;
		return 0;
	case TYPE_INT:
		if (!is_between(v, INT_MIN, INT_MAX))
			return bad(err, f->key);
		*(int *)to = (int)v->integer;
		return 0;
	case TYPE_BOOL:
		if (v->type != JSON_BOOL)
			return bad(err, f->key);
		*(bool *)to = v->boolean;
		return 0;
	default: /* TYPE_ID, TYPE_DIGEST */
		if (!is_text(v) || v->len >= size)
			return bad(err, f->key);
		memcpy(at, v->text, v->len + 1);
		return 0;
	}
}

static int get_field(const struct json_value *v, const struct field *f,
		     void *base, struct error *err)
{
	struct record *r = base; /* where the type says so */
	struct strlist *list;
	int e;

	switch (f->type) {
	case TYPE_STATE:
		e = get_name(v, f->key, state_names, ARRAY_SIZE(state_names),
			     err);
		r->state = e < 0 ? RECORD_RUNNING : (enum record_state)e;
		return e;
	case TYPE_REASON:
		e = get_name(v, f->key, reason_names, ARRAY_SIZE(reason_names),
			     err);
		r->reason = e < 0 ? REASON_NONE : (enum record_reason)e;
		return e;
	case TYPE_STRINGS:
		list = (void *)((char *)base + f->offset);
		return get_strings(v, f->key, list, err);
	case TYPE_ARGV:
		return get_strings(v, f->key, &r->argv, err);
	case TYPE_ENFORCED:
		return get_enforced(v, f->key, r, err);
	case TYPE_REFUSALS:
		return get_refusals(v, f->key, r, err);
	case TYPE_USAGE:
		return get_fields(v, f->key, usage_fields,
				  ARRAY_SIZE(usage_fields), &r->usage, err);
	case TYPE_CHANGES:
		if (v->type == JSON_NULL)
			return 0;
		r->changes.known = true;
		return get_fields(v, f->key, changes_fields,
				  ARRAY_SIZE(changes_fields), &r->changes, err);
	case TYPE_SCHEMA:
		return is_text(v) && str_eq(v->text, SCHEMA) ? 0
							     : bad(err, f->key);
	default:
		return get_scalar(v, f, (char *)base + f->offset, err);
	}
}

/* Each field once, and nothing else: keys are unique by the reader. */
static int get_fields(const struct json_value *v, const char *key,
		      const struct field *fields, size_t n, void *base,
		      struct error *err)
{
	if (v->type != JSON_OBJECT)
		return bad(err, key);
	for (size_t i = 0; i < n; i++) {
		const struct json_value *member = json_get(v, fields[i].key);
		int e;

		if (!member)
			return error_set(err, -EBADMSG, "field %s is missing",
					 fields[i].key);
		e = get_field(member, &fields[i], base, err);
		if (e < 0)
			return e;
	}
	if (v->n != n)
		return error_set(err, -EBADMSG, "%s has fields of another "
						"version",
				 key);
	return 0;
}

int record_from_json(const char *json, size_t len, struct record *r,
		     struct error *err)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(ARENA_MAX, VALUES_MAX);
	const struct json_value *root;
	struct record read;
	int e;

	e = json_parse(json, len, JSON_INTEGERS_ONLY, &doc, &root, NULL, err);
	if (e == -ENOMEM)
		return e;
	if (e < 0) {
		if (err)
			err->code = -EBADMSG;
		return -EBADMSG;
	}
	record_init(&read);
	e = get_fields(root, "the record", record_fields,
		       ARRAY_SIZE(record_fields), &read, err);
	if (e < 0) {
		record_done(&read);
		return e;
	}
	*r = read;
	return 0;
}
