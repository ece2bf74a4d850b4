/*
 * A policy file and what it extends, compiled: from the cache, or by
 * pinfold-policy, which is asked again with one text more as long as it needs
 * one. This side opens the files and never parses them.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/policy_cache.h"
#include "cli/policy_source.h"
#include "policy/compile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef PINFOLD_VERSION
#define PINFOLD_VERSION "unknown"
#endif

#define COMPILER "pinfold-policy"

/* The files of a chain of "extends", the policy itself first. */
struct chain {
	struct policy_input inputs[POLICY_CHAIN_MAX];
	struct buf texts[POLICY_CHAIN_MAX];
	char *paths[POLICY_CHAIN_MAX];
	struct stat stats[POLICY_CHAIN_MAX];
	size_t n;
};

static void chain_done(struct chain *c)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_done(&c->texts[i]);
		free(c->paths[i]);
	}
}

static int name_error(struct error *err, int code, const char *path,
		      const char *why)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	str_quote(&quoted, path, 500);
	return error_set(err, code, "policy %s: %s", buf_str(&quoted), why);
}

/* What cannot be opened may be the name of a preset. */
static int not_opened(struct error *err, int code, const char *path)
{
	struct policy p;
	int r = policy_preset(path, &p, NULL);

	if (r == 0)
		policy_done(&p);
	return name_error(err, code, path,
			  code != -ENOENT || r == -ENOENT
				  ? strerror(-code)
				  : "No such file or directory; the preset "
				    "of this name is meant by --preset");
}

static int read_text(const char *path, struct buf *text, struct stat *st,
		     struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
					       O_NOCTTY);
	int r;

	if (fd < 0 || fstat(fd, st) < 0)
		return not_opened(err, -errno, path);
	if (S_ISDIR(st->st_mode))
		return name_error(err, -EISDIR, path, strerror(EISDIR));
	if (!S_ISREG(st->st_mode))
		return name_error(err, -EINVAL, path, "not a regular file");
	r = st->st_size > (off_t)POLICY_TEXT_MAX ? -EFBIG
						 : io_read_all(fd, text);
	if (r == -EFBIG)
		return name_error(err, r, path, "larger than 1 MiB, the most "
				  "that a policy can be");
	return r < 0 ? name_error(err, r, path, strerror(-r)) : 0;
}

/* Owns path, also on failure. */
static int chain_add(struct chain *c, char *path, struct error *err)
{
	size_t i = c->n;
	int r;

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	/* The compiler reports a chain that is too long before it asks. */
	if (i >= POLICY_CHAIN_MAX || strlen(path) > COMPILE_NAME_MAX) {
		r = name_error(err, -EINVAL, path, "extends too much");
		free(path);
		return r;
	}
	c->paths[i] = path;
	buf_init(&c->texts[i], POLICY_TEXT_MAX);
	c->n++;
	r = read_text(path, &c->texts[i], &c->stats[i], err);
	if (r < 0)
		return r;
	c->inputs[i] = (struct policy_input){path, buf_str(&c->texts[i]),
					     c->texts[i].len};
	for (size_t k = 0; k < i; k++) {
		if (c->stats[k].st_dev == c->stats[i].st_dev &&
		    c->stats[k].st_ino == c->stats[i].st_ino)
			return name_error(err, -ELOOP, path,
					  "extends itself in a circle");
	}
	return 0;
}

/* What the file at path means by a relative path. */
static char *path_beside(const char *path, const char *relative)
{
	const char *slash = strrchr(path, '/');

	if (relative[0] == '/' || !slash)
		return strdup(relative);
	return str_format("%.*s/%s", (int)(slash - path), path, relative);
}

/* Beside this program, or where a package puts it. */
static char *find_compiler(void)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *path;

	if (n < 0)
		return strdup("/usr/lib/pinfold/" COMPILER);
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	path = str_format("%s/" COMPILER, exe);
	if (!path || access(path, X_OK) == 0)
		return path;
	free(path);
	return str_format("%s/../lib/pinfold/" COMPILER, exe);
}

