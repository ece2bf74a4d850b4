/* Shared by the files that implement workspace/plan_view.h. */
#ifndef PINFOLD_WORKSPACE_PLAN_VIEW_PRIVATE_H
#define PINFOLD_WORKSPACE_PLAN_VIEW_PRIVATE_H

#include "base/error.h"

/* Makes a directory of this process's own in the layer's. Descriptor or negative. */
int plan_view_directory(int layer_fd, char name[32], struct error *err);

#endif
