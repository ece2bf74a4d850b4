/*
 * Other mounts below the source (a volume for node_modules in a container, say):
 * an overlay shows none of what is in them, and a copy copies none. It is said,
 * with the grant that shows them.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/launch.h"
#include "cli/report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOUNTS_MAX (16u << 20)
#define NAMED 3

struct found {
	struct buf names;
	size_t n;
	char *first; /* quoted for people; NULL: none */
};

/* proc(5): space, tab, newline and backslash are three octal digits. */
static void decode(char *s)
{
	char *to = s;

	while (*s) {
		unsigned c;

		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3 &&
		    sscanf(s + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* The fifth word of a line is where the mount lies. */
static char *mount_point(char *line)
{
	char *save = NULL, *word = strtok_r(line, " ", &save);

	for (int i = 0; word && i < 4; i++)
		word = strtok_r(NULL, " ", &save);
	if (word)
		decode(word);
	return word;
}

static bool is_shown(const struct launch *l, const char *path)
{
	const struct strlist *const grants[] = {&l->policy.read,
						&l->policy.write};

	for (size_t k = 0; k < ARRAY_SIZE(grants); k++) {
		for (size_t i = 0; i < grants[k]->n; i++) {
			if (path_is_below(path, grants[k]->items[i]) &&
			    path_is_below(grants[k]->items[i], l->source.path))
				return true;
		}
	}
	return false;
}

static void add(struct found *f, const struct launch *l, const char *path)
{
	struct stat st;

	if (!path_is_below(path, l->source.path) ||
	    str_eq(path, l->source.path) || is_shown(l, path) ||
	    stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	if (f->n++ >= NAMED)
		return;
	buf_add_str(&f->names, f->n > 1 ? ", " : "");
	report_path(&f->names, path);
	if (!f->first && !f->names.failed)
		f->first = strdup(buf_str(&f->names));
}

static int find(const struct launch *l, struct found *f)
{
	AUTO_BUF struct buf text = BUF_INIT(MOUNTS_MAX);
	char *save = NULL;
	int r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", &text);

	if (r < 0)
		return r;
	for (char *line = strtok_r(text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *path = mount_point(line);

		if (path)
			add(f, l, path);
	}
	return 0;
}

bool launch_has_mounts(const struct launch *l)
{
	struct found f = {.names = BUF_INIT(32768)};
	/* What cannot be known is not taken for none. */
	bool has = find(l, &f) < 0 || f.n > 0;

	free(f.first);
	buf_done(&f.names);
	return has;
}

void launch_say_mounts(const struct launch *l)
{
	AUTO_BUF struct buf note = BUF_INIT(65536);
	struct found f = {.names = BUF_INIT(32768)};

	if (l->source.path)
		find(l, &f);
	if (f.n > 0 && f.first) {
		buf_addf(&note, "note: %s", buf_str(&f.names));
		if (f.n > NAMED)
			buf_addf(&note, " and %zu more", f.n - NAMED);
		buf_addf(&note, " below the source %s seen empty: --write %s "
			 "shows what is in it",
			 f.n == 1 ? "is another mount and was"
				  : "are other mounts and were", f.first);
		report_note(buf_str(&note));
	}
	free(f.first);
	buf_done(&f.names);
}
