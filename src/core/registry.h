/* All services' pools and their workers; what heartbeats, silence and NATS say of them; and the
 * choice among those free. discovered >= routable >= free (spec section 1). Choosing costs O(log n)
 * in the pool's workers.
 *
 * Thread: the loop's. Blocking: never. Time is an argument. */
#ifndef CORE_REGISTRY_H
#define CORE_REGISTRY_H

#include "core/charge.h"
#include "core/worker.h"
#include "waybill/status.h"

struct registry;
struct pool;

enum policy_kind {
    POLICY_ROUND_ROBIN,
    POLICY_RANDOM,
    POLICY_POWER_OF_TWO,
    POLICY_LEAST_LOADED,
    POLICY_DEVICE_WEIGHTED,
    POLICY_HASH,
    POLICY_DIRECT,
    POLICY_COUNT
};
const char *policy_name(enum policy_kind kind);
bool policy_from_name(struct span name, enum policy_kind *out);

enum worker_event { /* for log, counters and <prefix>.event.<kind> */
                    WORKER_EVENT_JOINED,
                    WORKER_EVENT_EPOCH,
                    WORKER_EVENT_LEFT,
                    WORKER_EVENT_LOST,
                    WORKER_EVENT_DRAINING,
                    WORKER_EVENT_EJECTED,
                    WORKER_EVENT_RESTORED,
                    WORKER_EVENT_DUPLICATE,
                    WORKER_EVENT_COUNT
};
const char *worker_event_name(enum worker_event event); /* joined, new_epoch, left, lost, draining,
                                                           ejected, restored, duplicate_worker */

struct registry_events {
    /* The attempt's worker ended (left, lost, new epoch). Charges are handed over one by one, still
     * held; the callee ends the attempt with CAUSE_LOST and so releases the charge. Streams that
     * have begun are not handed over when intervals were missed (they run on under their clock),
     * but are on `leaving` and on a new epoch. `begun` of a charge's owner is asked through
     * attempt_begun. */
    void (*attempt_lost)(void *arg, struct charge *charge, mono now);
    bool (*attempt_begun)(void *arg, const struct charge *charge); /* has had its first answer */
    void (*worker)(void *arg, struct worker *w, enum worker_event event, mono now);
    /* A worker is overdue: does the link still bring anything? The callee finds out, and says so by
     * registry_link_proved; until then nobody is lost. Asked again while it is open. NULL: the link
     * is always believed. */
    void (*prove_link)(void *arg, mono now);
};

struct registry_options {
    uint32_t max_workers;  /* over all pools; 16384 */
    uint64_t worker_bytes; /* 16 MiB */
    uint64_t seed;
    struct registry_events events;
    void *arg;
};
struct registry *registry_create(const struct registry_options *options);
void registry_destroy(struct registry *registry);

struct pool_options {
    const char *name; /* service; copied */
    enum policy_kind policy;
    uint32_t ratio;  /* device_weighted; 8 */
    bool heartbeats; /* accept workers that are not in the config */
    bool eject_enabled;
    uint32_t max_attempts;   /* 3; at most REQUEST_TRIED_MAX */
    uint32_t budget_percent; /* 20 */
    bool idempotent;         /* default of Waybill-Idempotent */
    uint32_t queue_limit;    /* requests that may wait; 0: none */
    int64_t queue_wait_ms;   /* how long each */
    bool adapters_load;      /* who has a free slot may be asked to load an adapter */
};
struct pool *
registry_add_pool(struct registry *registry,
                  const struct pool_options *options); /* NULL: no memory or name taken */
struct pool *registry_pool(const struct registry *registry, struct span service);
const char *pool_name(const struct pool *pool);
const struct pool_options *pool_options(const struct pool *pool);
struct registry *pool_registry(const struct pool *pool);

struct static_worker {
    const char *id, *subject, *cancel_subject; /* copied; cancel_subject NULL: none */
    uint32_t weight, capacity, ranks;
    const char *class_name; /* NULL: none */
    const char *const *adapters;
    uint32_t adapter_count;
    bool follows_heartbeats;
};
WB_MUST_USE wb_status pool_add_static(struct pool *pool, const struct static_worker *entry,
                                      mono now);

