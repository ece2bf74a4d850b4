/*
 * Theory. What the task wrote is read by one process (pack-objects, with the
 * task's objects before it), which makes one stream of the objects that the
 * host does not have. A second one, in a repository that never held anything
 * of the task's, reads that stream (index-pack --strict): it computes each
 * object's name anew, so that what has another name is not there; it refuses
 * what git calls broken or dangerous in trees and commits. Then it is looked up
 * what each reference leads to (rev-list --objects): all of it must be there.
 * Everything that is taken over is what the second process wrote.
 */
#include "workspace/git_lab_private.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/git_log.h"
#include "workspace/layer.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "git"
#define OUTPUT_MAX (256u << 20)
#define WORDS_MAX 200

static int fail(struct git_lab *lab, int code, const char *what)
{
	return error_set(lab->err, code, "cannot %s: %s", what,
			 strerror(-code));
}

static int write_file(int dir_fd, const char *name, const char *text,
		      size_t len)
{
	AUTO_CLOSE int fd = openat(dir_fd, name,
				   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
				   0600);

	return fd < 0 ? -errno : io_write_all(fd, text, len);
}

/* An empty repository with settings of ours and nothing else. */
static int fill(int fd, const struct git_repo *repo)
{
	static const char *const dirs[] = {"objects", "objects/pack",
					   "objects/info", "refs"};
	static const char head[] = "ref: refs/heads/none\n";
	AUTO_BUF struct buf config = BUF_INIT(4096);
	int r = 0;

	buf_addf(&config,
		 "[core]\n\trepositoryformatversion = %d\n\tbare = true\n"
		 "\tcommitGraph = false\n\tmultiPackIndex = false\n"
		 "\tfsmonitor = false\n\tuntrackedCache = false\n"
		 "\tbigFileThreshold = 32m\n\tdeltaBaseCacheLimit = 64m\n"
		 "\tpackedGitWindowSize = 32m\n\tpackedGitLimit = 512m\n"
		 "[pack]\n\tthreads = 1\n\twindowMemory = 64m\n"
		 "[index]\n\tthreads = 1\n\tsparse = false\n"
		 "[gc]\n\tauto = 0\n",
		 repo->id_len == 64);
	if (repo->id_len == 64)
		buf_add_str(&config, "[extensions]\n\tobjectFormat = sha256\n");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdirat(fd, dirs[i], 0700) < 0)
			return -errno;
	}
	if (config.failed)
		return config.failed;
	r = write_file(fd, "config", config.data, config.len);
	if (r == 0)
		r = write_file(fd, "HEAD", head, sizeof(head) - 1);
	if (r == 0 && repo->shallow.len > 0)
		r = write_file(fd, "shallow", repo->shallow.data,
			       repo->shallow.len);
	return r;
}

int git_lab_open(struct git_lab *lab, const struct promote_git *git,
		 struct git_changes *g, int stage_fd, struct error *err)
{
	int r;

	*lab = (struct git_lab){
		.git = git,
		.g = g,
		.stage_fd = stage_fd,
		.fd = -1,
		.known = BUF_INIT(64u << 20),
		.err = err,
	};
	r = layer_remove(stage_fd, NAME, err);
	if (r < 0)
		return r;
	if (mkdirat(stage_fd, NAME, 0700) < 0)
		return fail(lab, -errno, "make a repository for checking");
	lab->fd = walk_open_at(stage_fd, NAME, O_RDONLY | O_DIRECTORY);
	r = lab->fd < 0 ? lab->fd : fill(lab->fd, &g->repo);
	return r < 0 ? fail(lab, r, "make a repository for checking") : 0;
}

void git_lab_done(struct git_lab *lab)
{
	close_fd(lab->fd);
	buf_done(&lab->known);
	if (lab->fd >= 0)
		layer_remove(lab->stage_fd, NAME, NULL);
	lab->fd = -1;
}

/* ---- running ---- */

/* Descriptors for the objects that a view has, and the words that name them. */
struct view {
	int dirs[3 + GIT_ALTERNATES_MAX];
	size_t n;
	char own[64], others[64];
	const char *env[3];
};

static void add_dir(struct view *v, int fd, char *name, size_t size)
{
	v->dirs[v->n++] = fd;
	if (name)
		snprintf(name, size, "%s/proc/self/fd/%zu",
			 name == v->own ? "GIT_OBJECT_DIRECTORY="
					: "GIT_ALTERNATE_OBJECT_DIRECTORIES=",
			 v->n + 2);
}

static void make_view(const struct git_lab *lab, enum git_view how,
		      struct view *v)
{
	const struct git_repo *repo = &lab->g->repo;
	size_t n = 0;

