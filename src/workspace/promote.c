/*
 * The life of one promotion on disk. Its order: the journal's head, what comes,
 * all of that on the disk, journal.go, the renames, these on the disk,
 * journal.done. So before journal.go the source is as it was, and after it
 * everything is there that finishing, or taking back, needs.
 */
#include "workspace/promote.h"

#include "base/cleanup.h"
#include "workspace/git_undo.h"
#include "workspace/layer.h"
#include "workspace/place.h"
#include "workspace/place_private.h"
#include "workspace/plan.h"
#include "workspace/stage.h"
#include "workspace/taken.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER_SIZE 16

void promotion_done(struct promotion *p)
{
	journal_done(&p->journal);
	close_fd(p->held_fd);
	close_fd(p->dir_fd);
	close_fd(p->stage_fd);
	*p = (struct promotion)PROMOTION_INIT;
}

static int rename_flags(int from_fd, const char *from, int to_fd,
			const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, from_fd, from, to_fd, to, flags) < 0
		       ? -errno
		       : 0;
}

static int fail(struct error *err, int code, const char *what)
{
	return error_set(err, code, "cannot %s: %s", what, strerror(-code));
}

static int open_directory(int dir_fd, const char *name, bool make)
{
	if (make && mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return walk_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY);
}

/*
 * Can names be moved between the two? A rename of nothing tells: the mounts are
 * compared before the names are looked up.
 */
static bool same_mount(int a_fd, int b_fd)
{
	struct stat a, b;

	return fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 &&
	       a.st_dev == b.st_dev &&
	       rename_flags(a_fd, "nothing", b_fd, ".pinfold-nothing",
			    RENAME_NOREPLACE) == -ENOENT;
}

/* Can two names be exchanged there? */
static int try_exchange(int stage_fd)
{
	int r = 0;

	if (mknodat(stage_fd, "a", S_IFREG | 0600, 0) < 0 ||
	    mknodat(stage_fd, "b", S_IFREG | 0600, 0) < 0)
		r = -errno;
	if (r == 0)
		r = rename_flags(stage_fd, "a", stage_fd, "b", RENAME_EXCHANGE);
	unlinkat(stage_fd, "a", 0);
	unlinkat(stage_fd, "b", 0);
	return r == -EINVAL ? -EOPNOTSUPP : r;
}

/*
 * A place in the source itself: in the repository where there is one, for git
 * looks at nothing there that it does not know.
 */
static int name_stage(int source_fd, char name[JOURNAL_STAGE_SIZE])
{
	AUTO_CLOSE int git = walk_open_at(source_fd, ".git",
					  O_PATH | O_DIRECTORY);
	bool inside = git >= 0 && same_mount(git, source_fd) &&
		      faccessat(git, ".", W_OK | X_OK, AT_EACCESS) == 0;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	snprintf(name, JOURNAL_STAGE_SIZE, "%spinfold-%016llx",
		 inside ? ".git/" : ".", (unsigned long long)random);
	return 0;
}

/* The directory that holds the stage in the source, and its name there. */
static int stage_parent(int source_fd, const char *stage, const char **ret)
{
	bool inside = str_starts(stage, ".git/");

	*ret = inside ? stage + 5 : stage;
	return walk_open_at(source_fd, inside ? ".git" : ".",
			    O_PATH | O_DIRECTORY);
}

static int remove_stage(int source_fd, const char *stage, struct error *err)
{
	const char *name;
	AUTO_CLOSE int fd = stage_parent(source_fd, stage, &name);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fail(err, fd, "open the originals");
	return layer_remove(fd, name, err);
}

