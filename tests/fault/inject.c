/*
 * Runs a program, follows every process that it starts, and lets one system
 * call of one of them fail, or kills that process at it:
 *
 *	inject -l -o REPORT -- CMD...
 *	inject -e ROLE:CALL:N:ERRNO -o REPORT -- CMD...
 *	inject -k ROLE:CALL:N -o REPORT -- CMD...
 *
 * The Nth CALL of ROLE is meant, so one call fails and no other. A role is the
 * program's name without "pinfold-", and "PARENT+1" for what a program's first
 * child does before it executes another; what the sandboxed command does is not
 * counted. A failed call is not made, but for close(2), which closes also when
 * it fails. The report says "hit", "count ROLE CALL N" (-l), and "left NAME"
 * for each process that was there GONE_S after the first one's end.
 *
 * A filter gives the calls in question to the tracer and lets others run at
 * full speed. It stands below the filters of pinfold, whose errors go before.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GONE_S 10
#define TRACEES_MAX 256
#define NUMBERS 1024
#define ROLES_MAX 32
#define NAME_MAX_HERE 48
#define COMMAND "command"

struct tracee {
	pid_t pid;
	int role; /* index into roles; -1: its parent's event is yet to come */
	int children;
	bool waits;	/* stopped until its role is known */
	bool gives_error; /* at the end of the call that it is in */
};

static struct tracee tracees[TRACEES_MAX];
static char roles[ROLES_MAX][NAME_MAX_HERE];
static unsigned counts[ROLES_MAX][NUMBERS];
static int n_roles;
static char want_role[NAME_MAX_HERE];
static int want_call = -1;
static unsigned want_nth;
static int want_errno;
static bool listing, killing, was_hit;
static FILE *report;

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(99);
}

static int role_index(const char *name)
{
	for (int i = 0; i < n_roles; i++) {
		if (!strcmp(roles[i], name))
			return i;
	}
	if (n_roles == ROLES_MAX)
		die("too many roles");
	snprintf(roles[n_roles], sizeof(roles[0]), "%s", name);
	return n_roles++;
}

static struct tracee *find(pid_t pid)
{
	struct tracee *unused = NULL;

	for (size_t i = 0; i < TRACEES_MAX; i++) {
		if (tracees[i].pid == pid)
			return &tracees[i];
		if (!unused && tracees[i].pid == 0)
			unused = &tracees[i];
	}
	if (!unused)
		die("too many processes");
	*unused = (struct tracee){.pid = pid, .role = -1};
	return unused;
}

static void go_on(pid_t pid, bool to_end_of_call, int sig)
{
	/* It may be killed already. */
	ptrace(to_end_of_call ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL,
	       (void *)(long)sig);
}

static void child_known(struct tracee *parent, pid_t pid)
{
	struct tracee *child = find(pid);
	char name[NAME_MAX_HERE * 2];

	snprintf(name, sizeof(name), "%s+%d", roles[parent->role],
		 ++parent->children);
	child->role = strcmp(roles[parent->role], COMMAND)
			      ? role_index(name)
			      : parent->role;
	if (child->waits) {
		child->waits = false;
		go_on(pid, false, 0);
	}
}

static void executed(struct tracee *t)
{
	char link[64], path[4096];
	const char *name;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)t->pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	if (!strcmp(name, "pinfold"))
		name = "front";
	else if (!strncmp(name, "pinfold-", 8))
		name += 8;
	else
		name = COMMAND;
	t->role = role_index(name);
	t->children = 0;
}

static void set_result(const struct tracee *t, bool skip)
{
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, t->pid, (void *)1L, &io) < 0)
		return;
#if defined(__x86_64__)
	if (skip)
		regs.orig_rax = (unsigned long long)-1;
	regs.rax = (unsigned long long)-want_errno;
#else
#error "inject knows the registers of x86-64"
#endif
	ptrace(PTRACE_SETREGSET, t->pid, (void *)1L, &io);
}

static int call_number(const struct tracee *t)
{
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, t->pid, (void *)1L, &io) < 0)
		return -1;
	return (int)regs.orig_rax;
}

static void called(struct tracee *t)
{
	int nr = call_number(t);
	bool to_end = false;

	if (nr >= 0 && nr < NUMBERS && strcmp(roles[t->role], COMMAND) &&
	    ++counts[t->role][nr] == want_nth && nr == want_call &&
	    !strcmp(roles[t->role], want_role)) {
		was_hit = true;
		if (killing) {
			kill(t->pid, SIGKILL);
		} else if (nr == SYS_close) {
			t->gives_error = to_end = true;
		} else {
			set_result(t, true);
		}
	}
	go_on(t->pid, to_end, 0);
}

