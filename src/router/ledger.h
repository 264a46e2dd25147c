/* The ledger: attribution records on their way to the bucket. See ledger.c. */
#ifndef ROUTER_LEDGER_H
#define ROUTER_LEDGER_H

#include "router/state.h"

struct ledger *ledger_create(struct router *r);
void ledger_destroy(struct ledger *ledger);
void ledger_start(struct ledger *ledger);
/* The first answer of t has arrived: record it with this outcome. code 0: none. Sets t->entry.
 * False: not taken (counted). */
bool ledger_first(struct transit *t, const char *outcome, int code, mono now);
/* The stream of t has ended. Clears t->entry. */
void ledger_end(struct transit *t, const char *outcome, int code, mono now);
/* The record of this key that stands here, written to the bucket or not: the newest one's value, a
 * view that is good until the ledger is told anything. False: none. */
bool ledger_newest(const struct ledger *ledger, struct span key, struct span *value);
/* Asks the bucket's leader for the record of this key; its answer comes on this router's inbox of
 * `kind` and `handle`. */
WB_MUST_USE wb_status ledger_ask(struct ledger *ledger, struct span key, char kind,
                                 uint64_t handle);
/* A message on the ledger's inbox whose last token is `token`. */
void ledger_on_inbox(struct ledger *ledger, struct span token, const struct lane_message *m,
                     mono now);
void ledger_link(struct ledger *ledger, bool up, mono now);
void ledger_bucket(struct ledger *ledger, bool there, mono now);
uint32_t ledger_backlog(const struct ledger *ledger);
uint64_t ledger_backlog_bytes(const struct ledger *ledger);
bool ledger_idle(const struct ledger *ledger); /* nothing waits for the bucket */

#endif
