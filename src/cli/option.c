#include "cli/option.h"

#include "base/cleanup.h"
#include "base/buf.h"
#include "base/near.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/foreign.h"
#include "cli/option_table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Most bytes of a wrong word that a message repeats. */
#define QUOTE_MAX 80

struct parse {
	char **argv; /* operands are moved to its front */
	int argc;
	int next; /* the first word that was not looked at */
	int kept; /* operands end here */
	const struct verb_row *verb;
	char where[16]; /* "run: ", in front of each message */
	struct options *options;
	struct error *err;
};

static size_t n_operands(const struct parse *p)
{
	return p->options->n_rest;
}

static void keep_operand(struct parse *p, char *word)
{
	p->argv[p->kept++] = word;
	p->options->n_rest++;
}

static int wrong_word(struct parse *p, const char *what, const char *word,
		      const char *dashes, const char *near)
{
	AUTO_BUF struct buf quoted = BUF_INIT(8 * QUOTE_MAX);

	str_quote(&quoted, word, QUOTE_MAX);
	if (near)
		return error_set(p->err, -EINVAL,
				 "%s%s %s; did you mean %s%s?", p->where, what,
				 buf_str(&quoted), dashes, near);
	return error_set(p->err, -EINVAL, "%s%s %s; see pinfold help%s%s",
			 p->where, what, buf_str(&quoted), p->verb ? " " : "",
			 p->verb ? p->verb->name : "");
}

static bool takes(const struct parse *p, enum option_id id)
{
	if (id == OPT_VERSION)
		return !p->verb;
	return verb_takes(p->verb, id);
}

/* 0: it is no word of another tool. */
static int foreign_word(struct parse *p, const char *what, const char *word)
{
	AUTO_BUF struct buf quoted = BUF_INIT(8 * QUOTE_MAX);
	const char *why = foreign_missing(word), *same = foreign_same(word);

	if (why)
		return error_set(p->err, -EINVAL, "%s%s", p->where, why);
	if (!same)
		return 0;
	str_quote(&quoted, word, QUOTE_MAX);
	return error_set(p->err, -EINVAL, "%s%s %s; what does the same here: %s",
			 p->where, what, buf_str(&quoted), same);
}

static int unknown_option(struct parse *p, const char *word, const char *name)
{
	const char *near = NULL;
	int r = foreign_word(p, "unknown option", word);

	if (r < 0)
		return r;
	for (size_t i = 0; name && i < OPT_COUNT; i++) {
		if (takes(p, (enum option_id)i))
			near_consider(name, option_rows[i].name, &near);
	}
	return wrong_word(p, "unknown option", word, "--", near);
}

static bool exclude(enum option_id a, enum option_id b)
{
	return (option_rows[a].excludes & OPTION_BIT(b)) ||
	       (option_rows[b].excludes & OPTION_BIT(a));
}

/* Which of two values were to count would be a guess. */
static int check_key(const struct parse *p, const struct option_row *row,
		     const struct strlist *values, const char *value)
{
	size_t n = strcspn(value, "=");

	for (size_t i = 0; i < values->n; i++) {
		const char *other = values->items[i];

		if (strcspn(other, "=") == n && !memcmp(other, value, n))
			return error_set(p->err, -EINVAL,
					 "%s--%s %.*s is given twice", p->where,
					 row->name, (int)(n > 64 ? 64 : n),
					 value);
	}
	return 0;
}

static int store(struct parse *p, enum option_id id, const char *value)
{
	const struct option_row *row = &option_rows[id];
	struct strlist *values = p->options->values;

	for (size_t i = 0; i < OPT_COUNT; i++) {
		if (values[i].n > 0 && exclude(id, (enum option_id)i))
			return error_set(p->err, -EINVAL,
					 "%s--%s and --%s exclude each other",
					 p->where, option_rows[i].name,
					 row->name);
	}
	if (values[id].n > 0 && row->argument != ARGUMENT_NONE &&
	    !row->repeats)
		return error_set(p->err, -EINVAL, "%s--%s is given twice",
				 p->where, row->name);
	if (row->keyed && check_key(p, row, &values[id], value) < 0)
		return p->err->code;
	if (strlist_add(&values[id], value) < 0)
		return error_set(p->err, -ENOMEM, "out of memory");
	return 0;
}

/* inline_value is what stood behind "=", or NULL. */
static int take_option(struct parse *p, enum option_id id,
		       const char *inline_value)
{
	const struct option_row *row = &option_rows[id];
	const char *value = inline_value;

	if (row->argument == ARGUMENT_NONE && value)
		return error_set(p->err, -EINVAL, "%s--%s takes no value",
				 p->where, row->name);
	if (!value && row->argument != ARGUMENT_REQUIRED)
		return store(p, id, "");
	if (!value && p->next < p->argc && !str_eq(p->argv[p->next], "--"))
		value = p->argv[p->next++];
	if (!value || !*value)
		return error_set(p->err, -EINVAL, "%s--%s needs a value, %s",
				 p->where, row->name, row->metavar);
	return store(p, id, value);
}

