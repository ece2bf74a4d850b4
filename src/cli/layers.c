/*
 * The directories of a task's changes: which kind of workspace it gets, and the
 * copy of its source where it gets one. A copy is measured first: what would
 * not fit is refused before anything is written.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/direct.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "tier/container.h"
#include "workspace/hide_store.h"
#include "workspace/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct size {
	uint64_t files, bytes;
};

/*
 * Can the source's files be shown as the command's own? A user's are. What the
 * kernel has mapped ids on for longest is not asked.
 */
static bool shows_ids(const struct launch *l)
{
	const struct sandbox_spec *s = &l->plan.spec;
	struct statfs fs;

	if (!s->root_caller)
		return true;
	if (fstatfs(l->source.fd, &fs) == 0 &&
	    (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC))
		return true;
	return container_clones(s, l->source.path);
}

/* *ret_why: why auto took a copy. */
static int choose_workspace(struct launch *l, enum layer_trouble *ret_why,
			    struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	enum layer_trouble trouble;
	bool as_other = s->root_caller;

	s->workspace = WORKSPACE_AUTO;
	if (!l->source.path)
		return 0;
	s->workspace = l->policy.workspace;
	trouble = layer_probe(&l->source, l->task_fd,
			      as_other ? s->outer_uid : getuid(),
			      as_other ? s->outer_gid : getgid(), as_other);
	if (trouble == LAYER_OK && !shows_ids(l))
		trouble = LAYER_SAME_IDS;
	if (s->workspace == WORKSPACE_AUTO) {
		s->workspace = trouble == LAYER_OK ? WORKSPACE_OVERLAY
						   : WORKSPACE_COPY;
		*ret_why = trouble;
	} else if (s->workspace == WORKSPACE_OVERLAY && trouble != LAYER_OK &&
		   trouble != LAYER_FOREIGN_OWNER) {
		return error_set(err, -EOPNOTSUPP,
				 "no overlay can be made over %s: %s; use "
				 "--workspace copy",
				 l->source.path, layer_trouble_text(trouble));
	}
	return 0;
}

