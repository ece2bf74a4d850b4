/*
 * The files that pinfold itself puts into a container: the empty skeleton of
 * the root, its own /etc, the layers that hide what a policy denies.
 */
#ifndef PINFOLD_TIER_CONTAINER_FILES_H
#define PINFOLD_TIER_CONTAINER_FILES_H

#include "base/error.h"
#include "tier/spec.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * In the support tmpfs: "root" (directories, and the usual links in /dev and
 * /var), "empty" (a directory that stays so) and, when the
 * policy hides paths, "hide": whiteouts at those paths.
 */
int files_make_layers(int support_fd, const struct sandbox_spec *s,
		      struct error *err);

/* "etc" in the support tmpfs: users, names, hosts, and whiteouts. */
int files_make_etc(int support_fd, const struct sandbox_spec *s,
		   struct error *err);

/*
 * In the support tmpfs a directory of this name with whiteouts for those of
 * s->masked that lie below top, which dir_fd is. 1 if there are any, 0 if not (and there is no
 * such directory), or negative.
 */
int files_make_mask(int support_fd, const char *name, const char *top,
		    int dir_fd, const struct sandbox_spec *s, struct error *err);

/*
 * Makes path (relative, normal) below fd, its parents too: a directory or an
 * empty file. Parents that are made get uid and gid unless -1.
 */
int files_make_point(int fd, const char *path, bool directory, uid_t uid,
		     gid_t gid, struct error *err);

/* Makes the link that the host has at /NAME in the root. */
int files_copy_link(const char *path, int root_fd, struct error *err);

/*
 * ~/.gitconfig, in the directory "home" of the support tmpfs, with the name and
 * the mail address that commits are by; nothing when there are none,
 * unless git has to know files by size and time alone.
 */
int files_make_git(int support_fd, const struct sandbox_spec *s,
		   struct error *err);

/* s->seeds, likewise. */
int files_make_seeds(int support_fd, const struct sandbox_spec *s,
		     struct error *err);

#endif