static int parse_long(struct parse *p, const char *word)
{
	const char *name = word + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] ? name + len + 1 : NULL;
	char plain[NEAR_WORD_MAX];

	for (size_t i = 0; i < OPT_COUNT; i++) {
		const char *known = option_rows[i].name;

		if (strlen(known) == len && !memcmp(known, name, len) &&
		    takes(p, (enum option_id)i))
			return take_option(p, (enum option_id)i, value);
	}
	if (len >= sizeof(plain))
		return unknown_option(p, word, NULL);
	memcpy(plain, name, len);
	plain[len] = '\0';
	return unknown_option(p, word, plain);
}

/* Letters take no value, so that each one of "-nT" is an option. */
static int parse_letters(struct parse *p, const char *word)
{
	for (const char *c = word + 1; *c; c++) {
		size_t i = 0;
		int r;

		while (i < OPT_COUNT && (option_rows[i].letter != *c ||
					 !takes(p, (enum option_id)i)))
			i++;
		if (i == OPT_COUNT)
			return unknown_option(p, word, NULL);
		assert(option_rows[i].argument == ARGUMENT_NONE);
		r = store(p, (enum option_id)i, "");
		if (r < 0)
			return r;
	}
	return 0;
}

int options_unknown_verb(const char *word, struct error *err)
{
	struct parse p = {.err = err};
	const char *near = NULL;
	int r = foreign_word(&p, "unknown command", word);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n_verb_rows; i++)
		near_consider(word, verb_rows[i].name, &near);
	return wrong_word(&p, "unknown command", word, "", near);
}

static int parse_verb(struct parse *p, const char *word)
{
	p->verb = verb_find(word);
	if (!p->verb)
		return options_unknown_verb(word, p->err);
	p->options->verb = p->verb->name;
	snprintf(p->where, sizeof(p->where), "%s: ", word);
	return 0;
}

static int parse_word(struct parse *p, char *word)
{
	if (word[0] == '-' && word[1] == '-')
		return parse_long(p, word);
	if (word[0] == '-' && word[1])
		return parse_letters(p, word);
	if (!p->verb)
		return parse_verb(p, word);
	keep_operand(p, word);
	return 0;
}

static int check_operands(struct parse *p)
{
	const struct verb_row *verb = p->verb;

	if (!verb || options_has(p->options, OPT_HELP))
		return 0;
	if (n_operands(p) < verb->min_operands)
		return error_set(p->err, -EINVAL,
				 "%s: %s; usage: pinfold %s [OPTION]... %s",
				 verb->name, verb->missing, verb->name,
				 verb->synopsis);
	if (n_operands(p) > verb->max_operands)
		return wrong_word(p, "unexpected word",
				  p->options->rest[verb->max_operands], "",
				  NULL);
	return 0;
}

static int parse_all(struct parse *p)
{
	int r;

	while (p->next < p->argc) {
		char *word = p->argv[p->next++];

		if (p->verb && str_eq(word, "--"))
			break;
		r = parse_word(p, word);
		if (r < 0)
			return r;
		if (p->verb && n_operands(p) > p->verb->command_from)
			break;
	}
	while (p->next < p->argc)
		keep_operand(p, p->argv[p->next++]);
	p->argv[p->kept] = NULL;
	return check_operands(p);
}

int options_parse(int argc, char **argv, struct options *ret, struct error *err)
{
	struct parse p = {.argv = argv, .argc = argc, .next = 1, .kept = 1};
	struct options options = {0};
	int r;

	if (argc < 1)
		return error_set(err, -EINVAL, "no arguments at all");
	options.rest = argv + 1;
	p.options = &options;
	p.err = err;
	r = parse_all(&p);
	if (r < 0) {
		options_done(&options);
		return r;
	}
	*ret = options;
	return 0;
}

bool options_has(const struct options *o, enum option_id id)
{
	return o->values[id].n > 0;
}

const char *options_get(const struct options *o, enum option_id id)
{
	const struct strlist *values = &o->values[id];

	return values->n > 0 ? values->items[values->n - 1] : NULL;
}

int options_duration(const struct options *o, enum option_id id,
		     const char *name, uint64_t *ret, struct error *err)
{
	const char *value = options_get(o, id);
	AUTO_BUF struct buf quoted = BUF_INIT(512);

	if (!value || num_parse_duration(value, ret) == 0)
		return 0;
	str_quote(&quoted, value, 80);
	return error_set(err, -EINVAL, "--%s %s is no duration (like 500ms, "
			 "10s)", name, buf_str(&quoted));
}

void options_done(struct options *o)
{
	for (size_t i = 0; i < OPT_COUNT; i++)
		strlist_done(&o->values[i]);
	*o = (struct options){0};
}
