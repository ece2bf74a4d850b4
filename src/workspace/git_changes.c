#include "workspace/git_changes.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX_LEN 5 /* ".git/" */
#define TAIL 4096    /* of a log, in which its last line is */

void git_changes_done(struct git_changes *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->refs[i].why);
		free(g->refs[i].files);
	}
	free(g->refs);
	free(g->special);
	git_repo_done(&g->repo);
	git_packed_done(&g->packed);
	buf_done(&g->why);
	buf_done(&g->stash);
	close_fd(g->layer_objects);
	*g = (struct git_changes)GIT_CHANGES_INIT;
}

int git_ref_leave(struct git_ref *r, enum journal_class class,
		  const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	free(r->why);
	r->why = strdup(text);
	r->left = true;
	r->class = class;
	return r->why ? 0 : -ENOMEM;
}

void git_ref_path(const struct git_ref *r, char path[GIT_NAME_MAX + 8])
{
	snprintf(path, GIT_NAME_MAX + 8, ".git/%s", r->name);
}

struct git_ref *git_changes_find(struct git_changes *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++) {
		if (str_eq(g->refs[i].name, name))
			return &g->refs[i];
	}
	return NULL;
}

/* The entry of a name, made where there is none. NULL: no memory, too many. */
static struct git_ref *add_ref(struct git_changes *g, const char *name)
{
	struct git_ref *r = git_changes_find(g, name);

	if (r)
		return r;
	if (g->n == GIT_REFS_MAX) {
		g->too_many = true;
		return NULL;
	}
	if (g->n == g->cap) {
		size_t cap = g->cap ? g->cap * 2 : 8;
		struct git_ref *grown =
			reallocarray(g->refs, cap, sizeof(*grown));

		if (!grown)
			return NULL;
		g->refs = grown;
		g->cap = cap;
	}
	r = &g->refs[g->n++];
	*r = (struct git_ref){0};
	snprintf(r->name, sizeof(r->name), "%s", name);
	return r;
}

static int no_ref(const struct git_changes *g)
{
	return g->too_many ? 0 : -ENOMEM;
}

/* ---- while the layer is walked ---- */

/* What the file that the task has there says. */
static int read_new(struct git_changes *g, struct git_ref *r,
		    const struct change *c)
{
	const struct change_place *at = c->place;
	struct git_head head;
	struct stat st;
	int e;

	if (!S_ISREG(c->mode))
		return git_ref_leave(r, LEAVE_REFUSED, "it is no file");
	e = git_read_head(at->upper_fd, at->name, g->repo.id_len, &head, &st);
	if (e == -EBADMSG)
		return git_ref_leave(r, LEAVE_REFUSED,
				     "the task wrote no id into it");
	if (e < 0)
		return e;
	memcpy(r->new, head.id, sizeof(r->new));
	memcpy(r->new_ref, head.ref, sizeof(r->new_ref));
	if (head.ref[0] && !str_eq(r->name, "HEAD"))
		return git_ref_leave(r, LEAVE_REFUSED,
				     "a reference to another one");
	return 0;
}

/* Has the host changed what it has there? */
static bool is_moved(struct judge *j, const struct change *c)
{
	const struct change_place *at = c->place;
	struct stat st;

	return at->below_fd >= 0 &&
	       fstatat(at->below_fd, at->name, &st, AT_SYMLINK_NOFOLLOW) ==
		       0 &&
	       judge_host_changed(j, c, &st);
}

static int note_one(struct git_changes *g, struct judge *j,
		    const struct change *c, const char *name)
{
	const char *fault = str_eq(name, "HEAD") ? NULL : git_name_fault(name);
	struct git_ref *r;

	/* What an interrupted git has left. */
	if (str_ends(name, ".lock"))
		return 0;
	r = add_ref(g, name);
	if (!r)
		return no_ref(g);
	if (fault)
		return git_ref_leave(r, LEAVE_REFUSED, "%s", fault);
	r->moved = is_moved(j, c);
	r->gone = c->kind == CHANGE_DELETED;
	return r->gone ? 0 : read_new(g, r, c);
}

