/*
 * The rows are built once from the policy and then written as a table or as
 * JSON. What is the same for every policy stands in tables, so that the page
 * can be compared with what src/tier and src/task do.
 */
#include "cli/policy_show.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "cli/colour.h"
#include "cli/report.h"
#include "policy/field.h"

#include <errno.h>
#include <string.h>

#define IMPLICIT "implicit"

struct row {
	const char *group;
	const char *object; /* may come from a policy: quoted for people */
	const char *permits;
	const char *rule;
	const char *mechanism;
};

struct rows {
	struct row *items;
	size_t n, cap;
	struct strlist owned; /* texts that were made for rows */
	int failed;
};

static void rows_done(struct rows *rows)
{
	free(rows->items);
	strlist_done(&rows->owned);
}

static void add(struct rows *rows, struct row row)
{
	if (rows->n == rows->cap) {
		size_t cap = rows->cap ? rows->cap * 2 : 64;
		struct row *items =
			reallocarray(rows->items, cap, sizeof(*items));

		if (!items) {
			rows->failed = -ENOMEM;
			return;
		}
		rows->items = items;
		rows->cap = cap;
	}
	rows->items[rows->n++] = row;
}

static const char *own(struct rows *rows, const char *text)
{
	if (strlist_add(&rows->owned, text) < 0) {
		rows->failed = -ENOMEM;
		return "";
	}
	return rows->owned.items[rows->owned.n - 1];
}

static const struct row files_before[] = {
	{"files", "/usr /bin /sbin /lib*", "read, execute", IMPLICIT,
	 "mount (read-only, nosuid, nodev) + Landlock"},
	{"files", "/etc", "read; own passwd, group, hosts, hostname, "
	 "resolv.conf, nsswitch.conf, machine-id; without shadow, sudoers, "
	 "ssh and the like", IMPLICIT, "overlay (read-only) + Landlock"},
};

static const struct row files_after[] = {
	{"files", ".env, .npmrc, credentials and keys in the source, three "
	 "levels; secrets in .git/config", "hidden unless tracked by git",
	 IMPLICIT, "whiteout in a layer over the path"},
	{"files", "git's settings and hooks, start-up files of editors, "
	 "agents, shells, tools", "write; held back at promotion", IMPLICIT,
	 "path of each change"},
	{"files", "home", "read, write; private, empty at the start but for "
	 ".gitconfig (env.git_author)", IMPLICIT,
	 "tmpfs"},
	{"files", "/tmp /dev/shm", "read, write; private", IMPLICIT, "tmpfs"},
	{"files", "/proc", "the sandbox's own processes", IMPLICIT,
	 "pid namespace"},
	{"files", "/sys", "empty", IMPLICIT, "not mounted"},
	{"files", "/dev", "null zero full random urandom tty pts shm",
	 IMPLICIT, "tmpfs, bind mounts of the devices named, own devpts"},
	{"files", "every other path", "not present", "default deny",
	 "mount namespace with a root of its own"},
};

static const struct row network[] = {
	{"network", "every destination", "none: connect and sendto fail at "
	 "once and are recorded as claimed", "default deny",
	 "network namespace without routes; seccomp notification for the "
	 "record"},
	{"network", "names", "none: not known, at once; look-ups are recorded "
	 "as claimed", "default deny",
	 "a name server without a route; hosts: files has the last word"},
	{"network", "loopback", "the sandbox's own servers", IMPLICIT,
	 "network namespace"},
};

static const struct row kernel[] = {
	{"kernel", "capabilities", "none", IMPLICIT,
	 "emptied sets, no_new_privs"},
	{"kernel", "system calls", "known ones; ENOSYS for unknown ones "
	 "and io_uring, EPERM for mount, keyctl, bpf, perf and the like", "default deny",
	 "seccomp"},
	{"kernel", "processes of the host", "not present", "default deny",
	 "pid namespace"},
	{"kernel", "shared memory and queues of the host", "not present",
	 "default deny", "ipc namespace"},
	{"kernel", "terminal of the caller", "its own pty or pipes; TIOCSTI "
	 "and TIOCLINUX refused", IMPLICIT, "devpts, relay, seccomp"},
	{"kernel", "host name", "the task's id", IMPLICIT, "uts namespace"},
};

static const struct row nesting_off[] = {
	{"kernel", "user namespaces, mount, setns", "refused",
	 "nesting: false", "max_user_namespaces 0, seccomp, Landlock"},
	{"kernel", "names of the caller's keys", "not present",
	 "default deny", "covers over /proc/keys and /proc/key-users"},
};

static const struct row nesting_on[] = {
	{"kernel", "user namespaces, mount, setns", "permitted: Landlock is "
	 "dropped", "nesting: true", "a named weakening"},
	{"kernel", "names of the caller's keys", "shown in /proc/keys",
	 "nesting: true", "a named weakening"},
};

