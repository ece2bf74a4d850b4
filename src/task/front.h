/*
 * The front end's side of a task: starts the keeper, asks for execs, relays
 * between the caller's terminal or files and the command's streams, forwards
 * signals.
 */
#ifndef PINFOLD_TASK_FRONT_H
#define PINFOLD_TASK_FRONT_H

#include "base/error.h"
#include "task/plan.h"
#include "task/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct front {
	int channel;
	pid_t keeper;	  /* 0: not our child */
	int keeper_pidfd; /* -1: not our child */
	/*
	 * How long an attended exec may take (0: no bound) before it gets
	 * SIGTERM, and how long after that before its channel is closed, which
	 * ends it.
	 */
	uint64_t timeout_ms, grace_ms;
	/*
	 * Called once the sandbox of a run is being killed, whose layers are
	 * ours to clean, when the keeper leaves that to us. NULL: nothing.
	 */
	void (*ending)(void *arg);
	void *ending_arg;
};

#define FRONT_INIT {.channel = -1, .keeper_pidfd = -1}

/*
 * Starts the keeper of task id from the directory of our programs, in a user
 * namespace of its own; it ends with our channel. Done early: it
 * comes up while the plan is made.
 */
int front_spawn(struct front *f, const char *programs, const char *id,
		struct error *err);

/*
 * Writes the keeper's id maps and lets it begin: it makes the task's groups,
 * which the next sweep must know of, and starts init. Of s the ids count.
 * delegated: delegate_scope has put it into a group of its own.
 */
int front_begin(struct front *f, const struct sandbox_spec *s, bool delegated,
		struct error *err);

/* Hands over what container_clone made. The descriptors stay the caller's. */
int front_send_clones(struct front *f, const int *fds, size_t n,
		      struct error *err);

/* Why there is no keeper, when its channel ended: 0 if it did start. */
int front_spawn_error(struct error *err);

/*
 * Hands the keeper its plan. policy is the snapshot's text. The descriptors
 * stay the caller's.
 */
int front_send_plan(struct front *f, const struct task_plan *plan,
		    const char *policy, size_t policy_len, int task_fd,
		    int lock_fd, struct error *err);

/* Connects to the socket of a task that stays. */
int front_connect(struct front *f, const char *socket_path, struct error *err);

/*
 * Asks a task that stays to start nothing while its view is made new, and tells
 * what is needed for that; fds by enum view_fd, the caller's. Then says that it
 * was made. The text says why not, and the way out.
 */
int front_refresh(struct front *f, struct refresh_view *ret,
		  int ret_fds[VIEW_FD_COUNT], struct error *err);
int front_refreshed(struct front *f, struct error *err);

/* Waits until the sandbox stands (FRONT_READY). */
int front_wait_ready(struct front *f, struct error *err);

/* Sends one exec; flags of enum exec_flag, except that the pty's size is the
 * caller's terminal's. */
int front_exec(struct front *f, const char *workdir, char *const argv[],
	       char *const envp[], uint32_t flags, struct error *err);

/* What attending an exec came to. */
struct front_outcome {
	bool done_known;
	struct exec_done done; /* the exec's end */
	bool ended_known;
	struct task_ended ended; /* the task's end (run; or it ended meanwhile) */
	int output_error; /* errno: the caller's stdout or stderr takes no more */
	bool lost; /* the keeper died: clean up after it */
	bool timed_out; /* timeout_ms passed */
	bool asked_end; /* a signal to us asked for the end of the task */
	/* The signal that came before the command ran, or 0: the task, or the
	 * exec, is to be abandoned. */
	int interrupted;
	/* What came last to standard error was not the end of a line. */
	bool open_line;
};

/*
 * From here on SIGTERM, SIGINT, SIGHUP and SIGQUIT are noted, unless the caller
 * ignores them, until front_attend passes them on to a command that runs. What
 * takes time before that asks front_signal between its steps.
 */
void front_catch_signals(void);
/* The first one that was noted, or 0. */
int front_signal(void);

/*
 * Attends the exec that was asked for until it is done (whole_task: until the
 * task ended). An error is the task's failure, with its own text; 125.
 */
int front_attend(struct front *f, uint32_t flags, bool whole_task,
		 struct front_outcome *ret, struct error *err);

/* Waits for the keeper, if it is our child, and closes everything. */
void front_done(struct front *f);

/* True if two descriptors are one open file. */
bool front_same_file(int a, int b);

#endif
