/*
 * What became of a command, in words and as an exit status: the same for run
 * and exec.
 */
#ifndef PINFOLD_CLI_OUTCOME_H
#define PINFOLD_CLI_OUTCOME_H

#include "policy/policy.h"
#include "task/front.h"

#include <stdint.h>

/* The status of what ran out of time. */
#define EXIT_TIMED_OUT 124

/*
 * The exit status of an exec; prints the message that belongs to it. limits:
 * those of the task, for the message.
 */
int outcome_status(const struct front_outcome *outcome, const char *command,
		   const char *workdir, const struct policy_limits *limits);

/* "limit: wall: the WHAT was stopped after 5s"; returns EXIT_TIMED_OUT. */
int outcome_timed_out(const char *what, uint64_t ms);

/*
 * Says on standard error how many network attempts were refused, if any, and
 * whether names were looked up: a program says of that only that there is no
 * such name.
 */
void outcome_say_refusals(uint64_t refusals, uint64_t lookups, const char *id);

#endif
