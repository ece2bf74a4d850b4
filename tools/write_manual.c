/*
 * Writes what is generated from the tables of options and of policy fields when
 * pinfold is built: write_manual DIR COMPLETION makes in DIR the manual pages
 * pinfold.1, pinfold-VERB.1 and pinfold-policy.5, and pinfold.bash, in which
 * the functions of the file COMPLETION follow those that the tables give.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/roff.h"
#include "cli/help.h"
#include "cli/option_table.h"
#include "policy/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX (1u << 20)

static void add_line(struct buf *out, const char *macro, const char *text)
{
	buf_addf(out, "%s%s", macro, *macro ? " " : "");
	if (*macro) {
		roff_literal(out, text, strlen(text));
		buf_add_char(out, '\n');
	} else if (*text) {
		roff_text(out, text);
	}
}

/* Paragraphs stand apart by an empty line; lines with a tab are examples. */
static void add_paragraphs(struct buf *out, const char *text)
{
	bool example = false;

	while (*text) {
		size_t n = strcspn(text, "\n");
		AUTO_BUF struct buf line = BUF_INIT(OUTPUT_MAX);

		if ((*text == '\t') != example) {
			example = !example;
			buf_add_str(out, example ? ".PP\n.RS 4\n.nf\n"
						 : ".fi\n.RE\n");
		}
		buf_add(&line, text + example, n - example);
		if (example)
			roff_literal(out, buf_str(&line), line.len);
		if (example)
			buf_add_char(out, '\n');
		else if (line.len > 0)
			roff_text(out, buf_str(&line));
		else if (text[1] && text[1] != '\t')
			buf_add_str(out, ".PP\n");
		text += n + (text[n] == '\n');
	}
	if (example)
		buf_add_str(out, ".fi\n.RE\n");
}

static void add_title(struct buf *out, const char *verb)
{
	buf_add_str(out, ".\\\" Written from pinfold's option table.\n"
			 ".TH PINFOLD");
	if (verb) {
		buf_add_str(out, "\\-");
		for (const char *c = verb; *c; c++)
			buf_add_char(out, (char)(*c - 'a' + 'A'));
	}
	buf_add_str(out, " 1 \"" ROFF_DATE "\" \"pinfold " PINFOLD_VERSION
			 "\" \"pinfold manual\"\n.SH NAME\n");
}

static void add_exit_status(struct buf *out)
{
	static const char *const rows[][2] = {
		{"124", "the time-out has passed"},
		{"125", "pinfold refused or failed; the message says why"},
		{"126", "the command could not be executed"},
		{"127", "the command was not found"},
		{"128+N", "the command was ended by signal N"},
		{"137", "a limit stopped the task; standard error says "
			"\"limit: NAME\""},
	};

	buf_add_str(out, ".SH EXIT STATUS\nThat of the command, or\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		add_line(out, ".TP\n.B", rows[i][0]);
		add_line(out, "", rows[i][1]);
	}
}

static void add_options(struct buf *out, const struct verb_row *verb)
{
	buf_add_str(out, ".SH OPTIONS\n");
	for (size_t i = 0; i < OPT_COUNT; i++) {
		AUTO_BUF struct buf name = BUF_INIT(200);
		const char *text;

		if (!verb_takes(verb, (enum option_id)i))
			continue;
		help_option_name(&name, &option_rows[i]);
		text = buf_str(&name);
		add_line(out, ".TP\n.B", text + strspn(text, " "));
		add_line(out, "", option_manual(verb, (enum option_id)i));
	}
}

/* What else than 0 and 125 a verb without a command ends with. */
static const char *other_status(const char *verb)
{
	if (str_eq(verb, "policy"))
		return ", 1 when check found faults";
	if (str_eq(verb, "promote"))
		return ", 1 when there was a conflict";
	return str_eq(verb, "undo") ? ", 1 when something was left" : "";
}

static void write_verb_page(struct buf *out, const struct verb_row *verb)
{
	add_title(out, verb->name);
	buf_addf(out, "pinfold\\-%s \\- ", verb->name);
	add_line(out, "", verb->help);
	buf_addf(out, ".SH SYNOPSIS\n.B pinfold %s\n", verb->name);
	buf_add_str(out, verb->options ? ".RI [ option ]...\n" : "");
	add_line(out, "", verb->synopsis);
	buf_add_str(out, ".SH DESCRIPTION\n");
	add_paragraphs(out, verb->manual);
	add_options(out, verb);
	if (verb->command_from != SIZE_MAX)
		add_exit_status(out);
	else
		buf_addf(out, ".SH EXIT STATUS\n0%s, or 125 when pinfold "
			      "refused or failed.\n",
			 other_status(verb->name));
	buf_add_str(out, ".SH SEE ALSO\n.BR pinfold (1),\n"
			 ".BR pinfold\\-policy (5)\n");
}

static const char overview[] =
"Runs commands in sandboxes, among them those that an AI agent has written "
"or was talked into. What happens is what the policy permits: by default the "
"system and the source can be read, there is no network, no home directory "
"and no secret, and what is changed is held back until somebody has looked at "
"it.\n\n"
"\tpinfold run -- make test\n"
"\tpinfold diff\n"
"\tpinfold promote\n\n"
"pinfold promote takes the changes over, pinfold undo takes that back, and "
"pinfold discard throws them away.";

static const char *const files[][2] = {
	{"~/.config/pinfold/policy.yaml", "the caller's policy"},
	{"/etc/pinfold/policy.yaml",
	 "the machine's policy: no other may permit more"},
	{"~/.local/state/pinfold, for root /var/lib/pinfold",
	 "the tasks: their records and what they hold back"},
};

