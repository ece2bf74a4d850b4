/*
 * pinfold-policy: the compiler of policies, and the only program that links
 * libyaml. It reads text that others wrote, so it is confined before it reads
 * the first byte: no file system (Landlock, and no call that opens), no
 * network, no new process, a second of processor time more than it can need.
 * Standard input holds the question, standard output takes the answer
 * (policy/compile.h); it has no arguments and no environment.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"
#include "confine/start.h"
#include "policy/compile.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMORY_MAX ((rlim_t)512 << 20)
#define CPU_SECONDS 5

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int limit(int resource, rlim_t max)
{
	struct rlimit l = {max, max};

	return setrlimit((__rlimit_resource_t)resource, &l) < 0 ? -errno : 0;
}

static int set_limits(void)
{
	/* A sanitizer maps terabytes of address space for itself. */
	int r = SANITIZED ? 0 : limit(RLIMIT_AS, MEMORY_MAX);

	if (r == 0)
		r = limit(RLIMIT_CPU, CPU_SECONDS);
	if (r == 0)
		r = limit(RLIMIT_CORE, 0);
	return r == 0 ? limit(RLIMIT_NOFILE, 4) : r;
}

/* The filter lets nothing be opened; this is the second wall. */
static int enter_landlock(void)
{
	AUTO_CLOSE int ruleset = -1;
	struct error err = {0};

	if (landlock_abi() < 1)
		return 0;
	ruleset = landlock_ruleset(NULL, 0, 1, &err);
	return ruleset < 0 ? ruleset : landlock_enter(ruleset);
}

static int enter(void)
{
	int r;

	start_close_from(3);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	r = set_limits();
	if (r == 0)
		r = enter_landlock();
	return r == 0 ? seccomp_load(SECCOMP_POLICY) : r;
}

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
	int r = enter();

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
