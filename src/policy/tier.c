/*
 * The least tier by risk: data sensitivity x trust in the code x impact, as a
 * table. Trusted code needs little; untrusted code beside confidential data
 * needs a kernel of its own.
 */
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>

#define C TIER_CONTAINER
#define G TIER_GVISOR
#define M TIER_MICROVM

static const enum policy_tier least[4][3][3] = {
	/* code:              trusted    internal   untrusted */
	/* impact: low, medium, high in each */
	[DATA_PUBLIC] =       {{C, C, C}, {C, C, C}, {C, C, G}},
	[DATA_INTERNAL] =     {{C, C, C}, {C, C, C}, {C, C, G}},
	[DATA_CONFIDENTIAL] = {{C, C, C}, {C, C, G}, {G, G, M}},
	[DATA_SECRET] =       {{C, C, G}, {G, G, M}, {M, M, M}},
};

#undef C
#undef G
#undef M

enum policy_tier policy_least_tier(const struct policy *p, const char **ret_why)
{
	enum policy_tier tier = least[p->data][p->code][p->impact];

	if (!ret_why)
		return tier;
	if (tier == TIER_CONTAINER)
		*ret_why = p->code == CODE_UNTRUSTED
				   ? "no more than internal data, and an "
				     "escape would do no great harm"
				   : "the code is trusted enough for data of "
				     "this kind";
	else if (tier == TIER_GVISOR)
		*ret_why = "the host's kernel should not be the only wall "
			   "between this code and data or harm of this kind";
	else
		*ret_why = "code like this beside data of this kind needs a "
			   "kernel of its own";
	return tier;
}

/* How much each tier separates; a wasm module has no system calls at all. */
static unsigned strength(enum policy_tier tier)
{
	switch (tier) {
	case TIER_GVISOR:
	case TIER_WASM:
		return 2;
	case TIER_MICROVM:
		return 3;
	default:
		return 1;
	}
}

bool tier_is_weaker(enum policy_tier a, enum policy_tier b)
{
	return strength(a) < strength(b);
}

int policy_tier_to_run(const struct policy *p, enum policy_tier *ret,
		       struct error *err)
{
	const char *why;
	enum policy_tier tier = p->tier;

	if (tier == TIER_AUTO)
		tier = policy_least_tier(p, &why);
	if (tier == TIER_CONTAINER) {
		*ret = tier;
		return 0;
	}
	if (p->tier != TIER_AUTO)
		return error_set(err, -EOPNOTSUPP,
				 "tier: %s is not supported by this version of "
				 "pinfold, which runs the tier container",
				 policy_tier_name(tier));
	return error_set(err, -EOPNOTSUPP,
			 "classify: this asks for tier %s (data %s, code %s, impact "
			 "%s: %s), which is not supported by this version of "
			 "pinfold", policy_tier_name(tier),
			 field_find("classify.data")->values[p->data],
			 field_find("classify.code")->values[p->code],
			 field_find("classify.impact")->values[p->impact], why);
}

int policy_can_run(const struct policy *p, struct error *err)
{
	enum policy_tier tier;

	if (p->workspace == WORKSPACE_DIRECT && p->identity == IDENTITY_RANGE)
		return error_set(err, -EOPNOTSUPP,
				 "files.workspace: direct is not supported by "
				 "this version of pinfold together with "
				 "identity: range; use overlay or copy");
	if (p->workspace == WORKSPACE_DIRECT && p->nesting)
		return error_set(err, -EOPNOTSUPP,
				 "files.workspace: direct is not supported "
				 "together with nesting, which lets the command "
				 "mount; use overlay or copy");
	return policy_tier_to_run(p, &tier, err);
}
