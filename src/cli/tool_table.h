/*
 * One row for each kind of tool chain or cache: where it is found and what of
 * it a sandbox shows.
 */
#ifndef PINFOLD_CLI_TOOL_TABLE_H
#define PINFOLD_CLI_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define TOOL_SHOW_MAX 3
#define TOOL_MASK_MAX 16
#define TOOL_CACHES_MAX 2
#define TOOL_WITH_MAX 3

struct tool {
	const char *name;
	/* Names the root; NULL: no variable does. */
	const char *variable;
	/*
	 * The root without it, below the home; "@cache/" and "@data/" stand for
	 * the directories of the XDG specification. NULL: there is none.
	 */
	const char *place;
	/*
	 * Another kind of root: what lies directly below this directory, or
	 * (whole) the directory itself.
	 */
	const char *above;
	bool whole;
	/* What a root has: without it, it is none of this tool's. */
	const char *marker;
	/*
	 * Below the root. A tool chain is shown where PATH leads below the
	 * root, or where the variable names it; a cache wherever it is.
	 */
	const char *show[TOOL_SHOW_MAX + 1];
	const char *caches[TOOL_CACHES_MAX + 1];
	/* Hidden in both; "*" stands for any one name. */
	const char *mask[TOOL_MASK_MAX + 1];
	/* Tools that come along when this one is shown. */
	const char *with[TOOL_WITH_MAX + 1];
	/*
	 * The variable is set inside to where the root is. Others are set to
	 * the usual place below the sandbox's home, where the caches are, too.
	 */
	bool passed;
};

extern const struct tool tools[];
extern const size_t n_tools;

#endif
