/*
 * The control groups of one task: version 2 where its controllers can be used,
 * else the version 1 hierarchies that are there, else none. What holds which
 * limit is reported, so that the rest falls to resource limits and watchdogs.
 */
#ifndef PINFOLD_CONFINE_CGROUP_H
#define PINFOLD_CONFINE_CGROUP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_UNIFIED, /* version 2 directory: cgroup.kill */
	CGROUP_COUNT,
};

struct cgroup {
	int parent[CGROUP_COUNT]; /* directories that hold ours; -1: none */
	int dir[CGROUP_COUNT];    /* ours; -1: this controller is not used */
	int tasks[CGROUP_COUNT];  /* file that takes a process in, or -1 */
	bool v2;                  /* the controllers are version 2's */
	char name[48];            /* of each of our directories */
};

/* Limits for cgroup_limit; UINT64_MAX: none. */
struct cgroup_limits {
	uint64_t memory;
	uint64_t processes;
	uint64_t cpus_milli;
	/* CPU time is to be known: a version 2 group counts it without any
	 * controller, those who are dead included. */
	bool count_cpu;
};

/*
 * The task's groups are named pinfold-ID and made beside or below the caller's
 * own. This makes the version 2 one, in which the first process is started
 * before its limits are known: it cannot be moved there cheaply.
 */
void cgroup_make(struct cgroup *c, const char *id);

/*
 * Sets the limits, in version 1 groups that are made now. A controller that is
 * missing or not writable is left out (dir stays -1); an error is a limit that
 * could not be written although its group is there. The groups stay the
 * caller's to remove.
 */
int cgroup_limit(struct cgroup *c, const struct cgroup_limits *limits,
		 struct error *err);

/*
 * The files of groups that cgroup_limit made. The task's first process writes
 * "0" into each while it is alone: in "tasks" that is the one move that takes
 * no lock of all CPUs (cgroup_procs_write_start in the kernel's cgroup.c).
 * They stay the group's. Returns how many.
 */
size_t cgroup_files(const struct cgroup *c, int ret[CGROUP_COUNT]);

/*
 * True if a group for each of these limits could be made, without making one.
 */
bool cgroup_at_hand(const struct cgroup_limits *limits);

/*
 * The same below the caller's own version 2 group, which was delegated to it:
 * the caller, alone in it and with one thread, moves into a child "keeper", so
 * that the group may hand its controllers down. Who delegated it removes it.
 */
int cgroup_make_delegated(struct cgroup *c, const char *id, struct error *err);

/* "cgroup v2", "cgroup v1", or NULL when the controller is not used. */
const char *cgroup_mechanism(const struct cgroup *c, enum cgroup_controller k);

/*
 * The version 2 group, for CLONE_INTO_CGROUP; -1 when there is none. Moving a
 * process in later would wait for every CPU (a grace period, ten milliseconds).
 */
int cgroup_unified(const struct cgroup *c);

/*
 * The limit of ours that was hit ("memory", "processes"), or NULL: groups above
 * have limits too, which refuse and kill in ours. processes is our limit, seen
 * the most that the caller ever found in the group, for kernels without a peak.
 */
const char *cgroup_limit_hit(const struct cgroup *c, uint64_t processes,
			     uint64_t seen);

/* Highest memory use in bytes; 0 when it is not known. */
uint64_t cgroup_memory_peak(const struct cgroup *c);

/*
 * Most processes and threads at once, or how many there are now where the
 * kernel does not keep that; 0 when it is not known.
 */
uint64_t cgroup_processes_peak(const struct cgroup *c);

/* Processor time of all, killed ones included; 0 when it is not known. */
uint64_t cgroup_cpu_us(const struct cgroup *c);

/*
 * Kills everything in the task's version 2 group, or lets nothing fork in its
 * version 1 group any more; the caller kills the first process too.
 */
void cgroup_kill(const struct cgroup *c);

/*
 * Removes the groups; they must be empty. Safe to call again. Negative: one is
 * left, for cgroup_remove_stale.
 */
int cgroup_remove(struct cgroup *c);

/*
 * Removes the groups of a task whose keeper is gone (after killing what is left
 * in them). Called by the next start.
 */
void cgroup_remove_stale(const char *id);

#endif
