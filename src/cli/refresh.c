/*
 * pinfold refresh: gives a sandbox that stays the host's newer files. What the
 * task has changed stays the task's; where the host has changed it too, that is
 * named. Nothing may run in the sandbox meanwhile.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "cli/refresh_private.h"
#include "cli/report.h"
#include "cli/task_connect.h"
#include "ipc/codec.h"
#include "schema/json.h"
#include "workspace/hide_renew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SCHEMA "pinfold-refresh-1"
/* The keeper waits for a minute longer. */
#define LIMIT_MS (REFRESH_MAX_MS - 60000u)

static void refresh_done(struct refresh *x)
{
	layers_done(&x->layers);
	pick_done(&x->pick);
	launch_done(&x->launch);
	front_done(&x->front);
	for (int i = 0; i < VIEW_FD_COUNT; i++)
		close_fd(x->fds[i]);
	strlist_done(&x->mounts);
	close_fd(x->list);
	buf_done(&x->head);
	if (x->done)
		munmap(x->done, sizeof(*x->done));
}

#define AUTO_REFRESH __attribute__((cleanup(refresh_done)))

/* ---- what there is to make new ---- */

static int add_mount(struct refresh *x, const char *path)
{
	return strlist_has(&x->mounts, path) ? 0
					     : strlist_add(&x->mounts, path);
}

static int add_mounts(struct refresh *x, const struct strlist *paths)
{
	int r = 0;

	for (size_t i = 0; i < paths->n && r == 0; i++)
		r = add_mount(x, paths->items[i]);
	return r;
}

static int find_mounts(struct refresh *x, struct error *err)
{
	const struct policy *p = &x->launch.policy;
	int r = 0;

	if (!x->layers.items[0].copied)
		r = strlist_add(&x->mounts, x->launch.source.path);
	if (r == 0)
		r = add_mounts(x, &p->write);
	x->n_writable = x->mounts.n;
	for (size_t i = 0; i < p->read.n && r == 0; i++) {
		if (!str_eq(p->read.items[i], x->launch.source.path))
			r = add_mount(x, p->read.items[i]);
	}
	if (r == 0)
		r = add_mounts(x, &x->pick.record.tools);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

/*
 * A mount inside of another holds the directories above it as they were when it
 * was placed: what is directly in the top holds none.
 */
static int check_below(const struct refresh *x, const char *top,
		       const struct strlist *paths, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	size_t n = strlen(top);

	for (size_t i = 0; i < paths->n; i++) {
		const char *path = paths->items[i];

		if (!path_is_below(path, top) || str_eq(path, top) ||
		    !strchr(path + n + 1, '/'))
			continue;
		str_quote(&quoted, path, 400);
		return error_set(err, -EOPNOTSUPP,
				 "%s cannot be refreshed: %s, which was granted "
				 "by itself, lies deep in another of its "
				 "directories; pinfold stop %s, pinfold promote "
				 "%s, and start a new one", x->pick.id,
				 buf_str(&quoted), x->pick.id, x->pick.id);
	}
	return 0;
}

static int check_nested(const struct refresh *x, struct error *err)
{
	const struct policy *p = &x->launch.policy;
	const struct strlist *const lists[] = {&p->read, &p->write, &p->sockets,
					       &x->pick.record.tools,
					       &x->pick.record.carried};
	int r = 0;

	for (size_t i = 0; i < x->mounts.n; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(lists) && r == 0; k++)
			r = check_below(x, x->mounts.items[i], lists[k], err);
	}
	return r;
}

static int read_policy(struct refresh *x, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(POLICY_TEXT_MAX);
	int r = io_read_file(x->pick.fd, "policy.json", &b);

	if (r < 0)
		return error_set(err, r, "cannot read the task's policy: %s",
				 strerror(-r));
	r = policy_from_json(buf_str(&b), b.len, &x->launch.policy, err);
	x->launch.policy_known = r == 0;
	return r;
}

/* The source as a start would have it. */
static int open_source(struct refresh *x, struct error *err)
{
	const struct promote_layer *l = &x->layers.items[0];
	struct source *s = &x->launch.source;
	struct stat st;

	s->path = strdup(l->source);
	s->fd = fcntl(l->source_fd, F_DUPFD_CLOEXEC, 3);
	if (!s->path || s->fd < 0 || fstat(s->fd, &st) < 0)
		return error_errno(err, "cannot open the source");
	s->owner = st.st_uid;
	s->group = st.st_gid;
	s->mode = st.st_mode;
	return 0;
}

