/*
 * May a change be promoted? Protected and denied paths, conflicts with what the
 * host has done since the task began, and what no promotion brings.
 */
#ifndef PINFOLD_WORKSPACE_JUDGE_H
#define PINFOLD_WORKSPACE_JUDGE_H

#include "workspace/git_away.h"
#include "workspace/promote.h"
#include "workspace/refreshed.h"
#include "workspace/renames.h"
#include "workspace/taken.h"

struct judge {
	const struct promote_layer *layer;
	const struct strlist *named; /* held back, and named by the user */
	struct taken taken;
	struct refreshed refreshed;
	int64_t since_ns; /* of the change that is looked at */
	struct renames renames; /* found when one is asked for */
	bool renames_known;
	struct git_away away; /* git_away_find fills it */
	bool both; /* it was left because the host has changed it too */
	struct buf reason; /* of the last change that was left */
	struct buf parent; /* of the last change, where it lay in the source */
	size_t moved;	   /* bytes of it: a directory that was moved; or 0 */
};

#define AUTO_JUDGE __attribute__((cleanup(judge_done)))

int judge_init(struct judge *j, const struct promote_layer *l,
	       const struct strlist *named, struct error *err);
void judge_done(struct judge *j);

/*
 * 0 if the change may be promoted; 1 if it is left, with its class and a
 * reason; or negative. Where the path exists in the source, old is what it is
 * there (else st_ino is 0). fresh: what holds it comes with this promotion, so
 * that nothing can be there.
 */
int judge_change(struct judge *j, const struct change *c, bool fresh,
		 enum journal_class *ret_class, struct stat *old,
		 struct error *err);

/* Has the host changed what it has (st) at the path of c since? */
bool judge_host_changed(struct judge *j, const struct change *c,
			const struct stat *st);

/*
 * When the task took path to be what the source had: its start, or the last
 * refresh before it touched the path.
 */
int64_t judge_since(const struct judge *j, const char *path);

/* Was what lies at path changed, or put there, since that time? */
bool judge_is_newer(const struct judge *j, const char *path,
		    const struct stat *st);

/*
 * Has the host changed what the change is about since the task touched it?
 * 0 or 1, then with the judge's reason; or negative.
 */
int judge_both(struct judge *j, const struct change *c, struct error *err);

/* Is path hidden by one of files.deny, or below it? deny: of the layer; NULL. */
bool judge_is_denied(const struct strlist *deny, const char *path);

/* How many bytes of path name a git directory that it is, or lies in; or 0. */
size_t judge_repository(const char *path);

/* Is path a git directory, or in one? */
bool judge_is_git(const char *path);

#endif
