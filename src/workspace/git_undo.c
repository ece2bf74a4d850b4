#include "workspace/git_undo.h"

#include "base/cleanup.h"
#include "base/time.h"
#include "workspace/git_lab.h"
#include "workspace/place_private.h"
#include "workspace/stage.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct journal_entry *find(struct journal *j, enum journal_part part,
				  const char *path)
{
	for (struct journal_entry *e = journal_next(j, NULL); e;
	     e = journal_next(j, e)) {
		if (e->part == part && e->state == STATE_PLACED &&
		    e->act != ACT_LEAVE && (!path || str_eq(e->path, path)))
			return e;
	}
	return NULL;
}

/* Will the reference go back? One that did not come is where it was. */
static bool goes_back(struct journal *j, int source_fd, const char *name)
{
	AUTO_FREE char *path = str_format(".git/%s", name);
	struct journal_entry *e = path ? find(j, PART_REF, path) : NULL;
	AUTO_TREE struct tree tree;
	const char *base;
	struct stat st;
	int dir_fd;

	if (!e)
		return path != NULL;
	tree_init(&tree, source_fd);
	dir_fd = tree_parent(&tree, path, &base);
	if (dir_fd < 0 || fstatat(dir_fd, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return e->act == ACT_DELETE || e->act == ACT_CHECK;
	return st.st_ino == e->new_ino &&
	       time_ns(&st.st_ctim) == e->ctime_ns;
}

static bool is_checked_out(struct git_repo *repo, const char *id)
{
	struct git_value value = {0};

	if (repo->head.ref[0]) {
		if (git_repo_value(repo, repo->head.ref, &value) < 0)
			return false;
	} else {
		memcpy(value.id, repo->head.id, sizeof(value.id));
	}
	return str_eq(value.id[0] ? value.id : "-", id);
}

/* Notes that what is to be replaced is the index as it is now. */
static int exchange(struct journal_entry *e, struct git_lab *lab, int stage_fd,
		    const struct stat *now)
{
	const struct timespec times[2] = {now->st_mtim, now->st_mtim};
	char name[STAGE_NAME_SIZE];
	struct stat st;

	stage_name(e->number, name);
	if (fchmodat(lab->fd, "index", now->st_mode & 0777, 0) < 0 ||
	    utimensat(lab->fd, "index", times, 0) < 0 ||
	    fstatat(lab->fd, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (geteuid() == 0 &&
	    fchownat(lab->fd, "index", now->st_uid, now->st_gid, 0) < 0)
		return -errno;
	if (renameat(lab->fd, "index", stage_fd, name) < 0)
		return -errno;
	e->act = ACT_REPLACE;
	e->old_ino = st.st_ino;
	e->old_mode = st.st_mode;
	e->old_size = (uint64_t)st.st_size;
	e->old_mtime_ns = time_ns(&st.st_mtim);
	e->new_ino = now->st_ino;
	e->new_size = (uint64_t)now->st_size;
	e->mtime_ns = time_ns(&now->st_mtim);
	e->ctime_ns = time_ns(&now->st_ctim);
	return 0;
}

static int make(struct journal_entry *e, struct git_changes *g,
		const struct promote_layer *l, int stage_fd, const char *from,
		const char *to, struct error *err)
{
	AUTO_BUF struct buf why = BUF_INIT(2048);
	AUTO_GIT_LAB struct git_lab lab = {.fd = -1};
	struct stat now;
	int r;

	if (fstatat(g->repo.fd, "index", &now, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_errno(err, "cannot read the "
							  "index");
	if (now.st_ino == e->new_ino && time_ns(&now.st_ctim) == e->ctime_ns)
		return 0;
	r = git_lab_open(&lab, l->git, g, stage_fd, err);
	if (r == 0)
		r = git_lab_index(&lab, str_eq(from, "-") ? "" : from,
				  str_eq(to, "-") ? "" : to, false, &why);
	/* What is staged stays staged: place_back says that it was left. */
	if (r != 0)
		return r < 0 ? r : 0;
	r = exchange(e, &lab, stage_fd, &now);
	return r < 0 ? error_set(err, r, "cannot prepare the index: %s",
				 strerror(-r))
		     : 0;
}

int git_undo_prepare(struct journal *j, const struct promote_layer *l,
		     int stage_fd, struct error *err)
{
	struct journal_entry *e = find(j, PART_INDEX, NULL);
	struct git_changes g = GIT_CHANGES_INIT;
	char old[GIT_ID_MAX + 2], new[GIT_ID_MAX + 2];
	int r;

	if (!e || !l->git)
		return 0;
	if (sscanf(journal_reason(e), "%65s %65s", old, new) != 2)
		return error_set(err, -EBADMSG, "the journal cannot be read");
	r = git_repo_open(&g.repo, l->source_fd, &g.why);
	if (r == 0) {
		if (is_checked_out(&g.repo, new) &&
		    goes_back(j, l->source_fd, "HEAD") &&
		    goes_back(j, l->source_fd, g.repo.head.ref))
			r = make(e, &g, l, stage_fd, new, old, err);
		else
			e->state = STATE_OVER; /* It belongs to others now. */
	}
	git_changes_done(&g);
	return r < 0 ? r : 0;
}
