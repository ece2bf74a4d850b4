/* Capability sets of the calling thread. */
#ifndef PINFOLD_CONFINE_CAPS_H
#define PINFOLD_CONFINE_CAPS_H

/*
 * Keeps these n capabilities (linux/capability.h) over the exec of a program by
 * a user who is not 0, by the inheritable and ambient sets. 0 or -errno.
 */
int caps_keep_over_exec(const int *caps, int n);

/* No program that this process starts has them any more by that. */
void caps_not_over_exec(void);

/*
 * Empties the ambient and the bounding set: no later exec gains anything. The
 * caller keeps what it has. 0 or -errno.
 */
int caps_seal(void);

/*
 * Of all capabilities only this one is left, and it is kept over every exec,
 * also of a user who is not 0. Whoever does not have it is left with none. 0 or
 * -errno.
 */
int caps_keep_one(int cap);

/* Empties every set of the calling thread. 0 or -errno. */
int caps_drop_all(void);

#endif
