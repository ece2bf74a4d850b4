/*
 * Small string functions: lists of owned strings, prefixes, quoting for people
 * and for logs.
 */
#ifndef PINFOLD_BASE_STR_H
#define PINFOLD_BASE_STR_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* A growable list of owned strings; items is NULL-terminated when n > 0. */
struct strlist {
	char **items;
	size_t n;
	size_t cap;
};

#define AUTO_STRLIST __attribute__((cleanup(strlist_done)))

void strlist_done(struct strlist *list);
/* 0 or -ENOMEM. strlist_add copies s; strlist_take owns it, also on failure. */
int strlist_add(struct strlist *list, const char *s);
int strlist_take(struct strlist *list, char *s);
bool strlist_has(const struct strlist *list, const char *s);
void strlist_sort(struct strlist *list);

bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* s without white space at its ends: cut in place, and where it begins then. */
char *str_strip(char *s);

/* printf into new memory; NULL when there is none. */
char *str_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Appends s in double quotes with control characters, invisible and reordering
 * ones, quotes, backslashes and bytes that are not UTF-8 as escapes, cut with
 * "..." after max bytes of input.
 * For untrusted text in messages and logs: nothing in it reaches a terminal.
 */
int str_quote(struct buf *b, const char *s, size_t max);

/* The same, but a path in which nothing is odd comes as it is. */
int str_quote_odd(struct buf *b, const char *path, size_t max);

/*
 * Appends len bytes of s as they are, with the escapes of str_quote for control
 * characters, invisible and reordering ones and bytes that are not UTF-8; tabs,
 * quotes and backslashes stay. For texts of others on a terminal.
 */
int str_show(struct buf *b, const char *s, size_t len);

/* True if s[0..len) is well-formed UTF-8 (RFC 3629). */
bool str_is_utf8(const char *s, size_t len);

/*
 * True if path is absolute and normal: no empty, "." or ".." component, no
 * slash at the end ("/" itself is normal).
 */
bool path_is_normal(const char *path);

/*
 * True if path is dir or lies below it; both normal, or both without the slash
 * at the beginning.
 */
bool path_is_below(const char *path, const char *dir);

#endif
