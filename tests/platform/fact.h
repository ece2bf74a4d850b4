/*
 * A platform program is a table of facts that the product relies on. Each fact
 * is tried in a process of its own and printed as a sentence: another kernel
 * says at once what differs there. Facts that need root, or that do not exist
 * below some kernel, are skipped with the reason.
 */
#ifndef PINFOLD_TESTS_PLATFORM_FACT_H
#define PINFOLD_TESTS_PLATFORM_FACT_H

#include <stdbool.h>
#include <stddef.h>

enum { FACT_HOLDS, FACT_DIFFERS, FACT_SKIPPED };

struct fact {
	const char *what;
	int (*run)(void);
};

#define FACTS(table) table, sizeof(table) / sizeof((table)[0])

int fact_main(const struct fact *table, size_t n);

/* "return fact_is(fd >= 0, "open: %s", ...)": the text is for a difference. */
int fact_is(bool holds, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int fact_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a call failed with this error; the text names both. */
int fact_fails(long r, int expected, const char *call);
/* As fact_is, with the call's name and errno. */
int fact_works(long r, const char *call);

/*
 * Enters a user namespace that maps the caller to uid and gid inside, with
 * further namespaces by flags. 0 or -errno.
 */
int fact_enter_userns(int flags, unsigned inner);
/* Whether user namespaces can be had at all; facts in them are skipped else. */
bool fact_has_userns(void);
/* uid 0 of the first user namespace. */
bool fact_is_root(void);
/* A fresh directory below TMPDIR or /tmp, removed by fact_main. */
const char *fact_directory(void);
/* Writes text to an existing file; 0 or -errno. */
int fact_write(const char *path, const char *text);
/* Passes a descriptor over a Unix socket; fact_take returns it or -errno. */
int fact_send(int socket, int fd);
int fact_take(int socket);
/* Waits for a child and returns its wait status. */
int fact_wait(int pid);

#endif
