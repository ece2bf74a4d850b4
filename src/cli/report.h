/*
 * What a verb prints: text or JSON, to standard output or the file of
 * --json=FILE, in pieces, so that a million lines need no memory.
 */
#ifndef PINFOLD_CLI_REPORT_H
#define PINFOLD_CLI_REPORT_H

#include "base/buf.h"
#include "cli/option.h"

#include <stdbool.h>

#define REPORT_PIECE 32768
#define STATUS_REFUSED 125

struct report {
	struct buf out; /* append here, then report_flush */
	int fd;
	bool json;
	bool colour;
	bool opened; /* fd is ours */
	int failed;  /* of the first write that failed */
};

#define AUTO_REPORT __attribute__((cleanup(report_done)))

/* 0, or an exit status after a message on standard error. */
int report_init(struct report *r, const struct options *o);
void report_done(struct report *r);

/* Writes what has gathered, if it is much. Non-zero once a write failed. */
int report_flush(struct report *r);
/* Writes the rest. Returns the exit status, after a message if it is not 0. */
int report_end(struct report *r);

/* "pinfold: TEXT" on standard error; returns STATUS_REFUSED. */
int report_refuse(const char *text);

/* As report_refuse, but goes on. */
void report_note(const char *text);

/*
 * Whether a verb ("promoting") that needs --yes elsewhere may ask here: 0, or
 * -EINVAL with a text. report_ask then shows the question, which is not quoted,
 * and is true for a yes alone.
 */
int report_may_ask(const char *doing, struct error *err);
bool report_ask(const struct buf *question);

/* A path for people: as it is, or quoted where anything in it is unusual. */
int report_path(struct buf *out, const char *path);

/* A command's words, quoted where one is not plain; at most max bytes (0: all). */
void report_command(struct buf *out, const struct strlist *argv, size_t max);

/* ": 88 files", of a directory that one line stands for. */
void report_files(struct buf *out, uint64_t n);

/* " -> TARGET", and whether that lies outside of the source. */
void report_target(struct buf *out, const char *target, bool leaves);

#endif
