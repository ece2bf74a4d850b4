/*
 * PATH, from the caller's to the commands'; and where a command would have
 * been.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/report.h"
#include "cli/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 256
#define SHEBANG_MAX 256
#define SHOWN_MAX 400

static const char *const system_path[] = {
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
	"/usr/bin",	   "/sbin",	     "/bin",
};

int tools_caller_path(struct strlist *ret)
{
	const char *at = getenv("PATH");
	int r = 0;

	while (at && *at && r == 0 && ret->n < ENTRIES_MAX) {
		size_t n = strcspn(at, ":"), len = n;
		AUTO_FREE char *entry = NULL;

		while (len > 1 && at[len - 1] == '/')
			len--;
		entry = strndup(at, len);
		if (!entry)
			return -ENOMEM;
		if (path_is_normal(entry) && !strlist_has(ret, entry))
			r = strlist_add(ret, entry);
		at += n + (at[n] == ':');
	}
	return r;
}

static void add_entry(struct buf *b, struct strlist *seen, const char *entry)
{
	if (strlist_has(seen, entry))
		return;
	if (strlist_add(seen, entry) < 0)
		b->failed = -ENOMEM;
	buf_addf(b, "%s%s", b->len > 0 ? ":" : "", entry);
}

int tools_add_path(const struct tools_where *w, const struct strlist *path,
		   struct tools *t)
{
	AUTO_BUF struct buf b = BUF_INIT(1u << 20);
	AUTO_STRLIST struct strlist seen = {0};

	for (size_t i = 0; i < path->n; i++) {
		AUTO_FREE char *real = NULL;

		if (tools_visible(w, t, path->items[i])) {
			add_entry(&b, &seen, path->items[i]);
			continue;
		}
		/* A way over links, which are not inside. */
		real = realpath(path->items[i], NULL);
		if (real && tools_visible(w, t, real))
			add_entry(&b, &seen, real);
	}
	for (size_t i = 0; i < ARRAY_SIZE(system_path); i++)
		add_entry(&b, &seen, system_path[i]);
	if (b.failed)
		return b.failed;
	return strlist_take(&t->env, str_format("PATH=%s", buf_str(&b)));
}

/* ---- a command that is not there ---- */

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       access(path, X_OK) == 0;
}

static char *find_on_host(const char *command)
{
	AUTO_STRLIST struct strlist path = {0};

	if (strchr(command, '/'))
		return is_program(command) ? strdup(command) : NULL;
	if (tools_caller_path(&path) < 0)
		return NULL;
	for (size_t i = 0; i < path.n; i++) {
		char *at = str_format("%s/%s", path.items[i], command);

		if (at && is_program(at))
			return at;
		free(at);
	}
	return NULL;
}

/* What a script's first line names; NULL if it is no script. */
static char *interpreter_of(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
					       O_NOCTTY);
	char head[SHEBANG_MAX + 1], *at = head + 2;
	ssize_t n = fd < 0 ? -1 : read(fd, head, SHEBANG_MAX);

	if (n < 3 || memcmp(head, "#!", 2) != 0)
		return NULL;
	head[n] = '\0';
	at += strspn(at, " \t");
	at[strcspn(at, " \t\r\n")] = '\0';
	return path_is_normal(at) && access(at, X_OK) == 0 ? strdup(at) : NULL;
}

static bool can_be_granted(const char *dir)
{
	const char *home = getenv("HOME");

	return !policy_grant_fault(dir) &&
	       !(home && path_is_below(home, dir)) &&
	       strchr(dir + 1, '/');
}

/* The directory to grant for a program: with its libraries, if it has them. */
static char *grant_for(const char *program)
{
	AUTO_FREE char *dir = strdup(program);

	if (!dir)
		return NULL;
	*strrchr(dir, '/') = '\0';
	if (str_ends(dir, "/bin")) {
		AUTO_FREE char *above = strndup(dir, strlen(dir) - 4);

		if (above && can_be_granted(above))
			return strdup(above);
	}
	return dir[0] && can_be_granted(dir) ? strdup(dir) : NULL;
}

static void add_path(struct buf *text, const char *path)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);

	report_path(&b, path);
	buf_add_str(text, b.len > SHOWN_MAX ? "a long path" : buf_str(&b));
}

static void say_grant(struct buf *text, const char *program)
{
	AUTO_FREE char *dir = grant_for(program);

	if (!dir)
		return;
	buf_add_str(text, "; --read ");
	add_path(text, dir);
	buf_add_str(text, " would show it");
}

void tools_missing(const char *command, struct buf *text)
{
	AUTO_FREE char *found = find_on_host(command);
	AUTO_FREE char *real = found ? realpath(found, NULL) : NULL;
	AUTO_FREE char *interpreter = real ? interpreter_of(real) : NULL;

	if (!real)
		return;
	if (!tools_of_system(real)) {
		buf_add_str(text, "; on the host it is ");
		add_path(text, real);
		say_grant(text, real);
	}
	if (interpreter && !tools_of_system(interpreter)) {
		buf_add_str(text, "; it is run by ");
		add_path(text, interpreter);
		say_grant(text, interpreter);
	}
}
