/*
 * Names of presets, which are the texts of profiles/, too. Those of DESIGN that need more than this version has are
 * known and refused by name, with what they need.
 */
#include "base/near.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	const char *needs; /* NULL: this version has all of it */
	const char *agent; /* the built-in policy with this agent's settings */
} presets[] = {
	{"offline", NULL, NULL},
	{"aider", NULL, "aider"},
	{"claude-code", NULL, "claude-code"},
	{"codex", NULL, "codex"},
	{"gemini-cli", NULL, "gemini-cli"},
	{"opencode", NULL, "opencode"},
	{"python-dev", "network rules", NULL},
	{"node-dev", "network rules", NULL},
	{"research", "network rules", NULL},
	{"stage-1-public", "network rules and approvals", NULL},
	{"stage-2-internal", "network rules and approvals", NULL},
	{"stage-3-branch", "network rules and approvals", NULL},
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

/* What makes the preset of an agent of the built-in policy. */
static int add_agent(struct policy *p, const char *preset)
{
	for (size_t i = 0; i < N_PRESETS; i++) {
		if (!presets[i].agent || !str_eq(presets[i].name, preset))
			continue;
		free(p->name);
		p->name = strdup(preset);
		p->given |= field_mask("files.agents");
		return p->name ? strlist_add(&p->agents, presets[i].agent)
			       : -ENOMEM;
	}
	return 0;
}

int policy_preset(const char *name, struct policy *p, struct error *err)
{
	int r = preset_check(name, err);
	struct policy new;

	if (r < 0)
		return r;
	r = policy_init(&new);
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = add_agent(&new, name);
	if (r < 0) {
		policy_done(&new);
		return error_set(err, r, "out of memory");
	}
	*p = new;
	return 0;
}