struct deleted {
	struct git_changes *g;
	struct judge *judge;
};

static int note_deleted(void *arg, const char *name)
{
	struct deleted *d = arg;
	struct git_ref *r = add_ref(d->g, name);
	char path[GIT_NAME_MAX + 8];
	struct git_value now;
	int e;

	if (!r)
		return no_ref(d->g);
	e = git_repo_value(&d->g->repo, name, &now);
	if (e < 0 && e != -EBADMSG)
		return e;
	r->gone = true;
	snprintf(path, sizeof(path), ".git/%s", name);
	r->moved = judge_is_newer(d->judge, path, &now.st) &&
		   !taken_restored(&d->judge->taken, path, &now.st);
	return 0;
}

/* Names what the task has made of a part of its repository that git needs. */
static int note_ruined(struct git_changes *g, const char *name,
		       const char *why)
{
	struct git_ref *r = add_ref(g, name);

	return r ? git_ref_leave(r, LEAVE_REFUSED, "%s", why) : no_ref(g);
}

/* All references of a directory that went, or was replaced as a whole. */
static int note_dir_gone(struct git_changes *g, struct judge *j,
			 const char *name)
{
	struct deleted d = {g, j};

	return git_repo_each_loose(&g->repo, name, note_deleted, &d);
}

static int note_file_gone(struct git_changes *g, struct judge *j,
			  const struct change *c, const char *name)
{
	struct git_ref *r = git_name_fault(name) ? NULL : add_ref(g, name);

	if (!r)
		return git_name_fault(name) ? 0 : no_ref(g);
	r->moved = is_moved(j, c);
	r->gone = true;
	return 0;
}

/* A rename may put a directory into a file's place, or a file into one's. */
static int note_ref(struct git_changes *g, struct judge *j,
		    const struct change *c, const char *name)
{
	bool was_dir = S_ISDIR(c->mode_before);
	const struct git_ref *ref;
	int r;

	if (S_ISDIR(c->mode)) {
		if (c->kind == CHANGE_DELETED)
			return note_dir_gone(g, j, name);
		return c->kind == CHANGE_MODIFIED && !was_dir
			       ? note_file_gone(g, j, c, name)
			       : 0;
	}
	r = note_one(g, j, c, name);
	ref = git_changes_find(g, name);
	/* What is no reference has not taken the place of others. */
	return r == 0 && c->kind == CHANGE_MODIFIED && was_dir && ref &&
			       !ref->left
		       ? note_dir_gone(g, j, name)
		       : r;
}

/* The directory of all references; without it there is nothing to compare. */
static int note_refs(struct git_changes *g, const struct change *c)
{
	if (c->kind == CHANGE_DELETED)
		return note_ruined(g, "refs", "the task removed it, with what "
					      "it committed");
	return S_ISDIR(c->mode)
		       ? 0
		       : note_ruined(g, "refs",
				     "it is no directory: what was committed "
				     "cannot be found");
}

/* What the task staged stays with it; where it cannot be read that is told. */
static int note_index(struct git_changes *g, const struct change *c)
{
	return c->kind == CHANGE_DELETED || S_ISREG(c->mode)
		       ? 0
		       : note_ruined(g, "index", "it is no file");
}

static int note_packed(struct git_changes *g, const struct change *c)
{
	int r;

	g->packed_changed = true;
	if (c->kind == CHANGE_DELETED)
		return 0;
	r = git_packed_read(&g->packed, c->place->upper_fd, c->place->name,
			    g->repo.id_len);
	g->packed_bad = r < 0;
	if (r == -ENOMEM || r == 0)
		return r;
	return note_ruined(g, "packed-refs", "the task's is none that git "
					     "wrote");
}

