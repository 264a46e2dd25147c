/* Who loads an adapter that nobody holds.
 *
 * Rendezvous: each pair of adapter and worker id has a score that is the same in every router; of
 * the routable workers that have a free slot, or are loading this adapter already, the highest
 * wins, busy or not. So routers that know the same workers send it to the same one, and a worker
 * that comes or goes moves only its own adapters. A worker with N slots that holds k adapters has
 * N - k free ones, less those that requests in flight make it load.
 *
 * Looking costs a walk over the loaders, the pool's list of workers with a free slot (empty when
 * all are used up). What was found is remembered until somebody joins or leaves that list, or the
 * adapter's own loading begins or ends: a storm of requests for one adapter walks once. A retry
 * walks, but retries are bounded. */
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

#define LOAD_SEED UINT64_C(0x61646170746572) /* the same in every router */

bool worker_has_slot(const struct worker *w)
{
    const struct worker_adapters *half = w->priv->adapters;

    return w->pool->options.adapters_load && half != NULL &&
           (uint64_t)w->adapter_slots > (uint64_t)w->adapter_count + half->loading;
}

void loader_remove(struct worker *w)
{
    struct worker_adapters *half = w->priv->adapters;
    struct pool *pool = w->pool;

    if (half->loader == TREE_NONE)
        return;
    pool->loaders[half->loader] = pool->loaders[--pool->loader_count];
    pool->loaders[half->loader]->priv->adapters->loader = half->loader;
    half->loader = TREE_NONE;
    pool->loader_round++;
    queue_adapters_changed(pool);
}

void loader_settle(struct worker *w)
{
    struct worker_adapters *half = w->priv->adapters;
    struct pool *pool = w->pool;
    bool wanted = w->listed && w->routable && worker_has_slot(w);

    if (wanted == (half->loader != TREE_NONE))
        return;
    if (!wanted) {
        loader_remove(w);
        return;
    }
    CHECK(pool->loader_count < pool->slots_size);
    half->loader = pool->loader_count;
    pool->loaders[pool->loader_count++] = w;
    pool->loader_round++;
    queue_adapters_changed(pool);
}

struct contest {
    uint64_t adapter; /* hash */
    uint64_t score;
    struct worker *best;
    struct worker *tried[POLICY_TRIED_MAX];
    unsigned tried_count;
};

static void enter(struct contest *contest, struct worker *w)
{
    uint64_t score = rng_hash(w->id, w->id_len, contest->adapter);

    for (unsigned i = 0; i < contest->tried_count; i++)
        if (contest->tried[i] == w)
            return;
    if (contest->best != NULL &&
        (score < contest->score ||
         (score == contest->score && strcmp(w->id, contest->best->id) >= 0)))
        return;
    contest->score = score;
    contest->best = w;
}

static struct worker *walk(struct pool *pool, struct span name, uint64_t hash,
                           const struct choice *choice)
{
    const struct adapter *adapter = adapter_find(pool, name);
    struct contest contest = {.adapter = hash};

    for (unsigned i = 0; i < choice->tried_count; i++)
        contest.tried[contest.tried_count++] = pool_present(pool, choice->tried[i]);
    for (uint32_t i = 0; i < pool->loader_count; i++)
        enter(&contest, pool->loaders[i]);
    for (const struct holding *h = adapter != NULL ? adapter_loading(adapter) : NULL; h != NULL;
         h = h->next)
        if (h->worker->listed && h->worker->routable)
            enter(&contest, h->worker);
    return contest.best;
}

static struct loader_memo *memo_of(struct pool *pool, uint64_t hash)
{
    return &pool->memos[hash & (LOADER_MEMOS - 1)];
}

struct worker *loader_best(struct pool *pool, struct span name, const struct choice *choice)
{
    struct loader_memo *memo;
    uint64_t hash;

    if (!pool->options.adapters_load || name.len > WB_LONG_NAME_MAX)
        return NULL;
    hash = rng_hash(name.ptr, name.len, LOAD_SEED);
    if (choice->tried_count > 0)
        return walk(pool, name, hash, choice);
    memo = memo_of(pool, hash);
    if (memo->round == pool->loader_round && span_eq(span_of(memo->name, memo->name_len), name))
        return memo->best;
    memo->best = walk(pool, name, hash, choice);
    memo->round = pool->loader_round;
    memo->name_len = name.len;
    memcpy(memo->name, name.ptr, name.len);
    return memo->best;
}

void loader_forget(struct pool *pool, struct span name)
{
    if (pool->memos != NULL)
        memo_of(pool, rng_hash(name.ptr, name.len, LOAD_SEED))->round = 0;
    queue_adapters_changed(pool);
}