/* What holds each limit; which of them it is, is decided at the start. */
static const struct {
	const char *field, *effect, *mechanism;
} limits[] = {
	{"limits.cpu_time", "stops the task", "watchdog over /proc"},
	{"limits.cpus", "throttles", "cgroup v2 or v1, else CPU affinity"},
	{"limits.disk", "stops the task",
	 "size of each tmpfs, watchdog over the layer, RLIMIT_FSIZE"},
	{"limits.enforce", "a machine that cannot refuses the task",
	 "decided at the start: pinfold doctor"},
	{"limits.idle", "stops the task", "timer"},
	{"limits.inodes", "stops the task",
	 "size of each tmpfs, watchdog over the layer"},
	{"limits.memory", "stops the task",
	 "cgroup v2 or v1, else watchdog over /proc"},
	{"limits.open_files", "refuses more", "RLIMIT_NOFILE"},
	{"limits.output", "stops the task", "relay"},
	{"limits.processes", "stops the task",
	 "cgroup v2 or v1, else RLIMIT_NPROC of the user namespace"},
	{"limits.wall", "stops the task", "timer"},
};

#define ADD_ALL(rows, list) add_all(rows, list, ARRAY_SIZE(list))

static void add_all(struct rows *rows, const struct row *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(rows, list[i]);
}

static void add_source(struct rows *rows, const struct policy *p)
{
	static const char *const how[] = {
		[WORKSPACE_AUTO] = "overlay, or copy where one would break",
		[WORKSPACE_OVERLAY] = "overlay",
		[WORKSPACE_COPY] = "private copy",
		[WORKSPACE_DIRECT] = "bind mount + Landlock",
	};
	static const char *const rules[] = {
		"files.workspace: auto", "files.workspace: overlay",
		"files.workspace: copy", "files.workspace: direct",
	};

	add(rows, (struct row){
			  "files", "the source",
			  p->workspace == WORKSPACE_DIRECT
				  ? "read, write at once"
				  : "read, write; changes are held back",
			  rules[p->workspace], how[p->workspace]});
}

static void add_paths(struct rows *rows, const struct strlist *list,
		      const char *permits, const char *rule,
		      const char *mechanism)
{
	for (size_t i = 0; i < list->n; i++)
		add(rows, (struct row){"files", list->items[i], permits, rule,
				       mechanism});
}

static void add_denied(struct rows *rows, const struct policy *p)
{
	for (size_t i = 0; i < p->deny.n; i++) {
		const char *path = p->deny.items[i];
		bool glob = path[0] != '/' && glob_is_magic(path) &&
			    p->workspace != WORKSPACE_COPY;

		add(rows, (struct row){"files", path,
				       glob ? "hidden, where it is there at the "
					      "start"
					    : "hidden",
				       "files.deny",
				       p->workspace == WORKSPACE_DIRECT
					       ? "empty cover over the path"
					       : "whiteout in a layer over the "
						 "path"});
	}
}

/* "tool chain (cargo)": what was found, where it is inside, and as what. */
static void add_found(struct rows *rows, const char *path, const char *by,
		      const char *permits, const char *rule,
		      const char *mechanism)
{
	AUTO_BUF struct buf text = BUF_INIT(512);

	buf_addf(&text, "%s (%s)", permits, by);
	add(rows, (struct row){"files", path, own(rows, buf_str(&text)), rule,
			       mechanism});
}

static void add_tools(struct rows *rows, const struct policy *p,
		      const struct tools *t)
{
	for (size_t i = 0; i < t->shown.n; i++)
		add_found(rows, t->shown.items[i], t->shown_by.items[i],
			  "read, execute: tool chain",
			  "files.toolchains: auto",
			  "overlay (read-only) without files of credentials");
	for (size_t i = 0; i < t->carried.n; i++) {
		const char *by = t->carried_by.items[i];
		bool agent = strlist_has(&p->agents, by);

		add_found(rows, t->carried_at.items[i], by,
			  agent ? "read, write: settings; what is written "
				  "ends with the task"
				: "read, write: cache; what is written ends "
				  "with the task",
			  agent ? "files.agents" : "files.toolchains: auto",
			  "overlay, its upper layer in memory");
	}
	for (size_t i = 0; i < t->seeds.n; i++)
		add(rows, (struct row){"files", t->seeds.items[i],
				       "read, write: settings, in the home; "
				       "what is written ends with the task",
				       "files.agents", "copy"});
	for (size_t i = 0; i < t->withheld.n; i++)
		add(rows, (struct row){"files", t->withheld.items[i],
				       "not present: it seems to hold a token, "
				       "or is no plain file",
				       "files.agents", "default deny"});
}

