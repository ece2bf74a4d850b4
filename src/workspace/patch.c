#include "workspace/patch.h"

#include "base/num.h"
#include "base/str.h"
#include "workspace/lines.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CONTEXT 3

static bool is_plain(const char *path)
{
	for (const unsigned char *s = (const unsigned char *)path; *s; s++) {
		if (*s < 0x20 || *s >= 0x7f || *s == '"' || *s == '\\')
			return false;
	}
	return true;
}

int patch_path(struct buf *out, const char *prefix, const char *path)
{
	if (is_plain(path)) {
		buf_add_str(out, prefix);
		return buf_add_str(out, path);
	}
	buf_add_char(out, '"');
	buf_add_str(out, prefix);
	for (const unsigned char *s = (const unsigned char *)path; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_addf(out, "\\%c", *s);
		else if (*s == '\n')
			buf_add_str(out, "\\n");
		else if (*s == '\t')
			buf_add_str(out, "\\t");
		else if (*s < 0x20 || *s >= 0x7f)
			buf_addf(out, "\\%03o", *s);
		else
			buf_add_char(out, (char)*s);
	}
	return buf_add_char(out, '"');
}

/* ---- hunks ---- */

struct hunks {
	struct buf *out;
	const struct lines *a, *b;
};

static void add_line(struct hunks *h, char sign, const struct lines *l,
		     uint32_t i)
{
	size_t len = l->start[i + 1] - l->start[i];
	const char *text = l->text + l->start[i];

	buf_add_char(h->out, sign);
	buf_add(h->out, text, len);
	if (text[len - 1] != '\n')
		buf_add_str(h->out, "\n\\ No newline at end of file\n");
}

static void add_range(struct buf *out, char sign, uint32_t from, uint32_t to)
{
	uint32_t n = to - from;

	/* Of no lines the one before is named. */
	buf_addf(out, "%c%u", sign, n ? from + 1 : from);
	if (n != 1)
		buf_addf(out, ",%u", n);
}

/* The next line from i that changed in a, or at its place in b. */
static bool find_change(const struct hunks *h, uint32_t *i, uint32_t *k)
{
	while (*i < h->a->n || *k < h->b->n) {
		if ((*i < h->a->n && h->a->changed[*i]) ||
		    (*k < h->b->n && h->b->changed[*k]))
			return true;
		++*i;
		++*k;
	}
	return false;
}

static void skip_change(const struct hunks *h, uint32_t *i, uint32_t *k)
{
	while (*i < h->a->n && h->a->changed[*i])
		++*i;
	while (*k < h->b->n && h->b->changed[*k])
		++*k;
}

static void add_body(struct hunks *h, uint32_t i, uint32_t i_end, uint32_t k,
		     uint32_t k_end)
{
	while (i < i_end || k < k_end) {
		if (i < i_end && h->a->changed[i]) {
			add_line(h, '-', h->a, i++);
		} else if (k < k_end && h->b->changed[k]) {
			add_line(h, '+', h->b, k++);
		} else {
			add_line(h, ' ', h->a, i++);
			k++;
		}
	}
}

/* One hunk that begins with the change at i and k; moves behind it. */
static void add_hunk(struct hunks *h, uint32_t *i, uint32_t *k)
{
	uint32_t before = *i < CONTEXT ? *i : CONTEXT;
	uint32_t from = *i - before, to = *k - before, end, end_b, left;

	do {
		skip_change(h, i, k);
		end = *i;
		end_b = *k;
	} while (find_change(h, i, k) && *i - end <= 2 * CONTEXT);
	left = h->a->n - end < CONTEXT ? h->a->n - end : CONTEXT;
	end += left;
	end_b += left;
	buf_add_str(h->out, "@@ ");
	add_range(h->out, '-', from, end);
	buf_add_char(h->out, ' ');
	add_range(h->out, '+', to, end_b);
	buf_add_str(h->out, " @@\n");
	add_body(h, from, end, to, end_b);
}

