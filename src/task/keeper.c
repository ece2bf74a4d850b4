#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "confine/caps.h"
#include "confine/start.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>

/* How often an exec is looked at that ended and whose client reads slowly. */
#define OWED_LOOK_US 20000u

enum poll_slot {
	SLOT_FRONT,
	SLOT_PARENT,
	SLOT_LISTENER,
	SLOT_INIT,
	SLOT_INIT_DEAD,
	SLOT_WATCH,
	SLOT_SIGNALS,
	SLOT_CLIENTS,
	SLOT_EXECS = SLOT_CLIENTS + KEEPER_CLIENTS_MAX,
	SLOT_COUNT = SLOT_EXECS + 4 * KEEPER_EXECS_MAX,
};

static void keeper_init(struct keeper *k)
{
	k->task_fd = k->lock_fd = k->policy_fd = -1;
	k->front = KEEPER_FD_CHANNEL;
	k->parent = KEEPER_FD_PARENT;
	k->listener = k->init_channel = k->init_pidfd = k->notify = -1;
	k->watch_channel = k->watch_pidfd = k->signals = k->proc_fd = -1;
	k->null_fd = k->refresher = k->source_fd = -1;
	k->state = KEEPER_STARTING;
	container_init(&k->box);
	for (size_t i = 0; i < KEEPER_CLIENTS_MAX; i++)
		k->clients[i] = -1;
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++)
		k->execs[i] = (struct keeper_exec){
			.client = -1,
			.log = -1,
			.relay = {{.from = -1, .to = -1},
				  {.from = -1, .to = -1}},
		};
	record_init(&k->record);
}

bool keeper_expect(struct keeper *k, uint16_t type)
{
	struct message *m = &k->message;
	struct error err;

	if (channel_recv(k->front, m) <= 0)
		return false;
	if (m->type == type &&
	    message_check(m, keeper_from_front, n_keeper_from_front, k->state,
			  &err) == 0)
		return true;
	message_done(m);
	return false;
}

/* Waits for the plan; -EPIPE without a text when there will be none. */
static int read_plan(struct keeper *k, struct error *err)
{
	struct message *m = &k->message;
	AUTO_CLOSE int plan_fd = -1;
	const char *data;
	size_t len;
	int r;

	if (!keeper_expect(k, FRONT_PLAN))
		return -EPIPE;
	plan_fd = message_take_fd(m, PLAN_FD_PLAN);
	k->policy_fd = message_take_fd(m, PLAN_FD_POLICY);
	k->task_fd = message_take_fd(m, PLAN_FD_TASK);
	k->lock_fd = dup3(m->fds[PLAN_FD_LOCK], KEEPER_FD_LOCK, O_CLOEXEC);
	message_done(m);
	if (k->lock_fd < 0)
		return error_errno(err, "cannot keep the task's lock");
	r = io_map_sealed(plan_fd, PLAN_MAX, &data, &len);
	if (r < 0)
		return error_set(err, r, "cannot map the plan: %s",
				 strerror(-r));
	r = plan_unpack(data, len, &k->plan, err);
	munmap((void *)(uintptr_t)data, len);
	k->state = KEEPER_BUILDING;
	return r;
}

static char *copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

