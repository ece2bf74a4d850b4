/*
 * Theory. What was checked out when the task began is what HEAD's log of the host
 * says: HEAD's file is older than the task, or the first line since tells what it
 * was before. The log knows seconds; where a line may be of either side, each
 * possible answer counts, and one of them that differs is enough. HEAD that moved
 * without a line is another one.
 *
 * A branch that moved on under a HEAD that stayed is no other place, unless the
 * task left that branch: where its HEAD is now, what the host committed since is
 * not.
 *
 * What the task committed are the paths of its commits that the host did not
 * have, and those in which the commit that the task has checked out differs from
 * the one that it began at (it may have checked out what was there already). git
 * reads the task's objects for it, confined; what it says decides alone what
 * stays out. Where it cannot tell, everything stays out.
 */
#include "workspace/git_away.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "workspace/git_lab_private.h"
#include "workspace/manifest.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MAX (256u << 20)
#define PATHS_MAX (256u << 20)
#define FROM "checkout: moving from "
#define IDS_MAX 8 /* of one second */
#define RETURNING "returning to "
#define HEADS "refs/heads/"

void git_away_done(struct git_away *a)
{
	buf_done(&a->where);
	strlist_done(&a->paths);
	*a = (struct git_away)GIT_AWAY_INIT;
}

/* ---- what was checked out ---- */

struct began {
	const struct git_repo *repo;
	int64_t since_s;
	struct strlist ids; /* commits that it may have been; none: not known */
	char ref[GIT_NAME_MAX];	 /* a branch that it may have been */
	bool past;		 /* a line came after the task's start */
	bool known;		 /* one has told which branch it was */
	bool sure;		 /* and came after the task's start */
	bool other;		 /* one of the answers is not what it is now */
};

/* What a line says of HEAD before it; NULL: nothing. len: of the name. */
static const char *name_before(const char *words, size_t *len)
{
	const char *at = strstr(words, RETURNING);

	if (str_starts(words, FROM)) {
		at = words + strlen(FROM);
		*len = strcspn(at, " ");
		return at;
	}
	if (!at || !strstr(words, "(finish)"))
		return NULL;
	at += strlen(RETURNING);
	at += str_starts(at, HEADS) ? strlen(HEADS) : 0;
	*len = strcspn(at, " ");
	return at;
}

/* Does an id stand there, and a space behind it? */
static bool is_id(const char *at, size_t len)
{
	return strspn(at, "0123456789abcdef") == len && at[len] == ' ';
}

static void take_name(struct began *b, const char *name, size_t len)
{
	const struct git_head *now = &b->repo->head;
	const char *is = now->ref[0] ? now->ref + strlen(HEADS) : now->id;

	b->known = true;
	b->other |= strlen(is) != len || strncmp(is, name, len) != 0;
	if (!is_id(name, b->repo->id_len) && len < sizeof(b->ref) - 16)
		snprintf(b->ref, sizeof(b->ref), HEADS "%.*s", (int)len, name);
}

/* Before the first commit there was none to begin at. */
static int take_id(struct began *b, const char *line)
{
	char id[GIT_ID_MAX + 1];

	if (b->past || !is_id(line, b->repo->id_len))
		return 0;
	snprintf(id, sizeof(id), "%.*s", (int)b->repo->id_len, line);
	return id[strspn(id, "0")] && !strlist_has(&b->ids, id)
		       ? strlist_add(&b->ids, id)
		       : 0;
}

/* "OLD NEW WHO <MAIL> TIME ZONE\tWORDS" */
static int take_line(struct began *b, const char *line)
{
	const char *mail = strstr(line, "> "), *words = strchr(line, '\t');
	long long when = mail ? strtoll(mail + 2, NULL, 10) : 0;
	const char *name;
	size_t len = 0;

	if (!words || when < b->since_s || b->sure)
		return 0;
	if (take_id(b, line) < 0)
		return -ENOMEM;
	b->past |= when > b->since_s;
	name = name_before(words + 1, &len);
	if (!name)
		return 0;
	take_name(b, name, len);
	b->sure = when > b->since_s;
	return 0;
}

