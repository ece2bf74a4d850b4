#include "tier/container_files.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/paths.h"
#include "tier/container.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const struct {
	const char *path, *target; /* target NULL: a directory */
} skeleton[] = {
	{"proc", NULL},		    {"sys", NULL},
	{"dev", NULL},		    {"dev/pts", NULL},
	{"run", NULL},		    {"var", NULL},
	{"var/tmp", "/tmp"},	    {"var/run", "/run"},
	{"dev/ptmx", "pts/ptmx"},   {"dev/fd", "/proc/self/fd"},
	{"dev/stdin", "fd/0"},	    {"dev/stdout", "fd/1"},
	{"dev/stderr", "fd/2"},
};

/* Secrets and identities of the host that have no business inside. */
static const char *const etc_hidden[] = {
	"shadow", "gshadow", "sudoers", "sudoers.d", "ssh", "pinfold",
	"krb5.keytab",
};

static bool any_below(const struct strlist *paths, const char *dir)
{
	for (size_t i = 0; i < paths->n; i++) {
		if (path_is_below(paths->items[i], dir))
			return true;
	}
	return false;
}

/* Does the source or a grant lie at or below the name in the root? */
static bool is_needed(const struct sandbox_spec *s, const char *name)
{
	char dir[32];

	snprintf(dir, sizeof(dir), "/%s", name);
	return (s->source && path_is_below(s->source, dir)) ||
	       any_below(&s->read, dir) || any_below(&s->write, dir);
}

static int make_skeleton(int root_fd, const struct sandbox_spec *s,
			 struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(skeleton); i++) {
		int r;

		/* What is to be shown there comes in the place of the link. */
		if (skeleton[i].target && is_needed(s, skeleton[i].path))
			continue;
		r = skeleton[i].target
				? symlinkat(skeleton[i].target, root_fd,
					    skeleton[i].path)
				: mkdirat(root_fd, skeleton[i].path, 0755);

		if (r < 0)
			return error_errno(err, "cannot make /%s",
					   skeleton[i].path);
	}
	return 0;
}

int files_copy_link(const char *path, int root_fd, struct error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return error_errno(err, "cannot read the link %s", path);
	target[n] = '\0';
	if (symlinkat(target, root_fd, path + 1) < 0)
		return error_errno(err, "cannot make the link %s", path);
	return 0;
}

static int make_last(int fd, const char *name, bool directory)
{
	int file;

	if (directory)
		return mkdirat(fd, name, 0755) < 0 && errno != EEXIST ? -errno
								      : 0;
	file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		      0644);
	if (file < 0)
		return -errno;
	close(file);
	return 0;
}