static int copy_list(struct strlist *to, const struct strlist *from)
{
	for (size_t i = 0; i < from->n; i++) {
		if (strlist_add(to, from->items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What the label "name" says, the last one if there are several. */
static int name_of(const struct strlist *labels, char **ret)
{
	const char *name = NULL;

	for (size_t i = 0; i < labels->n; i++) {
		if (str_starts(labels->items[i], "name="))
			name = labels->items[i] + strlen("name=");
	}
	*ret = copy(name);
	return name && !*ret ? -ENOMEM : 0;
}

static char *kernel_release(void)
{
	struct utsname u;

	return strdup(uname(&u) == 0 ? u.release : "");
}

static int fill_lists(struct record *r, const struct task_plan *p)
{
	const struct {
		struct strlist *to;
		const struct strlist *from;
	} lists[] = {
		{&r->argv, &p->argv},
		{&r->labels, &p->labels},
		{&r->tools, &p->spec.tools},
		{&r->carried, &p->spec.carried},
		{&r->tool_env, &p->spec.tool_env},
		{&r->sockets, &p->spec.sockets},
	};
	int bad = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists) && bad == 0; i++)
		bad = copy_list(lists[i].to, lists[i].from);
	return bad;
}

static int fill_record(struct keeper *k, struct error *err)
{
	const struct task_plan *p = &k->plan;
	const struct sandbox_spec *s = &p->spec;
	struct record *r = &k->record;
	int bad;

	snprintf(r->id, sizeof(r->id), "%s", s->id);
	r->state = RECORD_RUNNING;
	r->exit_status = -1;
	r->source = copy(s->source);
	r->workdir = copy(p->workdir);
	r->home = copy(s->home);
	r->workspace = copy(s->source ? policy_workspace_name(s->workspace)
				      : "none");
	r->tier = copy(policy_tier_name(s->tier));
	r->identity = copy(policy_identity_name(s->identity));
	r->kernel = kernel_release();
	r->policy_name = copy(p->policy_name);
	memcpy(r->policy_digest, p->policy_digest, sizeof(r->policy_digest));
	memcpy(r->hidden_digest, p->hidden_digest, sizeof(r->hidden_digest));
	r->uid = p->caller_uid;
	r->started_us = p->started_us;
	bad = fill_lists(r, p);
	bad = bad ? bad : name_of(&p->labels, &r->name);
	if (bad || !r->workdir || !r->home || !r->workspace || !r->tier ||
	    !r->identity || !r->kernel)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* The socket of a task that stays, at a path of the user's own. */
static int make_listener(struct keeper *k, struct error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (!k->plan.socket_path)
		return 0;
	if (strlen(k->plan.socket_path) >= sizeof(a.sun_path))
		return error_set(err, -ENAMETOOLONG, "%s is too long for a "
				 "socket; set a shorter XDG_RUNTIME_DIR",
				 k->plan.socket_path);
	strcpy(a.sun_path, k->plan.socket_path);
	k->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
				      SOCK_NONBLOCK, 0);
	if (k->listener < 0)
		return error_errno(err, "cannot make a socket");
	unlink(a.sun_path);
	if (bind(k->listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    chmod(a.sun_path, 0600) < 0 || listen(k->listener, 16) < 0)
		return error_errno(err, "cannot listen at %s", a.sun_path);
	return 0;
}

static int make_signals(struct keeper *k, struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGTTOU);
	sigaddset(&set, SIGTTIN);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k->signals < 0)
		return error_errno(err, "cannot watch signals");
	return 0;
}

static void drop_client(struct keeper *k, size_t i)
{
	keeper_exec_client_gone(k, k->clients[i]);
	if (k->refresher == k->clients[i])
		k->refresher = -1;
	close_fd(k->clients[i]);
	k->clients[i] = -1;
}

static void accept_client(struct keeper *k)
{
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t len = sizeof(who);
	/* Who does not read what we tell it must not hold us. */
	int fd = accept4(k->listener, NULL, NULL,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	    (who.uid == geteuid() || who.uid == 0)) {
		for (size_t i = 0; i < KEEPER_CLIENTS_MAX; i++) {
			if (k->clients[i] < 0) {
				k->clients[i] = fd;
				return;
			}
		}
	}
	if (who.uid == geteuid() || who.uid == 0)
		keeper_exec_no_room(k, fd);
	close(fd);
}

/* The last slots are kept for those who end the task. */
static bool may_exec(const struct keeper *k, int fd)
{
	for (size_t i = KEEPER_EXEC_CLIENTS; i < KEEPER_CLIENTS_MAX; i++) {
		if (k->clients[i] == fd)
			return false;
	}
	return true;
}

static void stop_request(struct keeper *k, const struct message *m)
{
	struct stop_request stop;

	memcpy(&stop, m->data, sizeof(stop));
	if (stop.grace_ms)
		k->plan.grace_ms = stop.grace_ms;
	k->stop_signal = (int)stop.signal;
	keeper_stop(k, REASON_STOPPED, NULL, stop.kind == STOP_GRACEFUL);
}

/* A message from the front end or a client: false when it is gone. */
static bool handle_front(struct keeper *k, int fd)
{
	struct message *m = &k->message;
	struct exec_signal s;
	struct error err = {0};
	int r = channel_recv(fd, m);

	if (r == -EAGAIN || r == -EINTR)
		return true;
	if (r <= 0 || message_check(m, keeper_from_front, n_keeper_from_front,
				    k->state, &err) < 0) {
		message_done(m);
		return false;
	}
	switch (m->type) {
	case FRONT_EXEC:
		if (may_exec(k, fd))
			r = keeper_exec_request(k, fd, m);
		else
			keeper_exec_no_room(k, fd);
		break;
	case FRONT_SIGNAL:
		memcpy(&s, m->data, sizeof(s));
		keeper_exec_signal(k, fd, &s);
		break;
	case FRONT_STOP:
		stop_request(k, m);
		break;
	case FRONT_REFRESH:
		keeper_refresh_begin(k, fd);
		break;
	case FRONT_REFRESHED:
		keeper_refresh_end(k, fd);
		break;
	}
	message_done(m);
	return r >= 0;
}

static void command_ended(struct keeper *k, const struct exec_done *done)
{
	const char *hit = done->status ? keeper_limits_failed(k) : NULL;

	if (hit && !k->ending)
		keeper_stop(k, REASON_LIMIT, hit, false);
	else if (!k->plan.stay)
		/* The command of a run was the task. */
		keeper_stop(k, REASON_EXIT, NULL, false);
}

static void handle_init(struct keeper *k)
{
	struct message *m = &k->message;
	struct exec_done done;
	struct exec_head head;
	struct exec_signal s;
	struct failure f;
	struct error err = {0};
	int r = channel_recv(k->init_channel, m);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || message_check(m, keeper_from_init, n_keeper_from_init,
				    k->state, &err) < 0) {
		message_done(m);
		keeper_lose(k, err.text[0] ? err.text : "pinfold-init ended");
		return;
	}
	switch (m->type) {
	case INIT_STREAMS:
		keeper_exec_streams(k, m);
		break;
	case INIT_STARTED:
		memcpy(&head, m->data, sizeof(head));
		keeper_exec_started(k, &head);
		break;
	case INIT_STOPPED:
		memcpy(&s, m->data, sizeof(s));
		keeper_exec_stopped(k, &s);
		break;
	case INIT_EXITED:
		memcpy(&done, m->data, sizeof(done));
		keeper_exec_exited(k, &done);
		command_ended(k, &done);
		break;
	case INIT_OPEN_FILES:
		keeper_open_answer(k, m);
		break;
	case INIT_FAILED:
		memcpy(&f, m->data, sizeof(f));
		f.text[sizeof(f.text) - 1] = '\0';
		keeper_lose(k, f.text);
		break;
	}
	message_done(m);
}

