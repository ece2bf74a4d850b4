/*
 * What no single field can say: rules that can never take effect, grants that
 * would hand out what the sandbox is for keeping, contradictions. Pure text:
 * nothing on disk is looked at.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/glob.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

/*
 * Servers that do for anybody who reaches them what the sandbox is there to
 * refuse. Globs over paths without their first slash.
 */
static const struct {
	const char *glob, *why;
} socket_faults[] = {
	{"**/docker.sock", "gives whoever reaches it the host"},
	{"**/podman/**", "gives whoever reaches it the host"},
	{"**/containerd/**", "gives whoever reaches it the host"},
	{"**/crio/**", "gives whoever reaches it the host"},
	{"**/buildkit/**", "gives whoever reaches it the host"},
	{"**/libvirt/**", "gives whoever reaches it the host"},
	{"**/lxd/**", "gives whoever reaches it the host"},
	{"**/incus/**", "gives whoever reaches it the host"},
	{"**/snapd*", "gives whoever reaches it the host"},
	{"run/dbus/**", "starts programs on the host"},
	{"run/user/*/bus", "starts programs on the host"},
	{"run/user/*/dbus-*", "starts programs on the host"},
	{"run/systemd/**", "starts programs on the host"},
	{"run/user/*/systemd/**", "starts programs on the host"},
	{"**/pinfold/**", "is pinfold's own"},
	{"**/vscode-*", "is an editor's, which runs what it is asked to"},
	{"**/*-ide-*", "is an editor's, which runs what it is asked to"},
	{"**/nvim*", "is an editor's, which runs what it is asked to"},
	{"**/emacs*/**", "is an editor's, which runs what it is asked to"},
	{"tmp/tmux-*/**", "is a terminal's, which runs what it is asked to"},
	{"**/*screen*/**", "is a terminal's, which runs what it is asked to"},
	{"tmp/.X11-unix/**", "is a display, which takes and makes keystrokes"},
	{"**/wayland-*", "is a display, which takes and makes keystrokes"},
	{"tmp/ssh-*/**", "is a key agent, which signs what it is asked to"},
	{"**/*ssh-agent*", "is a key agent, which signs what it is asked to"},
	{"**/S.gpg-agent*", "is a key agent, which signs what it is asked to"},
	{"**/keyring/**", "is a key agent, which signs what it is asked to"},
};

/* Parts of paths under which users keep secrets. */
static const char *const secret_parts[] = {
	".ssh",     ".gnupg",   ".aws",        ".azure",  ".kube",
	".netrc",   ".docker",  ".password-store", ".pgpass",
	".git-credentials", ".mozilla", ".thunderbird", ".vault-token",
};

static const char *const secret_paths[] = {
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/pinfold",
	"/var/lib/pinfold",
};

/* Links in every sandbox, to /tmp and /run, below which nothing can be put. */
static const char *const link_paths[] = {"/var/tmp", "/var/run"};

/* The sandbox has its own of these, or none. */
static const char *const own_paths[] = {"/proc", "/sys", "/dev"};

/* Trees that hold every user's files, or nearly the whole machine. */
static const char *const broad_paths[] = {"/",    "/home", "/root", "/var",
					  "/etc", "/tmp",  "/run"};

/* Read-only in the sandbox; nothing of a task's belongs there. */
static const char *const system_paths[] = {"/usr", "/bin", "/sbin", "/lib",
					   "/lib32", "/lib64", "/libx32",
					   "/etc"};

/* Variables that the sandbox gives a value of its own. */
static const char *const own_variables[] = {"HOME", "TMPDIR", "PWD", "OLDPWD",
					    "SHLVL"};

static int bad_rule(struct error *err, const char *field, const char *entry,
		    const char *why)
{
	AUTO_BUF struct buf quoted = BUF_INIT(1024);

	str_quote(&quoted, entry, 200);
	return error_set(err, -EINVAL, "%s: %s %s", field, buf_str(&quoted),
			 why);
}

static bool is_below_any(const char *path, const char *const *dirs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (path_is_below(path, dirs[i]))
			return true;
	}
	return false;
}

static bool is_any(const char *s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(s, list[i]))
			return true;
	}
	return false;
}

/* "/home/ada": exactly one part below /home. */
static bool is_home(const char *path)
{
	return str_starts(path, "/home/") && !strchr(path + 6, '/');
}

static bool holds_secrets(const char *path)
{
	if (is_below_any(path, secret_paths, ARRAY_SIZE(secret_paths)) ||
	    strstr(path, "/.config/gcloud") || strstr(path, "/.config/gh") ||
	    strstr(path, "/.config/pinfold") ||
	    strstr(path, "/.local/state/pinfold") ||
	    strstr(path, "/.local/share/keyrings"))
		return true;
	for (const char *p = path; *p;) {
		size_t n = strcspn(++p, "/");

		for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++) {
			if (strlen(secret_parts[i]) == n &&
			    !memcmp(p, secret_parts[i], n))
				return true;
		}
		p += n;
	}
	return false;
}

