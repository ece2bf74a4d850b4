#include "cli/own.h"

#include "confine/ids.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int own_enter(struct error *err)
{
	const struct id_extent uid = {geteuid(), geteuid(), 1};
	const struct id_extent gid = {getegid(), getegid(), 1};

	if (unshare(CLONE_NEWUSER) < 0)
		return error_errno(err, "cannot make a user namespace");
	return ids_write_maps(0, true, &uid, 1, &gid, 1, err);
}

struct apart {
	int r;
	struct error err;
};

static _Noreturn void in_child(int (*fn)(void *arg, struct error *err),
			       void *arg, struct apart *shared, pid_t parent)
{
	uid_t uid = geteuid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	shared->r = own_enter(&shared->err);
	if (shared->r == 0 || geteuid() == uid)
		shared->r = fn(arg, &shared->err);
	_exit(0);
}

static int run_apart(int (*fn)(void *arg, struct error *err), void *arg,
		     struct apart *shared, struct error *err)
{
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0)
		return error_errno(err, "cannot start a process");
	if (child == 0)
		in_child(fn, arg, shared, parent);
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return error_errno(err, "cannot wait for a process");
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, -ECHILD,
				 "the process that reads the changes died");
	if (shared->r < 0 && err)
		*err = shared->err;
	return shared->r;
}

int own_apart(int (*fn)(void *arg, struct error *err), void *arg,
	      struct error *err)
{
	struct apart *shared = mmap(NULL, sizeof(*shared),
				    PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (shared == MAP_FAILED)
		return error_errno(err, "out of memory");
	r = run_apart(fn, arg, shared, err);
	munmap(shared, sizeof(*shared));
	return r;
}
