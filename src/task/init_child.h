/*
 * A command before it is one: the child that runs in its parent's memory, beside
 * a parent that goes on, until it execs. Whoever has the commands' uid may stop
 * or kill it there, so nobody waits for it. It sees nothing of the parent but
 * its own struct init_child, and leaves the parent's errno alone.
 */
#ifndef PINFOLD_TASK_INIT_CHILD_H
#define PINFOLD_TASK_INIT_CHILD_H

#include "task/exec_args.h"
#include "task/init.h"

struct init_child {
	const struct init *in;
	struct exec_args args;
	int stdio[3];
	bool confined; /* by the leader already */
	bool tty;
	/* Written by the child before it gives up. */
	int error;
	enum exec_stage stage;
};

/* The child's function: takes a struct init_child, ends by execve or _exit. */
int init_child_run(void *child);

/* Ids, limits, capabilities, Landlock, filter. 0 or a negative errno. */
int init_child_confine(const struct init *in);

/* What a leader tells init through the pipe of its exec. */
struct leader_event {
	enum { LEADER_STARTED, LEADER_FAILED, LEADER_STOPPED, LEADER_ENDED } kind;
	int value; /* pid, errno, signal, wait status */
	int stage;
	uint64_t cpu_us;
};

/* Starts the leader of a pty's session, and it c. 0 or a negative errno. */
int init_leader_start(struct init_exec *e, struct init_child *c);

#endif
