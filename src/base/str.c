#include "base/str.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strlist_done(struct strlist *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct strlist){0};
}

int strlist_take(struct strlist *list, char *s)
{
	if (!s)
		return -ENOMEM;
	if (list->n + 2 > list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 8;
		char **items = reallocarray(list->items, cap, sizeof(*items));

		if (!items) {
			free(s);
			return -ENOMEM;
		}
		list->items = items;
		list->cap = cap;
	}
	list->items[list->n++] = s;
	list->items[list->n] = NULL;
	return 0;
}

int strlist_add(struct strlist *list, const char *s)
{
	return strlist_take(list, strdup(s));
}

bool strlist_has(const struct strlist *list, const char *s)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!strcmp(list->items[i], s))
			return true;
	}
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strlist_sort(struct strlist *list)
{
	if (list->n > 1)
		qsort(list->items, list->n, sizeof(*list->items), compare);
}

bool str_eq(const char *a, const char *b)
{
	return !strcmp(a, b);
}

bool str_starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && !memcmp(s + n - m, suffix, m);
}

char *str_strip(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n > 0 && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

char *str_format(const char *format, ...)
{
	va_list args;
	char *s;
	int n;

	va_start(args, format);
	n = vasprintf(&s, format, args);
	va_end(args);
	return n < 0 ? NULL : s;
}

/* How many bytes a UTF-8 sequence with this first byte has; 0 for none. */
static size_t sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if ((first & 0xf0) == 0xe0)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/*
 * Length of the UTF-8 sequence at s, 0 if there is none within len bytes. The
 * second byte's range keeps out overlong forms, surrogates and what lies
 * beyond U+10FFFF (RFC 3629, section 4).
 */
static size_t utf8_sequence(const unsigned char *s, size_t len)
{
	size_t n = sequence_length(s[0]);
	unsigned char low = 0x80, high = 0xbf;

	if (n == 0 || n > len)
		return 0;
	switch (s[0]) {
	case 0xe0: low = 0xa0; break;
	case 0xed: high = 0x9f; break;
	case 0xf0: low = 0x90; break;
	case 0xf4: high = 0x8f; break;
	}
	if (n > 1 && (s[1] < low || s[1] > high))
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

bool str_is_utf8(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t n = utf8_sequence((const unsigned char *)s + i, len - i);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

/* C1 controls arrive as the two bytes c2 80 to c2 9f. */
static bool is_control(const unsigned char *s, size_t n)
{
	return (n == 1 && (s[0] < 0x20 || s[0] == 0x7f)) ||
	       (n == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

/*
 * Characters that show nothing or change the order of others, so that a name
 * could look like another.
 */
static bool is_invisible(const unsigned char *s, size_t n)
{
	static const unsigned ranges[][2] = {
		{0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
		{0xfeff, 0xfeff},
	};
	unsigned cp;

	if (n != 3)
		return false;
	cp = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		if (cp >= ranges[i][0] && cp <= ranges[i][1])
			return true;
	}
	return false;
}

/* Appends one character, or the first byte of what is none; its length. */
static size_t quote_one(struct buf *b, const unsigned char *s, size_t len)
{
	size_t n = utf8_sequence(s, len);

	if (s[0] == '\n') {
		buf_add_str(b, "\\n");
	} else if (s[0] == '\t') {
		buf_add_str(b, "\\t");
	} else if (s[0] == '"' || s[0] == '\\') {
		buf_addf(b, "\\%c", s[0]);
	} else if (n > 0 && !is_control(s, n) && !is_invisible(s, n)) {
		buf_add(b, s, n);
	} else {
		n = n > 0 ? n : 1;
		for (size_t i = 0; i < n; i++)
			buf_addf(b, "\\x%02x", s[i]);
	}
	return n;
}

int str_quote(struct buf *b, const char *s, size_t max)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t len = strlen(s);
	size_t i = 0;

	buf_add_char(b, '"');
	while (i < len && i < max)
		i += quote_one(b, u + i, len - i);
	return buf_add_str(b, i < len ? "\"..." : "\"");
}

int str_quote_odd(struct buf *b, const char *path, size_t max)
{
	AUTO_BUF struct buf quoted = BUF_INIT(b->max);
	size_t len = strlen(path);

	if (str_quote(&quoted, path, max) < 0)
		return quoted.failed;
	/* Nothing was escaped, and no blank hides at an end. */
	if (quoted.len == len + 2 && len > 0 && path[0] != ' ' &&
	    path[len - 1] != ' ')
		return buf_add(b, path, len);
	return buf_add(b, quoted.data, quoted.len);
}

int str_show(struct buf *b, const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t i = 0;

	while (i < len) {
		if (u[i] == '"' || u[i] == '\\' || u[i] == '\t')
			buf_add_char(b, s[i++]);
		else
			i += quote_one(b, u + i, len - i);
	}
	return b->failed;
}

bool path_is_normal(const char *path)
{
	const char *p = path;

	if (p[0] != '/')
		return false;
	if (p[1] == '\0')
		return true;
	while (*p) {
		const char *start = ++p;
		size_t n = strcspn(start, "/");

		if (n == 0 || (n == 1 && start[0] == '.') ||
		    (n == 2 && start[0] == '.' && start[1] == '.'))
			return false;
		p = start + n;
	}
	return true;
}

bool path_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (str_eq(dir, "/"))
		return path[0] == '/';
	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}
