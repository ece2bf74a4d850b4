/*
 * The command line from one table: verbs, their options, help text. --help,
 * the manual pages and the bash completion are written from the same rows.
 */
#ifndef PINFOLD_CLI_OPTION_H
#define PINFOLD_CLI_OPTION_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum option_id {
	OPT_SOURCE, OPT_WORKDIR, OPT_POLICY, OPT_PRESET, OPT_TIER, OPT_READ,
	OPT_WRITE, OPT_ENV, OPT_LIMIT, OPT_TIMEOUT, OPT_LABEL, OPT_WORKSPACE,
	OPT_JSON, OPT_NO_STDIN, OPT_TTY, OPT_NO_TTY, OPT_QUIET, OPT_ALL, OPT_FOLLOW,
	OPT_STAT, OPT_TREE, OPT_PATCH, OPT_GRACE, OPT_YES, OPT_ONLY, OPT_HELD,
	OPT_MERGE, OPT_DRY_RUN, OPT_OLDER_THAN, OPT_CHANGES, OPT_HELP, OPT_VERSION, OPT_COUNT
};

/* What was given on the command line. */
struct options {
	struct strlist values[OPT_COUNT]; /* a flag counts as one value "" */
	char **rest;  /* operands; not owned, NULL-terminated */
	size_t n_rest;
	const char *verb;
};

bool options_has(const struct options *o, enum option_id id);
/* The last value given, or NULL. */
const char *options_get(const struct options *o, enum option_id id);
/*
 * The duration that option --name was given, in milliseconds; *ret is kept when
 * it was not given. -EINVAL with a text for anything else.
 */
int options_duration(const struct options *o, enum option_id id,
		     const char *name, uint64_t *ret, struct error *err);
void options_done(struct options *o);

/*
 * Parses argv[1..] by the table. Options end at "--" or, for verbs that run a
 * command, where that begins; rest[0] of exec is the task, and a "--" behind
 * it is left out. Errors name the word and suggest a near one. argv is
 * reordered: rest lies in it.
 */
int options_parse(int argc, char **argv, struct options *ret, struct error *err);

/* The error for a verb that does not exist: -EINVAL. */
int options_unknown_verb(const char *word, struct error *err);

/* One function for each verb; returns the exit status. */
typedef int verb_fn(const struct options *o);
verb_fn verb_run, verb_start, verb_exec, verb_ps, verb_logs, verb_stop,
	verb_kill, verb_refresh, verb_diff, verb_promote, verb_undo, verb_rm,
	verb_discard, verb_policy, verb_doctor, verb_help;

/* Runs the verb that o names (or help); returns the exit status. */
int options_dispatch(const struct options *o);

#endif
