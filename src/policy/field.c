/*
 * The table of policy fields, sorted by dotted name: that order is also the
 * order of keys in canonical JSON. tests/unit/policy_test.c checks the order.
 */
#include "policy/field.h"

#include <assert.h>
#include <string.h>

static const char *const data_values[] = {"public", "internal", "confidential",
					  "secret", NULL};
static const char *const code_values[] = {"trusted", "internal", "untrusted",
					  NULL};
static const char *const impact_values[] = {"low", "medium", "high", NULL};
static const char *const tier_values[] = {"auto",    "container", "gvisor",
					  "microvm", "wasm",      NULL};
static const char *const identity_values[] = {"single", "range", NULL};
static const char *const workspace_values[] = {"auto", "overlay", "copy",
					       "direct", NULL};
const char *const policy_agents[] = {"aider",	 "claude-code", "codex",
				     "gemini-cli", "opencode",	NULL};
static const char *const toolchains_values[] = {"off", "auto", NULL};
static const char *const enforce_values[] = {"best", "hard", NULL};
static const char *const image_values[] = {"host", NULL};

#define AT(member) .offset = offsetof(struct policy, member)
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)
#define SECONDS(n) ((uint64_t)(n) * 1000u)
#define DAYS(n) ((uint64_t)(n) * 86400000u)
#define SIZE_LIMIT ((uint64_t)1 << 50)