static int start_compiler(const char *program, int question, int answer,
			  pid_t *ret, struct error *err)
{
	static char name[] = "pinfold-policy";
	char *argv[] = {name, NULL}, *env[] = {NULL};
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, question, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, answer, 1);
	if (r == 0)
		r = posix_spawn(ret, program, &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return error_set(err, -r, "cannot start %s: %s", program,
				 strerror(r));
	return 0;
}

/* One question, one answer. The question goes by a file: no pipe can block. */
static int ask(const char *program, const struct buf *question,
	       struct buf *answer, struct error *err)
{
	AUTO_CLOSE int in = io_sealed_memfd("policy", question->data,
					    question->len);
	AUTO_CLOSE int out_r = -1, out_w = -1;
	int ends[2], r, status;
	pid_t pid;

	if (in < 0)
		return error_set(err, in, "cannot make a memory file: %s",
				 strerror(-in));
	if (lseek(in, 0, SEEK_SET) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, "cannot ask pinfold-policy");
	out_r = ends[0];
	out_w = ends[1];
	r = start_compiler(program, in, out_w, &pid, err);
	if (r < 0)
		return r;
	close_fd(steal_fd(&out_w));
	r = io_read_all(out_r, answer);
	/* Whatever it still writes must not keep it from ending. */
	close_fd(steal_fd(&out_r));
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return error_errno(err, "pinfold-policy is lost");
	}
	if (r < 0)
		return error_set(err, r, "answer of pinfold-policy: %s",
				 strerror(-r));
	if (WIFSIGNALED(status))
		return error_set(err, -EIO, "pinfold-policy died of signal %d "
				 "(the policy may need too much time)",
				 WTERMSIG(status));
	/* Where posix_spawn cannot share memory, its failure looks so. */
	if (WEXITSTATUS(status) == 127)
		return error_set(err, -ENOENT, "cannot start %s", program);
	if (WEXITSTATUS(status) != 0)
		return error_set(err, -EIO, "pinfold-policy failed");
	return 0;
}

