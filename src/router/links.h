/* The lanes' events and subscriptions. See links.c. */
#ifndef ROUTER_LINKS_H
#define ROUTER_LINKS_H

#include "router/state.h"

void links_on_up(void *arg, struct lane *lane, unsigned reconnects);
void links_on_down(void *arg, struct lane *lane, wb_status why, const char *text);
void links_on_denied(void *arg, struct lane *lane, bool publish, struct span subject,
                     const char *text);
void links_on_drained(void *arg, struct lane *lane);
bool links_subscribe_own(struct router *r); /* false: no memory */
void links_leave(struct router *r);         /* the queue groups of all services */
void links_retry_denied(struct router *r, mono now);
void links_prove(void *arg, mono now); /* registry's question whether the back link still lives */
void links_worker_joined(struct router *r, const struct pool *pool, mono now);

/* The reply subject of a question of the router's own, and its length. `kind` tells on_inbox who
 * asked: a, r the ledger (acknowledgement, read); k recall (read); p, n presence (probe, stream
 * names). */
size_t links_inbox(const struct router *r, char kind, uint64_t handle, char out[INBOX_SIZE]);

#endif
