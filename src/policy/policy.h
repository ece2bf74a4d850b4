/*
 * A policy in its resolved form: every field has a value, defaults included.
 * The canonical JSON of this structure (RFC 8785, integers only) is the policy
 * snapshot; its SHA-256 is the policy digest. Nothing here touches the system:
 * policies come from YAML through policy/load.h (in pinfold-policy alone) or
 * from canonical JSON through policy_from_json.
 */
#ifndef PINFOLD_POLICY_POLICY_H
#define PINFOLD_POLICY_POLICY_H

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_VERSION 1
/* Largest policy text that is read, and largest snapshot that is written. */
#define POLICY_TEXT_MAX (1u << 20)
/* Most entries in any one list of a policy. */
#define POLICY_LIST_MAX 4096

enum policy_data { DATA_PUBLIC, DATA_INTERNAL, DATA_CONFIDENTIAL, DATA_SECRET };
enum policy_code { CODE_TRUSTED, CODE_INTERNAL, CODE_UNTRUSTED };
enum policy_impact { IMPACT_LOW, IMPACT_MEDIUM, IMPACT_HIGH };
enum policy_tier { TIER_AUTO, TIER_CONTAINER, TIER_GVISOR, TIER_MICROVM, TIER_WASM };
enum policy_identity { IDENTITY_SINGLE, IDENTITY_RANGE };
enum policy_workspace { WORKSPACE_AUTO, WORKSPACE_OVERLAY, WORKSPACE_COPY, WORKSPACE_DIRECT };

/* Whether the caller's tool chains and package caches are there. */
enum policy_toolchains { TOOLCHAINS_OFF, TOOLCHAINS_AUTO };

/* What the policy demands of the mechanism behind the limits. */
enum policy_enforce {
	ENFORCE_BEST, /* the best there is; the record says which it was */
	ENFORCE_HARD, /* refuse the task where the kernel cannot hold a limit */
};

/* A limit of this value does not exist ("none" in a policy). */
#define LIMIT_NONE UINT64_MAX
/* memory only: half of the machine's memory, resolved when the task starts. */
#define LIMIT_HALF 0

struct policy_limits {
	uint64_t cpus_milli; /* thousandths of a CPU; throttles */
	uint64_t memory;     /* bytes; stops */
	uint64_t disk;       /* bytes written to workspace, home, /tmp; stops */
	uint64_t inodes;     /* files made there; stops */
	uint64_t processes;  /* processes and threads; stops */
	uint64_t open_files; /* descriptors of one process; refuses */
	uint64_t output;     /* bytes on stdout and stderr; stops */
	uint64_t cpu_time_ms;
	uint64_t wall_ms;
	uint64_t idle_ms; /* without output, input or a new exec; stops */
	enum policy_enforce enforce;
};

struct policy {
	char *name; /* of the preset or file; for messages, not in the digest */
	enum policy_data data;
	enum policy_code code;
	enum policy_impact impact;
	enum policy_tier tier;
	enum policy_identity identity;
	bool nesting;
	enum policy_workspace workspace;
	enum policy_toolchains toolchains;
	struct strlist agents;  /* names of coding agents; see policy_agents */
	struct strlist sockets; /* absolute, normal; Unix sockets of the host */
	struct strlist read;  /* absolute, normal host paths; sorted, unique */
	struct strlist write; /* likewise; changes there are held back too */
	struct strlist deny;  /* absolute, or relative to the source; literal */
	struct strlist protect; /* globs relative to the source */
	struct policy_limits limits;
	bool git_author; /* the caller's name and mail address, for git */
	struct strlist env_pass; /* names taken from the caller's environment */
	struct strlist env_set;  /* "NAME=value", sorted by name, unique */
	/*
	 * Not part of the snapshot. given: the fields that a file or the
	 * command line stated, others have their defaults (a ceiling limits
	 * what it states; defaults are lowered to it without an error).
	 * sealed: what may only be narrowed. Bits are the rows of the table.
	 */
	uint64_t given;
	uint64_t sealed;
};

/* Fills p with the built-in policy, the same as preset "offline". 0/-ENOMEM */
int policy_init(struct policy *p);
void policy_done(struct policy *p);
/*
 * Fills p with a preset. -ENOENT when there is none of this name (the text
 * suggests a near one), -EOPNOTSUPP when it needs what this version lacks.
 */