/*
 * What is hidden is hidden in the layers of the source. A denial elsewhere that
 * the sandbox would show all the same is refused, not ignored.
 */
static int check_denial(const struct policy *p, const char *path,
			struct error *err)
{
	static const char why[] = "lies in what is granted besides the source, "
				  "where this version cannot hide it; grant "
				  "what lies beside it instead";

	if (path[0] != '/')
		return 0;
	if (str_eq(path, "/"))
		return bad_rule(err, "files.deny", path, "would hide "
				"everything, the command included");
	if (is_below_any(path, system_paths, ARRAY_SIZE(system_paths)))
		return bad_rule(err, "files.deny", path, "lies in a system "
				"directory, which every sandbox shows");
	for (size_t i = 0; i < p->read.n; i++) {
		if (path_is_below(path, p->read.items[i]))
			return bad_rule(err, "files.deny", path, why);
	}
	for (size_t i = 0; i < p->write.n; i++) {
		if (path_is_below(path, p->write.items[i]))
			return bad_rule(err, "files.deny", path, why);
	}
	return 0;
}

const char *policy_grant_fault(const char *path)
{
	if (is_any(path, broad_paths, ARRAY_SIZE(broad_paths)))
		return "is too much to grant: it holds what the sandbox is "
		       "there to keep; name a directory below";
	if (is_home(path))
		return "is a home: it holds keys and secrets; name a "
		       "directory below";
	if (holds_secrets(path))
		return "holds secrets and cannot be granted";
	if (is_below_any(path, own_paths, ARRAY_SIZE(own_paths)))
		return "cannot be granted: the sandbox has its own there, or "
		       "none";
	if (is_below_any(path, link_paths, ARRAY_SIZE(link_paths)))
		return "cannot be granted: /var/tmp and /var/run are links to "
		       "/tmp and /run in every sandbox";
	if (is_any(path, system_paths, ARRAY_SIZE(system_paths)))
		return "can never take effect: it is a system directory, which "
		       "every sandbox has, read-only";
	return NULL;
}

static int check_grant(const struct policy *p, const char *field,
		       const char *path, struct error *err)
{
	const char *fault = policy_grant_fault(path);

	if (fault)
		return bad_rule(err, field, path, fault);
	for (size_t i = 0; i < p->deny.n; i++) {
		const char *deny = p->deny.items[i];

		if (deny[0] == '/' && path_is_below(path, deny))
			return bad_rule(err, field, path,
					"can never take effect: files.deny "
					"hides it");
	}
	return 0;
}

static int check_files(const struct policy *p, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->read.n && r == 0; i++)
		r = check_grant(p, "files.read", p->read.items[i], err);
	for (size_t i = 0; i < p->write.n && r == 0; i++) {
		r = check_grant(p, "files.write", p->write.items[i], err);
		if (r == 0 && is_below_any(p->write.items[i], system_paths,
					   ARRAY_SIZE(system_paths)))
			r = bad_rule(err, "files.write", p->write.items[i],
				     "is a system directory, which is "
				     "read-only in every sandbox");
	}
	for (size_t i = 0; i < p->deny.n && r == 0; i++)
		r = check_denial(p, p->deny.items[i], err);
	return r;
}

static int check_sockets(const struct policy *p, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->sockets.n && r == 0; i++) {
		const char *path = p->sockets.items[i];

		for (size_t k = 0; k < ARRAY_SIZE(socket_faults); k++) {
			if (glob_match(socket_faults[k].glob, path + 1))
				return bad_rule(err, "files.sockets", path,
						socket_faults[k].why);
		}
		r = check_grant(p, "files.sockets", path, err);
	}
	return r;
}

static int check_env(const struct policy *p, struct error *err)
{
	for (size_t i = 0; i < p->env_pass.n; i++) {
		const char *name = p->env_pass.items[i];

		if (is_any(name, own_variables, ARRAY_SIZE(own_variables)))
			return bad_rule(err, "env.pass", name,
					"can never take effect: the sandbox "
					"has its own");
		if (env_find(&p->env_set, name) >= 0)
			return bad_rule(err, "env.pass", name,
					"can never take effect: env.set gives "
					"it a value");
	}
	return 0;
}

static int check_tier(const struct policy *p, struct error *err)
{
	const char *why;
	enum policy_tier needed = policy_least_tier(p, &why);

	if (p->tier != TIER_AUTO && tier_is_weaker(p->tier, needed))
		return error_set(err, -EINVAL,
				 "tier: %s is weaker than %s, which classify "
				 "asks for: %s", policy_tier_name(p->tier),
				 policy_tier_name(needed), why);
	if (p->nesting &&
	    (p->tier == TIER_MICROVM || p->tier == TIER_WASM))
		return error_set(err, -EINVAL,
				 "nesting: can never take effect in tier %s",
				 policy_tier_name(p->tier));
	return 0;
}

