/* How a reference that is, or was, taken over is told. */
#ifndef PINFOLD_CLI_PROMOTE_REF_H
#define PINFOLD_CLI_PROMOTE_REF_H

#include "base/buf.h"
#include "schema/json.h"

/*
 * "main: 3 commits, a1b2c3d..d4e5f67", and the files in lines below. path is the
 * journal's, text what it says of it. 0 or negative.
 */
int promote_tell_ref(struct buf *out, const char *path, const char *text);

/* The same as a JSON object. */
void promote_write_ref(struct json_writer *w, const char *text);

#endif
