/*
 * Values of policy fields from text and to text. What field_format writes,
 * field_parse reads back, so that a snapshot is itself a policy.
 */
#include "base/glob.h"
#include "base/num.h"
#include "base/str.h"
#include "policy/field.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LEN_MAX 255
#define ENV_VALUE_MAX 65536
#define QUOTED_MAX 80

static int add_choices(const struct policy_field *f, struct buf *out)
{
	for (size_t i = 0; f->values[i]; i++)
		buf_addf(out, "%s%s",
			 i == 0 ? "" : f->values[i + 1] ? ", " : " or ",
			 f->values[i]);
	return out->failed;
}

int field_expected(const struct policy_field *f, struct buf *out)
{
	switch (f->type) {
	case FIELD_CONST:
	case FIELD_ENUM:
		return add_choices(f, out);
	case FIELD_BOOL:
		return buf_add_str(out, "true or false");
	case FIELD_VERSION:
		return buf_addf(out, "the number %d", POLICY_VERSION);
	case FIELD_COUNT:
		buf_addf(out, "a whole number such as %s", f->example);
		break;
	case FIELD_SIZE:
		buf_addf(out, "a size such as %s", f->example);
		break;
	case FIELD_DURATION:
		buf_addf(out, "a duration such as %s", f->example);
		break;
	case FIELD_MILLI:
		buf_addf(out, "a number such as 2 or %s", f->example);
		break;
	case FIELD_SECTION:
		return buf_add_str(out, "a mapping of fields");
	case FIELD_ENV:
		return buf_addf(out, "a mapping such as %s", f->example);
	case FIELD_EXTENDS:
		return buf_add_str(out, "the name of a preset or a path");
	default:
		return buf_addf(out, "a list such as %s", f->example);
	}
	if (f->half)
		buf_add_str(out, ", half");
	if (f->none)
		buf_add_str(out, " or none");
	return out->failed;
}

static int bad_value(const struct policy_field *f, const char *text,
		     struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512), want = BUF_INIT(512);
	const char *near = f->values ? name_nearest(f->values, text) : NULL;

	str_quote(&quoted, text, QUOTED_MAX);
	field_expected(f, &want);
	if (near)
		return error_set(err, -EINVAL,
				 "%s: %s is not known; did you mean %s? (%s)",
				 f->name, buf_str(&quoted), near,
				 buf_str(&want));
	/* Of all wrong durations the one that nearly everybody tries. */
	if (f->type == FIELD_DURATION && *text && strlen(text) < 10 &&
	    strspn(text, "0123456789") == strlen(text))
		buf_addf(&quoted, " (%ss, %sm or %sh?)", text, text, text);
	return error_set(err, -EINVAL, "%s: expected %s, not %s", f->name,
			 buf_str(&want), buf_str(&quoted));
}

static int out_of_range(const struct policy_field *f, const char *text,
			struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	AUTO_BUF struct buf min = BUF_INIT(64), max = BUF_INIT(64);

	str_quote(&quoted, text, QUOTED_MAX);
	field_format(f, f->min, &min);
	field_format(f, f->max, &max);
	return error_set(err, -ERANGE, "%s: %s is not between %s and %s",
			 f->name, buf_str(&quoted), buf_str(&min),
			 buf_str(&max));
}

static int parse_choice(const struct policy_field *f, const char *text,
			uint64_t *ret, struct error *err)
{
	for (size_t i = 0; f->values[i]; i++) {
		if (str_eq(f->values[i], text)) {
			*ret = i;
			return 0;
		}
	}
	return bad_value(f, text, err);
}

static int parse_flag(const struct policy_field *f, const char *text,
		      uint64_t *ret, struct error *err)
{
	if (!str_eq(text, "true") && !str_eq(text, "false"))
		return bad_value(f, text, err);
	*ret = str_eq(text, "true");
	return 0;
}