/* Waits for INIT_ENTERED; init's own text is the error otherwise. */
static int wait_entered(struct keeper *k, struct error *err)
{
	struct message *m = &k->message;
	struct failure f;
	int r = channel_recv(k->init_channel, m);

	if (r <= 0)
		return keeper_init_error(k, err);
	r = message_check(m, keeper_from_init, n_keeper_from_init, k->state,
			  err);
	if (r == 0 && m->type == INIT_FAILED) {
		memcpy(&f, m->data, sizeof(f));
		f.text[sizeof(f.text) - 1] = '\0';
		r = error_set(err, f.code ? f.code : -EIO, "%s", f.text);
	} else if (r == 0) {
		k->notify = message_take_fd(m, 0);
		k->proc_fd = message_take_fd(m, 1);
	}
	message_done(m);
	return r;
}

static void fill_slots(struct keeper *k, struct pollfd *p)
{
	const int fds[SLOT_CLIENTS] = {
		[SLOT_FRONT] = k->front,
		[SLOT_PARENT] = k->plan.stay ? -1 : k->parent,
		[SLOT_LISTENER] = k->listener,
		[SLOT_INIT] = k->init_channel,
		[SLOT_INIT_DEAD] = k->init_pidfd,
		[SLOT_WATCH] = k->watch_channel,
		[SLOT_SIGNALS] = k->signals,
	};

	for (size_t i = 0; i < SLOT_EXECS; i++)
		p[i] = (struct pollfd){
			.fd = i < SLOT_CLIENTS ? fds[i]
					       : k->clients[i - SLOT_CLIENTS],
			.events = POLLIN,
		};
	if (k->init_full_us)
		p[SLOT_INIT].events |= POLLOUT;
	keeper_exec_poll(k, p + SLOT_EXECS);
}

