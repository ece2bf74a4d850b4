/* Between the files of the front end's side of a task. */
#ifndef PINFOLD_TASK_FRONT_PRIVATE_H
#define PINFOLD_TASK_FRONT_PRIVATE_H

#include "task/front.h"

/* Answers FRONT_NEED_MAPS. */
int front_maps(struct front *f, const struct task_plan *plan,
	       struct error *err);

#endif