static int parse_number(const struct policy_field *f, const char *text,
			uint64_t *ret)
{
	/* 010 is ten to one reader of YAML and eight to another. */
	if (text[0] == '0' && text[1] >= '0' && text[1] <= '9')
		return -EINVAL;
	switch (f->type) {
	case FIELD_COUNT:
		return num_parse_u64(text, ret);
	case FIELD_SIZE:
		return num_parse_size(text, ret);
	case FIELD_DURATION:
		return num_parse_duration(text, ret);
	default:
		return num_parse_milli(text, ret);
	}
}

int field_parse(const struct policy_field *f, const char *text, uint64_t *ret,
		struct error *err)
{
	uint64_t v = 0;
	int r;

	if (f->type == FIELD_ENUM)
		return parse_choice(f, text, ret, err);
	if (f->type == FIELD_BOOL)
		return parse_flag(f, text, ret, err);
	if (f->none && str_eq(text, "none")) {
		*ret = LIMIT_NONE;
		return 0;
	}
	if (f->half && str_eq(text, "half")) {
		*ret = LIMIT_HALF;
		return 0;
	}
	r = parse_number(f, text, &v);
	if (r == -EINVAL)
		return bad_value(f, text, err);
	if (r < 0 || v < f->min || v > f->max)
		return out_of_range(f, text, err);
	*ret = v;
	return 0;
}

/* The names that stand for no number; NULL when v is a number. */
static const char *special_name(const struct policy_field *f, uint64_t v)
{
	if (f->type == FIELD_ENUM)
		return f->values[v];
	if (f->type == FIELD_BOOL)
		return v ? "true" : "false";
	if (f->none && v == LIMIT_NONE)
		return "none";
	if (f->half && v == LIMIT_HALF)
		return "half";
	return NULL;
}

int field_format(const struct policy_field *f, uint64_t v, struct buf *out)
{
	const char *name = special_name(f, v);

	if (name)
		return buf_add_str(out, name);
	if (f->type == FIELD_SIZE)
		return num_format_size(out, v);
	if (f->type == FIELD_DURATION)
		return num_format_duration(out, v);
	if (f->type == FIELD_MILLI)
		return num_format_milli(out, v);
	return buf_addf(out, "%ju", (uintmax_t)v);
}

int field_human(const struct policy_field *f, uint64_t v, struct buf *out)
{
	if (f->half && v == LIMIT_HALF)
		return buf_add_str(out, "half of the machine's");
	if (special_name(f, v) || f->type != FIELD_SIZE)
		return field_format(f, v, out);
	return num_human_size(out, v);
}

static bool is_env_name(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > NAME_LEN_MAX || (s[0] >= '0' && s[0] <= '9'))
		return false;
	return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			 "0123456789_") == n;
}

static int bad_entry(const struct policy_field *f, const char *entry,
		     const char *why, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(1024);

	str_quote(&quoted, entry, 200);
	return error_set(err, -EINVAL, "%s: %s %s", f->name, buf_str(&quoted),
			 why);
}

/* Has it a part that no file system takes for a name? */
static bool has_long_part(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n > NAME_MAX)
			return true;
		path += n + (path[n] == '/');
	}
	return false;
}

static int check_glob(const struct policy_field *f, const char *glob,
		      struct error *err)
{
	const char *fault = glob_fault(glob);

	if (!str_is_utf8(glob, strlen(glob)))
		fault = "is not UTF-8, so that a policy cannot name it";
	if (glob[0] == '/')
		fault = "is not relative to the source";
	if (strlen(glob) >= PATH_MAX)
		fault = "is longer than a path can be";
	return fault ? bad_entry(f, glob, fault, err) : 0;
}

/* A denial that is a glob: relative ones alone can be. */
static int check_denied_glob(const struct policy_field *f, const char *path,
			     struct error *err)
{
	if (path[0] == '/')
		return bad_entry(f, path, "is a glob, which is relative to the "
			"source: it cannot begin with a slash", err);
	return check_glob(f, path, err);
}

static int check_path(const struct policy_field *f, const char *path,
		      struct error *err)
{
	bool relative_ok = f->type == FIELD_DENY;
	char absolute[PATH_MAX + 2] = "/";