static void front_gone(struct keeper *k)
{
	if (k->front < 0)
		return;
	keeper_exec_client_gone(k, k->front);
	close_fd(k->front);
	k->front = -1;
	if (!k->plan.stay)
		keeper_stop(k, REASON_STOPPED, NULL, false);
}

static void handle_signals(struct keeper *k)
{
	struct signalfd_siginfo info;
	bool graceful = true;

	if (read(k->signals, &info, sizeof(info)) != sizeof(info) ||
	    (info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT &&
	     info.ssi_signo != SIGQUIT))
		return;
	if (info.ssi_code == SI_QUEUE) {
		graceful = info.ssi_int != 0;
		if (info.ssi_int > 0)
			k->plan.grace_ms = (uint64_t)info.ssi_int;
	}
	keeper_stop(k, REASON_STOPPED, NULL, graceful);
}

static void handle_outside(struct keeper *k, const struct pollfd *p)
{
	if (p[SLOT_FRONT].revents && !handle_front(k, k->front))
		front_gone(k);
	if (p[SLOT_PARENT].revents)
		front_gone(k);
	if (p[SLOT_LISTENER].revents)
		accept_client(k);
	for (size_t i = 0; i < KEEPER_CLIENTS_MAX; i++) {
		if (p[SLOT_CLIENTS + i].revents &&
		    !handle_front(k, k->clients[i]))
			drop_client(k, i);
	}
}

static void handle_slots(struct keeper *k, const struct pollfd *p)
{
	/* init first: what it says about an exec belongs before its end. */
	if (p[SLOT_INIT].revents & POLLOUT) {
		k->init_full_us = 0;
		keeper_tell_due(k);
	}
	if (p[SLOT_INIT].revents & ~POLLOUT)
		handle_init(k);
	else if (p[SLOT_INIT_DEAD].revents)
		keeper_lose(k, "pinfold-init ended");
	if (p[SLOT_WATCH].revents)
		keeper_watch_message(k);
	keeper_exec_handle(k, p + SLOT_EXECS);
	if (p[SLOT_SIGNALS].revents)
		handle_signals(k);
	handle_outside(k, p);
}

static int timeout_ms(const struct keeper *k, uint64_t now)
{
	uint64_t next = keeper_limits_next(k);

	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		const struct keeper_exec *e = &k->execs[i];

		uint64_t at = e->drain_until_us > now ? e->drain_until_us
						      : now + OWED_LOOK_US;

		if (e->id != 0 && e->over && at < next)
			next = at;
	}
	if (k->kill_at_us && k->kill_at_us < next)
		next = k->kill_at_us;
	return next <= now ? 0 : (int)((next - now) / 1000u) + 1;
}

/* Everything that runs ended by itself while a stop waited for that? */
static bool all_over(const struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id != 0 && !k->execs[i].over)
			return false;
	}
	return true;
}

static void end_if_due(struct keeper *k, uint64_t now)
{
	const char *hit = keeper_limits_tick(k, now);

	if (hit)
		keeper_stop(k, REASON_LIMIT, hit, strcmp(hit, "wall") == 0);
	else if (keeper_exec_stuck(k, now))
		keeper_lose(k, "pinfold-init does not answer any more");
	else if (keeper_tell_stalled(k, now))
		keeper_lose(k, "pinfold-init takes no messages any more");
}

