/* Shared by the files that implement workspace/git_lab.h. */
#ifndef PINFOLD_WORKSPACE_GIT_LAB_PRIVATE_H
#define PINFOLD_WORKSPACE_GIT_LAB_PRIVATE_H

#include "workspace/git_lab.h"

/* Appends what a reference leads to, as lines. 0 or negative. */
int git_lab_add_tips(struct git_lab *lab, const struct git_ref *r,
		     struct buf *tips);

/*
 * Fills lab->known with what the host's references lead to. 0; 1 with git's
 * words; or negative.
 */
int git_lab_known(struct git_lab *lab, struct buf *why);

/*
 * As git_lab_run with what the task has; but what git printed, at most max
 * bytes, is in out also where it failed.
 */
int git_lab_print(struct git_lab *lab, const char *const *argv, const char *in,
		  size_t in_len, uint64_t max, struct buf *out,
		  struct buf *why);

/* Fills how many commits each one brings. 0 or negative. */
int git_lab_count(struct git_lab *lab);

#define GIT_PATHS_MAX (256u << 20)

/*
 * Appends what the new commits of a reference touch (NULL: of all that are
 * neither left nor named): status, path, status, ... each ended by NUL. A merge
 * touches what none of its sides has that way. As git_lab_run.
 */
int git_lab_list_paths(struct git_lab *lab, const struct git_ref *only,
		       struct buf *paths, struct buf *why);

/* The tree without an entry, which git knows without having it. */
const char *git_lab_empty_tree(const struct git_lab *lab);

/*
 * Leaves those that would bring what is protected: by their new commits, or by
 * what would be checked out. 0 or negative.
 */
int git_lab_check_paths(struct git_lab *lab, const struct promote_layer *l);

/* Notes which files the new commits of each reference change. 0 or negative. */
int git_lab_list_files(struct git_lab *lab);

#endif