/* A heartbeat, already decoded and checked by wire; strings are copied. others = other routers'
 * attempts as section 7 counts them: if has_others is false, max(0, inflight - own) is used. It
 * counts for two intervals, at least 1 s, then it is unknown, as none, until the next heartbeat.
 * counts_ours: it says how many attempts of this router it has. */
struct worker_report {
    struct span id;
    struct span subject, cancel_subject; /* of a worker not in the config; copied when it is new */
    int64_t epoch;
    enum worker_state state;
    uint32_t interval_ms, capacity, inflight, queued, others, weight, ranks, adapter_slots;
    bool has_others, counts_ours, has_adapters, has_meta;
    struct span class_name;
    const struct span *adapters;
    uint32_t adapter_count;
    struct span meta;
};
enum report_result {
    REPORT_NEW,
    REPORT_UPDATED,
    REPORT_NEW_EPOCH,
    REPORT_LEFT,
    REPORT_STALE_EPOCH,
    REPORT_IGNORED_STATIC,
    REPORT_NOT_ACCEPTED,
    REPORT_FULL,
    REPORT_NO_MEMORY
};
/* A worker whose first word is `leaving` is not added (REPORT_LEFT). A fresh heartbeat restores an
 * ejection after no_responders. */
enum report_result pool_report(struct pool *pool, const struct worker_report *report, mono now);

struct worker *pool_find(const struct pool *pool,
                         struct span id); /* discovered or static; NULL otherwise */
uint32_t pool_discovered(const struct pool *pool);
uint32_t pool_routable(const struct pool *pool);
uint32_t pool_free(const struct pool *pool);
void pool_each(struct pool *pool, void (*fn)(void *arg, struct worker *w),
               void *arg); /* fn changes nothing */
void registry_each_pool(struct registry *registry, void (*fn)(void *arg, struct pool *pool),
                        void *arg);

/* Any message from the worker: its missed intervals count anew. */
void worker_alive(struct worker *w, mono now);
/* Ejects after no_responders: until `1 s` passed or a heartbeat comes. */
void worker_eject(struct worker *w, mono now);
/* Marks after a refusal: not free until then or a new epoch. */
void worker_overloaded(struct worker *w, mono until, mono now);

/* Runs what is due: missed intervals, ends of ejections, of marks, of what is known of
 * others. Returns when it is due next. Call when that time comes. */
mono registry_run(struct registry *registry, mono now);
mono registry_next(const struct registry *registry);
/* While the link is down (or the loop was late) no interval is missed; on `up` a full period begins
 * for all. */
void registry_link(struct registry *registry, bool up, mono now);
/* All that the server had for us until `since` has arrived: who was overdue by then is lost, at the
 * next registry_run. */
void registry_link_proved(struct registry *registry, mono since, mono now);

struct choice {
    struct span key;             /* hash */
    struct span adapter;         /* empty: none; else only those that hold it, or who loads it */
    struct worker *const *tried; /* excluded */
    unsigned tried_count;
};
/* By the pool's policy among the free workers outside `tried`; the choice is not yet charged. NULL:
 * none. peek: no cursor moves and no state of the policy changes (advise). */
struct worker *pool_choose(struct pool *pool, const struct choice *choice, bool peek, mono now);
/* Are there routable workers outside `tried`, free or not, that this choice permits? */
bool pool_has_untried(struct pool *pool, const struct choice *choice);
/* When may a worker be free again for all we know: the earliest mark, or 1 s; where requests wait,
 * no sooner than one that came now would be served by the recent rate. At most 60000. For
 * Retry-After. */
int64_t pool_retry_after_ms(struct pool *pool, mono now);
/* The retry budget: note each request; ask before each retry that costs budget. */
void pool_note_request(struct pool *pool, mono now);
bool pool_take_retry(struct pool *pool, mono now);
/* Seeded chance for back-off jitter. */
uint64_t registry_random_below(struct registry *registry, uint64_t n);

#endif