static int prepare(struct refresh *x, const char *want, struct error *err)
{
	int r = pick_task(&x->launch.state, want, &x->pick, err);
	char id[STATE_ID_SIZE];
	int fd = -1;

	if (r == 0)
		r = task_connect(x->pick.id, &x->front, id, &fd, err);
	close_fd(fd);
	if (r == 0)
		r = pick_policy(&x->pick, err);
	if (r == 0)
		r = read_policy(x, err);
	if (r == 0)
		r = layers_look(&x->layers, &x->pick, err);
	if (r == 0 && (!x->pick.record.source || x->layers.n == 0))
		r = error_set(err, -EINVAL, "%s was started without a source: "
			      "there is nothing to refresh", x->pick.id);
	if (r == 0)
		r = open_source(x, err);
	if (r == 0)
		r = find_mounts(x, err);
	return r == 0 ? check_nested(x, err) : r;
}

/* ---- while nothing is started in it ---- */

static int check_source(const struct refresh *x, struct error *err)
{
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	struct stat st;

	if (fstat(x->launch.source.fd, &st) < 0)
		return error_errno(err, "cannot look at the source");
	if (st.st_dev == x->view.source_dev && st.st_ino == x->view.source_ino)
		return 0;
	str_quote(&quoted, x->launch.source.path, 400);
	return error_set(err, -ESTALE,
			 "%s is another directory than %s was started on, which "
			 "it still sees: pinfold stop %s, look at pinfold diff "
			 "%s, and start a new one", buf_str(&quoted), x->pick.id,
			 x->pick.id, x->pick.id);
}

