/* A worker as the router knows it. Identity is (service, id); the object lives while the worker is
 * discovered or somebody holds a reference (a request that tried it), so a name in `tried` outlives
 * the worker. Fields are read freely on the loop thread and written only by core. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/span.h"
#include "waybill/types.h"

struct pool;

/* What the worker says of itself. */
enum worker_state { WORKER_READY, WORKER_BUSY, WORKER_DRAINING, WORKER_LEAVING };
/* What the router found out. Combined with the above by worker_standing (the truth table stands
 * there). */
enum worker_health { WORKER_HEALTHY, WORKER_EJECTED };
enum worker_standing {
    STANDING_UNKNOWN,
    STANDING_DRAINING,
    STANDING_EJECTED,
    STANDING_BUSY,
    STANDING_FULL,
    STANDING_OVERLOADED,
    STANDING_FREE
};

/* The first line (64 bytes) is what each choice and charge touches, the second what else a request
 * asks of its worker: among thousands of workers none of it is in a near cache. */
struct worker {
    unsigned magic;
    unsigned refs;
    struct pool *pool;
    struct list charges; /* all on it, of any epoch */
    uint32_t capacity, weight;
    uint32_t occupancy; /* own charged attempts of the present epoch */
    uint32_t others;    /* other routers' attempts, from the last heartbeat; 0: or unknown */
    uint64_t bytes_out; /* sent and not yet answered */
    uint32_t index;     /* in the pool, while listed */
    enum worker_state state : 8;
    enum worker_health health : 8;
    bool discovered : 1; /* false: lost, gone, or a static one lost until heard again; kept only by
                            references or by the config */
    bool listed : 1;
    bool candidate : 1; /* takes new requests and is healthy; counted in pool->candidates */
    bool routable : 1;  /* this and the next: as counted in the pool and told to the policy */
    bool free : 1;
    bool cpu : 1;       /* class */
    bool marked : 1;    /* overloaded_until is set */
    bool is_static : 1; /* stands in the config */
    bool follows_heartbeats : 1;
    bool heard : 1; /* a heartbeat of the present epoch was accepted */
    bool told : 1;  /* and one of them, or the config, said what it holds */
    bool holds : 1; /* priv->adapters is set: they are told what changes too */

    int64_t epoch;
    mono overloaded_until; /* zero: no mark */
    struct worker_private *priv;
    char *subject;        /* where requests go; owned */
    char *cancel_subject; /* owned; NULL: no cancel is sent */
    uint64_t served;      /* this, refused and failed: counts for show.workers */
    uint16_t interval_ms; /* at most 60000 */
    uint16_t ranks, next_rank, subject_len;
    uint32_t own_then;    /* occupancy at the last heartbeat */
    uint16_t others_gain; /* what others add for each that we add since then (others.c) */
    uint8_t id_len;

    uint64_t refused, failed;
    char id[WB_NAME_MAX + 1];
    char class_name[WB_NAME_MAX + 1];
    char *meta;      /* JSON text or NULL; owned */
    char **adapters; /* owned */
    uint32_t adapter_count, adapter_slots;
    uint32_t reported_inflight, reported_queued;
    bool others_known; /* the word of them is not too old (OTHERS_AGE_*) */
    mono heard_at, ejected_until;
};

static inline struct span worker_name(const struct worker *w)
{
    return span_of(w->id, w->id_len);
}
static inline struct span worker_subject(const struct worker *w)
{
    return span_of(w->subject, w->subject_len);
}
enum worker_standing worker_standing(const struct worker *w, mono now);
const char *worker_standing_name(enum worker_standing standing);
const char *worker_state_name(enum worker_state state);
#define GAIN_ONE 16 /* others_gain is in parts of this */
/* What is known to be in flight there; decides whether it has room. */
static inline uint32_t worker_load_count(const struct worker *w)
{
    return w->occupancy + w->others;
}
/* The same as choices compare it: with what others have likely added since the last heartbeat. */
static inline uint32_t worker_load(const struct worker *w)
{
    int64_t since = (int64_t)w->occupancy - w->own_then, others;

    if (w->others_gain == 0 || since == 0)
        return worker_load_count(w);
    others = since * (int64_t)w->others_gain; /* in GAIN_ONEths, rounded to the nearest: */
    others = w->others + (others + (since > 0 ? GAIN_ONE : -GAIN_ONE) / 2) / GAIN_ONE;
    return w->occupancy + (others > 0 ? (uint32_t)others : 0);
}
void worker_ref(struct worker *w);
void worker_unref(struct worker *w); /* frees at zero when not discovered; takes NULL */

#endif