const struct policy_field policy_fields[] = {
	{.name = "approvals", .type = FIELD_REFUSED,
	 .help = "who must agree to what"},
	{.name = "audit", .type = FIELD_REFUSED,
	 .help = "what is recorded and for how long"},
	{.name = "budget", .type = FIELD_REFUSED,
	 .help = "money, tokens and requests of a task"},
	{.name = "classify", .type = FIELD_SECTION,
	 .example = "{data: internal, code: untrusted, impact: medium}",
	 .help = "what the task works on; decides the least tier"},
	{.name = "classify.code", .type = FIELD_ENUM, AT(code),
	 .values = code_values, .order = ORDER_LOWER_IS_WIDER,
	 .fallback = CODE_UNTRUSTED, .example = "untrusted",
	 .help = "how far the code that runs is trusted",
	 .manual = "What an agent writes or downloads is untrusted."},
	{.name = "classify.data", .type = FIELD_ENUM, AT(data),
	 .values = data_values, .order = ORDER_LOWER_IS_WIDER,
	 .fallback = DATA_INTERNAL, .example = "internal",
	 .help = "the most sensitive data the task can read"},
	{.name = "classify.impact", .type = FIELD_ENUM, AT(impact),
	 .values = impact_values, .order = ORDER_LOWER_IS_WIDER,
	 .fallback = IMPACT_MEDIUM, .example = "medium",
	 .help = "the harm an escape from the sandbox would do"},
	{.name = "credentials", .type = FIELD_REFUSED,
	 .help = "secrets used on the task's behalf"},
	{.name = "env", .type = FIELD_SECTION,
	 .example = "{pass: [LANG], set: {CI: \"1\"}}",
	 .help = "the environment of the command"},
	{.name = "env.git_author", .type = FIELD_BOOL, AT(git_author),
	 .order = ORDER_HIGHER_IS_WIDER, .fallback = true, .example = "true",
	 .help = "whether commits made inside are by the caller",
	 .manual = "true: user.name and user.email of the caller's own global "
		   "git configuration, and nothing else of it, are in "
		   "~/.gitconfig of the sandbox, where a repository's own "
		   "settings come before them."},
	{.name = "env.pass", .type = FIELD_NAMES, AT(env_pass),
	 .example = "[LANG, TERM]",
	 .help = "variables taken from the caller's environment",
	 .manual = "The environment is built from nothing: what is neither "
		   "passed nor set is not there. A policy that gives this list "
		   "replaces the default one. Names are literal."},
	{.name = "env.set", .type = FIELD_ENV, AT(env_set),
	 .example = "{CI: \"1\"}",
	 .help = "variables with a value of their own",
	 .manual = "Values are texts: write numbers, true and false in "
		   "quotes. Do not put secrets here: the policy is recorded."},
	{.name = "extends", .type = FIELD_EXTENDS, .example = "offline",
	 .help = "the preset or policy file that this one builds on",
	 .manual = "The name of a preset, or the path of a file that ends in "
		   ".yaml, .yml or .json, relative to the file that says so. "
		   "At most 8 levels. Single values here replace the base's; "
		   "lists are joined to the base's; what the base seals can "
		   "only be narrowed."},
	{.name = "files", .type = FIELD_SECTION,
	 .help = "what of the host's files the task sees"},
	{.name = "files.agents", .type = FIELD_CHOICES, AT(agents),
	 .values = policy_agents, .example = "[codex]",
	 .help = "coding agents whose settings are there",
	 .manual = "aider, claude-code, codex, gemini-cli or opencode: what of "
		   "the agent's own directories in the home is settings, "
		   "instructions, commands, skills and the like is there, and "
		   "what it writes there ends with the task. Its credentials, "
		   "conversations, logs and locks of editors are not, nor is a "
		   "file of settings that seems to hold a token, which is "
		   "named at the end. A key of the model's host is passed by "
		   "name (--env OPENAI_API_KEY). There is no network yet: the "
		   "agent starts, and cannot reach its model."},
	{.name = "files.deny", .type = FIELD_DENY, AT(deny),
	 .example = "[deploy/keys, \"**/*.pem\"]",
	 .help = "paths that are hidden from the task",
	 .manual = "Absolute, or relative to the source. A denial beats every "
		   "grant and hides everything below the path. A literal path is "
		   "strict: it is hidden also when it appears later. A glob "
		   "(relative to the source; *, ? and [a-z] within a name, ** "
		   "for any number of directories) is expanded when the task "
		   "starts: what the host adds later is seen, except in "
		   "workspace: copy. Files that hold secrets are hidden "
		   "without being listed: .env and its kin, .npmrc, .netrc, "
		   "credential and key files at the source's top and two "
		   "levels below, unless git tracks them or a grant names "
		   "them."},
	{.name = "files.label", .type = FIELD_REFUSED,
	 .help = "the label of what is read"},
	{.name = "files.protect", .type = FIELD_GLOBS, AT(protect),
	 .example = "[\".github/workflows/**\"]",
	 .help = "further paths that are held back at promotion",
	 .manual = "Globs relative to the source: * and ? stay within a "
		   "component, ** stands for any number of them. What matches "
		   "is protected with everything below it. The task can "
		   "change it; what it changes is told as held back. Built-in "
		   "ones come on top: git's configuration and hooks, and what "
		   "editors, agents, shells and tools run or obey when they "
		   "start."},
	{.name = "files.read", .type = FIELD_PATHS, AT(read),
	 .example = "[/opt/models]",
	 .help = "paths of the host that the task may read",
	 .manual = "Absolute. The system's directories (/usr, /etc and the "
		   "like) and the source are there without being listed."},
	{.name = "files.sockets", .type = FIELD_PATHS, AT(sockets),
	 .example = "[/run/postgresql/.s.PGSQL.5432]",
	 .help = "Unix sockets of the host that the task may use",
	 .manual = "Absolute paths of sockets that exist when the task starts. "
		   "All others are dead inside. A server behind a socket acts "
		   "with its own rights: those of container engines, system "
		   "and session buses, key agents, editors and displays, which "
		   "would give a command the host, are refused. A server that "
		   "makes its socket anew is not reached by tasks that run "
		   "already."},
	{.name = "files.toolchains", .type = FIELD_ENUM, AT(toolchains),
	 .values = toolchains_values, .order = ORDER_HIGHER_IS_WIDER,
	 .fallback = TOOLCHAINS_AUTO, .example = "auto",
	 .help = "whether the caller's tool chains and caches are there",
	 .manual = "auto: what the caller's PATH and variables such as "
		   "JAVA_HOME point to is there, read-only, if it is a tool "
		   "chain that pinfold knows (cargo and rustup, conda, deno, "
		   "bun, go, nix, nvm, pnpm, pyenv, sdkman, virtual "
		   "environments, ~/.local, /opt), without its files of "
		   "credentials; PATH names it. Package caches (bun, cargo, "
		   "deno, go, gradle, maven, npm, pip, pnpm, uv, yarn) are "
		   "there, too, at their usual places: what is written to "
		   "them ends with the task. off: nothing of these. policy "
		   "show lists what is found."},
	{.name = "files.workspace", .type = FIELD_SECTION,
	 .shorthand = "files.workspace.mode", .example = "auto",
	 .help = "how changes to the source are held"},
	{.name = "files.workspace.label", .type = FIELD_REFUSED,
	 .help = "the label of the source"},
	{.name = "files.workspace.mode", .type = FIELD_ENUM, AT(workspace),
	 .values = workspace_values, .order = ORDER_NONE,
	 .fallback = WORKSPACE_AUTO, .example = "auto",
	 .help = "how changes to the source are held",
	 .manual = "overlay holds them in a layer over the source; copy works "
		   "on a copy; auto is overlay, or copy where an overlay would "
		   "break. \"workspace: copy\" is short for \"workspace: "
		   "{mode: copy}\".\n\n"
		   "direct writes to the source at once, for pinfold run "
		   "alone. What exists of the paths that promotion holds back, "
		   "all of .git among them, is read-only: no commits. What the "
		   "command makes at such a path is moved out when all of the "
		   "task has ended, before pinfold run returns; pinfold diff "
		   "shows it, pinfold promote --held PATH brings it back. "
		   "Nothing else can be taken back. Until it is moved, "
		   "programs of the host see it and may obey it: an editor, "
		   "a shell's prompt, git and whatever watches the files "
		   "should not be at work there meanwhile. They see files half "
		   "written, set-user-id files, FIFOs and links that the "
		   "command made, too, and what the host itself makes at a "
		   "protected path meanwhile is moved as well. A path of "
		   "files.deny without a pattern has to exist; a file with a "
		   "secret that the host makes meanwhile is seen. The limits "
		   "disk and inodes count what the source has grown by, the "
		   "host's part included."},
	{.name = "files.write", .type = FIELD_PATHS, AT(write),
	 .example = "[/srv/data]",
	 .help = "directories of the host that the task may change",
	 .manual = "Directories, absolute. Changes are held back as those to "
		   "the source."},
	{.name = "flow", .type = FIELD_REFUSED,
	 .help = "which labels may reach which destinations"},
	{.name = "identity", .type = FIELD_ENUM, AT(identity),
	 .values = identity_values, .order = ORDER_HIGHER_IS_WIDER,
	 .fallback = IDENTITY_SINGLE, .example = "single",
	 .help = "which user ids exist in the sandbox",
	 .manual = "single maps the source's owner to one inner user; range "
		   "gives the sandbox 65,536 ids of its own, inner root "
		   "included."},
	{.name = "image", .type = FIELD_CONST, .values = image_values,
	 .example = "host",
	 .help = "where the sandbox's system directories come from",
	 .manual = "host alone is known to this version."},
	{.name = "limits", .type = FIELD_SECTION,
	 .example = "{memory: 4GiB, wall: 30m}",
	 .help = "what the task may use up"},
	{.name = "limits.cpu_time", .type = FIELD_DURATION,
	 AT(limits.cpu_time_ms), .min = SECONDS(1), .max = DAYS(365),
	 .none = true, .fallback = LIMIT_NONE, .example = "1h",
	 .help = "CPU time of all processes together; stops the task"},
	{.name = "limits.cpus", .type = FIELD_MILLI, AT(limits.cpus_milli),
	 .min = 10, .max = 4096000, .none = true, .fallback = LIMIT_NONE,
	 .example = "1.5", .help = "processors used at once; throttles",
	 .manual = "Without a cgroup: whole processors, by affinity."},
	{.name = "limits.disk", .type = FIELD_SIZE, AT(limits.disk),
	 .min = MIB(1), .max = SIZE_LIMIT, .none = true, .fallback = GIB(10),
	 .example = "2GiB",
	 .help = "bytes written to workspace, home and /tmp; stops the task"},
	{.name = "limits.enforce", .type = FIELD_ENUM, AT(limits.enforce),
	 .values = enforce_values, .order = ORDER_LOWER_IS_WIDER,
	 .fallback = ENFORCE_BEST, .example = "hard",
	 .help = "whether a weaker mechanism may hold a limit",
	 .manual = "hard refuses the task where the kernel itself cannot hold "
		   "every limit; best takes the best mechanism there is, and "
		   "the record says which it was."},
	{.name = "limits.idle", .type = FIELD_DURATION, AT(limits.idle_ms),
	 .min = SECONDS(1), .max = DAYS(365), .none = true,
	 .fallback = LIMIT_NONE, .example = "5m",
	 .help = "time without output, input or a new command; stops the task"},
	{.name = "limits.inodes", .type = FIELD_COUNT, AT(limits.inodes),
	 .min = 64, .max = 1000000000, .none = true, .fallback = 1000000,
	 .example = "200000",
	 .help = "files made in workspace, home and /tmp; stops the task"},
	{.name = "limits.memory", .type = FIELD_SIZE, AT(limits.memory),
	 .min = MIB(4), .max = SIZE_LIMIT, .none = true, .half = true,
	 .fallback = LIMIT_HALF, .example = "4GiB",
	 .help = "memory of all processes together; stops the task",
	 .manual = "half is half of the machine's memory."},
	{.name = "limits.open_files", .type = FIELD_COUNT,
	 AT(limits.open_files), .min = 16, .max = 1048576, .fallback = 4096,
	 .example = "4096",
	 .help = "open descriptors of one process; refuses more"},
	{.name = "limits.output", .type = FIELD_SIZE, AT(limits.output),
	 .min = 1, .max = SIZE_LIMIT, .none = true, .fallback = LIMIT_NONE,
	 .example = "64MiB",
	 .help = "bytes on standard output and error; stops the task",
	 .manual = "Exactly so much comes through, of both streams and of all "
		   "commands together."},
	{.name = "limits.processes", .type = FIELD_COUNT,
	 AT(limits.processes), .min = 1, .max = 4194304, .none = true,
	 .fallback = 4096, .example = "256",
	 .help = "processes and threads at once; stops the task"},
	{.name = "limits.wall", .type = FIELD_DURATION, AT(limits.wall_ms),
	 .min = 1, .max = DAYS(365), .none = true, .fallback = LIMIT_NONE,
	 .example = "30m", .help = "time from start to end; stops the task"},
	{.name = "nesting", .type = FIELD_BOOL, AT(nesting),
	 .order = ORDER_HIGHER_IS_WIDER, .fallback = false,
	 .example = "false",
	 .help = "lets programs make sandboxes of their own",
	 .manual = "A weakening: new user namespaces, mount, pivot_root, "
		   "unshare and setns are permitted and Landlock, which "
		   "forbids them, is dropped. Browsers and build tools with "
		   "sandboxes of their own need it."},
	{.name = "network", .type = FIELD_REFUSED,
	 .help = "destinations that may be reached"},
	{.name = "promote", .type = FIELD_REFUSED,
	 .help = "where accepted changes go"},
	{.name = "seal", .type = FIELD_SEAL,
	 .example = "[limits.memory, files.read]",
	 .help = "fields that an extending policy can only narrow",
	 .manual = "A list of fields or sections. An extending policy and the "
		   "command line can lower what is sealed, never raise it."},
	{.name = "system", .type = FIELD_REFUSED,
	 .help = "writable system directories"},
	{.name = "tier", .type = FIELD_ENUM, AT(tier), .values = tier_values,
	 .order = ORDER_NONE, .fallback = TIER_AUTO, .example = "auto",
	 .help = "what separates the sandbox from the host",
	 .manual = "auto is the least tier that classify needs. A tier that is "
		   "weaker than that is an error. This version runs the tier "
		   "container and refuses to run the others."},
	{.name = "tools", .type = FIELD_REFUSED,
	 .help = "tools that an agent may call"},
	{.name = "verify", .type = FIELD_REFUSED,
	 .help = "checks before changes are accepted"},
	{.name = "version", .type = FIELD_VERSION, .example = "1",
	 .help = "version of the policy language: 1",
	 .manual = "Every policy file states it."},
};

