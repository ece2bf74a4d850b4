/*
 * What the host's repository is, for a task's references to be taken over into
 * it: read from the source's own .git, which the caller trusts, by descriptors
 * all the same. Nothing here runs git.
 */
#ifndef PINFOLD_WORKSPACE_GIT_REPO_H
#define PINFOLD_WORKSPACE_GIT_REPO_H

#include "base/buf.h"
#include "base/str.h"
#include "workspace/git_name.h"
#include "workspace/git_packed.h"
#include "workspace/tree.h"

#include <stdbool.h>
#include <sys/stat.h>

#define GIT_ALTERNATES_MAX 8

/* HEAD: on a branch, or on a commit. */
struct git_head {
	char ref[GIT_NAME_MAX]; /* "": on a commit */
	char id[GIT_ID_MAX + 1];
};

struct git_repo {
	int fd;		/* .git */
	int objects_fd; /* .git/objects */
	int alternates[GIT_ALTERNATES_MAX];
	size_t n_alternates;
	size_t id_len;
	struct tree tree;
	struct git_packed packed;
	struct git_head head;
	struct stat head_st;
	struct buf shallow; /* the commits that its history ends at */
	/* Branches that other working trees are on: name, then whose. */
	struct strlist elsewhere;
	const char *busy; /* what it is in the middle of, or NULL */
};

#define GIT_REPO_INIT                                                          \
	{.fd = -1, .objects_fd = -1, .tree = {.dir_fd = -1},                   \
	 .packed = GIT_PACKED_INIT, .shallow = BUF_INIT(1u << 20)}

/*
 * 0; 1 when its references cannot be taken over, with a reason that follows the
 * repository's name; or negative.
 */
int git_repo_open(struct git_repo *g, int source_fd, struct buf *why);
void git_repo_done(struct git_repo *g);

/* What a reference is now. */
struct git_value {
	char id[GIT_ID_MAX + 1]; /* "": there is none */
	bool loose;		 /* it has a file, which is st */
	bool dir;		 /* a directory is in the file's place */
	struct stat st;
};

/* 0; -EBADMSG for a link, a symbolic reference or the like; or negative. */
int git_repo_value(struct git_repo *g, const char *name,
		   struct git_value *ret);

/* The commit that is checked out; "" where its branch has none. As that. */
int git_repo_out(struct git_repo *g, char id[GIT_ID_MAX + 1]);

/*
 * Reads the file dir_fd/name of a reference, or HEAD, into ret. 0, -EBADMSG, or
 * another negative errno.
 */
int git_read_head(int dir_fd, const char *name, size_t id_len,
		  struct git_head *ret, struct stat *st);

/*
 * Calls fn for each reference that has a file below dir ("refs/heads"), until
 * it returns other than 0. What is no such file is passed over.
 */
int git_repo_each_loose(struct git_repo *g, const char *dir,
			int (*fn)(void *arg, const char *name), void *arg);

/* The working tree that is on this branch beside the source, or NULL. */
const char *git_repo_elsewhere(const struct git_repo *g, const char *name);

#endif
