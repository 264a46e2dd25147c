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
#include "core/adapter.h"
#include "core/policy.h"
#include "core/queue.h"
#include "core/registry.h"

#define WORKER_MAGIC 0x776f726bu
#define POOL_MAGIC 0x706f6f6cu
#define MISSED_INTERVALS 3
#define EJECT_MS 1000
#define RESTORE_AGAIN_MS 60000 /* a heartbeat restores no sooner again */
#define BUDGET_SECONDS 10
#define BUDGET_FLOOR 3                      /* retries a second, whatever the share */
#define KEY_SEED UINT64_C(0x77617962696c6c) /* the same in every router */
#define ADAPTERS_MAX 65536                  /* names of a pool */
#define ADAPTERS_IDLE_MAX 256               /* of these, in nobody's hands */
#define ADAPTERS_ASKED_MAX 1024             /* of these, with a policy's state of their own */

/* Those that wait for one field: any worker of a pool, or one worker. */
struct waiting {
    struct ticket *lines[PRIORITIES];
    uint32_t count;
    uint8_t passed_over[PRIORITIES]; /* by higher priorities since its last turn */
};

/* A pool's waiting requests (queue.c). */
struct queue {
    struct waiting any;
    uint32_t count; /* in all fields */
    uint64_t last_number;
    mono moved_at;          /* last grant, or when somebody began to wait after nobody did */
    int64_t between_us;     /* smoothed time between grants; 0: none yet */
    uint64_t passed_most;   /* no worker has passed over a higher number */
    uint32_t generation;    /* another: what workers remember to have passed is void */
    uint32_t most_excluded; /* no waiting request excludes more workers */
    uint32_t for_adapters;  /* of those that wait for any, with an adapter */
    bool looked_at;         /* on registry->looks; looked through up to here: */
    unsigned look;
    uint64_t looked_up_to;
    struct pool *next_look;
};

struct worker_private {
    struct deadline silence;    /* its intervals are missed */
    mono overdue_at;            /* when they were, while the link is not proved; 0: they are not */
    struct deadline recheck;    /* end of ejection or of the overload mark, whichever is first */
    struct deadline others_end; /* what it said of other routers' attempts is too old */
    mono restored_at;
    struct link ejected; /* on pool->ejected */
    struct list ending;  /* charges of an ended epoch, not yet handed over */
    struct worker *worker;
    struct waiting own;          /* requests that wait for this one */
    uint64_t passed[PRIORITIES]; /* up to these numbers the pool's lines exclude it */
    uint32_t passed_generation;
    struct worker *noted_before, *noted_behind; /* in registry->noted, while noted */
    bool noted;
    bool told;                        /* those that wait for it alone are to be looked through */
    bool restored;                    /* by a heartbeat, at restored_at */
    bool counts_ours;                 /* it has told how many of ours it has, in this epoch */
    struct worker_adapters *adapters; /* NULL: it holds none and has no slots */
};

#define WORKER_LINE 64
/* One block, which begins on a line. */
struct worker_whole {
    struct worker worker;
    struct worker_private priv;
};

/* A worker and an adapter. Held: in a slot of the adapter, and on the worker's watched list while
 * the adapter has been asked for. Loading: on the adapter's list of those, while requests for it
 * are in flight on the worker, which does not hold it (yet, or any more). */
struct holding {
    struct adapter *adapter;
    struct worker *worker;
    uint32_t index; /* in the adapter's slots; TREE_NONE: loading */
    uint32_t in_flight;
    int64_t mark;                /* as told to the adapter's marks, us; 0: none */
    struct holding *next, *prev; /* of one of the two lists */
};

/* A worker's half. Made with the first adapter or slot it speaks of, gone with the worker. */
struct worker_adapters {
    struct holding **holdings; /* held or loading, by the adapters' addresses */
    uint32_t count;
    uint32_t loading;        /* of these, adapters that it does not hold: each takes a slot */
    struct holding *watched; /* held, and the adapter has been asked for: told of each change */
    uint32_t loader;         /* place in pool->loaders; TREE_NONE: not there */
    bool partial;            /* not all that it said found room */
};

