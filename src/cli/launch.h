/*
 * From the command line to a task: policy, source, ids, layers, plan. Shared by
 * run and start.
 */
#ifndef PINFOLD_CLI_LAUNCH_H
#define PINFOLD_CLI_LAUNCH_H

#include "base/error.h"
#include "cli/option.h"
#include "policy/policy.h"
#include "task/front.h"
#include "task/plan.h"
#include "task/state.h"
#include "tier/container.h"
#include "workspace/hidden.h"
#include "workspace/secrets.h"
#include "workspace/source.h"

/* The status of everything that pinfold itself refuses or fails at. */
#define EXIT_REFUSED 125

struct launch {
	struct policy policy;
	struct source source;
	struct state state;
	struct task_plan plan;
	struct front front;
	struct container_clones clones;
	char *programs; /* directory of pinfold's other programs */
	struct buf snapshot; /* canonical JSON of policy */
	struct strlist env; /* of the command */
	char id[STATE_ID_SIZE];
	int task_fd, lock_fd;
	int hide_fd; /* holds plan.spec.hide_path */
	bool policy_known;
	struct strlist withheld; /* settings of agents that hold tokens */
	/* What is hidden beside what the policy names: how many files, and the
	 * first ones of them. */
	struct secrets secrets;
	size_t n_found;
	struct hidden hidden; /* of these, what their paths do not tell */
};

void launch_init(struct launch *l);
void launch_done(struct launch *l);

/*
 * Fills what the sandbox does not see of the source: files.deny, and files that
 * hold secrets, except those that are granted. 0 or negative.
 */
int launch_hide(struct launch *l, struct error *err);
/* The same without writing down what it hides (l->hidden). */
int launch_hide_find(struct launch *l, struct error *err);

/* A directory of the state directory, made if it is not there; -1: none. */
int launch_state_dir(const struct state *s, const char *name);

/*
 * Says what was kept back without the policy's naming it, if anything: files of
 * the source, settings of agents.
 */
void launch_say_hidden(const struct launch *l);

/* Are there other mounts below the source, in no grant? */
bool launch_has_mounts(const struct launch *l);

/* Says which other mounts below the source the task saw empty, if any. */
void launch_say_mounts(const struct launch *l);

/* Says where the repository of a source is that has a link to it alone. */
void launch_say_git_link(const struct launch *l);

/*
 * Does everything up to a running keeper. On failure nothing is left but, where
 * the task existed already, its record. The text is for the user.
 */
int launch_start(struct launch *l, const struct options *o, bool stay,
		 struct error *err);

/*
 * Makes the directories of the task's changes (l->task_fd) and, where the
 * source is worked on as a copy, that copy: with its progress on a terminal. A
 * signal that was noted (front_catch_signals) ends it with -EINTR. For
 * launch_start.
 */
int launch_layers(struct launch *l, struct error *err);

/* Names each --env NAME that the caller has not, for it is left out. */
void launch_say_unset(const struct options *o);

/*
 * Environment of a command: from nothing, by the policy. s->tool_env gives PATH
 * and what tool chains need. 0 or negative.
 */
int launch_environment(const struct policy *p, const struct sandbox_spec *s,
		       bool tty, struct strlist *ret, struct error *err);

/* Directory of pinfold's other programs; the caller's to free. NULL: none. */
char *launch_programs(void);

/* Prints "pinfold: TEXT" and returns EXIT_REFUSED. */
int launch_refuse(const struct error *err);

/* Flags of enum exec_flag from -n, -t, -T and what 0, 1 and 2 are. */
uint32_t launch_exec_flags(const struct options *o);

/*
 * Ends a task whose start or whose keeper failed, waits for the keeper and
 * removes what it left. Safe after a launch_start that failed.
 */
void launch_abandon(struct launch *l);

/* Called when the keeper of this task died: removes what it left. */
void launch_clean_lost(void *arg, const char *id, int task_fd);

#endif
