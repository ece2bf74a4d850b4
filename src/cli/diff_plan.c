#include "cli/diff_plan.h"

#include "base/cleanup.h"
#include "cli/promote_ref.h"
#include "workspace/git_name.h"

#include <string.h>
#include <sys/stat.h>

#define UNKNOWN "what promote would make of the changes is not shown: "

static void say_unknown(const struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(2 * ERROR_TEXT_MAX);

	buf_addf(&text, UNKNOWN "%s", err->text);
	report_note(buf_str(&text));
}

void diff_plan_open(struct diff_plan *d, const struct pick *p)
{
	struct error err = {0};

	d->open = layers_look(&d->layers, p, &err) == 0;
	if (!d->open)
		say_unknown(&err);
}

void diff_plan_done(struct diff_plan *d)
{
	plan_view_done(&d->view);
	layers_done(&d->layers);
}

static bool is_same(int a_fd, int b_fd)
{
	struct stat a, b;

	return fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void diff_plan_begin(struct diff_plan *d, int layer_fd)
{
	struct error err = {0};
	int r = -1;

	d->known = false;
	for (size_t i = 0; d->open && i < d->layers.n; i++) {
		if (!is_same(d->layers.items[i].fd, layer_fd))
			continue;
		r = plan_view_open(&d->view, &d->layers.items[i], &err);
		d->known = r == 0;
		if (r < 0)
			say_unknown(&err);
		return;
	}
}

void diff_plan_end(struct diff_plan *d)
{
	plan_view_done(&d->view);
	d->known = false;
}

uint64_t diff_plan_held(const struct diff_plan *d)
{
	const uint64_t *left = d->view.counts.left;

	return left[LEAVE_HELD] + left[LEAVE_GIT] + left[LEAVE_GIT_HELD];
}

void diff_plan_note(const struct diff_plan *d, const char *path,
		    struct show_notes *notes)
{
	const struct journal_entry *e =
		d->known ? plan_view_find(&d->view, path) : NULL;

	if (!e || e->act != ACT_LEAVE)
		return;
	if (e->class == LEAVE_CONFLICT)
		notes->conflict = journal_reason(e);
	else if (e->class != LEAVE_REFUSED && !notes->held)
		notes->held = journal_reason(e);
}

size_t diff_plan_repository(const struct diff_plan *d, const char *path,
			    bool top)
{
	const struct journal_entry *e =
		d->known ? plan_view_find(&d->view, path) : NULL;
	size_t n = e && e->act == ACT_LEAVE && e->class == LEAVE_GIT_HELD
			   ? judge_repository(path)
			   : 0;

	return n == strlen(".git") && !top ? 0 : n;
}

uint64_t diff_plan_files(const struct diff_plan *d, const char *dir)
{
	uint64_t n = 0;

	for (size_t i = 0; d->known && i < d->view.n; i++)
		n += !S_ISDIR(d->view.entries[i]->mode) &&
		     path_is_below(d->view.entries[i]->path, dir);
	return n;
}

bool diff_plan_is_reference(const char *path)
{
	return str_starts(path, ".git/refs/") || str_eq(path, ".git/HEAD") ||
	       str_eq(path, ".git/packed-refs");
}

static void count(struct changes_counts *total, enum change_kind kind)
{
	total->added += kind == CHANGE_ADDED;
	total->modified += kind == CHANGE_MODIFIED;
	total->deleted += kind == CHANGE_DELETED;
}

static const char *class_of(const struct journal_entry *e)
{
	return e->class == LEAVE_CONFLICT  ? "conflict"
	       : e->class == LEAVE_REFUSED ? "refused"
					   : "held back";
}

static int show_reference(struct show *s, const struct journal_entry *e)
{
	AUTO_BUF struct buf text = BUF_INIT(1u << 16);

	if (e->act == ACT_LEAVE) {
		report_path(&text, e->path);
		buf_addf(&text, "  %s: %s\n", class_of(e), journal_reason(e));
	} else {
		promote_tell_ref(&text, e->path, journal_reason(e));
	}
	return text.failed ? text.failed
			   : show_line(s, (enum change_kind)e->kind,
				       buf_str(&text));
}

int diff_plan_references(const struct diff_plan *d, struct show *s,
			 struct changes_counts *total)
{
	int r = 0;

	for (size_t i = 0; d->known && i < d->view.n && r == 0; i++) {
		const struct journal_entry *e = d->view.entries[i];
		bool left = e->act == ACT_LEAVE &&
			    (diff_plan_is_reference(e->path) ||
			     str_eq(e->path, ".git"));

		if (!left && e->part != PART_REF)
			continue;
		count(total, (enum change_kind)e->kind);
		r = show_reference(s, e);
	}
	return r;
}

/* ---- commits ---- */

struct commits {
	struct show *show;
	struct words *words;
	struct changes_counts *total;
};

static bool is_wanted(void *arg, const char *path)
{
	struct commits *c = arg;

	return words_mean(c->words, 0, path);
}

static enum change_kind kind_of(const struct git_ref *r)
{
	if (!r->new[0] && !r->new_ref[0])
		return CHANGE_DELETED;
	return r->old.id[0] || r->new_ref[0] ? CHANGE_MODIFIED : CHANGE_ADDED;
}

/* "# topic: a1b2c3d..d4e5f67" */
static int show_title(struct show *s, const struct git_ref *r)
{
	AUTO_BUF struct buf text = BUF_INIT(4 * GIT_NAME_MAX);
	char short_name[GIT_NAME_MAX];

	buf_add_str(&text, "# ");
	report_path(&text, git_name_short(r->name, short_name));
	if (r->new_ref[0]) {
		buf_add_str(&text, ": on ");
		report_path(&text, git_name_short(r->new_ref, short_name));
	} else if (!r->new[0]) {
		buf_addf(&text, ": deleted, was %s", r->old.id);
	} else {
		buf_addf(&text, ": %s%s%s", r->old.id,
			 r->old.id[0] ? ".." : "new at ", r->new);
	}
	return show_remark(s, buf_str(&text));
}

static int show_commits(void *arg, const struct git_ref *r,
			const struct buf *text, bool cut, const char *why)
{
	struct commits *c = arg;
	AUTO_BUF struct buf remark = BUF_INIT(4096);
	int e = show_title(c->show, r);

	count(c->total, kind_of(r));
	if (e == 0 && text->len > 0)
		e = show_text(c->show, text->data, text->len);
	if (why)
		buf_addf(&remark, "# its commits cannot be shown: %s", why);
	else if (cut)
		buf_add_str(&remark, "# what follows is not shown: it is too "
				     "long, or git failed");
	else if (r->new[0] && text->len == 0)
		buf_add_str(&remark, "# it brings no commit that the host does "
				     "not have");
	return e == 0 && remark.len > 0 ? show_remark(c->show, buf_str(&remark))
					: e;
}

int diff_plan_commits(const struct diff_plan *d, struct show *s,
		      struct words *words, struct changes_counts *total,
		      struct error *err)
{
	struct commits c = {s, words, total};
	AUTO_BUF struct buf why = BUF_INIT(2048);
	AUTO_BUF struct buf remark = BUF_INIT(4096);
	int r;

	if (!d->open || d->layers.n == 0 || !d->layers.items[0].git)
		return 0;
	r = commits_show(&d->layers.items[0], is_wanted, show_commits, &c,
			 &why, err);
	if (r != 1)
		return r;
	buf_addf(&remark, "# commits are not shown: %s", buf_str(&why));
	return show_remark(s, buf_str(&remark));
}
