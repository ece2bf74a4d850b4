/*
 * Relies on: the pidfd of a pid namespace's init is readable only when every
 * process of that namespace is gone. A number that was given to another process
 * since is known by its time of birth.
 */
#include "task/gone.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "init"

/* starttime of proc_pid_stat(5). 0 or negative. */
static int read_birth(pid_t pid, uintmax_t *ret)
{
	AUTO_BUF struct buf b = BUF_INIT(8192);
	char path[32];
	const char *at;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = io_read_file(AT_FDCWD, path, &b);
	if (r < 0)
		return r;
	/* The name may hold anything; the last ")" ends it. */
	at = strrchr(buf_str(&b), ')');
	return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				"%*u %*u %*d %*d %*d %*d %*d %*d %ju",
			    ret) == 1
		       ? 0
		       : -EBADMSG;
}

int gone_note(int task_fd, pid_t init, struct error *err)
{
	char text[64];
	uintmax_t born = 0;
	int r = read_birth(init, &born);

	if (r == 0) {
		snprintf(text, sizeof(text), "%d %ju\n", (int)init, born);
		r = io_replace_file(task_fd, FILE_NAME, text, strlen(text),
				    0600);
	}
	return r < 0 ? error_set(err, r, "cannot note the sandbox's first "
					 "process: %s",
				 strerror(-r))
		     : 0;
}

/* The process that was noted; -ESRCH: it is gone, or another one. */
static int open_noted(const char *text)
{
	AUTO_CLOSE int fd = -1;
	uintmax_t born, now;
	int pid, r;

	if (sscanf(text, "%d %ju", &pid, &born) != 2 || pid <= 0)
		return -EBADMSG;
	fd = sys_pidfd_open(pid);
	if (fd < 0)
		return -errno;
	/* After its pidfd is open, so that both are of one process. */
	r = read_birth(pid, &now);
	if (r == -ENOENT || r == -ESRCH)
		return -ESRCH;
	if (r < 0)
		return r;
	return now == born ? steal_fd(&fd) : -ESRCH;
}

static int wait_for(int pidfd, unsigned timeout_ms)
{
	uint64_t until = time_mono_us() + timeout_ms * 1000ull;

	for (;;) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		uint64_t now = time_mono_us();
		int left = now < until ? (int)((until - now) / 1000u) + 1 : 0;
		int n = poll(&p, 1, left);

		if (n > 0)
			return 0;
		if (n == 0 && left == 0)
			return -EBUSY;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int gone_wait(int task_fd, unsigned timeout_ms, struct error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(64);
	AUTO_CLOSE int fd = -1;
	int r = io_read_file(task_fd, FILE_NAME, &b);

	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		fd = open_noted(buf_str(&b));
		r = fd < 0 ? fd : wait_for(fd, timeout_ms);
	}
	if (r == 0 || r == -ESRCH)
		return 0;
	return error_set(err, r, "cannot tell that the task's processes are "
				 "gone: %s",
			 r == -EBUSY ? "they still live" : strerror(-r));
}

void gone_forget(int task_fd)
{
	unlinkat(task_fd, FILE_NAME, 0);
	/* Of a keeper that died while it wrote. */
	unlinkat(task_fd, "." FILE_NAME ".new", 0);
}