static int add_hunks(struct buf *out, const struct lines *a,
		     const struct lines *b)
{
	struct hunks h = {.out = out, .a = a, .b = b};
	uint32_t i = 0, k = 0;

	while (find_change(&h, &i, &k))
		add_hunk(&h, &i, &k);
	return out->failed;
}

/* ---- headers ---- */

static void add_names(struct buf *out, const char *before, const char *after)
{
	buf_add_str(out, "diff --git ");
	patch_path(out, "a/", before);
	buf_add_char(out, ' ');
	patch_path(out, "b/", after);
	buf_add_char(out, '\n');
}

/* "--- a/path", or /dev/null; a blank in it needs a tab behind it. */
static void add_file_line(struct buf *out, const char *sign, const char *prefix,
			  const char *path)
{
	buf_add_str(out, sign);
	if (!path) {
		buf_add_str(out, "/dev/null\n");
		return;
	}
	patch_path(out, prefix, path);
	buf_add_str(out, strchr(path, ' ') && is_plain(path) ? "\t\n" : "\n");
}

/* The modes that git knows. */
static unsigned git_mode(mode_t mode)
{
	if (S_ISLNK(mode))
		return 0120000;
	return mode & 0100 ? 0100755 : 0100644;
}

static bool is_git_type(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "a file";
	case S_IFDIR:
		return "a directory";
	case S_IFLNK:
		return "a link";
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	default:
		return "a device";
	}
}

static bool is_binary(const struct patch_side *s)
{
	return s->mode && (!s->data || memchr(s->data, '\0', s->len));
}

static void add_size(struct buf *out, const struct patch_side *s)
{
	if (!s->mode)
		buf_add_str(out, "nothing");
	else
		num_human_size(out, S_ISLNK(s->mode) ? s->len : s->size);
}

static void begin_note(struct buf *out, const char *path)
{
	buf_add_str(out, "# ");
	patch_path(out, "", path);
}

/* What git's own header cannot say of the permissions. */
static void note_modes(struct buf *out, const struct patch_change *c)
{
	unsigned from = c->before.mode & 07777, to = c->after.mode & 07777;
	bool both = c->before.mode && c->after.mode;

	if (both && S_ISLNK(c->before.mode) && S_ISLNK(c->after.mode))
		return;
	if (both && from != to && (from ^ to) != 0111) {
		begin_note(out, c->path);
		buf_addf(out, ": permissions %04o -> %04o\n", from, to);
	}
	if (!c->before.mode && (to & ~0777u)) {
		begin_note(out, c->path);
		buf_addf(out, ": permissions %04o\n", to);
	}
}

static void note_types(struct buf *out, const struct patch_change *c)
{
	if (c->before.mode && !is_git_type(c->before.mode)) {
		begin_note(out, c->path);
		buf_addf(out, " was %s\n", type_name(c->before.mode));
	}
	if (c->after.mode && !is_git_type(c->after.mode)) {
		begin_note(out, c->path);
		buf_addf(out, " is %s\n", type_name(c->after.mode));
	}
}

/*
 * git apply wants an index line here. One without whole names of objects has it
 * refuse the file by its name, unless that is excluded.
 */
static void add_binary(struct buf *out, const struct patch_change *c)
{
	buf_add_str(out, "index 0000000..0000000\n");
	buf_add_str(out, "Binary files ");
	if (c->before.mode)
		patch_path(out, "a/", c->path);
	else
		buf_add_str(out, "/dev/null");
	buf_add_str(out, " and ");
	if (c->after.mode)
		patch_path(out, "b/", c->path);
	else
		buf_add_str(out, "/dev/null");
	buf_add_str(out, " differ\n");
}

