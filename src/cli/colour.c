#include "cli/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool colour_wanted(int fd)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return (!no_color || !*no_color) && term && *term &&
	       strcmp(term, "dumb") != 0 && isatty(fd);
}

const char *colour_code(bool wanted, enum colour colour)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "\033[0m",    [COLOUR_BOLD] = "\033[1m",
		[COLOUR_DIM] = "\033[2m",     [COLOUR_RED] = "\033[31m",
		[COLOUR_GREEN] = "\033[32m",  [COLOUR_YELLOW] = "\033[33m",
	};

	return wanted ? codes[colour] : "";
}
