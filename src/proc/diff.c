/*
 * pinfold-diff: compares files whose content somebody untrusted wrote, for
 * pinfold diff --patch. Standard input is a channel (workspace/differ.h) over
 * which it gets open files and answers with text; it has nothing else, and is
 * confined before it reads the first byte: no file system, no network, no new
 * process, bounded memory and time.
 */
#include "confine/alone.h"
#include "workspace/differ.h"

#include <sys/syscall.h>
#include <unistd.h>

static const struct alone alone = {
	.keep_below = 1,
	.open_max = 8,
	.memory_max = (uint64_t)512 << 20,
	.cpu_seconds = 60,
	.filter = SECCOMP_DIFF,
};

int main(void)
{
	int status = alone_enter(&alone) < 0 || differ_serve(STDIN_FILENO) < 0;

	/* The filter permits no more than this at the end. */
	syscall(SYS_exit_group, status);
	return status;
}
