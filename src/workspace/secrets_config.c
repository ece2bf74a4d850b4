/*
 * Takes secrets out of the text of a git configuration. What is not understood
 * stays as it is, for a tool inside must read it as before. A value that goes on
 * behind a backslash is joined to one line first: git reads it so, and a secret
 * may be in any part of it.
 */
#include "workspace/secrets.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Keys whose value is a secret, by the end of their name. */
static const char *const keys[] = {
	"extraheader", "password", "passwd",	    "passphrase", "pass",
	"token",       "secret",   "apikey",	    "api-key",	  "bearer",
	"cookie",      "authorization",
};
/* What stands before a secret in the middle of a value. */
static const char *const before_secrets[] = {
	"password=", "passwd=", "token=", "secret=", "apikey=", "api_key=",
};
#define HEADER "authorization:"
#define HEADER_WORDS 24 /* bytes behind it, in which a variable may come */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static size_t skip_blanks(const char *line, size_t len, size_t at)
{
	while (at < len && is_blank(line[at]))
		at++;
	return at;
}

/* Behind the "]" of the section's name that begins at at. */
static size_t behind_section(const char *line, size_t len, size_t at)
{
	bool quoted = false;

	for (; at < len && (quoted || line[at] != ']'); at++) {
		if (line[at] == '\\' && at + 1 < len)
			at++;
		else if (line[at] == '"')
			quoted = !quoted;
	}
	return at < len ? at + 1 : len;
}

/*
 * What stands before the key on its line: blanks, and the section's name where
 * both are on one line.
 */
static size_t before_key(const char *line, size_t len)
{
	size_t at = skip_blanks(line, len, 0);

	if (at < len && line[at] == '[')
		at = skip_blanks(line, len, behind_section(line, len, at));
	return at;
}

static size_t key_length(const char *line, size_t len)
{
	size_t n = 0;

	while (n < len && (isalnum((unsigned char)line[n]) || line[n] == '-'))
		n++;
	return n;
}

static bool ends_in(const char *key, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n >= k && !strncasecmp(key + n - k, end, k);
}

static bool is_secret_key(const char *key, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (ends_in(key, n, keys[i]))
			return true;
	}
	/* Too short to be an end of others. */
	return n == 3 && !strncasecmp(key, "pat", 3);
}

/* Does text begin with this, and does a value come behind it? */
static bool leads_to_secret(const char *text, size_t n, const char *before)
{
	size_t k = strlen(before);

	return n > k && !strncasecmp(text, before, k) &&
	       !strchr(" \t\"'$;", text[k]);
}

/* A header that is written out, not made of a variable. */
static bool is_header(const char *text, size_t n)
{
	size_t k = strlen(HEADER), rest;

	if (n <= k || strncasecmp(text, HEADER, k) != 0)
		return false;
	rest = n - k < HEADER_WORDS ? n - k : HEADER_WORDS;
	return !memchr(text + k, '$', rest);
}

/* A helper, an alias, a URL or the like that has one written into it. */
static bool holds_secret(const char *value, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(before_secrets); k++) {
			if (leads_to_secret(value + i, n - i,
					    before_secrets[k]))
				return true;
		}
		if (is_header(value + i, n - i))
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

/* Where the part before a host ends, if one does: behind its last "@". */
static size_t behind_at(const char *line, size_t len, size_t from)
{
	size_t found = 0;

	for (size_t i = from; i < len && !strchr("/ \t\"'", line[i]); i++) {
		if (line[i] == '\\' && i + 1 < len)
			i++;
		else if (line[i] == '@')
			found = i + 1;
	}
	return found;
}

/* Behind "://" at i: how many bytes of user and password to leave out. */
static size_t userinfo(const char *line, size_t len, size_t i, bool http,
		       size_t *ret_from)
{
	size_t end = behind_at(line, len, i);
	const char *colon;

	if (!end)
		return 0;
	*ret_from = i;
	if (http)
		return end - i;
	/* Of other schemes the user stays: git@host. */
	colon = memchr(line + i, ':', end - i);
	if (!colon)
		return 0;
	*ret_from = (size_t)(colon - line);
	return end - 1 - *ret_from;
}

static bool scrub_urls(const char *line, size_t len, struct buf *out)
{
	bool changed = false;
	size_t done = 0;

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

/* USER:PASSWORD@HOST without a scheme, as a proxy may be. */
static bool scrub_proxy(const char *line, size_t len, size_t value,
			struct buf *out)
{
	size_t end;

	while (value < len && strchr(" \t\"", line[value]))
		value++;
	end = behind_at(line, len, value);
	if (!end)
		return false;
	buf_add(out, line, value);
	buf_add(out, line + end, len - end);
	return true;
}

/* From the key on. */
static bool scrub_value(const char *line, size_t len, struct buf *out)
{
	size_t n = key_length(line, len);
	size_t value = skip_blanks(line, len, n);

	if (n == 0 || value == len || line[value] != '=')
		return scrub_urls(line, len, out);
	value++;
	if (value < len && (is_secret_key(line, n) ||
			    holds_secret(line + value, len - value))) {
		buf_add(out, line, value);
		return true;
	}
	return (ends_in(line, n, "proxy") &&
		scrub_proxy(line, len, value, out)) ||
	       scrub_urls(line, len, out);
}

static bool scrub_line(const char *line, size_t len, struct buf *out)
{
	size_t key = before_key(line, len);
	bool changed = scrub_urls(line, key, out);

	return scrub_value(line + key, len - key, out) || changed;
}

/*
 * Adds the first line of text to line, with all that goes on behind a backslash
 * at its end; in a comment nothing does. Returns how many bytes of text it took.
 */
static size_t take_line(const char *text, size_t len, struct buf *line)
{
	bool quoted = false, comment = false;
	size_t at = 0;

	for (; at < len && text[at] != '\n'; at++) {
		bool escape = !comment && text[at] == '\\' && at + 1 < len;

		if (escape && text[at + 1] == '\n') {
			at++;
			continue;
		}
		if (text[at] == '"')
			quoted = !quoted;
		comment |= !quoted && (text[at] == '#' || text[at] == ';');
		buf_add_char(line, text[at]);
		if (escape)
			buf_add_char(line, text[++at]);
	}
	return at;
}

int secrets_scrub_config(const char *text, size_t len, struct buf *out)
{
	AUTO_BUF struct buf line = BUF_INIT(out->max);
	size_t start = out->len;
	bool changed = false;

	while (len > 0 && !line.failed && !out->failed) {
		size_t n;

		buf_reset(&line);
		n = take_line(text, len, &line);
		changed |= scrub_line(buf_str(&line), line.len, out);
		if (n < len)
			buf_add_char(out, text[n++]);
		text += n;
		len -= n;
	}
	if (line.failed || out->failed)
		return line.failed ? line.failed : out->failed;
	if (!changed && out->data) {
		out->len = start;
		out->data[start] = '\0';
	}
	return changed;
}
