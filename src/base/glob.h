/*
 * Patterns over relative paths, component by component. "*" stands for any
 * bytes of one component, "?" for one character, "[a-z]" and "[!a-z]" for one
 * of a set, "**" as a whole component for any number of components, none
 * included; a backslash makes the next character an ordinary one. A leading dot
 * is nothing special. Matching takes time in proportion to the product of both
 * lengths at most and no memory.
 */
#ifndef PINFOLD_BASE_GLOB_H
#define PINFOLD_BASE_GLOB_H

#include <stdbool.h>

/*
 * NULL if pattern is one: relative and normal, brackets closed, "**" only as a
 * whole component. Else what is wrong with it, to follow its name in a text.
 */
const char *glob_fault(const char *pattern);

/* True if the pattern holds anything that is not an ordinary character. */
bool glob_is_magic(const char *pattern);

/* True if the whole path is what the pattern says. */
bool glob_match(const char *pattern, const char *path);

/* True if the path is, or lies below, what the pattern says. */
bool glob_covers(const char *pattern, const char *path);

/*
 * True if what the pattern says can only lie below the path, by the components
 * that stand before its first "**".
 */
bool glob_leads_through(const char *pattern, const char *path);

#endif
