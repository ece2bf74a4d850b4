/* Shared by the files that implement task/state.h, and by nobody else. */
#ifndef PINFOLD_TASK_STATE_PRIVATE_H
#define PINFOLD_TASK_STATE_PRIVATE_H

#include "base/error.h"
#include "task/state.h"

#include <dirent.h>

#define STATE_ID_DIGITS "abcdefghijklmnopqrstuvwxyz234567"

/* "cannot WHAT PATH: reason"; returns code. */
int state_fail(struct error *err, int code, const char *what, const char *path);

/* Opens fd/name for reading its entries; NULL and errno. */
DIR *state_read(int fd, const char *name);

/* When a task was started (its lock's time); 0: it has no lock. */
uint64_t state_started(const struct state *s, const char *id);

#endif
