/*
 * Theory. Whoever merges upon a wrong base takes changes back without a word:
 * had the host committed its change meanwhile, and were that taken for what both
 * began from, the task's file would seem to undo it. So a base is believed only
 * if the index entry of the path is older than the task: git notes there the
 * change time that the file had when its content was added, or when it was
 * checked out, which the kernel alone sets. What was not committed yet when the
 * task began is in both sides, and merges with itself.
 *
 * A result that has nothing of one side is no merge: then it is left to the user
 * whose side counts.
 */
#include "workspace/merge.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int decline(struct buf *why, const char *reason)
{
	buf_add_str(why, reason);
	return why->failed ? why->failed : 1;
}

void merger_done(struct merger *m)
{
	git_lab_done(&m->lab);
	git_changes_done(&m->git);
	buf_done(&m->host);
	buf_done(&m->task);
	buf_done(&m->base);
	buf_done(&m->text);
}

/* ---- what both began from ---- */

/* Why what both sides began from is not to be had. */
static const char *why_missing(const struct merger *m,
			       const struct promote_layer *l)
{
	if (m->lab.fd >= 0)
		return "git has no index there";
	if (!l->git)
		return "only the source's repository has what both sides began "
		       "from";
	if (faccessat(l->source_fd, ".git", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return "without a git repository nothing tells what both sides "
		       "began from";
	return buf_str(&m->git.why);
}

static int open_lab(struct merger *m, const struct promote_layer *l,
		    int stage_fd, struct error *err)
{
	int r = l->git ? git_repo_open(&m->git.repo, l->source_fd, &m->git.why)
		       : 1;

	m->opened = true;
	if (r == 0)
		r = git_lab_open(&m->lab, l->git, &m->git, stage_fd, err);
	if (r == 0)
		r = git_lab_copy_index(&m->lab);
	if (r == 1)
		m->missing = why_missing(m, l);
	return r < 0 && err && err->code == 0
		       ? error_set(err, r, "cannot read the repository: %s",
				   strerror(-r))
		       : r < 0 ? r : 0;
}

static bool is_plain_file(const char *text, const char *path, size_t id_len)
{
	const char *tab = strchr(text, '\t');

	return (str_starts(text, "100644 ") || str_starts(text, "100755 ")) &&
	       tab == text + 9 + id_len && str_starts(tab - 2, " 0\t") &&
	       str_eq(tab + 1, path);
}

/* Did the file have this content before since_ns? No time is no proof. */
static bool is_older(const char *text, int64_t since_ns)
{
	int64_t seconds, ns;

	return sscanf(text, " ctime: %" SCNd64 ":%" SCNd64, &seconds, &ns) ==
		       2 &&
	       seconds > 0 && seconds < INT64_MAX / 1000000000 && ns >= 0 &&
	       ns < 1000000000 && seconds * 1000000000 + ns <= since_ns;
}

/* "MODE ID STAGE<tab>PATH<nul>", then "  ctime: SECONDS:NANOSECONDS". */
static int parse_entry(const struct buf *out, const char *path, size_t id_len,
		       int64_t since_ns, char id[GIT_ID_MAX + 1],
		       struct buf *why)
{
	const char *text = buf_str(out), *rest = text + strlen(text) + 1;

	if (out->len == 0)
		return decline(why, "git does not track it");
	if (!is_plain_file(text, path, id_len) || rest >= text + out->len)
		return decline(why, "git tracks no plain file there");
	if (!is_older(rest, since_ns))
		return decline(why,
			       "it was staged, committed or checked out since "
			       "the task began, and git does not tell what it "
			       "was before");
	snprintf(id, GIT_ID_MAX + 1, "%.*s", (int)id_len, text + 7);
	return git_is_id(id, id_len) ? 0 : decline(why, "git names no object");
}

static int find_entry(struct merger *m, const char *path, int64_t since_ns,
		      char id[GIT_ID_MAX + 1], struct buf *why)
{
	AUTO_FREE char *spec = str_format(":(literal)%s", path);
	const char *const argv[] = {"ls-files", "-s", "-z", "--debug", "--",
				    spec, NULL};
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);
	int r = spec ? git_lab_run(&m->lab, GIT_VIEW_OWN, argv, NULL, 0, &out,
				   why)
		     : -ENOMEM;

	return r == 0 ? parse_entry(&out, path, m->git.repo.id_len, since_ns,
				    id, why)
		      : r;
}

static int read_base(struct merger *m, const char *path, int64_t since_ns,
		     struct buf *why)
{
	char id[GIT_ID_MAX + 1];
	const char *const size[] = {"cat-file", "-s", id, NULL};
	const char *const blob[] = {"cat-file", "blob", id, NULL};
	AUTO_BUF struct buf out = BUF_INIT(64);
	int r = find_entry(m, path, since_ns, id, why);

	if (r == 0)
		r = git_lab_run(&m->lab, GIT_VIEW_HOST, size, NULL, 0, &out,
				why);
	if (r != 0)
		return r;
	if (strtoull(buf_str(&out), NULL, 10) >= MERGE_FILE_MAX)
		return decline(why, "git has it larger than 8 MiB");
	buf_reset(&m->base);
	return git_lab_run(&m->lab, GIT_VIEW_HOST, blob, NULL, 0, &m->base,
			   why);
}

/* ---- the two sides ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       time_ns(&a->st_mtim) == time_ns(&b->st_mtim) &&
	       time_ns(&a->st_ctim) == time_ns(&b->st_ctim);
}

/* is: what it must be, and stay while it is read; NULL: any file. */
static int read_side(int dir_fd, const char *name, const struct stat *is,
		     struct buf *to, struct stat *ret, struct buf *why)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name,
					 O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	buf_reset(to);
	if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return decline(why, "it cannot be read");
	r = ret->st_size < MERGE_FILE_MAX ? io_read_all(fd, to) : -EFBIG;
	if (r == -EFBIG)
		return decline(why, "it is larger than 8 MiB");
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return decline(why, "it cannot be read");
	if (fstat(fd, &st) < 0 || !is_same_file(&st, is ? is : ret))
		return decline(why, "it changed while it was read");
	return 0;
}

