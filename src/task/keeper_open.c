/*
 * When space goes and no walk says where, init is asked for files without a
 * name: deleted ones that are open (disk), memory files (memory, where no
 * control group counts them). Asked at most every ASK_EVERY_US, and only with a
 * reason, for a look at every descriptor is dear.
 */
#include "task/keeper.h"

#include "base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define ASK_EVERY_US 250000u

/* Bytes of shared memory of the whole machine; 0 when not known. */
static uint64_t shared_memory(void)
{
	AUTO_BUF struct buf b = BUF_INIT(16384);
	uintmax_t kib = 0;
	const char *at;

	if (io_read_file(AT_FDCWD, "/proc/meminfo", &b) < 0)
		return 0;
	at = strstr(buf_str(&b), "\nShmem:");
	if (!at || sscanf(at, " Shmem: %ju", &kib) != 1)
		return 0;
	return kib * 1024u;
}

void keeper_open_init(struct keeper *k)
{
	k->open.shared_at_start = shared_memory();
}

/* Did the machine's shared memory grow by what would matter to the limit? */
static bool memory_is_odd(const struct keeper *k)
{
	uint64_t limit = k->plan.spec.limits.memory;
	uint64_t now;

	if (limit == LIMIT_NONE || cgroup_mechanism(&k->cgroup, CGROUP_MEMORY))
		return false;
	now = shared_memory();
	return now > k->open.shared_at_start &&
	       now - k->open.shared_at_start >= limit / 2;
}

/* A file that is open may be in a mapping alone by the next look. */
static bool is_suspicious(const struct keeper_open *o)
{
	return o->sum.hidden_bytes != 0 || o->sum.disk_bytes != 0 ||
	       o->asked || o->disk_is_odd;
}

void keeper_open_begin(struct keeper *k, uint64_t free_bytes, uint64_t known)
{
	struct keeper_open *o = &k->open;

	if (is_suspicious(o))
		return;
	o->free_bytes = free_bytes;
	o->known_bytes = known;
	o->gone_bytes = 0;
}

/* In signs: what the task removes by name it may write without one. */
void keeper_open_note(struct keeper *k, uint64_t free_bytes, uint64_t known)
{
	struct keeper_open *o = &k->open;
	int64_t gone = (int64_t)(o->free_bytes - free_bytes) -
		       (int64_t)(known - o->known_bytes);

	if (is_suspicious(o) && gone > (int64_t)o->gone_bytes)
		o->gone_bytes = (uint64_t)gone;
}

uint64_t keeper_open_hidden(const struct keeper *k)
{
	const struct open_files *sum = &k->open.sum;
	uint64_t gone = k->open.gone_bytes;

	gone = gone > sum->disk_bytes ? gone - sum->disk_bytes : 0;
	return gone < sum->hidden_bytes ? gone : sum->hidden_bytes;
}

void keeper_open_tick(struct keeper *k, uint64_t now_us)
{
	struct keeper_open *o = &k->open;

	if (o->asked || now_us < o->next_us)
		return;
	o->next_us = now_us + ASK_EVERY_US;
	if (!o->disk_is_odd && o->sum.disk_bytes == 0 &&
	    o->sum.hidden_bytes == 0 && o->sum.memory_bytes == 0 && !memory_is_odd(k))
		return;
	o->disk_is_odd = false;
	o->asked = keeper_tell_init(k, INIT_COUNT_OPEN, NULL, 0, -1) == 0;
}

void keeper_open_answer(struct keeper *k, const struct message *m)
{
	memcpy(&k->open.sum, m->data, sizeof(k->open.sum));
	k->open.asked = false;
}