/* Where git would see it, it is told not to. */
static int make_stage(struct promotion *p, const struct promote_layer *l)
{
	const char *name;
	AUTO_CLOSE int fd = stage_parent(l->source_fd, p->head.stage, &name);
	AUTO_CLOSE int ignore = -1;

	if (fd < 0)
		return fd;
	if (mkdirat(fd, name, 0700) < 0)
		return -errno;
	p->stage_fd = open_directory(l->source_fd, p->head.stage, false);
	if (p->stage_fd < 0)
		return p->stage_fd;
	ignore = openat(p->stage_fd, ".gitignore",
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return ignore < 0 || write(ignore, "*\n", 2) != 2 ? -errno : 0;
}

static int open_stage(struct promotion *p, const struct promote_layer *l)
{
	p->stage_fd = p->head.stage[0] ? open_directory(l->source_fd,
							p->head.stage, false)
				       : open_directory(p->dir_fd, ".", false);
	return p->stage_fd < 0 ? p->stage_fd : 0;
}

static int fill_head(struct promotion *p, const struct promote_layer *l)
{
	struct stat st;
	int r = 0;

	p->head = (struct journal_head){.magic = JOURNAL_MAGIC,
					.layout = JOURNAL_LAYOUT};
	if (fstat(l->source_fd, &st) < 0)
		return -errno;
	p->head.source_dev = st.st_dev;
	p->head.source_ino = st.st_ino;
	if (strlen(l->source) >= sizeof(p->head.source))
		return -ENAMETOOLONG;
	strcpy(p->head.source, l->source);
	if (!same_mount(p->dir_fd, l->source_fd))
		r = name_stage(l->source_fd, p->head.stage);
	return r;
}

static int create_journal(struct promotion *p)
{
	int fd = fcntl(p->dir_fd, F_DUPFD_CLOEXEC, 3);

	journal_done(&p->journal);
	if (fd < 0)
		return -errno;
	return journal_create(&p->journal, fd, &p->head);
}

static int begin(struct promotion *p, const struct promote_layer *l)
{
	char name[NUMBER_SIZE];
	int r;

	snprintf(name, sizeof(name), "%u", p->number);
	p->held_fd = open_directory(l->fd, "held", true);
	if (p->held_fd < 0)
		return p->held_fd;
	p->dir_fd = open_directory(p->held_fd, name, true);
	if (p->dir_fd < 0)
		return p->dir_fd;
	r = fill_head(p, l);
	if (r == 0)
		r = create_journal(p);
	/* Where the stage is must be known before there is one. */
	if (r == 0 && p->head.stage[0] &&
	    (fsync(p->journal.fd) < 0 || fsync(p->dir_fd) < 0))
		r = -errno;
	if (r == 0)
		r = p->head.stage[0] ? make_stage(p, l) : open_stage(p, l);
	return r == 0 ? try_exchange(p->stage_fd) : r;
}

int promote_begin(struct promotion *p, const struct promote_layer *l,
		  unsigned number, struct error *err)
{
	int r;

	p->number = number;
	r = begin(p, l);
	if (r == 0)
		return 0;
	promote_drop(p, l, NULL);
	if (r == -EOPNOTSUPP)
		return error_set(err, r,
				 "the file system of %s cannot exchange two "
				 "files at once, which a promotion needs; "
				 "pinfold diff --patch gives the changes as a "
				 "patch",
				 l->source);
	return fail(err, r, "prepare the promotion");
}

int promote_plan(struct promotion *p, const struct promote_layer *l,
		 const struct promote_want *want, bool copy,
		 struct promote_counts *ret, struct error *err)
{
	int r = create_journal(p);

	if (r < 0)
		return fail(err, r, "write the journal");
	return plan_make(&p->journal, p->stage_fd, l, want, copy, ret, err);
}

int promote_take_plan(struct promotion *p, struct error *err)
{
	int fd = fcntl(p->dir_fd, F_DUPFD_CLOEXEC, 3), r;

	journal_done(&p->journal);
	r = fd < 0 ? -errno : journal_open_new(&p->journal, fd);
	return r < 0 ? fail(err, r, "read the journal") : 0;
}

static int dress(struct promotion *p, const struct promote_layer *l,
		 struct error *err)
{
	struct dresser d;
	int r = 0;

	dresser_init(&d, l->source_fd, p->stage_fd);
	for (struct journal_entry *e = journal_next(&p->journal, NULL);
	     e && r == 0; e = journal_next(&p->journal, e)) {
		if (e->act == ACT_LEAVE || e->act == ACT_LOCK ||
		    e->act == ACT_CHECK)
			continue;
		r = dresser_dress(&d, e);
		if (r == 0 && e->part != PART_NOT && e->state == STATE_SKIPPED)
			r = error_set(err, -EPERM,
				      "the repository cannot be changed: %s: "
				      "%s",
				      e->path, journal_skip_text(e->why));
		else if (r < 0)
			error_set(err, r, "cannot prepare a file for the "
					  "source: %s",
				  strerror(-r));
	}
	dresser_done(&d);
	return r;
}

/* All of the source's file system, where renames in one journal are not. */
static int settle(struct promotion *p, struct error *err)
{
	return p->head.stage[0] && syncfs(p->stage_fd) < 0
		       ? fail(err, -errno, "write to the disk")
		       : 0;
}

/* Takes back what was begun; *ret_left: what the host has changed since. */
static int take_back(struct promotion *p, const struct promote_layer *l,
		     uint64_t *ret_left, struct error *err)
{
	struct journal *j = &p->journal;
	bool undo = journal_head(j)->undo;
	int r = place_renew_locks(j, l->source_fd, p->stage_fd);

	if (r == 0 && j->phase != JOURNAL_BACK)
		r = journal_enter(j, JOURNAL_BACK, false);
	if (r < 0)
		return fail(err, r, "write the journal");
	r = place_back(j, l->source_fd, p->stage_fd, undo, ret_left, err);
	if (r == 0)
		r = settle(p, err);
	if (r < 0)
		return r;
	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e)) {
		if (e->state == STATE_RESTORED)
			e->state = STATE_OVER;
	}
	r = journal_enter(j, *ret_left ? JOURNAL_DONE : JOURNAL_UNDONE,
			  false);
	if (r < 0)
		return fail(err, r, "write the journal");
	return place_clean(j, p->stage_fd, err);
}

