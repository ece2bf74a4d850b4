/*
 * Which function serves which verb. Apart from the table of rows, so that the
 * programs that write help and manuals need none of the verbs.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/colour.h"
#include "cli/help.h"
#include "cli/option.h"

#include <assert.h>
#include <unistd.h>

struct verb_entry {
	const char *name;
	verb_fn *fn;
};

static const struct verb_entry entries[] = {
	{"run", verb_run},	 {"start", verb_start}, {"exec", verb_exec},
	{"ps", verb_ps},	 {"logs", verb_logs},	{"stop", verb_stop},
	{"kill", verb_kill},	 {"refresh", verb_refresh},
	{"diff", verb_diff},
	{"promote", verb_promote}, {"undo", verb_undo},
	{"discard", verb_discard}, {"rm", verb_rm}, {"policy", verb_policy},
	{"doctor", verb_doctor}, {"help", verb_help},
};

static int print_version(void)
{
	static const char text[] = "pinfold " PINFOLD_VERSION "\n";

	return io_write_all(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ? 125 : 0;
}

static int no_verb(void)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	if (help_overview(&out, colour_wanted(STDERR_FILENO)) == 0)
		io_write_all(STDERR_FILENO, out.data, out.len);
	return 125;
}

int options_dispatch(const struct options *o)
{
	size_t i = 0;

	if (options_has(o, OPT_VERSION))
		return print_version();
	if (options_has(o, OPT_HELP))
		return verb_help(o);
	if (!o->verb)
		return no_verb();
	while (i < ARRAY_SIZE(entries) && !str_eq(entries[i].name, o->verb))
		i++;
	assert(i < ARRAY_SIZE(entries));
	return entries[i].fn(o);
}