static int note_stash(struct git_changes *g, const struct change *c)
{
	AUTO_CLOSE int fd = -1;

	if (c->kind == CHANGE_DELETED || !S_ISREG(c->mode))
		return 0;
	fd = walk_open_at(c->place->upper_fd, c->place->name,
			  O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return 0;
	buf_reset(&g->stash);
	g->has_stash = io_read_all(fd, &g->stash) == 0;
	return g->stash.failed == -ENOMEM ? -ENOMEM : 0;
}

/* Objects are read as files are: what would block, or is a device, is none. */
static int note_object(struct git_changes *g, const struct change *c)
{
	if (c->kind == CHANGE_DELETED || S_ISDIR(c->mode) ||
	    S_ISREG(c->mode) || g->special)
		return 0;
	g->special = strdup(c->path);
	return g->special ? 0 : -ENOMEM;
}

static const char *busy_with(const char *rest)
{
	if (str_eq(rest, "MERGE_HEAD"))
		return "a merge";
	if (str_eq(rest, "CHERRY_PICK_HEAD"))
		return "a cherry-pick";
	if (str_eq(rest, "REVERT_HEAD"))
		return "a revert";
	if (str_starts(rest, "rebase-"))
		return "a rebase";
	return str_eq(rest, "BISECT_LOG") ? "a bisection" : NULL;
}

bool git_is_derived(const char *rest)
{
	return str_eq(rest, "info/refs") || str_eq(rest, "objects/info/packs");
}

/* What git writes for itself, and what would mean nothing outside. */
bool git_is_bookkeeping(const char *rest)
{
	static const char *const names[] = {
		"index", "logs", "objects", "ORIG_HEAD", "FETCH_HEAD",
		"COMMIT_EDITMSG", "MERGE_MSG", "MERGE_MODE", "MERGE_HEAD",
		"MERGE_RR", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD",
		"REVERT_HEAD", "REBASE_HEAD", "BISECT_LOG", "BISECT_NAMES",
		"BISECT_START", "BISECT_TERMS", "BISECT_EXPECTED_REV",
		"BISECT_ANCESTORS_OK", "NOTES_EDITMSG", "TAG_EDITMSG",
		"gc.log", "gc.pid", "rr-cache", "packed-refs.new",
	};
	size_t n = strcspn(rest, "/");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strlen(names[i]) == n && !strncmp(rest, names[i], n))
			return true;
	}
	return git_is_derived(rest) || str_starts(rest, "sharedindex.") || str_ends(rest, ".lock");
}

static int open_repo(struct git_changes *g, struct judge *j,
		     struct error *err)
{
	int r;

	g->opened = true;
	r = git_repo_open(&g->repo, j->layer->source_fd, &g->why);
	g->usable = r == 0;
	return r < 0 ? error_set(err, r, "cannot read the repository: %s",
				 strerror(-r))
		     : 0;
}

static int note(struct git_changes *g, struct judge *j, const struct change *c,
		const char *rest)
{
	const char *busy = busy_with(rest);

	if (busy && c->kind != CHANGE_DELETED)
		g->busy = busy;
	if (str_eq(rest, "HEAD"))
		return note_one(g, j, c, rest);
	if (str_eq(rest, "packed-refs"))
		return note_packed(g, c);
	if (str_eq(rest, "index"))
		return note_index(g, c);
	if (str_eq(rest, "refs"))
		return note_refs(g, c);
	if (str_eq(rest, "logs/refs/stash"))
		return note_stash(g, c);
	if (str_starts(rest, "refs/"))
		return note_ref(g, j, c, rest);
	return str_starts(rest, "objects/") ? note_object(g, c) : 0;
}

bool git_changes_is_part(const struct promote_layer *l, const struct change *c)
{
	return l->git && str_starts(c->path, ".git/") &&
	       (!protect_reason(l->protect, c) ||
		git_is_derived(c->path + PREFIX_LEN));
}

int git_changes_note(struct git_changes *g, struct judge *j,
		     const struct change *c, struct error *err)
{
	const char *rest = c->path + PREFIX_LEN;
	int r;

	if (!str_eq(rest, "HEAD") && !str_eq(rest, "packed-refs") &&
	    !str_eq(rest, "refs") && !str_starts(rest, "refs/") &&
	    !git_is_bookkeeping(rest))
		return 0;
	r = g->opened ? 0 : open_repo(g, j, err);
	if (r < 0)
		return r;
	if (g->usable)
		r = note(g, j, c, rest);
	return r < 0 ? error_set(err, r, "cannot read what the task has in "
					 "its repository: %s",
				 strerror(-r))
		     : 1;
}

