/*
 * Theory of operation. An overlay looks a name up once and keeps what it found,
 * which is why a sandbox goes on seeing a file that the host has replaced. When it
 * is reconfigured it forgets every name that nobody uses at that moment; nothing
 * runs in the sandbox, so that is all of them, and the layers below may have
 * changed meanwhile as if it had not been mounted (the kernel permits this for an
 * overlay without index, metacopy, redirects and xino, as ours is). The upper
 * layer is not touched: what the task has changed cannot be lost by it.
 *
 * The keeper is not able to: it is confined, and a reconfiguration needs the
 * right to mount in the user namespace that the overlay was made in. Whoever
 * started the keeper owns that namespace and may enter it.
 */
#include "cli/refresh_private.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "confine/mount.h"
#include "confine/sys.h"
#include "ipc/codec.h"
#include "workspace/git_changes.h"
#include "workspace/hide_renew.h"
#include "workspace/judge.h"
#include "workspace/layer.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static int enter(int pidfd, int what, const char *name, struct error *err)
{
	return setns(pidfd, what) < 0
		       ? error_errno(err, "cannot enter the namespaces of the "
					  "task's %s", name)
		       : 0;
}

/* ---- what is hidden ---- */

/* The keeper's own layers: a tmpfs that lies over the task's directory there. */
static int open_support(const struct refresh *x, struct error *err)
{
	AUTO_FREE char *path = str_format("%s/tasks/%s", x->launch.state.path,
					  x->pick.id);
	AUTO_CLOSE int fd = path ? open(path, O_RDONLY | O_DIRECTORY |
						      O_NOFOLLOW | O_CLOEXEC)
				 : -1;
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return error_errno(err, "cannot open the keeper's layers");
	if (fs.f_type != TMPFS_MAGIC)
		return error_set(err, -ENOTDIR, "the keeper's layers are not "
				 "where they were made");
	return steal_fd(&fd);
}

static int hide_anew(const struct refresh *x, int support, struct error *err)
{
	const struct refresh_view *v = &x->view;
	const struct hide_ids ids = {.owner_uid = v->owner_uid,
				     .owner_gid = v->owner_gid,
				     .layer_uid = v->outer_uid,
				     .layer_gid = v->outer_gid,
				     .all = v->root_caller};

	if (!v->hides || v->hide_path[0])
		return 0;
	return hide_renew(support, "hide", &x->launch.plan.spec.hide, &ids,
			  err);
}

/* ---- is it so on this kernel? ---- */

#define PROOF "proof"
#define PROOF_FILE PROOF "/upper/name"

