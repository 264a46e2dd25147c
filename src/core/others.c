/* What other routers have in flight at a worker (spec section 7).
 *
 * Our own attempts are counted as they come and go, and never from a heartbeat: so none counts
 * twice, and none of an earlier life of this router. What others have there a heartbeat tells, as
 * it was when the worker sent it, and in place of what the one before told: what they had sent and
 * the worker had not yet received is missing, what it has answered since is still there. Without
 * counts by router, others have what is over our own. It counts for OTHERS_INTERVALS, at least
 * OTHERS_AGE_MIN_MS; then it is unknown, and counts as none.
 *
 * Between two heartbeats that word stands still, while all routers act on it. Where a worker seems
 * to have one too few, each of three sends it one; by the next heartbeat it has two too many, and
 * all three keep away. So the better each balances, the worse they do together: the busiest of ten
 * workers had 2.3 times the mean, where one router alone reaches 1.05. Hence a choice takes it that
 * the others do meanwhile as we do: for each attempt that we have added there since its heartbeat,
 * or ended, they have done so with others_gain, which is what they have in the whole pool for each
 * of ours. At the heartbeat that is nothing, and the load is what is known. It only orders workers,
 * and has no say in whether one has room; and a worker that has never counted an attempt of ours is
 * taken at its word, as its numbers may not move with ours at all. */
#include "core/pool.h"

#define OTHERS_INTERVALS 2
#define OTHERS_AGE_MIN_MS 1000
#define OTHERS_MAX 1000000000u  /* keeps loads and their sums in range whatever a peer claims */
#define GAIN_MAX (8 * GAIN_ONE) /* with few of our own their share says little */

static uint32_t gain_of(const struct pool *pool)
{
    uint64_t gain = pool->own > 0 ? pool->others * GAIN_ONE / pool->own : 0;

    return gain < GAIN_MAX ? (uint32_t)gain : GAIN_MAX;
}

static void put(struct worker *w, uint32_t others, bool known)
{
    w->pool->others += (uint64_t)others - w->others;
    w->others = others;
    w->others_known = known;
    w->own_then = w->occupancy;
    w->others_gain = known && w->priv->counts_ours ? (uint16_t)gain_of(w->pool) : 0;
}

/* The deadline lies ahead and moves on with each heartbeat, which costs a store. */
void worker_put_others(struct worker *w, uint32_t others, mono now)
{
    int64_t age_ms = (int64_t)w->interval_ms * OTHERS_INTERVALS;
    mono end = mono_add_ms(now, age_ms > OTHERS_AGE_MIN_MS ? age_ms : OTHERS_AGE_MIN_MS);

    put(w, others < OTHERS_MAX ? others : OTHERS_MAX, true);
    /* No memory to remember when it ends: then it does not begin. */
    if (deadline_set(w->pool->registry->deadlines, &w->priv->others_end, end) != WB_OK)
        worker_forget_others(w);
}

void worker_forget_others(struct worker *w)
{
    deadline_cancel(w->pool->registry->deadlines, &w->priv->others_end);
    put(w, 0, false);
}

void worker_others_due(struct deadline *d, mono now)
{
    struct worker *w = CONTAINER_OF(d, struct worker_private, others_end)->worker;

    worker_forget_others(w);
    worker_changed(w, now);
}