/* Everything but the further files that decides what comes out. */
static int cache_key(const char *compiler, const struct chain *c,
		     unsigned flags, char key[SHA256_HEX_SIZE])
{
	AUTO_BUF struct buf text = BUF_INIT(POLICY_TEXT_MAX + 16384);
	struct stat st;

	if (stat(compiler, &st) < 0)
		return -errno;
	buf_addf(&text, "%s %ju %ju %ju.%09ld %u ", PINFOLD_VERSION,
		 (uintmax_t)st.st_ino, (uintmax_t)st.st_size,
		 (uintmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, flags);
	/* The path decides where "extends" leads and what messages say. */
	buf_add(&text, c->paths[0], strlen(c->paths[0]) + 1);
	buf_add(&text, c->texts[0].data, c->texts[0].len);
	if (text.failed)
		return text.failed;
	sha256_hex(text.data, text.len, key);
	return 0;
}

static bool input_is_unchanged(const char *path, const char *digest)
{
	AUTO_BUF struct buf text = BUF_INIT(POLICY_TEXT_MAX);
	char now[SHA256_HEX_SIZE];

	if (io_read_file(AT_FDCWD, path, &text) < 0)
		return false;
	sha256_hex(buf_str(&text), text.len, now);
	return str_eq(now, digest);
}

static int from_cache(const char *dir, const char *key,
		      struct compile_answer *ret)
{
	AUTO_BUF struct buf json = BUF_INIT(COMPILE_ANSWER_MAX);
	struct cache_inputs inputs = {0};
	int r = policy_cache_get(dir, key, &json, &inputs);

	for (size_t i = 0; r == 0 && i < inputs.paths.n; i++) {
		if (!input_is_unchanged(inputs.paths.items[i],
					inputs.digests.items[i]))
			r = -ESTALE;
	}
	if (r == 0)
		r = compile_answer_read(json.data, json.len, ret, NULL);
	if (r == 0 && !ret->compiled) {
		compile_answer_done(ret);
		r = -EPROTO;
	}
	cache_inputs_done(&inputs);
	return r;
}

static void to_cache(const char *dir, const char *key, const struct chain *c,
		     const struct buf *json)
{
	struct cache_inputs inputs = {0};
	int r = 0;

	for (size_t i = 1; i < c->n && r == 0; i++) {
		char digest[SHA256_HEX_SIZE];

		sha256_hex(c->inputs[i].text, c->inputs[i].len, digest);
		r = strlist_add(&inputs.paths, c->paths[i]);
		if (r == 0)
			r = strlist_add(&inputs.digests, digest);
	}
	if (r == 0)
		policy_cache_put(dir, key, json, &inputs);
	cache_inputs_done(&inputs);
}

static int compile_once(const char *program, const struct chain *c,
			unsigned flags, struct buf *json,
			struct compile_answer *ret, struct error *err)
{
	AUTO_BUF struct buf question = BUF_INIT(COMPILE_QUESTION_MAX);
	int r = compile_question_write(&question, c->inputs, c->n, flags);

	if (r < 0)
		return error_set(err, r, "question to pinfold-policy: %s",
				 strerror(-r));
	buf_reset(json);
	r = ask(program, &question, json, err);
	if (r < 0)
		return r;
	return compile_answer_read(buf_str(json), json->len, ret, err);
}

/*
 * The last file of the chain cannot be had: the compiler says where it is
 * named, and the answer holds that as its problem. Takes it off the chain.
 */
static int say_not_had(const char *program, struct chain *c, unsigned flags,
		       struct buf *json, struct compile_answer *ret,
		       struct error *err)
{
	struct error why = *err;
	char **problem;
	char *text;
	int r;

	c->n--;
	buf_done(&c->texts[c->n]);
	free(c->paths[c->n]);
	r = compile_once(program, c, flags | POLICY_LOAD_NO_MORE, json, ret,
			 err);
	if (r < 0 || ret->problems.n == 0)
		return r < 0 ? r : error_set(err, why.code, "%s", why.text);
	problem = &ret->problems.items[0];
	text = str_format("%s: %s", *problem, why.text);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	free(*problem);
	*problem = text;
	return 0;
}

static int compile(const char *program, struct chain *c, unsigned flags,
		   struct buf *json, struct compile_answer *ret,
		   struct error *err)
{
	int r = compile_once(program, c, flags, json, ret, err);

	while (r == 0 && ret->need) {
		r = chain_add(c, path_beside(c->paths[c->n - 1], ret->need),
			      err);
		compile_answer_done(ret);
		if (r < 0)
			return say_not_had(program, c, flags, json, ret, err);
		r = compile_once(program, c, flags, json, ret, err);
	}
	return r;
}

static int take_problems(struct compile_answer *a, struct strlist *problems,
			 struct error *err)
{
	for (size_t i = 0; i < a->problems.n; i++) {
		if (strlist_add(problems, a->problems.items[i]) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	}
	if (a->problems.n == 1)
		return error_set(err, -EINVAL, "%s", a->problems.items[0]);
	return error_set(err, -EINVAL,
			 "%s (and %zu more: pinfold policy check)",
			 a->problems.items[0], a->problems.n - 1);
}

static int load_chain(const struct policy_files *f, struct chain *c,
		      unsigned flags, struct compile_answer *ret,
		      struct error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(COMPILE_ANSWER_MAX);
	AUTO_FREE char *program = f->compiler ? strdup(f->compiler)
					      : find_compiler();
	char key[SHA256_HEX_SIZE];
	bool cached;
	int r;

	if (!program)
		return error_set(err, -ENOMEM, "out of memory");
	cached = f->cache && cache_key(program, c, flags, key) == 0;
	if (cached && from_cache(f->cache, key, ret) == 0)
		return 0;
	r = compile(program, c, flags, &json, ret, err);
	if (r == 0 && cached && ret->compiled)
		to_cache(f->cache, key, c, &json);
	return r;
}

int policy_file_load(const struct policy_files *f, const char *path,
		     unsigned flags, struct policy *ret,
		     struct strlist *problems, struct error *err)
{
	struct compile_answer a = {0};
	struct chain c = {0};
	char *name;
	int r = chain_add(&c, strdup(path), err);

	if (r == 0)
		r = load_chain(f, &c, flags, &a, err);
	if (r == 0 && !a.compiled)
		r = take_problems(&a, problems, err);
	if (r == 0) {
		name = strdup(path);
		if (!name)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	if (r == 0) {
		*ret = a.policy;
		a.compiled = false;
		free(ret->name);
		ret->name = name;
	}
	compile_answer_done(&a);
	chain_done(&c);
	return r;
}
