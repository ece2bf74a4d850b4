/*
 * Comparing policies: which permits more, field by field. Used for the
 * machine's ceiling and for what a base seals.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

static void say_value(struct buf *out, const struct policy_field *f,
		      const struct policy *p)
{
	field_format(f, field_get(f, p), out);
}

static bool tier_is_wider(const struct policy *p, const struct policy *ceiling)
{
	enum policy_tier tier = p->tier;

	/* An automatic ceiling limits by classification, not by name. */
	if (ceiling->tier == TIER_AUTO)
		return false;
	if (tier == TIER_AUTO)
		tier = policy_least_tier(p, NULL);
	return tier_is_weaker(tier, ceiling->tier);
}

static bool number_is_wider(const struct policy_field *f, uint64_t v,
			    uint64_t ceiling)
{
	if (v == ceiling || ceiling == LIMIT_NONE)
		return false;
	if (f->half && (v == LIMIT_HALF || ceiling == LIMIT_HALF))
		return true;
	return v > ceiling;
}

static bool scalar_is_wider(const struct policy_field *f,
			    const struct policy *p,
			    const struct policy *ceiling)
{
	uint64_t v = field_get(f, p), c = field_get(f, ceiling);

	if (f->offset == offsetof(struct policy, tier))
		return tier_is_wider(p, ceiling);
	if (f->offset == offsetof(struct policy, workspace))
		return v == WORKSPACE_DIRECT && c != WORKSPACE_DIRECT;
	if (f->order == ORDER_LOWER_IS_WIDER)
		return v < c;
	if (f->order == ORDER_HIGHER_IS_WIDER)
		return v > c;
	return number_is_wider(f, v, c);
}

/* As path_is_below, for relative paths too. */
static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (str_eq(dir, "/"))
		return path[0] == '/';
	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}

static bool covered(const struct strlist *dirs, const char *path)
{
	for (size_t i = 0; i < dirs->n; i++) {
		if (is_at_or_below(path, dirs->items[i]))
			return true;
	}
	return false;
}

/* The first entry that makes p's list wider; NULL when none does. */
static const char *wider_entry(const struct policy_field *f,
			       const struct policy *p,
			       const struct policy *ceiling)
{
	const struct strlist *mine = field_list_const(f, p);
	const struct strlist *theirs = field_list_const(f, ceiling);

	if (field_is_denial(f)) {
		for (size_t i = 0; i < theirs->n; i++) {
			if (!covered(mine, theirs->items[i]))
				return theirs->items[i];
		}
		return NULL;
	}
	for (size_t i = 0; i < mine->n; i++) {
		const char *entry = mine->items[i];

		if (f->type != FIELD_PATHS) {
			if (!strlist_has(theirs, entry))
				return entry;
		} else if (!covered(theirs, entry) &&
			   (mine != &p->read ||
			    !covered(&ceiling->write, entry))) {
			return entry;
		}
	}
	return NULL;
}

static bool field_is_wider(const struct policy_field *f, const struct policy *p,
			   const struct policy *ceiling, struct buf *how)
{
	const char *entry;

	if (field_is_scalar(f)) {
		if (!scalar_is_wider(f, p, ceiling))
			return false;
		say_value(how, f, p);
		buf_add_str(how, " permits more than ");
		say_value(how, f, ceiling);
		return true;
	}
	entry = wider_entry(f, p, ceiling);
	if (!entry)
		return false;
	if (f->type == FIELD_DENY)
		buf_add_str(how, "the denial of ");
	if (f->type == FIELD_GLOBS)
		buf_add_str(how, "the protection of ");
	/* Of a variable, the name alone: its value may be a secret. */
	if (f->type == FIELD_ENV) {
		buf_addf(how, "%.*s", (int)strcspn(entry, "="), entry);
		buf_add_str(how, " is not permitted");
		return true;
	}
	str_quote(how, entry, 200);
	buf_add_str(how, field_is_denial(f) ? " is missing"
					    : " is not permitted");
	return true;
}

const struct policy_field *policy_wider(const struct policy *p,
					const struct policy *ceiling,
					uint64_t mask, struct buf *ret_how)
{
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (field_is_value(f) && (mask & field_bit(f)) &&
		    field_is_wider(f, p, ceiling, ret_how))
			return f;
	}
	return NULL;
}

static int check(const struct policy *p, const struct policy *ceiling,
		 uint64_t mask, const char *whose, struct error *err)
{
	AUTO_BUF struct buf how = BUF_INIT(1024);
	const struct policy_field *f = policy_wider(p, ceiling, mask, &how);

	if (!f)
		return 0;
	return error_set(err, -EPERM, "%s: %s (%s)", f->name, buf_str(&how),
			 whose);
}

int policy_check_ceiling(const struct policy *p, const struct policy *ceiling,
			 struct error *err)
{
	return check(p, ceiling, ceiling->given, "the machine's ceiling", err);
}

int policy_check_sealed(const struct policy *p, const struct policy *base,
			struct error *err)
{
	return check(p, base, base->sealed, "the policy seals this field",
		     err);
}

static int add_denials(struct policy *p, const struct policy *ceiling)
{
	for (size_t k = 0; k < n_policy_fields; k++) {
		const struct policy_field *f = &policy_fields[k];
		const struct strlist *theirs;

		if (!field_is_denial(f))
			continue;
		theirs = field_list_const(f, ceiling);
		for (size_t i = 0; i < theirs->n; i++) {
			if (strlist_add(field_list(f, p), theirs->items[i]) < 0)
				return -ENOMEM;
		}
		field_normalise(f, field_list(f, p));
	}
	return 0;
}

/* Keeps the entries of a default list that the ceiling permits. */
static void narrow_list(const struct policy_field *f, struct policy *p,
			const struct policy *ceiling)
{
	struct strlist *mine = field_list(f, p);
	const struct strlist *theirs = field_list_const(f, ceiling);

	for (size_t i = mine->n; i > 0; i--) {
		if (!strlist_has(theirs, mine->items[i - 1]))
			strlist_remove(mine, i - 1);
	}
}

static void narrow_defaults(struct policy *p, const struct policy *ceiling)
{
	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (!field_is_value(f) || !(ceiling->given & field_bit(f)) ||
		    (p->given & field_bit(f)))
			continue;
		if (field_is_list(f)) {
			if (!field_is_denial(f))
				narrow_list(f, p, ceiling);
		} else if (scalar_is_wider(f, p, ceiling)) {
			field_put(f, p, field_get(f, ceiling));
		}
	}
}

int policy_apply_ceiling(struct policy *p, const struct policy *ceiling,
			 uint64_t machine_memory, struct error *err)
{
	struct policy limit = *ceiling; /* lists are only read */
	uint64_t half = machine_memory / 2;
	bool was_half = p->limits.memory == LIMIT_HALF;
	int r;

	/* Bytes on both sides, so that they can be compared. */
	if (was_half && ceiling->limits.memory != LIMIT_HALF)
		p->limits.memory = half;
	if (!was_half && limit.limits.memory == LIMIT_HALF)
		limit.limits.memory = half;
	if (add_denials(p, ceiling) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	narrow_defaults(p, &limit);
	r = policy_check_ceiling(p, &limit, err);
	if (r == 0 && was_half && p->limits.memory == half)
		p->limits.memory = LIMIT_HALF;
	return r;
}
