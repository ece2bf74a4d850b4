/*
 * The reader of task.json: no fault, and what it accepted is written as a
 * record that is read again and written the same. The manifest of a copied
 * source gets the same bytes: no offset in it leads outside.
 */
#include "fuzz.h"

#include "audit/record.h"
#include "base/cleanup.h"
#include "workspace/manifest.h"

#include <stdlib.h>
#include <string.h>

static bool rewrite(const char *json, size_t len, struct buf *out)
{
	struct error err = {0};
	struct record r;

	if (record_from_json(json, len, &r, &err) < 0) {
		if (!err.text[0])
			abort();
		return false;
	}
	if (record_to_json(&r, out) < 0)
		abort();
	record_done(&r);
	return true;
}

static void walk(const struct manifest *m, uint64_t block, int depth)
{
	uint64_t n = manifest_count(m, block);

	for (uint64_t i = 0; i < n && i < 1000 && depth < 8; i++) {
		const struct manifest_entry *e = manifest_at(m, block, i);

		if (!e)
			return;
		if (strlen(e->name) > e->name_len)
			abort();
		manifest_find(m, block, e->name);
		if (e->block)
			walk(m, e->block, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf once = BUF_INIT(RECORD_MAX);
	AUTO_BUF struct buf twice = BUF_INIT(RECORD_MAX);
	AUTO_FREE char *copy = NULL;
	struct manifest m;

	if (rewrite((const char *)data, size, &once) &&
	    (!rewrite(once.data, once.len, &twice) || once.len != twice.len ||
	     memcmp(once.data, twice.data, once.len) != 0))
		abort();
	/* A mapping is aligned, and so is what malloc gives. */
	copy = malloc(size + 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	m = (struct manifest){.data = copy, .len = size};
	if (size >= sizeof(struct manifest_head))
		walk(&m, manifest_top(&m), 0);
	return 0;
}
