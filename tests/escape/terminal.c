/*
 * Attacks on the terminal, run under a pty of pinfold's (-t): nothing is typed
 * into it, and neither it nor the caller's is taken over.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

static int on_terminal(const struct attack *a)
{
	/* Code 3 is the console's paste; a terminal gets a harmless letter. */
	bool types = (a->n & 0xffffffff) == TIOCSTI;
	char bytes[] = {types ? 'x' : 3, 0};
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	/* A refusal is returned, not a signal. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	if (fd < 0) {
		attack_note("no terminal");
		return -EUSERS;
	}
	return attack_result(syscall(SYS_ioctl, (long)fd, a->n, bytes));
}

static int set_discipline(const struct attack *a)
{
	int number = (int)a->n;
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -EUSERS;
	return attack_result(ioctl(fd, TIOCSETD, &number));
}

static int steal_terminal(const struct attack *a)
{
	(void)a;
	return attack_result(ioctl(0, TIOCSCTTY, 1));
}

/* Every terminal that the sandbox can see but its own. */
static int other_terminals(const struct attack *a)
{
	struct stat own, st;
	char name[32];

	(void)a;
	if (fstat(0, &own) < 0)
		return -errno;
	for (int i = 0; i < 64; i++) {
		int fd;

		snprintf(name, sizeof(name), "/dev/pts/%d", i);
		if (stat(name, &st) < 0 || st.st_rdev == own.st_rdev)
			continue;
		fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0) {
			attack_note("opened %s", name);
			return 0;
		}
	}
	return -ENOENT;
}

/* The master's end belongs to the relay outside. */
static int master_of_own(const struct attack *a)
{
	char name[64];

	(void)a;
	for (int fd = 0; fd < 64; fd++) {
		unsigned number;

		if (syscall(SYS_ioctl, fd, TIOCGPTN, &number) == 0) {
			snprintf(name, sizeof(name), "descriptor %d", fd);
			attack_note("%s", name);
			return 0;
		}
	}
	return -ENOTTY;
}

/* The caller's terminal has another device number than the sandbox's. */
static int is_callers_terminal(const struct attack *a)
{
	struct stat st;

	(void)a;
	if (fstat(0, &st) < 0)
		return -errno;
	if (!isatty(0)) {
		attack_note("no terminal");
		return -EUSERS;
	}
	attack_note("device %lx", (unsigned long)st.st_dev);
	return (long)st.st_dev == attack_number("ptsdev") ? 0 : -EXDEV;
}

#define DENIED "EPERM EACCES ENOSYS"

static const struct attack table[] = {
	{"terminal", "types into its own terminal", DENIED, NULL, on_terminal,
	 NULL, TIOCSTI, NULL},
	{"terminal", "types with a high bit set in the number", DENIED, NULL,
	 on_terminal, NULL, TIOCSTI | 1L << 32, NULL},
	{"terminal", "types with all high bits set", DENIED, NULL, on_terminal,
	 NULL, (long)(TIOCSTI | 0xffffffff00000000UL), NULL},
	{"terminal", "pastes a selection", DENIED, "ENOTTY EINVAL",
	 on_terminal, NULL, TIOCLINUX, NULL},
	{"terminal", "pastes with a high bit set in the number", DENIED,
	 "ENOTTY EINVAL", on_terminal, NULL, TIOCLINUX | 1L << 40, NULL},
	{"terminal", "redirects the console to itself", DENIED, NULL,
	 on_terminal, NULL, TIOCCONS,
	 "only root may, and then the console is lost"},
	{"terminal", "loads a line discipline", DENIED, "EINVAL",
	 set_discipline, NULL, 21, NULL},
	{"terminal", "steals the terminal from its session", DENIED, NULL,
	 steal_terminal, NULL, 0, "a session's own terminal is not stolen"},
	{"terminal", "opens another terminal", "ENOENT EACCES EIO", NULL,
	 other_terminals, NULL, 0, "the runner may have the only one"},
	{"terminal", "finds the master's end", "ENOTTY", NULL, master_of_own,
	 NULL, 0, "no caller hands it on"},
	{"terminal", "has the caller's terminal", "EXDEV", NULL,
	 is_callers_terminal, NULL, 0, NULL},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
