/*
 * What a policy amounts to: every permission and every denial, implicit ones
 * included, with the rule it comes from and the mechanism that holds it.
 */
#ifndef PINFOLD_CLI_POLICY_SHOW_H
#define PINFOLD_CLI_POLICY_SHOW_H

#include "base/buf.h"
#include "cli/tools.h"
#include "policy/policy.h"

#include <stdbool.h>

#define POLICY_SHOW_MAX (16u << 20)

/* Appends the table for people; t is what was found here. 0 or negative. */
int policy_show_text(const struct policy *p, const struct tools *t, bool colour,
		     struct buf *out);
/* One JSON object (pinfold-policy-show-1) and a newline. 0 or negative. */
int policy_show_json(const struct policy *p, const struct tools *t,
		     struct buf *out);

#endif
