/*
 * From a tree of values to a policy, by the table of fields. Every member of
 * the tree is either taken or reported: nothing is ignored. After a problem
 * the rest is still looked at, so that one reading finds all of them.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "policy/field.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int report_at(struct bind *b, unsigned line, unsigned column,
		     const char *text)
{
	struct bind_problem problem = {line, column, text};

	return b->report(b->arg, &problem);
}

__attribute__((format(printf, 3, 4)))
static int report(struct bind *b, const struct json_value *v,
		  const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return report_at(b, v->line, v->column, text);
}

__attribute__((format(printf, 3, 4)))
static int report_key(struct bind *b, const struct json_value *v,
		      const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return report_at(b, v->key_line, v->key_column, text);
}

/* What stands there, for "expected X, not Y". */
static void describe(const struct json_value *v, struct buf *out)
{
	switch (v->type) {
	case JSON_NULL:
		buf_add_str(out, "nothing");
		break;
	case JSON_BOOL:
		buf_add_str(out, v->boolean ? "true" : "false");
		break;
	case JSON_INT:
	case JSON_NUMBER:
		buf_addf(out, "the number %.40s", v->text);
		break;
	case JSON_STRING:
		str_quote(out, v->text, 80);
		break;
	case JSON_ARRAY:
		buf_add_str(out, "a list");
		break;
	case JSON_OBJECT:
		buf_add_str(out, "a mapping");
		break;
	}
}

static int wrong_type(struct bind *b, const struct policy_field *f,
		      const struct json_value *v, const char *hint)
{
	AUTO_BUF struct buf want = BUF_INIT(512), got = BUF_INIT(512);

	field_expected(f, &want);
	describe(v, &got);
	return report(b, v, "%s: expected %s, not %s%s", f->name,
		      buf_str(&want), buf_str(&got), hint);
}

/* The types of value that a scalar field takes, as bits. */
static unsigned accepted_types(const struct policy_field *f)
{
	switch (f->type) {
	case FIELD_BOOL:
		return 1u << JSON_BOOL;
	case FIELD_COUNT:
		return 1u << JSON_INT;
	case FIELD_SIZE:
		return 1u << JSON_INT | 1u << JSON_STRING;
	case FIELD_MILLI:
		return 1u << JSON_INT | 1u << JSON_NUMBER | 1u << JSON_STRING;
	default:
		return 1u << JSON_STRING;
	}
}

/* The text of a scalar that has the right type for f, else NULL. */
static const char *scalar_text(const struct policy_field *f,
			       const struct json_value *v)
{
	bool string = v->type == JSON_STRING;

	if (string && strlen(v->text) != v->len)
		return NULL;
	if (string && f->none && str_eq(v->text, "none"))
		return v->text;
	if (!(accepted_types(f) & 1u << v->type))
		return NULL;
	if (v->type == JSON_BOOL)
		return v->boolean ? "true" : "false";
	return v->text;
}

static int bind_scalar(struct bind *b, const struct policy_field *f,
		       const struct json_value *v)
{
	const char *text = scalar_text(f, v);
	struct error err = {0};
	uint64_t number;

	if (!text)
		return wrong_type(b, f, v,
				  f->type == FIELD_DURATION &&
						  v->type == JSON_INT
					  ? "; give a unit: ms, s, m, h or d"
					  : "");
	if (field_parse(f, text, &number, &err) < 0)
		return report(b, v, "%s", err.text);
	field_put(f, b->p, number);
	return 0;
}

static int bind_const(struct bind *b, const struct policy_field *f,
		      const struct json_value *v)
{
	AUTO_BUF struct buf got = BUF_INIT(512);

	if (v->type == JSON_STRING && str_eq(v->text, f->values[0]) &&
	    strlen(v->text) == v->len)
		return 0;
	describe(v, &got);
	return report(b, v, "%s: %s is not supported by this version of "
		      "pinfold; only %s is", f->name, buf_str(&got),
		      f->values[0]);
}

