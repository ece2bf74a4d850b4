/*
 * Policies from text, YAML or JSON. Only pinfold-policy links this (libyaml).
 * Nothing here opens a file: the caller brings each text of a chain of
 * "extends", so that the process that parses needs no file system.
 */
#ifndef PINFOLD_POLICY_LOAD_H
#define PINFOLD_POLICY_LOAD_H

#include "base/error.h"
#include "base/str.h"
#include "policy/policy.h"
#include "schema/json.h"

#include <stddef.h>

#define POLICY_CHAIN_MAX 8      /* files and presets one after another */
#define POLICY_PROBLEMS_MAX 100 /* reported of one policy */

/* Limits of one text, beside POLICY_TEXT_MAX. */
#define POLICY_DEPTH_MAX 32
#define POLICY_VALUES_MAX 65536
#define POLICY_TREE_MAX ((size_t)32 << 20)

struct policy_input {
	const char *name; /* for messages */
	const char *text;
	size_t len;
};

enum policy_load_flags {
	/* A ceiling is no policy of a task: policy_check is left out. */
	POLICY_LOAD_CEILING = 1,
	/* What this version cannot run (policy_can_run) is a problem too. */
	POLICY_LOAD_RUNS = 2,
	/* The file that the last input extends cannot be had: a problem, whose
	 * text the caller completes, instead of a need. */
	POLICY_LOAD_NO_MORE = 4,
	POLICY_LOAD_ALL = 7,
};

/*
 * Loads inputs[0], which extends inputs[1], and so on. Returns
 *   0, *ret_need NULL: ret holds the policy (policy_done),
 *   0, *ret_need set: the path that the last input extends is needed as one
 *      more input (free it); relative to the directory of that last input,
 *   -EINVAL: problems (fresh) holds at least one "NAME:LINE:COLUMN: TEXT",
 *   -ENOMEM.
 */
int policy_load(const struct policy_input *inputs, size_t n, unsigned flags,
		struct policy *ret, char **ret_need, struct strlist *problems);

/*
 * One YAML document (libyaml) as a tree of JSON values, in doc. Refused: more
 * documents, directives, anchors, aliases, tags, merge keys, duplicate keys,
 * keys that are no text, NUL, what is not UTF-8, depth and number beyond the
 * limits. The text of err has no place in it; where has.
 */
int yaml_parse(const char *text, size_t len, struct json_doc *doc,
	       const struct json_value **ret_root, struct json_place *where,
	       struct error *err);

/* The text of a preset that preset_check accepts; NULL for others. */
const char *preset_text(const char *name);

/* schema/policy.json: a JSON Schema (draft 2020-12) of policy texts. */
int policy_write_schema(struct buf *out);
/* The manual page pinfold-policy(5), as mdoc source. */
int policy_write_manual(struct buf *out);

#endif
