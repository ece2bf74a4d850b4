#include "workspace/plan_view.h"

#include "base/cleanup.h"
#include "workspace/layer.h"
#include "workspace/plan.h"
#include "workspace/plan_view_private.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int plan_view_directory(int layer_fd, char name[32], struct error *err)
{
	int fd, r;

	snprintf(name, 32, "look.%d", (int)getpid());
	r = layer_remove(layer_fd, name, err);
	if (r < 0)
		return r;
	fd = mkdirat(layer_fd, name, 0700) < 0
		     ? -errno
		     : walk_open_at(layer_fd, name, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? error_set(err, fd, "cannot make a directory to look at "
					   "the changes: %s",
				  strerror(-fd))
		      : fd;
}

void plan_view_done(struct plan_view *v)
{
	journal_done(&v->journal);
	free(v->entries);
	close_fd(v->dir_fd);
	if (v->name[0])
		layer_remove(v->layer_fd, v->name, NULL);
	*v = (struct plan_view)PLAN_VIEW_INIT;
}

static int plan(struct plan_view *v, const struct promote_layer *l,
		struct error *err)
{
	const struct journal_head head = {.magic = JOURNAL_MAGIC,
					  .layout = JOURNAL_LAYOUT};
	const struct promote_want want = {0};
	int fd = fcntl(v->dir_fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? -errno : journal_create(&v->journal, fd, &head);

	if (r < 0)
		return error_set(err, r, "cannot plan: %s", strerror(-r));
	return plan_make(&v->journal, v->dir_fd, l, &want, false, &v->counts,
			 err);
}

int plan_view_open(struct plan_view *v, const struct promote_layer *l,
		   struct error *err)
{
	int r;

	*v = (struct plan_view)PLAN_VIEW_INIT;
	v->layer_fd = l->fd;
	v->dir_fd = plan_view_directory(l->fd, v->name, err);
	if (v->dir_fd < 0)
		return v->dir_fd;
	r = plan(v, l, err);
	if (r == 0 && journal_sorted(&v->journal, &v->entries, &v->n) < 0)
		r = error_set(err, -ENOMEM, "out of memory");
	return r;
}

const struct journal_entry *plan_view_find(const struct plan_view *v,
					   const char *path)
{
	size_t from = 0, to = v->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int c = strcmp(v->entries[middle]->path, path);

		if (c == 0)
			return v->entries[middle];
		if (c < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return NULL;
}
