/* Registry and pools: where workers are listed, what is due, and the choice.
 *
 * Indexes of a pool's slots are given back and taken again, so policies' tables stay as small as
 * the pool was large. Everything a choice needs is kept up to date by worker_changed (health.c);
 * choosing itself only asks the policy. One heap holds three deadlines for each worker. The budget
 * is a ring of whole seconds, so its window slides by seconds. */
#include "core/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

#define MAX_WORKERS 16384
#define WORKER_BYTES (UINT64_C(16) * 1024 * 1024)
#define MAX_POOLS 4096
#define LATE_US 100000 /* the smallest interval */
#define SLOTS_MIN 8

static const struct policy *const policies[POLICY_COUNT] = {
    [POLICY_ROUND_ROBIN] = &policy_round_robin,
    [POLICY_RANDOM] = &policy_random,
    [POLICY_POWER_OF_TWO] = &policy_power_of_two,
    [POLICY_LEAST_LOADED] = &policy_least_loaded,
    [POLICY_DEVICE_WEIGHTED] = &policy_device_weighted,
    [POLICY_HASH] = &policy_hash,
    [POLICY_DIRECT] = &policy_direct,
};

const char *policy_name(enum policy_kind kind)
{
    CHECK((unsigned)kind < POLICY_COUNT);
    return policies[kind]->name;
}

bool policy_from_name(struct span name, enum policy_kind *out)
{
    for (int kind = 0; kind < POLICY_COUNT; kind++) {
        if (span_eq_str(name, policies[kind]->name)) {
            *out = (enum policy_kind)kind;
            return true;
        }
    }
    return false;
}

const char *worker_event_name(enum worker_event event)
{
    static const char *const names[WORKER_EVENT_COUNT] = {"joined",   "new_epoch",       "left",
                                                          "lost",     "draining",        "ejected",
                                                          "restored", "duplicate_worker"};

    CHECK((unsigned)event < WORKER_EVENT_COUNT);
    return names[event];
}

struct registry *registry_create(const struct registry_options *options)
{
    struct registry *registry = calloc(1, sizeof(*registry));

    if (registry == NULL)
        return NULL;
    registry->options = *options;
    if (registry->options.max_workers == 0)
        registry->options.max_workers = MAX_WORKERS;
    if (registry->options.worker_bytes == 0)
        registry->options.worker_bytes = WORKER_BYTES;
    rng_seed(&registry->rng, options->seed);
    registry->by_name = map_create(MAX_POOLS);
    registry->deadlines = deadlines_create(3 * registry->options.max_workers);
    if (registry->by_name == NULL || registry->deadlines == NULL) {
        registry_destroy(registry);
        return NULL;
    }
    return registry;
}

static void pool_destroy(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->slots_used; i++) {
        struct worker *w = pool->slots[i];

        if (w == NULL)
            continue;
        deadline_cancel(pool->registry->deadlines, &w->priv->silence);
        deadline_cancel(pool->registry->deadlines, &w->priv->recheck);
        deadline_cancel(pool->registry->deadlines, &w->priv->others_end);
        holdings_drop(w);
        worker_ref(w);
        w->discovered = false;
        w->listed = false;
        worker_unref(w);
    }
    if (pool->policy != NULL)
        pool->policy->destroy(pool->policy_state);
    adapters_fini(pool);
    min_tree_fini(&pool->marks);
    map_destroy(pool->by_id);
    free(pool->slots);
    free(pool->vacant);
    free(pool);
}

void registry_destroy(struct registry *registry)
{
    struct pool *next;

    if (registry == NULL)
        return;
    for (struct pool *pool = registry->pools; pool != NULL; pool = next) {
        next = pool->next;
        pool_destroy(pool);
    }
    map_destroy(registry->by_name);
    deadlines_destroy(registry->deadlines);
    free(registry);
}

struct pool *registry_add_pool(struct registry *registry, const struct pool_options *options)
{
    struct span name = span_str(options->name);
    struct pool *pool, **last = &registry->pools;

    CHECK(name.len > 0 && name.len <= WB_NAME_MAX && options->policy < POLICY_COUNT);
    pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    MAGIC_SET(pool, POOL_MAGIC);
    list_init(&pool->ejected);
    pool->registry = registry;
    pool->options = *options;
    memcpy(pool->name, name.ptr, name.len);
    pool->options.name = pool->name;
    if (pool->options.max_attempts == 0)
        pool->options.max_attempts = 3;
    if (pool->options.max_attempts > POLICY_TRIED_MAX)
        pool->options.max_attempts = POLICY_TRIED_MAX;
    for (unsigned i = 0; i < BUDGET_SECONDS; i++)
        pool->budget[i].second = INT64_MIN;
    rng_seed(&pool->rng, rng_hash(name.ptr, name.len, registry->options.seed));
    pool->policy = policies[options->policy];
    pool->policy_state = pool->policy->create(options->ratio);
    pool->by_id = map_create(registry->options.max_workers);
    if (pool->policy_state == NULL || pool->by_id == NULL || !adapters_init(pool) ||
        map_put(registry->by_name, span_str(pool->name), pool) != WB_OK) {
        pool_destroy(pool);
        return NULL;
    }
    while (*last != NULL)
        last = &(*last)->next;
    *last = pool;
    return pool;
}

