/*
 * An escape program is a table of attacks. Each attack names the limit that it
 * attacks, says in a sentence what it does, and lists the errnos that it must
 * get. It runs in a process of its own with a deadline, so that neither a crash
 * nor a hang passes for a refusal. With "--prove" nothing is judged: the program
 * is run outside of any sandbox and reports which attacks get past the limit
 * there, because a test that cannot fail proves nothing.
 */
#ifndef PINFOLD_TESTS_ESCAPE_ATTACK_H
#define PINFOLD_TESTS_ESCAPE_ATTACK_H

#include <stdbool.h>
#include <stddef.h>

/* What an attack returns beside 0 (it worked) and a negative errno. */
#define ATTACK_SKIP 1

struct attack {
	const char *limit;  /* "files" */
	const char *what;   /* sentence */
	const char *expect; /* errno and signal names it must get, by spaces */
	const char *past;   /* errnos that come only from behind the limit */
	int (*run)(const struct attack *a);
	const char *s;    /* first parameter; {key} stands for an argument */
	long n;           /* second parameter */
	const char *bare; /* why it cannot work outside either; else NULL */
};

#define ATTACKS(table) table, sizeof(table) / sizeof((table)[0])

/* The whole program: arguments are key=value pairs, --prove and --list. */
int attack_main(const struct attack *table, size_t n, int argc, char **argv);

/* The value of a key=value argument; without it the attack is not ok. */
const char *attack_arg(const char *key);
/* As attack_arg; NULL where there is none. */
const char *attack_arg_or_null(const char *key);
long attack_number(const char *key);
/* A path with its {key}s replaced. Never freed: attacks are short. */
const char *attack_path(const char *pattern);

/* "return attack_result(syscall(...))": 0 or -errno. */
int attack_result(long r);
/* "return attack_skip(why)" */
int attack_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds to what is printed when the attack was not stopped as expected. */
void attack_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether pid 1 is pinfold's: some attacks would end an unconfined host. */
bool attack_is_inside(void);
/* Number of descriptors above 2 that the program was started with. */
int attack_inherited(void);

#endif
