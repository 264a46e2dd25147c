/* The NATS micro protocol (ADR-32): routers answer PING, INFO and STATS, so that `nats micro` sees
 * them. See micro.c. */
#ifndef ROUTER_MICRO_H
#define ROUTER_MICRO_H

#include "router/state.h"

void micro_start(struct router *r); /* subscribes; once, at the router's creation */

#endif
