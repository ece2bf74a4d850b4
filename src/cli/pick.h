/* Which task a verb is about. */
#ifndef PINFOLD_CLI_PICK_H
#define PINFOLD_CLI_PICK_H

#include "audit/record.h"
#include "base/error.h"
#include "task/state.h"
#include "workspace/hidden.h"

struct pick {
	char id[STATE_ID_SIZE];
	int fd; /* of the task's directory */
	bool alive; /* its keeper is; a command at work on it is not it */
	bool no_record; /* it has none, or one that cannot be read */
	bool unnamed; /* the newest of the source, not one that was named */
	struct record record; /* of its end, or of its start while it runs */
	/* After pick_policy, by the task's own policy: what write.0, write.1
	 * ... lie over, and which paths of the source it protects and hides. */
	struct strlist write, protect, deny;
	struct hidden hidden; /* what the task did not see beside that */
};

#define AUTO_PICK __attribute__((cleanup(pick_done)))
#define PICK_INIT {.fd = -1}

void pick_done(struct pick *p);

/*
 * The task with this id or beginning of an id; NULL: the newest of the source
 * that pinfold run would take here. The texts say how to name one.
 */
int pick_task(const struct state *s, const char *want, struct pick *ret,
	      struct error *err);

/*
 * To be said when a task was not named and has no changes (there): which other
 * one of its source has some.
 */
void pick_say_other(const struct state *s, const struct pick *p);

/* A task whose id is known. */
int pick_open(const struct state *s, const char *id, struct pick *ret,
	      struct error *err);

/*
 * Fills what the task's policy says. A task that never got one has none of it.
 * 0 or negative.
 */
int pick_policy(struct pick *p, struct error *err);

/* Changes of a task without a record belong nowhere: -EBADMSG with a text. */
int pick_need_record(const struct pick *p, struct error *err);

/* -EBUSY, and what has the task's lock in words. */
int pick_busy(const struct pick *p, struct error *err);

/*
 * Takes the task's lock, to change what it left: a descriptor that is the
 * caller's, -ENOENT where it never had one, or another negative errno with a
 * text (-EBUSY: it is running).
 */
int pick_claim(const struct pick *p, struct error *err);

/*
 * Opens the host directory that a layer lies over, as the record names it
 * (\xNN stands for a byte). O_PATH descriptor or negative.
 */
int pick_open_below(const char *recorded, struct error *err);

#endif
