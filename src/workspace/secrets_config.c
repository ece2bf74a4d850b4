/*
 * Takes secrets out of the text of a git configuration. Line by line: what is
 * not understood stays as it is, for a tool inside must read it as before.
 */
#include "workspace/secrets.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Keys whose value is a secret, by the end of their name. */
static const char *const keys[] = {
	"extraheader", "password", "smtppass", "token", "secret",
};

static bool is_secret_key(const char *line, size_t len)
{
	size_t from = 0, n;

	while (from < len && isspace((unsigned char)line[from]))
		from++;
	for (n = from; n < len && (isalnum((unsigned char)line[n]) ||
				   line[n] == '-');)
		n++;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		size_t k = strlen(keys[i]);

		if (n - from >= k && !strncasecmp(line + n - k, keys[i], k))
			return true;
	}
	return false;
}

/* Is the URL that ends its scheme at line + at one of http or https? */
static bool is_http(const char *line, size_t at)
{
	return (at >= 4 && !strncasecmp(line + at - 4, "http", 4)) ||
	       (at >= 5 && !strncasecmp(line + at - 5, "https", 5));
}

/* Behind "://" at i: how many bytes of user and password to leave out. */
static size_t userinfo(const char *line, size_t len, size_t i, bool http,
		       size_t *ret_from)
{
	size_t end = i, at = 0;
	const char *colon;

	for (; end < len && !strchr("/ \t\"'#;", line[end]); end++) {
		if (line[end] == '@')
			at = end;
	}
	if (!at)
		return 0;
	*ret_from = i;
	if (http)
		return at + 1 - i;
	/* Of other schemes the user stays: git@host. */
	colon = memchr(line + i, ':', at - i);
	if (!colon)
		return 0;
	*ret_from = (size_t)(colon - line);
	return at - *ret_from;
}

static bool scrub_line(const char *line, size_t len, struct buf *out)
{
	const char *equals = memchr(line, '=', len);
	bool changed = false;
	size_t done = 0;

	if (equals && is_secret_key(line, (size_t)(equals - line)) &&
	    (size_t)(equals + 1 - line) < len) {
		buf_add(out, line, (size_t)(equals + 1 - line));
		return true;
	}
	for (size_t i = 0; i + 3 < len; i++) {
		size_t from, n;

		if (memcmp(line + i, "://", 3) != 0)
			continue;
		n = userinfo(line, len, i + 3, is_http(line, i), &from);
		if (n == 0)
			continue;
		buf_add(out, line + done, from - done);
		done = from + n;
		i = done;
		changed = true;
	}
	buf_add(out, line + done, len - done);
	return changed;
}

int secrets_scrub_config(const char *text, size_t len, struct buf *out)
{
	size_t start = out->len;
	bool changed = false;

	while (len > 0) {
		const char *next = memchr(text, '\n', len);
		size_t n = next ? (size_t)(next - text) : len;

		changed |= scrub_line(text, n, out);
		if (next)
			buf_add_char(out, '\n');
		n += next != NULL;
		text += n;
		len -= n;
	}
	if (out->failed)
		return out->failed;
	if (!changed && out->data) {
		out->len = start;
		out->data[start] = '\0';
	}
	return changed;
}
