/*
 * pinfold policy check FILE: 0 when the file is a policy, 1 with every fault
 * when it is not. pinfold policy show [FILE]: what a policy amounts to.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/near.h"
#include "cli/colour.h"
#include "cli/option.h"
#include "cli/policy_show.h"
#include "cli/policy_source.h"
#include "policy/load.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define STATUS_REFUSED 125
#define STATUS_FAULTS 1
#define REPORT_MAX (1u << 20)

static int refuse(const char *text)
{
	AUTO_BUF struct buf line = BUF_INIT(2 * ERROR_TEXT_MAX);

	buf_addf(&line, "pinfold: %s\n", text);
	io_write_all(STDERR_FILENO, buf_str(&line), line.len);
	return STATUS_REFUSED;
}

/* To standard output, or to the file of --json=FILE. */
static int write_out(const struct options *o, const struct buf *out)
{
	const char *path = options_get(o, OPT_JSON);
	AUTO_CLOSE int fd = -1;
	AUTO_BUF struct buf text = BUF_INIT(2 * ERROR_TEXT_MAX);
	int r;

	if (path && *path) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
					O_NOCTTY, 0666);
		r = fd < 0 ? -errno : io_write_all(fd, out->data, out->len);
	} else {
		path = "standard output";
		r = io_write_all(STDOUT_FILENO, out->data, out->len);
	}
	if (r == 0)
		return 0;
	buf_add_str(&text, "cannot write to ");
	str_quote(&text, path, 500);
	buf_addf(&text, ": %s", strerror(-r));
	return refuse(buf_str(&text));
}

/* Of a policy without faults: what else is worth a word. */
static int add_warnings(const struct policy_files *f, const char *path,
			const struct policy *p, struct strlist *ret)
{
	struct options with = {.values = {{0}}};
	struct policy in_force;
	struct error err = {0};
	enum policy_tier tier;
	int r = policy_warnings(p, ret);

	if (str_eq(path, f->ceiling))
		return r;
	if (r == 0 && policy_tier_to_run(p, &tier, &err) < 0)
		r = strlist_add(ret, err.text);
	if (r == 0)
		r = strlist_add(&with.values[OPT_POLICY], path);
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

static int check_json(const struct options *o, const char *path,
		      const char *digest, const struct strlist *problems,
		      const struct strlist *warnings)
{
	AUTO_BUF struct buf out = BUF_INIT(REPORT_MAX);
	struct json_writer w;

	json_begin(&w, &out);
	json_object(&w);
	json_put_string(&w, "digest", digest);
	json_put_text(&w, "file", path);
	write_list(&w, "problems", problems);
	json_put_string(&w, "schema", "pinfold-policy-check-1");
	json_put_bool(&w, "valid", problems->n == 0);
	write_list(&w, "warnings", warnings);
	json_object_end(&w);
	if (json_finish(&w) < 0 || buf_add_char(&out, '\n') < 0)
		return refuse("the report is too large");
	return write_out(o, &out);
}

/* Faults go to standard error as compilers write them, for editors. */
static int check_text(const struct options *o, const char *path,
		      const char *digest, const struct strlist *problems,
		      const struct strlist *warnings)
{
	AUTO_BUF struct buf out = BUF_INIT(REPORT_MAX);
	AUTO_BUF struct buf faults = BUF_INIT(REPORT_MAX);
	AUTO_BUF struct buf name = BUF_INIT(32768);

	for (size_t i = 0; i < problems->n; i++)
		buf_addf(&faults, "%s\n", problems->items[i]);
	for (size_t i = 0; i < warnings->n; i++)
		buf_addf(&faults, "warning: %s\n", warnings->items[i]);
	if (faults.len > 0)
		io_write_all(STDERR_FILENO, faults.data, faults.len);
	if (!digest)
		return 0;
	str_quote(&name, path, 4096);
	buf_addf(&out, "%s is a policy, digest sha256:%s\n", buf_str(&name),
		 digest);
	return write_out(o, &out);
}

static int check_file(const struct policy_files *f, const struct options *o,
		      const char *path)
{
	AUTO_STRLIST struct strlist problems = {0}, warnings = {0};
	char digest[SHA256_HEX_SIZE];
	struct error err = {0};
	struct policy p;
	const char *shown = NULL;
	int r = policy_file_load(f, path,
				 str_eq(path, f->ceiling) ? POLICY_LOAD_CEILING
							  : 0,
				 &p, &problems, &err);

	if (r < 0 && problems.n == 0)
		return refuse(err.text);
	if (r == 0) {
		r = policy_digest(&p, digest);
		if (r == 0)
			r = add_warnings(f, path, &p, &warnings);
		policy_done(&p);
		if (r < 0)
			return refuse(strerror(-r));
		shown = digest;
	}
	r = options_has(o, OPT_JSON)
		    ? check_json(o, path, shown, &problems, &warnings)
		    : check_text(o, path, shown, &problems, &warnings);
	if (r != 0)
		return r;
	return problems.n > 0 ? STATUS_FAULTS : 0;
}

static int show(const struct policy_files *f, const struct options *o,
		const char *path)
{
	AUTO_BUF struct buf out = BUF_INIT(POLICY_SHOW_MAX);
	struct options with = *o; /* borrows all lists but one */
	struct strlist file = {0};
	struct error err = {0};
	struct policy p;
	int r = 0;

	if (path) {
		r = strlist_add(&file, path);
		with.values[OPT_POLICY] = file;
	}
	if (r == 0)
		r = policy_in_force_from(f, &with, &p, &err);
	strlist_done(&file);
	if (r < 0)
		return refuse(err.code ? err.text : strerror(-r));
	r = options_has(o, OPT_JSON)
		    ? policy_show_json(&p, &out)
		    : policy_show_text(&p, colour_wanted(STDOUT_FILENO), &out);
	policy_done(&p);
	return r < 0 ? refuse(strerror(-r)) : write_out(o, &out);
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
	return refuse(buf_str(&text));
}

static int check_words(const struct options *o, const char *word,
		       const char *path)
{
	if (!str_eq(word, "check") && !str_eq(word, "show"))
		return unknown_word(word);
	if (path && (options_has(o, OPT_POLICY) || options_has(o, OPT_PRESET)))
		return refuse("policy: give the policy once, as FILE or as an "
			      "option");
	if (str_eq(word, "check") && !path && !options_has(o, OPT_POLICY))
		return refuse("policy check needs a file");
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
		return refuse(err.text);
	status = str_eq(word, "check") ? check_file(&files, o, path)
				       : show(&files, o, path);
	policy_files_done(&files);
	return status;
}
