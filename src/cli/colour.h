/* Colours for people: only on a terminal, and never when NO_COLOR is set. */
#ifndef PINFOLD_CLI_COLOUR_H
#define PINFOLD_CLI_COLOUR_H

#include <stdbool.h>

enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_DIM, COLOUR_RED, COLOUR_GREEN,
	      COLOUR_YELLOW };

/* True if what is written to fd may be coloured (no-color.org). */
bool colour_wanted(int fd);

/*
 * What to write in front of coloured text; COLOUR_NONE ends it. "" where
 * colours are not wanted.
 */
const char *colour_code(bool wanted, enum colour colour);

#endif