int policy_check(const struct policy *p, struct error *err)
{
	int r = check_files(p, err);

	if (r == 0)
		r = check_sockets(p, err);
	if (r == 0)
		r = check_env(p, err);
	if (r == 0)
		r = check_tier(p, err);
	return r;
}

static bool looks_secret(const char *name)
{
	static const char *const words[] = {"TOKEN", "SECRET", "PASSWORD",
					    "PASSWD", "API_KEY", "APIKEY",
					    "ACCESS_KEY", "PRIVATE_KEY",
					    "CREDENTIAL"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strstr(name, words[i]))
			return true;
	}
	return false;
}

/* field: "subject" why "other" */
static void warn(struct strlist *ret, int *r, const char *field,
		 const char *subject, const char *why, const char *other)
{
	struct buf text = BUF_INIT(2048);

	if (*r < 0)
		return;
	buf_addf(&text, "%s: ", field);
	if (subject) {
		str_quote(&text, subject, 200);
		buf_add_char(&text, ' ');
	}
	buf_add_str(&text, why);
	if (other) {
		buf_add_char(&text, ' ');
		str_quote(&text, other, 200);
	}
	if (text.failed)
		*r = text.failed;
	else
		*r = strlist_add(ret, buf_str(&text));
	buf_done(&text);
}

static void warn_paths(const struct policy *p, struct strlist *ret, int *r)
{
	for (size_t i = 0; i < p->read.n; i++) {
		const char *path = p->read.items[i];

		if (is_below_any(path, system_paths, ARRAY_SIZE(system_paths)))
			warn(ret, r, "files.read", path,
			     "is readable without this rule", NULL);
		for (size_t k = 0; k < p->read.n; k++) {
			if (k != i && path_is_below(path, p->read.items[k]))
				warn(ret, r, "files.read", path,
				     "is granted already by",
				     p->read.items[k]);
		}
		for (size_t k = 0; k < p->write.n; k++) {
			if (path_is_below(path, p->write.items[k]))
				warn(ret, r, "files.read", path,
				     "is granted already by files.write",
				     p->write.items[k]);
		}
	}
}

static int warn_variables(const struct policy *p, struct strlist *ret, int r)
{
	for (size_t i = 0; i < p->env_pass.n; i++) {
		if (looks_secret(p->env_pass.items[i]))
			warn(ret, &r, "env.pass", p->env_pass.items[i],
			     "looks like a secret: the command will see it",
			     NULL);
	}
	for (size_t i = 0; i < p->env_set.n && r == 0; i++) {
		const char *entry = p->env_set.items[i];
		AUTO_FREE char *name = strndup(entry, strcspn(entry, "="));

		if (!name)
			return -ENOMEM;
		if (looks_secret(name))
			warn(ret, &r, "env.set", name,
			     "looks like a secret: it is recorded with the "
			     "policy", NULL);
	}
	return r;
}

/* A glob is less than it looks. */
static void warn_globs(const struct policy *p, struct strlist *ret, int *r)
{
	if (p->workspace == WORKSPACE_COPY)
		return;
	for (size_t i = 0; i < p->deny.n; i++) {
		const char *path = p->deny.items[i];

		if (path[0] != '/' && glob_is_magic(path))
			warn(ret, r, "files.deny", path,
			     "is expanded when a task starts: it does not hide "
			     "what the host adds later (workspace: copy does)",
			     NULL);
	}
}

int policy_warnings(const struct policy *p, struct strlist *ret)
{
	int r = 0;

	warn_paths(p, ret, &r);
	warn_globs(p, ret, &r);
	r = warn_variables(p, ret, r);
	for (size_t i = 0; i < p->agents.n; i++)
		warn(ret, &r, "files.agents", p->agents.items[i],
		     "starts, and cannot reach its model: this version has no "
		     "network", NULL);
	if (p->nesting)
		warn(ret, &r, "nesting", NULL,
		     "Landlock is dropped; user namespaces, mount, "
		     "pivot_root, unshare and setns are permitted", NULL);
	if (p->limits.idle_ms != LIMIT_NONE &&
	    p->limits.idle_ms >= p->limits.wall_ms)
		warn(ret, &r, "limits.idle", NULL,
		     "has no effect, limits.wall is shorter", NULL);
	if (p->limits.memory == LIMIT_NONE)
		warn(ret, &r, "limits.memory", NULL,
		     "none lets the task use up the machine's memory", NULL);
	if (p->limits.processes == LIMIT_NONE)
		warn(ret, &r, "limits.processes", NULL,
		     "none lets the task fork without end", NULL);
	return r;
}