static int read_sides(struct merger *m, const struct change *c,
		      const struct stat *old, struct buf *why)
{
	const struct change_place *at = c->place;
	struct stat host, task;
	int r = read_side(at->below_fd, at->name, old, &m->host, &host, why);

	if (r == 0)
		r = read_side(at->upper_fd, at->name, NULL, &m->task, &task,
			      why);
	if (r != 0)
		return r;
	if ((host.st_mode ^ task.st_mode) & 0777)
		return decline(why, "its permissions differ, too");
	if (task.st_nlink > 1)
		return decline(why, "it has further names in the task");
	return 0;
}

/* ---- merging ---- */

static int put(struct merger *m, const char *name, const struct buf *content)
{
	AUTO_CLOSE int fd = openat(m->lab.fd, name,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW |
					   O_CLOEXEC,
				   0600);

	return fd < 0 ? -errno
		      : io_write_all(fd, buf_str(content), content->len);
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && !memcmp(buf_str(a), buf_str(b), a->len);
}

static int merge_three(struct merger *m, struct buf *why)
{
	static const char *const argv[] = {"merge-file", "-p", "host", "base",
					   "task", NULL};
	int r = put(m, "host", &m->host);

	if (r == 0)
		r = put(m, "base", &m->base);
	if (r == 0)
		r = put(m, "task", &m->task);
	buf_reset(&m->text);
	if (r == 0)
		r = git_lab_run(&m->lab, GIT_VIEW_OWN, argv, NULL, 0, &m->text,
				why);
	/* Up to 127 it is the number of conflicts. */
	if (r == 1 && m->lab.status > 0 && m->lab.status < 128) {
		buf_reset(why);
		return decline(why, "both sides changed the same lines");
	}
	if (r != 0)
		return r;
	if (same(&m->text, &m->host))
		return decline(why, "nothing of the task's would come into it");
	if (same(&m->text, &m->task))
		return decline(why, "nothing of what the host has changed would "
				    "stay in it");
	return 0;
}

static int merge(struct merger *m, const struct promote_layer *l, int stage_fd,
		 const struct change *c, const struct stat *old,
		 struct buf *why, struct error *err)
{
	int r;

	if (c->kind != CHANGE_MODIFIED || !S_ISREG(c->mode) ||
	    !S_ISREG(old->st_mode))
		return decline(why, "it is no file on one of the sides");
	if (m->n++ >= MERGES_MAX)
		return decline(why, "there are too many");
	r = m->opened ? 0 : open_lab(m, l, stage_fd, err);
	if (r < 0)
		return r;
	if (m->missing)
		return decline(why, m->missing);
	r = read_sides(m, c, old, why);
	if (r == 0)
		r = read_base(m, c->path, m->since_ns, why);
	return r == 0 ? merge_three(m, why) : r;
}

int merge_file(struct merger *m, const struct promote_layer *l, int stage_fd,
	       const struct change *c, const struct stat *old, struct buf *why,
	       struct error *err)
{
	int r = merge(m, l, stage_fd, c, old, why, err);
	AUTO_BUF struct buf quoted = BUF_INIT(ERROR_TEXT_MAX * 4);

	if (r >= 0 || (err && err->code != 0))
		return r;
	str_quote(&quoted, c->path, 400);
	return error_set(err, r, "cannot merge %s: %s", buf_str(&quoted),
			 strerror(-r));
}
