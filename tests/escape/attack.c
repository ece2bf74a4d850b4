/*
 * Runs a table of attacks and judges the results: see attack.h. The result of
 * an attack crosses a pipe; a child that dies has the signal's name as result.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_S 20

struct outcome {
	int result;
	char text[512];
};

static char **args;
static int n_args;
static int inherited;
static int report_fd = -1;
static struct outcome outcome;

static const struct {
	int number;
	const char *name;
} errnos[] = {
	{E2BIG, "E2BIG"}, {EACCES, "EACCES"}, {EAGAIN, "EAGAIN"},
	{EAFNOSUPPORT, "EAFNOSUPPORT"}, {EBADF, "EBADF"}, {EBUSY, "EBUSY"},
	{ECHILD, "ECHILD"}, {ECONNREFUSED, "ECONNREFUSED"},
	{ECONNRESET, "ECONNRESET"}, {EEXIST, "EEXIST"}, {EFAULT, "EFAULT"},
	{EFBIG, "EFBIG"}, {EHOSTUNREACH, "EHOSTUNREACH"}, {EINVAL, "EINVAL"},
	{EIO, "EIO"}, {EISDIR, "EISDIR"}, {ELOOP, "ELOOP"},
	{EMFILE, "EMFILE"}, {ENETUNREACH, "ENETUNREACH"}, {ENODEV, "ENODEV"},
	{ENODATA, "ENODATA"}, {ENOENT, "ENOENT"}, {ENOEXEC, "ENOEXEC"},
	{ENOMEM, "ENOMEM"}, {ENOPROTOOPT, "ENOPROTOOPT"},
	{ENOSPC, "ENOSPC"}, {ENOSYS, "ENOSYS"}, {ENOTBLK, "ENOTBLK"},
	{ENOTCONN, "ENOTCONN"}, {ENOTDIR, "ENOTDIR"}, {ENOTTY, "ENOTTY"},
	{ENXIO, "ENXIO"}, {EOPNOTSUPP, "EOPNOTSUPP"},
	{EOVERFLOW, "EOVERFLOW"}, {EPERM, "EPERM"}, {EPIPE, "EPIPE"},
	{EPROTONOSUPPORT, "EPROTONOSUPPORT"}, {EROFS, "EROFS"},
	{ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"}, {ESPIPE, "ESPIPE"},
	{ESRCH, "ESRCH"}, {ESTALE, "ESTALE"}, {ETIMEDOUT, "ETIMEDOUT"}, {ETXTBSY, "ETXTBSY"},
	{EUSERS, "EUSERS"}, {EXDEV, "EXDEV"}, {EADDRNOTAVAIL, "EADDRNOTAVAIL"},
};

static const struct {
	int number;
	const char *name;
} signals[] = {
	{SIGSYS, "SIGSYS"}, {SIGSEGV, "SIGSEGV"}, {SIGKILL, "SIGKILL"},
	{SIGALRM, "a hang"}, {SIGBUS, "SIGBUS"}, {SIGILL, "SIGILL"},
};

static const char *signal_name(int number)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signals[i].number == number)
			return signals[i].name;
	return "a deadly signal";
}

static const char *result_name(int result)
{
	static char text[32];

	if (result == 0)
		return "success";
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		if (errnos[i].number == -result)
			return errnos[i].name;
	snprintf(text, sizeof(text), "errno %d", -result);
	return text;
}

/* Whether name is one of the words of list, which are parted by spaces. */
static bool list_has(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (list && *list) {
		size_t word = strcspn(list, " ");

		if (word == len && !strncmp(list, name, len))
			return true;
		list += word + (list[word] == ' ');
	}
	return false;
}

static void report_and_exit(int result)
{
	outcome.result = result;
	if (write(report_fd, &outcome, sizeof(outcome)) < 0)
		_exit(3);
	_exit(0);
}

const char *attack_arg_or_null(const char *key)
{
	size_t len = strlen(key);

	for (int i = 0; i < n_args; i++)
		if (!strncmp(args[i], key, len) && args[i][len] == '=')
			return args[i] + len + 1;
	return NULL;
}

const char *attack_arg(const char *key)
{
	const char *value = attack_arg_or_null(key);

	if (!value) {
		attack_note("argument %s= was not given", key);
		report_and_exit(-EUSERS);
	}
	return value;
}

