/*
 * The messages between front end, keeper, init and watch: types, payloads, and
 * in which state each is permitted (protocol.c).
 *
 *   front end                keeper                         init
 *      | -- FRONT_BEGIN ------>|  starts init                 |
 *      | -- FRONT_PLAN ------->|                              |
 *      | -- FRONT_CLONES ----->|  (root's id-mapped mounts)   |
 *      |                       | -- INIT_JOIN --------------->|
 *      |                       | -- INIT_MOUNTS (each batch)->|
 *      |                       | -- INIT_ENTER -------------->|
 *      | -- FRONT_EXEC ------->| -- INIT_EXEC --------------->|
 *      |                       |<------- INIT_ENTERED --------|
 *      | <- FRONT_READY -------|                              |
 *      | <- FRONT_STREAMS -----|<------- INIT_STREAMS --------|
 *      | -- FRONT_SIGNAL ----->| -- INIT_SIGNAL ------------->|
 *      | <- FRONT_STOPPED -----|<------- INIT_STOPPED --------|
 *      | <- FRONT_DONE --------|<------- INIT_EXITED ---------|
 *      | <- FRONT_ENDING ------|  kills init
 *      | <- FRONT_ENDED -------|  wrote the record
 *
 * For pinfold refresh a client sends FRONT_REFRESH, gets FRONT_VIEW, makes the
 * view new while the keeper starts no command, sends FRONT_REFRESHED and gets it
 * back.
 *
 * FRONT_FAILED may come from the keeper, and INIT_FAILED from init, instead of
 * anything else: text of an error; the task is over.
 */
#ifndef PINFOLD_TASK_PROTOCOL_H
#define PINFOLD_TASK_PROTOCOL_H

#include "ipc/channel.h"

#include <stddef.h>
#include <stdint.h>

enum front_message {
	/* Front end to keeper. */
	FRONT_BEGIN = 1,     /* struct begin: the id maps are written */
	FRONT_PLAN,	     /* fds: enum plan_fd */
	FRONT_CLONES,	     /* fds: the next of container_clone's */
	FRONT_EXEC,   /* struct exec_head; fd: packed arguments */
	FRONT_SIGNAL, /* struct exec_signal */
	FRONT_STOP,   /* struct stop_request: ends the task */
	FRONT_REFRESH, /* no command is to begin, for the view is made new */
	FRONT_REFRESHED, /* it is; the keeper says it back */
	/* Keeper to front end. */
	FRONT_READY = 32, /* sandbox stands: struct ready_head */
	FRONT_STREAMS, /* struct exec_streams; fds */
	FRONT_STARTED, /* struct exec_head: the command runs */
	FRONT_STOPPED, /* struct exec_signal: stopped under its pty */
	FRONT_DONE,    /* struct exec_done */
	FRONT_ENDING,  /* a run: its layers are the front end's to clean */
	FRONT_ENDED,   /* struct task_ended */
	FRONT_FAILED,  /* struct failure */
	FRONT_VIEW,    /* struct refresh_view; fds: enum view_fd */
};

enum init_message {
	/* Keeper to init. */
	INIT_JOIN = 64, /* fds: files of control groups that take it in */
	INIT_MOUNTS,    /* a path, NUL-terminated, for each detached mount */
	INIT_ENTER,     /* packed struct init_config */
	INIT_EXEC,       /* struct exec_head; fd: packed arguments */
	INIT_SIGNAL,     /* struct exec_signal */
	INIT_END_EXEC,   /* struct exec_head: kill its session */
	INIT_COUNT_OPEN, /* what open files without a name hold? */
	/* Init to keeper. */
	INIT_ENTERED = 96, /* fds: seccomp listener, the sandbox's /proc */
	INIT_STREAMS,      /* struct exec_streams; fds */
	INIT_STARTED,      /* struct exec_head */
	INIT_STOPPED,      /* struct exec_signal */
	INIT_EXITED,       /* struct exec_done */
	INIT_OPEN_FILES,   /* struct open_files */
	INIT_FAILED,       /* struct failure */
	/* Watch to keeper. */
	WATCH_RECORD = 128, /* struct watch_record */
};

enum exec_flag {
	EXEC_TTY = 1,
	EXEC_MERGE = 2,    /* one pipe for stdout and stderr */
	EXEC_NO_STDIN = 4, /* stdin is /dev/null */
};

struct begin {
	uint32_t delegated; /* the keeper is in a cgroup of its own */
};

struct exec_head {
	uint32_t id; /* chosen by the keeper; 0 in FRONT_EXEC */
	uint32_t flags;
	uint16_t rows, cols;
	uint32_t reserved;
};

/* Descriptors: without a pty stdin (unless none), stdout, stderr (unless
 * merged); with one: the pty's master, and for front ends the output pipe. */
struct exec_streams {
	uint32_t id;
	uint32_t flags;
};

