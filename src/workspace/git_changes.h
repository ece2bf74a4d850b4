/*
 * What a task's changes in the source's own .git mean: which references moved,
 * from what to what. Collected while changes_scan walks the layer; nothing of
 * it is believed but names and values that have the form of some.
 */
#ifndef PINFOLD_WORKSPACE_GIT_CHANGES_H
#define PINFOLD_WORKSPACE_GIT_CHANGES_H

#include "workspace/git_repo.h"
#include "workspace/judge.h"

#include <stdint.h>

/* More are refused: nobody looks at so many. */
#define GIT_REFS_MAX 1000
#define GIT_STASH_MAX 1000

struct git_ref {
	char name[GIT_NAME_MAX]; /* "HEAD" for what is checked out */
	struct git_value old;	 /* on the host, now */
	char new[GIT_ID_MAX + 1]; /* in the task; "": there is none */
	char new_ref[GIT_NAME_MAX]; /* HEAD: the branch, or "" */
	bool moved; /* on the host, since the task began */
	bool gone;  /* the task removed its file */
	bool named; /* the user takes the task's side */
	bool left;  /* class and why say how and why */
	enum journal_class class;
	char *why;
	/* After the check: commits that came, and that went; what files the
	 * ones that came change, a line each as a user reads it, or NULL. */
	uint64_t ahead, behind;
	char *files;
};

struct git_changes {
	struct git_repo repo;
	bool opened, usable;
	struct buf why; /* not usable */
	struct git_ref *refs;
	size_t n, cap;
	bool too_many;
	bool packed_changed;
	bool packed_moved; /* packed-refs was written since the task began */
	struct git_packed packed; /* the task's */
	bool packed_bad;
	int layer_objects; /* of the task; -1: it made none */
	char *special;	   /* among its objects: what is no file */
	struct buf stash;  /* the task's log of refs/stash */
	bool has_stash;
	const char *busy;  /* what the task was in the middle of */
};

#define GIT_CHANGES_INIT                                                       \
	{.repo = GIT_REPO_INIT, .why = BUF_INIT(1024),                         \
	 .packed = GIT_PACKED_INIT, .layer_objects = -1,                       \
	 .stash = BUF_INIT(4u << 20)}

void git_changes_done(struct git_changes *g);

/*
 * Is this path in .git one of the lists that git makes of the rest, for servers
 * that know no git?
 */
bool git_is_derived(const char *rest);

/* Is it what git keeps for itself: objects, logs, its index and the like? */
bool git_is_bookkeeping(const char *rest);

/*
 * One change in .git, which is neither protected nor promoted yet. 1: it is
 * part of what is taken over by meaning, or of no meaning outside; 0: it is
 * none of that; or negative.
 */
int git_changes_note(struct git_changes *g, struct judge *j,
		     const struct change *c, struct error *err);

/* Is c, of a layer, what git_changes_note is to see? */
bool git_changes_is_part(const struct promote_layer *l, const struct change *c);

/* Opens the objects that the task made below its upper. 0 or negative. */
int git_changes_open_objects(struct git_changes *g, int upper_fd);

/*
 * After the scan: the references that differ, with their values and why they
 * are left, where that is known without looking at an object. 0 or negative.
 */
int git_changes_resolve(struct git_changes *g, struct judge *j,
			struct error *err);

/*
 * All of it at once, by a scan of its own: what the task changed in the
 * repository, and its objects. 0 or negative.
 */
int git_changes_collect(struct git_changes *g, struct judge *j, int upper_fd,
			struct error *err);

/* Leaves a reference; the reason is one line, quoted where it must be. */
int git_ref_leave(struct git_ref *r, enum journal_class class,
		  const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct git_ref *git_changes_find(struct git_changes *g, const char *name);

/* The path by which a reference is named to pinfold: ".git/NAME". */
void git_ref_path(const struct git_ref *r, char path[GIT_NAME_MAX + 8]);

#endif
