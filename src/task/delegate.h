/*
 * A control group that systemd delegates: where the caller's own group lets
 * nothing be made beside it, as in a login session, systemd is asked for a
 * scope that holds a task's keeper and is the keeper's to divide.
 */
#ifndef PINFOLD_TASK_DELEGATE_H
#define PINFOLD_TASK_DELEGATE_H

#include "base/buf.h"
#include "base/error.h"

#include <sys/types.h>

/*
 * Asks systemd (the user's, or for root the machine's) to put the process into
 * a new scope pinfold-ID.scope with Delegate=yes, and waits until it is there,
 * five seconds at most. The scope ends with its last process. 0, or negative
 * with the reason; the process is then where it was.
 */
int delegate_scope(pid_t pid, const char *id, struct error *err);

/*
 * 0 if such a scope would outlive the caller's last logout: root's does, a
 * user's with its systemd alone, which goes then unless the user lingers. Else
 * -EOPNOTSUPP with the command that changes it.
 */
int delegate_lasts(const char *user, struct error *err);

/* 0 where there is a bus to ask systemd on; negative with the reason. */
int delegate_reachable(struct error *err);

/* The arguments of the call (StartTransientUnit) and their signature. */
#define DELEGATE_SIGNATURE "ssa(sv)a(sa(sv))"
void delegate_arguments(struct buf *args, const char *scope, pid_t pid);

#endif
