#include "workspace/git_log.h"

#include "workspace/git_name.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define DIGITS "0123456789"

/* "TIME ZONE", then the end or a tab. A NUL is behind the text. */
static bool is_time(const char *at, const char *end)
{
	size_t n = strspn(at, DIGITS);

	at += n;
	if (n == 0 || n > 12 || at[0] != ' ' || (at[1] != '+' && at[1] != '-'))
		return false;
	at += 2;
	return strspn(at, DIGITS) == 4 && (at + 4 == end || at[4] == '\t');
}

static bool is_clean(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static bool is_word(const char *at, size_t id_len)
{
	return strspn(at, "0123456789abcdef") == id_len && at[id_len] == ' ';
}

static bool is_line(const char *line, size_t len, size_t id_len)
{
	const char *end = line + len, *mail;

	if (len < 2 * id_len + 2 || !is_word(line, id_len) ||
	    !is_word(line + id_len + 1, id_len))
		return false;
	mail = memchr(line, '>', len);
	return is_clean(line, len) && mail && end - mail > 2 && mail[1] == ' ' &&
	       is_time(mail + 2, end);
}

bool git_log_is_one(const struct buf *text, size_t id_len, const char *last,
		    size_t max)
{
	const char *at = buf_str(text), *newest = NULL;
	size_t n = 0;

	if (strlen(at) != text->len)
		return false;
	for (; *at; at++) {
		size_t len = strcspn(at, "\n");

		if (n++ == max || at[len] != '\n' || !is_line(at, len, id_len))
			return false;
		newest = at + id_len + 1;
		at += len;
	}
	return newest && !strncmp(newest, last, id_len);
}

size_t git_log_lines(const struct buf *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len; i++)
		n += text->data[i] == '\n';
	return n;
}

int git_log_ids(const struct buf *text, size_t id_len, struct buf *out)
{
	for (const char *at = buf_str(text); *at; at++) {
		buf_addf(out, "%.*s\n", (int)id_len, at + id_len + 1);
		at += strcspn(at, "\n");
		if (!*at)
			break;
	}
	return out->failed;
}

static void add_id(struct buf *text, size_t id_len, const char *id)
{
	for (size_t i = 0; i < id_len; i++)
		buf_add_char(text, id[0] ? id[i] : '0');
	buf_add_char(text, ' ');
}

int git_log_add(struct buf *text, size_t id_len, const char *old,
		const char *new, const char *task)
{
	if (text->len > 0 && text->data[text->len - 1] != '\n')
		return -EBADMSG;
	add_id(text, id_len, old);
	add_id(text, id_len, new);
	buf_addf(text, "pinfold <pinfold@localhost> %lld +0000\tpinfold: "
		       "promoted from %s\n",
		 (long long)time(NULL), task);
	return text->failed;
}
