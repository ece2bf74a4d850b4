/*
 * The command of a run in which something failed: looks whether it is confined
 * all the same, and says "confined", or what is open. Arguments: a file of the
 * host that nobody inside may see, then the host's namespaces, as the links in
 * /proc/self/ns show them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LANDLOCK_LAYERS_MAX 16
#define FDS_LOOKED_AT 1024

static bool is_open;

static void open_way(const char *what)
{
	printf("NOT CONFINED: %s\n", what);
	is_open = true;
}

static void look_at_namespaces(char **host)
{
	char link[64], inner[128];

	for (; *host; host++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/ns/%.*s",
			 (int)strcspn(*host, ":"), *host);
		n = readlink(link, inner, sizeof(inner) - 1);
		inner[n > 0 ? n : 0] = '\0';
		if (n <= 0 || !strcmp(inner, *host))
			open_way(*host);
	}
}

static uint64_t status_value(const char *status, const char *key, int base)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, base) : UINT64_MAX;
}

static void look_at_status(void)
{
	static char status[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);

	if (n <= 0) {
		open_way("/proc/self/status cannot be read");
		return;
	}
	close(fd);
	if (status_value(status, "\nCapInh:", 16) != 0 ||
	    status_value(status, "\nCapPrm:", 16) != 0 ||
	    status_value(status, "\nCapEff:", 16) != 0 ||
	    status_value(status, "\nCapBnd:", 16) != 0 ||
	    status_value(status, "\nCapAmb:", 16) != 0)
		open_way("capabilities");
	if (status_value(status, "\nNoNewPrivs:", 10) != 1)
		open_way("no_new_privs");
	if (status_value(status, "\nSeccomp:", 10) != 2)
		open_way("no filter");
	if (status_value(status, "\nSigBlk:", 16) != 0)
		open_way("signals are blocked");
}

static void look_at_filter(void)
{
	if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
		open_way("user namespaces");
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT)
		open_way("packet sockets");
	if (syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0 ||
	    (errno != ENOSYS && errno != EPERM))
		open_way("keyctl");
	if (syscall(SYS_bpf, 0, NULL, 0) >= 0 ||
	    (errno != ENOSYS && errno != EPERM))
		open_way("bpf");
}

/* A domain that we are in already leaves room for one layer less. */
static void look_at_landlock(void)
{
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK,
	};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr),
			      0);
	int n = 0;

	while (fd >= 0 && n < LANDLOCK_LAYERS_MAX &&
	       syscall(SYS_landlock_restrict_self, fd, 0) == 0)
		n++;
	if (fd < 0 || n >= LANDLOCK_LAYERS_MAX || n == 0)
		open_way("no Landlock domain");
	close(fd);
}

static void look_at_descriptors(void)
{
	for (int fd = 3; fd < FDS_LOOKED_AT; fd++) {
		if (fcntl(fd, F_GETFD) >= 0) {
			open_way("a descriptor beyond 0, 1 and 2");
			return;
		}
	}
}

static void look_at_files(const char *canary)
{
	if (access(canary, F_OK) == 0 || open(canary, O_WRONLY) >= 0)
		open_way("the host's file");
	if (open("/usr/pinfold-probe", O_WRONLY | O_CREAT, 0600) >= 0)
		open_way("/usr can be written");
	if (getenv("PINFOLD_FAULT_SECRET"))
		open_way("the caller's environment");
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 2)
		return 2;
	look_at_descriptors();
	look_at_namespaces(argv + 2);
	look_at_status();
	look_at_filter();
	look_at_files(argv[1]);
	look_at_landlock();
	fd = open("written-inside", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, "x", 1) != 1)
		return 3;
	if (!is_open)
		puts("confined");
	return is_open ? 98 : 0;
}
