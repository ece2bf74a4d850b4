#include "cli/words.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Shorter words are names: of many tasks one begins like any of them. */
#define BARE_MIN 8

static bool is_task(const struct state *s, const char *word)
{
	char id[STATE_ID_SIZE];
	int fd;

	if (str_starts(word, "t-") && strlen(word) < STATE_ID_SIZE &&
	    strspn(word + 2, "abcdefghijklmnopqrstuvwxyz234567") ==
		    strlen(word) - 2)
		return true;
	if (strlen(word) < BARE_MIN || strpbrk(word, "./") ||
	    state_task_open(s, word, NULL, id, &fd, NULL) < 0)
		return false;
	close_fd(fd);
	return true;
}

size_t words_count_tasks(const struct state *s, char *const *words, size_t n)
{
	size_t i = 0;

	while (i < n && is_task(s, words[i]))
		i++;
	return i;
}

void words_done(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->paths[i].path);
	free(w->paths);
	*w = (struct words){0};
}

/* Goes back over the last component. */
static void drop_last(char *out, size_t *len)
{
	while (*len > 0 && out[--*len] != '/')
		;
	out[*len] = '\0';
}

/* base/word without "." and ".."; both absolute. NULL without memory. */
static char *absolute(const char *base, const char *word)
{
	AUTO_FREE char *both = word[0] == '/' ? strdup(word)
					      : str_format("%s/%s", base, word);
	char *out = both ? calloc(1, strlen(both) + 2) : NULL;
	size_t len = 0;

	if (!out)
		return NULL;
	for (const char *at = both; *at;) {
		size_t n = strcspn(at, "/");

		if (n == 2 && !memcmp(at, "..", 2)) {
			drop_last(out, &len);
		} else if (n > 0 && !(n == 1 && at[0] == '.')) {
			out[len++] = '/';
			memcpy(out + len, at, n);
			len += n;
			out[len] = '\0';
		}
		at += n + (at[n] == '/');
	}
	if (len == 0)
		strcpy(out, "/");
	return out;
}

/* What follows dir in path; NULL: it does not lie there. */
static const char *rest_of(const char *path, const char *dir)
{
	size_t n = dir ? strlen(dir) : 0;

	if (n == 0 || !path_is_below(path, dir))
		return NULL;
	return path[n] == '/' ? path + n + 1 : path + n;
}

static int find_layer(const struct pick *p, const char *path,
		      struct words_path *ret)
{
	const char *rest = NULL;
	size_t longest = 0;

	for (size_t i = 0; i <= p->write.n; i++) {
		const char *dir = i == 0 ? p->record.source
					 : p->write.items[i - 1];
		const char *here = rest_of(path, dir);

		if (!here || (rest && strlen(dir) < longest))
			continue;
		rest = here;
		longest = strlen(dir);
		ret->layer = i;
	}
	if (!rest)
		return -ENOENT;
	ret->path = strdup(rest);
	return ret->path ? 0 : -ENOMEM;
}

static int read_one(const struct pick *p, const char *base, const char *word,
		    struct words_path *ret, struct error *err)
{
	AUTO_FREE char *path = absolute(base, word);
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	int r = path ? find_layer(p, path, ret) : -ENOMEM;

	if (r == 0)
		return 0;
	if (r == -ENOMEM)
		return error_set(err, r, "out of memory");
	str_quote(&quoted, word, 500);
	return error_set(err, -EINVAL, "%s is neither a task nor in a "
				       "directory that %s could change",
			 buf_str(&quoted), p->id);
}

int words_read(struct words *w, const struct pick *p, char *const *words,
	       size_t n, struct error *err)
{
	const char *source = p->record.source;
	char here[PATH_MAX];
	const char *base = source ? source : "/";
	int r = 0;

	*w = (struct words){0};
	if (n == 0)
		return 0;
	if (getcwd(here, sizeof(here)) && rest_of(here, source))
		base = here;
	w->paths = calloc(n, sizeof(*w->paths));
	if (!w->paths)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r == 0; i++) {
		r = read_one(p, base, words[i], &w->paths[i], err);
		w->paths[i].word = words[i];
		w->n += r == 0;
	}
	return r;
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n == 0 ||
	       (!strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/'));
}

bool words_mean(struct words *w, size_t layer, const char *path)
{
	bool meant = w->n == 0;

	for (size_t i = 0; i < w->n; i++) {
		struct words_path *p = &w->paths[i];

		if (p->layer != layer || !is_at_or_below(path, p->path))
			continue;
		p->found = meant = true;
	}
	return meant;
}

bool words_lead_through(struct words *w, size_t layer, const char *path)
{
	bool lead = false;

	for (size_t i = 0; i < w->n; i++) {
		struct words_path *p = &w->paths[i];

		if (p->layer != layer || !is_at_or_below(p->path, path))
			continue;
		p->found = lead = true;
	}
	return lead;
}

bool words_name_layer(const struct words *w, size_t layer)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->paths[i].layer == layer)
			return true;
	}
	return false;
}

int words_check(const struct words *w, const char *id, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	for (size_t i = 0; i < w->n; i++) {
		if (w->paths[i].found)
			continue;
		str_quote(&quoted, w->paths[i].word, 500);
		return error_set(err, -ENOENT, "%s has changed nothing at %s",
				 id, buf_str(&quoted));
	}
	return 0;
}