/* Makes a directory on the way and opens it. */
static int make_parent(int in, const char *name, uid_t uid, gid_t gid)
{
	int fd, r = make_last(in, name, true);

	if (r < 0)
		return r;
	if (uid != (uid_t)-1 &&
	    fchownat(in, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	fd = openat(in, name,
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int files_make_point(int fd, const char *path, bool directory, uid_t uid,
		     gid_t gid, struct error *err)
{
	AUTO_CLOSE int dir = -1;
	const char *at = path;
	int r;

	/* Mostly its parents are there; this tree is ours alone. */
	if (make_last(fd, path, directory) == 0)
		return 0;
	for (;;) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(at, "/");
		bool last = at[n] == '\0';

		if (n == 0 || n > NAME_MAX)
			return error_set(err, -EINVAL,
					 "%s is no path for a mount", path);
		memcpy(name, at, n);
		name[n] = '\0';
		r = last ? make_last(dir >= 0 ? dir : fd, name, directory)
			 : make_parent(dir >= 0 ? dir : fd, name, uid, gid);
		if (r < 0)
			return error_set(err, r, "cannot make the mount point "
					 "%s: %s", path, strerror(-r));
		if (last)
			return 0;
		close_fd(dir);
		dir = r;
		at += n + 1;
	}
}

static int whiteout(int fd, const char *name)
{
	if (mknodat(fd, name, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int make_hide(int support_fd, const struct sandbox_spec *s,
		     struct error *err)
{
	const struct hide_ids ids = {.owner_uid = s->owner_uid,
				     .owner_gid = s->owner_gid,
				     .layer_uid = s->outer_uid,
				     .layer_gid = s->outer_gid,
				     .all = s->root_caller};
	AUTO_CLOSE int layer = -1;

	if (mkdirat(support_fd, "hide", 0755) < 0)
		return error_errno(err, "cannot make a layer");
	layer = openat(support_fd, "hide", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (layer < 0)
		return error_errno(err, "cannot open a layer");
	return hide_make(layer, &s->hide, &ids, err);
}

/* Those of s->masked that lie below top, relative to it and in order. */
static int masked_below(const struct sandbox_spec *s, const char *top,
			struct strlist *ret)
{
	size_t n = strlen(top);
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->masked.n; i++) {
		const char *path = s->masked.items[i];

		if (path_is_below(path, top) && path[n] == '/')
			r = strlist_add(ret, path + n + 1);
	}
	paths_normalise(ret);
	return r;
}

int files_make_mask(int support_fd, const char *name, const char *top,
		    int dir_fd, const struct sandbox_spec *s, struct error *err)
{
	AUTO_HIDE struct hide below = {0};
	AUTO_CLOSE int layer = -1;
	struct hide_ids ids;
	struct stat st;
	int r = masked_below(s, top, &below.paths);

	if (r < 0)
		return error_set(err, r, "out of memory");
	if (below.paths.n == 0)
		return 0;
	if (fstat(dir_fd, &st) == 0 &&
	    mkdirat(support_fd, name, st.st_mode & 0777) == 0)
		layer = openat(support_fd, name,
			       O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (layer < 0)
		return error_errno(err, "cannot make a layer");
	ids = (struct hide_ids){.owner_uid = st.st_uid, .owner_gid = st.st_gid,
				.layer_uid = s->root_caller ? st.st_uid
							    : s->outer_uid,
				.layer_gid = s->root_caller ? st.st_gid
							    : s->outer_gid,
				.all = s->root_caller};
	r = hide_look(&below, dir_fd, st.st_uid, st.st_gid, err);
	if (r == 0)
		r = hide_make(layer, &below, &ids, err);
	return r < 0 ? r : 1;
}

int files_make_layers(int support_fd, const struct sandbox_spec *s,
		      struct error *err)
{
	AUTO_CLOSE int root = -1;
	int r;

	if (mkdirat(support_fd, "empty", 0755) < 0 ||
	    mkdirat(support_fd, "root", 0755) < 0)
		return error_errno(err, "cannot make a layer");
	root = openat(support_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, "cannot open a layer");
	r = make_skeleton(root, s, err);
	if (r < 0)
		return r;
	return hide_is_empty(&s->hide) ? 0 : make_hide(support_fd, s, err);
}

static int write_file(int dir, const char *name, const struct buf *content,
		      struct error *err)
{
	AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC,
				   0644);
	int r;

	if (fd < 0)
		return error_errno(err, "cannot make /etc/%s", name);
	r = content->failed ? content->failed
			    : io_write_all(fd, buf_str(content), content->len);
	if (r < 0)
		return error_set(err, r, "cannot write /etc/%s: %s", name,
				 strerror(-r));
	return 0;
}

static void etc_passwd(struct buf *b, const struct sandbox_spec *s)
{
	buf_add_str(b, "root:x:0:0:root:/root:/usr/sbin/nologin\n");
	if (s->inner_uid != 0)
		buf_addf(b, "%s:x:%u:%u::%s:/bin/sh\n", s->user, s->inner_uid,
			 s->inner_gid, s->home);
	buf_add_str(b, "nobody:x:65534:65534:nobody:/nonexistent:"
		       "/usr/sbin/nologin\n");
}

static void etc_group(struct buf *b, const struct sandbox_spec *s)
{
	buf_add_str(b, "root:x:0:\n");
	if (s->inner_gid != 0)
		buf_addf(b, "%s:x:%u:\n", s->user, s->inner_gid);
	buf_add_str(b, "nogroup:x:65534:\n");
}

static void etc_hosts(struct buf *b, const struct sandbox_spec *s)
{
	buf_addf(b, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost "
		    "ip6-loopback %s\n",
		 s->id, s->id);
}

static void etc_hostname(struct buf *b, const struct sandbox_spec *s)
{
	buf_addf(b, "%s\n", s->id);
}

/* No server can be reached: a name that is not local does not exist. */
static void etc_resolv_conf(struct buf *b, const struct sandbox_spec *s)
{
	(void)s;
	buf_add_str(b, "# There is no network (network: default deny). Asking "
		       "this address fails at\n# once and is recorded.\n"
		       "nameserver " CONTAINER_RESOLVER "\n"
		       "options timeout:1 attempts:1\n");
}

/*
 * The last "files" has the last word: a name that is not in hosts does not
 * exist (EAI_NONAME), where "dns" alone would say "try again".
 */
static void etc_nsswitch(struct buf *b, const struct sandbox_spec *s)
{
	(void)s;
	buf_add_str(b, "passwd: files\ngroup: files\nshadow: files\n"
		       "hosts: files dns [TRYAGAIN=continue UNAVAIL=continue] "
		       "files\nnetworks: files\nprotocols: files\n"
		       "services: files\nethers: files\nrpc: files\n");
}

/* 32 hexadecimal digits of the task's own, from its identifier. */
static void etc_machine_id(struct buf *b, const struct sandbox_spec *s)
{
	uint64_t h[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};

	for (const char *p = s->id; *p; p++) {
		h[0] = (h[0] ^ (unsigned char)*p) * 0x100000001b3u;
		h[1] = (h[1] + (unsigned char)*p) * 0x9e3779b97f4a7c15u;
	}
	buf_addf(b, "%016jx%016jx\n", (uintmax_t)h[0], (uintmax_t)h[1]);
}

static const struct {
	const char *name;
	void (*content)(struct buf *b, const struct sandbox_spec *s);
} etc_files[] = {
	{"passwd", etc_passwd},
	{"group", etc_group},
	{"hosts", etc_hosts},
	{"hostname", etc_hostname},
	{"resolv.conf", etc_resolv_conf},
	{"nsswitch.conf", etc_nsswitch},
	{"machine-id", etc_machine_id},
};

int files_make_etc(int support_fd, const struct sandbox_spec *s,
		   struct error *err)
{
	AUTO_CLOSE int dir = -1;
	int r = 0;

	if (mkdirat(support_fd, "etc", 0755) < 0)
		return error_errno(err, "cannot make a layer");
	dir = openat(support_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, "cannot open a layer");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(etc_files); i++) {
		AUTO_BUF struct buf b = BUF_INIT(65536);

		etc_files[i].content(&b, s);
		r = write_file(dir, etc_files[i].name, &b, err);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(etc_hidden); i++) {
		if (whiteout(dir, etc_hidden[i]) < 0)
			r = error_errno(err, "cannot hide /etc/%s",
					etc_hidden[i]);
	}
	return r;
}

/* A value of git's configuration: quotes and backslashes are escaped. */
static void git_value(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_addf(b, "\t%s = \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			buf_add_char(b, '\\');
		buf_add_char(b, *value);
	}
	buf_add_str(b, "\"\n");
}

/* A file of this name, without directories, in the sandbox's home. */
static int make_in_home(int support_fd, const char *name, const char *text,
			mode_t mode, const struct sandbox_spec *s,
			struct error *err)
{
	AUTO_FREE char *path = str_format("home/%s", name);
	AUTO_CLOSE int fd =
		path ? openat(support_fd, path,
			      O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode)
		     : -1;

	if (fd < 0 || fchown(fd, s->outer_uid, s->outer_gid) < 0 ||
	    io_write_all(fd, text, strlen(text)) < 0)
		return error_set(err, -EIO, "cannot make ~/%s", name);
	return 0;
}

int files_make_git(int support_fd, const struct sandbox_spec *s,
		   struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);

	if (s->git_name || s->git_email)
		buf_add_str(&b, "[user]\n");
	git_value(&b, "name", s->git_name);
	git_value(&b, "email", s->git_email);
	/*
	 * The index knows files by their owner too. Where that is another one
	 * inside, git would read all of them again.
	 */
	if (s->source && s->owner_uid != s->inner_uid)
		buf_add_str(&b, "[core]\n\tcheckStat = minimal\n"
				"\ttrustctime = false\n");
	if (b.len == 0 && !b.failed)
		return 0;
	if (b.failed)
		return error_set(err, b.failed, "out of memory");
	return make_in_home(support_fd, ".gitconfig", buf_str(&b), 0644, s,
			    err);
}

int files_make_seeds(int support_fd, const struct sandbox_spec *s,
		     struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < s->seeds.n && r == 0; i++)
		r = make_in_home(support_fd, s->seeds.items[i],
				 s->seed_texts.items[i], 0600, s, err);
	return r;
}