const size_t n_policy_fields = sizeof(policy_fields) / sizeof(*policy_fields);

_Static_assert(sizeof(policy_fields) / sizeof(*policy_fields) <= 64,
	       "masks of fields are 64 bits wide");
_Static_assert(sizeof(enum policy_data) == sizeof(unsigned) &&
		       sizeof(enum policy_tier) == sizeof(unsigned),
	       "enumerations are read as unsigned");

const struct policy_field *field_find(const char *name)
{
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (!strcmp(policy_fields[i].name, name))
			return &policy_fields[i];
	}
	return NULL;
}

uint64_t field_bit(const struct policy_field *f)
{
	return (uint64_t)1 << (f - policy_fields);
}

bool field_is_scalar(const struct policy_field *f)
{
	return f->type >= FIELD_ENUM && f->type <= FIELD_MILLI;
}

bool field_is_list(const struct policy_field *f)
{
	return f->type >= FIELD_PATHS && f->type <= FIELD_ENV;
}

bool field_is_denial(const struct policy_field *f)
{
	return f->type == FIELD_DENY || f->type == FIELD_GLOBS;
}

bool field_is_value(const struct policy_field *f)
{
	return field_is_scalar(f) || field_is_list(f);
}

uint64_t field_mask(const char *name)
{
	size_t n = strlen(name);
	uint64_t mask = 0;

	for (size_t i = 0; i < n_policy_fields; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (!strncmp(f->name, name, n) &&
		    (f->name[n] == '\0' || f->name[n] == '.') &&
		    field_is_value(f))
			mask |= field_bit(f);
	}
	return mask;
}

