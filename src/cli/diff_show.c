#include "cli/diff_show.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/colour.h"
#include "workspace/differ.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {"added", "modified", "deleted"};
static const char kind_letters[] = {'A', 'M', 'D'};
static const enum colour kind_colours[] = {COLOUR_GREEN, COLOUR_YELLOW,
					   COLOUR_RED};

const char *show_kind_name(enum change_kind kind)
{
	return kind_names[kind];
}

static char type_letter(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 'f';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	default:
		return 'c';
	}
}

/* The type is said where it is another one. */
static void print_modes(struct buf *out, mode_t before, mode_t after)
{
	unsigned from = (unsigned)before & 07777u, to = (unsigned)after & 07777u;

	if ((before & S_IFMT) == (after & S_IFMT))
		buf_addf(out, " (%04o -> %04o)", from, to);
	else
		buf_addf(out, " (%c%04o -> %c%04o)", type_letter(before), from,
			 type_letter(after), to);
}

static void print_notes(struct buf *out, const struct change *c,
			const struct show_notes *notes)
{
	if (c->kind == CHANGE_MODIFIED && c->mode != c->mode_before)
		print_modes(out, c->mode_before, c->mode);
	if (notes->target)
		report_target(out, notes->target, notes->leaves);
	if (notes->from) {
		buf_add_str(out, "  moved from ");
		report_path(out, notes->from);
	}
	if (notes->to) {
		buf_add_str(out, "  moved to ");
		report_path(out, notes->to);
	}
	if (notes->held)
		buf_addf(out, "  held back: %s", notes->held);
	if (notes->conflict)
		buf_addf(out, "  conflict: %s", notes->conflict);
}

int show_line(struct show *s, enum change_kind kind, const char *text)
{
	struct buf *out = &s->report.out;

	buf_add_str(out, colour_code(s->report.colour, kind_colours[kind]));
	if (s->how == SHOW_STAT)
		buf_addf(out, "%-8s %10s  ", kind_names[kind], "");
	else
		buf_addf(out, "%c  ", kind_letters[kind]);
	buf_add_str(out, text);
	buf_add_str(out, colour_code(s->report.colour, COLOUR_NONE));
	return report_flush(&s->report);
}

/* Name stands for the change: its path, or its last part in a tree. */
static int print_line(struct show *s, const struct change *c, const char *name,
		      const struct show_notes *notes)
{
	struct buf *out = &s->report.out;
	AUTO_FREE char *shown = str_format("%s%s", name,
					   S_ISDIR(c->mode) ? "/" : "");
	AUTO_BUF struct buf size = BUF_INIT(64);

	if (!shown)
		return -ENOMEM;
	buf_add_str(out, colour_code(s->report.colour, kind_colours[c->kind]));
	if (s->how == SHOW_STAT) {
		if (c->kind != CHANGE_DELETED && S_ISREG(c->mode))
			num_human_size(&size, c->size);
		buf_addf(out, "%-8s %10s  ", kind_names[c->kind],
			 buf_str(&size));
	} else {
		buf_addf(out, "%c  ", kind_letters[c->kind]);
	}
	report_path(out, shown);
	print_notes(out, c, notes);
	buf_add_str(out, colour_code(s->report.colour, COLOUR_NONE));
	buf_add_char(out, '\n');
	return report_flush(&s->report);
}

/* ---- a tree ---- */

static void indent(struct buf *out, size_t depth)
{
	while (depth-- > 0)
		buf_add_str(out, "    ");
}

/* How many bytes of whole directories two paths have in common. */
static size_t common_directories(const char *a, const char *b)
{
	size_t n = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++) {
		if (a[i] == '/')
			n = i + 1;
	}
	return n;
}

/* Lines for the directories on the way to path that are not open yet. */
static int open_directories(struct show *s, const char *path, size_t *depth)
{
	struct buf *out = &s->report.out;
	size_t from = s->open_known ? common_directories(buf_str(&s->open), path)
				    : 0;

	*depth = 0;
	for (size_t i = 0; i < from; i++)
		*depth += path[i] == '/';
	for (const char *slash; (slash = strchr(path + from, '/'));) {
		AUTO_FREE char *name = strndup(
			path + from, (size_t)(slash - path) + 1 - from);

		if (!name)
			return -ENOMEM;
		indent(out, (*depth)++);
		buf_add_str(out, "   ");
		report_path(out, name);
		buf_add_char(out, '\n');
		from = (size_t)(slash - path) + 1;
	}
	buf_reset(&s->open);
	buf_add_str(&s->open, path);
	s->open_known = true;
	return s->open.failed;
}

static int print_in_tree(struct show *s, const struct change *c,
			 const char *path, const struct show_notes *notes)
{
	const char *slash = strrchr(path, '/');
	size_t depth;
	int r = open_directories(s, path, &depth);

	if (r < 0)
		return r;
	/* What lies below a directory that is shown needs no line for it. */
	if (S_ISDIR(c->mode))
		buf_add_char(&s->open, '/');
	indent(&s->report.out, depth);
	return print_line(s, c, slash && depth > 0 ? slash + 1 : path, notes);
}