static int bind_version(struct bind *b, const struct policy_field *f,
			const struct json_value *v)
{
	if (v->type != JSON_INT)
		return wrong_type(b, f, v, "");
	if (v->integer != POLICY_VERSION)
		return report(b, v, "version: %s is not known to this version "
			      "of pinfold, which reads version %d", v->text,
			      POLICY_VERSION);
	return 0;
}

static int bind_extends(struct bind *b, const struct policy_field *f,
			const struct json_value *v)
{
	if (v->type != JSON_STRING || v->len == 0 ||
	    strlen(v->text) != v->len)
		return wrong_type(b, f, v, "");
	b->extends = v->text;
	return 0;
}

/* A text entry of a list, or NULL after a report (its result in *ret). */
static const char *entry_text(struct bind *b, const struct policy_field *f,
			      const struct json_value *v, int *ret)
{
	AUTO_BUF struct buf got = BUF_INIT(512);

	*ret = 0;
	if (v->type == JSON_STRING && strlen(v->text) == v->len)
		return v->text;
	describe(v, &got);
	if (v->type == JSON_STRING)
		*ret = report(b, v, "%s: an entry holds a NUL character",
			      f->name);
	else
		*ret = report(b, v, "%s: expected text, not %s%s", f->name,
			      buf_str(&got),
			      v->type == JSON_NULL
				      ? "; write \"\" for an empty text"
			      : v->type <= JSON_NUMBER ? "; put it in quotes"
						       : "");
	return NULL;
}

static int unknown_seal(struct bind *b, const struct json_value *v,
			const char *name)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	const char *near = field_nearest("", name);

	if (near && !field_mask(near))
		near = NULL;
	str_quote(&quoted, name, 80);
	return report(b, v, "seal: %s is not a field that can be sealed%s%s%s",
		      buf_str(&quoted), near ? "; did you mean " : "",
		      near ? near : "", near ? "?" : "");
}

static int bind_seal(struct bind *b, const struct policy_field *f,
		     const struct json_value *v)
{
	int r = 0;

	if (v->type != JSON_ARRAY)
		return wrong_type(b, f, v, "");
	for (const struct json_value *e = v->first; e && r == 0; e = e->next) {
		const char *name = entry_text(b, f, e, &r);
		uint64_t mask = name && *name ? field_mask(name) : 0;

		b->seal |= mask;
		if (name && !mask)
			r = unknown_seal(b, e, name);
	}
	return r;
}

/* Collects checked entries of a list; b's lists are not touched. */
static int collect_list(struct bind *b, const struct policy_field *f,
			const struct json_value *v, struct strlist *ret)
{
	int r = 0;

	if (v->type != JSON_ARRAY)
		return wrong_type(b, f, v, "");
	if (v->n > POLICY_LIST_MAX)
		return report(b, v, "%s: more than %d entries", f->name,
			      POLICY_LIST_MAX);
	for (const struct json_value *e = v->first; e && r == 0; e = e->next) {
		const char *text = entry_text(b, f, e, &r);
		struct error err = {0};

		if (!text)
			continue;
		if (field_check_entry(f, text, &err) < 0)
			r = report(b, e, "%s", err.text);
		else
			r = strlist_add(ret, text);
	}
	return r;
}

static int collect_variable(struct bind *b, const struct policy_field *f,
			    const struct json_value *v, struct strlist *ret)
{
	AUTO_FREE char *name = strndup(v->key, v->key_len);
	struct error err = {0};
	const char *text;
	int r;

	if (!name)
		return -ENOMEM;
	if (strlen(name) != v->key_len)
		return report_key(b, v, "%s: a name holds a NUL character",
				  f->name);
	if (field_check_entry(f, name, &err) < 0)
		return report_key(b, v, "%s", err.text);
	text = entry_text(b, f, v, &r);
	if (!text)
		return r;
	if (field_check_env_value(name, text, v->len, &err) < 0)
		return report(b, v, "%s", err.text);
	return strlist_take(ret, str_format("%s=%s", name, text));
}

