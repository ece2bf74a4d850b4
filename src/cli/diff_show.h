/*
 * How pinfold diff shows a change: as a line, in a tree, as a patch, in JSON.
 * No name and no content reaches a terminal as the agent wrote it if it holds
 * anything that a terminal would not just print.
 */
#ifndef PINFOLD_CLI_DIFF_SHOW_H
#define PINFOLD_CLI_DIFF_SHOW_H

#include "cli/patch.h"
#include "cli/report.h"
#include "schema/json.h"
#include "workspace/changes.h"

enum show_how { SHOW_LINES, SHOW_STAT, SHOW_TREE, SHOW_PATCH };

struct show {
	struct report report;
	struct json_writer json;
	enum show_how how;
	bool terminal;
	const char *prefix;	 /* of a further directory's paths, or NULL */
	struct patcher *patcher; /* for patches */
	struct buf open;	 /* the directory that the tree is in */
	bool open_known;
};

/* What is shown of a change beside itself; NULL where there is none. */
struct show_notes {
	const char *held, *conflict;
	const char *from, *to; /* of a file that was moved */
	const char *target;    /* of a link */
	bool leaves;	       /* it leads out of the source */
	uint64_t size_before;
};

const char *show_kind_name(enum change_kind kind);

/* 0, or negative: the report failed, or err says what did. */
int show_change(struct show *s, const struct change *c,
		const struct show_notes *notes, struct error *err);

/* A line, with what stands below it, of something that is no path. */
int show_line(struct show *s, enum change_kind kind, const char *text);

/* A text of others between patches: made visible for a terminal. */
int show_text(struct show *s, const char *text, size_t len);

/* A line of our own between patches. */
int show_remark(struct show *s, const char *text);

#endif
