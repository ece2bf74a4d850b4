/*
 * What pinfold diff shows beside the changes: what a promotion would make of
 * them, by the promotion's own plan, and the commits behind references.
 */
#ifndef PINFOLD_CLI_DIFF_PLAN_H
#define PINFOLD_CLI_DIFF_PLAN_H

#include "cli/diff_show.h"
#include "cli/held.h"
#include "cli/words.h"
#include "workspace/plan_view.h"

struct diff_plan {
	struct layers layers;
	struct plan_view view; /* of the layer that is shown */
	bool open;	       /* the layers are */
	bool known;	       /* the view is */
};

#define DIFF_PLAN_INIT {.layers = LAYERS_INIT, .view = PLAN_VIEW_INIT}

/* Opens the task's layers. Where it fails nothing is known, and that is said. */
void diff_plan_open(struct diff_plan *d, const struct pick *p);
void diff_plan_done(struct diff_plan *d);

/* Plans for the layer whose directory is layer_fd. Likewise. */
void diff_plan_begin(struct diff_plan *d, int layer_fd);
void diff_plan_end(struct diff_plan *d);

/* How many changes of the layer would be held back. */
uint64_t diff_plan_held(const struct diff_plan *d);

/* Fills in what a promotion would make of path. */
void diff_plan_note(const struct diff_plan *d, const char *path,
		    struct show_notes *notes);

/*
 * A repository that would be left whole, top: that of the source counts too; how
 * many bytes of path name it, or 0.
 */
size_t diff_plan_repository(const struct diff_plan *d, const char *path,
			    bool top);

/* How many files of a directory changed. */
uint64_t diff_plan_files(const struct diff_plan *d, const char *dir);

/* Is the path, in .git, a reference or what several are packed in? */
bool diff_plan_is_reference(const char *path);

/*
 * The references as promote tells them, instead of their files; each kind is
 * counted in total. 0 or negative.
 */
int diff_plan_references(const struct diff_plan *d, struct show *s,
			 struct changes_counts *total);

/*
 * The commits of the source's references that words mean, which are counted
 * likewise. 0 or negative.
 */
int diff_plan_commits(const struct diff_plan *d, struct show *s,
		      struct words *words, struct changes_counts *total,
		      struct error *err);

#endif