static const char *const variables[][2] = {
	{"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_RUNTIME_DIR",
	 "where an ordinary user's files of pinfold lie"},
	{"NO_COLOR", "if it is not empty, nothing is coloured"},
};

static void add_pairs(struct buf *out, const char *heading,
		      const char *const (*rows)[2], size_t n)
{
	add_line(out, ".SH", heading);
	for (size_t i = 0; i < n; i++) {
		add_line(out, ".TP\n.B", rows[i][0]);
		add_line(out, "", rows[i][1]);
	}
}

static void write_overview_page(struct buf *out)
{
	add_title(out, NULL);
	buf_add_str(out, "pinfold \\- run commands in sandboxes\n"
			 ".SH SYNOPSIS\n.B pinfold\n.I command\n"
			 ".RI [ option ]...\\&\n.RI [ operand ]...\n"
			 ".SH DESCRIPTION\n");
	add_paragraphs(out, overview);
	buf_add_str(out, ".SH COMMANDS\n");
	for (size_t i = 0; i < n_verb_rows; i++) {
		buf_addf(out, ".TP\n.BR pinfold\\-%s (1)\n",
			 verb_rows[i].name);
		add_line(out, "", verb_rows[i].help);
	}
	add_exit_status(out);
	add_pairs(out, "FILES", files, ARRAY_SIZE(files));
	add_pairs(out, "ENVIRONMENT", variables, ARRAY_SIZE(variables));
	buf_add_str(out, ".SH SEE ALSO\n.BR pinfold\\-policy (5)\n");
}

static void write_completion_verbs(struct buf *out)
{
	buf_add_str(out, "_pinfold_verbs='");
	for (size_t i = 0; i < n_verb_rows; i++)
		buf_addf(out, "%s%s", i > 0 ? " " : "", verb_rows[i].name);
	buf_add_str(out, "'\n\n# The options of a verb, what its first operand "
			 "may be, and how many\n# operands stand before the "
			 "command (-1: it takes none).\n"
			 "_pinfold_verb()\n{\n\tcase $1 in\n");
	for (size_t i = 0; i < n_verb_rows; i++) {
		const struct verb_row *verb = &verb_rows[i];
		bool task = !strncmp(verb->synopsis, "TASK", 4) ||
			    !strncmp(verb->synopsis, "[TASK", 5);

		buf_addf(out, "\t%s)\n\t\toptions='", verb->name);
		for (size_t j = 0; j < OPT_COUNT; j++) {
			if (verb_takes(verb, (enum option_id)j))
				buf_addf(out, "--%s ", option_rows[j].name);
		}
		buf_addf(out, "'\n\t\tfirst='%s'\n\t\tcommand_from=%d\n\t\t;;\n",
			 !task ? verb->words ? verb->words : ""
			 : strstr(verb->synopsis, "PATH") ? "<task> <file>"
							   : "<task>",
			 verb->command_from == SIZE_MAX
				 ? -1
				 : (int)verb->command_from);
	}
	buf_add_str(out, "\t*)\n\t\toptions='--help --version'\n\t\tfirst=\n"
			 "\t\tcommand_from=-1\n\t\t;;\n\tesac\n}\n\n");
}

static void write_completion_options(struct buf *out)
{
	buf_add_str(out, "# True if an option takes a value; sets what that "
			 "may be.\n_pinfold_option()\n{\n\tcase $1 in\n");
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_rows[i];

		if (row->argument == ARGUMENT_REQUIRED)
			buf_addf(out, "\t--%s) values='%s' ;;\n", row->name,
				 row->words ? row->words : "");
	}
	buf_add_str(out, "\t*) return 1 ;;\n\tesac\n}\n\n");
}

static int write_file(int dir, const char *name, const struct buf *content)
{
	int r = content->failed;

	if (r == 0)
		r = io_replace_file(dir, name, content->data, content->len,
				    0644);
	if (r < 0)
		fprintf(stderr, "write_manual: %s: %s\n", name, strerror(-r));
	return r;
}

static int write_pages(int dir)
{
	AUTO_BUF struct buf first = BUF_INIT(OUTPUT_MAX);
	AUTO_BUF struct buf policy = BUF_INIT(OUTPUT_MAX);
	int r;

	write_overview_page(&first);
	policy_write_manual(&policy);
	r = write_file(dir, "pinfold.1", &first);
	if (r == 0)
		r = write_file(dir, "pinfold-policy.5", &policy);
	for (size_t i = 0; i < n_verb_rows && r == 0; i++) {
		AUTO_BUF struct buf page = BUF_INIT(OUTPUT_MAX);
		char name[64];

		snprintf(name, sizeof(name), "pinfold-%s.1", verb_rows[i].name);
		write_verb_page(&page, &verb_rows[i]);
		r = write_file(dir, name, &page);
	}
	return r;
}

static int write_completion(int dir, const char *functions)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	int r;

	buf_add_str(&out, "# bash completion for pinfold, written from its "
			  "option table.\n\n");
	write_completion_verbs(&out);
	write_completion_options(&out);
	r = io_read_file(AT_FDCWD, functions, &out);
	if (r < 0) {
		fprintf(stderr, "write_manual: %s: %s\n", functions,
			strerror(-r));
		return r;
	}
	return write_file(dir, "pinfold.bash", &out);
}

int main(int argc, char **argv)
{
	AUTO_CLOSE int dir = -1;

	if (argc != 3) {
		fprintf(stderr, "usage: write_manual DIR COMPLETION\n");
		return 2;
	}
	dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		perror(argv[1]);
		return 1;
	}
	return write_pages(dir) < 0 || write_completion(dir, argv[2]) < 0;
}
