/*
 * pinfold-watch: answers the notifications of connect and sendto. It copies the
 * address that the call points to, sends a record of fixed size to the keeper,
 * and lets the call go on; what it saw is "as claimed", for the process may
 * change its memory meanwhile. Nothing depends on it: there is no network.
 */
#ifndef PINFOLD_TASK_WATCH_H
#define PINFOLD_TASK_WATCH_H

enum watch_fd {
	WATCH_FD_NOTIFY = 3,
	WATCH_FD_CHANNEL,
	WATCH_FD_KEEPER,
	WATCH_FD_PROGRAM, /* of the waiter: what it becomes */
	WATCH_FD_COUNT,
};

/* Returns the exit status, when the sandbox is gone. */
int watch_main(void);

#endif