/* A layer that other tasks use too is not changed for one of them. */
static int check_kept(const struct refresh *x, struct error *err)
{
	const struct hide *hide = &x->launch.plan.spec.hide;
	AUTO_CLOSE int kept = -1;
	AUTO_BUF struct buf quoted = BUF_INIT(4096);
	const char *path = hide->paths.n ? hide->paths.items[0] : NULL;

	if (!x->view.hide_path[0] &&
	    (x->view.hides || x->layers.items[0].copied || hide_is_empty(hide)))
		return 0;
	if (x->view.hide_path[0])
		kept = open(x->view.hide_path,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (kept >= 0 && hide_covers(kept, hide, &path))
		return 0;
	str_quote(&quoted, path ? path : "something", 400);
	return error_set(err, -EOPNOTSUPP,
			 "%s cannot be refreshed: %s is to be hidden from it, "
			 "and what hides its files cannot be changed while it "
			 "runs; pinfold stop %s, pinfold promote %s, and start "
			 "a new one", x->pick.id, buf_str(&quoted), x->pick.id,
			 x->pick.id);
}

/* It may be known already which files hold secrets; the walk is the same. */
static int find_hidden(struct refresh *x, struct error *err)
{
	struct sandbox_spec *s = &x->launch.plan.spec;
	int r;

	s->owner_uid = x->view.owner_uid;
	s->owner_gid = x->view.owner_gid;
	r = launch_hide_find(&x->launch, err);
	if (r == 0)
		r = check_kept(x, err);
	return r == 0 ? hidden_add(x->pick.fd, &x->launch.hidden, err) : r;
}

static int make_shared(struct refresh *x, struct error *err)
{
	void *at = mmap(NULL, sizeof(*x->done), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return error_errno(err, "out of memory");
	x->done = at;
	x->list = memfd_create("conflicts", MFD_CLOEXEC);
	return x->list < 0 ? error_errno(err, "cannot make a list") : 0;
}

/*
 * It ends with us, and in time: while it lives it holds our channel, so that the
 * keeper starts nothing, and after LIMIT_MS it does not live, stopped or not.
 */
_Noreturn static void make_view(struct refresh *x, pid_t parent)
{
	uint64_t now = time_mono_us();
	sigset_t alarms;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	if (now >= x->until_us)
		raise(SIGALRM);
	alarm((unsigned)((x->until_us - now) / 1000000u) + 1);
	if (getppid() == parent)
		refresh_view(x);
	_exit(0);
}

static int view_apart(struct refresh *x, struct error *err)
{
	pid_t parent = getpid(), child;
	int status;

	child = fork();
	if (child < 0)
		return error_errno(err, "cannot start a process");
	if (child == 0)
		make_view(x, parent);
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return error_errno(err, "cannot wait for a process");
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return error_set(err, -ETIMEDOUT, "the view of %s was not made "
				 "new in %u minutes: try again", x->pick.id,
				 LIMIT_MS / 60000u);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, -ECHILD, "the process that makes the view "
				 "new died");
	if (x->done->r < 0 && err)
		*err = x->done->err;
	return x->done->r;
}

static int refresh(struct refresh *x, struct error *err)
{
	int r = make_shared(x, err);

	x->until_us = time_mono_us() + LIMIT_MS * UINT64_C(1000);
	if (r == 0)
		r = front_refresh(&x->front, &x->view, x->fds, err);
	if (r == 0)
		r = check_source(x, err);
	if (r == 0)
		r = find_hidden(x, err);
	if (r == 0)
		r = view_apart(x, err);
	return r == 0 ? front_refreshed(&x->front, err) : r;
}

/* ---- what is said ---- */

static int read_conflicts(const struct refresh *x, struct strlist *ret)
{
	AUTO_BUF struct buf text = BUF_INIT(REFRESH_LIST_MAX);
	struct codec_reader reader;
	int r = lseek(x->list, 0, SEEK_SET) < 0 ? -errno
						: io_read_all(x->list, &text);

	if (r < 0)
		return r;
	reader = (struct codec_reader){.data = text.data, .len = text.len};
	codec_get_list(&reader, 2 * REFRESH_LISTED_MAX, ret);
	return codec_end(&reader) < 0 || ret->n % 2 ? -EBADMSG : 0;
}

static void print_json(const struct refresh *x, struct report *out,
		       const struct strlist *found)
{
	struct json_writer w;

	json_begin(&w, &out->out);
	json_object(&w);
	json_put_uint(&w, "brought", x->done->copied.brought);
	json_key(&w, "conflicts");
	json_array(&w);
	for (size_t i = 0; i + 1 < found->n; i += 2) {
		json_object(&w);
		json_put_text(&w, "path", found->items[i]);
		json_put_text(&w, "reason", found->items[i + 1]);
		json_object_end(&w);
		report_flush(out);
	}
	json_array_end(&w);
	json_put_string(&w, "id", x->pick.id);
	json_put_uint(&w, "kept", x->done->kept);
	json_put_uint(&w, "removed", x->done->copied.removed);
	json_put_string(&w, "schema", SCHEMA);
	json_object_end(&w);
	json_finish(&w);
	buf_add_char(&out->out, '\n');
}

static void print_text(struct report *out, const struct strlist *found)
{
	for (size_t i = 0; i + 1 < found->n; i += 2) {
		buf_add_str(&out->out, "conflict: ");
		report_path(&out->out, found->items[i]);
		buf_addf(&out->out, ": %s\n", found->items[i + 1]);
		report_flush(out);
	}
}

static void say(const struct refresh *x)
{
	const struct renewed *d = x->done;
	AUTO_BUF struct buf text = BUF_INIT(4096);

	buf_addf(&text, "%s sees the host's files as they are now", x->pick.id);
	if (x->layers.items[0].copied)
		buf_addf(&text, " (%ju copied, %ju removed)",
			 (uintmax_t)d->copied.brought,
			 (uintmax_t)d->copied.removed);
	if (d->kept > 0)
		buf_addf(&text, "; %ju change%s of its own stay%s",
			 (uintmax_t)d->kept, d->kept == 1 ? "" : "s",
			 d->kept == 1 ? "s" : "");
	if (d->conflicts > 0)
		buf_addf(&text, ", and the host has changed %ju of these too",
			 (uintmax_t)d->conflicts);
	report_note(buf_str(&text));
	if (d->index)
		report_note("note: the host has checked out another commit, so "
			    "git's index in the sandbox is the host's now; what "
			    "was staged there is kept as .git/index.task");
}

static int show(const struct refresh *x, struct report *out, struct error *err)
{
	AUTO_STRLIST struct strlist found = {0};
	int r = read_conflicts(x, &found);

	if (r < 0)
		return error_set(err, r, "cannot read the list of conflicts: %s",
				 strerror(-r));
	if (out->json)
		print_json(x, out, &found);
	else
		print_text(out, &found);
	r = report_end(out);
	if (!out->json)
		say(x);
	launch_say_hidden(&x->launch);
	return r == 0 && x->done->conflicts ? 1 : r;
}

int verb_refresh(const struct options *o)
{
	AUTO_REFRESH struct refresh x = {
		.pick = PICK_INIT,
		.layers = LAYERS_INIT,
		.front = FRONT_INIT,
		.fds = {-1, -1},
		.list = -1,
		.head = BUF_INIT(4096),
	};
	AUTO_REPORT struct report report = {0};
	struct error err = {0};
	int r;

	launch_init(&x.launch);
	if (options_has(o, OPT_MERGE))
		return report_refuse("refresh does not merge: stop the task, and "
				     "pinfold promote --merge takes over what "
				     "can be merged");
	r = state_open(&x.launch.state, &err);
	if (r == 0)
		r = prepare(&x, o->n_rest ? o->rest[0] : NULL, &err);
	if (r < 0)
		return report_refuse(err.text);
	r = report_init(&report, o);
	if (r != 0)
		return r;
	r = refresh(&x, &err);
	if (r == 0)
		r = show(&x, &report, &err);
	return r < 0 ? report_refuse(err.text) : r;
}
