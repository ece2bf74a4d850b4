/*
 * Eugene Myers' O(ND) comparison in linear space ("An O(ND) Difference Algorithm
 * and Its Variations", Algorithmica 1986, section 4b): from both corners of the
 * edit graph paths are extended until two meet, then both halves are done alike.
 * A box that costs more than COST_MAX steps of edits is split at the furthest
 * point that was reached; when WORK_MAX is used up the rest counts as replaced.
 */
#include "workspace/lines.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COST_MAX 512
#define WORK_MAX ((uint64_t)100 << 20)
#define DEPTH_MAX 4096

/* A part of both texts: lines [a, a_end) against [b, b_end). */
struct box {
	int32_t a, a_end, b, b_end;
};

struct compare {
	struct lines *a, *b;
	int32_t *forward, *backward; /* how far each diagonal reached */
	int32_t *memory;
	uint64_t work;
	unsigned depth;
};

/* ---- lines and their numbers ---- */

void lines_done(struct lines *l)
{
	free(l->start);
	free(l->changed);
	free(l->id);
	*l = (struct lines){0};
}

static size_t count_lines(const char *text, size_t len)
{
	const char *end = text + len;
	size_t n = 0;

	while (text < end) {
		const char *next = memchr(text, '\n', (size_t)(end - text));

		text = next ? next + 1 : end;
		n++;
	}
	return n;
}

static int split(struct lines *l, const char *text, size_t len)
{
	size_t n = len <= INT32_MAX ? count_lines(text, len) : LINES_MAX + 1;
	uint32_t at = 0;

	*l = (struct lines){.text = text};
	if (n > LINES_MAX)
		return -EFBIG;
	l->start = calloc(n + 1, sizeof(*l->start));
	l->changed = calloc(n + 1, sizeof(*l->changed));
	l->id = calloc(n + 1, sizeof(*l->id));
	if (!l->start || !l->changed || !l->id)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const char *next = memchr(text + at, '\n', len - at);

		l->start[i] = at;
		at = next ? (uint32_t)(next + 1 - text) : (uint32_t)len;
	}
	l->start[n] = (uint32_t)len;
	l->n = (uint32_t)n;
	return 0;
}

/* Lines that were numbered, by what is in them. */
struct table {
	struct entry {
		const char *text; /* NULL: free */
		uint32_t len, hash, id;
	} *entries;
	size_t mask;
	uint32_t next;
};

static uint32_t hash_of(const char *s, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
	return (uint32_t)(h ^ h >> 32);
}

static uint32_t number_of(struct table *t, const char *text, uint32_t len)
{
	uint32_t hash = hash_of(text, len);
	size_t at = hash & t->mask;
	struct entry *e;

	for (size_t step = 1;; step++) {
		e = &t->entries[at];
		if (!e->text)
			break;
		if (e->hash == hash && e->len == len &&
		    !memcmp(e->text, text, len))
			return e->id;
		at = (at + step) & t->mask;
	}
	*e = (struct entry){text, len, hash, t->next++};
	return e->id;
}

static void number_lines(struct table *t, struct lines *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		l->id[i] = number_of(t, l->text + l->start[i],
				     l->start[i + 1] - l->start[i]);
}

static int number_both(struct lines *a, struct lines *b)
{
	size_t size = 16;
	struct table t = {0};

	while (size < 2 * ((size_t)a->n + b->n))
		size *= 2;
	t.mask = size - 1;
	t.entries = calloc(size, sizeof(*t.entries));
	if (!t.entries)
		return -ENOMEM;
	number_lines(&t, a);
	number_lines(&t, b);
	free(t.entries);
	return 0;
}

/* ---- comparing ---- */

static bool same(const struct compare *c, int32_t a, int32_t b)
{
	return c->a->id[a] == c->b->id[b];
}

/* The diagonals (a minus b) that are in use, from one corner. */
struct front {
	int32_t low, high;
};

/* Widens a front by one diagonal on each side, within the box. */
static void widen(struct front *f, int32_t *reach, int32_t least, int32_t most,
		  int32_t beyond)
{
	if (f->low > least)
		reach[--f->low - 1] = beyond;
	else
		f->low++;
	if (f->high < most)
		reach[++f->high + 1] = beyond;
	else
		f->high--;
}

static bool step_forward(struct compare *c, const struct box *box,
			 struct front *f, const struct front *other, bool odd,
			 struct box *at)
{
	int32_t *reach = c->forward;

	widen(f, reach, box->a - box->b_end, box->a_end - box->b, -1);
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		int32_t a = reach[d - 1] >= reach[d + 1] ? reach[d - 1] + 1
							 : reach[d + 1];
		int32_t b = a - d, from = a;