/* ---- patches ---- */

static const char *line_colour(const struct show *s, const char *line)
{
	enum colour colour = COLOUR_NONE;

	switch (line[0]) {
	case '+':
		colour = COLOUR_GREEN;
		break;
	case '-':
		colour = COLOUR_RED;
		break;
	case '@':
		colour = COLOUR_YELLOW;
		break;
	case 'd':
		colour = COLOUR_BOLD;
		break;
	case '#':
		colour = COLOUR_DIM;
		break;
	}
	return colour == COLOUR_NONE ? ""
				     : colour_code(s->report.colour, colour);
}

/* As it is for programs. */
int show_text(struct show *s, const char *text, size_t len)
{
	struct buf *out = &s->report.out;
	const char *end = text + len;
	int r = 0;

	if (!s->terminal) {
		buf_add(out, text, len);
		return report_flush(&s->report);
	}
	while (text < end && r == 0) {
		const char *next = memchr(text, '\n', (size_t)(end - text));
		const char *colour = line_colour(s, text);
		size_t n = next ? (size_t)(next - text) : (size_t)(end - text);

		buf_add_str(out, colour);
		str_show(out, text, n);
		if (*colour)
			buf_add_str(out, colour_code(s->report.colour,
						     COLOUR_NONE));
		buf_add_char(out, '\n');
		text += next ? n + 1 : n;
		r = report_flush(&s->report);
	}
	return r;
}

int show_remark(struct show *s, const char *text)
{
	if (s->report.json)
		return 0;
	show_text(s, text, strlen(text));
	if (!s->terminal)
		buf_add_char(&s->report.out, '\n');
	return report_flush(&s->report);
}

static int remark_conflict(struct show *s, const struct change *c,
			   const struct show_notes *notes)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);

	if (!notes->conflict)
		return 0;
	buf_add_str(&text, "# ");
	report_path(&text, c->path);
	buf_addf(&text, " conflict: %s", notes->conflict);
	return show_remark(s, buf_str(&text));
}

static int print_patch(struct show *s, const struct change *c,
		       const struct show_notes *notes, struct error *err)
{
	const struct patch_notes p = {notes->held, notes->from};
	AUTO_BUF struct buf text = BUF_INIT(DIFFER_TEXT_MAX);
	int r;

	/* The counterpart tells both. New directories are told by what is in
	 * them. */
	if (notes->to || (S_ISDIR(c->mode) && c->kind == CHANGE_ADDED))
		return 0;
	r = remark_conflict(s, c, notes);
	if (r == 0)
		r = patcher_add(s->patcher, c, &p, &text, err);
	return r < 0 ? r : show_text(s, buf_str(&text), text.len);
}

/* ---- JSON ---- */

static void put_mode(struct json_writer *w, const char *key, mode_t mode)
{
	char text[16];

	snprintf(text, sizeof(text), "%06o", (unsigned)mode);
	json_put_string(w, key, text);
}

static int put_patch(struct show *s, const struct change *c,
		     const struct show_notes *notes, struct error *err)
{
	const struct patch_notes p = {.from = notes->from};
	AUTO_BUF struct buf text = BUF_INIT(DIFFER_TEXT_MAX);
	int r = patcher_add(s->patcher, c, &p, &text, err);

	if (r == 0)
		json_put_text(&s->json, "patch", buf_str(&text));
	return r;
}

static int write_json(struct show *s, const struct change *c, const char *path,
		      const struct show_notes *notes, struct error *err)
{
	struct json_writer *w = &s->json;
	int r = 0;

	json_object(w);
	json_put_text(w, "conflict", notes->conflict);
	json_put_text(w, "held", notes->held);
	json_put_string(w, "kind", kind_names[c->kind]);
	put_mode(w, "mode", c->mode);
	if (c->kind == CHANGE_MODIFIED)
		put_mode(w, "mode_before", c->mode_before);
	json_put_text(w, "moved_from", notes->from);
	json_put_text(w, "moved_to", notes->to);
	if (s->how == SHOW_PATCH)
		r = put_patch(s, c, notes, err);
	json_put_text(w, "path", path);
	json_put_uint(w, "size", c->size);
	json_put_text(w, "target", notes->target);
	json_object_end(w);
	if (r == 0)
		r = w->failed;
	return r < 0 ? r : report_flush(&s->report);
}

int show_change(struct show *s, const struct change *c,
		const struct show_notes *notes, struct error *err)
{
	AUTO_FREE char *path = str_format("%s%s%s", s->prefix ? s->prefix : "",
					  s->prefix ? "/" : "", c->path);

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	if (s->report.json)
		return write_json(s, c, path, notes, err);
	switch (s->how) {
	case SHOW_PATCH:
		return print_patch(s, c, notes, err);
	case SHOW_TREE:
		return print_in_tree(s, c, path, notes);
	default:
		return print_line(s, c, path, notes);
	}
}
