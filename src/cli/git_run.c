#include "cli/git_run.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "confine/apart.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 32
#define MEMORY_MAX ((uint64_t)2 << 30)
#define FILE_MAX ((uint64_t)4 << 30)
#define SECONDS 300

/* What a program of the host needs to be one. */
static const struct path_grant host[] = {
	{"/usr", PATH_READ | PATH_EXEC},   {"/lib", PATH_READ | PATH_EXEC},
	{"/lib64", PATH_READ | PATH_EXEC}, {"/bin", PATH_READ | PATH_EXEC},
	{"/opt", PATH_READ | PATH_EXEC},   {"/nix/store", PATH_READ | PATH_EXEC},
	{"/gnu/store", PATH_READ | PATH_EXEC},
	{"/etc/ld.so.cache", PATH_READ},   {"/dev/null", PATH_READ | PATH_WRITE},
	{"/dev/urandom", PATH_READ},
};

/* No configuration but that of the repository, which pinfold wrote. */
static const char *const environment[] = {
	"GIT_DIR=.",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_SYSTEM=/dev/null",
	"GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_INDEX_FILE=index",
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_TERMINAL_PROMPT=0",
	"HOME=/nonexistent",
	"LC_ALL=C",
	"PATH=/nonexistent",
};

static int find(struct git_program *g, struct error *err)
{
	static const char usual[] = "/usr/local/bin:/usr/bin:/bin";
	const char *path = getenv("PATH");
	AUTO_FREE char *places = str_format("%s:%s", path ? path : "", usual);
	char *save = NULL;

	if (!places)
		return error_set(err, -ENOMEM, "out of memory");
	for (char *dir = strtok_r(places, ":", &save); dir;
	     dir = strtok_r(NULL, ":", &save)) {
		AUTO_FREE char *file = str_format("%s/git", dir);

		if (!file)
			return error_set(err, -ENOMEM, "out of memory");
		if (dir[0] == '/' && access(file, X_OK) == 0) {
			g->path = steal_ptr(&file);
			return 0;
		}
	}
	return error_set(err, -ENOENT, "git is needed to take commits over, "
				       "and is not installed");
}

static size_t add_all(const char **to, size_t n, const char *const *from)
{
	for (size_t i = 0; from && from[i] && n < WORDS_MAX - 1; i++)
		to[n++] = from[i];
	return n;
}

static int run(void *arg, const struct git_errand *e, struct error *err)
{
	struct git_program *g = arg;
	const char *argv[WORDS_MAX] = {"git"}, *env[WORDS_MAX] = {NULL};
	size_t n;
	int r = g->path ? 0 : find(g, err);

	if (r < 0)
		return r;
	argv[add_all(argv, 1, e->argv)] = NULL;
	for (n = 0; n < ARRAY_SIZE(environment); n++)
		env[n] = environment[n];
	env[add_all(env, n, e->env)] = NULL;
	return apart_run(&(struct apart){
				 .program = g->path,
				 .argv = (char *const *)(uintptr_t)argv,
				 .env = (char *const *)(uintptr_t)env,
				 .fds = {e->in_fd, e->out_fd, e->error_fd},
				 .dirs = e->dirs,
				 .n_dirs = e->n_dirs,
				 .system = host,
				 .n_system = ARRAY_SIZE(host),
				 .memory_max = MEMORY_MAX,
				 .file_max = e->file_max ? e->file_max
						      : FILE_MAX,
				 .seconds = SECONDS,
			 },
			 err);
}

void git_program_init(struct git_program *g, const char *task)
{
	*g = (struct git_program){
		.promote = {.run = run, .arg = g, .task = task},
	};
}

void git_program_done(struct git_program *g)
{
	free(g->path);
	g->path = NULL;
}
