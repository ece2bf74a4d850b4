/*
 * The caller's tool chains and package caches (files.toolchains) and the
 * settings of its agents (files.agents): what of the host a sandbox shows beside
 * the paths that a policy names. Only places that are known
 * are looked at, and no tree is walked: what it costs does not grow with them.
 */
#ifndef PINFOLD_CLI_TOOLS_H
#define PINFOLD_CLI_TOOLS_H

#include "base/error.h"
#include "base/str.h"
#include "policy/policy.h"

/* Where to look, and what is shown anyway. */
struct tools_where {
	const struct policy *policy;
	const char *home;   /* the caller's, without links */
	const char *inside; /* the sandbox's */
	const char *source; /* NULL: none */
};

struct tools {
	struct strlist shown, shown_by; /* directories, and names of tools */
	/* Caches: directories, where they are inside, names of tools. */
	struct strlist carried, carried_at, carried_by;
	struct strlist masked; /* paths below these that are hidden */
	struct strlist env;    /* NAME=value, PATH among them */
	/* Of agents: files for the sandbox's home, and what is kept back. */
	struct strlist seeds, seed_texts, withheld;
};

#define AUTO_TOOLS __attribute__((cleanup(tools_done)))

void tools_done(struct tools *t);

/*
 * Fills *ret (fresh). Directories are absolute, without links, the caller's or
 * root's, none that policy_grant_fault refuses or a policy denies, and none
 * that the sandbox shows anyway. Where toolchains are off: PATH alone. 0 or
 * negative; what is not to be had is left out.
 */
int tools_find(const struct tools_where *w, struct tools *ret,
	       struct error *err);

/* ---- between the files of this module ---- */

/* A directory of the system, which every sandbox shows. */
bool tools_of_system(const char *path);
/* Adds a directory to what is carried in. 0 or -ENOMEM. */
int tools_carry(struct tools *t, const char *from, const char *at,
		const char *by);
/* A directory that may be shown: the caller's or root's, and nothing secret. */
bool tools_fit(const struct tools_where *w, const char *path);
/*
 * Adds what patterns (NULL-ended) name below root to t->masked; a "*" stands for
 * each of the names that are there now. -E2BIG: too many to be understood.
 */
int tools_expand_masks(struct tools *t, const char *root,
		       const char *const *patterns);
/* agents.c: adds what files.agents names. 0 or negative. */
int tools_add_agents(const struct tools_where *w, struct tools *t);

/* Does the sandbox show path (normal), with these? */
bool tools_visible(const struct tools_where *w, const struct tools *t,
		   const char *path);
/* The caller's PATH: absolute, normal directories, in its order. 0/-ENOMEM */
int tools_caller_path(struct strlist *ret);
/* Adds the PATH of the commands to t->env. 0 or -ENOMEM. */
int tools_add_path(const struct tools_where *w, const struct strlist *path,
		   struct tools *t);

/*
 * Where a command is that the sandbox does not have: text is what to add to a
 * message, beginning with "; ". Nothing if it is nowhere.
 */
void tools_missing(const char *command, struct buf *text);

#endif