/* Why there is no text, and how large it is: before the header. */
static void note_binary(struct buf *out, const struct patch_change *c,
			const char *why)
{
	begin_note(out, c->path);
	buf_addf(out, ": %s, ", why);
	add_size(out, &c->before);
	buf_add_str(out, " -> ");
	add_size(out, &c->after);
	buf_add_char(out, '\n');
}

static bool same_content(const struct patch_side *a, const struct patch_side *b)
{
	return a->data && b->data && a->len == b->len &&
	       !memcmp(a->data, b->data, a->len);
}

static const char *why_no_text(const struct patch_change *c)
{
	if (c->before.omitted)
		return c->before.omitted;
	if (c->after.omitted)
		return c->after.omitted;
	return is_binary(&c->before) || is_binary(&c->after) ? "binary" : NULL;
}

static void add_header(struct buf *out, const struct patch_change *c)
{
	unsigned before = git_mode(c->before.mode);
	unsigned after = git_mode(c->after.mode);

	add_names(out, c->path_before ? c->path_before : c->path, c->path);
	if (!c->before.mode) {
		buf_addf(out, "new file mode %06o\n", after);
	} else if (!c->after.mode) {
		buf_addf(out, "deleted file mode %06o\n", before);
	} else if (before != after) {
		buf_addf(out, "old mode %06o\nnew mode %06o\n", before, after);
	}
	if (!c->path_before)
		return;
	buf_add_str(out, "similarity index 100%\nrename from ");
	patch_path(out, "", c->path_before);
	buf_add_str(out, "\nrename to ");
	patch_path(out, "", c->path);
	buf_add_char(out, '\n');
}

static int add_text(struct buf *out, const struct patch_change *c,
		    const struct lines *a, const struct lines *b)
{
	add_header(out, c);
	if (c->before.len == 0 && c->after.len == 0)
		return out->failed;
	add_file_line(out, "--- ", "a/", c->before.mode ? c->path : NULL);
	add_file_line(out, "+++ ", "b/", c->after.mode ? c->path : NULL);
	return add_hunks(out, a, b);
}

static int add_content(struct buf *out, const struct patch_change *c)
{
	AUTO_LINES struct lines a = {0};
	AUTO_LINES struct lines b = {0};
	const char *why = why_no_text(c);
	int r = 0;

	if (!why)
		r = lines_compare(&a, c->before.data, c->before.len, &b,
				  c->after.data, c->after.len);
	if (r == -EFBIG)
		why = "more lines than are compared";
	else if (r < 0)
		return r;
	if (!why)
		return add_text(out, c, &a, &b);
	note_binary(out, c, why);
	add_header(out, c);
	add_binary(out, c);
	return out->failed;
}

/* Header and content; both sides are of git's types, and of the same one. */
static int add_file(struct buf *out, const struct patch_change *c)
{
	bool both = c->before.mode && c->after.mode;

	if (!c->path_before &&
	    (!both || !same_content(&c->before, &c->after)))
		return add_content(out, c);
	/* Only permissions that git does not know: there is nothing to say. */
	if (c->path_before ||
	    git_mode(c->before.mode) != git_mode(c->after.mode))
		add_header(out, c);
	return out->failed;
}

int patch_write(struct buf *out, const struct patch_change *c)
{
	static const struct patch_side none = {.data = ""};
	struct patch_change first = *c, second = *c;
	bool from = is_git_type(c->before.mode);
	bool to = is_git_type(c->after.mode);
	int r = 0;

	if (c->held) {
		begin_note(out, c->path);
		buf_addf(out, " held back: %s\n", c->held);
	}
	note_types(out, c);
	note_modes(out, c);
	if (from && to && S_ISLNK(c->before.mode) == S_ISLNK(c->after.mode))
		return add_file(out, c);
	/* Something else in its place: git tells it as two changes. */
	first.after = none;
	second.before = none;
	if (from)
		r = add_file(out, &first);
	if (to && r == 0)
		r = add_file(out, &second);
	return r < 0 ? r : out->failed;
}
