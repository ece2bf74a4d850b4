/*
 * Attacks on what the caller did not mean to show: its environment, its names,
 * its machine. What is not found has the result ENOENT.
 */
#include "attack.h"

#include <dirent.h>
#include <elf.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static int has_variable(const struct attack *a)
{
	return getenv(a->s) ? 0 : -ENOENT;
}

/* The planted value under any name, in the memory where exec put it. */
static int secret_in_environment(const struct attack *a)
{
	const char *secret = attack_arg("canary");

	(void)a;
	for (char **e = environ; *e; e++)
		if (strstr(*e, secret)) {
			attack_note("%.60s", *e);
			return 0;
		}
	return -ENOENT;
}

static int secret_in_own_environ_file(const struct attack *a)
{
	static char text[1 << 20];
	const char *secret = attack_arg("canary");
	int fd = open(a->s, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text));
	if (got > 0 && memmem(text, (size_t)got, secret, strlen(secret)))
		return 0;
	return -ENOENT;
}

static int host_name_visible(const struct attack *a)
{
	struct utsname name;

	(void)a;
	if (uname(&name) < 0)
		return -errno;
	attack_note("%s", name.nodename);
	return strcmp(name.nodename, attack_arg("hostname")) ? -ENOENT : 0;
}

/* Compared by a digest-like form: the runner gives the host's first bytes. */
static int file_holds(const struct attack *a)
{
	char text[4096];
	const char *host = attack_arg("machineid");
	int fd = open(a->s, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (!strcmp(host, "none"))
		return attack_skip("the host has no machine-id");
	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = 0;
	return strstr(text, host) ? 0 : -ENOENT;
}

/* As a word of its own: a task's random name may hold a short one. */
static int has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = strstr(text, word); at;
	     at = strstr(at + 1, word)) {
		if ((at == text || (!isalnum((unsigned char)at[-1]) &&
				    at[-1] != '-')) &&
		    !isalnum((unsigned char)at[n]) && at[n] != '-')
			return 1;
	}
	return 0;
}

static int host_name_in_file(const struct attack *a)
{
	char text[16384];
	int fd = open(a->s, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = 0;
	return has_word(text, attack_arg("hostname")) ? 0 : -ENOENT;
}

static int loose_umask(const struct attack *a)
{
	mode_t mask = umask(022);

	(void)a;
	attack_note("umask %o", (unsigned)mask);
	return mask & 022 ? -ENOENT : 0;
}

static int signal_state(const struct attack *a)
{
	sigset_t set;
	struct sigaction old;
	int blocked = 0;

	if (sigprocmask(SIG_SETMASK, NULL, &set) < 0)
		return -errno;
	for (int n = 1; n < 32; n++) {
		if (a->n == 0)
			blocked += sigismember(&set, n) == 1;
		else if (n != SIGPIPE && n != SIGTTIN && n != SIGTTOU &&
			 sigaction(n, NULL, &old) == 0)
			blocked += old.sa_handler == SIG_IGN;
	}
	attack_note("%d signals", blocked);
	return blocked ? 0 : -ENOENT;
}

static int secure_mode(const struct attack *a)
{
	(void)a;
	/* AT_EXECFN of pinfold's own path or an executable descriptor. */
	const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);

	attack_note("%s", name ? name : "");
	return name && (strstr(name, "/dev/fd/") || strstr(name, "pinfold-init"))
		       ? 0 : -ENOENT;
}

static int core_size(const struct attack *a)
{
	struct rlimit limit;

	(void)a;
	if (getrlimit(RLIMIT_CORE, &limit) < 0)
		return -errno;
	return limit.rlim_max > 0 ? 0 : -ENOENT;
}

static int supplementary_groups(const struct attack *a)
{
	gid_t groups[64];
	int n = getgroups(64, groups);

	(void)a;
	if (getgid() == 0 || getegid() == 0)
		return 0;
	for (int i = 0; i < n; i++)
		if (groups[i] == 0) {
			attack_note("group 0");
			return 0;
		}
	return n < 0 ? -errno : -ENOENT;
}

/* Processes of any uid but the own and pid 1's, as /proc shows owners. */
static int foreign_owners(const struct attack *a)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct stat own, st;

	(void)a;
	if (!dir || stat("/proc/self", &own) < 0)
		return -errno;
	while ((entry = readdir(dir))) {
		char name[300];

		snprintf(name, sizeof(name), "/proc/%s", entry->d_name);
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    !strcmp(entry->d_name, "1") || stat(name, &st) < 0)
			continue;
		if (st.st_uid != own.st_uid) {
			attack_note("pid %s of uid %u", entry->d_name,
				    (unsigned)st.st_uid);
			return 0;
		}
	}
	return -ENOENT;
}

