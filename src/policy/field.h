/*
 * The one table of policy fields. A row gives a field's name, type, range,
 * default, help and manual text; loading from YAML and JSON, the snapshot,
 * the command line, schema/policy.json, the manual and "policy show" are all
 * driven by it. A name that is known but that this version does not enforce
 * has a row too: it is refused by name, never ignored.
 */
#ifndef PINFOLD_POLICY_FIELD_H
#define PINFOLD_POLICY_FIELD_H

#include "base/buf.h"
#include "base/error.h"
#include "policy/policy.h"
#include "schema/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_type {
	FIELD_SECTION,  /* a mapping of other fields */
	FIELD_REFUSED,  /* known, not enforced by this version: refused */
	FIELD_CONST,    /* one value alone: values[0]; not kept */
	FIELD_VERSION,  /* the number POLICY_VERSION */
	FIELD_EXTENDS,  /* in files only */
	FIELD_SEAL,     /* in files only */
	FIELD_ENUM,
	FIELD_BOOL,
	FIELD_COUNT,    /* a whole number */
	FIELD_SIZE,     /* bytes */
	FIELD_DURATION, /* milliseconds */
	FIELD_MILLI,    /* thousandths */
	FIELD_PATHS,    /* list of absolute paths */
	FIELD_DENY,     /* list of absolute or relative literal paths */
	FIELD_GLOBS,    /* list of globs relative to the source (base/glob.h) */
	FIELD_NAMES,    /* list of environment names */
	FIELD_CHOICES,  /* list of some of values */
	FIELD_ENV,      /* mapping of environment names to texts */
};

/* Which of two values of an enumeration permits more. */
enum field_order {
	ORDER_NONE,
	ORDER_LOWER_IS_WIDER,
	ORDER_HIGHER_IS_WIDER,
};

struct policy_field {
	const char *name; /* dotted */
	enum field_type type;
	size_t offset;             /* in struct policy */
	const char *const *values; /* what may be chosen, NULL-ended */
	enum field_order order;
	uint64_t min, max; /* of numbers */
	uint64_t fallback; /* the built-in policy's number, flag or choice */
	bool none;         /* "none" is a value: LIMIT_NONE */
	bool half;         /* "half" is a value: LIMIT_HALF */
	const char *shorthand; /* of a section: the field a scalar stands for */
	const char *example;
	const char *help;   /* one line */
	const char *manual; /* further sentences, or NULL */
};

extern const struct policy_field policy_fields[];
extern const size_t n_policy_fields;

/* By dotted name, exactly; NULL when there is none. */
const struct policy_field *field_find(const char *name);
/* The bit of f in masks of fields. */
uint64_t field_bit(const struct policy_field *f);
/* True for types that have a place in struct policy. */
bool field_is_value(const struct policy_field *f);
/* True for a value of a single scalar. */
bool field_is_scalar(const struct policy_field *f);
/* True for one of the lists. */
bool field_is_list(const struct policy_field *f);
/* True for a list that takes away: more entries permit less. */
bool field_is_denial(const struct policy_field *f);
/* Bits of the field, or of all fields of a section (given or not as a name). */
uint64_t field_mask(const char *name);
#define FIELD_ALL UINT64_MAX

/* The number, flag or choice that p holds for a scalar field. */
uint64_t field_get(const struct policy_field *f, const struct policy *p);
void field_put(const struct policy_field *f, struct policy *p, uint64_t v);
struct strlist *field_list(const struct policy_field *f, struct policy *p);
const struct strlist *field_list_const(const struct policy_field *f,
				       const struct policy *p);

/* A scalar's value from its text. -EINVAL or -ERANGE; the text names f. */
int field_parse(const struct policy_field *f, const char *text, uint64_t *ret,
		struct error *err);
/* The text that field_parse reads back. */
int field_format(const struct policy_field *f, uint64_t v, struct buf *out);
/* The same for people: "4 GiB" rather than bytes. */
int field_human(const struct policy_field *f, uint64_t v, struct buf *out);
/* What a value of this field looks like: "a size such as 4GiB, or none". */
int field_expected(const struct policy_field *f, struct buf *out);

/* Checks one entry of a list field. The text names f and the entry. */
int field_check_entry(const struct policy_field *f, const char *entry,
		      struct error *err);
/* Checks the value of an environment variable. */
int field_check_env_value(const char *name, const char *value, size_t len,
			  struct error *err);
/* Sorts (by name for env.set) and drops repeated entries. */
void field_normalise(const struct policy_field *f, struct strlist *list);
/* The entry of an env list for name: index, or -1. */
long env_find(const struct strlist *list, const char *name);
void strlist_remove(struct strlist *list, size_t i);

/*
 * The nearest of the table's names below a section ("" for the top), for "did
 * you mean", or the same word in another section; NULL when none is near. The
 * result is the dotted name.
 */
const char *field_nearest(const char *section, const char *word);
/* The nearest of a NULL-ended list; NULL when none is near. */
const char *name_nearest(const char *const *names, const char *word);
/*
 * Binding a tree of values (from JSON or YAML) to a policy.
 *
 * Each problem found is reported with its place by the callback; binding goes
 * on to find more. A non-zero result of the callback ends it.
 */
struct bind_problem {
	unsigned line, column;
	const char *text;
};

struct bind {
	struct policy *p; /* holds the base's values already */
	bool complete;    /* a snapshot: every field must be there, no others */
	bool extending;   /* lists are joined to what p has */
	uint64_t given;   /* fields that the tree names */
	uint64_t seal;    /* fields that it seals */
	const char *extends; /* in the tree's memory, or NULL */
	struct json_place places[64]; /* where each field's value stands */
	int (*report)(void *arg, const struct bind_problem *problem);
	void *arg;
};

/* 0 (problems may have been reported) or -ENOMEM, or the callback's result. */
int bind_policy(struct bind *b, const struct json_value *root);

/* True if tier a separates less than tier b. */
bool tier_is_weaker(enum policy_tier a, enum policy_tier b);

/*
 * True if what "extends" says is a file and not a preset: it ends in .yaml, .yml
 * or .json. Other files are never opened for it, whatever the compiler asks.
 */
bool extends_is_path(const char *extends);

/* 0 for a preset that this version has; see policy_preset. */
int preset_check(const char *name, struct error *err);

/* The first of mask's fields in which p permits more than ceiling; or NULL. */
const struct policy_field *policy_wider(const struct policy *p,
					const struct policy *ceiling,
					uint64_t mask, struct buf *ret_how);

#endif
