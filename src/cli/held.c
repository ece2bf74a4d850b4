#include "cli/held.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "confine/start.h"
#include "workspace/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void layers_done(struct layers *l)
{
	for (size_t i = 0; i < l->n; i++) {
		close_fd(l->items[i].fd);
		close_fd(l->items[i].source_fd);
		free((void *)(uintptr_t)l->items[i].source);
		protect_done(&l->protect[i]);
	}
	free(l->items);
	free(l->protect);
	strlist_done(&l->deny);
	if (l->git)
		git_program_done(l->git);
	free(l->git);
	close_fd(l->lock);
	*l = (struct layers)LAYERS_INIT;
}

/*
 * The kernel's own clock when the task's command was about to start: the
 * policy's snapshot is the last file that is written before.
 */
static int read_start(const struct pick *p, int64_t *ret, struct error *err)
{
	struct stat st;

	if (fstatat(p->fd, "policy.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, "cannot tell when %s began", p->id);
	*ret = time_ns(&st.st_mtim);
	return 0;
}

int held_deny(const struct strlist *deny, const char *source,
	      struct strlist *ret, struct error *err)
{
	for (size_t i = 0; i < deny->n; i++) {
		const char *path = deny->items[i];

		if (path[0] == '/') {
			if (!path_is_below(path, source))
				continue;
			path += strlen(source);
			path += *path == '/';
		}
		if (strlist_add(ret, path) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Is the whole directory a repository, or does it lie in one? */
static bool is_git(int fd, const char *path)
{
	static const char *const marks[] = {"HEAD", "objects", "refs"};

	if (judge_is_git(path))
		return true;
	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(marks); i++) {
		if (faccessat(fd, marks[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
	}
	return fd >= 0;
}

/* Opens what a layer lies over, and fills in what it is. */
static int add_below(struct layers *l, int fd, const char *recorded,
		     bool gone_too, struct error *err)
{
	struct promote_layer *layer = &l->items[l->n];
	AUTO_CLOSE int below = pick_open_below(recorded, err);
	struct stat st = {0};

	if (below >= 0 && fstat(below, &st) < 0)
		return error_errno(err, "cannot look at %s", recorded);
	if (below < 0 && !(gone_too && below == -ENOENT))
		return below;
	*layer = (struct promote_layer){
		.fd = fd,
		.source_fd = below < 0 ? -1 : below,
		.source = below < 0 ? strdup(recorded) : io_fd_path(below),
		.since_ns = l->since_ns,
		.is_git = is_git(below, recorded),
		.top_ctime_ns = time_ns(&st.st_ctim),
		.protect = &l->protect[l->n],
	};
	if (!layer->source)
		return error_set(err, -ENOMEM, "out of memory");
	steal_fd(&below);
	l->n++;
	return 0;
}

static int add(struct layers *l, const struct pick *p, const char *name,
	       const char *recorded, bool source, bool gone_too,
	       struct error *err)
{
	struct promote_layer *layer = &l->items[l->n];
	AUTO_CLOSE int fd = openat(p->fd, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					   O_CLOEXEC);
	int r;

	/* A task that was refused has not come so far. */
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return error_errno(err, "cannot open %s of %s", name, p->id);
	if (faccessat(fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = add_below(l, fd, recorded, gone_too, err);
	if (r < 0)
		return r;
	steal_fd(&fd);
	r = protect_init(&l->protect[l->n - 1], source ? &p->protect : NULL,
			 layer->source_fd, err);
	if (r < 0 || !source)
		return r;
	l->protect[l->n - 1].hidden = &p->hidden;
	layer->deny = &l->deny;
	l->git = malloc(sizeof(*l->git));
	if (!l->git)
		return error_set(err, -ENOMEM, "out of memory");
	git_program_init(l->git, p->id);
	layer->git = &l->git->promote;
	layer->copied = p->record.workspace &&
			str_eq(p->record.workspace, "copy");
	return held_deny(&p->deny, layer->source, &l->deny, err);
}

static int claim(const struct pick *p, struct error *err)
{
	int lock = pick_claim(p, err);

	if (lock == -ENOENT)
		return error_set(err, lock, "%s has no lock: nothing is known "
					    "of how it ended",
				 p->id);
	return lock;
}

static int open_layers(struct layers *ret, const struct pick *p, bool gone_too,
		       int lock, struct error *err)
{
	AUTO_LAYERS struct layers l = {.lock = lock};
	int r = read_start(p, &l.since_ns, err);

	if (r < 0)
		return r;
	/* All layers are open at once. */
	start_raise(RLIMIT_NOFILE, 64 + 16 * (uint64_t)p->write.n);
	l.items = calloc(p->write.n + 1, sizeof(*l.items));
	l.protect = calloc(p->write.n + 1, sizeof(*l.protect));
	if (!l.items || !l.protect)
		return error_set(err, -ENOMEM, "out of memory");
	/* Where protect and deny point to must stay where it is. */
	*ret = l;
	l = (struct layers)LAYERS_INIT;
	if (p->record.source)
		r = add(ret, p, ".", p->record.source, true, gone_too, err);
	for (size_t i = 0; i < p->write.n && r == 0; i++) {
		char name[STATE_WRITE_NAME_MAX];

		state_write_name(i, name);
		r = add(ret, p, name, p->write.items[i], false, gone_too,
			err);
	}
	return r;
}

int layers_open(struct layers *ret, const struct pick *p, bool gone_too,
		struct error *err)
{
	int lock = claim(p, err);

	return lock < 0 ? lock : open_layers(ret, p, gone_too, lock, err);
}

int layers_look(struct layers *ret, const struct pick *p, struct error *err)
{
	return open_layers(ret, p, false, -1, err);
}
