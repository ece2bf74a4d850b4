#include "cli/git_author.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_MAX (1u << 20)
#define KEY_MAX 32

struct reader {
	const char *at;
	bool in_user; /* section [user], without a subsection */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct reader *r)
{
	while (is_blank(*r->at))
		r->at++;
}

static void skip_line(struct reader *r)
{
	r->at += strcspn(r->at, "\n");
}

/* "[user]" or another; a "]" may stand in a quoted subsection. */
static void read_section(struct reader *r)
{
	bool quoted = false;

	r->in_user = !strncasecmp(r->at, "[user]", 6);
	for (; *r->at && *r->at != '\n'; r->at++) {
		if (*r->at == '\\' && quoted && r->at[1])
			r->at++;
		else if (*r->at == '"')
			quoted = !quoted;
		else if (*r->at == ']' && !quoted)
			break;
	}
	if (*r->at == ']')
		r->at++;
}

/* The character that a backslash and what follows it stand for; 0: none. */
static char unescape(struct reader *r)
{
	char c = *++r->at;

	if (c == '\r' && r->at[1] == '\n')
		c = *++r->at;
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case '"':
	case '\\':
		return c;
	default: /* the line goes on in the next, or it is not git's */
		if (!c)
			r->at--;
		return '\0';
	}
}

/* What the character at hand adds to a value; 0: nothing. */
static char next_char(struct reader *r, bool *quoted)
{
	if (*r->at == '\\')
		return unescape(r);
	if (*r->at != '"')
		return *r->at;
	*quoted = !*quoted;
	return '\0';
}

static bool ends_value(char c, bool quoted)
{
	return !c || c == '\n' || (!quoted && (c == '#' || c == ';'));
}

/* The value up to the end of its line, as git reads it. */
static void read_value(struct reader *r, struct buf *out)
{
	bool quoted = false;
	size_t end = 0; /* behind the last that is no blank outside quotes */

	skip_blanks(r);
	for (; !ends_value(*r->at, quoted); r->at++) {
		char c = next_char(r, &quoted);

		if (c)
			buf_add_char(out, c);
		if (quoted || !is_blank(c))
			end = out->len;
	}
	if (out->data && !out->failed)
		out->data[out->len = end] = '\0';
	skip_line(r);
}

/* Takes a value that can stand in a commit. */
static void take(char to[GIT_AUTHOR_MAX + 1], const struct buf *value)
{
	const char *s = buf_str(value);
	bool sound = !value->failed && value->len <= GIT_AUTHOR_MAX &&
		     str_is_utf8(s, value->len) && !strpbrk(s, "<>");

	for (size_t i = 0; i < value->len && sound; i++)
		sound = (unsigned char)s[i] >= ' ' && s[i] != 0x7f;
	memcpy(to, sound ? s : "", sound ? value->len + 1 : 1);
}

static void read_key(struct reader *r, struct git_author *ret)
{
	AUTO_BUF struct buf value = BUF_INIT(FILE_MAX);
	size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyz"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
	char key[KEY_MAX] = "";

	if (n < sizeof(key))
		memcpy(key, r->at, n);
	r->at += n;
	skip_blanks(r);
	if (n == 0 || *r->at != '=') {
		skip_line(r);
		return;
	}
	r->at++;
	read_value(r, &value);
	if (r->in_user && !strcasecmp(key, "name"))
		take(ret->name, &value);
	else if (r->in_user && !strcasecmp(key, "email"))
		take(ret->email, &value);
}

void git_author_parse(const char *text, struct git_author *ret)
{
	struct reader r = {.at = text};

	/* A mark of the byte order, which git passes over too. */
	if (str_starts(r.at, "\xef\xbb\xbf"))
		r.at += 3;
	while (*r.at) {
		if (is_blank(*r.at) || *r.at == '\n')
			r.at++;
		else if (*r.at == '#' || *r.at == ';')
			skip_line(&r);
		else if (*r.at == '[')
			read_section(&r);
		else
			read_key(&r, ret);
	}
}

static void read_file(const char *path, struct git_author *ret)
{
	AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);

	if (path && path[0] && io_read_file(AT_FDCWD, path, &text) == 0)
		git_author_parse(buf_str(&text), ret);
}

void git_author_read(const char *home, struct git_author *ret)
{
	const char *global = getenv("GIT_CONFIG_GLOBAL");
	const char *xdg = getenv("XDG_CONFIG_HOME");
	AUTO_FREE char *own = str_format("%s/.gitconfig", home);
	AUTO_FREE char *other =
		xdg && xdg[0] ? str_format("%s/git/config", xdg)
			      : str_format("%s/.config/git/config", home);

	*ret = (struct git_author){0};
	if (global) {
		read_file(global, ret);
		return;
	}
	read_file(other, ret);
	read_file(own, ret);
}