	if (!path[0])
		return bad_entry(f, path, "is empty", err);
	if (strlen(path) >= PATH_MAX)
		return bad_entry(f, path, "is longer than a path can be", err);
	if (has_long_part(path))
		return bad_entry(f, path, "has a part that is longer than a "
			"name can be", err);
	if (!str_is_utf8(path, strlen(path)))
		return bad_entry(f, path, "is not UTF-8, so that a policy "
			"cannot name it; name a directory above", err);
	if (path[0] == '~')
		return bad_entry(f, path, "starts with ~, which is not "
			"expanded; write the whole path", err);
	if (relative_ok && glob_is_magic(path))
		return check_denied_glob(f, path, err);
	if (path[0] != '/' && !relative_ok)
		return bad_entry(f, path, "is not an absolute path", err);
	strcpy(absolute + (path[0] != '/'), path);
	if (!path_is_normal(absolute))
		return bad_entry(f, path, "has an empty, \".\" or \"..\" part "
			"or a slash at its end", err);
	return 0;
}

static int check_choice(const struct policy_field *f, const char *entry,
			struct error *err)
{
	const char *near = name_nearest(f->values, entry);
	AUTO_BUF struct buf quoted = BUF_INIT(512), known = BUF_INIT(512);

	for (size_t i = 0; f->values[i]; i++) {
		if (str_eq(f->values[i], entry))
			return 0;
	}
	str_quote(&quoted, entry, QUOTED_MAX);
	add_choices(f, &known);
	return error_set(err, -EINVAL, "%s: %s is not known%s%s%s (%s)",
			 f->name, buf_str(&quoted),
			 near ? "; did you mean " : "", near ? near : "",
			 near ? "?" : "", buf_str(&known));
}

int field_check_entry(const struct policy_field *f, const char *entry,
		      struct error *err)
{
	if (f->type == FIELD_CHOICES)
		return check_choice(f, entry, err);
	if (f->type == FIELD_GLOBS)
		return check_glob(f, entry, err);
	if (f->type == FIELD_PATHS || f->type == FIELD_DENY)
		return check_path(f, entry, err);
	if (!is_env_name(entry))
		return bad_entry(f, entry, "is not the name of a variable "
			"(letters, digits and _, no digit first)", err);
	return 0;
}

int field_check_env_value(const char *name, const char *value, size_t len,
			  struct error *err)
{
	if (strlen(value) != len)
		return error_set(err, -EINVAL,
				 "env.set: the value of %s holds a NUL "
				 "character", name);
	if (len > ENV_VALUE_MAX)
		return error_set(err, -EINVAL,
				 "env.set: the value of %s is longer than %d "
				 "bytes", name, ENV_VALUE_MAX);
	if (!str_is_utf8(value, len))
		return error_set(err, -EINVAL,
				 "env.set: the value of %s is not UTF-8", name);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	size_t n = strcspn(x, "="), m = strcspn(y, "=");
	int r = memcmp(x, y, n < m ? n : m);

	return r ? r : n < m ? -1 : n > m;
}

void strlist_remove(struct strlist *list, size_t i)
{
	free(list->items[i]);
	memmove(list->items + i, list->items + i + 1,
		(list->n - i) * sizeof(*list->items));
	list->n--;
}

void field_normalise(const struct policy_field *f, struct strlist *list)
{
	size_t kept = 0;

	if (list->n == 0)
		return;
	if (f->type == FIELD_ENV)
		qsort(list->items, list->n, sizeof(*list->items),
		      compare_names);
	else
		strlist_sort(list);
	for (size_t i = 1; i < list->n; i++) {
		if (str_eq(list->items[kept], list->items[i])) {
			free(list->items[i]);
			continue;
		}
		list->items[++kept] = list->items[i];
	}
	list->n = kept + 1;
	list->items[list->n] = NULL;
}

long env_find(const struct strlist *list, const char *name)
{
	size_t n = strcspn(name, "=");

	for (size_t i = 0; i < list->n; i++) {
		if (strcspn(list->items[i], "=") == n &&
		    !memcmp(list->items[i], name, n))
			return (long)i;
	}
	return -1;
}
