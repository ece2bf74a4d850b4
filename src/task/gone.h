/*
 * Are a task's processes gone although nobody is left who waited for them? The
 * keeper notes which process is its sandbox's init; whoever comes after its death
 * waits for that one, and with it for all of the sandbox.
 */
#ifndef PINFOLD_TASK_GONE_H
#define PINFOLD_TASK_GONE_H

#include "base/error.h"

#include <sys/types.h>

/*
 * Notes init, which runs, in the task's directory. To be called before anything is
 * started in the sandbox. 0 or negative.
 */
int gone_note(int task_fd, pid_t init, struct error *err);

/*
 * Waits until the init that was noted, and so every process of its sandbox, is
 * gone. 0 (also where none was noted), -EBUSY after timeout_ms, or another
 * error: then it is not known.
 */
int gone_wait(int task_fd, unsigned timeout_ms, struct error *err);

/* Removes the note. */
void gone_forget(int task_fd);

#endif