struct pool *registry_pool(const struct registry *registry, struct span service)
{
    return map_get(registry->by_name, service);
}

const char *pool_name(const struct pool *pool)
{
    return pool->name;
}

const struct pool_options *pool_options(const struct pool *pool)
{
    return &pool->options;
}

struct registry *pool_registry(const struct pool *pool)
{
    return pool->registry;
}

static wb_status pool_grow(struct pool *pool)
{
    uint32_t size = pool->slots_size > 0 ? 2 * pool->slots_size : SLOTS_MIN;
    struct worker **slots = realloc(pool->slots, size * sizeof(struct worker *)), **loaders;
    uint32_t *vacant;

    if (slots == NULL)
        return WB_NO_MEMORY;
    pool->slots = slots;
    vacant = realloc(pool->vacant, size * sizeof(*vacant));
    if (vacant == NULL)
        return WB_NO_MEMORY;
    pool->vacant = vacant;
    loaders = realloc(pool->loaders, size * sizeof(struct worker *));
    if (loaders == NULL)
        return WB_NO_MEMORY;
    pool->loaders = loaders;
    if (!min_tree_grow(&pool->marks, size) || !pool->policy->grow(pool->policy_state, size))
        return WB_NO_MEMORY;
    pool->slots_size = size;
    return WB_OK;
}

wb_status pool_list(struct pool *pool, struct worker *w)
{
    struct registry *registry = pool->registry;
    struct span id = worker_name(w);
    wb_status status;

    if (registry->workers >= registry->options.max_workers)
        return WB_FULL;
    if (pool->vacant_count == 0 && pool->slots_used == pool->slots_size) {
        status = pool_grow(pool);
        if (status != WB_OK)
            return status;
    }
    status = map_put(pool->by_id, id, w);
    if (status != WB_OK)
        return status;
    w->index = pool->vacant_count > 0 ? pool->vacant[--pool->vacant_count] : pool->slots_used++;
    pool->slots[w->index] = w;
    w->listed = true;
    registry->workers++;
    if (pool->policy->joined)
        pool->policy->joined(pool->policy_state, w->index, id);
    return WB_OK;
}

void pool_unlist(struct pool *pool, struct worker *w)
{
    CHECK(w->listed && !w->routable && pool->slots[w->index] == w);
    holdings_drop(w);
    if (pool->policy->left)
        pool->policy->left(pool->policy_state, w->index);
    CHECK(map_remove(pool->by_id, worker_name(w)) == w);
    pool->slots[w->index] = NULL;
    pool->vacant[pool->vacant_count++] = w->index;
    w->listed = false;
    pool->registry->workers--;
}

struct worker *pool_find(const struct pool *pool, struct span id)
{
    return map_get(pool->by_id, id);
}

uint32_t pool_discovered(const struct pool *pool)
{
    return map_count(pool->by_id);
}

uint32_t pool_routable(const struct pool *pool)
{
    return pool->routable;
}

uint32_t pool_free(const struct pool *pool)
{
    return pool->free;
}

void pool_each(struct pool *pool, void (*fn)(void *arg, struct worker *w), void *arg)
{
    for (uint32_t i = 0; i < pool->slots_used; i++)
        if (pool->slots[i] != NULL)
            fn(arg, pool->slots[i]);
}

void registry_each_pool(struct registry *registry, void (*fn)(void *arg, struct pool *pool),
                        void *arg)
{
    for (struct pool *pool = registry->pools; pool != NULL; pool = pool->next)
        fn(arg, pool);
}

/* A full period begins for all whose interval is below late_us. */
static void registry_excuse(struct registry *registry, int64_t late_us, mono now)
{
    for (struct pool *pool = registry->pools; pool != NULL; pool = pool->next)
        for (uint32_t i = 0; i < pool->slots_used; i++)
            if (pool->slots[i] != NULL && (int64_t)pool->slots[i]->interval_ms * 1000 < late_us)
                worker_alive(pool->slots[i], now);
}

void registry_link(struct registry *registry, bool up, mono now)
{
    registry->link_down = !up;
    if (up)
        registry_excuse(registry, INT64_MAX, now);
}

void registry_link_proved(struct registry *registry, mono since, mono now)
{
    registry->proved_until = since;
    for (struct pool *pool = registry->pools; pool != NULL; pool = pool->next)
        for (uint32_t i = 0; i < pool->slots_used; i++)
            if (pool->slots[i] != NULL)
                worker_overdue_again(pool->slots[i], now);
}