struct adapter_list {
    struct adapter *first, *last;
    uint32_t count;
};

/* Which of a pool's workers an adapter is loaded by, as found out last. */
struct loader_memo {
    uint64_t round; /* of pool->loader_round; another: not valid */
    struct worker *best;
    size_t name_len;
    char name[WB_LONG_NAME_MAX];
};
#define LOADER_MEMOS 64 /* a power of two */

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
    uint64_t own, others; /* attempts at all its workers, ours and as heard of other routers */
    struct list ejected;  /* oldest first */
    struct worker *last_resort; /* routable though ejected, because all are */
    const struct policy *policy;
    void *policy_state;
    struct min_tree marks; /* ends of overload marks by index */
    uint32_t marked;
    struct rng rng;
    struct budget_second budget[BUDGET_SECONDS];
    struct queue queue;
    struct map *adapters; /* by name */
    struct adapter_list known, idle;
    struct adapter *asked_newest, *asked_oldest;
    uint32_t asked;
    uint64_t left_out;
    struct worker **loaders; /* routable with a free slot; room for all slots */
    uint32_t loader_count;
    uint64_t loader_round; /* moves on when somebody comes or goes who may load */
    struct loader_memo *memos;
};

struct registry {
    struct registry_options options;
    struct map *by_name;
    struct pool *pools;
    struct deadlines *deadlines;
    struct rng rng;
    uint32_t workers;     /* listed, over all pools */
    struct worker *noted; /* free, or gone, where requests may wait for it */
    struct pool *looks;   /* where some may wait in vain, or for the wrong worker */
    bool link_down;
    mono proved_until; /* all that was sent to us before is here */
};

/* worker.c */
struct worker *worker_create(struct pool *pool, struct span id);
bool worker_admits(const struct worker *w); /* known and taking new requests, ejected or not */
bool worker_has_room(const struct worker *w, uint32_t own,
                     mono now); /* own: charges not to count */

/* registry.c: listing */
wb_status pool_list(struct pool *pool, struct worker *w);
void pool_unlist(struct pool *pool, struct worker *w);
/* The listed worker of the same id, which may be another object; NULL: none in this pool. */
struct worker *pool_present(const struct pool *pool, struct worker *w);

/* health.c */
void worker_changed(struct worker *w, mono now); /* tells pool and policy after any change */
void worker_event(struct worker *w, enum worker_event event, mono now);
void worker_silence_due(struct deadline *d, mono now);
void worker_overdue_again(struct worker *w, mono now); /* due at once, if it is overdue */
void worker_recheck_due(struct deadline *d, mono now);
WB_MUST_USE wb_status worker_listen(struct worker *w, mono now); /* a full period begins */
void worker_restore(struct worker *w, mono now);                 /* idempotent */
void worker_clear_mark(struct worker *w);
void worker_forget_ejection(struct worker *w); /* without an event */
/* Not discovered any more; a static one stays listed. Attempts end, begun ones only if `begun_too`.
 */
void worker_depart(struct worker *w, enum worker_event event, bool begun_too, mono now);

/* others.c */
/* A heartbeat's word of other routers' attempts; it is forgotten when it is too old. */
void worker_put_others(struct worker *w, uint32_t others, mono now);
void worker_forget_others(struct worker *w); /* unknown: counts as none */
void worker_others_due(struct deadline *d, mono now);

/* queue.c */
void queue_worker_changed(struct worker *w,
                          mono now);       /* after each change, if any wait in its pool */
void queue_pool_shrank(struct pool *pool); /* one routable less */
void queue_forget(struct worker *w);       /* at its end */
/* bound: it would wait for its session's worker, which it may where there is no queue too. */
bool queue_has_room(const struct request *rq, bool bound);
/* Into the queue, at its old place if it has waited before. only NULL: any worker of the pool. */
void queue_join(struct request *rq, struct worker *only, mono now);
void queue_leave(struct request *rq);
/* It had the turn at the worker that queue_next looked at last and could not use it, for want of
 * memory: let others see. */
void queue_pass_on(const struct request *rq);
/* When might one that came now be served, by the recent rate; 0: nobody waits. At most 60000. */
int64_t queue_retry_after_ms(const struct pool *pool, mono now);

