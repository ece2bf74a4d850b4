/*
 * Process 1 of a sandbox: places the mounts that the keeper made, enters the
 * new root, then starts, signals and reaps the commands that the keeper asks
 * for. It keeps its capabilities over the sandbox's own namespaces and gives
 * none on.
 */
#ifndef PINFOLD_TASK_INIT_H
#define PINFOLD_TASK_INIT_H

#include "base/error.h"
#include "base/str.h"
#include "ipc/channel.h"
#include "task/exec_args.h"
#include "task/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum init_fd { INIT_FD_CHANNEL = 3, INIT_FD_KEEPER, INIT_FD_COUNT };

#define INIT_EXECS_MAX 64

/* What the keeper tells init once, with INIT_ENTER. */
struct init_config {
	char *hostname;
	bool nesting;
	uint32_t uid, gid;      /* of the command, inside */
	uint64_t processes;     /* RLIMIT_NPROC, or UINT64_MAX */
	uint64_t open_files;    /* RLIMIT_NOFILE, or UINT64_MAX */
	uint64_t file_size;     /* RLIMIT_FSIZE, or UINT64_MAX */
	uint32_t cpus;          /* CPUs to run on; 0: all */
	struct strlist write_paths; /* what Landlock lets commands write */
};

int init_config_pack(const struct init_config *c, struct buf *b);
int init_config_unpack(const void *data, size_t len, struct init_config *ret);
void init_config_done(struct init_config *c);

/* Never returns; exits 125 when it cannot go on. */
_Noreturn void init_main(void);

/* ---- between the files of init ---- */

struct init_exec {
	uint32_t id; /* 0: the slot is free */
	uint32_t flags;
	pid_t pid;    /* the command; 0 until it is known */
	pid_t leader; /* its session leader under a pty; else 0 */
	/* Pipe from the leader; without one, what closes when the command is
	 * off or gone. -1: settled. */
	int events;
	bool running;	/* the command, and no child of ours any more */
	uint64_t early; /* bits of signals that came before that */
};

/* A session that is being killed. */
struct init_kill {
	long session; /* 0: free */
	uint64_t until_us;
	int clean; /* passes that found nobody */
};

struct init {
	struct init_config config;
	int channel;
	int ruleset; /* Landlock, or -1 with nesting */
	int signals; /* signalfd of SIGCHLD */
	bool reap_more; /* not all that ended was looked at */
	struct init_exec execs[INIT_EXECS_MAX];
	struct init_kill kills[INIT_EXECS_MAX];
};

/* Starts a command (INIT_EXEC), and takes args. The keeper hears the outcome. */
void init_exec_start(struct init *in, const struct exec_head *head,
		     struct exec_args *args);
/* Takes one event from e's pipe; true when there may be more. Never waits. */
bool init_exec_event(struct init *in, struct init_exec *e);
/* The child of e has become its command, or is gone. */
void init_exec_settle(struct init *in, struct init_exec *e);
/* Tells the keeper that e ended, and frees the slot. */
void init_exec_ended(struct init *in, struct init_exec *e,
		     const struct exec_done *done);
/* Answers INIT_COUNT_OPEN. */
void init_open_count(const struct init *in);
/* Begins to kill every process of e's session. */
void init_exec_kill(struct init *in, const struct init_exec *e);
/* Goes on with that. How many milliseconds later again, -1: it is done. */
int init_kill_turn(struct init *in);
/* Ends the sandbox, and tells the keeper why. */
_Noreturn void init_fail(const struct init *in, int code, const char *why);

#endif
