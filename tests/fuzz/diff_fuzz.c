/*
 * What looks at content and names of others: the comparison of two texts, whose
 * patch brings the one to the other; the scrubbing of a git configuration; globs
 * over paths; what a terminal is shown. The input is two texts, the first as long
 * as its first two bytes say.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/str.h"
#include "workspace/patch.h"
#include "workspace/secrets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char no_newline[] = "\\ No newline at end of file\n";

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* The length of a line with its newline, if it has one. */
static size_t line_length(const char *s, size_t len)
{
	const char *end = memchr(s, '\n', len);

	return end ? (size_t)(end - s) + 1 : len;
}

/* Takes one line of a hunk that stands in before, or comes into after. */
static void apply_line(const char *line, size_t n, bool bare, const char *before,
		       size_t before_len, size_t *at, struct buf *after)
{
	size_t len = n - 1 - bare;

	if (line[0] != '+') {
		require(before_len - *at >= len &&
			!memcmp(before + *at, line + 1, len));
		*at += len;
	}
	if (line[0] != '-')
		buf_add(after, line + 1, len);
}

/* What is before the hunk at line number from is taken as it is. */
static void copy_lines(const char *before, size_t len, unsigned from,
		       unsigned *line, size_t *at, struct buf *after)
{
	while (*line < from && *at < len) {
		size_t n = line_length(before + *at, len - *at);

		buf_add(after, before + *at, n);
		*at += n;
		++*line;
	}
}

static void apply(const struct buf *patch, const char *before, size_t len,
		  struct buf *after)
{
	const char *p = strstr(buf_str(patch), "\n@@ -");
	const char *end = patch->data + patch->len;
	unsigned line = 1, from, count;
	size_t at = 0;

	for (p = p ? p + 1 : end; p < end;) {
		size_t n = line_length(p, (size_t)(end - p));
		bool bare = false;

		if (*p == '@') {
			char *rest;

			from = (unsigned)strtoul(p + 4, &rest, 10);
			count = *rest == ',' ? (unsigned)atoi(rest + 1) : 1;
			copy_lines(before, len, count ? from : from + 1, &line,
				   &at, after);
			p += n;
			continue;
		}
		/* Of a line without its newline the patch has one. */
		bare = (size_t)(end - p) - n >= sizeof(no_newline) - 1 &&
		       !memcmp(p + n, no_newline, sizeof(no_newline) - 1);
		line += *p != '+';
		apply_line(p, n, bare, before, len, &at, after);
		p += n + (bare ? sizeof(no_newline) - 1 : 0);
	}
	buf_add(after, before + at, len - at);
}

static struct patch_side side(const char *data, size_t len)
{
	return (struct patch_side){S_IFREG | 0644, len, data, len, NULL};
}

static void check_patch(const char *a, size_t n, const char *b, size_t m)
{
	AUTO_BUF struct buf out = BUF_INIT(64u << 20);
	AUTO_BUF struct buf after = BUF_INIT(64u << 20);
	struct patch_change c = {
		.path = "f", .before = side(a, n), .after = side(b, m),
	};

	require(patch_write(&out, &c) == 0);
	if (memchr(a, '\0', n) || memchr(b, '\0', m))
		return;
	if (n == m && !memcmp(a, b, n)) {
		require(out.len == 0);
		return;
	}
	apply(&out, a, n, &after);
	require(after.len == m && !memcmp(buf_str(&after), b, m));
}

static void check_terminal(const char *s, size_t len)
{
	AUTO_BUF struct buf out = BUF_INIT(64u << 20);

	require(str_show(&out, s, len) == 0);
	for (size_t i = 0; i < out.len; i++)
		require(((unsigned char)out.data[i] >= 0x20 ||
			 out.data[i] == '\t') &&
			out.data[i] != 0x7f);
	require(str_is_utf8(buf_str(&out), out.len));
}

static void check_config(const char *s, size_t len)
{
	AUTO_BUF struct buf out = BUF_INIT(64u << 20);
	AUTO_BUF struct buf again = BUF_INIT(64u << 20);
	int r = secrets_scrub_config(s, len, &out);

	require(r == 0 || r == 1);
	require(r == 0 ? out.len == 0 : out.len < len);
	/* What is scrubbed has nothing left to be scrubbed. */
	if (r == 1)
		secrets_scrub_config(out.data, out.len, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *a = NULL;
	AUTO_FREE char *b = NULL;
	size_t n, m;

	if (size < 2)
		return 0;
	n = (size_t)data[0] << 8 | data[1];
	if (n > size - 2)
		n = size - 2;
	m = size - 2 - n;
	a = calloc(1, n + 1);
	b = calloc(1, m + 1);
	require(a && b);
	memcpy(a, data + 2, n);
	memcpy(b, data + 2 + n, m);
	check_patch(a, n, b, m);
	check_terminal(b, m);
	check_config(b, m);
	if (!glob_fault(a) && glob_match(a, b))
		require(glob_covers(a, b));
	return 0;
}