static int controlling_terminal(const struct attack *a)
{
	(void)a;
	return attack_result(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
}

static int session_of_caller(const struct attack *a)
{
	(void)a;
	/* A session whose leader is outside is shown as 0. */
	attack_note("session %d", (int)getsid(0));
	return getsid(0) == 0 ? 0 : -ENOENT;
}

static int host_users(const struct attack *a)
{
	return host_name_in_file(a) == 0 ? 0 : -ENOENT;
}

static int secret_in_command_lines(const struct attack *a)
{
	char name[64];
	char text[8192];
	const char *mark = attack_arg("home");
	int fd;
	ssize_t got;

	snprintf(name, sizeof(name), "/proc/%ld/cmdline", a->n);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text));
	return got > 0 && memmem(text, (size_t)got, mark, strlen(mark)) ?
		       0 : -ENOENT;
}

#define VARIABLE(name)                                                         \
	{"leaks", "finds " name " in its environment", "ENOENT", NULL,         \
	 has_variable, name, 0, NULL}

static const struct attack table[] = {
	VARIABLE("SSH_AUTH_SOCK"),
	VARIABLE("AWS_SECRET_ACCESS_KEY"),
	VARIABLE("GITHUB_TOKEN"),
	VARIABLE("DBUS_SESSION_BUS_ADDRESS"),
	VARIABLE("LD_PRELOAD_ESCAPE"),
	{"leaks", "finds a secret anywhere in its environment", "ENOENT", NULL,
	 secret_in_environment, NULL, 0, NULL},
	{"leaks", "finds a secret in its environment's file", "ENOENT", NULL,
	 secret_in_own_environ_file, "/proc/self/environ", 0, NULL},
	{"leaks", "finds a secret in pid 1's environment", "ENOENT EACCES",
	 NULL, secret_in_own_environ_file, "/proc/1/environ", 0,
	 "the host's pid 1 has no planted secret"},
	{"leaks", "finds a host path in pid 1's arguments",
	 "ENOENT EACCES", NULL, secret_in_command_lines, NULL, 1,
	 "the host's pid 1 has no such arguments"},
	{"leaks", "learns the host's name by uname", "ENOENT", NULL,
	 host_name_visible, NULL, 0, NULL},
	{"leaks", "learns the host's name from /etc/hostname", "ENOENT", NULL,
	 host_name_in_file, "/etc/hostname", 0, NULL},
	{"leaks", "learns the host's name from /proc", "ENOENT EACCES", NULL,
	 host_name_in_file, "/proc/sys/kernel/hostname", 0, NULL},
	{"leaks", "learns the host's name from /etc/hosts", "ENOENT", NULL,
	 host_users, "/etc/hosts", 0, "not every host is named there"},
	{"leaks", "learns the machine-id", "ENOENT EACCES", NULL, file_holds,
	 "/etc/machine-id", 0, "not every host has one"},
	{"leaks", "makes its files writable to all by an open umask",
	 "ENOENT", NULL, loose_umask, NULL, 0, NULL},
	{"leaks", "starts with blocked signals of the caller", "ENOENT", NULL,
	 signal_state, NULL, 0, NULL},
	{"leaks", "starts with ignored signals of the caller", "ENOENT", NULL,
	 signal_state, NULL, 1, NULL},
	{"leaks", "learns how it was started from its auxiliary vector",
	 "ENOENT", NULL, secure_mode, NULL, 0,
	 "outside it is started by its name"},
	{"leaks", "leaves a core dump", "ENOENT", NULL, core_size, NULL, 0,
	 NULL},
	{"leaks", "is in root's group", "ENOENT", NULL, supplementary_groups,
	 NULL, 0, NULL},
	{"leaks", "sees processes of other users", "ENOENT", NULL,
	 foreign_owners, NULL, 0, NULL},
	{"leaks", "opens the caller's terminal", "ENXIO ENOENT", NULL,
	 controlling_terminal, NULL, 0, "the runner has no terminal here"},
	{"leaks", "is in a session of the caller", "ENOENT", NULL,
	 session_of_caller, NULL, 0,
	 "outside every session's leader has a number"},
};

int main(int argc, char **argv)
{
	return attack_main(ATTACKS(table), argc, argv);
}
