/*
 * Looking at what a task committed, in a repository made for this alone and by
 * git processes that are confined: they have that repository, the objects of
 * the host and those of the task, and no configuration of either.
 */
#ifndef PINFOLD_WORKSPACE_GIT_LAB_H
#define PINFOLD_WORKSPACE_GIT_LAB_H

#include "workspace/git_changes.h"

/* One git process. Its directory, the first one, is its repository. */
struct git_errand {
	const char *const *argv; /* behind "git"; NULL-ended */
	const char *const *env;	 /* beside what each one gets; NULL-ended */
	int in_fd, out_fd, error_fd;
	const int *dirs; /* its descriptors 3, 4, ...; it writes the first */
	size_t n_dirs;
	uint64_t file_max; /* bytes that it may write into one; 0: as usual */
};

/*
 * How to run one; given by who can confine it. Its exit status; -ETIMEDOUT; or
 * another negative errno with a text: it could not be run.
 */
typedef int git_run_fn(void *arg, const struct git_errand *e,
		       struct error *err);

/* What promotion needs for git directories. */
struct promote_git {
	git_run_fn *run;
	void *arg;
	const char *task; /* its id, for the logs of references */
};

struct git_lab {
	const struct promote_git *git;
	struct git_changes *g;
	int stage_fd;
	int fd; /* the repository: "git" in the stage */
	struct buf known; /* lines "^ID": what the host has */
	bool has_pack;	  /* there is something to take over */
	char pack[GIT_ID_MAX + 16]; /* its name, without .pack */
	char old_head[GIT_ID_MAX + 1], new_head[GIT_ID_MAX + 1];
	bool index; /* one was made: "index" in the repository */
	int status; /* with which the last git ended */
	/* What this machine lacked for one of them, or "": no fault of what it
	 * looked at, so that nothing can be said of that. */
	char lacked[256];
	uint64_t file_max; /* see struct git_errand */
	struct error *err;
};

#define AUTO_GIT_LAB __attribute__((cleanup(git_lab_done)))

/* Makes the repository. 0 or negative. */
int git_lab_open(struct git_lab *lab, const struct promote_git *git,
		 struct git_changes *g, int stage_fd, struct error *err);

/* Removes it. */
void git_lab_done(struct git_lab *lab);

/*
 * Checks what the references that are not left come to: objects, all that they
 * lead to, and their kind. Whatever does not hold is left, with a reason.
 * What is protected in l, or hidden from its task, commits may not change
 * unless their reference was named. 0 or negative.
 */
int git_lab_check(struct git_lab *lab, const struct promote_layer *l);

/*
 * Makes the index that belongs to what will be checked out, out of the host's,
 * with what is staged there and is not concerned. 0; 1 if that cannot be, with
 * the reason; or negative. force: what is staged is lost.
 */
int git_lab_index(struct git_lab *lab, const char *from, const char *to,
		  bool force, struct buf *why);

/*
 * -ENOSPC, with a text, where this machine had not the disk or the time for what
 * was to be looked at; else 0.
 */
int git_lab_lacked(struct git_lab *lab);

/* Copies the host's index into the repository. 0; 1: there is none; or negative. */
int git_lab_copy_index(struct git_lab *lab);

/*
 * Gives a staged index the time of the one that it comes from: what git cannot
 * tell from the times of files stays so. Fills e's. 0 or negative.
 */
int git_index_time(int dir_fd, const char *name, const struct stat *old,
		   struct journal_entry *e);

/*
 * Runs git in the repository with this input; what it printed is appended to
 * out (NULL: nothing). 0; 1 when it failed or took too long, and its words are
 * in why; or negative, which is the end of it.
 */
enum git_view {
	GIT_VIEW_OWN,  /* what was taken over */
	GIT_VIEW_HOST, /* that, and what the host has */
	GIT_VIEW_TASK, /* what the host and the task have */
};

int git_lab_run(struct git_lab *lab, enum git_view view,
		const char *const *argv, const char *in, size_t in_len,
		struct buf *out, struct buf *why);

#endif
