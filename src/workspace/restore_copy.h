/* workspace/restore.h for copies. */
#ifndef PINFOLD_WORKSPACE_RESTORE_COPY_H
#define PINFOLD_WORKSPACE_RESTORE_COPY_H

#include "base/error.h"

int restore_copy(int layer_fd, int source_fd, const char *path,
		 struct error *err);

#endif
