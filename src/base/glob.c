#include "base/glob.h"

#include <stddef.h>
#include <string.h>

/* Bytes of the character at s, which ends before end; 1 if it is none. */
static size_t character(const char *s, const char *end)
{
	unsigned char c = (unsigned char)*s;
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

	for (size_t i = 1; i < n; i++) {
		if (s + i >= end || ((unsigned char)s[i] & 0xc0) != 0x80)
			return 1;
	}
	return n;
}

static int compare(const char *a, size_t n, const char *b, size_t m)
{
	int r = memcmp(a, b, n < m ? n : m);

	return r ? r : n < m ? -1 : n > m;
}

/* One member of a set; *at moves behind it. */
static size_t member(const char **at, const char *end)
{
	const char *s = *at;
	size_t n;

	if (*s == '\\' && s + 1 < end)
		s++;
	n = character(s, end);
	*at = s + n;
	return n;
}

/* One character or range of a set at *at: is c (n bytes) in it? */
static bool in_range(const char **at, const char *end, const char *c, size_t n)
{
	size_t low_n = member(at, end), high_n = low_n;
	const char *low = *at - low_n, *high = low;

	if (*at + 1 < end && **at == '-' && (*at)[1] != ']') {
		*at += 1;
		high_n = member(at, end);
		high = *at - high_n;
	}
	return compare(low, low_n, c, n) <= 0 && compare(c, n, high, high_n) <= 0;
}

/*
 * Is the character c (n bytes) in the set that begins behind its bracket at p?
 * Returns the place behind the closing bracket; NULL: it is never closed.
 */
static const char *in_set(const char *p, const char *end, const char *c,
			  size_t n, bool *ret)
{
	bool negated = p < end && (*p == '!' || *p == '^');
	bool found = false, first = true;

	p += negated;
	for (; p < end && (*p != ']' || first); first = false)
		found |= in_range(&p, end, c, n);
	*ret = found != negated;
	return p < end ? p + 1 : NULL;
}

/* One step of a component: pattern and text behind it; false: no match. */
static bool step(const char **p, const char *p_end, const char **s,
		 const char *s_end)
{
	const char *next;
	bool in;

	if (*s >= s_end || *p >= p_end)
		return false;
	if (**p == '?') {
		*p += 1;
		*s += character(*s, s_end);
		return true;
	}
	if (**p == '[') {
		size_t n = character(*s, s_end);

		next = in_set(*p + 1, p_end, *s, n, &in);
		if (!next || !in)
			return false;
		*p = next;
		*s += n;
		return true;
	}
	if (**p == '\\' && *p + 1 < p_end)
		*p += 1;
	if (**p != **s)
		return false;
	*p += 1;
	*s += 1;
	return true;
}

/* One component against one of the pattern. The last star alone gives way. */
static bool component(const char *p, size_t p_len, const char *s, size_t s_len)
{
	const char *p_end = p + p_len, *s_end = s + s_len;
	const char *star = NULL, *from = NULL;

	for (;;) {
		if (p < p_end && *p == '*') {
			star = ++p;
			from = s;
			continue;
		}
		if (s == s_end && p == p_end)
			return true;
		if (step(&p, p_end, &s, s_end))
			continue;
		if (!star || from >= s_end)
			return false;
		p = star;
		s = ++from;
	}
}

static bool is_deep(const char *p, size_t n)
{
	return n == 2 && p[0] == '*' && p[1] == '*';
}

static const char *behind(const char *s, size_t n)
{
	return s[n] == '/' ? s + n + 1 : s + n;
}

enum extent { WHOLE, COVERS };

/* Goes on behind one component that is as the pattern says. */
static bool advance(const char **p, const char **s)
{
	size_t n = strcspn(*p, "/"), m = strcspn(*s, "/");

	if (!**p || !**s || !component(*p, n, *s, m))
		return false;
	*p = behind(*p, n);
	*s = behind(*s, m);
	return true;
}

static bool match(const char *p, const char *s, enum extent extent)
{
	const char *deep = NULL, *from = NULL;

	for (;;) {
		size_t n = strcspn(p, "/");

		if (is_deep(p, n)) {
			deep = p = behind(p, n);
			from = s;
			continue;
		}
		if (*p == '\0' && (*s == '\0' || extent == COVERS || deep == p))
			return true;
		if (advance(&p, &s))
			continue;
		if (!deep || !*from)
			return false;
		from = behind(from, strcspn(from, "/"));
		p = deep;
		s = from;
	}
}

bool glob_match(const char *pattern, const char *path)
{
	return match(pattern, path, WHOLE);
}

bool glob_covers(const char *pattern, const char *path)
{
	return match(pattern, path, COVERS);
}

bool glob_leads_through(const char *pattern, const char *path)
{
	const char *p = pattern, *s = path;

	while (*p && *s) {
		size_t n = strcspn(p, "/"), m = strcspn(s, "/");

		if (is_deep(p, n) || !component(p, n, s, m))
			return false;
		p = behind(p, n);
		s = behind(s, m);
	}
	return *p && !*s;
}

bool glob_is_magic(const char *pattern)
{
	return strpbrk(pattern, "*?[\\") != NULL;
}

/* Behind one element of a component; NULL with a fault of it. */
static const char *check_element(const char *p, const char *end,
				 const char **fault)
{
	bool in;

	if (*p == '*' && p + 1 < end && p[1] == '*') {
		*fault = "has a ** that is no whole component";
		return NULL;
	}
	if (*p == '\\') {
		*fault = "ends a component with a backslash";
		return p + 1 < end ? p + 2 : NULL;
	}
	if (*p != '[')
		return p + 1;
	*fault = "has a [ that is never closed";
	return in_set(p + 1, end, "", 0, &in);
}

static bool is_dots(const char *p, size_t n)
{
	return n == 0 || (n == 1 && p[0] == '.') ||
	       (n == 2 && !memcmp(p, "..", 2));
}

/* The same for one component. */
static const char *component_fault(const char *p, size_t n)
{
	const char *end = p + n, *fault = NULL;

	if (is_dots(p, n))
		return "has an empty, \".\" or \"..\" part or a slash at its "
		       "end";
	if (is_deep(p, n))
		return NULL;
	while (p && p < end)
		p = check_element(p, end, &fault);
	return p ? NULL : fault;
}

const char *glob_fault(const char *pattern)
{
	const char *fault = NULL;

	if (!*pattern)
		return "is empty";
	for (const char *p = pattern; !fault;) {
		size_t n = strcspn(p, "/");

		fault = component_fault(p, n);
		if (p[n] == '\0')
			break;
		p += n + 1;
	}
	return fault;
}
