/*
 * Notes on promotions. The names in promoting/: tasks whose promotion, or its way back, is under
 * way. The directory is there only while it has any.
 */
#include "task/state.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "task/state_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "promoted" /* in a task: all is in the source */
#define PATH_SIZE (16 + STATE_ID_SIZE)

static void path_of(const char *id, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "promoting/%.*s", STATE_ID_SIZE - 1, id);
}

int state_promoting(const struct state *s, const char *id, struct error *err)
{
	char path[PATH_SIZE];
	int r = 0;

	path_of(id, path);
	/* Whoever removes the directory in between makes it a second try. */
	for (int tries = 0; tries < 3; tries++) {
		if (mkdirat(s->fd, "promoting", 0700) < 0 && errno != EEXIST)
			return state_fail(err, -errno, "make promoting in",
					  s->path);
		r = mknodat(s->fd, path, S_IFREG | 0600, 0) < 0 ? -errno : 0;
		if (r != -ENOENT)
			break;
	}
	if (r < 0 && r != -EEXIST)
		return state_fail(err, r, "note the promotion in", s->path);
	return 0;
}

void state_task_mark_promoted(int task_fd, bool all)
{
	if (all)
		mknodat(task_fd, MARK, S_IFREG | 0600, 0);
	else
		unlinkat(task_fd, MARK, 0);
}

bool state_task_has_pending(int task_fd)
{
	return faccessat(task_fd, MARK, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	       state_task_has_changes(task_fd);
}

void state_promoted(const struct state *s, const char *id)
{
	char path[PATH_SIZE];

	path_of(id, path);
	unlinkat(s->fd, path, 0);
	unlinkat(s->fd, "promoting", AT_REMOVEDIR);
}

void state_each_promoting(const struct state *s, state_promoting_fn *fn,
			  void *arg)
{
	AUTO_DIR DIR *dir = state_read(s->fd, "promoting");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (state_is_id(e->d_name))
			fn(arg, e->d_name);
	}
	/* Of who died between two calls; it stays while it holds anything. */
	if (dir)
		unlinkat(s->fd, "promoting", AT_REMOVEDIR);
}
