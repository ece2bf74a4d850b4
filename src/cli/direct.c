#include "cli/direct.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/time.h"
#include "cli/held.h"
#include "cli/own.h"
#include "cli/report.h"
#include "task/gone.h"
#include "workspace/direct.h"
#include "workspace/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERWISE "; use --workspace overlay or copy"
/* Ten times what the death of a sandbox takes whose keeper died. */
#define GONE_MS 10000

/* ---- before ---- */

static int check_place(const struct launch *l, struct error *err)
{
	AUTO_FREE char *state = io_fd_path(l->state.fd);

	if (!state)
		return error_set(err, -ENOMEM, "out of memory");
	if (path_is_below(state, l->source.path))
		return error_set(err, -EPERM,
				 "workspace direct: %s holds pinfold's own "
				 "state directory" OTHERWISE, l->source.path);
	return 0;
}

/* Only what exists can be covered, and a link cannot. */
static int check_deny(const struct launch *l, struct error *err)
{
	AUTO_STRLIST struct strlist deny = {0};
	AUTO_TREE struct tree tree;
	int r = held_deny(&l->policy.deny, l->source.path, &deny, err);

	tree_init(&tree, l->source.fd);
	for (size_t i = 0; i < deny.n && r == 0; i++) {
		const char *name, *why = NULL;
		struct stat st;
		int dir;

		if (glob_is_magic(deny.items[i]))
			continue;
		dir = tree_parent(&tree, deny.items[i], &name);
		if (dir < 0 ||
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			why = "does not exist yet";
		else if (S_ISLNK(st.st_mode))
			why = "is a link";
		if (why)
			r = error_set(err, -EOPNOTSUPP,
				      "files.deny: %s %s, so it cannot be "
				      "hidden where the source is written "
				      "directly" OTHERWISE ", or deny it by a "
				      "pattern, which holds for what is there "
				      "at the start",
				      deny.items[i], why);
	}
	return r;
}

static int check(const struct launch *l, struct error *err)
{
	const struct sandbox_spec *s = &l->plan.spec;
	int r;

	if (l->plan.stay)
		return error_set(err, -EOPNOTSUPP,
				 "workspace direct is not supported by this "
				 "version of pinfold for a sandbox that stays; "
				 "pinfold run has it");
	if (s->root_caller && s->owner_uid == 0)
		return error_set(err, -EPERM,
				 "workspace direct: %s belongs to root, and so "
				 "would a set-user-id file that the command "
				 "makes there" OTHERWISE, l->source.path);
	if (s->root_caller && !container_clones(s, l->source.path))
		return error_set(err, -EOPNOTSUPP,
				 "workspace direct: the file system of %s "
				 "cannot map ids; use --workspace copy",
				 l->source.path);
	if (launch_has_mounts(l))
		return error_set(err, -EOPNOTSUPP,
				 "workspace direct: there are other mounts "
				 "below %s, which nobody would look through at "
				 "the end" OTHERWISE, l->source.path);
	r = check_place(l, err);
	return r < 0 ? r : check_deny(l, err);
}

/* What exists of the paths to hide; what a link leads to is one of them. */
static int find_covered(const struct launch *l, struct strlist *ret)
{
	const struct hide *hide = &l->plan.spec.hide;
	AUTO_TREE struct tree tree;
	struct stat st;
	int r = 0;

	tree_init(&tree, l->source.fd);
	for (size_t i = 0; i < hide->paths.n && r == 0; i++) {
		const char *path = hide->paths.items[i], *name;
		int dir = tree_parent(&tree, path, &name);

		if (dir >= 0 &&
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISLNK(st.st_mode))
			r = strlist_add(ret, path);
	}
	if (r == 0 && hide->git_config)
		r = strlist_add(ret, ".git/config");
	paths_normalise(ret);
	return r;
}

/* Is it a mount of its own already, which the policy grants? */
static bool is_granted(const struct sandbox_spec *s, const char *path)
{
	return strlist_has(&s->read, path) || strlist_has(&s->write, path);
}

static int add_mounts(const struct sandbox_spec *s, const struct strlist *from,
		      const struct strlist *except, struct strlist *to)
{
	int r = 0;

	for (size_t i = 0; i < from->n && r == 0; i++) {
		AUTO_FREE char *path = str_format("%s/%s", s->source,
						  from->items[i]);

		if (!path)
			return -ENOMEM;
		if (!is_granted(s, path) &&
		    !(except && paths_have(except, from->items[i])))
			r = strlist_take(to, steal_ptr(&path));
	}
	return r;
}

/* The mounts of the plan; hide keeps what .git/config is to be. */
static int fill(struct launch *l, const struct direct *d,
		const struct strlist *covered, const struct strlist *anchors)
{
	struct sandbox_spec *s = &l->plan.spec;
	int r = add_mounts(s, &d->pinned, covered, &s->pinned);

	if (r == 0)
		r = add_mounts(s, covered, NULL, &s->covered);
	return r == 0 ? add_mounts(s, anchors, NULL, &s->anchors) : r;
}

/* No layer lies over this source but the one file that is made for it. */
static int reduce_hide(struct launch *l, struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	struct hide config = {.git_config = s->hide.git_config};

	s->hide.git_config = NULL;
	hide_done(&s->hide);
	s->hide = config;
	return hide_look(&s->hide, l->source.fd, s->owner_uid, s->owner_gid,
			 err);
}

int direct_prepare(struct launch *l, struct error *err)
{
	AUTO_PROTECT struct protect protect = PROTECT_INIT;
	AUTO_DIRECT struct direct d = {0};
	AUTO_STRLIST struct strlist covered = {0};
	AUTO_STRLIST struct strlist anchors = {0};
	int r = check(l, err);

	if (r < 0)
		return r;
	r = protect_init(&protect, &l->policy.protect, l->source.fd, err);
	if (r == 0)
		r = direct_look(l->source.fd, &protect,
				&l->plan.spec.hide.paths, &d, err);
	if (r == 0)
		r = direct_anchors(&d, &anchors, err);
	if (r < 0)
		return error_prefix(err, "workspace direct (overlay and copy "
					 "do without)");
	if (find_covered(l, &covered) < 0 ||
	    fill(l, &d, &covered, &anchors) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = reduce_hide(l, err);
	if (r == 0)
		r = container_check(&l->plan.spec, err);
	if (r == 0)
		r = direct_write(l->task_fd, &d, err);
	return r < 0 ? r : state_promoting(&l->state, l->id, err);
}

/* After a power cut the source may hold what the command wrote. */
int direct_begin(const struct launch *l, struct error *err)
{
	int r = io_replace_file(l->task_fd, "policy.json", l->snapshot.data,
				l->snapshot.len, 0600);

	if (r == 0 && syncfs(l->task_fd) < 0)
		r = -errno;
	return r < 0 ? error_set(err, r, "cannot write policy.json of %s: %s",
				 l->id, strerror(-r))
		     : 0;
}

/* ---- after ---- */

static void say(uint64_t n, const char *first, const char *one,
		const char *many)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	AUTO_BUF struct buf path = BUF_INIT(65536);

	if (n == 0)
		return;
	report_path(&path, first ? first : "?");
	buf_addf(&text, "%ju %s (", (uintmax_t)n, n == 1 ? one : many);
	if (path.failed || path.len > 200)
		buf_add_str(&text, "one with a long name");
	else
		buf_add_str(&text, buf_str(&path));
	if (n > 1)
		buf_addf(&text, " and %ju more", (uintmax_t)n - 1);
	buf_add_char(&text, ')');
	report_note(buf_str(&text));
}

static void say_swept(const struct direct_swept *s, const char *id)
{
	AUTO_BUF struct buf text = BUF_INIT(256);
	AUTO_BUF struct buf where = BUF_INIT(256);

	say(s->moved, s->first_moved,
	    "protected path was moved out of the source and is held back",
	    "protected paths were moved out of the source and are held back");
	if (s->restored > 0) {
		buf_addf(&text, "%ju protected link%s put back",
			 (uintmax_t)s->restored,
			 s->restored == 1 ? " was" : "s were");
		report_note(buf_str(&text));
	}
	say(s->set_ids, s->first_set_id, "file lost its set-id bits",
	    "files lost their set-id bits");
	say(s->special, s->first_special,
	    "socket or FIFO is in the source, which the command may have made",
	    "sockets or FIFOs are in the source, which the command may have "
	    "made");
	if (s->moved == 0)
		return;
	buf_addf(&where, "pinfold diff %s shows what is held back", id);
	report_note(buf_str(&where));
}

struct settle {
	const char *id;
	int task_fd, source_fd;
	const struct direct *d;
	const struct strlist *globs, *deny;
};

/* Since then: the same clock as a promotion's (cli/held.c). */
static int settle_since(const struct settle *s, int64_t since_ns,
			struct error *err)
{
	AUTO_STRLIST struct strlist deny = {0};
	const struct direct_want want = {.d = s->d, .globs = s->globs,
					 .deny = &deny, .since_ns = since_ns};
	const char *source = s->d->where.items[0];
	struct direct_swept swept = {0};
	int r = held_deny(s->deny, source, &deny, err);

	if (r < 0)
		return r;
	r = direct_sweep(s->task_fd, s->source_fd, &want, &swept, err);
	say_swept(&swept, s->id);
	direct_swept_done(&swept);
	return r < 0 ? error_prefix(err, "%s, which %s wrote directly", source,
				    s->id)
		     : direct_forget(s->task_fd, err);
}

static int settle(void *arg, struct error *err)
{
	const struct settle *s = arg;
	struct stat st;
	int r;

	/* Without its policy no command was started. */
	if (fstatat(s->task_fd, "policy.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? direct_forget(s->task_fd, err)
				       : error_errno(err, "cannot tell when %s "
						     "began", s->id);
	r = gone_wait(s->task_fd, GONE_MS, err);
	return r < 0 ? r : settle_since(s, time_ns(&st.st_mtim), err);
}

/* An agent can close its directories to its own user. */
static int settle_apart(struct settle *s, struct error *err)
{
	int r = geteuid() == 0 ? settle(s, err) : own_apart(settle, s, err);

	if (r == 0)
		gone_forget(s->task_fd);
	return r;
}

int direct_finish(const struct launch *l, struct error *err)
{
	AUTO_DIRECT struct direct d = {0};
	struct settle s = {l->id, l->task_fd, l->source.fd, &d,
			   &l->policy.protect, &l->policy.deny};
	int r = direct_read(l->task_fd, &d, err);

	if (r == 0)
		r = settle_apart(&s, err);
	if (r == 0)
		state_promoted(&l->state, l->id);
	return r;
}

int direct_recover(const struct pick *p, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_DIRECT struct direct d = {0};
	struct settle s = {.id = p->id, .task_fd = p->fd, .d = &d,
			   .globs = &p->protect, .deny = &p->deny};
	int r;

	if (!direct_is_noted(p->fd))
		return 0;
	r = direct_read(p->fd, &d, err);
	if (r < 0)
		return r;
	fd = pick_open_below(d.where.items[0], err);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? -ENODEV : fd;
	s.source_fd = fd;
	report_note("a task that wrote its source directly was interrupted: "
		    "what is protected is looked for now");
	return settle_apart(&s, err);
}

int direct_check_settled(const struct pick *p, struct error *err)
{
	if (p->alive || !direct_is_noted(p->fd))
		return 0;
	return error_set(err, -EBUSY,
			 "what is protected in the source that %s wrote "
			 "directly could not be moved out of it yet; pinfold "
			 "discard %s gives it up",
			 p->id, p->id);
}

bool direct_is(const struct pick *p)
{
	return p->record.workspace && str_eq(p->record.workspace, "direct");
}

void direct_say(const struct pick *p)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);

	if (!direct_is(p))
		return;
	buf_addf(&text, "%s %s its source at once (workspace direct): ", p->id,
		 p->alive ? "writes" : "wrote");
	buf_add_str(&text, p->alive
				   ? "what is protected there is moved out when "
				     "it ends"
				   : "only what was held back is kept here");
	report_note(buf_str(&text));
}
