/*
 * Which changed paths are held back at promotion, and why: what a program of
 * the host would execute or obey by merely being used in the tree (git and its
 * hooks, editors, shells, agents), and what the policy protects.
 */
#ifndef PINFOLD_WORKSPACE_PROTECT_H
#define PINFOLD_WORKSPACE_PROTECT_H

#include "base/error.h"
#include "base/str.h"
#include "workspace/changes.h"
#include "workspace/hidden.h"

#include <stdbool.h>
#include <stddef.h>

struct protect {
	const struct strlist *globs; /* not owned; NULL: none */
	struct strlist dirs; /* where this repository's hooks lie */
	int source_fd;	     /* not owned; -1: paths alone decide */
	bool no_repository;  /* the source has no .git that is a directory */
	/* What the task did not see, for the caller to set; not owned; NULL:
	 * paths alone tell. */
	const struct hidden *hidden;
};

#define PROTECT_INIT {.source_fd = -1}
#define AUTO_PROTECT __attribute__((cleanup(protect_done)))

/*
 * What protects a source: the built-in table, globs (files.protect of the
 * task's policy, relative to the source; NULL: none), and what source_fd (the
 * source on the host, which stays the caller's; -1: not known) adds: the
 * directory that .git/hooks is a link to or that core.hooksPath names, if it
 * lies in the source. 0 or -ENOMEM.
 */
int protect_init(struct protect *p, const struct strlist *globs, int source_fd,
		 struct error *err);
void protect_done(struct protect *p);

/*
 * Why the change is held back, as words that follow "held back: ", or NULL. The
 * path is one of bytes, as changes_scan gives it. A path is protected with all
 * that lies below it. What is no directory, and a directory that is deleted, is
 * also protected where something protected can only lie below. Letters of both
 * cases count as one, for there are file systems that say so.
 *
 * Of the source's own .git only what git executes or obeys is protected; the
 * rest of it is never promoted file by file anyway. Static, or in p.
 */
const char *protect_reason(const struct protect *p, const struct change *c);

/*
 * Is the path, relative to the source, one of the list of secrets? The list holds
 * at the top and two levels below.
 */
bool protect_is_secret(const char *path);

/*
 * A row of the built-in table: components, matched at any depth; a "*" at the
 * beginning stands for the beginning of a name.
 */
struct protect_row {
	const char *path;
	const char *reason;
};

extern const struct protect_row protect_rows[];
extern const size_t n_protect_rows;
/* The same below the source's .git, and what a bare repository has of these. */
extern const struct protect_row protect_git_rows[];
extern const size_t n_protect_git_rows;
/* What else a bare repository is made of. */
extern const struct protect_row protect_bare_rows[];
extern const size_t n_protect_bare_rows;
/* Names of hooks, NULL-ended, and why they are protected. */
#define PROTECT_HOOKS "git hooks run on the host"
extern const char *const protect_hooks[];

#endif
