/* Help for people, written from the rows of cli/option_table.h. */
#ifndef PINFOLD_CLI_HELP_H
#define PINFOLD_CLI_HELP_H

#include "base/buf.h"
#include "cli/option_table.h"

#include <stdbool.h>

#define HELP_MAX (64u << 10)

/* Appends the list of verbs, or the help of one. 0 or negative. */
int help_overview(struct buf *out, bool colour);
int help_verb(struct buf *out, const struct verb_row *verb, bool colour);

/* "-t, --tty" or "    --limit NAME=VALUE": how help writes an option. */
int help_option_name(struct buf *out, const struct option_row *row);

#endif
