/*
 * The keeper's part of pinfold refresh. The view is made new by a client, for
 * the keeper has given up the right to (renew.h); but while nothing runs in the
 * sandbox and until the client says that it is done nothing is started there,
 * and that it is done is written down by the keeper alone. So a client that dies,
 * or that took too long, has changed nothing that counts.
 */
#include "task/keeper.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "confine/sys.h"
#include "task/state.h"
#include "workspace/manifest.h"
#include "workspace/refreshed.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4)))
static void refuse(int client, int code, const char *format, ...)
{
	struct failure f = {.code = code};
	va_list args;

	va_start(args, format);
	vsnprintf(f.text, sizeof(f.text), format, args);
	va_end(args);
	channel_send(client, FRONT_FAILED, &f, sizeof(f), NULL, 0);
}

bool keeper_refreshing(struct keeper *k)
{
	if (k->refresher >= 0 && time_mono_us() >= k->refresh_until_us)
		k->refresher = -1;
	return k->refresher >= 0;
}

/* A command that has not ended; 0: there is none. */
static uint32_t running_exec(const struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_EXECS_MAX; i++) {
		if (k->execs[i].id != 0 && !k->execs[i].over)
			return k->execs[i].id;
	}
	return 0;
}

/* How many processes there are beside init; negative: it cannot be told. */
static int others(const struct keeper *k)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int n = 0, r = io_open_dir(k->proc_fd, ".", &dir);

	if (r < 0)
		return r;
	while ((e = readdir(dir)))
		n += isdigit((unsigned char)e->d_name[0]) &&
		     strcmp(e->d_name, "1") != 0;
	return n;
}

/* Processes hold files and directories of the old view. */
static bool is_still(const struct keeper *k, int client)
{
	const char *id = k->plan.spec.id;
	uint32_t exec = running_exec(k);
	int n = exec ? 0 : others(k);

	if (exec)
		refuse(client, -EBUSY,
		       "command %u of %s still runs, and holds files as they "
		       "were: wait until it has ended, or end it; pinfold ps %s "
		       "shows what runs", exec, id, id);
	else if (n != 0)
		refuse(client, -EBUSY,
		       "%s still has processes that a command has left, and "
		       "these hold files as they were: pinfold ps %s shows "
		       "them; pinfold exec %s -- kill PID ends one", id, id, id);
	return !exec && n == 0;
}

static int send_view(const struct keeper *k, int client)
{
	const struct sandbox_spec *s = &k->plan.spec;
	AUTO_CLOSE int self = sys_pidfd_open(getpid());
	const int fds[VIEW_FD_COUNT] = {[VIEW_FD_KEEPER] = self,
					[VIEW_FD_INIT] = k->init_pidfd};
	struct refresh_view view = {
		.source_dev = s->source_dev,
		.source_ino = s->source_ino,
		.owner_uid = s->owner_uid,
		.owner_gid = s->owner_gid,
		.outer_uid = s->outer_uid,
		.outer_gid = s->outer_gid,
		.root_caller = s->root_caller,
		.hides = s->workspace != WORKSPACE_COPY &&
			 (s->hide_path || !hide_is_empty(&s->hide)),
	};

	if (self < 0)
		return -errno;
	if (s->hide_path) {
		if (strlen(s->hide_path) >= sizeof(view.hide_path))
			return -ENAMETOOLONG;
		strcpy(view.hide_path, s->hide_path);
	}
	return channel_send(client, FRONT_VIEW, &view, sizeof(view), fds,
			    VIEW_FD_COUNT);
}

void keeper_refresh_begin(struct keeper *k, int client)
{
	const struct sandbox_spec *s = &k->plan.spec;
	int r;

	if (k->ending)
		refuse(client, -ESHUTDOWN, "%s is ending", s->id);
	else if (!s->source)
		refuse(client, -EINVAL, "%s was started without a source: there "
		       "is nothing to refresh", s->id);
	else if (keeper_refreshing(k))
		refuse(client, -EBUSY, "%s is being refreshed already", s->id);
	else if (is_still(k, client)) {
		r = send_view(k, client);
		if (r < 0) {
			refuse(client, r, "cannot refresh %s: %s", s->id,
			       strerror(-r));
			return;
		}
		k->refresher = client;
		k->limits.last_activity_us = time_mono_us();
		k->refresh_until_us = k->limits.last_activity_us +
				      REFRESH_MAX_MS * UINT64_C(1000);
	}
}

/* What the client has made ready takes its place, if there is any. */
static int place(const struct keeper *k, const char *dir, const char *from,
		 const char *to)
{
	char source[64], target[64];

	snprintf(source, sizeof(source), "%s/%s", dir, from);
	snprintf(target, sizeof(target), "%s/%s", dir, to);
	return renameat(k->task_fd, source, k->task_fd, target) < 0 &&
			       errno != ENOENT
		       ? -errno
		       : 0;
}

static int place_all(const struct keeper *k)
{
	int r = place(k, ".", MANIFEST_NEW, MANIFEST_FILE);

	if (r == 0)
		r = place(k, ".", REFRESHED_NEW, REFRESHED_FILE);
	for (size_t i = 0; i < k->plan.spec.write.n && r == 0; i++) {
		char dir[STATE_WRITE_NAME_MAX];

		state_write_name(i, dir);
		r = place(k, dir, REFRESHED_NEW, REFRESHED_FILE);
	}
	return r;
}

void keeper_refresh_end(struct keeper *k, int client)
{
	const char *id = k->plan.spec.id;
	int r;

	if (!keeper_refreshing(k) || k->refresher != client) {
		refuse(client, -ETIMEDOUT, "refreshing %s took longer than %u "
		       "minutes, and does not count: try again", id,
		       REFRESH_MAX_MS / 60000u);
		return;
	}
	k->refresher = -1;
	k->limits.last_activity_us = time_mono_us();
	r = place_all(k);
	if (r < 0)
		refuse(client, r, "cannot note that %s was refreshed: %s", id,
		       strerror(-r));
	else
		channel_send(client, FRONT_REFRESHED, NULL, 0, NULL, 0);
}
