/* HTTP /metrics and /healthz, by libmicrohttpd driven from the loop. */
#ifndef ROUTER_MONITOR_H
#define ROUTER_MONITOR_H

#include "router/state.h"

struct monitor *monitor_open(struct router *r, const char *listen, char why[256]);
void monitor_close(struct monitor *m); /* takes NULL */

#endif
