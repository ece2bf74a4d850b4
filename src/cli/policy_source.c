#include "cli/policy_source.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/load.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

/* An absolute path from the environment, or NULL. */
static const char *env_path(const char *name)
{
	const char *s = getenv(name);

	return s && s[0] == '/' ? s : NULL;
}

void policy_files_done(struct policy_files *f)
{
	free(f->ceiling);
	free(f->user);
	free(f->cache);
	free(f->compiler);
	free(f->home);
	*f = (struct policy_files){0};
}

int policy_files_init(struct policy_files *f, struct error *err)
{
	struct policy_files new = {0};
	const char *home = env_path("HOME");
	const char *cache = env_path("XDG_CACHE_HOME");
	bool ok;

	new.ceiling = strdup(POLICY_CEILING_PATH);
	ok = new.ceiling;
	if (cache)
		new.cache = str_format("%s/pinfold/policy", cache);
	else if (home)
		new.cache = str_format("%s/.cache/pinfold/policy", home);
	if (home) {
		new.user = str_format("%s/.config/pinfold/policy.yaml", home);
		new.home = strdup(home);
		ok = ok && new.user && new.home;
	}
	if (!ok) {
		policy_files_done(&new);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*f = new;
	return 0;
}

/* 1 if there is such a file (or something that keeps us from knowing). */
static int exists(const char *path)
{
	return access(path, F_OK) == 0 ||
	       (errno != ENOENT && errno != ENOTDIR);
}

static int load_file(const struct policy_files *f, const char *path,
		     unsigned flags, struct policy *ret, struct error *err)
{
	AUTO_STRLIST struct strlist problems = {0};

	return policy_file_load(f, path, flags, ret, &problems, err);
}

static int load_base(const struct policy_files *f, const struct options *o,
		     struct policy *ret, struct error *err)
{
	const char *file = options_get(o, OPT_POLICY);
	const char *preset = options_get(o, OPT_PRESET);
	int r;

	if (file)
		return load_file(f, file, 0, ret, err);
	if (preset)
		return policy_preset(preset, ret, err);
	if (f->user && exists(f->user))
		return load_file(f, f->user, 0, ret, err);
	r = policy_init(ret);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int add_path(struct policy *p, bool writable, const char *path,
		    struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	AUTO_FREE char *real = realpath(path, NULL);

	if (!real) {
		int saved = errno;

		str_quote(&quoted, path, 500);
		return error_set(err, -saved, "--%s %s: %s",
				 writable ? "write" : "read",
				 buf_str(&quoted), strerror(saved));
	}
	return policy_add_path(p, writable, real, err);
}

static int apply_paths(struct policy *p, const struct options *o,
		       struct error *err)
{
	const struct strlist *read = &o->values[OPT_READ];
	const struct strlist *write = &o->values[OPT_WRITE];
	int r = 0;

	for (size_t i = 0; i < read->n && r == 0; i++)
		r = add_path(p, false, read->items[i], err);
	for (size_t i = 0; i < write->n && r == 0; i++)
		r = add_path(p, true, write->items[i], err);
	return r;
}

static int apply_words(struct policy *p, const struct options *o,
		       struct error *err)
{
	const struct strlist *env = &o->values[OPT_ENV];
	const struct strlist *limits = &o->values[OPT_LIMIT];
	int r = 0;

	for (size_t i = 0; i < env->n && r == 0; i++)
		r = policy_add_env(p, env->items[i], err);
	if (r < 0)
		return error_prefix(err, "--env");
	for (size_t i = 0; i < limits->n && r == 0; i++)
		r = policy_set_limit(p, limits->items[i], err);
	return r < 0 ? error_prefix(err, "--limit") : 0;
}

static int apply_field(struct policy *p, const struct options *o,
		       enum option_id id, const char *option, const char *field,
		       struct error *err)
{
	const char *value = options_get(o, id);
	int r = value ? policy_set(p, field, value, err) : 0;

	/* The text names the field; --tier and tier are one word. */
	if (r < 0 && !str_eq(option, field))
		return error_prefix(err, "--%s", option);
	return r;
}

/* --timeout is --limit wall by another name. */
static int check_wall(const struct options *o, struct error *err)
{
	const struct strlist *limits = &o->values[OPT_LIMIT];

	for (size_t i = 0; options_has(o, OPT_TIMEOUT) && i < limits->n; i++) {
		if (str_starts(limits->items[i], "wall="))
			return error_set(err, -EINVAL,
					 "--timeout and --limit wall set the "
					 "same limit: give one of them");
	}
	return 0;
}

static int apply_options(struct policy *p, const struct options *o,
			 struct error *err)
{
	int r = apply_field(p, o, OPT_TIER, "tier", "tier", err);

	if (r == 0)
		r = check_wall(o, err);
	if (r == 0)
		r = apply_paths(p, o, err);
	if (r == 0)
		r = apply_words(p, o, err);
	if (r == 0)
		r = apply_field(p, o, OPT_TIMEOUT, "timeout", "limits.wall",
				err);
	if (r == 0)
		r = apply_field(p, o, OPT_WORKSPACE, "workspace",
				"files.workspace", err);
	return r;
}

static int apply_ceiling(const struct policy_files *f, struct policy *p,
			 struct error *err)
{
	struct policy ceiling;
	struct sysinfo info;
	int r;

	if (!exists(f->ceiling))
		return 0;
	r = load_file(f, f->ceiling, POLICY_LOAD_CEILING, &ceiling, err);
	if (r < 0)
		return error_prefix(err, "the machine's ceiling");
	if (sysinfo(&info) < 0)
		r = error_errno(err, "cannot read the size of the memory");
	else
		r = policy_apply_ceiling(p, &ceiling,
					 (uint64_t)info.totalram *
						 info.mem_unit, err);
	policy_done(&ceiling);
	return r;
}

/* The text alone does not tell whose home a path is. */
static int check_list(const char *home, const struct strlist *list,
		      const char *field, struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		AUTO_BUF struct buf quoted = BUF_INIT(4096);

		if (!path_is_below(home, list->items[i]))
			continue;
		str_quote(&quoted, list->items[i], 500);
		return error_set(err, -EINVAL, "%s: %s holds your home with "
				 "its keys and secrets; name a directory below",
				 field, buf_str(&quoted));
	}
	return 0;
}

static int check_home(const struct policy_files *f, const struct policy *p,
		      struct error *err)
{
	AUTO_FREE char *home = NULL;
	int r;

	if (!f->home || p->read.n + p->write.n == 0)
		return 0;
	home = realpath(f->home, NULL);
	/* A home that is not there cannot be held by anything. */
	if (!home)
		return 0;
	r = check_list(home, &p->read, "files.read", err);
	return r < 0 ? r : check_list(home, &p->write, "files.write", err);
}

static int bad_grant(const char *field, const char *path, const char *why,
		     struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, 500);
	return error_set(err, -EINVAL, "%s: cannot grant %s: %s", field,
			 buf_str(&quoted), why);
}

