/*
 * What pinfold and pinfold-policy say to each other. One question on standard
 * input, one answer on standard output, then the compiler ends.
 *
 * The compiler has no file system: it is confined before it reads its input.
 * It is given the texts of a chain of "extends" as far as the caller knows it.
 * When the last text extends a further file, the answer is that file's path
 * ("need"); the caller opens it, by its own rules, and asks again with one
 * text more. A chain has eight texts at most, so that this ends; answers are
 * cached, so that it is rare. The alternatives were a dialogue on a socket
 * (state on both sides for nothing) and opening before confinement (the names
 * are known after parsing only).
 */
#ifndef PINFOLD_POLICY_COMPILE_H
#define PINFOLD_POLICY_COMPILE_H

#include "policy/load.h"

#define COMPILE_QUESTION_MAX (POLICY_CHAIN_MAX * (POLICY_TEXT_MAX + 8192u))
#define COMPILE_ANSWER_MAX (8u << 20)
#define COMPILE_NAME_MAX 4096

/* Appends the question. 0 or negative. */
int compile_question_write(struct buf *out, const struct policy_input *inputs,
			   size_t n, unsigned flags);
/*
 * Reads it; inputs point into data, whose byte behind the end must be NUL.
 * 0 or -EPROTO.
 */
int compile_question_read(const char *data, size_t len,
			  struct policy_input inputs[POLICY_CHAIN_MAX],
			  size_t *ret_n, unsigned *ret_flags);

struct compile_answer {
	bool compiled;        /* policy is filled */
	struct policy policy; /* given and sealed as the files say */
	char *need;           /* or: this file is needed */
	struct strlist problems; /* or: at least one of these */
};

void compile_answer_done(struct compile_answer *a);
/* Canonical JSON; exactly one of the three is written. 0 or negative. */
int compile_answer_write(struct buf *out, const struct compile_answer *a);
/* Strict: the answer of a process that read untrusted text. */
int compile_answer_read(const char *json, size_t len,
			struct compile_answer *ret, struct error *err);

#endif
