/*
 * The order of the entries is the one in which they are done: objects before
 * the references that lead to them, the index after what it belongs to. Locks
 * are taken before all of it, by git's own names, so that no git of the host
 * changes a reference or the index in between.
 */
#include "workspace/git_stage.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "workspace/git_log.h"
#include "workspace/place_private.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MAX (64u << 20)
#define PATH_SIZE (GIT_NAME_MAX + 64)
/* Two names, two numbers, and what git_lab_list_files says. */
#define NOTE_SIZE (8 * GIT_NAME_MAX)

void git_stage_done(struct git_stage *s)
{
	tree_done(&s->host);
	strlist_done(&s->dirs);
	strlist_done(&s->unpacked);
}

static int fail(struct git_stage *s, int code, const char *path)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);

	if (s->plan->err && s->plan->err->code)
		return code;
	str_quote(&quoted, path, 400);
	return error_set(s->plan->err, code, "cannot prepare %s: %s",
			 buf_str(&quoted), strerror(-code));
}

/* ---- the host's side ---- */

/* What is there now: st_ino 0 if nothing is. */
static int look(struct git_stage *s, const char *path, struct stat *st)
{
	const char *name;
	int dir_fd = tree_parent(&s->host, path, &name);

	*st = (struct stat){0};
	if (dir_fd == -ENOENT)
		return 0;
	if (dir_fd < 0)
		return dir_fd;
	if (fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	*st = (struct stat){0};
	return errno == ENOENT ? 0 : -errno;
}

/* 1 if there is none. */
static int read_host(struct git_stage *s, const char *path, struct buf *out)
{
	const char *name;
	int dir_fd = tree_parent(&s->host, path, &name);
	AUTO_CLOSE int fd = dir_fd < 0 ? dir_fd
				       : walk_open_at(dir_fd, name,
						      O_RDONLY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return fd == -ENOENT ? 1 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? io_read_all(fd, out) : -EBADMSG;
}

/* ---- entries ---- */

static void fill(struct git_stage *s, struct journal_entry *e,
		 enum journal_act act, enum journal_part part, mode_t mode,
		 const struct stat *old)
{
	*e = (struct journal_entry){
		.act = (uint8_t)act,
		.part = (uint8_t)part,
		.kind = act == ACT_DELETE    ? CHANGE_DELETED
			: old && old->st_ino ? CHANGE_MODIFIED
					     : CHANGE_ADDED,
		.mode = mode,
		.number = s->plan->next++,
	};
	if (!old)
		return;
	e->old_mode = old->st_mode;
	e->old_ino = old->st_ino;
	e->old_size = (uint64_t)old->st_size;
	e->old_uid = old->st_uid;
	e->old_gid = old->st_gid;
	e->old_mtime_ns = time_ns(&old->st_mtim);
}

static int note_staged(struct git_stage *s, struct journal_entry *e)
{
	char name[STAGE_NAME_SIZE];
	struct stat st;

	stage_name(e->number, name);
	if (fstatat(s->plan->stage.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	e->new_ino = st.st_ino;
	e->new_uid = st.st_uid;
	e->new_gid = st.st_gid;
	e->new_size = (uint64_t)st.st_size;
	e->mtime_ns = time_ns(&st.st_mtim);
	return 0;
}

static int stage_bytes(struct git_stage *s, struct journal_entry *e,
		       const char *data, size_t len)
{
	char name[STAGE_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	int r;

	stage_name(e->number, name);
	fd = openat(s->plan->stage.fd, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, data, len);
	if (r == 0 && fchmod(fd, e->mode & 0777) < 0)
		r = -errno;
	return r == 0 ? note_staged(s, e) : r;
}

static int add(struct git_stage *s, struct journal_entry *e, const char *path,
	       const char *note)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *dir = strndup(path, (size_t)(slash - path));
	int r = -ENOMEM;

	if (dir) {
		e->fresh = strlist_has(&s->dirs, dir);
		r = journal_add(s->plan->journal, e, path, note);
	}
	return r < 0 ? fail(s, r, path) : 0;
}

/* The directories on the way that the host does not have. */
static int make_dirs(struct git_stage *s, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *dir = strndup(path, (size_t)(slash - path));
		char name[STAGE_NAME_SIZE];
		struct journal_entry e;
		struct stat st;
		int r = dir ? look(s, dir, &st) : -ENOMEM;

		if (r < 0)
			return fail(s, r, path);
		if (st.st_ino || strlist_has(&s->dirs, dir))
			continue;
		fill(s, &e, ACT_ADD, PART_DIR, S_IFDIR | 0755, NULL);
		stage_name(e.number, name);
		if (mkdirat(s->plan->stage.fd, name, 0755) < 0 ||
		    note_staged(s, &e) < 0)
			return fail(s, -errno, dir);
		r = add(s, &e, dir, "");
		if (r == 0 && strlist_add(&s->dirs, dir) < 0)
			r = fail(s, -ENOMEM, dir);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A file with this content comes. */
static int put(struct git_stage *s, enum journal_part part,
	       enum change_kind kind, const char *path, const char *data,
	       size_t len, const char *note)
{
	struct journal_entry e;
	struct stat old;
	int r = look(s, path, &old);

	/* An empty directory, which git leaves behind at times. */
	if (r == 0 && old.st_ino && !S_ISREG(old.st_mode))
		r = S_ISDIR(old.st_mode) ? -EISDIR : -EBADMSG;
	if (r < 0)
		return fail(s, r, path);
	fill(s, &e, old.st_ino ? ACT_REPLACE : ACT_ADD, part,
	     S_IFREG | (old.st_ino ? old.st_mode & 0777 : 0644), &old);
	e.kind = (uint8_t)kind;
	r = old.st_ino ? 0 : make_dirs(s, path);
	if (r == 0)
		r = stage_bytes(s, &e, data, len);
	return r < 0 ? fail(s, r, path) : add(s, &e, path, note);
}

/* What is there goes. */
static int take_away(struct git_stage *s, enum journal_part part,
		     const char *path, const char *note)
{
	struct journal_entry e;
	struct stat old;
	int r = look(s, path, &old);

	if (r < 0)
		return fail(s, r, path);
	if (!old.st_ino)
		return 0;
	fill(s, &e, ACT_DELETE, part, old.st_mode, &old);
	return add(s, &e, path, note);
}

/* It must be as it is now when all locks are taken. */
static int must_stay(struct git_stage *s, enum journal_part part,
		     enum change_kind kind, const char *path, const char *note)
{
	struct journal_entry e;
	struct stat old;
	int r = look(s, path, &old);

	if (r < 0)
		return fail(s, r, path);
	fill(s, &e, ACT_CHECK, part, S_IFREG | 0644, &old);
	e.kind = (uint8_t)kind;
	return add(s, &e, path, note);
}

static int lock(struct git_stage *s, const char *of)
{
	AUTO_FREE char *path = str_format("%s.lock", of);
	struct journal_entry e;
	int r = path ? make_dirs(s, path) : -ENOMEM;

	if (r < 0)
		return path ? r : fail(s, r, of);
	fill(s, &e, ACT_LOCK, PART_OTHER, S_IFREG | 0644, NULL);
	r = stage_bytes(s, &e, "", 0);
	return r < 0 ? fail(s, r, path) : add(s, &e, path, "");
}

/* ---- references ---- */

static bool is_head(const struct git_ref *r)
{
	return str_eq(r->name, "HEAD");
}

static enum change_kind kind_of(const struct git_ref *r)
{
	if (!r->new[0] && !r->new_ref[0])
		return CHANGE_DELETED;
	return r->old.id[0] || is_head(r) ? CHANGE_MODIFIED : CHANGE_ADDED;
}

static int take_locks(struct git_stage *s)
{
	struct git_changes *g = &s->plan->git;
	int r = lock(s, ".git/packed-refs");

	if (r == 0 && (s->index || git_changes_find(g, "HEAD")))
		r = lock(s, ".git/HEAD");
	if (r == 0 && s->index)
		r = lock(s, ".git/index");
	for (size_t i = 0; i < g->n && r == 0; i++) {
		char path[PATH_SIZE];

		if (g->refs[i].left || is_head(&g->refs[i]))
			continue;
		git_ref_path(&g->refs[i], path);
		r = lock(s, path);
	}
	return r;
}

static const char *word(const char *ref, const char *id)
{
	return *ref ? ref : *id ? id : "-";
}

/* What is said of it, and what a later command reads. */
static void describe(const struct git_stage *s, const struct git_ref *r,
		     char note[NOTE_SIZE])
{
	const struct git_head *head = &s->plan->git.repo.head;

	snprintf(note, NOTE_SIZE, "%s %s %llu %llu\n%s",
		 is_head(r) ? word(head->ref, head->id) : word("", r->old.id),
		 word(is_head(r) ? r->new_ref : "", r->new),
		 (unsigned long long)r->ahead, (unsigned long long)r->behind,
		 r->files ? r->files : "");
}

static int stage_deleted(struct git_stage *s, const struct git_ref *r,
			 const char *path, const char *note)
{
	int e = 0;

	if (git_packed_find(&s->plan->git.repo.packed, r->name))
		e = strlist_add(&s->unpacked, r->name);
	if (e < 0)
		return fail(s, e, path);
	return r->old.loose ? take_away(s, PART_REF, path, note)
			    : must_stay(s, PART_REF, CHANGE_DELETED, path,
					note);
}

static int stage_ref(struct git_stage *s, const struct git_ref *r)
{
	char path[PATH_SIZE], note[NOTE_SIZE];
	char content[GIT_NAME_MAX + 8];
	int n;

	git_ref_path(r, path);
	describe(s, r, note);
	if (kind_of(r) == CHANGE_DELETED)
		return stage_deleted(s, r, path, note);
	n = snprintf(content, sizeof(content), "%s%s\n",
		     r->new_ref[0] ? "ref: " : "",
		     r->new_ref[0] ? r->new_ref : r->new);
	return put(s, PART_REF, kind_of(r), path, content, (size_t)n, note);
}

/* The plan that is only shown has the references alone. */
static int show_ref(struct git_stage *s, const struct git_ref *r)
{
	char path[PATH_SIZE], note[NOTE_SIZE];
	struct journal_entry e;

	git_ref_path(r, path);
	describe(s, r, note);
	fill(s, &e, ACT_CHECK, PART_REF, S_IFREG | 0644, NULL);
	e.kind = (uint8_t)kind_of(r);
	return add(s, &e, path, note);
}

static void count(struct git_stage *s, const struct git_ref *r)
{
	struct promote_counts *c = &s->plan->counts;
	char note[NOTE_SIZE];

	c->deleted += kind_of(r) == CHANGE_DELETED;
	c->modified += kind_of(r) == CHANGE_MODIFIED;
	c->added += kind_of(r) == CHANGE_ADDED;
	describe(s, r, note);
	plan_mix(s->plan, r->name, strlen(r->name) + 1);
	plan_mix(s->plan, note, strlen(note) + 1);
}

static int stage_packed(struct git_stage *s)
{
	AUTO_BUF struct buf text = BUF_INIT(GIT_PACKED_MAX);
	int r;

	if (s->unpacked.n == 0)
		return 0;
	r = git_packed_without(&s->plan->git.repo.packed, &s->unpacked, &text);
	return r < 0 ? fail(s, r, ".git/packed-refs")
		     : put(s, PART_OTHER, CHANGE_MODIFIED,
			   ".git/packed-refs", buf_str(&text),
			   text.len, "");
}

/* ---- logs ---- */

static int add_to_log(struct git_stage *s, const char *name, const char *old,
		      const char *new, bool make)
{
	AUTO_FREE char *path = str_format(".git/logs/%s", name);
	AUTO_BUF struct buf text = BUF_INIT(LOG_MAX);
	size_t id_len = s->plan->git.repo.id_len;
	int r = path ? read_host(s, path, &text) : -ENOMEM;

	/* One that is too large, or none that git wrote, is left as it is. */
	if (r == -EFBIG || r == -EBADMSG || (r == 1 && !make))
		return 0;
	if (r >= 0)
		r = git_log_add(&text, id_len, old, new,
				s->plan->layer->git->task);
	if (r == -EBADMSG)
		return 0;
	return r < 0 ? fail(s, r, path ? path : name)
		     : put(s, PART_LOG, CHANGE_MODIFIED, path,
			   buf_str(&text), text.len, "");
}

static bool host_has(struct git_stage *s, const char *path)
{
	struct stat st;

	return look(s, path, &st) == 0 && st.st_ino != 0;
}

static int stage_log(struct git_stage *s, const struct git_ref *r)
{
	const struct buf *stash = &s->plan->git.stash;
	bool is_stash = str_eq(r->name, "refs/stash");
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), ".git/logs/%s", r->name);
	if (is_head(r))
		return 0;
	if (!r->new[0])
		return take_away(s, PART_LOG, path, "");
	if (is_stash)
		return put(s, PART_LOG, CHANGE_MODIFIED, path, buf_str(stash),
			   stash->len, "");
	return add_to_log(s, r->name, r->old.id, r->new,
			  str_starts(r->name, "refs/heads/") &&
				  host_has(s, ".git/logs/HEAD"));
}

/* ---- objects and the index ---- */

/* Takes a file out of the repository in which it was checked. */
static int move(struct git_stage *s, int from_fd, const char *from,
		struct journal_entry *e)
{
	char name[STAGE_NAME_SIZE];

	stage_name(e->number, name);
	if (renameat(from_fd, from, s->plan->stage.fd, name) < 0 ||
	    fchmodat(s->plan->stage.fd, name, e->mode & 0777, 0) < 0)
		return -errno;
	return note_staged(s, e);
}

static int stage_pack(struct git_stage *s)
{
	/* The index last: without it there is no pack for git. */
	static const char *const kinds[] = {"pack", "rev", "idx"};
	AUTO_CLOSE int objects = walk_open_at(s->lab->fd, "objects",
					      O_PATH | O_DIRECTORY);
	AUTO_CLOSE int dir = walk_open_at(objects, "pack",
					  O_PATH | O_DIRECTORY);
	int r = dir < 0 ? dir : 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r == 0; i++) {
		char name[128], path[256];
		struct journal_entry e;
		struct stat st;

		snprintf(name, sizeof(name), "%s.%s", s->lab->pack, kinds[i]);
		snprintf(path, sizeof(path), ".git/objects/pack/%s", name);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    host_has(s, path))
			continue;
		r = make_dirs(s, path);
		if (r < 0)
			return r;
		fill(s, &e, ACT_ADD, PART_PACK, S_IFREG | 0444, NULL);
		r = move(s, dir, name, &e);
		if (r == 0)
			r = add(s, &e, path, "");
	}
	return r < 0 ? fail(s, r, ".git/objects/pack") : 0;
}

static int stage_index(struct git_stage *s)
{
	static const char path[] = ".git/index";
	char note[3 * GIT_ID_MAX], name[STAGE_NAME_SIZE];
	struct journal_entry e;
	struct stat old;
	int r = look(s, path, &old);

	if (r < 0)
		return fail(s, r, path);
	fill(s, &e, old.st_ino ? ACT_REPLACE : ACT_ADD, PART_INDEX,
	     S_IFREG | (old.st_ino ? old.st_mode & 0777 : 0644), &old);
	stage_name(e.number, name);
	r = move(s, s->lab->fd, "index", &e);
	if (r == 0)
		r = git_index_time(s->plan->stage.fd, name, &old, &e);
	if (r < 0)
		return fail(s, r, path);
	snprintf(note, sizeof(note), "%s %s", word("", s->head_old),
		 word("", s->head_new));
	return add(s, &e, path, note);
}

int git_index_time(int dir_fd, const char *name, const struct stat *old,
		   struct journal_entry *e)
{
	const struct timespec times[2] = {old->st_mtim, old->st_mtim};
	struct stat st;

	if (utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	e->mtime_ns = time_ns(&st.st_mtim);
	return 0;
}

/* ---- all ---- */

static int each_ref(struct git_stage *s,
		    int (*fn)(struct git_stage *s, const struct git_ref *r))
{
	struct git_changes *g = &s->plan->git;
	int r = 0;

	for (size_t i = 0; i < g->n && r == 0; i++) {
		if (!g->refs[i].left && !is_head(&g->refs[i]))
			r = fn(s, &g->refs[i]);
	}
	return r;
}

static int stage_head(struct git_stage *s)
{
	struct git_ref *head = git_changes_find(&s->plan->git, "HEAD");
	int r = 0;

	if (head && !head->left)
		r = stage_ref(s, head);
	if (r == 0 && !str_eq(s->head_old, s->head_new))
		r = add_to_log(s, "HEAD", s->head_old, s->head_new, false);
	return r == 0 && s->index ? stage_index(s) : r;
}

static int stage_copies(struct git_stage *s)
{
	int r = take_locks(s);

	if (r == 0)
		r = must_stay(s, PART_OTHER, CHANGE_MODIFIED,
			      ".git/packed-refs", "");
	if (r == 0 && s->lab->has_pack)
		r = stage_pack(s);
	if (r == 0)
		r = each_ref(s, stage_ref);
	if (r == 0)
		r = each_ref(s, stage_log);
	if (r == 0)
		r = stage_packed(s);
	return r == 0 ? stage_head(s) : r;
}

int git_stage_all(struct git_stage *s)
{
	struct git_changes *g = &s->plan->git;
	int r = 0;
	bool any = false;

	tree_init(&s->host, s->plan->layer->source_fd);
	for (size_t i = 0; i < g->n && r == 0; i++) {
		if (g->refs[i].left)
			continue;
		any = true;
		count(s, &g->refs[i]);
		if (!s->plan->copy)
			r = show_ref(s, &g->refs[i]);
	}
	return r == 0 && any && s->plan->copy ? stage_copies(s) : r;
}
