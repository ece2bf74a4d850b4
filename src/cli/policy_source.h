/*
 * Which policy is in force, and how a policy file becomes a policy.
 *
 * --policy FILE, or --preset NAME, or ~/.config/pinfold/policy.yaml, or the
 * built-in policy; the command line's options on top; /etc/pinfold/policy.yaml
 * as a ceiling over all of it. Never anything of the source: an agent can
 * write there.
 */
#ifndef PINFOLD_CLI_POLICY_SOURCE_H
#define PINFOLD_CLI_POLICY_SOURCE_H

#include "base/error.h"
#include "cli/option.h"
#include "policy/policy.h"

#define POLICY_CEILING_PATH "/etc/pinfold/policy.yaml"

/*
 * The policy in force for these options: ret is filled only on success
 * (policy_done). Done: --policy, --preset, --tier, --read, --write, --env,
 * --limit, --timeout, --workspace, seals, the ceiling, policy_check, grants of
 * the caller's home. Left to the caller: policy_tier_to_run. Costs a few
 * failing look-ups when no policy file exists.
 */
int policy_in_force(const struct options *o, struct policy *ret,
		    struct error *err);

/* Where files are looked for; policy_files_init gives the usual places. */
struct policy_files {
	char *ceiling;
	char *user;     /* NULL: none */
	char *cache;    /* directory of compiled policies; NULL: none */
	char *compiler; /* pinfold-policy; NULL: beside this program */
	char *home;     /* the caller's; NULL: not known */
};

int policy_files_init(struct policy_files *f, struct error *err);
void policy_files_done(struct policy_files *f);

int policy_in_force_from(const struct policy_files *f, const struct options *o,
			 struct policy *ret, struct error *err);

/*
 * The policy of one file and what it extends; flags of policy/load.h. Problems
 * of the text (-EINVAL) are appended to problems, "FILE:LINE:COLUMN: TEXT"
 * each; err then holds the first and how many follow. Other errors (no such
 * file, larger than 1 MiB, no compiler) are in err alone.
 */
int policy_file_load(const struct policy_files *f, const char *path,
		     unsigned flags, struct policy *ret,
		     struct strlist *problems, struct error *err);

#endif