/* What is no socket, or one that the command's user cannot connect to. */
static int check_socket(const char *path, struct error *err)
{
	const char *why = NULL;
	struct stat st;

	if (lstat(path, &st) < 0)
		why = strerror(errno);
	else if (!S_ISSOCK(st.st_mode))
		why = "it is no socket";
	else if (geteuid() == 0 && (st.st_mode & 0002) == 0)
		why = "its mode does not let everybody write, and a command "
		      "that root starts is nobody else; run pinfold as its "
		      "owner";
	return why ? bad_grant("files.sockets", path, why, err) : 0;
}

static int check_one(const char *field, const char *path, bool directory,
		     struct error *err)
{
	const char *why = NULL;
	struct stat st;

	if (lstat(path, &st) < 0)
		why = strerror(errno);
	else if (S_ISLNK(st.st_mode))
		why = "it is a link; name what it leads to";
	else if (directory && !S_ISDIR(st.st_mode))
		why = "it is no directory; name the one that holds it";
	else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		why = "only directories and regular files can be granted";
	return why ? bad_grant(field, path, why, err) : 0;
}

/* Whether what is granted is there, and of a kind that can be. */
static int check_grants(const struct policy *p, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->read.n && r == 0; i++)
		r = check_one("files.read", p->read.items[i], false, err);
	for (size_t i = 0; i < p->write.n && r == 0; i++)
		r = check_one("files.write", p->write.items[i], true, err);
	for (size_t i = 0; i < p->sockets.n && r == 0; i++)
		r = check_socket(p->sockets.items[i], err);
	return r;
}

static int narrow(const struct policy_files *f, const struct options *o,
		  struct policy *p, struct error *err)
{
	struct policy base;
	int r = policy_copy(&base, p);

	if (r < 0)
		return error_set(err, r, "out of memory");
	r = apply_options(p, o, err);
	if (r == 0)
		r = policy_check_sealed(p, &base, err);
	policy_done(&base);
	if (r == 0)
		r = apply_ceiling(f, p, err);
	if (r == 0)
		r = policy_check(p, err);
	if (r == 0)
		r = check_home(f, p, err);
	return r < 0 ? r : check_grants(p, err);
}

int policy_in_force_from(const struct policy_files *f, const struct options *o,
			 struct policy *ret, struct error *err)
{
	struct policy p;
	int r = load_base(f, o, &p, err);

	if (r < 0)
		return r;
	r = narrow(f, o, &p, err);
	if (r < 0) {
		policy_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

int policy_in_force(const struct options *o, struct policy *ret,
		    struct error *err)
{
	struct policy_files files;
	int r = policy_files_init(&files, err);

	if (r < 0)
		return r;
	r = policy_in_force_from(&files, o, ret, err);
	policy_files_done(&files);
	return r;
}
