/*
 * Operands that are a task, or tasks, and then paths of its source or of another
 * directory that it could write.
 */
#ifndef PINFOLD_CLI_WORDS_H
#define PINFOLD_CLI_WORDS_H

#include "base/error.h"
#include "cli/pick.h"
#include "task/state.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * How many of the n words at the beginning are tasks: what begins with "t-" and
 * could be an id; without "t-", eight characters or more with which the id of a
 * task begins. A file that is called so is named by ./NAME.
 */
size_t words_count_tasks(const struct state *s, char *const *words, size_t n);

/* One path: below which directory (0: the source, i: write.(i-1)), and where. */
struct words_path {
	size_t layer;
	char *path; /* relative; "" for the whole directory */
	const char *word;
	bool found; /* for the user: something was there */
};

struct words {
	struct words_path *paths;
	size_t n;
};

#define AUTO_WORDS __attribute__((cleanup(words_done)))

/*
 * Finds out what n words mean: absolute, or relative to the working directory
 * where that lies in the source of p, else to the source. "." and ".." are
 * taken by their names. -EINVAL with a text for what lies in no directory of
 * the task.
 */
int words_read(struct words *w, const struct pick *p, char *const *words,
	       size_t n, struct error *err);
void words_done(struct words *w);

/*
 * True if a word means the path, or something above it; that word is then
 * found. With no words at all everything is meant.
 */
bool words_mean(struct words *w, size_t layer, const char *path);

/* True if a word means something below the path. */
bool words_lead_through(struct words *w, size_t layer, const char *path);

/* A path where nothing was found may have been mistyped: -ENOENT by its name. */
int words_check(const struct words *w, const char *id, struct error *err);

/* True if a word names this directory, or anything in it. */
bool words_name_layer(const struct words *w, size_t layer);

#endif
