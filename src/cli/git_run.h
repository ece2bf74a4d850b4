/* The host's git, run confined (confine/apart.h), for workspace/git_lab.h. */
#ifndef PINFOLD_CLI_GIT_RUN_H
#define PINFOLD_CLI_GIT_RUN_H

#include "workspace/git_lab.h"

struct git_program {
	char *path; /* found at the first run */
	struct promote_git promote;
};

/* task must stay as it is; so must g itself, which holds a pointer to it. */
void git_program_init(struct git_program *g, const char *task);
void git_program_done(struct git_program *g);

#endif
