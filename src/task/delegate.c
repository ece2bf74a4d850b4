#include "task/delegate.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "ipc/bus.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SYSTEM_BUS "/run/dbus/system_bus_socket"
#define PATIENCE_US 5000000u

static int bus_path(char *path, size_t size, struct error *err)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	int n;

	if (geteuid() == 0)
		n = snprintf(path, size, "%s", SYSTEM_BUS);
	else if (dir && dir[0] == '/')
		n = snprintf(path, size, "%s/bus", dir);
	else
		return error_set(err, -ENOENT, "XDG_RUNTIME_DIR is not set");
	if (n < 0 || (size_t)n >= size)
		return error_set(err, -ENAMETOOLONG,
				 "XDG_RUNTIME_DIR is too long");
	return 0;
}

/* The bus on which to ask, if asking may be of use. */
static int find_bus(char *path, size_t size, struct error *err)
{
	int r;

	/* With version 1 or a hybrid tree systemd delegates no controllers. */
	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0)
		return error_set(err, -EOPNOTSUPP,
				 "no unified cgroup tree at /sys/fs/cgroup");
	r = bus_path(path, size, err);
	if (r < 0)
		return r;
	return access(path, W_OK) < 0 ? error_errno(err, "%s", path) : 0;
}

int delegate_reachable(struct error *err)
{
	char path[PATH_MAX];

	return find_bus(path, sizeof(path), err);
}

/* One property: a structure of its name and a variant, whose value follows. */
static void put_property(struct buf *args, const char *name, const char *type)
{
	bus_put_struct(args);
	bus_put_str(args, name);
	bus_put_signature(args, type);
}

/*
 * Name, mode, properties, no further units. The limit of tasks is ours to set,
 * in the group below.
 */
void delegate_arguments(struct buf *args, const char *scope, pid_t pid)
{
	size_t properties, list;

	bus_put_str(args, scope);
	bus_put_str(args, "fail");
	properties = bus_array_begin(args, 8);
	put_property(args, "Description", "s");
	bus_put_str(args, "Task of pinfold");
	put_property(args, "PIDs", "au");
	list = bus_array_begin(args, 4);
	bus_put_u32(args, (uint32_t)pid);
	bus_array_end(args, list, 4);
	put_property(args, "Delegate", "b");
	bus_put_bool(args, true);
	put_property(args, "TasksMax", "t");
	bus_put_u64(args, UINT64_MAX);
	put_property(args, "CollectMode", "s");
	bus_put_str(args, "inactive-or-failed");
	bus_array_end(args, properties, 8);
	bus_array_end(args, bus_array_begin(args, 8), 8);
}

/* True when the process is in a version 2 group of this name. */
static bool is_in(pid_t pid, const char *scope)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	char path[40], end[80];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	snprintf(end, sizeof(end), "/%s\n", scope);
	if (io_read_file(AT_FDCWD, path, &b) < 0)
		return false;
	at = strstr(buf_str(&b), "0::");
	return at && strstr(at, end) != NULL;
}

/* The answer names a job that may still be under way. */
static int wait_moved(pid_t pid, const char *scope, uint64_t until_us,
		      struct error *err)
{
	const struct timespec pause = {.tv_nsec = 500000};

	while (!is_in(pid, scope)) {
		if (time_mono_us() > until_us)
			return error_set(err, -ETIMEDOUT,
					 "systemd did not put the keeper into "
					 "%s", scope);
		nanosleep(&pause, NULL);
	}
	return 0;
}

int delegate_lasts(const char *user, struct error *err)
{
	AUTO_FREE char *path = str_format("/var/lib/systemd/linger/%s", user);

	if (geteuid() == 0 ||
	    (path && !strchr(user, '/') && access(path, F_OK) == 0))
		return 0;
	return error_set(err, -EOPNOTSUPP, "it would end with your login, and "
			 "the sandbox is to stay; loginctl enable-linger "
			 "changes that");
}

int delegate_scope(pid_t pid, const char *id, struct error *err)
{
	uint64_t until_us = time_mono_us() + PATIENCE_US;
	struct bus_call call = {
		.destination = "org.freedesktop.systemd1",
		.path = "/org/freedesktop/systemd1",
		.interface = "org.freedesktop.systemd1.Manager",
		.member = "StartTransientUnit",
		.signature = DELEGATE_SIGNATURE,
		.args = BUF_INIT(BUS_CALL_MAX),
	};
	char path[PATH_MAX], scope[64];
	AUTO_CLOSE int fd = -1;
	int r;

	r = find_bus(path, sizeof(path), err);
	if (r < 0)
		return r;
	fd = bus_connect(path, err);
	if (fd < 0)
		return fd;
	snprintf(scope, sizeof(scope), "pinfold-%s.scope", id);
	delegate_arguments(&call.args, scope, pid);
	r = bus_ask(fd, &call, until_us, err);
	buf_done(&call.args);
	return r < 0 ? r : wait_moved(pid, scope, until_us, err);
}