static void add_sockets(struct rows *rows, const struct policy *p)
{
	for (size_t i = 0; i < p->sockets.n; i++)
		add(rows, (struct row){"files", p->sockets.items[i],
				       "connect", "files.sockets",
				       "bind mount of the socket; its server "
				       "acts with its own rights"});
	add(rows, (struct row){"files",
			       p->sockets.n ? "other Unix sockets and FIFOs of "
					      "the host"
					    : "Unix sockets and FIFOs of the "
					      "host",
			       "dead", "default deny",
			       "grants are overlays; abstract names end at the "
			       "network namespace"});
}

static void add_files(struct rows *rows, const struct policy *p,
		      const struct tools *t)
{
	ADD_ALL(rows, files_before);
	add_source(rows, p);
	add_paths(rows, &p->read, "read, execute", "files.read",
		  "overlay with an empty upper layer (read-only) + Landlock");
	add_paths(rows, &p->write, "read, write; changes are held back",
		  "files.write", "overlay with an upper layer + Landlock");
	add_tools(rows, p, t);
	add_denied(rows, p);
	add_paths(rows, &p->protect,
		  p->workspace == WORKSPACE_DIRECT
			  ? "read-only; what is new is moved out at the end"
			  : "held back at promotion",
		  "files.protect", "path of each change");
	ADD_ALL(rows, files_after);
	add_sockets(rows, p);
}

static void add_environment(struct rows *rows, const struct policy *p,
			    const struct tools *t)
{
	for (size_t i = 0; i < t->env.n; i++) {
		const char *entry = t->env.items[i];
		size_t n = strcspn(entry, "=");
		AUTO_FREE char *name = strndup(entry, n);

		add(rows, (struct row){"environment",
				       own(rows, name ? name : ""),
				       entry + n + (entry[n] == '='),
				       p->toolchains == TOOLCHAINS_AUTO
					       ? "files.toolchains: auto"
					       : "files.toolchains: off",
				       "built from nothing"});
	}
	add(rows, (struct row){"environment",
			       "HOME USER LOGNAME SHELL TMPDIR LANG "
			       "PINFOLD_TASK, on a terminal TERM",
			       "the sandbox's, where the policy names no other",
			       IMPLICIT, "built from nothing"});
	for (size_t i = 0; i < p->env_pass.n; i++)
		add(rows, (struct row){"environment", p->env_pass.items[i],
				       "the caller's value", "env.pass",
				       "built from nothing"});
	for (size_t i = 0; i < p->env_set.n; i++) {
		AUTO_FREE char *name = strndup(
			p->env_set.items[i], strcspn(p->env_set.items[i], "="));

		add(rows, (struct row){"environment",
				       own(rows, name ? name : ""),
				       "the policy's value", "env.set",
				       "built from nothing"});
	}
	add(rows, (struct row){"environment", "name and address in commits",
			       p->git_author
				       ? "the caller's user.name and "
					 "user.email"
				       : "none",
			       p->git_author ? "env.git_author: true"
					     : "env.git_author: false",
			       "~/.gitconfig of the sandbox"});
	add(rows, (struct row){"environment", "every other variable",
			       "not present", "default deny",
			       "built from nothing"});
}

static void add_identity(struct rows *rows, const struct policy *p)
{
	if (p->identity == IDENTITY_SINGLE)
		add(rows, (struct row){"identity", "user and group ids",
				       "one unprivileged user; no other id",
				       "identity: single",
				       "user namespace; never host root"});
	else
		add(rows, (struct row){"identity", "user and group ids",
				       "65,536 ids of the sandbox's own, inner "
				       "root included", "identity: range",
				       "user namespace over subordinate ids"});
}

static void add_limits(struct rows *rows, const struct policy *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const struct policy_field *f = field_find(limits[i].field);
		uint64_t v = field_get(f, p);
		AUTO_BUF struct buf text = BUF_INIT(256);
		bool none = f->none && v == LIMIT_NONE;

		field_human(f, v, &text);
		if (!none)
			buf_addf(&text, "; %s", limits[i].effect);
		add(rows, (struct row){"limits", strchr(f->name, '.') + 1,
				       own(rows, buf_str(&text)), f->name,
				       none ? "no limit"
					    : limits[i].mechanism});
	}
}

static void add_tier(struct rows *rows, const struct policy *p)
{
	const char *why;
	enum policy_tier least = policy_least_tier(p, &why);
	AUTO_BUF struct buf text = BUF_INIT(512);

	buf_addf(&text, "data %s, code %s, impact %s",
		 field_find("classify.data")->values[p->data],
		 field_find("classify.code")->values[p->code],
		 field_find("classify.impact")->values[p->impact]);
	add(rows, (struct row){"tier", "least tier", policy_tier_name(least),
			       own(rows, buf_str(&text)), why});
	add(rows, (struct row){"tier", "tier in force",
			       policy_tier_name(p->tier == TIER_AUTO ? least
								     : p->tier),
			       p->tier == TIER_AUTO ? "tier: auto" : "tier",
			       "see pinfold-policy(5)"});
}

