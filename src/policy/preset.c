/*
 * Names of presets. Those of DESIGN that need more than this version has are
 * known and refused by name, with what they need.
 */
#include "base/near.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>

static const struct {
	const char *name;
	const char *needs; /* NULL: this version has all of it */
} presets[] = {
	{"offline", NULL},
	{"python-dev", "network rules"},
	{"node-dev", "network rules"},
	{"research", "network rules"},
	{"claude-code", "network rules and credentials"},
	{"codex", "network rules and credentials"},
	{"gemini-cli", "network rules and credentials"},
	{"aider", "network rules and credentials"},
	{"stage-1-public", "network rules and approvals"},
	{"stage-2-internal", "network rules and approvals"},
	{"stage-3-branch", "network rules and approvals"},
};

#define N_PRESETS (sizeof(presets) / sizeof(*presets))

bool extends_is_path(const char *extends)
{
	return str_ends(extends, ".yaml") || str_ends(extends, ".yml") ||
	       str_ends(extends, ".json");
}

int preset_check(const char *name, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(512);
	const char *near = NULL;

	for (size_t i = 0; i < N_PRESETS; i++) {
		if (!str_eq(presets[i].name, name))
			continue;
		if (!presets[i].needs)
			return 0;
		return error_set(err, -EOPNOTSUPP,
				 "preset '%s' needs %s, which this version of "
				 "pinfold does not have", name,
				 presets[i].needs);
	}
	for (size_t i = 0; i < N_PRESETS; i++)
		near_consider(name, presets[i].name, &near);
	str_quote(&quoted, name, 80);
	return error_set(err, -ENOENT, "preset %s is not known%s%s%s",
			 buf_str(&quoted), near ? "; did you mean " : "",
			 near ? near : "", near ? "?" : "");
}

int policy_preset(const char *name, struct policy *p, struct error *err)
{
	int r = preset_check(name, err);

	if (r < 0)
		return r;
	/* The only preset without needs is the built-in policy. */
	r = policy_init(p);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}
