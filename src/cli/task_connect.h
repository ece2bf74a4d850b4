/* Finding and reaching a task that stays. */
#ifndef PINFOLD_CLI_TASK_CONNECT_H
#define PINFOLD_CLI_TASK_CONNECT_H

#include "base/error.h"
#include "task/front.h"
#include "task/state.h"

/*
 * Opens the task that want means (an id or the beginning of one) and connects
 * to its keeper. -ESRCH when it is not running. The text is for the user. Of a
 * task that runs *ret_fd is its directory, also when it cannot be reached.
 */
int task_connect(const char *want, struct front *f, char id[STATE_ID_SIZE],
		 int *ret_fd, struct error *err);

#endif