/* The stage in the source goes once nothing is in it any more. */
static void drop_stage(struct promotion *p, const struct promote_layer *l)
{
	if (!p->head.stage[0])
		return;
	for (struct journal_entry *e = journal_next(&p->journal, NULL); e;
	     e = journal_next(&p->journal, e)) {
		if (e->state == STATE_PLACED &&
		    (e->act == ACT_REPLACE || e->act == ACT_DELETE))
			return;
	}
	remove_stage(l->source_fd, p->head.stage, NULL);
}

static void count_skipped(struct promotion *p, struct promote_counts *c)
{
	for (struct journal_entry *e = journal_next(&p->journal, NULL); e;
	     e = journal_next(&p->journal, e)) {
		if (e->act == ACT_LEAVE || e->state != STATE_SKIPPED)
			continue;
		if (!journal_is_shown(e))
			continue;
		c->skipped++;
		c->added -= e->kind == CHANGE_ADDED;
		c->modified -= e->kind == CHANGE_MODIFIED;
		c->merged -= e->merged;
		c->deleted -= e->kind == CHANGE_DELETED;
	}
}

static int go(struct promotion *p, const struct promote_layer *l, bool first,
	      struct error *err)
{
	struct journal *j = &p->journal;
	int r;

	r = place_forward(j, l->source_fd, p->stage_fd, first, err);
	if (r == 0)
		r = settle(p, err);
	if (r < 0)
		return r;
	r = journal_enter(j, JOURNAL_DONE, false);
	if (r < 0)
		return fail(err, r, "write the journal");
	place_clean(j, p->stage_fd, NULL);
	drop_stage(p, l);
	return 0;
}

int promote_commit(struct promotion *p, const struct promote_layer *l,
		   struct promote_counts *ret, struct error *err)
{
	struct error second = {0};
	uint64_t left = 0;
	int r = dress(p, l, err);

	if (r < 0)
		return r;
	/* Of the journal too, unless the stage is in the source. */
	if (syncfs(p->stage_fd) < 0)
		return fail(err, -errno, "write to the disk");
	r = journal_enter(&p->journal, JOURNAL_GO, !p->head.stage[0]);
	r = r < 0 ? fail(err, r, "write the journal") : go(p, l, true, err);
	if (r == 0) {
		count_skipped(p, ret);
		return 0;
	}
	if (p->journal.phase == JOURNAL_NEW ||
	    (p->journal.phase == JOURNAL_GO &&
	     take_back(p, l, &left, &second) == 0 && left == 0)) {
		if (p->journal.phase == JOURNAL_UNDONE)
			drop_stage(p, l);
		return r;
	}
	return error_prefix(err, "the promotion was interrupted and is taken "
				 "back or finished by the next command");
}

int promote_drop(struct promotion *p, const struct promote_layer *l,
		 struct error *err)
{
	char name[NUMBER_SIZE];
	int r = 0;

	if (p->head.stage[0] && l->source_fd >= 0)
		r = remove_stage(l->source_fd, p->head.stage, err);
	snprintf(name, sizeof(name), "%u", p->number);
	if (r == 0 && p->held_fd >= 0)
		r = layer_remove(p->held_fd, name, err);
	return r;
}

