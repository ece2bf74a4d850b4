/*
 * schema/policy.json from the table of fields: a JSON Schema (draft 2020-12)
 * for editors. It accepts what the loader accepts of each single field; what
 * needs two fields to judge is the loader's alone.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/load.h"

#include <errno.h>
#include <string.h>

#define DIALECT "https://json-schema.org/draft/2020-12/schema"
#define SIZE_PATTERN "^(0|[1-9][0-9]*)(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB)?$"
#define DURATION_PATTERN "^([0-9]+(ms|s|m|h|d))+$"
#define MILLI_PATTERN "^(0|[1-9][0-9]*)([.][0-9]{1,3})?$"
#define NAME_PATTERN "^[A-Za-z_][A-Za-z0-9_]*$"
#define ABSOLUTE_PATTERN "^/."
#define GLOB_PATTERN "^[^/]"
#define DENY_PATTERN "^([^~/]|/[^*?\\[]*$)"

static void write_default(struct json_writer *w, const struct policy_field *f)
{
	AUTO_BUF struct buf text = BUF_INIT(64);

	json_key(w, "default");
	if (f->type == FIELD_BOOL) {
		json_bool(w, f->fallback != 0);
	} else if (f->type == FIELD_COUNT && f->fallback != LIMIT_NONE) {
		json_uint(w, f->fallback);
	} else {
		field_format(f, f->fallback, &text);
		json_string(w, buf_str(&text));
	}
}

static void write_pattern(struct json_writer *w, const char *pattern)
{
	json_object(w);
	json_put_string(w, "pattern", pattern);
	json_put_string(w, "type", "string");
	json_object_end(w);
}

static void write_integer(struct json_writer *w, const struct policy_field *f)
{
	json_object(w);
	json_put_uint(w, "maximum", f->max);
	json_put_uint(w, "minimum", f->min);
	json_put_string(w, "type", "integer");
	json_object_end(w);
}

/* The alternatives of a number: itself, its text with a unit, words. */
static void write_number(struct json_writer *w, const struct policy_field *f)
{
	json_key(w, "anyOf");
	json_array(w);
	if (f->type == FIELD_COUNT || f->type == FIELD_SIZE)
		write_integer(w, f);
	if (f->type == FIELD_SIZE)
		write_pattern(w, SIZE_PATTERN);
	if (f->type == FIELD_DURATION)
		write_pattern(w, DURATION_PATTERN);
	if (f->type == FIELD_MILLI) {
		json_object(w);
		json_put_uint(w, "exclusiveMinimum", 0);
		json_put_uint(w, "maximum", f->max / 1000);
		json_put_string(w, "type", "number");
		json_object_end(w);
		write_pattern(w, MILLI_PATTERN);
	}
	if (f->none || f->half) {
		json_object(w);
		json_key(w, "enum");
		json_array(w);
		if (f->none)
			json_string(w, "none");
		if (f->half)
			json_string(w, "half");
		json_array_end(w);
		json_object_end(w);
	}
	json_array_end(w);
}

static void write_choices(struct json_writer *w, const struct policy_field *f)
{
	json_key(w, "enum");
	json_array(w);
	for (size_t i = 0; f->values[i]; i++)
		json_string(w, f->values[i]);
	json_array_end(w);
}

static const char *entry_pattern(const struct policy_field *f)
{
	if (f->type == FIELD_PATHS)
		return ABSOLUTE_PATTERN;
	if (f->type == FIELD_GLOBS)
		return GLOB_PATTERN;
	return f->type == FIELD_DENY ? DENY_PATTERN : NAME_PATTERN;
}

static void write_list(struct json_writer *w, const struct policy_field *f)
{
	json_key(w, "items");
	if (f->type == FIELD_CHOICES) {
		json_object(w);
		write_choices(w, f);
		json_object_end(w);
	} else {
		write_pattern(w, entry_pattern(f));
	}
	json_put_uint(w, "maxItems", POLICY_LIST_MAX);
	json_put_string(w, "type", "array");
}

static void write_seal(struct json_writer *w)
{
	json_key(w, "items");
	json_object(w);
	json_key(w, "enum");
	json_array(w);
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (field_mask(policy_fields[i].name))
			json_string(w, policy_fields[i].name);
	}
	json_array_end(w);
	json_object_end(w);
	json_put_string(w, "type", "array");
}

static void write_env(struct json_writer *w, const struct policy_field *f)
{
	json_key(w, "additionalProperties");
	json_object(w);
	json_put_string(w, "type", "string");
	json_object_end(w);
	json_put_string(w, "description", f->help);
	json_put_uint(w, "maxProperties", POLICY_LIST_MAX);
	json_key(w, "propertyNames");
	json_object(w);
	json_put_string(w, "pattern", NAME_PATTERN);
	json_object_end(w);
	json_put_string(w, "type", "object");
}

static void write_scalar(struct json_writer *w, const struct policy_field *f)
{
	if (f->type != FIELD_ENUM && f->type != FIELD_BOOL)
		write_number(w, f);
	write_default(w, f);
	json_put_string(w, "description", f->help);
	if (f->type == FIELD_ENUM)
		write_choices(w, f);
	if (f->type == FIELD_BOOL)
		json_put_string(w, "type", "boolean");
}