static int build(struct rows *rows, const struct policy *p,
		 const struct tools *t)
{
	add_files(rows, p, t);
	ADD_ALL(rows, network);
	ADD_ALL(rows, kernel);
	if (p->nesting)
		ADD_ALL(rows, nesting_on);
	else
		ADD_ALL(rows, nesting_off);
	add_identity(rows, p);
	add_environment(rows, p, t);
	add_limits(rows, p);
	add_tier(rows, p);
	return rows->failed;
}

static void write_row(struct buf *out, const struct row *row, bool colour)
{
	buf_add_str(out, "  ");
	buf_add_str(out, colour_code(colour, COLOUR_BOLD));
	report_path(out, row->object);
	buf_addf(out, "%s: ", colour_code(colour, COLOUR_NONE));
	report_path(out, row->permits);
	buf_addf(out, "\n      %s", colour_code(colour, COLOUR_DIM));
	buf_addf(out, "%s | %s%s\n", row->rule, row->mechanism,
		 colour_code(colour, COLOUR_NONE));
}

static int write_warnings(const struct policy *p, bool colour, struct buf *out)
{
	AUTO_STRLIST struct strlist warnings = {0};
	int r = policy_warnings(p, &warnings);

	for (size_t i = 0; i < warnings.n; i++)
		buf_addf(out, "%swarning: %s%s\n",
			 colour_code(colour, COLOUR_YELLOW), warnings.items[i],
			 colour_code(colour, COLOUR_NONE));
	return r;
}

int policy_show_text(const struct policy *p, const struct tools *t, bool colour,
		     struct buf *out)
{
	struct rows rows = {0};
	char digest[SHA256_HEX_SIZE];
	const char *group = "";
	int r = build(&rows, p, t);

	if (r == 0)
		r = policy_digest(p, digest);
	if (r == 0) {
		buf_add_str(out, "policy ");
		report_path(out, p->name);
		buf_addf(out, "\ndigest sha256:%s\n", digest);
	}
	for (size_t i = 0; i < rows.n && r == 0; i++) {
		if (!str_eq(group, rows.items[i].group)) {
			group = rows.items[i].group;
			buf_addf(out, "\n%s\n", group);
		}
		write_row(out, &rows.items[i], colour);
	}
	if (r == 0)
		r = write_warnings(p, colour, out);
	rows_done(&rows);
	return r < 0 ? r : out->failed;
}

static void write_rows(struct json_writer *w, const struct rows *rows)
{
	json_key(w, "rows");
	json_array(w);
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->items[i];

		json_object(w);
		json_put_string(w, "group", row->group);
		json_put_string(w, "mechanism", row->mechanism);
		json_put_text(w, "object", row->object);
		json_put_text(w, "permits", row->permits);
		json_put_string(w, "rule", row->rule);
		json_object_end(w);
	}
	json_array_end(w);
}

static int write_json(struct json_writer *w, const struct policy *p,
		      const struct rows *rows)
{
	AUTO_BUF struct buf snapshot = BUF_INIT(POLICY_TEXT_MAX);
	AUTO_STRLIST struct strlist warnings = {0};
	char digest[SHA256_HEX_SIZE];
	int r = policy_to_json(p, &snapshot);

	if (r == 0)
		r = policy_warnings(p, &warnings);
	if (r < 0)
		return r;
	sha256_hex(snapshot.data, snapshot.len, digest);
	json_put_string(w, "digest", digest);
	json_put_string(w, "least_tier",
			policy_tier_name(policy_least_tier(p, NULL)));
	json_put_text(w, "name", p->name);
	json_key(w, "policy");
	json_raw(w, snapshot.data, snapshot.len);
	write_rows(w, rows);
	json_put_string(w, "schema", "pinfold-policy-show-1");
	json_key(w, "warnings");
	json_array(w);
	for (size_t i = 0; i < warnings.n; i++)
		json_text(w, warnings.items[i]);
	json_array_end(w);
	return 0;
}

int policy_show_json(const struct policy *p, const struct tools *t,
		     struct buf *out)
{
	struct rows rows = {0};
	struct json_writer w;
	int r = build(&rows, p, t);

	if (r == 0) {
		json_begin(&w, out);
		json_object(&w);
		r = write_json(&w, p, &rows);
		json_object_end(&w);
		if (r == 0)
			r = json_finish(&w);
	}
	rows_done(&rows);
	return r < 0 ? r : buf_add_char(out, '\n');
}
