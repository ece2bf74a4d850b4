/*
 * The record of one task: canonical JSON of one versioned schema
 * ("pinfold-task-1"). What is known when the task starts (state "running") is
 * written into its lock file, which exists anyway; task.json appears, whole and
 * at once, when it ends. A later audit log stands behind the same functions.
 */
#ifndef PINFOLD_AUDIT_RECORD_H
#define PINFOLD_AUDIT_RECORD_H

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_MAX (4u << 20)  /* bytes of one task.json */
#define RECORD_ARGV_MAX 16384  /* bytes of argv written; the rest is counted */
#define RECORD_REFUSALS_MAX 256 /* entries kept; the rest is counted */

enum record_state { RECORD_RUNNING, RECORD_ENDED, RECORD_LOST };

/* Why a task ended; reason "exit" and "signal" are the command's own doing. */
enum record_reason {
	REASON_NONE,
	REASON_EXIT,
	REASON_SIGNAL,
	REASON_LIMIT,   /* limit names which */
	REASON_STOPPED, /* stop, kill, a signal to the front end */
	REASON_REFUSED, /* pinfold refused or failed: error holds the text */
	REASON_LOST,    /* front end and keeper died; found later */
};

/* One mechanism that holds: "memory" by "cgroup v1", hard. */
struct record_enforced {
	const char *what;
	const char *mechanism;
	bool hard;
};

/* One thing that was refused or absent. Strings are owned. */
struct record_refusal {
	char *action;  /* "connect", "sendto", "limit" */
	char *object;  /* "192.0.2.1:443", "processes" */
	char *rule;    /* "network: default deny" */
	char *comm;    /* the process's name as claimed; "" if not known */
	int error;     /* errno the caller saw, 0 if none */
	bool claimed;  /* seen by notification: may be racy */
	uint64_t count; /* how often */
	uint64_t at_us; /* wall clock of the first */
};

struct record_usage {
	uint64_t wall_us;
	uint64_t cpu_us;
	uint64_t memory_peak; /* bytes; 0: not measured */
	uint64_t processes_peak;
	uint64_t output_bytes;
	uint64_t disk_bytes;
	uint64_t inodes;
};

struct record_changes {
	bool known; /* false: not enumerated (yet) */
	uint64_t added, modified, deleted;
	uint64_t held; /* of these, what promotion would hold back */
};

struct record {
	char id[32];
	char *name;     /* --label name=..., or NULL */
	enum record_state state;
	enum record_reason reason;
	char *limit;    /* name of the limit hit, or NULL */
	char *error;    /* text of a refusal, or NULL */
	int exit_status; /* as pinfold returned it; -1 while running */
	int signal;     /* the command's deadly signal, or 0 */
	struct strlist argv;
	uint64_t argv_dropped; /* bytes that a record read from disk leaves out */
	struct strlist labels; /* "K=V" */
	/* Directories of the host: tool chains shown, and what was carried in
	 * (caches, agents). The variables that point to them. */
	struct strlist tools, carried, tool_env;
	struct strlist sockets; /* of the host, that could be used */
	char *source;   /* host path, or NULL for none */
	char *workdir;
	char *home;     /* of the commands */
	char *workspace; /* "overlay", "copy", "direct", "none" */
	char *tier;
	char *identity;
	char *kernel;   /* uname -r */
	char policy_digest[SHA256_HEX_SIZE];
	char *policy_name;
	/* Of the list of what was hidden (workspace/hidden.h); "": none. */
	char hidden_digest[SHA256_HEX_SIZE];
	uint64_t uid;   /* of the caller */
	uint64_t started_us, ended_us; /* wall clock */
	struct record_enforced *enforced;
	size_t n_enforced;
	struct strlist enforced_text; /* owns what enforced points to when read */
	struct record_refusal *refusals;
	size_t n_refusals;
	uint64_t refusals_dropped;
	struct record_usage usage;
	struct record_changes changes;
};

void record_init(struct record *r);
void record_done(struct record *r);

/*
 * Counts a refusal: an equal one (action, object, rule, comm) has its count
 * raised, a new one is added up to RECORD_REFUSALS_MAX, more are counted as
 * dropped. 0 or -ENOMEM.
 */
int record_add_refusal(struct record *r, const struct record_refusal *refusal);

/* what and mechanism must be static strings. 0 or -ENOMEM. */
int record_add_enforced(struct record *r, const char *what,
			const char *mechanism, bool hard);

/*
 * Canonical JSON; text that is not UTF-8 has its bytes as \xNN. Numbers beyond
 * 2^53 - 1 are written as that.
 */
int record_to_json(const struct record *r, struct buf *out);

/*
 * Reads what record_to_json wrote: unknown, missing and repeated fields, wrong
 * types and unknown names are errors (-EBADMSG). r is the caller's on success
 * and untouched else.
 */
int record_from_json(const char *json, size_t len, struct record *r,
		     struct error *err);

/*
 * Writes the record of the start into the lock file that state_task_new made.
 * May be called again while the lock is held. A reader at the same moment may
 * see part of it, which it reports as -EBADMSG. 0 or negative.
 */
int record_begin(int lock_fd, const struct record *r, struct error *err);
/* Writes task.json below task_fd atomically (mode 0600). 0 or negative. */
int record_write(int task_fd, const struct record *r, struct error *err);
/*
 * Reads task.json or, in a task that has none, the record of its start. r is
 * the caller's on success. -ENODATA: nothing was written yet.
 */
int record_read(int task_fd, struct record *r, struct error *err);

const char *record_state_name(enum record_state state);
const char *record_reason_name(enum record_reason reason);

#endif