int policy_preset(const char *name, struct policy *p, struct error *err);
/* A copy in new memory; p is filled only on success. 0 or -ENOMEM. */
int policy_copy(struct policy *p, const struct policy *from);

/*
 * Canonical JSON of p, appended to out. It is itself a policy text: each field
 * is spelled out in the words of the policy language. 0 or negative.
 */
int policy_to_json(const struct policy *p, struct buf *out);
/* SHA-256 of the canonical JSON: the policy digest. 0 or negative. */
int policy_digest(const struct policy *p, char hex[SHA256_HEX_SIZE]);

/*
 * Reads what policy_to_json wrote, and nothing else: unknown, missing or
 * repeated fields, values out of range and any text that is not canonical are
 * errors that name the field. p is filled only on success and then owned by
 * the caller (policy_done); every field counts as given.
 */
int policy_from_json(const char *json, size_t len, struct policy *p,
		     struct error *err);

/*
 * Applies one command-line word: "--limit memory=1GiB" is
 * policy_set_limit(p, "memory=1GiB"); "--env A=b" or "--env A" is
 * policy_add_env; --read and --write take absolute normal paths.
 * -EINVAL with a text that names the word, and suggests a near one.
 */
int policy_set_limit(struct policy *p, const char *assignment, struct error *err);
int policy_add_env(struct policy *p, const char *assignment, struct error *err);
int policy_add_path(struct policy *p, bool writable, const char *path,
		    struct error *err);
/*
 * Any field of one value by its dotted name and text: ("tier", "container").
 * "files.workspace" is files.workspace.mode.
 */
int policy_set(struct policy *p, const char *field, const char *text,
	       struct error *err);

/*
 * Checks what no single field can say: rules that can never take effect, grants
 * of "/", a home or the caller's secrets, contradictions. The text names the
 * rule. Pure: nothing on disk is looked at.
 */
int policy_check(const struct policy *p, struct error *err);

/*
 * Why path (absolute, normal) can never be granted: it holds what the sandbox
 * is there to keep, or the sandbox has its own there. NULL when it can be.
 */
const char *policy_grant_fault(const char *path);

/* The coding agents that files.agents knows; NULL-ended. */
extern const char *const policy_agents[];

/*
 * Refuses (-EPERM) when p permits more than ceiling does in a field that the
 * ceiling states (ceiling->given), naming the first one. A limit of p above
 * the ceiling's is wider; so is a lower classification, and a denial that is
 * missing. "half" and a number of bytes cannot be compared and count as wider.
 */
int policy_check_ceiling(const struct policy *p, const struct policy *ceiling,
			 struct error *err);

/*
 * Puts p under a ceiling: denials of the ceiling are added; what p does not
 * state itself (p->given) is lowered to the ceiling; then the rest must pass
 * policy_check_ceiling. machine_memory (bytes) decides what "half" is. p must
 * be done with by the caller after a failure too.
 */
int policy_apply_ceiling(struct policy *p, const struct policy *ceiling,
			 uint64_t machine_memory, struct error *err);

/*
 * Refuses (-EPERM) when p permits more than base in a field that base sealed:
 * for changes made to base on the command line.
 */
int policy_check_sealed(const struct policy *p, const struct policy *base,
			struct error *err);

/*
 * What is allowed but worth a word: rules without effect, weakenings, variables
 * that look like secrets. Texts are appended to ret. 0 or -ENOMEM.
 */
int policy_warnings(const struct policy *p, struct strlist *ret);

/* The least tier that classify asks for, and why (a static text). */
enum policy_tier policy_least_tier(const struct policy *p, const char **ret_why);

/*
 * The tier that p runs in: its own, or for "auto" the least one. Programs that
 * start tasks call this: a tier that this version cannot run is -EOPNOTSUPP,
 * with a text that says why that tier is needed.
 */
int policy_tier_to_run(const struct policy *p, enum policy_tier *ret,
		       struct error *err);

/*
 * Can this version run a task with p? -EOPNOTSUPP, with a text that names the
 * field, for a tier or a kind of workspace that it does not have. Whoever
 * starts a task asks this, and so does `pinfold policy check`.
 */
int policy_can_run(const struct policy *p, struct error *err);

const char *policy_tier_name(enum policy_tier tier);
const char *policy_workspace_name(enum policy_workspace mode);
const char *policy_identity_name(enum policy_identity identity);

#endif
