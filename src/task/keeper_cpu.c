/*
 * CPU time where no group counts it. The kernel adds what a process used to who
 * waited for it, and to nobody when its parent ignores its end. So each look
 * remembers every process; one that is gone since, and whose time did not turn
 * up as waited for, is added to what is lost. A process that came and went
 * between two looks is not seen: the sum is a lower bound.
 */
#include "task/keeper.h"

#include <stdlib.h>

#define SEEN_MAX 16384u

void keeper_cpu_add(struct keeper_cpu *c, const struct cpu_seen *one)
{
	struct cpu_list *l = &c->now;

	c->sum += one->self + one->waited;
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		struct cpu_seen *more = room <= SEEN_MAX
			? realloc(l->items, room * sizeof(*more)) : NULL;

		if (!more) {
			c->partial = true;
			return;
		}
		l->items = more;
		l->room = room;
	}
	l->items[l->n++] = *one;
}

/* Both lists are in the order of pids, as /proc is. */
static uint64_t lost_since(const struct cpu_list *before,
			   const struct cpu_list *now)
{
	uint64_t gone = 0, waited = 0;
	size_t j = 0;

	for (size_t i = 0; i < before->n; i++) {
		const struct cpu_seen *b = &before->items[i];
		const struct cpu_seen *n = now->items;

		while (j < now->n && n[j].pid < b->pid)
			j++;
		if (j == now->n || n[j].pid != b->pid || n[j].born != b->born)
			gone += b->self + b->waited;
		else if (n[j].waited > b->waited)
			waited += n[j].waited - b->waited;
	}
	return gone > waited ? gone - waited : 0;
}

uint64_t keeper_cpu_end(struct keeper_cpu *c)
{
	uint64_t sum = c->sum;

	/* What was not looked at is not gone. */
	if (!c->partial) {
		struct cpu_list spare = c->before;

		c->lost += lost_since(&c->before, &c->now);
		c->before = c->now;
		c->now = spare;
	}
	c->now.n = 0;
	c->sum = 0;
	c->partial = false;
	return sum + c->lost;
}
