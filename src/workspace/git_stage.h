/* Writes what becomes of a repository as entries of a promotion's journal. */
#ifndef PINFOLD_WORKSPACE_GIT_STAGE_H
#define PINFOLD_WORKSPACE_GIT_STAGE_H

#include "workspace/git_lab.h"
#include "workspace/plan_private.h"

struct git_stage {
	struct plan *plan;
	struct git_lab *lab;
	struct tree host; /* the source */
	struct strlist dirs; /* that are made */
	struct strlist unpacked; /* references that leave packed-refs */
	const char *head_old, *head_new; /* commits that are checked out */
	bool index;
};

/* All of it: the references that are not left, and what belongs to them. */
int git_stage_all(struct git_stage *s);
void git_stage_done(struct git_stage *s);

#endif