		while (a < box->a_end && b < box->b_end && same(c, a, b)) {
			a++;
			b++;
		}
		c->work += (uint64_t)(a - from) + 1;
		reach[d] = a;
		if (odd && d >= other->low && d <= other->high &&
		    c->backward[d] <= a) {
			*at = (struct box){.a = a, .b = b};
			return true;
		}
	}
	return false;
}

static bool step_backward(struct compare *c, const struct box *box,
			  struct front *f, const struct front *other, bool odd,
			  struct box *at)
{
	int32_t *reach = c->backward;

	widen(f, reach, box->a - box->b_end, box->a_end - box->b, INT32_MAX);
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		int32_t a = reach[d - 1] < reach[d + 1] ? reach[d - 1]
							: reach[d + 1] - 1;
		int32_t b = a - d, from = a;

		while (a > box->a && b > box->b && same(c, a - 1, b - 1)) {
			a--;
			b--;
		}
		c->work += (uint64_t)(from - a) + 1;
		reach[d] = a;
		if (!odd && d >= other->low && d <= other->high &&
		    a <= c->forward[d]) {
			*at = (struct box){.a = a, .b = b};
			return true;
		}
	}
	return false;
}

/* The point of the forward paths that has the most lines behind it. */
static struct box furthest(const struct compare *c, const struct box *box,
			   const struct front *f)
{
	struct box best = {.a = box->a, .b = box->b};

	for (int32_t d = f->high; d >= f->low; d -= 2) {
		int32_t a = c->forward[d] < box->a_end ? c->forward[d]
						       : box->a_end;
		int32_t b = a - d;

		if (b > box->b_end) {
			b = box->b_end;
			a = b + d;
		}
		if (a >= box->a && b >= box->b &&
		    (int64_t)a + b > (int64_t)best.a + best.b)
			best = (struct box){.a = a, .b = b};
	}
	return best;
}

/* A point on a short way through the box, both sides of which have lines. */
static struct box meet(struct compare *c, const struct box *box)
{
	int32_t from = box->a - box->b, to = box->a_end - box->b_end;
	struct front f = {from, from}, g = {to, to};
	bool odd = ((from - to) & 1) != 0;
	struct box at;

	c->forward[from] = box->a;
	c->backward[to] = box->a_end;
	for (unsigned cost = 1;; cost++) {
		if (step_forward(c, box, &f, &g, odd, &at) ||
		    step_backward(c, box, &g, &f, odd, &at))
			return at;
		if (cost >= COST_MAX || c->work > WORK_MAX)
			return furthest(c, box, &f);
	}
}

static void mark(struct compare *c, const struct box *box)
{
	for (int32_t i = box->a; i < box->a_end; i++)
		c->a->changed[i] = true;
	for (int32_t i = box->b; i < box->b_end; i++)
		c->b->changed[i] = true;
}

static void trim(const struct compare *c, struct box *box)
{
	while (box->a < box->a_end && box->b < box->b_end &&
	       same(c, box->a, box->b)) {
		box->a++;
		box->b++;
	}
	while (box->a < box->a_end && box->b < box->b_end &&
	       same(c, box->a_end - 1, box->b_end - 1)) {
		box->a_end--;
		box->b_end--;
	}
}

static void compare_box(struct compare *c, struct box box)
{
	for (;;) {
		struct box at;

		trim(c, &box);
		if (box.a == box.a_end || box.b == box.b_end ||
		    c->work > WORK_MAX || c->depth > DEPTH_MAX) {
			mark(c, &box);
			return;
		}
		at = meet(c, &box);
		/* Nowhere new: there is nothing to be gained. */
		if ((at.a == box.a && at.b == box.b) ||
		    (at.a == box.a_end && at.b == box.b_end)) {
			mark(c, &box);
			return;
		}
		c->depth++;
		compare_box(c, (struct box){box.a, at.a, box.b, at.b});
		c->depth--;
		box.a = at.a;
		box.b = at.b;
	}
}

int lines_compare(struct lines *a, const char *a_text, size_t a_len,
		  struct lines *b, const char *b_text, size_t b_len)
{
	struct compare c = {.a = a, .b = b};
	size_t diagonals;
	int r, r_b;

	r = split(a, a_text, a_len);
	r_b = split(b, b_text, b_len);
	if (r == 0)
		r = r_b;
	if (r == 0)
		r = number_both(a, b);
	if (r < 0)
		return r;
	diagonals = (size_t)a->n + b->n + 3;
	c.memory = calloc(2 * diagonals, sizeof(*c.memory));
	if (!c.memory)
		return -ENOMEM;
	c.forward = c.memory + b->n + 1;
	c.backward = c.forward + diagonals;
	compare_box(&c, (struct box){0, (int32_t)a->n, 0, (int32_t)b->n});
	free(c.memory);
	return 0;
}