	*v = (struct view){0};
	add_dir(v, lab->fd, NULL, 0);
	if (how == GIT_VIEW_OWN)
		return;
	add_dir(v, repo->objects_fd, v->others, sizeof(v->others));
	v->env[n++] = v->others;
	if (how == GIT_VIEW_TASK && lab->g->layer_objects >= 0) {
		add_dir(v, lab->g->layer_objects, v->own, sizeof(v->own));
		v->env[n++] = v->own;
	}
	/* The host's own say where these are; git goes there by itself. */
	for (size_t i = 0; i < repo->n_alternates; i++)
		add_dir(v, repo->alternates[i], NULL, 0);
}

/* Is this what git says where it could not write? */
static bool is_about_space(char *text)
{
	static const char *const ends[] = {": No space left on device",
					   ": Disk quota exceeded",
					   ": Input/output error",
					   ": write error", "Out of diskspace"};
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
			if (str_ends(line, ends[i]))
				return true;
		}
	}
	return false;
}

static void note_lacked(struct git_lab *lab, const struct buf *why)
{
	snprintf(lab->lacked, sizeof(lab->lacked), "%s", buf_str(why));
}

int git_lab_lacked(struct git_lab *lab)
{
	return lab->lacked[0]
		       ? error_set(lab->err, -ENOSPC,
				   "cannot look at what was committed: %s; "
				   "--only takes files without it",
				   lab->lacked)
		       : 0;
}

/* The first thing that git said, for a line of ours. */
static void take_words(struct git_lab *lab, int fd, struct buf *why)
{
	char text[2048], all[2048], *line = text;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	memcpy(all, text, sizeof(all));
	line[strcspn(line, "\n")] = '\0';
	if (str_starts(line, "fatal: "))
		line += 7;
	else if (str_starts(line, "error: "))
		line += 7;
	buf_reset(why);
	buf_add_str(why, "git says: ");
	str_quote(why, *line ? line : "nothing", WORDS_MAX);
	if (is_about_space(all))
		note_lacked(lab, why);
}

