/*
 * pinfold-policy: the compiler of policies, and the only program that links
 * libyaml. It reads text that others wrote, so it is confined before it reads
 * the first byte: no file system (Landlock, and no call that opens), no
 * network, no new process, a second of processor time more than it can need.
 * Standard input holds the question, standard output takes the answer
 * (policy/compile.h); it has no arguments and no environment.
 */
#include "base/io.h"
#include "confine/alone.h"
#include "policy/compile.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct alone alone = {
	.keep_below = 3,
	.open_max = 4,
	.memory_max = (uint64_t)512 << 20,
	.cpu_seconds = 5,
	.filter = SECCOMP_POLICY,
};

static int compile(const struct buf *question, struct buf *answer)
{
	struct policy_input inputs[POLICY_CHAIN_MAX];
	struct compile_answer a = {0};
	unsigned flags;
	size_t n;
	int r = compile_question_read(question->data, question->len, inputs, &n,
				      &flags);

	if (r < 0)
		return r;
	r = policy_load(inputs, n, flags, &a.policy, &a.need, &a.problems);
	a.compiled = r == 0 && !a.need;
	if (r == 0 || r == -EINVAL)
		r = compile_answer_write(answer, &a);
	compile_answer_done(&a);
	return r;
}

static int fail(const char *what, int code)
{
	AUTO_BUF struct buf text = BUF_INIT(512);

	buf_addf(&text, "pinfold-policy: %s: %s\n", what, strerror(-code));
	if (text.data)
		io_write_all(STDERR_FILENO, text.data, text.len);
	return 1;
}

static int run(void)
{
	AUTO_BUF struct buf question = BUF_INIT(COMPILE_QUESTION_MAX);
	AUTO_BUF struct buf answer = BUF_INIT(COMPILE_ANSWER_MAX);
	int r = alone_enter(&alone);

	if (r < 0)
		return fail("cannot confine itself", r);
	r = io_read_all(STDIN_FILENO, &question);
	if (r < 0)
		return fail("cannot read the question", r);
	r = compile(&question, &answer);
	if (r < 0)
		return fail("cannot compile", r);
	r = io_write_all(STDOUT_FILENO, answer.data, answer.len);
	return r < 0 ? fail("cannot answer", r) : 0;
}

int main(void)
{
	int status = run();

	/*
	 * Nothing runs at exit: the filter permits no more than this. The raw
	 * call, because sanitizers surround _exit with calls of their own.
	 */
	syscall(SYS_exit_group, status);
	return status;
}