/* ---- when it was walked ---- */

int git_changes_open_objects(struct git_changes *g, int upper_fd)
{
	AUTO_CLOSE int git = walk_open_at(upper_fd, ".git",
					  O_PATH | O_DIRECTORY);
	int fd = git < 0 ? git
			 : walk_open_at(git, "objects",
					O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	g->layer_objects = fd;
	return 0;
}

static const char *task_packed(const struct git_changes *g, const char *name)
{
	return git_packed_find(g->packed_changed ? &g->packed
						 : &g->repo.packed,
			       name);
}

/* Was it promoted already? Then the host's packed-refs may be ahead. */
static bool is_taken(const struct judge *j, const char *name)
{
	char path[GIT_NAME_MAX + 8];

	snprintf(path, sizeof(path), ".git/%s", name);
	return taken_has(&j->taken, path);
}

/* Its file, which the task has not touched, counts where there is one. */
static int add_packed_one(struct git_changes *g, const char *name)
{
	struct git_value now;
	struct git_ref *ref;
	int r = git_repo_value(&g->repo, name, &now);

	if (r < 0 || now.loose)
		return r == -EBADMSG ? 0 : r;
	ref = add_ref(g, name);
	if (!ref)
		return no_ref(g);
	ref->gone = true;
	return 0;
}

/* References that only packed-refs tells of. */
static int add_packed(struct git_changes *g, struct judge *j,
		      const struct git_packed *p)
{
	const struct git_packed *other = p == &g->packed ? &g->repo.packed
							 : &g->packed;
	int r = 0;

	for (size_t i = 0; i < p->n && r == 0 && !g->too_many; i++) {
		const char *name = p->refs[i].name;
		const char *theirs = git_packed_find(other, name);

		if (theirs && str_eq(theirs, p->refs[i].id))
			continue;
		if (!git_name_fault(name) && !git_changes_find(g, name) &&
		    !is_taken(j, name))
			r = add_packed_one(g, name);
	}
	return r;
}

/* The last line of a reference's log on the host. False: there is none. */
static bool read_last(struct git_changes *g, const char *name,
		      char tail[TAIL + 1], const char **ret)
{
	AUTO_FREE char *path = str_format("logs/%s", name);
	const char *base;
	int dir_fd = path ? tree_parent(&g->repo.tree, path, &base) : -1;
	AUTO_CLOSE int fd = dir_fd < 0 ? -1
				       : walk_open_at(dir_fd, base,
						      O_RDONLY | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = pread(fd, tail, TAIL, st.st_size > TAIL ? st.st_size - TAIL : 0);
	if (n < 2 || tail[n - 1] != '\n')
		return false;
	tail[n - 1] = '\0';
	*ret = strrchr(tail, '\n');
	*ret = *ret ? *ret + 1 : tail;
	return true;
}

/*
 * packed-refs was written anew since; the last line of a reference's log tells
 * whether it moved, or was only packed.
 */
static bool is_only_packed(struct git_changes *g, const struct git_ref *r,
			   int64_t since_ns)
{
	const char *line, *mail;
	char tail[TAIL + 1];

	if (!read_last(g, r->name, tail, &line))
		return false;
	mail = strstr(line, "> ");
	return strlen(line) > 2 * g->repo.id_len + 2 && mail &&
	       !strncmp(line + g->repo.id_len + 1, r->old.id,
			g->repo.id_len) &&
	       strtoll(mail + 2, NULL, 10) < since_ns / 1000000000;
}

/* It is in packed-refs alone, which is newer than the task. */
static bool is_moved_packed(struct git_changes *g, const struct judge *j,
			    const struct git_ref *r)
{
	char path[GIT_NAME_MAX + 8];
	int64_t since_ns;

	git_ref_path(r, path);
	since_ns = judge_since(j, path);
	return time_ns(&g->repo.packed.st.st_ctim) > since_ns &&
	       !is_only_packed(g, r, since_ns);
}

static int find_values(struct git_changes *g, struct judge *j,
		       struct git_ref *r)
{
	const char *packed = task_packed(g, r->name);
	int e = git_repo_value(&g->repo, r->name, &r->old);

	if (e == -EBADMSG)
		return git_ref_leave(r, LEAVE_CONFLICT,
				     "on the host it is a link, or another "
				     "reference");
	if (e < 0)
		return e;
	if (r->gone && packed)
		memcpy(r->new, packed, g->repo.id_len);
	if (!r->old.loose && r->old.id[0] && g->packed_moved)
		r->moved = is_moved_packed(g, j, r);
	return 0;
}

static int find_head(struct git_changes *g, struct git_ref *r)
{
	if (r->gone)
		return git_ref_leave(r, LEAVE_REFUSED,
				     "the task removed it");
	r->old.loose = true;
	r->old.st = g->repo.head_st;
	memcpy(r->old.id, g->repo.head.id, sizeof(r->old.id));
	if (r->new_ref[0] && !str_starts(r->new_ref, "refs/heads/"))
		return git_ref_leave(r, LEAVE_REFUSED,
				     "the task put it on no branch");
	return 0;
}

static bool is_same(const struct git_changes *g, const struct git_ref *r)
{
	if (str_eq(r->name, "HEAD"))
		return str_eq(r->new_ref, g->repo.head.ref) &&
		       str_eq(r->new, g->repo.head.id);
	return str_eq(r->old.id, r->new);
}

static void drop(struct git_changes *g, size_t i)
{
	free(g->refs[i].why);
	free(g->refs[i].files);
	memmove(&g->refs[i], &g->refs[i + 1],
		(g->n - i - 1) * sizeof(*g->refs));
	g->n--;
}

static int resolve_one(struct git_changes *g, struct judge *j,
		       struct git_ref *r)
{
	if (r->left)
		return 0;
	return str_eq(r->name, "HEAD") ? find_head(g, r) : find_values(g, j, r);
}

static int compare(const void *a, const void *b)
{
	const struct git_ref *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int compare_packed(struct git_changes *g, struct judge *j)
{
	int r;

	if (!g->packed_changed || g->packed_bad)
		return 0;
	r = add_packed(g, j, &g->packed);
	return r == 0 ? add_packed(g, j, &g->repo.packed) : r;
}

/* What is left is in the order of names. */
static void drop_same(struct git_changes *g)
{
	for (size_t i = g->n; i > 0; i--) {
		if (!g->refs[i - 1].left && is_same(g, &g->refs[i - 1]))
			drop(g, i - 1);
	}
	if (g->n > 1)
		qsort(g->refs, g->n, sizeof(*g->refs), compare);
}

int git_changes_resolve(struct git_changes *g, struct judge *j,
			struct error *err)
{
	int r;

	if (!g->usable)
		return 0;
	g->packed_moved = time_ns(&g->repo.packed.st.st_ctim) >
				  j->layer->since_ns &&
			  !taken_restored(&j->taken, ".git/packed-refs",
					  &g->repo.packed.st);
	r = compare_packed(g, j);
	for (size_t i = 0; i < g->n && r == 0; i++)
		r = resolve_one(g, j, &g->refs[i]);
	drop_same(g);
	return r < 0 ? error_set(err, r, "cannot read the repository: %s",
				 strerror(-r))
		     : 0;
}

/* ---- both at once ---- */

struct collect {
	struct git_changes *g;
	struct judge *judge;
	struct error *err;
};

static int collect(void *arg, const struct change *c)
{
	struct collect *k = arg;
	int r = git_changes_is_part(k->judge->layer, c)
			? git_changes_note(k->g, k->judge, c, k->err)
			: 0;

	return r < 0 ? r : 0;
}

int git_changes_collect(struct git_changes *g, struct judge *j, int upper_fd,
			struct error *err)
{
	const struct promote_layer *l = j->layer;
	struct collect k = {g, j, err};
	struct changes_counts counts;
	int r = changes_scan(l->fd, l->source_fd, l->copied, 0, collect, &k,
			     &counts, err);

	if (r == 0)
		r = git_changes_resolve(g, j, err);
	return r == 0 ? git_changes_open_objects(g, upper_fd) : r;
}
