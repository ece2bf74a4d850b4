/*
 * How far something long has come, on a terminal's standard error: one line
 * that is written over, and that is gone at the end. Elsewhere nothing.
 */
#ifndef PINFOLD_CLI_PROGRESS_H
#define PINFOLD_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what; /* "copying the source" */
	uint64_t files;	  /* how many there are; 0: not known */
	bool on, shown;
	uint64_t started_us, next_us;
};

void progress_begin(struct progress *p, const char *what, uint64_t files);

/*
 * For struct layer_watch: arg is the progress. Not 0 once a signal was noted
 * (front_catch_signals) that is to end us.
 */
int progress_step(void *arg, uint64_t files, uint64_t bytes);

/* Takes the line away. */
void progress_end(struct progress *p);

#endif
