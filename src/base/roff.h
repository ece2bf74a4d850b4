/*
 * Text as man(7) source: a sentence begins a line, lines are short, and no
 * character of it is an instruction.
 */
#ifndef PINFOLD_BASE_ROFF_H
#define PINFOLD_BASE_ROFF_H

#include "base/buf.h"

/* The date that every page carries. */
#define ROFF_DATE "2026-11-29"

/* Words of text, filled; ends with a new line. */
int roff_text(struct buf *out, const char *text);
/* n bytes of one line as they are, but for what roff would read; no new line. */
int roff_literal(struct buf *out, const char *text, size_t n);

#endif
