/*
 * The rows behind cli/option.h: one for each option and one for each verb.
 * The parser, --help, the manual pages and the bash completion read them.
 */
#ifndef PINFOLD_CLI_OPTION_TABLE_H
#define PINFOLD_CLI_OPTION_TABLE_H

#include "cli/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_BIT(id) (UINT32_C(1) << (id))

enum option_argument {
	ARGUMENT_NONE,
	ARGUMENT_REQUIRED, /* --name=VALUE or --name VALUE */
	ARGUMENT_OPTIONAL, /* --name or --name=VALUE */
};

struct option_row {
	char letter; /* '\0' for none */
	const char *name;
	enum option_argument argument;
	const char *metavar; /* how help calls the argument */
	const char *words;   /* the argument's values for completion, or NULL;
				"<file>" and "<dir>" stand for paths */
	bool repeats;	     /* every value counts, else giving two is wrong */
	bool keyed;	     /* KEY or KEY=VALUE: one value for each key */
	uint32_t excludes;  /* OPTION_BIT(OPT_X) | ... */
	const char *help;	 /* one line */
	const char *manual;	 /* paragraphs, an empty line between */
};

struct verb_row {
	const char *name;
	const char *synopsis; /* the operands */
	const char *words;    /* the first operand's values for completion */
	/*
	 * The first command_from operands are pinfold's, what follows is a
	 * command with options of its own. SIZE_MAX: there is no command.
	 */
	size_t command_from;
	size_t min_operands;
	size_t max_operands;
	const char *missing; /* what is missing below min_operands */
	uint32_t options;    /* OPTION_BIT(OPT_X) | ... */
	const char *help;    /* one line */
	const char *manual;  /* paragraphs; lines with a tab are examples */
};

extern const struct option_row option_rows[OPT_COUNT];
extern const struct verb_row verb_rows[];
extern const size_t n_verb_rows;

/* What the option's manual says on the page of this verb. */
const char *option_manual(const struct verb_row *verb, enum option_id id);

/* The row of a verb, or NULL. */
const struct verb_row *verb_find(const char *name);
bool verb_takes(const struct verb_row *verb, enum option_id id);

#endif
