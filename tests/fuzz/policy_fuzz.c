/*
 * Policy texts (YAML): no fault; a refusal names a problem; an accepted policy
 * has a snapshot that is read back to the same bytes.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "policy/load.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void check_snapshot(const struct policy *p)
{
	AUTO_BUF struct buf once = BUF_INIT(POLICY_TEXT_MAX);
	AUTO_BUF struct buf twice = BUF_INIT(POLICY_TEXT_MAX);
	struct policy again;
	struct error err = {0};

	if (policy_to_json(p, &once) < 0 ||
	    policy_from_json(once.data, once.len, &again, &err) < 0)
		abort();
	if (policy_to_json(&again, &twice) < 0 || once.len != twice.len ||
	    memcmp(once.data, twice.data, once.len) != 0)
		abort();
	policy_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct policy_input input = {"fuzz.yaml", (const char *)data,
					   size};
	AUTO_STRLIST struct strlist problems = {0};
	AUTO_FREE char *need = NULL;
	struct policy p;
	int r;

	r = policy_load(&input, 1, 0, &p, &need, &problems);
	if (r == -ENOMEM || (r < 0) != (problems.n > 0))
		abort();
	if (r < 0 || need)
		return 0;
	check_snapshot(&p);
	policy_done(&p);
	return 0;
}