mono registry_run(struct registry *registry, mono now)
{
    mono next = deadlines_next(registry->deadlines);

    /* The loop was late: heartbeats that came meanwhile are still unread. */
    if (mono_before(next, now) && mono_diff_us(now, next) > LATE_US)
        registry_excuse(registry, mono_diff_us(now, next), now);
    (void)deadlines_run(registry->deadlines, now, 4 * registry->options.max_workers);
    return deadlines_next(registry->deadlines);
}

mono registry_next(const struct registry *registry)
{
    return deadlines_next(registry->deadlines);
}

struct worker *pool_present(const struct pool *pool, struct worker *w)
{
    if (w->pool != pool)
        return NULL;
    return w->listed ? w : pool_find(pool, worker_name(w));
}

/* Adds those of the choice. */
static void pick_tried(const struct pool *pool, const struct choice *choice,
                       struct policy_pick *pick)
{
    for (unsigned i = 0; i < choice->tried_count; i++) {
        const struct worker *w = pool_present(pool, choice->tried[i]);

        if (w == NULL)
            continue;
        CHECK(pick->tried_count < POLICY_TRIED_MAX);
        pick->tried[pick->tried_count++] = w->index;
    }
}

struct worker *pool_choose(struct pool *pool, const struct choice *choice, bool peek, mono now)
{
    struct policy_pick pick;
    struct rng copy;
    uint32_t index;

    (void)now;
    if (pool->free == 0)
        return NULL;
    pick.peek = peek;
    pick.rng = &pool->rng;
    if (peek) {
        copy = pool->rng;
        pick.rng = &copy;
    }
    pick.key = 0;
    if (choice->key.len > 0 && pool->options.policy == POLICY_HASH)
        pick.key = rng_hash(choice->key.ptr, choice->key.len, KEY_SEED);
    if (choice->adapter.len > 0)
        return adapter_choose(pool, choice, &pick);
    pick.tried_count = 0;
    if (choice->tried_count > 0) /* few have any */
        pick_tried(pool, choice, &pick);
    index = pool->policy->choose(pool->policy_state, &pick);
    if (index == TREE_NONE)
        return NULL;
    /* Among thousands it is in no near cache: fetch its lines at the same time. */
    __builtin_prefetch(pool->slots[index], 1);
    __builtin_prefetch((const char *)pool->slots[index] + WORKER_LINE, 1);
    return pool->slots[index];
}

bool pool_has_untried(struct pool *pool, const struct choice *choice)
{
    struct policy_pick pick;
    uint32_t routable = pool->routable;

    if (choice->adapter.len > 0)
        return adapter_has_untried(pool, choice);
    pick.tried_count = 0;
    pick_tried(pool, choice, &pick);
    for (unsigned i = 0; i < pick.tried_count; i++)
        routable -= pool->slots[pick.tried[i]]->routable;
    return routable > 0;
}

static int64_t free_after_ms(struct pool *pool, mono now)
{
    uint64_t mark = min_tree_min(&pool->marks);
    int64_t ms;

    if (mark == TREE_ABSENT)
        return 1000;
    ms = (mono_diff_us((mono){(int64_t)mark}, now) + 999) / 1000;
    if (ms < 1)
        ms = 1;
    /* Whoever is busy without a mark may be free at any time. */
    return pool->marked < pool->routable && ms > 1000 ? 1000 : ms;
}

int64_t pool_retry_after_ms(struct pool *pool, mono now)
{
    int64_t free_ms = free_after_ms(pool, now), turn_ms = queue_retry_after_ms(pool, now);

    return free_ms > turn_ms ? free_ms : turn_ms;
}

static struct budget_second *budget_now(struct pool *pool, mono now)
{
    int64_t second = now.us / 1000000;
    struct budget_second *slot = &pool->budget[(uint64_t)second % BUDGET_SECONDS];

    if (slot->second != second)
        *slot = (struct budget_second){.second = second};
    return slot;
}

void pool_note_request(struct pool *pool, mono now)
{
    budget_now(pool, now)->requests++;
}

bool pool_take_retry(struct pool *pool, mono now)
{
    struct budget_second *slot = budget_now(pool, now);
    uint64_t requests = 0, retries = 0;

    for (unsigned i = 0; i < BUDGET_SECONDS; i++) {
        if (pool->budget[i].second <= slot->second - BUDGET_SECONDS)
            continue;
        requests += pool->budget[i].requests;
        retries += pool->budget[i].retries;
    }
    if (slot->retries >= BUDGET_FLOOR &&
        (retries + 1) * 100 > requests * pool->options.budget_percent)
        return false;
    slot->retries++;
    return true;
}

uint64_t registry_random_below(struct registry *registry, uint64_t n)
{
    return rng_below(&registry->rng, n);
}
