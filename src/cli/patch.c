#include "cli/patch.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/launch.h"
#include "ipc/channel.h"
#include "workspace/differ.h"
#include "workspace/patch.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One answer's time; it has a minute of processor time for all of them. */
#define ANSWER_MS 90000
#define DEATHS_MAX 16

int patcher_init(struct patcher *p, int upper_fd, int below_fd,
		 struct error *err)
{
	AUTO_FREE char *programs = launch_programs();

	*p = (struct patcher){.channel = -1, .has_below = below_fd >= 0};
	tree_init(&p->upper, upper_fd);
	tree_init(&p->below, below_fd);
	if (programs)
		p->program = str_format("%s/pinfold-diff", programs);
	return p->program ? 0
			  : error_set(err, -ENOENT,
				      "pinfold-diff is missing: it belongs "
				      "beside pinfold-keeper");
}

/* Ends the other process. */
static void end(struct patcher *p)
{
	int status = 0;

	if (p->channel < 0)
		return;
	close_fd(p->channel);
	p->channel = -1;
	kill(p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
}

void patcher_done(struct patcher *p)
{
	end(p);
	tree_done(&p->upper);
	tree_done(&p->below);
	free(p->program);
	p->program = NULL;
}

static int start(struct patcher *p, struct error *err)
{
	static char name[] = "pinfold-diff";
	char *argv[] = {name, NULL}, *env[] = {NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], r;

	r = channel_pair(ends);
	if (r < 0)
		return error_set(err, r, "cannot start pinfold-diff: %s",
				 strerror(-r));
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
	if (r == 0)
		r = posix_spawn(&p->pid, p->program, &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	close_fd(ends[1]);
	if (r != 0) {
		close_fd(ends[0]);
		return error_set(err, -r, "cannot start %s: %s", p->program,
				 strerror(r));
	}
	p->channel = ends[0];
	return 0;
}

/* ---- the two sides ---- */

struct sides {
	int fds[2];
	char targets[2][PATH_MAX];
};

static void sides_done(struct sides *s)
{
	close_fd(s->fds[0]);
	close_fd(s->fds[1]);
}

#define AUTO_SIDES __attribute__((cleanup(sides_done)))

static void omit(struct differ_side *side, const char *why)
{
	side->omitted = why;
}

static void open_file(int dir, const char *name, struct differ_side *side,
		      int *fd)
{
	struct stat st;

	*fd = walk_open_at(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0) {
		omit(side, *fd == -EACCES ? "it may not be read"
					  : "it cannot be opened");
	} else if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		omit(side, "it is something else by now");
		close_fd(*fd);
		*fd = -1;
	} else {
		side->size = (uint64_t)st.st_size;
		side->fd = *fd;
	}
}

/* Opens path below tree, which was or is what mode says. */
static void open_side(struct tree *tree, const char *path, mode_t mode,
		      struct differ_side *side, int *fd, char target[PATH_MAX])
{
	const char *name;
	ssize_t n;
	int dir;

	side->mode = mode;
	if (!S_ISREG(mode) && !S_ISLNK(mode))
		return;
	dir = tree_parent(tree, path, &name);
	if (dir < 0) {
		omit(side, "its directory cannot be opened");
	} else if (S_ISREG(mode)) {
		open_file(dir, name, side, fd);
	} else {
		n = readlinkat(dir, name, target, PATH_MAX - 1);
		if (n < 0) {
			omit(side, "it is something else by now");
			return;
		}
		target[n] = '\0';
		side->target = target;
	}
}

static mode_t mode_of(struct patcher *p, const char *path, mode_t otherwise)
{
	const char *name;
	struct stat st;
	int dir = tree_parent(&p->below, path, &name);

	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return otherwise;
	return st.st_mode;
}

static void open_sides(struct patcher *p, const struct change *c,
		       const struct patch_notes *notes, struct sides *s,
		       struct differ_ask *ask)
{
	ask->before.fd = ask->after.fd = -1;
	if (c->kind != CHANGE_DELETED)
		open_side(&p->upper, c->path, c->mode, &ask->after, &s->fds[1],
			  s->targets[1]);
	if (notes->from)
		ask->before = (struct differ_side){
			.mode = mode_of(p, notes->from, c->mode),
			.size = c->size, .fd = -1, .omitted = ""};
	else if (c->kind != CHANGE_ADDED && p->has_below)
		open_side(&p->below, c->path, c->mode_before, &ask->before,
			  &s->fds[0], s->targets[0]);
}

/* ---- asking ---- */

static int receive(struct patcher *p, struct buf *out)
{
	for (;;) {
		struct pollfd poller = {.fd = p->channel, .events = POLLIN};
		int r = poll(&poller, 1, ANSWER_MS);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -ETIMEDOUT;
		r = differ_recv(p->channel, out);
		if (r <= 0)
			return r;
	}
}

static int note(struct buf *out, const char *path, const char *what)
{
	buf_add_str(out, "# ");
	patch_path(out, "", path);
	return buf_addf(out, " is not compared: %s\n", what);
}

static int ask_once(struct patcher *p, const struct differ_ask *ask,
		    struct buf *out)
{
	size_t len = out->len;
	int r = differ_send(p->channel, ask);

	if (r == 0)
		r = receive(p, out);
	if (r < 0 && out->data) {
		out->len = len;
		out->data[len] = '\0';
		out->failed = 0;
	}
	return r;
}

/* One try, in a process that works. -ECHILD: it is gone by this. */
static int try(struct patcher *p, const struct differ_ask *ask, struct buf *out,
	       struct error *err)
{
	int r = p->channel < 0 ? start(p, err) : 0;

	if (r == 0)
		r = ask_once(p, ask, out);
	switch (r) {
	case -EPIPE:
	case -ECONNRESET:
	case -EPROTO:
	case -ETIMEDOUT:
		end(p);
		p->deaths++;
		return -ECHILD;
	default:
		return r;
	}
}

/* A process that used up its time with others gets a second try of its own. */
static int ask_twice(struct patcher *p, const struct differ_ask *ask,
		     struct buf *out, struct error *err)
{
	int r = try(p, ask, out, err);

	if (r == -ECHILD)
		r = try(p, ask, out, err);
	if (r < 0 && p->channel < 0 && r != -ECHILD)
		return r;
	if (p->deaths > DEATHS_MAX)
		return error_set(err, -EIO, "pinfold-diff died %u times",
				 p->deaths);
	if (r == -ENAMETOOLONG)
		return note(out, ask->path, "its name is too long");
	if (r == -EFBIG)
		return note(out, ask->path, "the text would be too large");
	return r < 0 ? note(out, ask->path, "it takes too much") : 0;
}

int patcher_add(struct patcher *p, const struct change *c,
		const struct patch_notes *notes, struct buf *out,
		struct error *err)
{
	AUTO_SIDES struct sides s = {.fds = {-1, -1}};
	struct differ_ask ask = {
		.path = c->path,
		.path_before = notes->from,
		.held = notes->held,
	};
	int r;

	open_sides(p, c, notes, &s, &ask);
	r = ask_twice(p, &ask, out, err);
	if (r < 0 && out->failed)
		error_set(err, out->failed, "the patch is too large");
	return r;
}

/* ---- deleted directories ---- */

static int deleted_entry(struct walk *w, const char *top, const char *name,
			 change_fn *fn, void *arg)
{
	struct change c = {.kind = CHANGE_DELETED};
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (fstatat(walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return walk_enter(w, name, false, NULL) == -ENOMEM ? -ENOMEM
								   : 0;
	path = str_format("%s%s%s/%s", top, w->path.len > 0 ? "/" : "",
			  buf_str(&w->path), name);
	if (!path)
		return -ENOMEM;
	c.path = path;
	c.mode = c.mode_before = st.st_mode;
	return fn(arg, &c);
}

int patcher_each_below(struct patcher *p, const struct change *dir,
		       change_fn *fn, void *arg, struct error *err)
{
	AUTO_WALK struct walk w = {0};
	const char *name;
	struct dirent *d;
	int r, fd;

	fd = p->has_below ? tree_parent(&p->below, dir->path, &name) : -ENOENT;
	if (fd < 0)
		return 0;
	/* It is gone from the host too. */
	if (walk_init(&w, fd, name, -1, NULL) < 0)
		return 0;
	for (;;) {
		r = walk_next(&w, &d, err);
		if (r == 0 && w.depth == 1)
			return 0;
		if (r == 0)
			r = walk_leave(&w, err);
		else if (r > 0)
			r = deleted_entry(&w, dir->path, d->d_name, fn, arg);
		if (r != 0)
			return r;
	}
}