long attack_number(const char *key)
{
	return strtol(attack_arg(key), NULL, 10);
}

const char *attack_path(const char *pattern)
{
	char *out = calloc(1, 8192);
	size_t used = 0;

	while (out && *pattern && used < 4000) {
		char key[32] = {0};
		size_t len = strcspn(pattern, "}");

		if (*pattern != '{' || len >= sizeof(key)) {
			out[used++] = *pattern++;
			continue;
		}
		memcpy(key, pattern + 1, len - 1);
		used += (size_t)snprintf(out + used, 4000, "%s",
					 attack_arg(key));
		pattern += len + 1;
	}
	return out;
}

int attack_result(long r)
{
	return r < 0 ? -errno : 0;
}

int attack_skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(outcome.text, sizeof(outcome.text), format, ap);
	va_end(ap);
	return ATTACK_SKIP;
}

void attack_note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(outcome.text, sizeof(outcome.text), format, ap);
	va_end(ap);
}

bool attack_is_inside(void)
{
	char comm[32] = {0};
	int fd = open("/proc/1/comm", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = 0;
	close(fd);
	return !strncmp(comm, "pinfold", 7);
}

int attack_inherited(void)
{
	return inherited;
}

static void run_child(const struct attack *a)
{
	setpgid(0, 0);
	signal(SIGPIPE, SIG_IGN);
	/* A group in the background is answered, not stopped. */
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	alarm(DEADLINE_S);
	report_and_exit(a->run(a));
}

/* Fills ret with the child's report, and name with the result in one word. */
static void run_attack(const struct attack *a, struct outcome *ret,
		       const char **name)
{
	int ends[2];
	int status = 0;
	ssize_t got;
	pid_t pid;

	memset(ret, 0, sizeof(*ret));
	*name = "no process";
	fflush(stdout);
	if (pipe(ends) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		report_fd = ends[1];
		run_child(a);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return;
	}
	while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR)
		;
	if (WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	got = read(ends[0], ret, sizeof(*ret));
	close(ends[0]);
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status))
		*name = signal_name(WTERMSIG(status));
	else if (got == (ssize_t)sizeof(*ret))
		*name = result_name(ret->result);
	else
		*name = "no report";
}

static void print_extra(const struct outcome *o)
{
	if (o->text[0])
		printf(" (%s)", o->text);
	putchar('\n');
}

/* True unless the attack was not stopped as it must be. */
static bool judge(const struct attack *a)
{
	struct outcome o;
	const char *got;

	run_attack(a, &o, &got);
	if (o.result == ATTACK_SKIP) {
		printf("skip - %s: %s: %s\n", a->limit, a->what, o.text);
		return true;
	}
	if (strcmp(got, "success") && list_has(a->expect, got)) {
		printf("ok - %s: %s\n", a->limit, a->what);
		return true;
	}
	printf("not ok - %s: %s: got %s, expected %s", a->limit, a->what, got,
	       a->expect);
	print_extra(&o);
	return false;
}

static void prove(const struct attack *a)
{
	struct outcome o;
	const char *got;
	const char *word = "stopped";

	run_attack(a, &o, &got);
	if (o.result == ATTACK_SKIP)
		word = "skipped", got = o.text;
	else if (!strcmp(got, "success") || list_has(a->past, got))
		word = "passed";
	printf("%s\t%s: %s\t%s\t%s\n", word, a->limit, a->what, got,
	       a->bare ? a->bare : "");
}

static void count_inherited(void)
{
	for (int fd = 3; fd < 4096; fd++)
		inherited += fcntl(fd, F_GETFD) >= 0;
}

int attack_main(const struct attack *table, size_t n, int argc, char **argv)
{
	bool proving = false;
	bool listing = false;
	bool all_stopped = true;

	count_inherited();
	args = argv + 1;
	n_args = argc - 1;
	for (int i = 1; i < argc; i++) {
		proving |= !strcmp(argv[i], "--prove");
		listing |= !strcmp(argv[i], "--list");
	}
	for (size_t i = 0; i < n; i++) {
		if (listing)
			printf("%s\t%s\t%s\n", table[i].limit, table[i].what,
			       table[i].expect);
		else if (proving)
			prove(&table[i]);
		else
			all_stopped &= judge(&table[i]);
	}
	fflush(stdout);
	if (!listing)
		printf("# %zu attacks\n", n);
	return all_stopped ? 0 : 1;
}
