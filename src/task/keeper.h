/*
 * The keeper: one per task. It builds the sandbox, is the parent of its first
 * process and the sole maker of its mounts, holds limits and timers, relays
 * output, and ends, cleans up and records the task whatever dies.
 */
#ifndef PINFOLD_TASK_KEEPER_H
#define PINFOLD_TASK_KEEPER_H

#include "audit/record.h"
#include "base/error.h"
#include "confine/cgroup.h"
#include "task/plan.h"
#include "task/protocol.h"
#include "tier/container.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define KEEPER_EXECS_MAX 64
/* Clients that may have commands, and further ones that may end the task. */
#define KEEPER_EXEC_CLIENTS 64
#define KEEPER_CLIENTS_MAX (KEEPER_EXEC_CLIENTS + 4)
/* How long an exec's output is drained after its command ended, when other
 * processes still hold the pipe (stay only). */
#define DRAIN_MS 100
/* When a task that stays ends, a client that reads nothing for this long gets
 * no more. */
#define CLIENT_STALL_MS 2000
/*
 * A command that was asked for runs within this time, or it is ended: its child
 * has the commands' uid already, and one of them may have stopped it. An init
 * that has not ended it after the same time again is none; the task ends.
 */
#define EXEC_START_MS 15000
/* After SIGKILL everything must be gone in this time, or it is an alarm. */
#define KILL_WAIT_MS 10000

/*
 * Runs the keeper of task id with the descriptors of enum keeper_fd, in a user
 * namespace of its own with all of keeper_caps (front.c), with the programs of
 * that directory; the exit status.
 */
int keeper_main(const char *id, const char *programs);

/* ---- between the files of the keeper ---- */

/* One way of an exec's output: sandbox -> keeper -> client, and the log. */
struct relay {
	int from; /* pipe or pty master of the sandbox; -1: at its end */
	int to;	  /* pipe to the client; -1: nobody listens */
	bool full; /* "to" takes nothing more at the moment */
	/* Of what the command had printed when it ended: at most this is
	 * still to come. */
	uint64_t owed;
};

struct keeper_exec {
	uint32_t id; /* 0: free */
	uint32_t flags;
	int client; /* channel of who asked; owned by the client's slot */
	struct relay relay[2];
	int log; /* out.N; -1: not open (yet, while log_left > 0) */
	uint64_t log_left;
	uint64_t output_bytes;
	uint64_t refusals, lookups; /* of the task when it was asked for */
	uint64_t asked_us;
	bool started;
	bool late; /* to be ended, because it did not start in time */
	bool over; /* the command ended: done is filled */
	/* What init has still to be told: bits of signals to the command and
	 * to its group, and that it shall end. */
	uint64_t signals_due[2];
	bool end_due;
	uint64_t drain_until_us;
	struct exec_done done;
};

/* One process at one look; times in ticks of sysconf(_SC_CLK_TCK). */
struct cpu_seen {
	uint64_t pid, born;
	uint64_t self, waited; /* its own; of those it waited for */
};

struct cpu_list {
	struct cpu_seen *items;
	size_t n, room;
};

struct keeper_cpu {
	struct cpu_list before, now;
	uint64_t sum, lost;
	bool partial; /* this look did not see all */
};

struct keeper_limits {
	uint64_t started_us, last_activity_us; /* monotonic */
	uint64_t next_tick_us, next_sample_us;
	uint64_t output_bytes;
	bool output_over; /* more was printed than is permitted */
	uint64_t cpu_us; /* last sample of the whole sandbox */
	uint64_t memory_peak, processes_peak;
	uint64_t free_blocks, free_inodes; /* of the state's file system */
	uint64_t disk_bytes, disk_inodes;  /* at the last walk */
	/* What a source that is written directly held at the start. */
	uint64_t source_bytes, source_inodes;
	uint64_t next_walk_us, due_walk_us;
	struct keeper_cpu cpu;
	bool by_walking; /* processes and memory are summed from /proc */
};

