/* What the router finds out about workers, and who may be chosen in consequence.
 *
 * candidate: known, takes new requests, healthy.
 * routable: a candidate; or, if the pool has none, the least recently ejected that takes new
 * requests: the last resort. free: routable, ready, not marked overloaded, below capacity and
 * worker_bytes.
 *
 * worker_changed is called after each change of anything these hang on, and brings counts, policy
 * and last resort up to date. A worker is on the ejected list, oldest first, exactly while it is
 * EJECTED; a new ejection of the last resort puts it last, so the next one gets its turn. Marks and
 * ejections end by the recheck deadline, silence by its own; both are set far ahead and moved for
 * the price of a store. Where requests wait, the queue is told of each change too. Callbacks run
 * last, when all is consistent: they may choose, charge, eject. */
#include "base/check.h"
#include "core/pool.h"

/* Adapters and those that wait: most workers have neither. */
static void publish_more(struct worker *w, const struct policy_item *item, bool was_routable,
                         bool was_free, mono now)
{
    if (w->holds)
        holdings_changed(w, item, was_routable, was_free);
    if (w->pool->queue.count == 0)
        return;
    queue_worker_changed(w, now);
    if (was_routable && !item->routable) {
        queue_worker_told(w);
        queue_pool_shrank(w->pool);
    }
}

/* On the way of each request, twice. */
static inline void publish(struct worker *w, mono now)
{
    struct pool *pool = w->pool;
    bool routable = w->candidate || w == pool->last_resort;
    bool is_free = routable && worker_has_room(w, 0, now);
    bool was_routable = w->routable, was_free = w->free;
    struct policy_item item = {
        .index = w->index,
        .weight = w->weight,
        .load = worker_load(w),
        .routable = routable,
        .free = is_free,
        .cpu = w->cpu,
    };

    if (routable != was_routable || is_free != was_free) {
        pool->routable += (uint32_t)routable - (uint32_t)was_routable;
        pool->free += (uint32_t)is_free - (uint32_t)was_free;
        w->routable = routable;
        w->free = is_free;
    }
    pool->policy->changed(pool->policy_state, &item);
    if (w->holds || pool->queue.count > 0)
        publish_more(w, &item, was_routable, was_free, now);
}

/* The least recently ejected that takes new requests. */
static struct worker *find_last_resort(const struct pool *pool)
{
    const struct list *ejected = &pool->ejected;

    for (struct link *at = list_first(ejected); at != NULL; at = list_next(ejected, at)) {
        struct worker *w = CONTAINER_OF(at, struct worker_private, ejected)->worker;

        if (worker_admits(w))
            return w;
    }
    return NULL;
}

static void settle_last_resort(struct pool *pool, mono now)
{
    struct worker *old = pool->last_resort;
    struct worker *resort = pool->candidates == 0 ? find_last_resort(pool) : NULL;

    if (resort == old)
        return;
    pool->last_resort = resort;
    if (old != NULL)
        publish(old, now);
    if (resort != NULL)
        publish(resort, now);
}

void worker_changed(struct worker *w, mono now)
{
    bool candidate = worker_admits(w) && w->health == WORKER_HEALTHY;
    bool settle =
        candidate != w->candidate || w->health != WORKER_HEALTHY || w == w->pool->last_resort;

    if (!w->listed)
        return;
    if (candidate != w->candidate) {
        w->pool->candidates += (uint32_t)candidate - (uint32_t)w->candidate;
        w->candidate = candidate;
    }
    publish(w, now);
    if (settle)
        settle_last_resort(w->pool, now);
}

void worker_event(struct worker *w, enum worker_event event, mono now)
{
    const struct registry_options *options = &w->pool->registry->options;

    if (options->events.worker != NULL)
        options->events.worker(options->arg, w, event, now);
}

static void recheck_arm(struct worker *w)
{
    mono due = MONO_NEVER;

    if (w->health == WORKER_EJECTED)
        due = w->ejected_until;
    if (w->marked)
        due = mono_min(due, w->overloaded_until);
    if (deadline_set(w->pool->registry->deadlines, &w->priv->recheck, due) == WB_OK)
        return;
    /* No memory to remember when it ends: then it does not begin. */
    worker_clear_mark(w);
    worker_forget_ejection(w);
}

static void ejected_unlink(struct worker *w)
{
    if (link_is_on(&w->priv->ejected))
        link_remove(&w->priv->ejected);
}

void worker_forget_ejection(struct worker *w)
{
    ejected_unlink(w);
    w->health = WORKER_HEALTHY;
    w->ejected_until = (mono){0};
}

