/*
 * A task's plan: what the command line decided, in one sealed memory file that
 * the keeper reads once.
 */
#ifndef PINFOLD_TASK_PLAN_H
#define PINFOLD_TASK_PLAN_H

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "tier/spec.h"

#define PLAN_MAX (64u << 20) /* bytes of a packed plan */
#define PLAN_VERSION 1

/* Descriptors that a keeper is started with. */
enum keeper_fd {
	KEEPER_FD_CHANNEL = 3, /* to the front end */
	KEEPER_FD_PARENT,      /* pidfd of the front end */
	KEEPER_FD_COUNT,
	/* Where it puts the task's lock, so that it can be told by it. */
	KEEPER_FD_LOCK = 200,
};

struct task_plan {
	struct sandbox_spec spec;
	bool stay;            /* outlives its front end (pinfold start) */
	uint32_t caller_uid;
	uint64_t grace_ms;    /* between SIGTERM and SIGKILL */
	uint64_t log_max;     /* bytes of output kept for each exec */
	char *socket_path;    /* where exec, stop, kill reach it; NULL: nowhere */
	char *task_path;      /* the task's directory, absolute */
	/* For the record. */
	struct strlist argv, labels;
	char *workdir;
	char *policy_name;
	char policy_digest[SHA256_HEX_SIZE];
	char hidden_digest[SHA256_HEX_SIZE]; /* "": no such list */
	uint64_t started_us;
	/*
	 * The keeper is in a cgroup that was delegated to it; else, if the
	 * caller has none at hand, why not.
	 */
	bool delegated;
	char *no_group;
};

void plan_done(struct task_plan *p);
int plan_pack(const struct task_plan *p, struct buf *b);
/* data must outlive nothing: everything is copied. 0, -EPROTO, -ENOMEM. */
int plan_unpack(const char *data, size_t len, struct task_plan *ret,
		struct error *err);

#endif