/* Who holds or may load adapters has changed: some who wait for one may go elsewhere now, or
 * nowhere. */
void queue_adapters_changed(struct pool *pool);
/* What the worker offers has changed, or it is not routable any more: some who wait for it alone
 * may do so in vain. */
void queue_worker_told(struct worker *w);

/* request_candidates.c, for the queue */
/* It would not be given this free worker: it failed there otherwise than by a refusal, or is to
 * avoid it while there is another one, or its adapter is for others. */
bool request_excludes(const struct request *rq, const struct worker *w);
/* With at most so many routable workers it may have nobody left, or nobody but the avoided one. */
unsigned request_excluded_count(const struct request *rq);
bool request_may_hope(const struct request *rq); /* somebody it does not exclude is routable */
/* It waits for this worker alone, which will never serve it as things stand. */
bool request_waits_in_vain(const struct request *rq, const struct worker *w);
/* The one that only others kept it from: it avoids it, and nobody else is left untried. NULL: no
 * such one. */
struct worker *request_left_with(const struct request *rq);
/* The ones who are to load its adapter, if nobody routable holds it, by the two rules of
 * choosing; NULL: none. */
void request_loaders(const struct request *rq, struct worker *out[2]);

/* charge.c */
void charge_end_epoch(struct worker *w,
                      bool begun_too);             /* moves them from the counts to `ending` */
void charge_hand_over(struct worker *w, mono now); /* tells the owners of those in `ending` */

/* adapter.c */
bool adapters_init(struct pool *pool);
void adapters_fini(struct pool *pool); /* after the last worker was dropped */
struct adapter *adapter_find(const struct pool *pool, struct span name);
struct span adapter_name(const struct adapter *adapter);
struct holding *adapter_loading(const struct adapter *adapter); /* list of those that load it */
struct holding *holding_find(const struct worker *w, const struct adapter *adapter);
void holding_enter(struct holding *h); /* one more in flight */
void holding_leave(struct holding *h); /* one less; may free it */
/* The choice among its holders, or of who loads it; pool_has_untried's other half likewise. */
struct worker *adapter_choose(struct pool *pool, const struct choice *choice,
                              struct policy_pick *pick);
bool adapter_has_untried(struct pool *pool, const struct choice *choice);
/* Is the worker among those that its requests may go to, were it free and the best of them? */
bool adapter_permits(struct pool *pool, struct span name, const struct worker *w);
/* Who loads it, free or not, where no routable worker holds it; NULL: nobody. */
struct worker *adapter_loader(struct pool *pool, const struct choice *choice);
/* What a worker is about to hold, with all memory it needs; commit can't fail. Between the two the
 * worker may lose what it is loading, but nothing that it holds. */
struct holdings_plan {
    struct planned {
        struct adapter *adapter;
        struct holding *fresh; /* NULL: held already */
    } * planned;
    struct holding **room; /* for all it will have */
    struct worker_adapters *half;
    uint32_t count;
    bool partial;
};
bool holdings_prepare(struct holdings_plan *plan, struct pool *pool, struct worker *w,
                      const struct span *names, uint32_t count, bool slots);
void holdings_commit(struct holdings_plan *plan, struct worker *w);
void holdings_plan_fini(struct holdings_plan *plan); /* committed or not */
void holdings_drop(struct worker *w);                /* it holds nothing any more */
void holdings_fini(struct worker *w);                /* at its end */
/* Part of worker_changed, for a worker that has a half; was_: as counted until now. */
void holdings_changed(struct worker *w, const struct policy_item *item, bool was_routable,
                      bool was_free);

/* adapter_load.c: who loads what nobody holds */
/* Puts the worker among the loaders or takes it off. */
void loader_settle(struct worker *w);
void loader_remove(struct worker *w);
/* The best for this adapter outside `tried`, whether free or not; NULL: nobody may load it. */
struct worker *loader_best(struct pool *pool, struct span name, const struct choice *choice);
void loader_forget(struct pool *pool, struct span name); /* who loads this one has changed */
bool worker_has_slot(const struct worker *w);

#endif