static int read_log(struct began *b)
{
	AUTO_BUF struct buf text = BUF_INIT(LOG_MAX);
	AUTO_CLOSE int logs = walk_open_at(b->repo->fd, "logs",
					   O_PATH | O_DIRECTORY);
	AUTO_CLOSE int fd = logs < 0 ? -1
				     : walk_open_at(logs, "HEAD",
						    O_RDONLY | O_NONBLOCK);
	char *save = NULL;
	int r;

	if (fd < 0)
		return 0;
	r = io_read_all(fd, &text);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL;
	     line && r >= 0; line = strtok_r(NULL, "\n", &save))
		r = take_line(b, line);
	return r;
}

/* The manifest's entry of a path, or NULL. */
static const struct manifest_entry *find_entry(const struct manifest *m,
					       char *path)
{
	const struct manifest_entry *e = NULL;
	uint64_t block = manifest_top(m);
	char *save = NULL;

	for (char *name = strtok_r(path, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		e = manifest_find(m, block, name);
		if (!e)
			return NULL;
		block = e->block;
	}
	return e;
}

/* Is this file still the one that the task began with, or one of ours? */
static bool is_untouched(const struct judge *j, const char *path,
			 const struct stat *st)
{
	AUTO_MANIFEST struct manifest m = {0};
	AUTO_FREE char *copy = NULL;
	const struct manifest_entry *e;

	if (taken_restored(&j->taken, path, st))
		return true;
	if (!j->layer->copied)
		return !judge_is_newer(j, path, st);
	copy = strdup(path);
	if (!copy || manifest_open(j->layer->fd, &m, NULL) < 0)
		return false;
	e = find_entry(&m, copy);
	return e && manifest_is_source(e, st);
}

static void say_where(struct git_away *a, const struct git_repo *repo)
{
	char short_name[GIT_NAME_MAX];

	if (!repo->head.ref[0]) {
		buf_addf(&a->where, "the host is at %.7s, on no branch,",
			 repo->head.id);
		return;
	}
	buf_add_str(&a->where, "the host is on ");
	str_quote_odd(&a->where, git_name_short(repo->head.ref, short_name),
		      200);
}

static int look_at_head(struct judge *j, const struct git_repo *repo,
			struct began *b)
{
	int r;

	*b = (struct began){.repo = repo,
			    .since_s = judge_since(j, ".git/HEAD") / 1000000000};
	r = read_log(b);
	if (r < 0)
		return r;
	/* A promotion writes no such line, and then it is where the task is. */
	j->away.is = b->known ? b->other : !taken_has(&j->taken, ".git/HEAD");
	if (j->away.is)
		say_where(&j->away, repo);
	return 0;
}

/* The host is on the branch that it was on: what has it been at? */
static int look_at_branch(struct judge *j, const struct git_repo *repo,
			  struct began *b)
{
	char short_name[GIT_NAME_MAX];

	*b = (struct began){.repo = repo,
			    .since_s = judge_since(j, ".git/HEAD") / 1000000000};
	buf_addf(&j->away.where, "the host has moved ");
	str_quote_odd(&j->away.where, git_name_short(repo->head.ref, short_name),
		      200);
	buf_addf(&j->away.where, " on");
	return read_log(b);
}

/* ---- what was committed ---- */

struct look {
	struct judge *judge;
	struct git_changes git;
	bool on_branch; /* where it was: the task is elsewhere, or nobody is */
	struct error *err;
};

/* What a branch is in the task. 0; 1: it cannot be told; or negative. */
static int find_branch(struct look *l, const char *name,
		       char tip[GIT_ID_MAX + 1])
{
	struct git_ref *branch = git_changes_find(&l->git, name);
	struct git_value value;
	int r;

	if (branch) {
		memcpy(tip, branch->new, GIT_ID_MAX + 1);
		return branch->left || !tip[0];
	}
	r = git_repo_value(&l->git.repo, name, &value);
	if (r < 0)
		return r == -EBADMSG ? 1 : r;
	memcpy(tip, value.id, GIT_ID_MAX + 1);
	return !tip[0];
}

/* The commit that the task has checked out, likewise. */
static int find_tip(struct look *l, const struct began *b,
		    char tip[GIT_ID_MAX + 1], bool *ret_moved)
{
	struct git_ref *head = git_changes_find(&l->git, "HEAD");
	const char *name = head ? head->new_ref : b->ref;

	*ret_moved = head != NULL;
	if (head && (head->left || head->gone))
		return 1;
	if (name[0])
		return find_branch(l, name, tip);
	/* On no branch, and the task has left it there. */
	snprintf(tip, GIT_ID_MAX + 1, "%s",
		 head	      ? head->new
		 : b->ids.n == 1 ? b->ids.items[0]
				 : "");
	return !tip[0];
}

static int take_paths(struct git_away *a, const struct buf *paths)
{
	const char *at = buf_str(paths), *end = at + paths->len;

	for (; at < end; at += strlen(at) + 1) {
		if (*at && strlist_add(&a->paths, at) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* In what two commits differ. 0, 1 or negative. */
static int compare_tips(struct git_lab *lab, struct git_away *a,
			const char *from, const char *to, struct buf *why)
{
	const char *const argv[] = {"diff-tree", "-r", "-z", "--name-only",
				    "--no-renames", from, to, NULL};
	AUTO_BUF struct buf paths = BUF_INIT(PATHS_MAX);
	int r = git_lab_run(lab, GIT_VIEW_TASK, argv, NULL, 0, &paths, why);

	return r == 0 ? take_paths(a, &paths) : r;
}

/* What the commits change that the host has not. 0, 1 or negative. */
static int list_new(struct git_lab *lab, struct git_away *a, const char *tip,
		    struct buf *why)
{
	static const char *const commits[] = {"rev-list", "--stdin", NULL};
	static const char *const changed[] = {
		"diff-tree", "--stdin", "-r", "-m", "--root", "-z",
		"--name-only", "--no-renames", "--no-commit-id", NULL};
	AUTO_BUF struct buf input = BUF_INIT(80u << 20);
	AUTO_BUF struct buf found = BUF_INIT(PATHS_MAX);
	AUTO_BUF struct buf paths = BUF_INIT(PATHS_MAX);
	int r = git_lab_known(lab, why);

	if (r != 0)
		return r;
	buf_addf(&input, "%s\n%s", tip, buf_str(&lab->known));
	if (input.failed)
		return input.failed;
	r = git_lab_run(lab, GIT_VIEW_TASK, commits, input.data, input.len,
			&found, why);
	if (r == 0 && found.len > 0)
		r = git_lab_run(lab, GIT_VIEW_TASK, changed, found.data,
				found.len, &paths, why);
	return r == 0 ? take_paths(a, &paths) : r;
}

static int list_paths(struct look *l, const struct began *b, const char *tip,
		      bool moved, int stage_fd)
{
	AUTO_GIT_LAB struct git_lab lab = {.fd = -1};
	AUTO_BUF struct buf why = BUF_INIT(2048);
	struct git_away *a = &l->judge->away;
	int r;

	/* Of what was there before, nothing says what it was. */
	if (l->git.special || (b->ids.n == 0 && moved) || b->ids.n > IDS_MAX)
		return 1;
	r = git_lab_open(&lab, l->judge->layer->git, &l->git, stage_fd, l->err);
	if (r == 0)
		r = list_new(&lab, a, tip, &why);
	for (size_t i = 0; i < b->ids.n && r == 0; i++)
		r = compare_tips(&lab, a, b->ids.items[i], tip, &why);
	if (r == 0)
		strlist_sort(&a->paths);
	return r;
}

static int look_at_task(struct look *l, const struct began *b, int upper_fd,
			int stage_fd)
{
	char tip[GIT_ID_MAX + 1];
	bool moved;
	int r = git_changes_collect(&l->git, l->judge, upper_fd, l->err);

	if (r < 0 || !l->git.opened)
		return r;
	if (l->on_branch && !git_changes_find(&l->git, "HEAD"))
		return 0;
	l->judge->away.is = true;
	r = find_tip(l, b, tip, &moved);
	if (r == 0 && b->ids.n == 1 && str_eq(tip, b->ids.items[0]))
		return 0;
	if (r == 0)
		r = list_paths(l, b, tip, moved, stage_fd);
	l->judge->away.all = r == 1;
	return r < 0 ? r : 0;
}

/* ---- both ---- */

/* Is there a file of this name in the host's .git that is another now? */
static bool is_newer(const struct judge *j, const char *path)
{
	AUTO_CLOSE int fd = walk_open_at(j->layer->source_fd, path, O_PATH);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && !is_untouched(j, path, &st);
}

/* HEAD's branch, that is, where HEAD names one. */
static bool branch_is_newer(const struct judge *j)
{
	AUTO_CLOSE int git = walk_open_at(j->layer->source_fd, ".git",
					  O_PATH | O_DIRECTORY);
	char path[GIT_NAME_MAX + 8];
	struct git_head head;
	struct stat st;

	/* Ids of any length: a commit is no branch. */
	if (git < 0 || git_read_head(git, "HEAD", GIT_ID_MAX, &head, &st) < 0 ||
	    !head.ref[0])
		return false;
	snprintf(path, sizeof(path), ".git/%s", head.ref);
	return is_newer(j, path);
}

static int look(struct look *l, const struct git_repo *repo, struct began *b,
		int upper_fd, int stage_fd)
{
	int r = l->on_branch ? look_at_branch(l->judge, repo, b)
			     : look_at_head(l->judge, repo, b);

	return r == 0 && (l->on_branch || l->judge->away.is)
		       ? look_at_task(l, b, upper_fd, stage_fd)
		       : r;
}

int git_away_find(struct judge *j, int upper_fd, int stage_fd,
		  struct error *err)
{
	struct look l = {.judge = j, .git = GIT_CHANGES_INIT, .err = err};
	AUTO_BUF struct buf why = BUF_INIT(1024);
	struct git_repo repo = GIT_REPO_INIT;
	struct began b = {0};
	int r;

	if (!j->layer->git)
		return 0;
	l.on_branch = !is_newer(j, ".git/HEAD");
	if (l.on_branch && !branch_is_newer(j))
		return 0;
	r = git_repo_open(&repo, j->layer->source_fd, &why);
	/* What is committed in one that is not taken over comes as files. */
	if (r == 0)
		r = look(&l, &repo, &b, upper_fd, stage_fd);
	strlist_done(&b.ids);
	git_changes_done(&l.git);
	git_repo_done(&repo);
	j->away.named = j->named && strlist_has(j->named, ".git/HEAD");
	if (r < 0 && err && err->code == 0)
		error_set(err, r, "cannot tell what the host has checked out: "
				  "%s", strerror(-r));
	return r < 0 ? r : 0;
}

static bool matches(const char *item, const char *path, bool tree)
{
	return str_eq(item, path) || (tree && path_is_below(item, path));
}

bool git_away_has(const struct git_away *a, const char *path, bool tree)
{
	size_t from = 0, to = a->paths.n;

	if (!a->is || a->all)
		return a->is;
	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (strcmp(a->paths.items[middle], path) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	/* "x-y" stands between "x" and "x/z". */
	for (; from < a->paths.n && str_starts(a->paths.items[from], path);
	     from++) {
		if (matches(a->paths.items[from], path, tree))
			return true;
	}
	return false;
}
