/*
 * The layers of a task and what each lies over, made ready for promotion: the
 * task's lock is held, and what was interrupted is finished or taken back.
 */
#ifndef PINFOLD_CLI_HELD_H
#define PINFOLD_CLI_HELD_H

#include "cli/git_run.h"
#include "cli/pick.h"
#include "workspace/promote.h"
#include "workspace/protect.h"

struct layers {
	struct promote_layer *items; /* those that the task has */
	struct protect *protect;     /* one for each */
	size_t n;
	struct strlist deny; /* of the source's */
	int64_t since_ns;    /* see struct promote_layer */
	int lock;
	struct git_program *git; /* for the source's repository */
};

#define LAYERS_INIT {.lock = -1}
#define AUTO_LAYERS __attribute__((cleanup(layers_done)))

/*
 * Opens all. -EBUSY for a task that runs (the text says what to do). p must
 * outlive ret, and pick_policy have been called. gone_too: also layers whose
 * directory does not exist any more (source_fd is -1 then).
 */
int layers_open(struct layers *ret, const struct pick *p, bool gone_too,
		struct error *err);
/*
 * As layers_open, to look only, without the lock: also of a task that runs. What
 * it opens may change at any moment, unless nothing runs in it.
 */
int layers_look(struct layers *ret, const struct pick *p, struct error *err);
void layers_done(struct layers *l);

/* What of files.deny lies in the source, relative to it. 0 or -ENOMEM. */
int held_deny(const struct strlist *deny, const char *source,
	      struct strlist *ret, struct error *err);

/*
 * Finishes or takes back what was interrupted, of every task of the caller, and
 * says so. What cannot be finished is said too, and stays for the next time.
 */
void recover_all(const struct state *s);

/* The same of one task that is looked at, also where its mark was lost. */
void recover_task(const struct state *s, struct pick *p);

#endif