static int collect_env(struct bind *b, const struct policy_field *f,
		       const struct json_value *v, struct strlist *ret)
{
	int r = 0;

	if (v->type != JSON_OBJECT)
		return wrong_type(b, f, v, "");
	if (v->n > POLICY_LIST_MAX)
		return report(b, v, "%s: more than %d entries", f->name,
			      POLICY_LIST_MAX);
	for (const struct json_value *e = v->first; e && r == 0; e = e->next)
		r = collect_variable(b, f, e, ret);
	return r;
}

/* What a file says of a name replaces what its base says of it. */
static void drop_overridden(struct bind *b, const struct policy_field *f,
			    const struct strlist *entries)
{
	struct strlist *other = NULL;

	if (f->type == FIELD_ENV)
		other = &b->p->env_pass;
	else if (f->type == FIELD_NAMES)
		other = &b->p->env_set;
	for (size_t i = 0; other && i < entries->n; i++) {
		long at = env_find(other, entries->items[i]);

		if (at >= 0)
			strlist_remove(other, (size_t)at);
		if (f->type != FIELD_ENV)
			continue;
		at = env_find(&b->p->env_set, entries->items[i]);
		if (at >= 0)
			strlist_remove(&b->p->env_set, (size_t)at);
	}
}

static int bind_list(struct bind *b, const struct policy_field *f,
		     const struct json_value *v)
{
	AUTO_STRLIST struct strlist entries = {0};
	struct strlist *list = field_list(f, b->p);
	int r = f->type == FIELD_ENV ? collect_env(b, f, v, &entries)
				     : collect_list(b, f, v, &entries);

	if (r != 0)
		return r;
	if (!b->extending)
		strlist_done(list);
	if (!b->complete)
		drop_overridden(b, f, &entries);
	for (size_t i = 0; i < entries.n && r == 0; i++)
		r = strlist_add(list, entries.items[i]);
	field_normalise(f, list);
	if (r == 0 && list->n > POLICY_LIST_MAX)
		return report(b, v, "%s: more than %d entries with those of "
			      "the base", f->name, POLICY_LIST_MAX);
	return r;
}

static int bind_members(struct bind *b, const char *section,
			const struct json_value *v, uint64_t *seen);

static int bind_section(struct bind *b, const struct policy_field *f,
			const struct json_value *v, uint64_t *seen)
{
	const struct policy_field *of;

	if (v->type == JSON_OBJECT)
		return bind_members(b, f->name, v, seen);
	if (!f->shorthand || b->complete || v->type == JSON_ARRAY)
		return wrong_type(b, f, v, "");
	of = field_find(f->shorthand);
	*seen |= field_bit(of);
	b->places[of - policy_fields] = (struct json_place){v->line, v->column};
	return bind_scalar(b, of, v);
}

static int bind_field(struct bind *b, const struct policy_field *f,
		      const struct json_value *v, uint64_t *seen)
{
	*seen |= field_bit(f);
	b->places[f - policy_fields] = (struct json_place){v->line, v->column};
	switch (f->type) {
	case FIELD_SECTION:
		return bind_section(b, f, v, seen);
	case FIELD_REFUSED:
		return report_key(b, v, "%s '%s' is not supported by this "
				  "version of pinfold; remove it",
				  strchr(f->name, '.') ? "field" : "section",
				  f->name);
	case FIELD_CONST:
		return bind_const(b, f, v);
	case FIELD_VERSION:
		return bind_version(b, f, v);
	case FIELD_EXTENDS:
		return bind_extends(b, f, v);
	case FIELD_SEAL:
		return bind_seal(b, f, v);
	default:
		return field_is_list(f) ? bind_list(b, f, v)
					: bind_scalar(b, f, v);
	}
}

static int unknown_field(struct bind *b, const char *section, const char *key,
			 const struct json_value *v)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	size_t n = strlen(section);
	const char *near = field_nearest(section, key);

	if (near && n > 0 && str_starts(near, section) && near[n] == '.')
		near += n + 1;
	str_quote(&quoted, key, 80);
	return report_key(b, v, "unknown field %s%s%s%s%s%s", buf_str(&quoted),
			  n ? " in " : "", section,
			  near ? "; did you mean " : "", near ? near : "",
			  near ? "?" : "");
}

