/*
 * A policy from its texts: each is parsed to a tree, the chain of "extends" is
 * followed, and the trees are bound one over the other, the base first. All
 * problems of a chain are collected, each with file, line and column.
 */
#include "policy/load.h"

#include "base/cleanup.h"
#include "policy/field.h"

#include <errno.h>
#include <string.h>

#define NAME_QUOTE_MAX 200

struct level {
	struct json_doc doc;
	const struct json_value *root;
	const char *name; /* owned */
	struct json_place places[64];
	uint64_t given;
};

struct load {
	struct level levels[POLICY_CHAIN_MAX];
	size_t n;
	const struct level *current; /* whose problems are reported */
	unsigned flags;
	struct strlist *problems;
};


/* -ENOMEM, or 0 while more problems may be reported, else 1. */
static int add_problem(struct load *l, const char *name, struct json_place at,
		       const char *text)
{
	int r;

	r = strlist_take(l->problems, str_format("%s:%u:%u: %s", name, at.line,
						 at.column, text));
	if (r < 0)
		return r;
	return l->problems->n >= POLICY_PROBLEMS_MAX;
}

static int take_problem(void *arg, const struct bind_problem *problem)
{
	struct load *l = arg;

	return add_problem(l, l->current->name,
			   (struct json_place){problem->line, problem->column},
			   problem->text);
}

static bool is_json(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!strchr(" \t\r\n", text[i]) || !text[i])
			return text[i] == '{';
	}
	return false;
}

/* A fresh tree after a reading that failed. */
static void restart(struct level *level)
{
	json_doc_done(&level->doc);
	level->doc = (struct json_doc)JSON_DOC_INIT(POLICY_TREE_MAX,
						    POLICY_VALUES_MAX);
}

/* JSON as JSON, everything else and what is not quite JSON as YAML. */
static int parse_text(struct load *l, struct level *level, const char *text,
		      size_t len)
{
	struct json_place where = {1, 1}, json_where = {1, 1};
	struct error err = {0}, json_err = {0};
	const char *why;
	int r;

	restart(level);
	if (len > POLICY_TEXT_MAX) {
		r = add_problem(l, level->name, where,
				"larger than 1 MiB, the most that a policy "
				"can be");
		return r < 0 ? r : -EINVAL;
	}
	if (is_json(text, len)) {
		r = json_parse(text, len, 0, &level->doc, &level->root,
			       &json_where, &json_err);
		if (r == 0 || r == -ENOMEM)
			return r;
		restart(level);
	}
	r = yaml_parse(text, len, &level->doc, &level->root, &where, &err);
	if (r == 0 || r == -ENOMEM)
		return r;
	why = err.text;
	if (json_err.code && str_ends(level->name, ".json")) {
		/* Behind its own "line L, column C: ". */
		why = strstr(json_err.text, ": ") + 2;
		where = json_where;
	}
	r = add_problem(l, level->name, where, why);
	return r < 0 ? r : -EINVAL;
}

static int add_level(struct load *l, const char *name, const char *text,
		     size_t len)
{
	struct level *level = &l->levels[l->n];
	AUTO_BUF struct buf shown = BUF_INIT(4 * NAME_QUOTE_MAX + 16);
	size_t n = strlen(name);

	/* A name with control characters must not reach a terminal as it is. */
	str_quote(&shown, name, NAME_QUOTE_MAX);
	if (shown.len == n + 2)
		level->name = strdup(name);
	else
		level->name = strdup(buf_str(&shown));
	if (!level->name)
		return -ENOMEM;
	l->n++;
	return parse_text(l, level, text, len);
}

/* The next input's level, or the need for it. */
static int follow_path(struct load *l, const char *extends,
		       struct json_place at, const struct policy_input *next,
		       char **ret_need)
{
	int r;

	if (next)
		return add_level(l, next->name, next->text, next->len);
	if (l->flags & POLICY_LOAD_NO_MORE) {
		r = add_problem(l, l->levels[l->n - 1].name, at, "extends");
		return r < 0 ? r : 1;
	}
	*ret_need = strdup(extends);
	return *ret_need ? 1 : -ENOMEM;
}

/*
 * Follows the last level's "extends": adds a preset's or the next input's
 * level. 1 when the chain is complete, 0 when a level was added.
 */
static int follow(struct load *l, const struct policy_input *inputs, size_t n,
		  size_t *used, char **ret_need)
{
	struct level *last = &l->levels[l->n - 1];
	const struct json_value *v = json_get(last->root, "extends");
	const char *extends = json_get_string(last->root, "extends");
	struct json_place at;
	struct error err = {0};
	int r;

	/* What is no text is reported by the binding. */
	if (!extends || !*extends)
		return 1;
	at = (struct json_place){v->line, v->column};
	if (l->n >= POLICY_CHAIN_MAX) {
		r = add_problem(l, last->name, at, "extends: more than 8 "
				"policies one after another");
		return r < 0 ? r : 1;
	}
	if (extends_is_path(extends))
		return follow_path(l, extends, at,
				   *used < n ? &inputs[(*used)++] : NULL,
				   ret_need);
	if (preset_check(extends, &err) < 0) {
		AUTO_BUF struct buf text = BUF_INIT(ERROR_TEXT_MAX);

		buf_addf(&text, "extends: %s%s", err.text,
			 err.code == -ENOENT
				 ? " (a file's name ends in .yaml, .yml or "
				   ".json)" : "");
		r = add_problem(l, last->name, at, buf_str(&text));
		return r < 0 ? r : 1;
	}
	return add_level(l, extends, preset_text(extends),
			 strlen(preset_text(extends)));
}