/* Files without a name, as init counted them last. */
struct keeper_open {
	struct open_files sum;
	uint64_t shared_at_start; /* shared memory of the machine */
	/* What space was free at the last walk that knew of nothing hidden,
	 * what of the disk was known to be taken then, and the most that has
	 * gone since. */
	uint64_t free_bytes, known_bytes, gone_bytes;
	uint64_t next_us;
	bool asked;	  /* no answer yet */
	bool disk_is_odd; /* space went that no walk finds */
};

struct keeper {
	const char *id, *programs; /* of the task; directory of our programs */
	struct task_plan plan;
	bool delegated;	 /* we are in a control group that is ours */
	char *undivided; /* why that is of no use; NULL */
	struct container box;
	struct cgroup cgroup;
	struct record record;
	struct keeper_limits limits;
	struct keeper_open open;
	enum keeper_state state;
	int task_fd, lock_fd, policy_fd;
	int front; /* channel to the front end that started us, or -1 */
	int parent; /* pidfd of that front end, or -1 */
	int listener; /* socket of a task that stays, or -1 */
	int clients[KEEPER_CLIENTS_MAX];
	int init_channel, init_pidfd;
	uint64_t init_full_us; /* its channel has no room since; 0: it has */
	pid_t init_pid;
	int notify; /* seccomp listener until watch has it */
	int watch_channel, watch_pidfd;
	pid_t watch_pid;
	int signals;
	int proc_fd; /* the sandbox's own /proc */
	int source_fd; /* of a source that is written directly, or -1 */
	/* What its tmpfs holds before anything ran. */
	uint64_t own_bytes, own_inodes;
	int null_fd;
	uint64_t refusals, lookups; /* attempts so far; of these, for names */
	uint32_t last_exec;
	int refresher; /* the client that makes the view new, or -1 */
	uint64_t refresh_until_us;
	struct keeper_exec execs[KEEPER_EXECS_MAX];
	/* Why and how the task ends. */
	bool ending;
	bool layers_left; /* to the front end, for cleaning */
	enum record_reason reason;
	char limit[24];
	int stop_signal;     /* what comes before SIGKILL; 0: SIGTERM */
	uint64_t kill_at_us; /* SIGKILL is due then; 0: no stop under way */
	struct message message; /* the one being handled */
};

/*
 * Waits for this message of the front end. False: it is gone, or it gave up,
 * which any other message says too.
 */
bool keeper_expect(struct keeper *k, uint16_t type);

/* keeper_build.c: starts init, which comes up while the plan is made. */
int keeper_begin(struct keeper *k, struct error *err);
/* Undoes that, when there will be no plan. */
void keeper_forget(struct keeper *k);
/* From plan to a sandbox that stands when init answers. */
int keeper_build(struct keeper *k, struct error *err);
/* Why there is no init, when its channel ended without a word. */
int keeper_init_error(const struct keeper *k, struct error *err);
/* After INIT_ENTERED: watch, then our own confinement. */
int keeper_confine(struct keeper *k, struct error *err);

/* keeper_exec.c */
int keeper_exec_request(struct keeper *k, int client, struct message *m);
/* Tells a client that there is no room for it or for its command. */
void keeper_exec_no_room(const struct keeper *k, int client);
void keeper_exec_streams(struct keeper *k, struct message *m);
void keeper_exec_started(struct keeper *k, const struct exec_head *head);
void keeper_exec_stopped(struct keeper *k, const struct exec_signal *s);
void keeper_exec_exited(struct keeper *k, const struct exec_done *done);
void keeper_exec_signal(struct keeper *k, int client,
			const struct exec_signal *s);