void worker_eject(struct worker *w, mono now)
{
    struct pool *pool;
    bool again;

    MAGIC_CHECK(w, WORKER_MAGIC);
    pool = w->pool;
    again = w->health == WORKER_EJECTED;
    if (!w->discovered || !pool->options.eject_enabled)
        return;
    ejected_unlink(w);
    w->health = WORKER_EJECTED;
    w->ejected_until = mono_add_ms(now, EJECT_MS);
    list_append(&pool->ejected, &w->priv->ejected);
    recheck_arm(w);
    worker_changed(w, now);
    if (!again && w->health == WORKER_EJECTED)
        worker_event(w, WORKER_EVENT_EJECTED, now);
}

void worker_restore(struct worker *w, mono now)
{
    if (w->health != WORKER_EJECTED)
        return;
    worker_forget_ejection(w);
    recheck_arm(w);
    worker_changed(w, now);
    worker_event(w, WORKER_EVENT_RESTORED, now);
}

void worker_clear_mark(struct worker *w)
{
    if (!w->marked)
        return;
    w->overloaded_until = (mono){0};
    w->marked = false;
    w->pool->marked--;
    min_tree_set(&w->pool->marks, w->index, TREE_ABSENT);
}

void worker_overloaded(struct worker *w, mono until, mono now)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    if (!w->discovered || !mono_before(now, until) || !mono_before(w->overloaded_until, until))
        return;
    w->pool->marked += !w->marked;
    w->marked = true;
    w->overloaded_until = until;
    min_tree_set(&w->pool->marks, w->index, (uint64_t)until.us);
    recheck_arm(w);
    worker_changed(w, now);
}

void worker_recheck_due(struct deadline *d, mono now)
{
    struct worker *w = CONTAINER_OF(d, struct worker_private, recheck)->worker;

    if (w->marked && !mono_before(now, w->overloaded_until))
        worker_clear_mark(w);
    if (w->health == WORKER_EJECTED && !mono_before(now, w->ejected_until)) {
        worker_restore(w, now); /* arms again for the mark */
        return;
    }
    recheck_arm(w);
    worker_changed(w, now);
}

static mono silence_end(const struct worker *w, mono now)
{
    return mono_add_ms(now, (int64_t)w->interval_ms * MISSED_INTERVALS);
}

wb_status worker_listen(struct worker *w, mono now)
{
    w->priv->overdue_at = (mono){0};
    return deadline_set(w->pool->registry->deadlines, &w->priv->silence, silence_end(w, now));
}

void worker_alive(struct worker *w, mono now)
{
    /* Later than before and armed already: can't fail. */
    if (w->discovered && w->heard)
        CHECK(worker_listen(w, now) == WB_OK);
}

/* Silence says something of the worker only if the link would have brought its word: one that is
 * dead and has not been found out yet brings nobody's. */
static bool silence_counts(struct worker *w, mono now)
{
    struct worker_private *p = w->priv;
    const struct registry_options *options = &w->pool->registry->options;

    if (options->events.prove_link == NULL)
        return true;
    if (p->overdue_at.us == 0)
        p->overdue_at = now;
    if (!mono_before(w->pool->registry->proved_until, p->overdue_at))
        return true;
    if (deadline_set(w->pool->registry->deadlines, &p->silence, mono_add_ms(now, w->interval_ms)) !=
        WB_OK)
        return true;
    options->events.prove_link(options->arg, now);
    return false;
}

void worker_overdue_again(struct worker *w, mono now)
{
    if (w->priv->overdue_at.us != 0) /* armed already: can't fail */
        CHECK(deadline_set(w->pool->registry->deadlines, &w->priv->silence, now) == WB_OK);
}

void worker_silence_due(struct deadline *d, mono now)
{
    struct worker *w = CONTAINER_OF(d, struct worker_private, silence)->worker;

    if (w->pool->registry->link_down && worker_listen(w, now) == WB_OK)
        return;
    if (silence_counts(w, now))
        worker_depart(w, WORKER_EVENT_LOST, false, now);
}

void worker_depart(struct worker *w, enum worker_event event, bool begun_too, mono now)
{
    struct deadlines *deadlines = w->pool->registry->deadlines;

    worker_ref(w);
    charge_end_epoch(w, begun_too);
    deadline_cancel(deadlines, &w->priv->silence);
    deadline_cancel(deadlines, &w->priv->recheck);
    worker_clear_mark(w);
    worker_forget_ejection(w);
    w->priv->restored = false;
    w->priv->overdue_at = (mono){0};
    w->discovered = false;
    w->heard = false;
    worker_forget_others(w);
    worker_changed(w, now);
    if (!w->is_static)
        pool_unlist(w->pool, w);
    worker_event(w, event, now);
    charge_hand_over(w, now);
    worker_unref(w);
}