/* What this level states beyond what its base sealed. */
static int check_seals(struct load *l, const struct level *level,
		       const struct policy *p, const struct policy *base)
{
	uint64_t mask = base->sealed;
	int r = 0;

	while (r == 0) {
		AUTO_BUF struct buf how = BUF_INIT(1024);
		AUTO_BUF struct buf text = BUF_INIT(ERROR_TEXT_MAX);
		const struct policy_field *f = policy_wider(p, base, mask,
							    &how);
		struct json_place at;

		if (!f)
			break;
		mask &= ~field_bit(f);
		at = level->places[f - policy_fields];
		if (at.line == 0)
			at = (struct json_place){1, 1};
		buf_addf(&text, "%s: %s (sealed by the policy that this one "
			 "extends)", f->name, buf_str(&how));
		r = add_problem(l, level->name, at, buf_str(&text));
	}
	return r;
}

static int bind_level(struct load *l, struct level *level, bool extending,
		      struct policy *p)
{
	struct policy base;
	struct bind b = {
		.p = p,
		.extending = extending,
		.report = take_problem,
		.arg = l,
	};
	int r = policy_copy(&base, p);

	if (r < 0)
		return r;
	l->current = level;
	r = bind_policy(&b, level->root);
	memcpy(level->places, b.places, sizeof(level->places));
	level->given = b.given;
	p->given |= b.given;
	p->sealed |= b.seal;
	if (r == 0 && l->problems->n == 0)
		r = check_seals(l, level, p, &base);
	policy_done(&base);
	return r;
}

/* Is it what an error's text begins with: by its name or its group's? */
static bool is_named(const struct policy_field *f, const char *text)
{
	size_t n = strcspn(text, ":");

	return strlen(f->name) >= n && !memcmp(f->name, text, n) &&
	       (!f->name[n] || f->name[n] == '.');
}

static bool is_before(struct json_place a, struct json_place b)
{
	return a.line < b.line || (a.line == b.line && a.column < b.column);
}

/* An error of the whole, where the first field that its text names stands. */
static int add_whole(struct load *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct level *level = &l->levels[i];
		struct json_place at = {0, 0};

		for (size_t k = 0; k < n_policy_fields; k++) {
			const struct policy_field *f = &policy_fields[k];

			if ((level->given & field_bit(f)) &&
			    is_named(f, text) &&
			    (!at.line || is_before(level->places[k], at)))
				at = level->places[k];
		}
		if (at.line)
			return add_problem(l, level->name, at, text);
	}
	return add_problem(l, l->levels[0].name, (struct json_place){1, 1},
			   text);
}

/* Eight texts of a mebibyte each can add up to more than a snapshot holds. */
static int check_size(struct load *l, const struct policy *p)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	int r = policy_to_json(p, &json);

	if (r != -EFBIG)
		return r;
	return add_problem(l, l->levels[0].name, (struct json_place){1, 1},
			   "with what it extends it is larger than 1 MiB, the "
			   "most that a policy can be");
}

static int start_policy(struct policy *p, const char *name)
{
	int r = policy_init(p);

	if (r < 0)
		return r;
	free(p->name);
	p->name = strdup(name);
	if (!p->name) {
		policy_done(p);
		return -ENOMEM;
	}
	return 0;
}

/* What can be said only of the whole. */
static int check_result(struct load *l, unsigned flags, const struct policy *p)
{
	int r = l->problems->n == 0 ? check_size(l, p) : 0;
	struct error err = {0};

	if (r == 0 && l->problems->n == 0 && !(flags & POLICY_LOAD_CEILING) &&
	    (policy_check(p, &err) < 0 ||
	     ((flags & POLICY_LOAD_RUNS) && policy_can_run(p, &err) < 0)))
		r = add_whole(l, err.text);
	if (r >= 0 && l->problems->n > 0)
		r = -EINVAL;
	return r;
}

static int bind_levels(struct load *l, unsigned flags, struct policy *ret)
{
	struct policy p;
	int r = start_policy(&p, l->levels[0].name);

	if (r < 0)
		return r;
	for (size_t i = l->n; i > 0 && r == 0; i--)
		r = bind_level(l, &l->levels[i - 1], i < l->n, &p);
	if (r >= 0)
		r = check_result(l, flags, &p);
	if (r < 0)
		policy_done(&p);
	else
		*ret = p;
	return r;
}

int policy_load(const struct policy_input *inputs, size_t n, unsigned flags,
		struct policy *ret, char **ret_need, struct strlist *problems)
{
	struct load *l = calloc(1, sizeof(*l));
	size_t used = 1;
	int r;

	*ret_need = NULL;
	if (!l)
		return -ENOMEM;
	l->problems = problems;
	l->flags = flags;
	r = add_level(l, inputs[0].name, inputs[0].text, inputs[0].len);
	while (r == 0)
		r = follow(l, inputs, n, &used, ret_need);
	if (r == 1 && !*ret_need)
		r = bind_levels(l, flags, ret);
	for (size_t i = 0; i < l->n; i++) {
		json_doc_done(&l->levels[i].doc);
		free((char *)l->levels[i].name);
	}
	free(l);
	return r < 0 ? r : 0;
}
