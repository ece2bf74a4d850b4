/* How a reference that is taken over is told. */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/promote_private.h"
#include "workspace/git_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT 7 /* digits of an id */

/* The words of the journal (git_stage.c): OLD NEW AHEAD BEHIND, then files. */
struct told {
	char old[GIT_NAME_MAX], new[GIT_NAME_MAX]; /* "": none */
	unsigned long long ahead, behind;
};

static void take_word(const char **at, char word[GIT_NAME_MAX])
{
	size_t n = strcspn(*at, " ");

	snprintf(word, GIT_NAME_MAX, "%.*s", (int)n, *at);
	if (str_eq(word, "-"))
		word[0] = '\0';
	*at += n + ((*at)[n] == ' ');
}

static void read_told(const char *text, struct told *t)
{
	char *end;

	take_word(&text, t->old);
	take_word(&text, t->new);
	t->ahead = strtoull(text, &end, 10);
	t->behind = strtoull(end, NULL, 10);
}

static void add_commits(struct buf *out, unsigned long long n)
{
	buf_addf(out, "%llu commit%s", n, n == 1 ? "" : "s");
}

/* HEAD: to a branch, or to a commit. */
static int tell_head(struct buf *out, const struct told *t)
{
	char short_name[GIT_NAME_MAX];

	buf_add_str(out, "HEAD: ");
	if (!str_starts(t->new, "refs/"))
		return buf_addf(out, "at %.*s, on no branch\n", SHORT, t->new);
	buf_add_str(out, "on ");
	report_path(out, git_name_short(t->new, short_name));
	return buf_add_char(out, '\n');
}

static int tell_ref(struct buf *out, const char *path, const char *text)
{
	const char *name = path + strlen(".git/");
	char short_name[GIT_NAME_MAX];
	struct told t;

	read_told(text, &t);
	if (str_eq(name, "HEAD"))
		return tell_head(out, &t);
	report_path(out, git_name_short(name, short_name));
	if (!t.new[0])
		return buf_addf(out, ": deleted, was %.*s\n", SHORT, t.old);
	buf_add_str(out, ": ");
	if (str_eq(name, "refs/stash"))
		return buf_addf(out, "%llu entr%s, the last is %.*s\n",
				t.ahead, t.ahead == 1 ? "y" : "ies", SHORT,
				t.new);
	if (!t.old[0]) {
		buf_addf(out, "new at %.*s", SHORT, t.new);
		if (t.ahead) {
			buf_add_str(out, ", ");
			add_commits(out, t.ahead);
		}
		return buf_add_char(out, '\n');
	}
	if (t.behind) {
		buf_add_str(out, "rewritten, ");
		add_commits(out, t.ahead);
		buf_addf(out, " in place of %llu", t.behind);
	} else {
		add_commits(out, t.ahead);
	}
	return buf_addf(out, ", %.*s..%.*s\n", SHORT, t.old, SHORT, t.new);
}

/* The files that its commits change stand in further lines, as they are shown. */
int promote_tell_ref(struct buf *out, const char *path, const char *text)
{
	int r = tell_ref(out, path, text);
	const char *at = strchr(text, '\n');

	for (at = at ? at + 1 : ""; r >= 0 && *at; at += *at == '\n') {
		size_t n = strcspn(at, "\n");

		r = buf_addf(out, "     %.*s\n", (int)n, at);
		at += n;
	}
	return r;
}

void promote_write_ref(struct json_writer *w, const char *text)
{
	struct told t;

	read_told(text, &t);
	json_object(w);
	json_put_uint(w, "ahead", t.ahead);
	json_put_uint(w, "behind", t.behind);
	json_put_text(w, "new", t.new[0] ? t.new : NULL);
	json_put_text(w, "old", t.old[0] ? t.old : NULL);
	json_object_end(w);
}
