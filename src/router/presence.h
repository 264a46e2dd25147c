/* Presence: heartbeats in, announce out, and the checks whether no_responders can be believed. See
 * presence.c. */
#ifndef ROUTER_PRESENCE_H
#define ROUTER_PRESENCE_H

#include "router/state.h"

struct presence *presence_create(struct router *r);
void presence_destroy(struct presence *p);
void presence_on_heartbeat(void *arg, const struct lane_message *m);
void presence_up(struct presence *p, mono now); /* the back lane is up: announce and check */
void presence_down(struct presence *p);
void presence_on_inbox(struct presence *p, struct span token, const struct lane_message *m,
                       mono now);
bool presence_captures(const struct presence *p,
                       struct span stream); /* does this stream capture worker subjects? */
void presence_check_streams(
    struct presence *p); /* check (b); relay_suspects of all waiting follows */
void presence_suspect(struct presence *p, struct transit *t); /* t waits for check (b) */
void presence_forget(struct presence *p, struct transit *t);

#endif
