#include "base/cleanup.h"
#include "base/num.h"
#include "cli/launch.h"
#include "cli/task_connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Longer than any kill takes (KILL_WAIT_MS), beside the grace. */
#define ANSWER_MS 15000

/* Waits until the keeper has cleaned up and says so. */
static int wait_ended(struct front *f, const char *id, uint64_t grace_ms,
		      struct error *err)
{
	static struct message m;

	for (;;) {
		struct pollfd p = {.fd = f->channel, .events = POLLIN};
		int r = poll(&p, 1, (int)(ANSWER_MS + grace_ms));

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			return error_set(err, -ETIMEDOUT,
					 "task %s does not end; see `pinfold "
					 "ps %s`", id, id);
		r = channel_recv(f->channel, &m);
		if (r <= 0)
			return 0;
		message_done(&m);
		if (m.type == FRONT_ENDED)
			return 0;
	}
}

static int end_task(const struct options *o, enum stop_kind kind)
{
	struct stop_request stop = {.kind = kind};
	const char *grace = options_get(o, OPT_GRACE);
	AUTO_CLOSE int task_fd = -1;
	struct front f = FRONT_INIT;
	char id[STATE_ID_SIZE];
	struct error err = {0};
	int r;

	if (grace && num_parse_duration(grace, &stop.grace_ms) < 0) {
		error_set(&err, -EINVAL, "--grace %s is no duration", grace);
		return launch_refuse(&err);
	}
	if (o->n_rest != 1) {
		error_set(&err, -EINVAL, "%s needs one task: pinfold %s ID",
			  o->verb, o->verb);
		return launch_refuse(&err);
	}
	r = task_connect(o->rest[0], &f, id, &task_fd, &err);
	if (r == 0) {
		r = channel_send(f.channel, FRONT_STOP, &stop, sizeof(stop),
				 NULL, 0);
		if (r < 0)
			error_set(&err, r, "cannot reach task %s: %s", id,
				  strerror(-r));
	}
	if (r == 0)
		r = wait_ended(&f, id, stop.grace_ms, &err);
	front_done(&f);
	return r < 0 ? launch_refuse(&err) : 0;
}

int verb_stop(const struct options *o)
{
	return end_task(o, STOP_GRACEFUL);
}

int verb_kill(const struct options *o)
{
	return end_task(o, STOP_KILL);
}
