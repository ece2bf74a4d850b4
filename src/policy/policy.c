/*
 * The resolved policy in memory: the built-in one, copies, and changes by
 * single words of the command line. Lists stay sorted and free of repetition.
 */
#include "policy/policy.h"

#include "base/cleanup.h"
#include "policy/field.h"

#include <errno.h>
#include <string.h>

/* What a program needs to speak the user's language on the user's terminal. */
static const char *const default_pass[] = {
	"COLORTERM", "LANG",     "LANGUAGE", "LC_ALL", "LC_COLLATE",
	"LC_CTYPE",  "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "NO_COLOR",
	"TERM",      "TZ",
};

int policy_init(struct policy *p)
{
	struct policy new = {0};

	for (size_t i = 0; i < n_policy_fields; i++) {
		if (field_is_scalar(&policy_fields[i]))
			field_put(&policy_fields[i], &new,
				  policy_fields[i].fallback);
	}
	new.name = strdup("offline");
	if (!new.name)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(default_pass); i++) {
		if (strlist_add(&new.env_pass, default_pass[i]) < 0) {
			policy_done(&new);
			return -ENOMEM;
		}
	}
	*p = new;
	return 0;
}

void policy_done(struct policy *p)
{
	free(p->name);
	strlist_done(&p->agents);
	strlist_done(&p->sockets);
	strlist_done(&p->read);
	strlist_done(&p->write);
	strlist_done(&p->deny);
	strlist_done(&p->protect);
	strlist_done(&p->env_pass);
	strlist_done(&p->env_set);
	*p = (struct policy){0};
}

int policy_copy(struct policy *p, const struct policy *from)
{
	struct policy new = *from;
	int r = 0;

	new.name = from->name ? strdup(from->name) : NULL;
	if (from->name && !new.name)
		r = -ENOMEM;
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (field_is_list(f))
			*field_list(f, &new) = (struct strlist){0};
	}
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];
		const struct strlist *list;

		if (!field_is_list(f))
			continue;
		list = field_list_const(f, from);
		for (size_t k = 0; r == 0 && k < list->n; k++)
			r = strlist_add(field_list(f, &new), list->items[k]);
	}
	if (r < 0) {
		policy_done(&new);
		return r;
	}
	*p = new;
	return 0;
}

/* "there are A, B, C": the single values of a section. */
static void name_fields(const char *section, struct buf *out)
{
	size_t n = strlen(section);
	const char *before = "there are ";

	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (!field_is_scalar(f) || !str_starts(f->name, section) ||
		    f->name[n] != '.')
			continue;
		buf_addf(out, "%s%s", before, f->name + n + 1);
		before = ", ";
	}
}

static void unknown_name(const char *section, const char *word,
			 struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	AUTO_BUF struct buf rest = BUF_INIT(512);
	const char *near = field_nearest(section, word);

	if (near && *section && str_starts(near, section))
		near += strlen(section) + 1;
	str_quote(&quoted, word, 80);
	if (near)
		buf_addf(&rest, "did you mean %s?", near);
	else if (*section)
		name_fields(section, &rest);
	else
		buf_add_str(&rest, "see pinfold-policy(5)");
	error_set(err, -EINVAL, "%s %s is not known; %s",
		  *section ? "limit" : "policy field", buf_str(&quoted),
		  buf_str(&rest));
}

/* A field by what a user may call it; the text suggests a near one. */
static const struct policy_field *find_named(const char *section,
					     const char *word,
					     struct error *err)
{
	AUTO_BUF struct buf name = BUF_INIT(256);
	const struct policy_field *f = NULL;

	if (buf_addf(&name, "%s%s%s", section, *section ? "." : "", word) == 0)
		f = field_find(buf_str(&name));
	if (f && f->type == FIELD_SECTION && f->shorthand)
		f = field_find(f->shorthand);
	if (!f)
		unknown_name(section, word, err);
	return f;
}

static int set_scalar(struct policy *p, const struct policy_field *f,
		      const char *text, struct error *err)
{
	uint64_t v;
	int r;

	if (f->type == FIELD_REFUSED || f->type == FIELD_CONST)
		return error_set(err, -EINVAL,
				 "%s is not supported by this version of "
				 "pinfold", f->name);
	if (!field_is_scalar(f))
		return error_set(err, -EINVAL, "%s is not a single value",
				 f->name);
	r = field_parse(f, text, &v, err);
	if (r < 0)
		return r == -ERANGE ? -EINVAL : r;
	field_put(f, p, v);
	p->given |= field_bit(f);
	return 0;
}

int policy_set(struct policy *p, const char *field, const char *text,
	       struct error *err)
{
	const struct policy_field *f = find_named("", field, err);

	return f ? set_scalar(p, f, text, err) : -EINVAL;
}

int policy_set_limit(struct policy *p, const char *assignment,
		     struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	AUTO_FREE char *name = NULL;
	const struct policy_field *f;
	const char *equals = strchr(assignment, '=');

	if (!equals) {
		str_quote(&quoted, assignment, 80);
		return error_set(err, -EINVAL,
				 "limit %s has no value; write for example "
				 "memory=4GiB", buf_str(&quoted));
	}
	name = strndup(assignment, (size_t)(equals - assignment));
	if (!name)
		return error_set(err, -ENOMEM, "out of memory");
	f = find_named("limits", name, err);
	return f ? set_scalar(p, f, equals + 1, err) : -EINVAL;
}

static int list_add(struct policy *p, const char *field, const char *entry,
		    struct error *err)
{
	const struct policy_field *f = field_find(field);
	struct strlist *list = field_list(f, p);

	if (list->n >= POLICY_LIST_MAX)
		return error_set(err, -E2BIG, "%s: more than %d entries",
				 field, POLICY_LIST_MAX);
	if (strlist_add(list, entry) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	field_normalise(f, list);
	p->given |= field_bit(f);
	return 0;
}

static void env_drop(struct strlist *list, const char *name)
{
	long at = env_find(list, name);

	if (at >= 0)
		strlist_remove(list, (size_t)at);
}

int policy_add_env(struct policy *p, const char *assignment, struct error *err)
{
	const char *equals = strchr(assignment, '=');
	AUTO_FREE char *name = strndup(assignment, strcspn(assignment, "="));
	int r;

	if (!name)
		return error_set(err, -ENOMEM, "out of memory");
	r = field_check_entry(field_find("env.pass"), name, err);
	if (r < 0)
		return r;
	if (equals) {
		r = field_check_env_value(name, equals + 1, strlen(equals + 1),
					  err);
		if (r < 0)
			return r;
	}
	/* The later word wins over what the policy says of this name. */
	env_drop(&p->env_set, name);
	if (!equals)
		return list_add(p, "env.pass", name, err);
	env_drop(&p->env_pass, name);
	return list_add(p, "env.set", assignment, err);
}

int policy_add_path(struct policy *p, bool writable, const char *path,
		    struct error *err)
{
	const char *field = writable ? "files.write" : "files.read";
	int r = field_check_entry(field_find(field), path, err);

	return r < 0 ? r : list_add(p, field, path, err);
}

static const char *choice_name(const char *field, unsigned v)
{
	return field_find(field)->values[v];
}

const char *policy_tier_name(enum policy_tier tier)
{
	return choice_name("tier", tier);
}

const char *policy_workspace_name(enum policy_workspace mode)
{
	return choice_name("files.workspace.mode", mode);
}

const char *policy_identity_name(enum policy_identity identity)
{
	return choice_name("identity", identity);
}
