/*
 * Compiled policies on disk, so that pinfold-policy runs once for each change
 * of a policy. An entry is found by the SHA-256 of everything that went into
 * it and holds its own SHA-256: a damaged one counts as missing. Entries are
 * the caller's own files (0600) in a directory of the caller's; others' are
 * never read. Not a wall against the caller, who may as well change the policy.
 */
#ifndef PINFOLD_CLI_POLICY_CACHE_H
#define PINFOLD_CLI_POLICY_CACHE_H

#include "base/buf.h"
#include "base/sha256.h"
#include "base/str.h"

/* The further files that a policy extends, with their digests. */
struct cache_inputs {
	struct strlist paths;
	struct strlist digests;
};

void cache_inputs_done(struct cache_inputs *i);

/* Reads an entry: 0 with the compiler's answer, or negative. */
int policy_cache_get(const char *dir, const char key[SHA256_HEX_SIZE],
		     struct buf *ret_answer, struct cache_inputs *ret_inputs);
/* Writes an entry; failures leave no trace and do not matter. */
void policy_cache_put(const char *dir, const char key[SHA256_HEX_SIZE],
		      const struct buf *answer,
		      const struct cache_inputs *inputs);

#endif
