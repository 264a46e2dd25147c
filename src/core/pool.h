/* Private to core: how registry, pools and workers hang together.
 *
 * A worker is listed (in its pool's map and at an index of its slots) or not; only listed ones are
 * told to the policy. A static worker stays listed for ever; another is listed while discovered. A
 * worker that is not listed lives on while referenced. */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "base/deadline.h"
#include "base/map.h"
#include "base/rng.h"
#include "core/policy.h"
#include "core/registry.h"

#define WORKER_MAGIC 0x776f726bu
#define POOL_MAGIC 0x706f6f6cu
#define MISSED_INTERVALS 3
#define EJECT_MS 1000
#define RESTORE_AGAIN_MS 60000 /* a heartbeat restores no sooner again */
#define BUDGET_SECONDS 10
#define BUDGET_FLOOR 3 /* retries a second, whatever the share */

struct worker_private {
    struct deadline silence; /* its intervals are missed */
    struct deadline recheck; /* end of ejection or of the overload mark, whichever is first */
    mono restored_at;
    struct link ejected; /* on pool->ejected */
    struct list ending;  /* charges of an ended epoch, not yet handed over */
    struct worker *worker;
    size_t id_len;
    bool restored; /* by a heartbeat, at restored_at */
};

#define WORKER_LINE 64
/* One block, which begins on a line. */
struct worker_whole {
    struct worker worker;
    struct worker_private priv;
};

struct budget_second {
    int64_t second;
    uint32_t requests, retries;
};

struct pool {
    unsigned magic;
    struct registry *registry;
    struct pool *next;
    struct pool_options options;
    char name[WB_NAME_MAX + 1];
    struct map *by_id;
    struct worker **slots;
    uint32_t *vacant; /* indexes given back */
    uint32_t slots_size, slots_used, vacant_count;
    uint32_t candidates, routable, free;
    struct list ejected;        /* oldest first */
    struct worker *last_resort; /* routable though ejected, because all are */
    const struct policy *policy;
    void *policy_state;
    struct min_tree marks; /* ends of overload marks by index */
    uint32_t marked;
    struct rng rng;
    struct budget_second budget[BUDGET_SECONDS];
};

struct registry {
    struct registry_options options;
    struct map *by_name;
    struct pool *pools;
    struct deadlines *deadlines;
    struct rng rng;
    uint32_t workers; /* listed, over all pools */
    bool link_down;
};

/* worker.c */
struct worker *worker_create(struct pool *pool, struct span id);
bool worker_admits(const struct worker *w); /* known and taking new requests, ejected or not */
bool worker_has_room(const struct worker *w, uint32_t own,
                     mono now); /* own: charges not to count */

/* registry.c: listing */
wb_status pool_list(struct pool *pool, struct worker *w);
void pool_unlist(struct pool *pool, struct worker *w);

/* health.c */
void worker_changed(struct worker *w, mono now); /* tells pool and policy after any change */
void worker_event(struct worker *w, enum worker_event event, mono now);
void worker_silence_due(struct deadline *d, mono now);
void worker_recheck_due(struct deadline *d, mono now);
WB_MUST_USE wb_status worker_listen(struct worker *w, mono now); /* a full period begins */
void worker_restore(struct worker *w, mono now);                 /* idempotent */
void worker_clear_mark(struct worker *w);
void worker_forget_ejection(struct worker *w); /* without an event */
/* Not discovered any more; a static one stays listed. Attempts end, begun ones only if `begun_too`.
 */
void worker_depart(struct worker *w, enum worker_event event, bool begun_too, mono now);

/* charge.c */
void charge_end_epoch(struct worker *w,
                      bool begun_too);             /* moves them from the counts to `ending` */
void charge_hand_over(struct worker *w, mono now); /* tells the owners of those in `ending` */

#endif
