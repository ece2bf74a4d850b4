/*
 * Output of a command on its way to a terminal: text, line ends, tabs and
 * colours pass, every other control sequence is shown as \xNN.
 */
#ifndef PINFOLD_CLI_SCREEN_H
#define PINFOLD_CLI_SCREEN_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct screen {
	char pending[64]; /* the beginning of a sequence, until it is whole */
	size_t n;
};

/*
 * Appends what data shows as. last: there is no more, so an unfinished sequence
 * is shown as it is. 0 or negative.
 */
int screen_add(struct screen *s, const char *data, size_t len, bool last,
	       struct buf *out);

#endif