void keeper_exec_client_gone(struct keeper *k, int client);
/* Fills poll slots; handles them afterwards. Returns the number of slots. */
size_t keeper_exec_poll(struct keeper *k, struct pollfd *p);
void keeper_exec_handle(struct keeper *k, const struct pollfd *p);
/* Finishes execs that are over and drained; true when none is left open. */
bool keeper_exec_finish(struct keeper *k, uint64_t now_us);
/* Gives up on clients that do not read. */
void keeper_exec_cut(struct keeper *k);
/* Ends what does not start; true when init does not even end it. */
bool keeper_exec_stuck(struct keeper *k, uint64_t now_us);
bool keeper_exec_any(const struct keeper *k);

/* keeper_tell.c: none of these waits for init. */
/* One message, with fd unless it is -1; -EAGAIN when it does not fit. */
int keeper_tell_init(struct keeper *k, uint16_t type, const void *data,
		     size_t len, int fd);
/* These are told now, or as soon as there is room. */
void keeper_tell_signal(struct keeper *k, struct keeper_exec *e, int signal,
			bool group);
void keeper_tell_end(struct keeper *k, struct keeper_exec *e);
/* There may be room again. */
void keeper_tell_due(struct keeper *k);
/* Did init take nothing for so long that it is taken for dead? */
bool keeper_tell_stalled(const struct keeper *k, uint64_t now_us);

/* keeper_limits.c */
void keeper_limits_init(struct keeper *k);
/* Records what holds each limit; -EOPNOTSUPP when a hard one cannot be had. */
int keeper_limits_choose(struct keeper *k, struct error *err);
/* Due checks; names the limit that was hit, or NULL. */
const char *keeper_limits_tick(struct keeper *k, uint64_t now_us);
/*
 * A look at the processes that a command leaves which failed: perhaps a fork
 * was refused to it, and it ended before we saw why.
 */
const char *keeper_limits_failed(struct keeper *k);
/* The last look, when all is dead; ru is what it used. */
const char *keeper_limits_final(struct keeper *k, const struct rusage *ru);
/* The next time anything is due, monotonic. */
uint64_t keeper_limits_next(const struct keeper *k);

/* keeper_cpu.c: a look adds each process, by rising pids, and ends with the
 * ticks of all that ever ran, as far as they are known. */
void keeper_cpu_add(struct keeper_cpu *c, const struct cpu_seen *one);
uint64_t keeper_cpu_end(struct keeper_cpu *c);

/* keeper_open.c */
void keeper_open_init(struct keeper *k);
/* Asks init for open files without a name when there is a reason to. */
void keeper_open_tick(struct keeper *k, uint64_t now_us);
void keeper_open_answer(struct keeper *k, const struct message *m);
/*
 * Before each walk: what space was free at the walk before, and what it knew of
 * the task's. Counting begins there once a walk does not find what went.
 */
void keeper_open_begin(struct keeper *k, uint64_t free_bytes, uint64_t known);
/*
 * What is free now, and what the last walk knew: the most that was ever gone
 * counts, so that nobody who frees space meanwhile hides it.
 */
void keeper_open_note(struct keeper *k, uint64_t free_bytes, uint64_t known);
/* Of what is gone, what may be hidden in mappings and messages. */
uint64_t keeper_open_hidden(const struct keeper *k);

/* keeper_refresh.c */
/* Asks for a new view, or says that it is made. */
void keeper_refresh_begin(struct keeper *k, int client);
void keeper_refresh_end(struct keeper *k, int client);
/* May no command begin, because the view is being made new? */
bool keeper_refreshing(struct keeper *k);

/* keeper_end.c */
/* Ends the task at once because something of ours failed, for the record. */
void keeper_lose(struct keeper *k, const char *why);
/* Starts ending the task: SIGTERM and a grace, or at once. */
void keeper_stop(struct keeper *k, enum record_reason reason, const char *limit,
		 bool graceful);
/* Kills all, waits, records, cleans up, tells the front ends. */
void keeper_finish(struct keeper *k);
/* Tells the front end that the task failed, before anything ran. */
int keeper_fail(struct keeper *k, const struct error *err);

/* keeper_watch.c */
int keeper_watch_start(struct keeper *k, struct error *err);
void keeper_watch_message(struct keeper *k);

#endif
