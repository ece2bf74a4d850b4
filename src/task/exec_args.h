/*
 * The arguments of one exec, packed into a sealed memory file: working
 * directory, argument vector, environment. The keeper passes it on unread;
 * init uses the strings in place.
 */
#ifndef PINFOLD_TASK_EXEC_ARGS_H
#define PINFOLD_TASK_EXEC_ARGS_H

#include "base/error.h"

#include <stddef.h>

/* Above what execve(2) takes (a quarter of the stack limit, 6 MiB at most). */
#define EXEC_ARGS_MAX (8u << 20)

struct exec_args {
	const char *workdir;
	char **argv, **envp; /* NULL-terminated; strings lie in the mapping */
	const char *data;
	size_t len;
};

/* A sealed memfd, or negative (-E2BIG beyond EXEC_ARGS_MAX). */
int exec_args_pack(const char *workdir, char *const argv[], char *const envp[],
		   struct error *err);

/* Maps and checks; argv has at least one entry. exec_args_done frees. */
int exec_args_map(int fd, struct exec_args *ret, struct error *err);
void exec_args_done(struct exec_args *a);

#endif