/* Opens promotion number with its journal, whatever its phase. */
static int reopen(struct promotion *p, int layer_fd, unsigned number)
{
	char name[NUMBER_SIZE];
	int fd, r;

	p->number = number;
	snprintf(name, sizeof(name), "%u", number);
	p->held_fd = open_directory(layer_fd, "held", false);
	if (p->held_fd < 0)
		return p->held_fd;
	p->dir_fd = open_directory(p->held_fd, name, false);
	if (p->dir_fd < 0)
		return p->dir_fd;
	fd = fcntl(p->dir_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	r = journal_open(&p->journal, fd);
	if (r == 0)
		p->head = *journal_head(&p->journal);
	return r;
}

/* Is it still the directory that the promotion went into? */
static int check_source(const struct promotion *p,
			const struct promote_layer *l, struct error *err)
{
	struct stat st;

	if (l->source_fd < 0)
		return error_set(err, -ENODEV, "%s does not exist any more",
				 l->source);
	if (fstat(l->source_fd, &st) < 0)
		return fail(err, -errno, "read the source");
	if (st.st_dev == p->head.source_dev && st.st_ino == p->head.source_ino)
		return 0;
	return error_set(err, -ESTALE,
			 "%s is not the directory any more that the promotion "
			 "went into",
			 l->source);
}

/* Goes on in the phase that the journal is in. */
static int resume(struct promotion *p, const struct promote_layer *l,
		  struct error *err)
{
	uint64_t left;
	int r = check_source(p, l, err);

	if (r < 0)
		return r;
	if (open_stage(p, l) < 0)
		return error_set(err, -ENOENT,
				 "what was to be promoted to %s is gone",
				 l->source);
	if (p->journal.phase == JOURNAL_GO)
		return go(p, l, false, err);
	r = take_back(p, l, &left, err);
	if (r == 0)
		drop_stage(p, l);
	return r;
}

int promote_recover(const struct promote_layer *l,
		    enum journal_phase *ret_found, struct error *err)
{
	AUTO_PROMOTION struct promotion p = PROMOTION_INIT;
	unsigned number;
	int r = taken_unfinished(l->fd, &number);

	*ret_found = JOURNAL_NONE;
	if (r < 0 || number == 0)
		return r < 0 ? fail(err, r, "read what was promoted") : 0;
	r = reopen(&p, l->fd, number);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return fail(err, r, "read the journal");
	if (r < 0 || p.journal.phase == JOURNAL_NEW) {
		*ret_found = JOURNAL_NEW;
		return promote_drop(&p, l, err);
	}
	*ret_found = p.journal.phase;
	return resume(&p, l, err);
}

int promote_undo(struct promotion *p, const struct promote_layer *l,
		 unsigned number, uint64_t *ret_left, struct error *err)
{
	int r = reopen(p, l->fd, number);

	*ret_left = 0;
	if (r < 0)
		return fail(err, r, "read the journal");
	if (p->journal.phase != JOURNAL_DONE)
		return error_set(err, -ENOENT, "promotion %u is not in the "
					       "source",
				 number);
	r = check_source(p, l, err);
	if (r < 0)
		return r;
	/* Without one there is nothing to give back, only to take away. */
	if (open_stage(p, l) < 0)
		r = p->head.stage[0] ? make_stage(p, l) : -ENOENT;
	if (r < 0)
		return fail(err, r, "open the originals");
	r = git_undo_prepare(&p->journal, l, p->stage_fd, err);
	if (r < 0)
		return r;
	journal_head(&p->journal)->undo = 1;
	r = take_back(p, l, ret_left, err);
	if (r == 0)
		drop_stage(p, l);
	return r;
}

/* What a promotion has in the source. */
static void forget_stage(const struct promotion *p)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (!p->head.stage[0])
		return;
	fd = open(p->head.source, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 &&
	    st.st_dev == p->head.source_dev && st.st_ino == p->head.source_ino)
		remove_stage(fd, p->head.stage, NULL);
}

int promote_forget(int layer_fd, struct error *err)
{
	unsigned number = 0;
	int r = taken_last(layer_fd, false, &number);

	for (; r == 0 && number > 0; number--) {
		AUTO_PROMOTION struct promotion p = PROMOTION_INIT;

		if (reopen(&p, layer_fd, number) == 0)
			forget_stage(&p);
	}
	return r < 0 ? fail(err, r, "read what was promoted")
		     : layer_remove(layer_fd, "held", err);
}
