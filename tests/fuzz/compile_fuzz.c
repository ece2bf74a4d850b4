/*
 * What pinfold and pinfold-policy read from each other, and the snapshot: the
 * first byte chooses. No fault; what was accepted is written back the same.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "policy/compile.h"
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>

static void must_equal(const struct buf *again, const char *text, size_t len)
{
	if (again->failed || again->len != len ||
	    memcmp(again->data, text, len) != 0)
		abort();
}

static void read_question(const char *text, size_t len)
{
	AUTO_BUF struct buf again = BUF_INIT(COMPILE_QUESTION_MAX);
	struct policy_input inputs[POLICY_CHAIN_MAX];
	unsigned flags;
	size_t n;

	if (compile_question_read(text, len, inputs, &n, &flags) < 0)
		return;
	if (compile_question_write(&again, inputs, n, flags) < 0)
		abort();
	must_equal(&again, text, len);
}

static void read_answer(const char *text, size_t len)
{
	AUTO_BUF struct buf again = BUF_INIT(COMPILE_ANSWER_MAX);
	struct compile_answer a;
	struct error err = {0};

	if (compile_answer_read(text, len, &a, &err) < 0) {
		if (!err.text[0])
			abort();
		return;
	}
	/* Its spelling may differ: the snapshot inside is what counts. */
	if (compile_answer_write(&again, &a) < 0)
		abort();
	compile_answer_done(&a);
}

static void read_snapshot(const char *text, size_t len)
{
	AUTO_BUF struct buf again = BUF_INIT(POLICY_TEXT_MAX);
	struct error err = {0};
	struct policy p;

	if (policy_from_json(text, len, &p, &err) < 0) {
		if (!err.text[0])
			abort();
		return;
	}
	if (policy_to_json(&p, &again) < 0)
		abort();
	must_equal(&again, text, len);
	policy_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = NULL;

	if (size == 0)
		return 0;
	/* A question ends with a NUL that belongs to its buffer. */
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] == 'q')
		read_question(text, size - 1);
	else if (data[0] == 'a')
		read_answer(text, size - 1);
	else
		read_snapshot(text, size - 1);
	return 0;
}
