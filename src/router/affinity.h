/* Affinity: core's sessions carried out: requests wait and are woken, the shared bucket is read,
 * written and watched through the store. See affinity.c. */
#ifndef ROUTER_AFFINITY_H
#define ROUTER_AFFINITY_H

#include "router/state.h"
#include "store/store.h"

/* Once the services are known. *out stays NULL where none has sessions. False: no memory. */
bool affinity_create(struct router *r, struct affinity **out);
void affinity_destroy(struct affinity *affinity); /* takes NULL; transits must be gone */
/* The bucket that the store should keep. False: there are no sessions. */
bool affinity_bucket(const struct affinity *affinity, struct store_bucket *out);

/* The transit belongs to the session of this name, which must live as long. Without memory it goes
 * unbound (logged). Nothing where the service has no sessions. */
void affinity_attend(struct transit *t, struct span session);
/* The session's name as the client gave it; empty: none. */
struct span affinity_name(const struct transit *t);
/* In place of request_choose for a transit that attends a session: enters, waits, chooses. */
void affinity_start(struct transit *t, mono now);
/* It waited for its session, and the time is over. */
void affinity_late(struct transit *t, mono now);
void affinity_answered(struct transit *t, mono now); /* the first answer is in */
void affinity_leave(struct transit *t, mono now);    /* its request is over; idempotent */
void affinity_forget(struct transit *t);             /* after leave: frees its part */
/* What its session would ask of the choice; for advice. False: nothing. */
bool affinity_look(const struct transit *t, struct pin *out, mono now);

/* Ends each turn of the loop: wakes those that may go on, sends what the bucket should hear.
 * Returns when it is due again. */
mono affinity_turn(struct affinity *affinity, mono now);
bool affinity_has_more(const struct affinity *affinity); /* for another turn; takes NULL */

/* store's events */
void affinity_on_bucket(struct affinity *affinity, bool there, mono now);
void affinity_on_done(struct affinity *affinity, uint64_t token, wb_status status,
                      const struct store_entry *entry, mono now);
void affinity_on_watch(struct affinity *affinity, enum store_watch_event event, bool another,
                       const struct store_entry *entry, mono now);

/* control's and metrics' */
struct sessions *affinity_sessions(const struct affinity *affinity); /* NULL: none */
bool affinity_unbind(struct affinity *affinity, struct span service, struct span session, mono now);

#endif
