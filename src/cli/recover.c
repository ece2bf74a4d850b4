/*
 * Finishes, or takes back, promotions that a crash has interrupted. Every
 * command that looks at sources or tasks calls this first.
 */
#include "base/cleanup.h"
#include "cli/direct.h"
#include "cli/held.h"
#include "cli/report.h"
#include "workspace/direct.h"
#include "workspace/taken.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void say(const char *id, enum journal_phase found)
{
	AUTO_BUF struct buf text = BUF_INIT(256);

	/* Its question was not answered: nothing of it was in the source. */
	if (found == JOURNAL_NEW)
		return;
	buf_addf(&text, "a promotion of %s was interrupted and is now %s", id,
		 found == JOURNAL_GO ? "finished" : "taken back");
	report_note(buf_str(&text));
}

/* As promote_recover, and says which journal is to blame. */
static int recover_layer(const struct promote_layer *l,
			 enum journal_phase *ret_found, struct error *err)
{
	int r = promote_recover(l, ret_found, err);
	unsigned number;

	return r == -EUCLEAN && taken_unfinished(l->fd, &number) == 0
		       ? journal_damaged(number, err)
		       : r;
}

static int recover_direct(const struct pick *p, struct error *err)
{
	AUTO_CLOSE int lock = -1;

	if (!direct_is_noted(p->fd))
		return 0;
	lock = pick_claim(p, err);
	return lock < 0 ? lock : direct_recover(p, err);
}

static int recover(const struct pick *p, struct error *err)
{
	AUTO_LAYERS struct layers l = LAYERS_INIT;
	int r = recover_direct(p, err);

	/* Without its policy it never had a command, nor a promotion. */
	if (r == 0 && faccessat(p->fd, "policy.json", F_OK,
				AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return 0;
	if (r == 0)
		r = layers_open(&l, p, true, err);
	for (size_t i = 0; i < l.n && r == 0; i++) {
		enum journal_phase found;

		do {
			r = recover_layer(&l.items[i], &found, err);
			if (r == 0 && found != JOURNAL_NONE)
				say(p->id, found);
		} while (r == 0 && found != JOURNAL_NONE);
	}
	return r;
}

static void try_task(const struct state *s, const struct pick *p)
{
	struct error err = {0};
	int r = recover(p, &err);

	if (r == 0)
		state_promoted(s, p->id);
	/* Somebody is at it; or the source is gone, and may come back. */
	else if (r != -EBUSY && r != -ENODEV)
		report_note(err.text);
}

static void recover_one(void *arg, const char *id)
{
	const struct state *s = arg;
	AUTO_PICK struct pick p = PICK_INIT;
	struct error err = {0};
	int r = pick_open(s, id, &p, &err);

	if (r == -ENOENT)
		state_promoted(s, id);
	else if (r < 0 || pick_policy(&p, &err) < 0)
		report_note(err.text);
	else
		try_task(s, &p);
}

void recover_task(const struct state *s, struct pick *p)
{
	unsigned number;

	if (direct_is_noted(p->fd) ||
	    (taken_unfinished(p->fd, &number) == 0 && number > 0))
		try_task(s, p);
}

void recover_all(const struct state *s)
{
	state_each_promoting(s, recover_one, (void *)(uintptr_t)s);
}
