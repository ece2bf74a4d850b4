/* The network of a new network namespace. */
#ifndef PINFOLD_CONFINE_NET_H
#define PINFOLD_CONFINE_NET_H

#include "base/error.h"

/*
 * Brings the loopback interface of the calling thread's network namespace up;
 * the kernel then gives it 127.0.0.1 and ::1. Needs CAP_NET_ADMIN over it.
 * 0 or negative.
 */
int net_loopback_up(struct error *err);

#endif
