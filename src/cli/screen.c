#include "cli/screen.h"

#include "base/str.h"

#include <string.h>

#define COLOUR_LEN_MAX 32

enum kind { MORE, PASS, SHOW };

/* ESC [ 31 ; 1 m: the only sequence that changes nothing but looks. */
static enum kind colour(const char *s, size_t len, bool last, size_t *ret_n)
{
	*ret_n = 1;
	if (len >= 2 && s[1] != '[')
		return SHOW;
	for (size_t i = 2; i < len && i < COLOUR_LEN_MAX; i++) {
		if (s[i] == 'm') {
			*ret_n = i + 1;
			return PASS;
		}
		if (!strchr("0123456789;:", s[i]) || !s[i])
			return SHOW;
	}
	return last || len >= COLOUR_LEN_MAX ? SHOW : MORE;
}

/* Bytes of the character that starts so; 0: none does. */
static size_t character_len(unsigned char first)
{
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

static enum kind character(const char *s, size_t len, bool last, size_t *ret_n)
{
	size_t n = character_len((unsigned char)s[0]);

	*ret_n = 1;
	if (n > len)
		return last ? SHOW : MORE;
	if (n == 0 || !str_is_utf8(s, n))
		return SHOW;
	*ret_n = n;
	/* The C1 controls: some terminals act on them. */
	return (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0 ? SHOW
									: PASS;
}

static enum kind next(const char *s, size_t len, bool last, size_t *ret_n)
{
	unsigned char c = (unsigned char)s[0];

	*ret_n = 1;
	if (c == 0x1b)
		return colour(s, len, last, ret_n);
	if (c >= 0x80)
		return character(s, len, last, ret_n);
	return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t' || c == '\r'
		       ? PASS
		       : SHOW;
}

/* Deals with whole pieces of s; returns how many bytes that were. */
static size_t add(const char *s, size_t len, bool last, struct buf *out)
{
	size_t at = 0, n;

	while (at < len) {
		enum kind kind = next(s + at, len - at, last, &n);

		if (kind == MORE)
			break;
		if (kind == PASS)
			buf_add(out, s + at, n);
		for (size_t i = 0; kind == SHOW && i < n; i++)
			buf_addf(out, "\\x%02x", (unsigned char)s[at + i]);
		at += n;
	}
	return at;
}

int screen_add(struct screen *s, const char *data, size_t len, bool last,
	       struct buf *out)
{
	size_t used;

	while (s->n > 0 && len > 0) {
		/* One byte at a time until what was kept is dealt with. */
		s->pending[s->n++] = *data++;
		len--;
		used = add(s->pending, s->n, false, out);
		s->n -= used;
		memmove(s->pending, s->pending + used, s->n);
	}
	used = add(data, len, last, out);
	memcpy(s->pending + s->n, data + used, len - used);
	s->n += len - used;
	if (last) {
		add(s->pending, s->n, true, out);
		s->n = 0;
	}
	return out->failed;
}
