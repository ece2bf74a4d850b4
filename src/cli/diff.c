/*
 * pinfold diff: what a task changed in its source and in the other directories
 * that it could write, each in the order of its paths. Memory does not grow
 * with the number of changes (cli/sorted.h). No
 * name reaches the terminal as the agent wrote it if it holds anything that a
 * terminal would not just print.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/colour.h"
#include "cli/held.h"
#include "cli/own.h"
#include "cli/pick.h"
#include "cli/report.h"
#include "cli/sorted.h"
#include "schema/json.h"
#include "workspace/changes.h"
#include "workspace/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "pinfold-diff-1"

struct diff {
	struct report report;
	struct json_writer json;
	bool stat;
	const char *prefix; /* of a further directory's paths, or NULL */
	struct protect protect; /* of the layer that is shown */
	struct changes_counts total;
	uint64_t held;
};

static const char *const kind_names[] = {"added", "modified", "deleted"};
static const char kind_letters[] = {'A', 'M', 'D'};
static const enum colour kind_colours[] = {COLOUR_GREEN, COLOUR_YELLOW,
					   COLOUR_RED};

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

/* The path with what it lies below, and a slash behind a directory. */
static char *whole_path(const struct diff *d, const struct change *c)
{
	return str_format("%s%s%s%s", d->prefix ? d->prefix : "",
			  d->prefix ? "/" : "", c->path,
			  S_ISDIR(c->mode) ? "/" : "");
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

static int print_line(struct diff *d, const struct change *c,
		      const char *held)
{
	struct buf *out = &d->report.out;
	AUTO_FREE char *path = whole_path(d, c);
	AUTO_BUF struct buf size = BUF_INIT(64);

	if (!path)
		return -ENOMEM;
	buf_add_str(out, colour_code(d->report.colour, kind_colours[c->kind]));
	if (d->stat) {
		if (c->kind != CHANGE_DELETED && S_ISREG(c->mode))
			num_human_size(&size, c->size);
		buf_addf(out, "%-8s %10s  ", kind_names[c->kind],
			 buf_str(&size));
	} else {
		buf_addf(out, "%c  ", kind_letters[c->kind]);
	}
	report_path(out, path);
	if (c->kind == CHANGE_MODIFIED && c->mode != c->mode_before)
		print_modes(out, c->mode_before, c->mode);
	if (held)
		buf_addf(out, "  held back: %s", held);
	buf_add_str(out, colour_code(d->report.colour, COLOUR_NONE));
	buf_add_char(out, '\n');
	return report_flush(&d->report);
}

static void put_mode(struct json_writer *w, const char *key, mode_t mode)
{
	char text[16];

	snprintf(text, sizeof(text), "%06o", (unsigned)mode);
	json_put_string(w, key, text);
}

static int write_json(struct diff *d, const struct change *c,
		      const char *held)
{
	struct json_writer *w = &d->json;
	AUTO_FREE char *path = str_format("%s%s%s", d->prefix ? d->prefix : "",
					  d->prefix ? "/" : "", c->path);

	if (!path)
		return -ENOMEM;
	json_object(w);
	json_put_text(w, "held", held);
	json_put_string(w, "kind", kind_names[c->kind]);
	put_mode(w, "mode", c->mode);
	if (c->kind == CHANGE_MODIFIED)
		put_mode(w, "mode_before", c->mode_before);
	json_put_text(w, "path", path);
	json_put_uint(w, "size", c->size);
	json_object_end(w);
	return w->failed ? w->failed : report_flush(&d->report);
}

static int show(void *arg, const struct change *c)
{
	struct diff *d = arg;
	const char *held = protect_reason(&d->protect, c);

	d->held += held != NULL;
	return d->report.json ? write_json(d, c, held)
			      : print_line(d, c, held);
}

/* In the order of paths; held back is what d->protect says. */
static int scan_sorted(struct diff *d, int layer_fd, int below, bool copied,
		       struct changes_counts *counts, struct error *err)
{
	AUTO_SORTED struct sorted sorted;
	int r, shown;

	/* What does not fit in memory goes to a file in the task's directory. */
	sorted_init(&sorted, layer_fd);
	r = changes_scan(layer_fd, below, copied, 0, sorted_add, &sorted,
			 counts, err);
	/* Of a scan that failed, what it found is shown all the same. */
	shown = sorted_each(&sorted, show, d);
	if (d->report.failed)
		return 0; /* report_end says it. */
	if (shown < 0)
		return error_set(err, shown, "cannot sort the changes: %s",
				 strerror(-shown));
	return r;
}

/*
 * One layer: upper below layer_fd, over the host's directory recorded, where
 * globs are what the policy protects.
 */
static int show_layer(struct diff *d, int layer_fd, const char *recorded,
		      bool copied, const struct strlist *globs,
		      struct error *err)
{
	struct changes_counts counts = {0};
	AUTO_CLOSE int below = -1;
	int r;

	if (recorded) {
		below = pick_open_below(recorded, err);
		if (below < 0)
			return below;
	}
	r = protect_init(&d->protect, globs, below, err);
	if (r == 0)
		r = scan_sorted(d, layer_fd, below, copied, &counts, err);
	protect_done(&d->protect);
	d->total.added += counts.added;
	d->total.modified += counts.modified;
	d->total.deleted += counts.deleted;
	d->total.bytes += counts.bytes;
	d->total.inodes += counts.inodes;
	return r;
}

static bool has_layer(int fd, const char *name)
{
	return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int show_layers(struct diff *d, const struct pick *p, struct error *err)
{
	const struct record *rec = &p->record;
	bool copied = rec->workspace && str_eq(rec->workspace, "copy");
	int r = 0;

	d->prefix = NULL;
	if (has_layer(p->fd, "upper"))
		r = show_layer(d, p->fd, rec->source, copied, &p->protect, err);
	for (size_t i = 0; i < p->write.n && r == 0; i++) {
		char name[STATE_WRITE_NAME_MAX];
		AUTO_CLOSE int fd = -1;

		state_write_name(i, name);
		if (!has_layer(p->fd, name))
			continue;
		fd = openat(p->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW |
						 O_CLOEXEC);
		if (fd < 0)
			return error_errno(err, "cannot open %s", name);
		d->prefix = p->write.items[i];
		r = show_layer(d, fd, d->prefix, false, NULL, err);
	}
	return r;
}

static void begin_json(struct diff *d)
{
	json_begin(&d->json, &d->report.out);
	json_object(&d->json);
	json_key(&d->json, "changes");
	json_array(&d->json);
}

static void end_json(struct diff *d, const struct pick *p)
{
	struct json_writer *w = &d->json;

	json_array_end(w);
	json_key(w, "counts");
	json_object(w);
	json_put_uint(w, "added", d->total.added);
	json_put_uint(w, "bytes", d->total.bytes);
	json_put_uint(w, "deleted", d->total.deleted);
	json_put_uint(w, "held", d->held);
	json_put_uint(w, "inodes", d->total.inodes);
	json_put_uint(w, "modified", d->total.modified);
	json_object_end(w);
	json_put_string(w, "id", p->id);
	json_put_string(w, "schema", SCHEMA);
	json_put_text(w, "source", p->record.source);
	json_put_string(w, "state", p->alive ? "running"
					     : record_state_name(
						       p->record.state));
	json_object_end(w);
	json_finish(w);
	buf_add_char(&d->report.out, '\n');
}

static void end_text(struct diff *d, const struct pick *p)
{
	uint64_t n = d->total.added + d->total.modified + d->total.deleted;
	AUTO_BUF struct buf text = BUF_INIT(256);

	if (n == 0) {
		buf_addf(&text, "%s has no changes", p->id);
		report_note(buf_str(&text));
		return;
	}
	if (!d->stat)
		return;
	buf_addf(&d->report.out,
		 "%llu changed: %llu added, %llu modified, %llu deleted; ",
		 (unsigned long long)n, (unsigned long long)d->total.added,
		 (unsigned long long)d->total.modified,
		 (unsigned long long)d->total.deleted);
	if (d->held > 0)
		buf_addf(&d->report.out, "%llu of them held back; ",
			 (unsigned long long)d->held);
	buf_add_str(&d->report.out, "the layer holds ");
	num_human_size(&d->report.out, d->total.bytes);
	buf_add_char(&d->report.out, '\n');
}

int verb_diff(const struct options *o)
{
	AUTO_STATE struct state state = STATE_INIT;
	AUTO_PICK struct pick p = PICK_INIT;
	struct diff d = {.stat = options_has(o, OPT_STAT)};
	struct error err = {0};
	int r;

	if (state_open(&state, &err) < 0)
		return report_refuse(err.text);
	recover_all(&state);
	if (pick_task(&state, o->n_rest ? o->rest[0] : NULL, &p, &err) < 0 ||
	    pick_policy(&p, &err) < 0)
		return report_refuse(err.text);
	r = report_init(&d.report, o);
	if (r != 0)
		return r;
	/* Where this is blocked a closed directory is an error, by its name. */
	if (geteuid() != 0)
		own_enter(NULL);
	if (d.report.json)
		begin_json(&d);
	r = show_layers(&d, &p, &err);
	if (r != 0) {
		report_end(&d.report);
		report_done(&d.report);
		return report_refuse(err.text);
	}
	if (d.report.json)
		end_json(&d, &p);
	else
		end_text(&d, &p);
	r = report_end(&d.report);
	report_done(&d.report);
	return r;
}