static void loop(struct keeper *k)
{
	static struct pollfd p[SLOT_COUNT];

	for (;;) {
		uint64_t now = time_mono_us();

		if (k->ending && (now >= k->kill_at_us || all_over(k)))
			return;
		fill_slots(k, p);
		if (poll(p, SLOT_COUNT, timeout_ms(k, now)) < 0) {
			if (errno == EINTR)
				continue;
			keeper_lose(k, "the keeper cannot wait for events");
			return;
		}
		handle_slots(k, p);
		now = time_mono_us();
		if (!k->ending)
			end_if_due(k, now);
		if (k->plan.stay)
			keeper_exec_finish(k, now);
	}
}

/* Whoever does not read what we say does not hold us. */
static int do_not_wait(const struct keeper *k, struct error *err)
{
	if (fcntl(k->front, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(k->init_channel, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, "cannot free ourselves of the front "
					"end and init");
	return 0;
}

static int stand_up(struct keeper *k, struct error *err)
{
	struct ready_head ready = {0};
	int r = keeper_build(k, err);

	/* While init enters: nothing runs without a record of its start. */
	if (r == 0)
		r = record_begin(k->lock_fd, &k->record, err);
	if (r == 0)
		r = wait_entered(k, err);
	if (r < 0)
		return r;
	k->state = KEEPER_RUNNING;
	/* A run's exec waits already: it goes to init before we spend time on
	 * ourselves. */
	if (!k->plan.stay && !handle_front(k, k->front))
		r = -EPIPE;
	if (r < 0)
		return error_set(err, r, "cannot start the command: %s",
				 strerror(-r));
	r = keeper_confine(k, err);
	if (r < 0)
		return r;
	ready.init_pid = k->init_pid;
	if (channel_send(k->front, FRONT_READY, &ready, sizeof(ready), NULL,
			 0) < 0)
		return error_set(err, -EPIPE, "the front end is gone");
	return do_not_wait(k, err);
}

/* What needs neither maps nor plan; the error is for whoever sends the plan. */
static int begin(struct keeper *k, struct error *err)
{
	int r = make_signals(k, err);

	if (r < 0)
		return r;
	k->null_fd = openat(AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC);
	if (k->null_fd < 0)
		return error_errno(err, "cannot open /dev/null");
	if (unshare(CLONE_NEWNS) < 0)
		return error_errno(err, "cannot create the keeper's mount "
					"namespace");
	return 0;
}

/* Until the maps are written this process is nobody's, and makes nothing. */
static bool wait_to_begin(struct keeper *k)
{
	struct begin begin;

	if (!keeper_expect(k, FRONT_BEGIN))
		return false;
	memcpy(&begin, k->message.data, sizeof(begin));
	k->delegated = begin.delegated;
	k->state = KEEPER_WAITING;
	return true;
}

int keeper_main(const char *id, const char *programs)
{
	static struct keeper k;
	struct error err = {0};
	int r, early;

	keeper_init(&k);
	k.id = id;
	k.programs = programs;
	start_close_from(KEEPER_FD_COUNT);
	sys_close_range(KEEPER_FD_CHANNEL, ~0u, CLOSE_RANGE_CLOEXEC);
	umask(022);
	/* They came over the exec; nobody below has a use for them. */
	caps_not_over_exec();
	early = begin(&k, &err);
	if (!wait_to_begin(&k))
		return 125;
	if (early == 0)
		early = keeper_begin(&k, &err);
	r = read_plan(&k, early < 0 ? &(struct error){0} : &err);
	if (r == -EPIPE) {
		keeper_forget(&k);
		return 125;
	}
	if (r == 0)
		r = early;
	if (r == 0)
		r = fill_record(&k, &err);
	if (r == 0)
		r = make_listener(&k, &err);
	if (r == 0)
		r = stand_up(&k, &err);
	if (r < 0)
		return keeper_fail(&k, &err);
	loop(&k);
	keeper_finish(&k);
	return 0;
}
