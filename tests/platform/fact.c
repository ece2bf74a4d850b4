/* The runner of the platform programs: see fact.h. */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_S 20

static char *why; /* shared with the child that tries a fact */
static char directory[512];

__attribute__((format(printf, 1, 0)))
static void say(const char *format, va_list ap)
{
	vsnprintf(why, 400, format, ap);
}

int fact_is(bool holds, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	return holds ? FACT_HOLDS : FACT_DIFFERS;
}

int fact_skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	return FACT_SKIPPED;
}

int fact_fails(long r, int expected, const char *call)
{
	int error = errno;

	if (r >= 0)
		return fact_is(false, "%s succeeded", call);
	return fact_is(error == expected, "%s: errno %d (%s), expected %d",
		       call, error, strerror(error), expected);
}

int fact_works(long r, const char *call)
{
	return fact_is(r >= 0, "%s: %s", call, strerror(errno));
}

int fact_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int result = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

int fact_enter_userns(int flags, unsigned inner)
{
	char map[64];
	unsigned uid = geteuid();
	unsigned gid = getegid();
	int r;

	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -errno;
	snprintf(map, sizeof(map), "%u %u 1\n", inner, uid);
	r = fact_write("/proc/self/uid_map", map);
	if (r == 0)
		r = fact_write("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1\n", inner, gid);
	if (r == 0)
		r = fact_write("/proc/self/gid_map", map);
	if (r == 0 && flags & CLONE_NEWNS &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		r = -errno;
	return r;
}

bool fact_has_userns(void)
{
	int pid = fork();

	if (pid == 0)
		_exit(fact_enter_userns(0, 0) < 0);
	return fact_wait(pid) == 0;
}

bool fact_is_root(void)
{
	char map[64] = {0};
	int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	unsigned inner = 1, outer = 1, size = 0;

	if (fd >= 0 && read(fd, map, sizeof(map) - 1) < 0)
		map[0] = 0;
	close(fd);
	sscanf(map, "%u %u %u", &inner, &outer, &size);
	return geteuid() == 0 && inner == 0 && outer == 0 && size == ~0u;
}

const char *fact_directory(void)
{
	return directory;
}

int fact_send(int socket, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(char[]){"x"}, 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	return sendmsg(socket, &msg, 0) < 0 ? -errno : 0;
}

int fact_take(int socket)
{
	char space[CMSG_SPACE(sizeof(int))] = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	int fd = -EBADF;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	if (CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

int fact_wait(int pid)
{
	int status = -1;

	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

static int open_up(const char *path, const struct stat *st, int kind,
		   struct FTW *where)
{
	(void)st;
	(void)where;
	/* The work directory of an overlay is left with mode 000. */
	if (kind == FTW_DNR || kind == FTW_D)
		chmod(path, 0700);
	return 0;
}

static void make_directory(void)
{
	const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

	snprintf(directory, sizeof(directory), "%s/fact.XXXXXX", base);
	if (!mkdtemp(directory))
		snprintf(directory, sizeof(directory), "/nonexistent");
	umask(022);
	chmod(directory, 0755);
}

static void remove_directory(void)
{
	for (int i = 0; i < 2; i++)
		nftw(directory, open_up, 16, FTW_PHYS);
	nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool try_fact(const struct fact *f)
{
	int status, pid;

	memset(why, 0, 400);
	fflush(stdout);
	make_directory();
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		alarm(DEADLINE_S);
		_exit(f->run());
	}
	status = fact_wait(pid);
	if (pid > 0)
		kill(-pid, SIGKILL);
	remove_directory();
	if (WIFEXITED(status) && WEXITSTATUS(status) == FACT_HOLDS)
		printf("ok - %s\n", f->what);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == FACT_SKIPPED)
		printf("skip - %s: %s\n", f->what, why);
	else
		printf("not ok - %s: %s (status %d)\n", f->what, why, status);
	return WIFEXITED(status) && WEXITSTATUS(status) != FACT_DIFFERS;
}

int fact_main(const struct fact *table, size_t n)
{
	bool all = true;
	char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return 1;
	why = shared;
	for (size_t i = 0; i < n; i++)
		all &= try_fact(&table[i]);
	return all ? 0 : 1;
}
