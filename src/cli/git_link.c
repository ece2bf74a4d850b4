/*
 * A linked worktree or a submodule: its .git is a file that names a directory
 * elsewhere, which is not in the sandbox. git says nothing of that but that there
 * is no repository, so it is said here, with the grant that shows it.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/launch.h"
#include "cli/report.h"
#include "workspace/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WORD "gitdir: "

/* What the source's .git names, or NULL: it is no such file. */
static char *read_link(const struct launch *l)
{
	AUTO_BUF struct buf text = BUF_INIT(2 * PATH_MAX);
	AUTO_CLOSE int fd = walk_open_at(l->source.fd, ".git",
					 O_RDONLY | O_NONBLOCK);
	const char *name;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    io_read_all(fd, &text) < 0 || !str_starts(buf_str(&text), WORD))
		return NULL;
	text.data[strcspn(buf_str(&text), "\n")] = '\0';
	name = buf_str(&text) + strlen(WORD);
	return name[0] == '/' ? strdup(name)
			      : str_format("%s/%s", l->source.path, name);
}

/* Of a linked worktree the whole repository, of which it is a part. */
static void to_repository(char *path)
{
	char *part = strrchr(path, '/');

	if (!part || part == path)
		return;
	*part = '\0';
	if (str_ends(path, "/.git/worktrees"))
		path[strlen(path) - strlen("/worktrees")] = '\0';
	else
		*part = '/';
}

static bool is_shown(const struct launch *l, const char *path)
{
	const struct strlist *const grants[] = {&l->policy.read,
						&l->policy.write};

	if (path_is_below(path, l->source.path))
		return true;
	for (size_t g = 0; g < 2; g++) {
		for (size_t i = 0; i < grants[g]->n; i++) {
			if (path_is_below(path, grants[g]->items[i]))
				return true;
		}
	}
	return false;
}

void launch_say_git_link(const struct launch *l)
{
	AUTO_FREE char *named = l->source.path ? read_link(l) : NULL;
	AUTO_FREE char *real = named ? realpath(named, NULL) : NULL;
	AUTO_BUF struct buf quoted = BUF_INIT(4 * PATH_MAX + 16);
	AUTO_BUF struct buf text = BUF_INIT(8 * PATH_MAX + 512);

	if (!real || is_shown(l, real))
		return;
	to_repository(real);
	report_path(&quoted, real);
	buf_addf(&text, "git has no repository inside: .git of the source leads "
		 "to %s; --read %s shows it, what is committed needs a source "
		 "of its own (git clone)", buf_str(&quoted), buf_str(&quoted));
	report_note(buf_str(&text));
}
