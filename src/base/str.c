#include "base/str.h"

#include "base/cleanup.h"

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

/* Length of the UTF-8 sequence at s, 0 if there is none within len bytes. */
static size_t utf8_sequence(const unsigned char *s, size_t len)
{
	uint32_t cp;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		n = 2;
		cp = s[0] & 0x1fu;
	} else if ((s[0] & 0xf0) == 0xe0) {
		n = 3;
		cp = s[0] & 0x0fu;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		n = 4;
		cp = s[0] & 0x07u;
	} else {
		return 0;
	}
	if (n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3fu);
	}
	if ((n == 3 && cp < 0x800) || (n == 4 && cp < 0x10000) ||
	    cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
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

int str_quote(struct buf *b, const char *s, size_t max)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t len = strlen(s);
	size_t i = 0;

	buf_add_char(b, '"');
	while (i < len && i < max) {
		size_t n = utf8_sequence(u + i, len - i);

		if (u[i] == '\n')
			buf_add_str(b, "\\n");
		else if (u[i] == '\t')
			buf_add_str(b, "\\t");
		else if (u[i] == '"' || u[i] == '\\')
			buf_addf(b, "\\%c", u[i]);
		else if (n > 0 && !is_control(u + i, n))
			buf_add(b, s + i, n);
		else
			buf_addf(b, "\\x%02x", u[i]);
		i += n > 0 && !is_control(u + i, n) ? n : 1;
	}
	return buf_add_str(b, i < len ? "\"..." : "\"");
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

	if (n == 1)
		return path[0] == '/';
	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}