static void stopped(struct tracee *t, int status)
{
	int sig = WSTOPSIG(status);
	int event = status >> 16;
	unsigned long message = 0;

	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		if (ptrace(PTRACE_GETEVENTMSG, t->pid, NULL, &message) == 0)
			child_known(t, (pid_t)message);
		go_on(t->pid, false, 0);
		break;
	case PTRACE_EVENT_EXEC:
		executed(t);
		go_on(t->pid, false, 0);
		break;
	case PTRACE_EVENT_SECCOMP:
		called(t);
		break;
	case PTRACE_EVENT_STOP:
		t->waits = t->role < 0;
		if (!t->waits)
			go_on(t->pid, false, 0);
		break;
	default:
		if (t->gives_error && sig == (SIGTRAP | 0x80)) {
			t->gives_error = false;
			set_result(t, false);
			go_on(t->pid, false, 0);
		} else {
			go_on(t->pid, t->gives_error, sig);
		}
	}
}

_Noreturn static void start(char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 (unsigned)(want_call < 0 ? 0 : want_call),
			 (unsigned char)0, (unsigned char)(listing ? 0 : 1)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};

	raise(SIGSTOP);
	/* root needs no such promise, and should run as it does otherwise. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0))
		die("seccomp");
	execv(argv[0], argv);
	die(argv[0]);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void say_left(void)
{
	for (size_t i = 0; i < TRACEES_MAX; i++) {
		const struct tracee *t = &tracees[i];

		if (t->pid == 0)
			continue;
		fprintf(report, "left %s\n",
			t->role >= 0 ? roles[t->role] : "?");
		kill(t->pid, SIGKILL);
	}
}

/* Until all are gone, or GONE_S after the first one's end. Its status. */
static int follow(pid_t first)
{
	int first_status = -1, status;
	double ended = 0;

	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);

		if (pid < 0 && errno == ECHILD)
			break;
		if (pid < 0) {
			say_left();
			break;
		}
		if (WIFSTOPPED(status)) {
			stopped(find(pid), status);
			continue;
		}
		if (pid == first) {
			first_status = status;
			ended = now();
			alarm(GONE_S);
		}
		find(pid)->pid = 0;
	}
	fprintf(report, "gone %.3f\n", ended > 0 ? now() - ended : 0.0);
	return first_status;
}

static void parse(char *text, bool with_errno)
{
	char *role = strtok(text, ":");
	char *call = strtok(NULL, ":");
	char *nth = strtok(NULL, ":");
	char *error = with_errno ? strtok(NULL, ":") : NULL;

	if (!role || !call || !nth || (with_errno && !error))
		die("ROLE:CALL:N:ERRNO is wanted");
	snprintf(want_role, sizeof(want_role), "%s", role);
	want_call = seccomp_syscall_resolve_name(call);
	want_nth = (unsigned)atoi(nth);
	want_errno = error ? atoi(error) : 0;
	if (want_call < 0 || want_call >= NUMBERS)
		die(call);
}

static void say_counts(void)
{
	for (int r = 0; r < n_roles; r++) {
		for (int i = 0; i < NUMBERS; i++) {
			char *name;

			if (counts[r][i] == 0 || !strcmp(roles[r], "inject"))
				continue;
			name = seccomp_syscall_resolve_num_arch(
				SCMP_ARCH_NATIVE, i);
			fprintf(report, "count %s %s %u\n", roles[r],
				name ? name : "?", counts[r][i]);
			free(name);
		}
	}
}

static int trace(char **argv)
{
	const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			     PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
			     PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD |
			     PTRACE_O_EXITKILL;
	struct sigaction action = {.sa_handler = on_alarm};
	pid_t first = fork();
	int status;

	if (first == 0)
		start(argv);
	if (first < 0 || waitpid(first, &status, WUNTRACED) != first)
		die("fork");
	if (ptrace(PTRACE_SEIZE, first, NULL, (void *)options) < 0)
		die("ptrace");
	find(first)->role = role_index("inject");
	kill(first, SIGCONT);
	sigaction(SIGALRM, &action, NULL);
	return follow(first);
}

static void read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+le:k:o:")) >= 0) {
		if (c == 'l')
			listing = true;
		else if (c == 'e' || c == 'k')
			parse(optarg, c == 'e');
		else if (c == 'o')
			report = fopen(optarg, "we");
		if (c == 'k')
			killing = true;
	}
	if (!report || optind >= argc || (!listing && want_call < 0))
		die("usage");
}

int main(int argc, char **argv)
{
	int status;

	read_options(argc, argv);
	status = trace(argv + optind);
	if (was_hit)
		fprintf(report, "hit\n");
	if (listing)
		say_counts();
	if (fclose(report) != 0)
		die("report");
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 128 + WTERMSIG(status);
}
