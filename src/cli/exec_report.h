/* What pinfold exec --json says. */
#ifndef PINFOLD_CLI_EXEC_REPORT_H
#define PINFOLD_CLI_EXEC_REPORT_H

#include "cli/launch.h"

struct exec_report {
	const char *task; /* id, or what was named as one */
	char *const *argv;
	const struct front_outcome *outcome; /* NULL: refused */
	const char *error;		     /* text of a refusal, or NULL */
	int signal; /* that came before the command ran, or 0 */
	int status; /* that exec ends with */
};

/*
 * Writes one object, schema "pinfold-exec-1", as standard error's last line or
 * into the file that --json names; without --json nothing. Returns r->status,
 * or EXIT_REFUSED after a message when it cannot be written.
 */
int exec_report(const struct options *o, const struct exec_report *r);

#endif
