/*
 * pinfold policy check FILE: 0 when the file is a policy, 1 with every fault
 * when it is not. pinfold policy show [FILE]: what a policy amounts to.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/near.h"
#include "cli/identity.h"
#include "cli/option.h"
#include "cli/policy_show.h"
#include "cli/policy_source.h"
#include "cli/report.h"
#include "policy/load.h"

#include <errno.h>
#include <string.h>

#define STATUS_FAULTS 1

/* What was found out about a file. */
struct checked {
	struct strlist problems, warnings;
	bool valid;
	char digest[SHA256_HEX_SIZE]; /* if valid */
};

/* Would this file, alone, be in force here? */
static int add_here(const struct policy_files *f, const char *path,
		    struct strlist *ret)
{
	struct options with = {.values = {{0}}};
	struct policy in_force;
	struct error err = {0};
	int r = strlist_add(&with.values[OPT_POLICY], path);

	if (r == 0) {
		if (policy_in_force_from(f, &with, &in_force, &err) == 0)
			policy_done(&in_force);
		else
			r = strlist_take(ret, str_format("would be refused "
							 "here: %s", err.text));
	}
	options_done(&with);
	return r;
}

static void write_list(struct json_writer *w, const char *key,
		       const struct strlist *list)
{
	json_key(w, key);
	json_array(w);
	for (size_t i = 0; i < list->n; i++)
		json_text(w, list->items[i]);
	json_array_end(w);
}

static void write_json(struct buf *out, const char *path,
		       const struct checked *c)
{
	struct json_writer w;

	json_begin(&w, out);
	json_object(&w);
	json_put_string(&w, "digest", c->valid ? c->digest : NULL);
	json_put_text(&w, "file", path);
	write_list(&w, "problems", &c->problems);
	json_put_string(&w, "schema", "pinfold-policy-check-1");
	json_put_bool(&w, "valid", c->valid);
	write_list(&w, "warnings", &c->warnings);
	json_object_end(&w);
	if (json_finish(&w) == 0)
		buf_add_char(out, '\n');
}

/* Faults go to standard error as compilers write them, for editors. */
static void write_text(struct buf *out, const char *path,
		       const struct checked *c)
{
	AUTO_BUF struct buf faults = BUF_INIT(1u << 20);

	for (size_t i = 0; i < c->problems.n; i++)
		buf_addf(&faults, "%s\n", c->problems.items[i]);
	for (size_t i = 0; i < c->warnings.n; i++)
		buf_addf(&faults, "warning: %s\n", c->warnings.items[i]);
	io_write_all(STDERR_FILENO, buf_str(&faults), faults.len);
	if (!c->valid)
		return;
	report_path(out, path);
	buf_addf(out, " is a policy, digest sha256:%s\n", c->digest);
}

static int look_at(const struct policy_files *f, const char *path,
		   struct checked *c, struct error *err)
{
	bool ceiling = str_eq(path, f->ceiling);
	struct policy p;
	int r = policy_file_load(f, path, ceiling ? POLICY_LOAD_CEILING
						: POLICY_LOAD_RUNS,
				 &p, &c->problems, err);

	if (r < 0)
		return c->problems.n > 0 ? 0 : r;
	r = policy_digest(&p, c->digest);
	if (r == 0)
		r = policy_warnings(&p, &c->warnings);
	/* What is in force here does not concern a ceiling, which is not run. */
	if (r == 0 && !ceiling && c->problems.n == 0)
		r = add_here(f, path, &c->warnings);
	policy_done(&p);
	if (r < 0)
		return error_set(err, r, "%s", strerror(-r));
	c->valid = c->problems.n == 0;
	return 0;
}

static int check(const struct policy_files *f, const struct options *o,
		 const char *path)
{
	AUTO_REPORT struct report report = {0};
	struct checked c = {0};
	struct error err = {0};
	int r = look_at(f, path, &c, &err);

	if (r < 0)
		r = report_refuse(err.text);
	else
		r = report_init(&report, o);
	if (r == 0) {
		if (report.json)
			write_json(&report.out, path, &c);
		else
			write_text(&report.out, path, &c);
		r = report_end(&report);
	}
	if (r == 0 && !c.valid)
		r = STATUS_FAULTS;
	strlist_done(&c.problems);
	strlist_done(&c.warnings);
	return r;
}

static int in_force(const struct policy_files *f, const struct options *o,
		    const char *path, struct policy *ret, struct error *err)
{
	struct options with = *o; /* borrows all lists but one */
	struct strlist file = {0};
	int r = 0;

	if (path) {
		r = strlist_add(&file, path);
		with.values[OPT_POLICY] = file;
	}
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = policy_in_force_from(f, &with, ret, err);
	strlist_done(&file);
	return r;
}

/* What toolchains: auto finds for this caller, apart from any source. */
static int find_tools(const struct policy *p, struct tools *ret,
		      struct error *err)
{
	struct sandbox_spec names = {0};
	int r = identity_names(&names, err);

	if (r == 0) {
		const struct tools_where where = {.policy = p,
						  .home = launch_home(),
						  .inside = names.home};

		r = tools_find(&where, ret, err);
	}
	spec_done(&names);
	return r;
}

static int show(const struct policy_files *f, const struct options *o,
		const char *path)
{
	AUTO_REPORT struct report report = {0};
	AUTO_TOOLS struct tools tools = {0};
	struct error err = {0};
	struct policy p;
	int r;

	if (in_force(f, o, path, &p, &err) < 0)
		return report_refuse(err.text);
	r = find_tools(&p, &tools, &err);
	r = r < 0 ? report_refuse(err.text) : report_init(&report, o);
	if (r == 0) {
		r = report.json ? policy_show_json(&p, &tools, &report.out)
				: policy_show_text(&p, &tools, report.colour,
						   &report.out);
		r = r < 0 ? report_refuse(strerror(-r)) : report_end(&report);
	}
	policy_done(&p);
	return r;
}

static int unknown_word(const char *word)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);
	const char *near = NULL;

	near_consider(word, "check", &near);
	near_consider(word, "show", &near);
	buf_add_str(&text, "policy: unknown word ");
	str_quote(&text, word, 80);
	buf_addf(&text, "; did you mean %s?", near ? near : "check or show");
	return report_refuse(buf_str(&text));
}

static int check_words(const struct options *o, const char *word,
		       const char *path)
{
	if (!str_eq(word, "check") && !str_eq(word, "show"))
		return unknown_word(word);
	if (path && (options_has(o, OPT_POLICY) || options_has(o, OPT_PRESET)))
		return report_refuse("policy: give the policy once, as FILE or "
				     "as an option");
	if (str_eq(word, "check") && !path && !options_has(o, OPT_POLICY))
		return report_refuse("policy check needs a file");
	return 0;
}

int verb_policy(const struct options *o)
{
	const char *word = o->n_rest > 0 ? o->rest[0] : "";
	const char *path = o->n_rest > 1 ? o->rest[1] : NULL;
	struct policy_files files;
	struct error err = {0};
	int status = check_words(o, word, path);

	if (status != 0)
		return status;
	if (!path)
		path = options_get(o, OPT_POLICY);
	if (policy_files_init(&files, &err) < 0)
		return report_refuse(err.text);
	status = str_eq(word, "check") ? check(&files, o, path)
				       : show(&files, o, path);
	policy_files_done(&files);
	return status;
}