static void write_members(struct json_writer *w, const char *section);

static void write_section(struct json_writer *w, const struct policy_field *f)
{
	if (f->shorthand) {
		json_key(w, "anyOf");
		json_array(w);
		json_object(w);
		write_scalar(w, field_find(f->shorthand));
		json_object_end(w);
		json_object(w);
	}
	json_put_bool(w, "additionalProperties", false);
	json_put_string(w, "description", f->help);
	json_key(w, "properties");
	json_object(w);
	write_members(w, f->name);
	json_object_end(w);
	json_put_string(w, "type", "object");
	if (f->shorthand) {
		json_object_end(w);
		json_array_end(w);
	}
}

static void write_field(struct json_writer *w, const struct policy_field *f)
{
	switch (f->type) {
	case FIELD_SECTION:
		write_section(w, f);
		break;
	case FIELD_REFUSED:
		json_put_string(w, "description", "Not supported by this "
				"version of pinfold.");
		json_key(w, "not");
		json_object(w);
		json_object_end(w);
		break;
	case FIELD_VERSION:
		json_put_int(w, "const", POLICY_VERSION);
		json_put_string(w, "description", f->help);
		break;
	case FIELD_CONST:
		json_put_string(w, "const", f->values[0]);
		json_put_string(w, "description", f->help);
		break;
	case FIELD_EXTENDS:
		json_put_string(w, "description", f->help);
		json_put_uint(w, "minLength", 1);
		json_put_string(w, "type", "string");
		break;
	case FIELD_SEAL:
		json_put_string(w, "description", f->help);
		write_seal(w);
		break;
	case FIELD_ENV:
		write_env(w, f);
		break;
	default:
		if (field_is_scalar(f)) {
			write_scalar(w, f);
			break;
		}
		json_put_string(w, "description", f->help);
		write_list(w, f);
	}
}

static void write_members(struct json_writer *w, const char *section)
{
	size_t n = strlen(section);

	for (size_t i = 0; i < n_policy_fields; i++) {
		const char *name = policy_fields[i].name;

		if (n > 0 && (strncmp(name, section, n) || name[n] != '.'))
			continue;
		name += n > 0 ? n + 1 : 0;
		if (strchr(name, '.'))
			continue;
		json_key(w, name);
		json_object(w);
		write_field(w, &policy_fields[i]);
		json_object_end(w);
	}
}

static void new_line(struct buf *out, unsigned depth)
{
	buf_add_char(out, '\n');
	while (depth-- > 0)
		buf_add_str(out, "  ");
}

/* Copies the string that starts at i; the offset behind it. */
static size_t copy_string(const struct buf *json, size_t i, struct buf *out)
{
	size_t end = i + 1;

	while (json->data[end] != '"')
		end += json->data[end] == '\\' ? 2 : 1;
	buf_add(out, json->data + i, end + 1 - i);
	return end + 1;
}

/* Behind an opening bracket: empty ones stay on their line. */
static void open_level(const char *rest, struct buf *out, unsigned *depth)
{
	if (*rest != '}' && *rest != ']')
		new_line(out, ++*depth);
}

/* Lays canonical JSON out in lines, for reading and for diffs. */
static int indent(const struct buf *json, struct buf *out)
{
	unsigned depth = 0;
	size_t i = 0;

	while (i < json->len) {
		const char *at = json->data + i++;

		switch (*at) {
		case '"':
			i = copy_string(json, i - 1, out);
			break;
		case '{':
		case '[':
			buf_add_char(out, *at);
			open_level(at + 1, out, &depth);
			break;
		case '}':
		case ']':
			if (at[-1] != '{' && at[-1] != '[')
				new_line(out, --depth);
			buf_add_char(out, *at);
			break;
		case ',':
			buf_add_char(out, ',');
			new_line(out, depth);
			break;
		case ':':
			buf_add_str(out, ": ");
			break;
		default:
			buf_add_char(out, *at);
		}
	}
	return buf_add_char(out, '\n');
}

int policy_write_schema(struct buf *out)
{
	AUTO_BUF struct buf json = BUF_INIT(out->max);
	struct json_writer w;
	int r;

	json_begin(&w, &json);
	json_object(&w);
	json_put_string(&w, "$schema", DIALECT);
	json_put_bool(&w, "additionalProperties", false);
	json_put_string(&w, "description", "What a task of pinfold may do. "
			"Generated from the table of fields; "
			"pinfold-policy(5) is its manual.");
	json_key(&w, "properties");
	json_object(&w);
	write_members(&w, "");
	json_object_end(&w);
	json_key(&w, "required");
	json_array(&w);
	json_string(&w, "version");
	json_array_end(&w);
	json_put_string(&w, "title", "pinfold policy");
	json_put_string(&w, "type", "object");
	json_object_end(&w);
	r = json_finish(&w);
	return r < 0 ? r : indent(&json, out);
}
