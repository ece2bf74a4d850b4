/* Decides what a promotion is to do, and makes ready what comes. */
#ifndef PINFOLD_WORKSPACE_PLAN_H
#define PINFOLD_WORKSPACE_PLAN_H

#include "workspace/promote.h"

/*
 * Reads the layer's changes into the journal, which was just created. copy:
 * also fills stage_fd. 0 or negative.
 */
int plan_make(struct journal *j, int stage_fd, const struct promote_layer *l,
	      const struct promote_want *want, bool copy,
	      struct promote_counts *ret, struct error *err);

#endif