/* A name that was looked up and was not there comes, and is looked for again. */
static int try_proof(int support, bool *ret, struct error *err)
{
	const struct mount_layer layers[2] = {
		{.fd = support, .path = PROOF "/upper"},
		{.fd = support, .path = PROOF "/lower"}};
	AUTO_CLOSE int fd = -1;
	int r;

	if (mkdirat(support, PROOF, 0700) < 0 ||
	    mkdirat(support, PROOF "/upper", 0700) < 0 ||
	    mkdirat(support, PROOF "/lower", 0700) < 0)
		return error_errno(err, "cannot make a layer");
	fd = mount_overlay(layers, 2, -1, -1, MOUNT_RDONLY, err);
	if (fd < 0)
		return fd;
	*ret = faccessat(fd, "name", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	if (mknodat(support, PROOF_FILE, S_IFREG | 0600, 0) < 0)
		return error_errno(err, "cannot write to a layer");
	r = mount_renew(fd, true, err);
	*ret = *ret && faccessat(fd, "name", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return r;
}

/* With an overlay of our own, which no command sees. */
static int prove(const struct refresh *x, int support, struct error *err)
{
	bool forgets = false;
	int r = layer_remove(support, PROOF, err);

	if (r == 0)
		r = try_proof(support, &forgets, err);
	if (r == 0)
		r = layer_remove(support, PROOF, err);
	if (r < 0 || forgets)
		return r;
	return error_set(err, -EOPNOTSUPP,
			 "this kernel does not let an overlay forget what it has "
			 "looked up: pinfold stop %s, pinfold promote %s, and "
			 "start a new one", x->pick.id, x->pick.id);
}

static int prepare(const struct refresh *x, struct error *err)
{
	AUTO_CLOSE int support = -1;
	int r;

	if (x->mounts.n == 0)
		return 0;
	support = open_support(x, err);
	if (support < 0)
		return support;
	r = prove(x, support, err);
	return r < 0 ? r : hide_anew(x, support, err);
}

/* ---- the mounts ---- */

/* A path of the sandbox, in whose mount namespace we are. */
static int open_inside(const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = sys_openat2(AT_FDCWD, path, &how);

	return fd < 0 ? -errno : fd;
}

static int renew(const struct refresh *x, size_t i, struct error *err)
{
	AUTO_CLOSE int fd = open_inside(x->mounts.items[i]);
	bool writable = i < x->n_writable;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, fd < 0 ? fd : -errno,
				 "cannot open %s in the sandbox: %s",
				 x->mounts.items[i], strerror(errno));
	/* A single file that was granted is shown as it was. */
	if (!S_ISDIR(st.st_mode))
		return 0;
	r = mount_renew(fd, !writable, err);
	return r < 0 ? error_prefix(err, "%s", x->mounts.items[i]) : 0;
}

static int renew_all(const struct refresh *x, struct error *err)
{
	int r = enter(x->fds[VIEW_FD_INIT], CLONE_NEWNS, "first process", err);

	for (size_t i = 0; i < x->mounts.n && r == 0; i++)
		r = renew(x, i, err);
	return r;
}

/* ---- what the task has changed ---- */

struct look {
	struct refresh *x;
	struct judge judge;
	const struct promote_layer *layer;
	const char *prefix; /* of a further directory's paths; NULL */
	struct buf above; /* a directory that the source has not */
	struct strlist *found;
	struct error *err;
};

static int list(struct look *l, const struct change *c)
{
	struct renewed *done = l->x->done;
	int r;

	if (done->conflicts++ >= REFRESH_LISTED_MAX)
		return 0;
	r = strlist_take(l->found, l->prefix ? str_format("%s/%s", l->prefix,
							  c->path)
					     : strdup(c->path));
	if (r == 0)
		r = strlist_add(l->found, buf_str(&l->judge.reason));
	return r < 0 ? error_set(l->err, r, "out of memory") : 0;
}

/*
 * Does it lie in a directory that the source has not? Then that has been judged.
 */
static bool is_in_new(struct look *l, const struct change *c)
{
	size_t n = l->above.len;
	struct stat st;

	if (n > 0 && !strncmp(c->path, buf_str(&l->above), n) &&
	    c->path[n] == '/')
		return true;
	buf_reset(&l->above);
	if (c->kind != CHANGE_DELETED && S_ISDIR(c->mode) &&
	    (c->place->below_fd < 0 ||
	     fstatat(c->place->below_fd, c->place->name, &st,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	     !S_ISDIR(st.st_mode)))
		buf_add_str(&l->above, c->path);
	return false;
}

static int look_at(void *arg, const struct change *c)
{
	struct look *l = arg;
	bool git = !l->prefix && str_starts(c->path, ".git/");
	bool own = git && git_is_bookkeeping(c->path + 5);
	int r = 0;

	l->x->done->kept += !own;
	if (!is_in_new(l, c))
		r = judge_both(&l->judge, c, l->err);
	if (r < 0)
		return r;
	if (git)
		refresh_git_note(l->x, &l->judge, c->path + 5);
	return r > 0 && !own ? list(l, c) : 0;
}

static int look_at_layer(struct refresh *x, size_t i, struct strlist *found,
			 struct error *err)
{
	const struct promote_layer *layer = &x->layers.items[i];
	struct look l = {.x = x, .layer = layer, .found = found, .err = err,
			 .prefix = i > 0 ? layer->source : NULL,
			 .above = BUF_INIT(WALK_PATH_MAX)};
	struct changes_counts counts;
	int r = judge_init(&l.judge, layer, NULL, err);

	if (r == 0)
		r = changes_scan(layer->fd, layer->source_fd, layer->copied, 0,
				 look_at, &l, &counts, err);
	judge_done(&l.judge);
	buf_done(&l.above);
	return r;
}

static int look_at_all(struct refresh *x, struct error *err)
{
	AUTO_STRLIST struct strlist found = {0};
	AUTO_BUF struct buf text = BUF_INIT(REFRESH_LIST_MAX);
	int r = 0;

	for (size_t i = 0; i < x->layers.n && r == 0; i++)
		r = look_at_layer(x, i, &found, err);
	if (r < 0)
		return r;
	codec_put_list(&text, &found);
	r = text.failed ? text.failed
			: io_write_all(x->list, text.data, text.len);
	return r < 0 ? error_set(err, r, "cannot list the conflicts: %s",
				 strerror(-r))
		     : 0;
}

/* The layers, as they are from now on: nothing writes there. */
static int note_layer(struct refresh *x, size_t i, int64_t now_ns,
		      struct error *err)
{
	const struct promote_layer *l = &x->layers.items[i];
	AUTO_REFRESHED struct refreshed was = {0};
	AUTO_MANIFEST struct manifest copy = {0};
	int r = 0;

	if (l->copied)
		r = refresh_copy(l->fd, l->source_fd,
				 &x->launch.plan.spec.hide, &x->done->copied,
				 err);
	if (r < 0)
		return r;
	r = l->copied ? manifest_map(l->fd, MANIFEST_NEW, &copy) : 0;
	if (r < 0)
		return error_set(err, r, "cannot read the copy's manifest: %s",
				 strerror(-r));
	refreshed_open(&was, l->fd, l->since_ns);
	return refreshed_write(l->fd, &was, now_ns, l->copied ? &copy : NULL,
			       i == 0 && x->done->index ? ".git/index" : NULL,
			       err);
}

/* By way of the mount, as a command in the sandbox would do it. */
static int give_index(struct refresh *x, struct error *err)
{
	const struct promote_layer *l = &x->layers.items[0];
	AUTO_CLOSE int top =
		l->copied ? walk_open_at(l->fd, "upper", O_PATH | O_DIRECTORY)
			  : open_inside(x->mounts.items[0]);

	return top < 0 ? error_set(err, top, "cannot open the sandbox's source: "
				   "%s", strerror(-top))
		       : refresh_git_index(x, top, err);
}

static int make(struct refresh *x, struct error *err)
{
	int64_t now_ns;
	int r = refreshed_now(x->pick.fd, &now_ns, err);

	refresh_git_begin(x);
	if (r == 0)
		r = enter(x->fds[VIEW_FD_KEEPER], CLONE_NEWUSER | CLONE_NEWNS,
			  "keeper", err);
	if (r == 0)
		r = prepare(x, err);
	/* Before a copy is changed: afterwards both sides are alike. */
	if (r == 0)
		r = look_at_all(x, err);
	if (r == 0)
		r = renew_all(x, err);
	if (r == 0)
		r = give_index(x, err);
	for (size_t i = 0; i < x->layers.n && r == 0; i++)
		r = note_layer(x, i, now_ns, err);
	return r;
}

void refresh_view(struct refresh *x)
{
	x->done->r = make(x, &x->done->err);
}
