#include "task/exec_args.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct head {
	uint32_t argc, envc;
};

static uint32_t count(char *const v[])
{
	uint32_t n = 0;

	while (v[n])
		n++;
	return n;
}

int exec_args_pack(const char *workdir, char *const argv[], char *const envp[],
		   struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(EXEC_ARGS_MAX);
	struct head head = {.argc = count(argv), .envc = count(envp)};
	int fd;

	buf_add(&b, &head, sizeof(head));
	buf_add(&b, workdir, strlen(workdir) + 1);
	for (uint32_t i = 0; i < head.argc; i++)
		buf_add(&b, argv[i], strlen(argv[i]) + 1);
	for (uint32_t i = 0; i < head.envc; i++)
		buf_add(&b, envp[i], strlen(envp[i]) + 1);
	if (b.failed)
		return error_set(err, b.failed == -EFBIG ? -E2BIG : b.failed,
				 "the command's arguments are too long");
	fd = io_sealed_memfd("pinfold-exec", b.data, b.len);
	if (fd < 0)
		return error_set(err, fd, "cannot make a memory file: %s",
				 strerror(-fd));
	return fd;
}

/* The string at *at, which then points behind it; NULL when none is left. */
static char *next_string(const char *data, size_t len, size_t *at)
{
	const char *s = data + *at;
	const char *end = memchr(s, '\0', len - *at);

	if (!end)
		return NULL;
	*at = (size_t)(end - data) + 1;
	return (char *)(uintptr_t)s;
}

static char **take_vector(const char *data, size_t len, size_t *at, uint32_t n)
{
	char **v;

	/* Every string takes at least its final zero. */
	if (n > len - *at)
		return NULL;
	v = calloc((size_t)n + 1, sizeof(*v));
	for (uint32_t i = 0; v && i < n; i++) {
		v[i] = next_string(data, len, at);
		if (!v[i]) {
			free(v);
			return NULL;
		}
	}
	return v;
}

int exec_args_map(int fd, struct exec_args *ret, struct error *err)
{
	struct exec_args a = {0};
	struct head head;
	size_t at = sizeof(head);
	int r;

	r = io_map_sealed(fd, EXEC_ARGS_MAX, &a.data, &a.len);
	if (r < 0)
		return error_set(err, r, "cannot map the arguments: %s",
				 strerror(-r));
	if (a.len > sizeof(head)) {
		memcpy(&head, a.data, sizeof(head));
		a.workdir = next_string(a.data, a.len, &at);
		if (a.workdir && head.argc > 0)
			a.argv = take_vector(a.data, a.len, &at, head.argc);
		if (a.argv)
			a.envp = take_vector(a.data, a.len, &at, head.envc);
	}
	if (!a.envp || at != a.len) {
		exec_args_done(&a);
		return error_set(err, -EPROTO, "the arguments are malformed");
	}
	*ret = a;
	return 0;
}

void exec_args_done(struct exec_args *a)
{
	free(a->argv);
	free(a->envp);
	if (a->data)
		munmap((void *)(uintptr_t)a->data, a->len);
	*a = (struct exec_args){0};
}
