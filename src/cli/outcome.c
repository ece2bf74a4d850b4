#include "cli/outcome.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/launch.h"
#include "cli/report.h"
#include "cli/tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Who names a whole command line has expected a shell. */
static const char *not_found(const char *command)
{
	return strpbrk(command, " \t\n;|&<>$")
		       ? "command not found in the sandbox; it is one word, "
			 "which no shell reads: sh -c 'COMMAND LINE' has one"
		       : "command not found in the sandbox";
}

/* Says what became of a command that has no status. */
static int without_status(const struct exec_done *done, const char *command,
			  const char *workdir)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	AUTO_BUF struct buf dir = BUF_INIT(4096);
	AUTO_BUF struct buf why = BUF_INIT(8192);
	int error = done->exec_errno;

	str_quote(&b, command, 512);
	switch ((enum exec_stage)done->stage) {
	case STAGE_EXEC:
		if (error == ENOENT)
			tools_missing(command, &why);
		fprintf(stderr, "pinfold: cannot run %s: %s%s\n", buf_str(&b),
			error == ENOENT ? not_found(command)
					: strerror(error),
			buf_str(&why));
		return error == ENOENT ? 127 : 126;
	case STAGE_WORKDIR:
		str_quote(&dir, workdir, 512);
		fprintf(stderr, "pinfold: cannot enter the working directory "
				"%s to run %s: %s\n",
			buf_str(&dir), buf_str(&b), strerror(error));
		return EXIT_REFUSED;
	case STAGE_LOST:
		fprintf(stderr, "pinfold: the sandbox ended while %s ran; "
				"pinfold ps -a names it, pinfold ps "
				"TASK tells why\n", buf_str(&b));
		return EXIT_REFUSED;
	case STAGE_OUTPUT:
		fprintf(stderr, "pinfold: the output of %s is not complete: "
				"%s\n", buf_str(&b), strerror(error));
		return EXIT_REFUSED;
	case STAGE_LATE:
		fprintf(stderr, "pinfold: %s did not start in time and was "
				"ended: another command of the sandbox may "
				"have stopped it\n", buf_str(&b));
		return EXIT_REFUSED;
	case STAGE_CONFINE:
	case STAGE_STREAMS:
		break;
	}
	fprintf(stderr, "pinfold: cannot start %s: %s\n", buf_str(&b),
		strerror(error));
	return EXIT_REFUSED;
}

int outcome_timed_out(const char *what, uint64_t ms)
{
	AUTO_BUF struct buf b = BUF_INIT(256);

	buf_addf(&b, "limit: wall: the %s was stopped after ", what);
	num_format_duration(&b, ms);
	report_note(buf_str(&b));
	return EXIT_TIMED_OUT;
}

/* " after 5s", " at 16MiB" or " at 100": what the limit was that stopped it. */
static void add_value(struct buf *text, const struct policy_limits *l,
		      const char *name)
{
	const struct {
		const char *name, *before;
		uint64_t value;
		int (*format)(struct buf *b, uint64_t value);
	} rows[] = {
		{"memory", " at ", l->memory, num_format_size},
		/* Looked at from time to time. */
		{"disk", " over ", l->disk, num_format_size},
		{"output", " at ", l->output, num_format_size},
		{"inodes", " over ", l->inodes, NULL},
		{"processes", " at ", l->processes, NULL},
		{"cpu_time", " after ", l->cpu_time_ms, num_format_duration},
		{"idle", " after ", l->idle_ms, num_format_duration},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		/* Half of the memory is known to who started the task alone. */
		if (!str_eq(rows[i].name, name) || rows[i].value == LIMIT_NONE ||
		    rows[i].value == LIMIT_HALF)
			continue;
		buf_add_str(text, rows[i].before);
		if (rows[i].format)
			rows[i].format(text, rows[i].value);
		else
			buf_addf(text, "%ju", (uintmax_t)rows[i].value);
	}
}

static int limited(const char *name, const struct policy_limits *limits)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);

	buf_addf(&text, "limit: %s: the task was stopped", name);
	add_value(&text, limits, name);
	buf_addf(&text, "; --limit %s=VALUE sets another", name);
	report_note(buf_str(&text));
	return 137;
}

int outcome_status(const struct front_outcome *outcome, const char *command,
		   const char *workdir, const struct policy_limits *limits)
{
	char limit[sizeof(outcome->done.limit) + 1];
	const struct exec_done *done = &outcome->done;

	if (!strncmp(done->limit, "wall", sizeof(done->limit)))
		return outcome_timed_out("task", limits->wall_ms);
	if (done->limit[0]) {
		snprintf(limit, sizeof(limit), "%.*s",
			 (int)sizeof(done->limit), done->limit);
		return limited(limit, limits);
	}
	if (done->status < 0)
		return without_status(done, command, workdir);
	if (outcome->output_error) {
		fprintf(stderr, "pinfold: the output of the command cannot be "
				"written: %s\n",
			strerror(outcome->output_error));
		return EXIT_REFUSED;
	}
	if (WIFSIGNALED(done->status))
		return 128 + WTERMSIG(done->status);
	return WEXITSTATUS(done->status);
}

void outcome_say_refusals(uint64_t refusals, uint64_t lookups, const char *id)
{
	const char *names = "";

	if (refusals == 0)
		return;
	if (lookups > 0 && lookups < refusals)
		names = ", look-ups of names among them";
	else if (lookups > 0)
		names = refusals == 1 ? ", a look-up of a name"
				      : ", all of them look-ups of names";
	fprintf(stderr,
		"pinfold: %ju network attempt%s refused%s (network: default "
		"deny); pinfold ps %s\n",
		(uintmax_t)refusals, refusals == 1 ? "" : "s", names, id);
}
