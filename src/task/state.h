/*
 * The state directory: where tasks live on disk, which of them are alive, and
 * what is left of those that died.
 *
 *	pinfold/	  0700, the caller's own
 *	  tasks/ID/	  lock task.json policy.json upper work write.N manifest
 *			  hidden out.N
 *	  live/ID	  an empty file for each task that was not ended yet
 *	  promoting/ID	  likewise while its changes are promoted or taken back
 *	  swept		  its time: when the last full sweep was
 *
 * Theory of operation. A task is alive while somebody holds a flock on its
 * lock file; whoever inherits the descriptor holds it too, so the lock is free
 * when the last process of the task's own is gone, however it died. The lock
 * is taken before the name appears in live/, so a name there with a free lock
 * is a task that ended: state_sweep looks at these names alone and costs the
 * same however many records there are. lock's content is the record of the
 * start (record_begin), task.json appears when the task ends: a task without
 * task.json was never ended by anybody. The time a task was started is the
 * modification time of its lock.
 */
#ifndef PINFOLD_TASK_STATE_H
#define PINFOLD_TASK_STATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_ID_SIZE 19 /* "t-", 16 of a-z2-7, NUL */
#define STATE_RECORD_DAYS 90
/* Names in live/ looked at by one sweep, and records removed by one. */
#define STATE_SWEEP_MAX 32
#define STATE_EXPIRE_MAX 256

struct state {
	char *path; /* of pinfold/ */
	int fd;	    /* O_PATH */
	int tasks_fd;
};

#define AUTO_STATE __attribute__((cleanup(state_close)))
#define STATE_INIT {.fd = -1, .tasks_fd = -1}

/*
 * Opens the state directory and makes what is missing (0700). Root's is
 * /var/lib/pinfold; a user's is $XDG_STATE_HOME/pinfold, else
 * ~/.local/state/pinfold with HOME from the environment, else from passwd. The
 * root of a user namespace that does not own /var/lib is such a user. Refuses
 * (-EPERM) what belongs to somebody else or can be written by others.
 */
int state_open(struct state *ret, struct error *err);
/* Likewise, in a directory named by the caller. */
int state_open_path(const char *path, struct state *ret, struct error *err);
void state_close(struct state *s);

bool state_is_id(const char *id);

/* A name that no other task has: 80 random bits. */
int state_new_id(char ret[STATE_ID_SIZE], struct error *err);

/*
 * Makes a new task: its directory, with lock held. The descriptors are
 * O_CLOEXEC and the caller's; lock can be written (record_begin).
 */
int state_task_new(const struct state *s, const char *id, int *ret_fd,
		   int *ret_lock_fd, struct error *err);

/*
 * Says that the task has its final record. Never needed: the next sweep finds
 * out by itself.
 */
void state_task_end(const struct state *s, const char *id);

/*
 * The newest task that has ended, of this source as its record names it, whose
 * changes were neither promoted nor discarded; another than the task "but".
 * -ENOENT: there is none.
 */
int state_newest_pending(const struct state *s, const char *recorded,
			 const char *but, char ret_id[STATE_ID_SIZE]);

/*
 * Opens a task's directory. want: an id, a beginning of one that is unique
 * (with or without "t-"), or NULL: the newest task whose record names this
 * source (source NULL: the newest of all). -ENOENT, -ENOTUNIQ (the text gives
 * some that fit), -EINVAL (no id).
 */
int state_task_open(const struct state *s, const char *want,
		    const char *source, char ret_id[STATE_ID_SIZE], int *ret_fd,
		    struct error *err);

/*
 * The keeper of a task that is alive, for the case that its socket is gone: by
 * its program and working directory, which is the task's. A pidfd, or -ESRCH.
 */
int state_task_keeper(int task_fd);

/* Is the task alive? A task without a lock file is not. */
bool state_task_alive(int task_fd);

/*
 * Takes the lock of a task that is not alive, to change what it left.
 * Descriptor, -EBUSY when it is alive, or another negative errno.
 */
int state_task_claim(int task_fd);

/*
 * A task's layers: upper (of the source), and write.0/upper, write.1/upper ...
 * of the further directories that it may write.
 */
#define STATE_WRITE_NAME_MAX 32
#define STATE_WRITE_MAX 4096 /* as many as a policy's list holds */
void state_write_name(size_t i, char name[STATE_WRITE_NAME_MAX]);

/* True if a layer holds anything. In copy mode the source's always does. */
bool state_task_has_changes(int task_fd);

/*
 * Notes that all of a task's changes are in its source, or that they are not
 * any more; and whether a task has changes that are nowhere else.
 */
void state_task_mark_promoted(int task_fd, bool all);
bool state_task_has_pending(int task_fd);

/* Removes all layers, what the overlays kept beside them, and the manifest. */
int state_task_drop_changes(int task_fd, struct error *err);

/*
 * Notes that a task's changes are being promoted, so that who comes after a
 * crash finds it; and that this is over. Returns 0 or negative.
 */
int state_promoting(const struct state *s, const char *id, struct error *err);
void state_promoted(const struct state *s, const char *id);

/*
 * Calls fn for each task noted so. One failing system call where there is none,
 * which is what a start pays.
 */
typedef void state_promoting_fn(void *arg, const char *id);
void state_each_promoting(const struct state *s, state_promoting_fn *fn,
			  void *arg);

/* Removes a task with all it left. -EBUSY while it is alive. */
int state_task_remove(const struct state *s, const char *id, struct error *err);

struct state_task {
	char id[STATE_ID_SIZE];
	uint64_t started_us; /* wall clock; 0: it has no lock */
};

/*
 * All tasks, newest first; *ret is the caller's to free (NULL when there are
 * none).
 */
int state_list(const struct state *s, struct state_task **ret, size_t *ret_n,
	       struct error *err);

/* Of these alone those that may be alive, whatever number has ended. */
int state_list_live(const struct state *s, struct state_task **ret,
		    size_t *ret_n, struct error *err);

/*
 * Called for each task found dead without a record, while it is claimed, for
 * what only others know of (its control groups).
 */
typedef void state_lost_fn(void *arg, const char *id, int task_fd);

/*
 * Cleans up behind tasks that died: they get a record that says so (state
 * "lost"), their sockets and work directories go, their changes stay. Called at
 * each start: looks at no more than STATE_SWEEP_MAX tasks that seem alive (a
 * random choice when there are more). Once a day it reads all of tasks/, where
 * records older than STATE_RECORD_DAYS without changes are removed. Returns how
 * many tasks were found lost, or negative.
 */
int state_sweep(const struct state *s, state_lost_fn *fn, void *arg,
		struct error *err);

/* The same for one task alone, by those who know that it ended. */
int state_sweep_one(const struct state *s, const char *id, state_lost_fn *fn,
		    void *arg, struct error *err);

/*
 * The directory for sockets: $XDG_RUNTIME_DIR/pinfold or, without that variable
 * or where it is not the caller's, /run/user/UID/pinfold; root: /run/pinfold;
 * where there is none of these, /tmp/pinfold-UID. Made with mode 0700 if it is
 * missing; -EPERM if it belongs to somebody else or others may enter it.
 * Returns a descriptor (O_PATH); *ret_path, if not NULL, is the caller's.
 */
int state_runtime_dir(char **ret_path, struct error *err);

#endif