struct exec_signal {
	uint32_t id;
	int32_t signal;
	uint32_t group; /* 1: the command's process group */
};

struct exec_done {
	uint32_t id;
	int32_t status;     /* as of wait(2); -1: see stage */
	int32_t exec_errno; /* why, but for STAGE_LOST */
	uint32_t stage;     /* enum exec_stage, with exec_errno */
	uint64_t cpu_us;
	uint64_t output_bytes;
	/* Network attempts that were refused while it ran, whoever made them;
	 * how many of them looked up a name. By the keeper. */
	uint64_t refusals, lookups;
	char limit[24]; /* name of the limit that ended it, or "" */
};

/* What failed when a command has no status. */
enum exec_stage {
	STAGE_EXEC,
	STAGE_WORKDIR,
	STAGE_CONFINE,
	STAGE_STREAMS,
	/* It did start, but its end is not known, or its output is not whole. */
	STAGE_LOST,
	STAGE_OUTPUT,
	/* It did not start in time, and was ended. */
	STAGE_LATE,
};

/* Held by files without a name that processes have open. */
struct open_files {
	uint64_t disk_bytes, disk_inodes;
	uint64_t memory_bytes;
	/* At most this much of the disk is held otherwise: by mappings, or,
	 * UINT64_MAX, by messages. */
	uint64_t hidden_bytes;
};

enum stop_kind { STOP_GRACEFUL = 1, STOP_KILL };

/*
 * Who cannot reach the keeper's socket, as a run has none, asks by SIGTERM with
 * a value: the grace in milliseconds, 0 for none and STOP_GRACE_PLAN for the
 * plan's own.
 */
#define STOP_GRACE_PLAN (-1)

struct stop_request {
	uint32_t kind;
	uint32_t signal;   /* sent first, SIGTERM when 0 */
	uint64_t grace_ms; /* 0: as the plan says */
};

struct ready_head {
	int32_t init_pid;
	uint32_t reserved;
};

struct task_ended {
	int32_t reason; /* enum record_reason */
	uint32_t changes_known;
	uint64_t refusals, lookups; /* attempts; of these, look-ups of names */
	uint64_t memory_peak, processes_peak, cpu_us, wall_us;
	char limit[24];
	uint32_t identical; /* nothing was changed */
	uint32_t lost_record; /* task.json could not be written */
	uint32_t left_over; /* something could not be removed: sweep it */
	uint32_t reserved;
};

struct failure {
	int32_t code;
	char text[ERROR_TEXT_MAX];
};

/* No command begins for so long while a client makes the view new. */
#define REFRESH_MAX_MS 600000u

enum view_fd { VIEW_FD_KEEPER, VIEW_FD_INIT, VIEW_FD_COUNT }; /* pidfds */

/* What a client has to know of the sandbox to make its view new. */
struct refresh_view {
	uint64_t source_dev, source_ino;
	/* Owner of the source; the command, as the host sees it. */
	uint32_t owner_uid, owner_gid, outer_uid, outer_gid;
	uint32_t root_caller;
	uint32_t hides;	     /* there is a layer over the source that hides */
	char hide_path[256]; /* .. which is kept, and not the task's; or "" */
};

/* One observed attempt, of fixed size. Everything is as claimed. */
struct watch_record {
	int32_t pid;
	int32_t call; /* system call number */
	uint32_t family;
	uint16_t port;
	uint16_t reserved;
	uint8_t address[16];
	char path[108]; /* AF_UNIX; "@..." abstract */
};

/* What comes with FRONT_PLAN, in this order. */
enum plan_fd {
	PLAN_FD_PLAN,	/* sealed memfd of the packed plan */
	PLAN_FD_POLICY, /* sealed memfd of the policy snapshot */
	PLAN_FD_TASK,	/* the task's directory */
	PLAN_FD_LOCK,	/* its lock, held */
	PLAN_FD_COUNT,
};

/* States of the keeper's side of each channel, as bits. */
enum keeper_state {
	KEEPER_STARTING = 1, /* until its id maps are written */
	KEEPER_WAITING = 2,  /* for its plan, while init comes up */
	KEEPER_BUILDING = 4,
	KEEPER_RUNNING = 8,
	KEEPER_ENDING = 16,
};

extern const struct message_rule keeper_from_front[];
extern const size_t n_keeper_from_front;
extern const struct message_rule keeper_from_init[];
extern const size_t n_keeper_from_init;
extern const struct message_rule keeper_from_watch[];
extern const size_t n_keeper_from_watch;
extern const struct message_rule front_from_keeper[];
extern const size_t n_front_from_keeper;
extern const struct message_rule init_from_keeper[];
extern const size_t n_init_from_keeper;

/* States of init. */
enum init_state { INIT_BUILDING = 1, INIT_RUNNING = 2 };

#endif
