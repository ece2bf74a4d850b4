#include "cli/help.h"

#include "base/io.h"
#include "cli/colour.h"

#include <stdio.h>
#include <unistd.h>

/* Where the second column of a list begins. */
#define VERB_COLUMN 11
#define OPTION_COLUMN 28

static void heading(struct buf *out, const char *text, bool colour)
{
	buf_addf(out, "%s%s%s", colour_code(colour, COLOUR_BOLD), text,
		 colour_code(colour, COLOUR_NONE));
}

static void pad(struct buf *out, size_t from, size_t width)
{
	do
		buf_add_char(out, ' ');
	while (out->len - from < width && !out->failed);
}

int help_overview(struct buf *out, bool colour)
{
	heading(out, "Usage:", colour);
	buf_add_str(out, " pinfold COMMAND [OPTION]... [OPERAND]...\n\n"
			 "Runs commands in sandboxes: what happens is what the "
			 "policy permits,\nand what changes is held back.\n\n");
	heading(out, "Commands:", colour);
	buf_add_char(out, '\n');
	for (size_t i = 0; i < n_verb_rows; i++) {
		size_t from = out->len;

		buf_addf(out, "  %s", verb_rows[i].name);
		pad(out, from, VERB_COLUMN);
		buf_addf(out, "%s\n", verb_rows[i].help);
	}
	return buf_add_str(out, "\npinfold help COMMAND prints the options of "
				"one; --version the version.\n");
}

int help_option_name(struct buf *out, const struct option_row *row)
{
	if (row->letter)
		buf_addf(out, "-%c, ", row->letter);
	else
		buf_add_str(out, "    ");
	buf_addf(out, "--%s", row->name);
	if (row->argument == ARGUMENT_OPTIONAL)
		return buf_addf(out, "[=%s]", row->metavar);
	if (row->argument == ARGUMENT_REQUIRED)
		return buf_addf(out, " %s", row->metavar);
	return out->failed;
}

int help_verb(struct buf *out, const struct verb_row *verb, bool colour)
{
	heading(out, "Usage:", colour);
	buf_addf(out, " pinfold %s [OPTION]...%s%s\n\npinfold %s: %s.\n\n",
		 verb->name, *verb->synopsis ? " " : "", verb->synopsis,
		 verb->name, verb->help);
	heading(out, "Options:", colour);
	buf_add_char(out, '\n');
	for (size_t i = 0; i < OPT_COUNT; i++) {
		size_t from = out->len;

		if (!verb_takes(verb, (enum option_id)i))
			continue;
		buf_add_str(out, "  ");
		help_option_name(out, &option_rows[i]);
		pad(out, from, OPTION_COLUMN);
		buf_addf(out, "%s\n", option_rows[i].help);
	}
	return buf_addf(out, "\nThe manual page pinfold-%s(1) says more.\n",
			verb->name);
}

int verb_help(const struct options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);
	bool colour = colour_wanted(STDOUT_FILENO);
	const struct verb_row *verb = NULL;
	struct error err = {0};

	if (o->verb && !str_eq(o->verb, "help"))
		verb = verb_find(o->verb);
	else if (o->n_rest > 0)
		verb = verb_find(o->rest[0]);
	if (!verb && o->n_rest > 0) {
		options_unknown_verb(o->rest[0], &err);
		fprintf(stderr, "pinfold: %s\n", err.text);
		return 125;
	}
	if (verb)
		help_verb(&out, verb, colour);
	else
		help_overview(&out, colour);
	if (out.failed ||
	    io_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return 125;
	return 0;
}
