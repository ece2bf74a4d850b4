/*
 * What the keeper tells init. Init is inside, and may be slow or stopped: the
 * keeper never waits for it. What does not fit into the channel is remembered in
 * a few bits of each exec and told when there is room; an init that takes
 * nothing for TELL_MS ends the task.
 */
#include "task/keeper.h"

#include "base/time.h"

#include <errno.h>
#include <signal.h>

#define TELL_MS 15000u
#define BIT(signal) (UINT64_C(1) << ((signal) - 1))
#define STOPS (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))

int keeper_tell_init(struct keeper *k, uint16_t type, const void *data,
		     size_t len, int fd)
{
	int r = channel_send(k->init_channel, type, data, len, &fd,
			     fd >= 0 ? 1 : 0);

	/* Ours never waits; the kernel may also be short of memory. */
	if (r == -ENOBUFS || r == -ENOMEM)
		r = -EAGAIN;
	if (r == -EAGAIN && k->init_full_us == 0)
		k->init_full_us = time_mono_us();
	else if (r == 0)
		k->init_full_us = 0;
	return r;
}

/* The lowest of the signals of e that are due; 0: none. */
static int next_signal(const uint64_t *bits)
{
	return *bits ? __builtin_ctzll(*bits) + 1 : 0;
}

static int tell_signals(struct keeper *k, struct keeper_exec *e)
{
	for (uint32_t group = 0; group < 2; group++) {
		int signal;

		while ((signal = next_signal(&e->signals_due[group]))) {
			struct exec_signal to = {.id = e->id, .signal = signal,
						 .group = group};

			if (keeper_tell_init(k, INIT_SIGNAL, &to, sizeof(to),
					     -1) == -EAGAIN)
				return -EAGAIN;
			e->signals_due[group] &= e->signals_due[group] - 1;
		}
	}
	return 0;
}

void keeper_tell_due(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		struct keeper_exec *e = &k->execs[i];
		struct exec_head head = {.id = e->id};

		if (e->id == 0)
			continue;
		if (tell_signals(k, e) < 0)
			return;
		if (!e->end_due)
			continue;
		if (keeper_tell_init(k, INIT_END_EXEC, &head, sizeof(head),
				     -1) == -EAGAIN)
			return;
		e->end_due = false;
	}
}

void keeper_tell_signal(struct keeper *k, struct keeper_exec *e, int signal,
			bool group)
{
	if (signal < 1 || signal > 64)
		return;
	/* As for the kernel, going on and stopping undo each other. */
	for (int g = 0; g < 2; g++)
		e->signals_due[g] &= ~(signal == SIGCONT ? STOPS
				       : BIT(signal) & STOPS ? BIT(SIGCONT)
							     : 0);
	e->signals_due[group] |= BIT(signal);
	keeper_tell_due(k);
}

void keeper_tell_end(struct keeper *k, struct keeper_exec *e)
{
	e->end_due = true;
	keeper_tell_due(k);
}

bool keeper_tell_stalled(const struct keeper *k, uint64_t now_us)
{
	return k->init_full_us && now_us >= k->init_full_us + TELL_MS * 1000u;
}