/* A row that a tree of this kind may hold. */
static const struct policy_field *member_field(const struct bind *b,
					       const char *section,
					       const struct json_value *v)
{
	const struct policy_field *f;
	char name[128];
	int n = snprintf(name, sizeof(name), "%s%s%s", section,
			 *section ? "." : "", v->key);

	/* A key with a dot in it is no name of a nested field. */
	if (n >= (int)sizeof(name) || strlen(v->key) != v->key_len ||
	    strchr(v->key, '.'))
		return NULL;
	f = field_find(name);
	if (f && b->complete &&
	    (f->type == FIELD_EXTENDS || f->type == FIELD_SEAL))
		return NULL;
	return f;
}

static int bind_members(struct bind *b, const char *section,
			const struct json_value *v, uint64_t *seen)
{
	int r = 0;

	for (const struct json_value *m = v->first; m && r == 0; m = m->next) {
		const struct policy_field *f = member_field(b, section, m);

		r = f ? bind_field(b, f, m, seen)
		      : unknown_field(b, section, m->key, m);
	}
	return r;
}

/* Two statements of one file of which one makes the other void. */
static int check_stated(struct bind *b, uint64_t seen)
{
	const struct policy_field *idle = field_find("limits.idle");
	const struct policy_field *wall = field_find("limits.wall");
	const struct policy_limits *l = &b->p->limits;
	const struct json_place *at = &b->places[idle - policy_fields];
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (b->complete || !(seen & field_bit(idle)) ||
	    !(seen & field_bit(wall)) || l->idle_ms == LIMIT_NONE ||
	    l->idle_ms < l->wall_ms)
		return 0;
	buf_add_str(&text, "limits.idle: can never take effect: limits.wall "
			   "ends the task after ");
	num_format_duration(&text, l->wall_ms);
	return report_at(b, at->line, at->column, buf_str(&text));
}

static const struct json_value *find_variable(const struct json_value *list,
					      const char *name)
{
	if (!list || list->type != JSON_ARRAY)
		return NULL;
	for (const struct json_value *e = list->first; e; e = e->next) {
		if (e->type == JSON_STRING && str_eq(e->text, name))
			return e;
	}
	return NULL;
}

static int check_env(struct bind *b, const struct json_value *root)
{
	const struct json_value *env = json_get(root, "env");
	const struct json_value *pass = json_get(env, "pass");
	const struct json_value *set = json_get(env, "set");
	int r = 0;

	if (b->complete || !set || set->type != JSON_OBJECT ||
	    set->n > POLICY_LIST_MAX || !pass || pass->n > POLICY_LIST_MAX)
		return 0;
	for (const struct json_value *m = set->first; m && r == 0;
	     m = m->next) {
		const struct json_value *e = find_variable(pass, m->key);

		if (e)
			r = report(b, e, "env.pass: %s can never take effect: "
				   "env.set gives it a value", e->text);
	}
	return r;
}

static int check_missing(struct bind *b, const struct json_value *root,
			 uint64_t seen)
{
	int r = 0;

	for (size_t i = 0; i < n_policy_fields && r == 0; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (seen & field_bit(f))
			continue;
		if (f->type == FIELD_VERSION)
			r = report(b, root, "version is missing; write "
				   "\"version: %d\"", POLICY_VERSION);
		else if (b->complete && (field_is_value(f) ||
					 f->type == FIELD_CONST))
			r = report(b, root, "%s is missing", f->name);
	}
	return r;
}

int bind_policy(struct bind *b, const struct json_value *root)
{
	uint64_t seen = 0;
	int r;

	if (root->type != JSON_OBJECT)
		return report(b, root, "a policy is a mapping of fields that "
			      "starts with \"version: %d\"", POLICY_VERSION);
	r = bind_members(b, "", root, &seen);
	if (r == 0)
		r = check_missing(b, root, seen);
	if (r == 0)
		r = check_stated(b, seen);
	if (r == 0)
		r = check_env(b, root);
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (field_is_value(&policy_fields[i]))
			b->given |= seen & field_bit(&policy_fields[i]);
	}
	return r;
}
