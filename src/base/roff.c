#include "base/roff.h"

#include <string.h>

#define COLUMNS 76

static void add_char(struct buf *out, char c)
{
	if (c == '\\')
		buf_add_str(out, "\\e");
	else if (c == '-')
		buf_add_str(out, "\\-");
	else if (c == '"')
		buf_add_str(out, "\\(dq");
	else
		buf_add_char(out, c);
}

static void add_word(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_char(out, text[i]);
}

int roff_literal(struct buf *out, const char *text, size_t n)
{
	if (n > 0 && (*text == '.' || *text == '\''))
		buf_add_str(out, "\\&");
	add_word(out, text, n);
	return out->failed;
}

/* "done." and "(done.)" end a sentence. */
static int ends_sentence(const char *word, size_t n)
{
	while (n > 0 && strchr("\")", word[n - 1]))
		n--;
	return n > 0 && strchr(".?!", word[n - 1]) != NULL;
}

int roff_text(struct buf *out, const char *text)
{
	size_t line = out->len;
	int sentence = 0;

	for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
		size_t n = strcspn(text, " \n");

		if (out->len > line &&
		    (sentence || out->len - line + n > COLUMNS)) {
			buf_add_char(out, '\n');
			line = out->len;
		} else if (out->len > line) {
			buf_add_char(out, ' ');
		}
		if (out->len == line)
			roff_literal(out, text, n);
		else
			add_word(out, text, n);
		sentence = ends_sentence(text, n);
		text += n;
	}
	return buf_add_char(out, '\n');
}