/* Layers of --write grants: like the source's own, in write.N. */
static int make_grant_layers(struct launch *l, struct error *err)
{
	const struct sandbox_spec *s = &l->plan.spec;
	uid_t uid = s->root_caller ? s->outer_uid : (uid_t)-1;
	gid_t gid = s->root_caller ? s->outer_gid : (gid_t)-1;

	for (size_t i = 0; i < s->write.n; i++) {
		struct source grant = {.path = s->write.items[i]};
		AUTO_CLOSE int fd = open(grant.path, O_PATH | O_DIRECTORY |
							     O_CLOEXEC);
		AUTO_CLOSE int dir = -1;
		char name[40];
		int r;

		grant.fd = fd;
		snprintf(name, sizeof(name), "write.%zu", i);
		if (fd < 0 && errno == ENOTDIR)
			return error_set(err, -ENOTDIR,
					 "cannot grant %s for writing: it is "
					 "no directory; name the one that "
					 "holds it", grant.path);
		if (fd < 0)
			return error_errno(err, "cannot grant %s for writing",
					   grant.path);
		if (mkdirat(l->task_fd, name, 0700) < 0)
			return error_errno(err, "cannot make a layer for %s",
					   grant.path);
		dir = openat(l->task_fd, name,
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = dir < 0 ? error_errno(err, "cannot open %s", name)
			    : layer_make(dir, &grant, uid, gid, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int too_large(const struct launch *l, const struct size *size,
		     uint64_t most, const char *of_what, struct error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(512);

	num_human_size(&text, size->bytes);
	buf_add_str(&text, " would be copied, and ");
	num_human_size(&text, most);
	return error_set(err, -EFBIG,
			 "the source %s is too large to be copied: %s %s",
			 l->source.path, buf_str(&text), of_what);
}

/* Refuses a copy that the limits or the disk have no room for. */
static int check_room(const struct launch *l, const struct size *size,
		      struct error *err)
{
	const struct policy_limits *limits = &l->plan.spec.limits;
	bool shared = layer_may_share(l->task_fd, &l->source);
	struct statvfs fs;
	uint64_t avail;

	if (size->files > limits->inodes)
		return error_set(err, -EFBIG,
				 "the source %s is too large to be copied: it "
				 "has %ju files, and limits.inodes is %ju",
				 l->source.path, (uintmax_t)size->files,
				 (uintmax_t)limits->inodes);
	if (!shared && size->bytes > limits->disk)
		return too_large(l, size, limits->disk, "is what limits.disk "
				 "permits", err);
	if (shared || fstatvfs(l->task_fd, &fs) < 0)
		return 0;
	avail = fs.f_bavail * fs.f_frsize;
	if (avail == 0)
		return error_set(err, -ENOSPC,
				 "the disk of the state directory is full");
	if (size->bytes >= avail)
		return too_large(l, size, avail, "is what is left on the disk "
				 "of the state directory", err);
	return 0;
}

static void say_copied(const struct size *size, enum layer_trouble why)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);

	buf_addf(&text, "note: the source (%ju files, ",
		 (uintmax_t)size->files);
	num_human_size(&text, size->bytes);
	buf_addf(&text, ") is copied, because %s", layer_trouble_text(why));
	report_note(buf_str(&text));
}

static int copy_source(struct launch *l, uid_t uid, gid_t gid,
		       enum layer_trouble why, struct error *err)
{
	const struct policy_limits *limits = &l->plan.spec.limits;
	struct progress p;
	const struct layer_watch watch = {progress_step, &p};
	struct size size;
	uint64_t files;
	int r;

	progress_begin(&p, "looking at the source", 0);
	r = layer_measure(l->task_fd, &l->source, &watch, &size.files,
			  &size.bytes, err);
	progress_end(&p);
	if (r == 0)
		r = check_room(l, &size, err);
	if (r < 0)
		return r;
	if (why != LAYER_OK)
		say_copied(&size, why);
	progress_begin(&p, "copying the source", size.files);
	r = layer_copy(l->task_fd, &l->source, uid, gid,
		       limits->disk == LIMIT_NONE ? 0 : limits->disk, &watch,
		       &files, err);
	progress_end(&p);
	return r;
}

/*
 * Many paths are hidden by a layer that is kept: making whiteouts for each start
 * would cost more than the rest of it. Where none can be kept, the keeper makes it.
 */
static int keep_hidden(struct launch *l)
{
	struct sandbox_spec *s = &l->plan.spec;
	/* As on disk: the namespace that shows the source shows this too. */
	const struct hide_ids ids = {.owner_uid = s->owner_uid,
				     .owner_gid = s->owner_gid,
				     .layer_uid = s->owner_uid,
				     .layer_gid = s->owner_gid,
				     .all = s->root_caller};
	AUTO_CLOSE int dir = -1;
	char name[SHA256_HEX_SIZE];
	struct error ignored;

	if (s->workspace != WORKSPACE_OVERLAY ||
	    s->hide.paths.n < HIDE_STORE_LEAST)
		return 0;
	dir = launch_state_dir(&l->state, "hidden");
	if (dir < 0)
		return 0;
	l->hide_fd = hide_store_open(dir, &s->hide, &ids, name, &ignored);
	if (l->hide_fd < 0)
		return 0;
	s->hide_path = str_format("%s/hidden/%s", l->state.path, name);
	return s->hide_path ? 0 : -ENOMEM;
}

static int make_source_layer(struct launch *l, uid_t uid, gid_t gid,
			     enum layer_trouble why, struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	int r = 0;

	if (s->workspace == WORKSPACE_DIRECT)
		r = direct_prepare(l, err);
	if (r == 0)
		r = layer_make(l->task_fd, &l->source, uid, gid, err);
	l->source.hide = &s->hide.paths;
	l->source.git_config = s->hide.git_config;
	if (r == 0 && s->workspace == WORKSPACE_COPY)
		r = copy_source(l, uid, gid, why, err);
	return r;
}

int launch_layers(struct launch *l, struct error *err)
{
	struct sandbox_spec *s = &l->plan.spec;
	uid_t uid = s->root_caller ? s->outer_uid : (uid_t)-1;
	gid_t gid = s->root_caller ? s->outer_gid : (gid_t)-1;
	enum layer_trouble why = LAYER_OK;
	int r = container_check(s, err);

	if (r == 0)
		r = choose_workspace(l, &why, err);
	if (r == 0 && l->source.path)
		r = make_source_layer(l, uid, gid, why, err);
	if (r == 0 && keep_hidden(l) < 0)
		r = error_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = make_grant_layers(l, err);
	return r;
}
