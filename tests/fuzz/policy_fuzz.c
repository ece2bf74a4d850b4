/*
 * Policy texts (YAML): no fault; a refusal names a problem; an accepted policy
 * has a snapshot that is read back to the same bytes and is itself a policy of
 * that snapshot. A byte 01, which no policy can hold, parts the texts of a
 * chain of "extends".
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "policy/load.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void must_write(const struct policy *p, const struct buf *json)
{
	AUTO_BUF struct buf again = BUF_INIT(POLICY_TEXT_MAX);

	if (policy_to_json(p, &again) < 0 || json->len != again.len ||
	    memcmp(json->data, again.data, json->len) != 0)
		abort();
}

static void check_snapshot(const struct policy *p)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	AUTO_STRLIST struct strlist problems = {0};
	struct policy_input input = {.name = "snapshot.json"};
	struct policy again;
	char *need;

	if (policy_to_json(p, &json) < 0 ||
	    policy_from_json(json.data, json.len, &again, NULL) < 0)
		abort();
	must_write(&again, &json);
	policy_done(&again);
	/* An idle limit beyond the wall limit is no fault of two files. */
	if (p->limits.idle_ms != LIMIT_NONE &&
	    p->limits.idle_ms >= p->limits.wall_ms)
		return;
	input.text = json.data;
	input.len = json.len;
	if (policy_load(&input, 1, 0, &again, &need, &problems) < 0)
		abort();
	must_write(&again, &json);
	policy_done(&again);
}

static size_t split(const char *text, size_t size,
		    struct policy_input inputs[POLICY_CHAIN_MAX])
{
	size_t n = 0;

	for (;;) {
		const char *end = memchr(text, 1, size);
		size_t len = end ? (size_t)(end - text) : size;

		inputs[n++] = (struct policy_input){"fuzz.yaml", text, len};
		if (!end || n == POLICY_CHAIN_MAX)
			return n;
		text += len + 1;
		size -= len + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_input inputs[POLICY_CHAIN_MAX];
	AUTO_STRLIST struct strlist problems = {0};
	AUTO_FREE char *need = NULL;
	struct policy p;
	int r;

	r = policy_load(inputs, split((const char *)data, size, inputs), 0, &p,
			&need, &problems);
	if (r == -ENOMEM || (r < 0) != (problems.n > 0))
		abort();
	if (r < 0 || need)
		return 0;
	check_snapshot(&p);
	policy_done(&p);
	return 0;
}
