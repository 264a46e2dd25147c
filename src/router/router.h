/* The router of one NATS account: takes requests, has core choose, carries the choice out on two
 * lanes, relays answers, keeps the ledger. Thread: the loop's, for every function. Blocking: never.
 */
#ifndef ROUTER_ROUTER_H
#define ROUTER_ROUTER_H

#include "waybill/status.h"

struct loop;
struct router;
struct router_settings;

/* settings must outlive the router. NULL: `why` says what failed. */
struct router *router_create(struct loop *loop, const struct router_settings *settings,
                             char why[256]);
/* Starts connecting; a NATS server that is away is retried for ever. WB_IO: the monitor's address
 * can't be had (logged). */
WB_MUST_USE wb_status router_start(struct router *router);
/* Stops taking requests, finishes what is in flight within drain_ms, flushes attributions; then
 * calls done once. A second call ends it at once. */
void router_drain(struct router *router, void (*done)(void *arg), void *arg);
void router_destroy(struct router *router); /* takes NULL */

#endif