uint64_t field_get(const struct policy_field *f, const struct policy *p)
{
	const char *at = (const char *)p + f->offset;
	unsigned choice;
	uint64_t v;
	bool flag;

	assert(field_is_scalar(f));
	if (f->type == FIELD_ENUM) {
		memcpy(&choice, at, sizeof(choice));
		return choice;
	}
	if (f->type == FIELD_BOOL) {
		memcpy(&flag, at, sizeof(flag));
		return flag;
	}
	memcpy(&v, at, sizeof(v));
	return v;
}

void field_put(const struct policy_field *f, struct policy *p, uint64_t v)
{
	char *at = (char *)p + f->offset;
	unsigned choice = (unsigned)v;
	bool flag = v != 0;

	assert(field_is_scalar(f));
	if (f->type == FIELD_ENUM)
		memcpy(at, &choice, sizeof(choice));
	else if (f->type == FIELD_BOOL)
		memcpy(at, &flag, sizeof(flag));
	else
		memcpy(at, &v, sizeof(v));
}

struct strlist *field_list(const struct policy_field *f, struct policy *p)
{
	assert(field_is_list(f));
	return (struct strlist *)(void *)((char *)p + f->offset);
}

const struct strlist *field_list_const(const struct policy_field *f,
				       const struct policy *p)
{
	assert(field_is_list(f));
	return (const struct strlist *)(const void *)((const char *)p +
						      f->offset);
}
