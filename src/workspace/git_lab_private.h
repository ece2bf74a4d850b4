/* Shared by the files that implement workspace/git_lab.h. */
#ifndef PINFOLD_WORKSPACE_GIT_LAB_PRIVATE_H
#define PINFOLD_WORKSPACE_GIT_LAB_PRIVATE_H

#include "workspace/git_lab.h"

/* Appends what a reference leads to, as lines. 0 or negative. */
int git_lab_add_tips(struct git_lab *lab, const struct git_ref *r,
		     struct buf *tips);

/* Fills how many commits each one brings. 0 or negative. */
int git_lab_count(struct git_lab *lab);

/* Leaves those whose commits touch what is protected. 0 or negative. */
int git_lab_check_paths(struct git_lab *lab, const struct promote_layer *l);

/* Notes which files the new commits of each reference change. 0 or negative. */
int git_lab_list_files(struct git_lab *lab);

#endif