static int open_scratch(const char *in, size_t len)
{
	AUTO_CLOSE int fd = memfd_create("git", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = in ? io_write_all(fd, in, len) : 0;
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : steal_fd(&fd);
}

static int run_fds(struct git_lab *lab, enum git_view how,
		   const char *const *argv, int in_fd, int out_fd,
		   struct buf *why)
{
	AUTO_CLOSE int error_fd = open_scratch(NULL, 0);
	struct error err = {0};
	struct view view;
	int r;

	if (error_fd < 0)
		return fail(lab, error_fd, "start git");
	make_view(lab, how, &view);
	r = lab->git->run(lab->git->arg,
			  &(struct git_errand){
				  .argv = argv,
				  .env = view.env,
				  .in_fd = in_fd,
				  .out_fd = out_fd,
				  .error_fd = error_fd,
				  .dirs = view.dirs,
				  .n_dirs = view.n,
				  .file_max = lab->file_max,
			  },
			  &err);
	lab->status = r > 0 ? r : 0;
	if (r == 0)
		return 0;
	if (r > 0) {
		take_words(lab, error_fd, why);
		return 1;
	}
	buf_reset(why);
	buf_add_str(why, err.text);
	if (r == -ETIMEDOUT)
		note_lacked(lab, why);
	/* Without git, or without confinement, the files come all the same. */
	if (r == -ETIMEDOUT || r == -ECHILD || r == -EOPNOTSUPP || r == -ENOENT)
		return 1;
	return error_set(lab->err, r, "%s", err.text);
}

int git_lab_run(struct git_lab *lab, enum git_view view,
		const char *const *argv, const char *in, size_t in_len,
		struct buf *out, struct buf *why)
{
	AUTO_CLOSE int in_fd = open_scratch(in, in_len);
	AUTO_CLOSE int out_fd = open_scratch(NULL, 0);
	int r;

	if (in_fd < 0 || out_fd < 0)
		return fail(lab, in_fd < 0 ? in_fd : out_fd, "start git");
	r = run_fds(lab, view, argv, in_fd, out_fd, why);
	if (r != 0 || !out)
		return r;
	if (lseek(out_fd, 0, SEEK_SET) < 0)
		return fail(lab, -errno, "read what git printed");
	r = io_read_all(out_fd, out);
	if (r == -EFBIG) {
		buf_reset(why);
		buf_add_str(why, "git printed too much about it");
		return 1;
	}
	return r < 0 ? fail(lab, r, "read what git printed") : 0;
}

int git_lab_print(struct git_lab *lab, const char *const *argv, const char *in,
		  size_t in_len, uint64_t max, struct buf *out, struct buf *why)
{
	AUTO_CLOSE int in_fd = open_scratch(in, in_len);
	AUTO_CLOSE int out_fd = open_scratch(NULL, 0);
	int r, e;

	if (in_fd < 0 || out_fd < 0)
		return fail(lab, in_fd < 0 ? in_fd : out_fd, "start git");
	lab->file_max = max;
	r = run_fds(lab, GIT_VIEW_TASK, argv, in_fd, out_fd, why);
	lab->file_max = 0;
	if (r < 0)
		return r;
	e = lseek(out_fd, 0, SEEK_SET) < 0 ? -errno : io_read_all(out_fd, out);
	return e < 0 ? fail(lab, e, "read what git printed") : r;
}

/* ---- taking objects over ---- */

/* The host's references, as what need not be looked at again. */
static int add_known(void *arg, const char *name)
{
	struct git_lab *lab = arg;
	struct git_value now;

	if (lab->known.len > (4u << 20) ||
	    git_repo_value(&lab->g->repo, name, &now) < 0 || !now.id[0])
		return 0;
	return buf_addf(&lab->known, "%s\n", now.id) == -ENOMEM ? -ENOMEM : 0;
}

/* Leaves out what the host does not have after all. */
static int keep_existing(struct git_lab *lab, struct buf *why)
{
	static const char *const argv[] = {"cat-file", "--batch-check",
					   "--buffer", NULL};
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	char *save = NULL;
	int r = git_lab_run(lab, GIT_VIEW_HOST, argv, buf_str(&lab->known),
			    lab->known.len, &out, why);

	buf_reset(&lab->known);
	if (r != 0)
		return r;
	for (char *line = out.data ? strtok_r(out.data, "\n", &save) : NULL;
	     line; line = strtok_r(NULL, "\n", &save)) {
		if (str_ends(line, " missing"))
			continue;
		line[strcspn(line, " ")] = '\0';
		buf_addf(&lab->known, "^%s\n", line);
	}
	return lab->known.failed ? fail(lab, lab->known.failed, "list what the "
							       "host has")
				 : 0;
}

/* The older entries of its stash, to which its log alone leads. */
static int add_stashed(struct git_lab *lab)
{
	struct git_repo *repo = &lab->g->repo;
	AUTO_BUF struct buf log = BUF_INIT(4u << 20);
	int r = io_read_file(repo->fd, "logs/refs/stash", &log);

	if (r < 0 || strlen(buf_str(&log)) != log.len)
		return r == -ENOMEM ? r : 0;
	for (const char *at = buf_str(&log); *at; at++) {
		if (strcspn(at, "\n") > 2 * repo->id_len + 1)
			buf_addf(&lab->known, "%.*s\n", (int)repo->id_len,
				 at + repo->id_len + 1);
		at += strcspn(at, "\n");
		if (!*at)
			break;
	}
	return lab->known.failed;
}

int git_lab_known(struct git_lab *lab, struct buf *why)
{
	struct git_repo *repo = &lab->g->repo;
	int r = 0;

	if (repo->head.id[0])
		buf_addf(&lab->known, "%s\n", repo->head.id);
	for (size_t i = 0; i < lab->g->n; i++) {
		if (lab->g->refs[i].old.id[0])
			buf_addf(&lab->known, "%s\n", lab->g->refs[i].old.id);
	}
	r = add_stashed(lab);
	if (r == 0)
		r = git_repo_each_loose(repo, "refs", add_known, lab);
	for (size_t i = 0; i < repo->packed.n && r == 0; i++)
		r = add_known(lab, repo->packed.refs[i].name);
	return r < 0 ? fail(lab, r, "list what the host has")
		     : keep_existing(lab, why);
}

/* One stream of what the task has and the host has not. */
static int read_task(struct git_lab *lab, const struct buf *tips, int to,
		     struct buf *why)
{
	static const char *const argv[] = {
		"pack-objects", "--revs",	"--local",
		"--stdout",	"--delta-base-offset",
		"--no-reuse-object", "--window=0", "-q",
		NULL};
	AUTO_BUF struct buf input = BUF_INIT(80u << 20);
	AUTO_CLOSE int in_fd = -1;

	buf_add(&input, tips->data, tips->len);
	if (lab->known.len > 0)
		buf_add(&input, lab->known.data, lab->known.len);
	if (input.failed)
		return fail(lab, input.failed, "name what is taken over");
	in_fd = open_scratch(input.data, input.len);
	if (in_fd < 0)
		return fail(lab, in_fd, "start git");
	return run_fds(lab, GIT_VIEW_TASK, argv, in_fd, to, why);
}

static int index_stream(struct git_lab *lab, int from, struct buf *why)
{
	static const char *const argv[] = {
		"index-pack", "--stdin", "--strict", "--fix-thin",
		"--max-input-size=4294967296", NULL};
	AUTO_BUF struct buf out = BUF_INIT(4096);
	AUTO_CLOSE int out_fd = open_scratch(NULL, 0);
	const char *id;
	int r;

	if (out_fd < 0)
		return fail(lab, out_fd, "start git");
	r = run_fds(lab, GIT_VIEW_HOST, argv, from, out_fd, why);
	if (r != 0)
		return r;
	if (lseek(out_fd, 0, SEEK_SET) < 0 || io_read_all(out_fd, &out) < 0)
		return fail(lab, -EIO, "read what git printed");
	/* "pack", or "keep", and the name of what it made. */
	id = strchr(buf_str(&out), '\t');
	if (!id || !git_is_id(id + 1, lab->g->repo.id_len)) {
		buf_add_str(why, "git named no pack");
		return 1;
	}
	snprintf(lab->pack, sizeof(lab->pack), "pack-%.*s",
		 (int)lab->g->repo.id_len, id + 1);
	lab->has_pack = true;
	return 0;
}

/* The number of objects that a pack says it has, in its head. */
static bool is_empty(int fd)
{
	unsigned char head[12];

	return pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       !memcmp(head, "PACK", 4) && !memcmp(head + 8, "\0\0\0\0", 4);
}

/* No object is larger than this, nor all of them together. */
#define OBJECT_MAX (1llu << 30)
#define OBJECTS_MAX (16llu << 30)

static int check_sizes(struct git_lab *lab, struct buf *why)
{
	static const char *const argv[] = {
		"cat-file", "--batch-check=%(objectsize)", "--buffer",
		"--unordered",
		"--batch-all-objects", NULL};
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	unsigned long long sum = 0, size;
	const char *at;
	int r = git_lab_run(lab, GIT_VIEW_OWN, argv, NULL, 0, &out, why);

	for (at = buf_str(&out); r == 0 && *at; at++) {
		size = strtoull(at, NULL, 10);
		sum += size;
		if (size > OBJECT_MAX || sum > OBJECTS_MAX) {
			buf_reset(why);
			buf_add_str(why, size > OBJECT_MAX
						 ? "one object is larger than "
						   "1 GiB"
						 : "its objects are larger "
						   "than 16 GiB together");
			return 1;
		}
		at += strcspn(at, "\n");
		if (!*at)
			break;
	}
	return r;
}

static int take_objects(struct git_lab *lab, const struct buf *tips,
			struct buf *why)
{
	AUTO_CLOSE int fd = openat(lab->fd, "incoming",
				   O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
				   0600);
	int r;

	if (fd < 0)
		return fail(lab, -errno, "make a file for what is taken over");
	r = read_task(lab, tips, fd, why);
	if (r == 0 && !is_empty(fd)) {
		if (lseek(fd, 0, SEEK_SET) < 0)
			return fail(lab, -errno, "read what git wrote");
		r = index_stream(lab, fd, why);
		if (r == 0)
			r = check_sizes(lab, why);
	}
	unlinkat(lab->fd, "incoming", 0);
	return r;
}

/* ---- what references lead to ---- */

int git_lab_add_tips(struct git_lab *lab, const struct git_ref *r,
		     struct buf *tips)
{
	if (r->new[0])
		buf_addf(tips, "%s\n", r->new);
	if (str_eq(r->name, "refs/stash") && r->new[0])
		git_log_ids(&lab->g->stash, lab->g->repo.id_len, tips);
	return tips->failed;
}

/* Everything that the tips lead to must be there. */
static int check_connected(struct git_lab *lab, const struct buf *tips,
			   struct buf *why)
{
	static const char *const argv[] = {"rev-list", "--objects", "--quiet",
					   "--stdin", NULL};
	AUTO_BUF struct buf input = BUF_INIT(80u << 20);

	buf_add(&input, tips->data, tips->len);
	if (lab->known.len > 0)
		buf_add(&input, lab->known.data, lab->known.len);
	if (input.failed)
		return fail(lab, input.failed, "name what is taken over");
	return git_lab_run(lab, GIT_VIEW_HOST, argv, input.data, input.len,
			   NULL, why);
}

/* Is ref one of those that are checked? only: that one alone. */
static bool is_meant(const struct git_ref *ref, const struct git_ref *only)
{
	return !ref->left && (!only || only == ref);
}

/* A branch, the stash and HEAD are commits; one that is not is left. */
static int check_kinds(struct git_lab *lab, const struct git_ref *only,
		       struct buf *why)
{
	static const char *const argv[] = {
		"cat-file", "--batch-check=%(objecttype)", "--buffer", NULL};
	AUTO_BUF struct buf input = BUF_INIT(1u << 20);
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);
	const char *at;
	int r;

	for (size_t i = 0; i < lab->g->n; i++) {
		if (is_meant(&lab->g->refs[i], only) && lab->g->refs[i].new[0])
			buf_addf(&input, "%s\n", lab->g->refs[i].new);
	}
	r = git_lab_run(lab, GIT_VIEW_HOST, argv, buf_str(&input), input.len,
			&out, why);
	at = buf_str(&out);
	for (size_t i = 0; i < lab->g->n && r == 0; i++) {
		struct git_ref *ref = &lab->g->refs[i];

		if (!is_meant(ref, only) || !ref->new[0])
			continue;
		if (!str_starts(at, "commit\n") &&
		    !str_starts(ref->name, "refs/tags/"))
			r = git_ref_leave(ref, LEAVE_REFUSED,
					  "it is no commit");
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return r;
}

/* Of these references (NULL: of all that are not left). 0, 1 or negative. */
static int check_some(struct git_lab *lab, struct git_ref *only,
		      struct buf *why)
{
	AUTO_BUF struct buf tips = BUF_INIT(4u << 20);
	int r = 0;

	for (size_t i = 0; i < lab->g->n && r == 0; i++) {
		struct git_ref *ref = &lab->g->refs[i];

		if (is_meant(ref, only))
			r = git_lab_add_tips(lab, ref, &tips);
	}
	if (r < 0)
		return fail(lab, r, "name what is taken over");
	if (tips.len == 0)
		return 0;
	r = take_objects(lab, &tips, why);
	if (r == 0)
		r = check_connected(lab, &tips, why);
	if (r == 0)
		r = check_kinds(lab, only, why);
	return r == 1 && git_lab_lacked(lab) < 0 ? -ENOSPC : r;
}

/* Begins anew: what was taken over is forgotten. */
static int forget(struct git_lab *lab)
{
	AUTO_CLOSE int objects = walk_open_at(lab->fd, "objects",
					      O_RDONLY | O_DIRECTORY);
	int r = objects < 0 ? objects : layer_remove(objects, "pack", lab->err);

	if (r == 0 && mkdirat(objects, "pack", 0700) < 0)
		r = -errno;
	lab->has_pack = false;
	return r < 0 ? fail(lab, r, "forget what was taken over") : 0;
}

#define ALONE_MAX 32

/* Finds out which of them it is, and leaves these. */
static int check_each(struct git_lab *lab, struct buf *why)
{
	struct git_changes *g = lab->g;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < g->n; i++)
		n += !g->refs[i].left;
	for (size_t i = 0; i < g->n && r == 0; i++) {
		struct git_ref *ref = &g->refs[i];

		if (ref->left)
			continue;
		r = n > ALONE_MAX ? 1 : n == 1 ? 1 : forget(lab);
		if (r == 0)
			r = check_some(lab, ref, why);
		if (r == 1) {
			git_ref_leave(ref, LEAVE_REFUSED, "%s", buf_str(why));
			r = 0;
		}
	}
	return r;
}

static int check_all(struct git_lab *lab)
{
	AUTO_BUF struct buf why = BUF_INIT(2048);
	int r = git_lab_known(lab, &why);

	if (r == 0)
		r = check_some(lab, NULL, &why);
	if (r != 1)
		return r;
	r = check_each(lab, &why);
	if (r == 0)
		r = forget(lab);
	if (r == 0)
		r = check_some(lab, NULL, &why);
	if (r != 1)
		return r;
	/* One by one they hold, together they do not. */
	for (size_t i = 0; i < lab->g->n; i++) {
		if (!lab->g->refs[i].left)
			git_ref_leave(&lab->g->refs[i], LEAVE_REFUSED, "%s",
				      buf_str(&why));
	}
	lab->has_pack = false;
	return 0;
}

int git_lab_check(struct git_lab *lab, const struct promote_layer *l)
{
	int r = check_all(lab);

	if (r == 0)
		r = git_lab_check_paths(lab, l);
	if (r == 0)
		r = git_lab_count(lab);
	if (r == 0)
		r = git_lab_list_files(lab);
	if (r == 0)
		r = git_lab_lacked(lab);
	return r < 0 && lab->err && lab->err->code == 0
		       ? fail(lab, r, "look at what was committed")
		       : r;
}
