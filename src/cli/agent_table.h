/*
 * What a coding agent keeps in the home, and what of it is settings. Names that
 * are not listed are not shown: what the next version of an agent keeps there
 * is no setting until somebody has looked at it.
 */
#ifndef PINFOLD_CLI_AGENT_TABLE_H
#define PINFOLD_CLI_AGENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define AGENT_PARTS_MAX 4
#define AGENT_SHOW_MAX 24
#define AGENT_NAMES_MAX 8

enum agent_part_kind {
	AGENT_DIRECTORY,
	AGENT_FILE,   /* as it is, unless it holds a token */
	AGENT_CLAUDE, /* ~/.claude.json: a few settings of it */
};

struct agent_part {
	enum agent_part_kind kind;
	const char *path; /* below the home */
	/* Of a directory: names directly in it. */
	const char *show[AGENT_SHOW_MAX + 1];
	/* Of these, files that are not shown where they hold a token. */
	const char *scan[AGENT_NAMES_MAX + 1];
	/*
	 * Hidden also where they are not there yet; "*" for any one name.
	 */
	const char *mask[AGENT_NAMES_MAX + 1];
};

struct agent {
	const char *name; /* of policy_agents */
	struct agent_part parts[AGENT_PARTS_MAX];
	size_t n;
};

extern const struct agent agents[];
extern const size_t n_agents;

/*
 * True if a text of settings assigns something that looks like a token or
 * password, or holds one of a known form. Names of variables and references to
 * them ("$NAME", "{env:NAME}") are none.
 */
bool agent_holds_token(const char *text);

#endif
