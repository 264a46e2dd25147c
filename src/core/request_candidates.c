/* Whom a request may go to: by its history, its target, its record, its adapter, its session. Only
 * questions: nothing here changes a request or a worker, save that a choice without peek moves the
 * policy's cursor.
 *
 * Tried are all that it tried; excluded those it never goes to again, since they failed it
 * otherwise than by a refusal. The worker of its record is avoided only while another candidate is
 * outside these. With an adapter the candidates are the adapter's (adapter.c), so that retries,
 * fallback and waiting never leave them. */
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "core/request_parts.h"

_Static_assert(REQUEST_TRIED_MAX == POLICY_TRIED_MAX, "policies exclude all tried workers");

static bool same_worker(const struct worker *a, const struct worker *b)
{
    return a == b || strcmp(a->id, b->id) == 0;
}

static bool is_tried(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        if (same_worker(rq->tried[i], w))
            return true;
    return false;
}

/* Each once: the queue leads to the same worker more than once. */
static unsigned tried_workers(const struct request *rq, struct worker *out[REQUEST_TRIED_MAX])
{
    unsigned count = 0;

    for (unsigned i = 0; i < rq->tried_count; i++) {
        unsigned k = 0;

        while (k < count && !same_worker(out[k], rq->tried[i]))
            k++;
        if (k == count)
            out[count++] = rq->tried[i];
    }
    return count;
}

/* Those it must not go to even from the queue, each once. */
static unsigned excluded_workers(const struct request *rq, struct worker *out[REQUEST_TRIED_MAX])
{
    unsigned count = 0;

    for (unsigned i = 0; i < rq->tried_count; i++)
        if (rq->tried_causes[i] != CAUSE_REFUSED)
            out[count++] = rq->tried[i]; /* it never went there again */
    return count;
}

/* The worker of the record, if it could be chosen now for all that is known of it. One that would
 * only load the adapter is not preferred: that is for whom all routers pick. */
static struct worker *recalled(const struct request *rq, enum recall how)
{
    struct worker *w = rq->recall == how ? pool_find(rq->pool, rq->recalled) : NULL;

    if (w == NULL || !w->routable || is_tried(rq, w))
        return NULL;
    if (!request_has_adapter(rq))
        return w;
    if (how == RECALL_PREFER)
        return worker_holds(w, rq->adapter) ? w : NULL;
    return adapter_permits(rq->pool, rq->adapter, w) ? w : NULL;
}

/* The record names it and the client wants another one, and there is another one untried. */
static bool is_avoided(const struct request *rq, const struct worker *w)
{
    struct worker *tried[REQUEST_TRIED_MAX];
    struct choice choice = {.adapter = rq->adapter, .tried = tried};
    struct worker *avoided = recalled(rq, RECALL_AVOID);

    if (avoided == NULL || avoided != w)
        return false;
    choice.tried_count = tried_workers(rq, tried);
    if (choice.tried_count == REQUEST_TRIED_MAX)
        return false;
    tried[choice.tried_count++] = avoided;
    return pool_has_untried(rq->pool, &choice);
}

/* Those it may go to, without the avoided one (true) while there is another. again: from the queue,
 * also one that refused and is free again. */
static bool choice_among(const struct request *rq, bool again, struct choice *choice,
                         struct worker *without[REQUEST_TRIED_MAX])
{
    struct worker *avoided = recalled(rq, RECALL_AVOID);

    *choice = (struct choice){.key = rq->key, .adapter = rq->adapter, .tried = without};
    choice->tried_count = again ? excluded_workers(rq, without) : tried_workers(rq, without);
    if (avoided == NULL || choice->tried_count == REQUEST_TRIED_MAX)
        return false;
    without[choice->tried_count++] = avoided;
    if (pool_has_untried(rq->pool, choice))
        return true;
    choice->tried_count--;
    return false;
}

static struct pick pick_among(const struct request *rq, bool again, bool peek, mono now)
{
    struct worker *without[REQUEST_TRIED_MAX];
    struct choice choice;
    struct pick pick = {NULL, -1, rq->tried_count > 0 ? REASON_RETRY : REASON_POLICY};

    if (choice_among(rq, again, &choice, without) && pick.reason == REASON_POLICY)
        pick.reason = REASON_AVOID;
    pick.worker = pool_choose(rq->pool, &choice, peek, now);
    return pick;
}

struct pick request_pick_untried(const struct request *rq, bool peek, mono now)
{
    return pick_among(rq, false, peek, now);
}

struct pick request_pick_again(const struct request *rq, bool peek, mono now)
{
    return pick_among(rq, true, peek, now);
}

struct pick request_pick(const struct request *rq, bool peek, mono now)
{
    struct worker *preferred = recalled(rq, RECALL_PREFER);
    bool has_rank;

    if (preferred == NULL || !preferred->free)
        return request_pick_untried(rq, peek, now);
    has_rank = rq->recalled_rank >= 0 && (uint32_t)rq->recalled_rank < preferred->ranks;
    return (struct pick){preferred, has_rank ? rq->recalled_rank : -1,
                         rq->tried_count > 0 ? REASON_RETRY : REASON_PREFER};
}

bool request_untried_left(const struct request *rq)
{
    struct worker *tried[REQUEST_TRIED_MAX];
    struct choice choice = {.adapter = rq->adapter, .tried = tried};

    choice.tried_count = tried_workers(rq, tried);
    return choice.tried_count < REQUEST_TRIED_MAX && pool_has_untried(rq->pool, &choice);
}

wb_status request_target_status(const struct worker *w, int32_t rank, struct span adapter, mono now)
{
    if (w == NULL)
        return WB_UNKNOWN_WORKER;
    if (rank >= 0 && (uint32_t)rank >= w->ranks)
        return WB_BAD_REQUEST;
    if (adapter.len > 0 && !worker_may_serve(w, adapter))
        return WB_UNKNOWN_ADAPTER;
    if (!worker_admits(w))
        return WB_NO_WORKER;
    return worker_has_room(w, 0, now) ? WB_OK : WB_OVERLOADED;
}

enum bond request_bond(const struct request *rq, const struct pin *pin, const struct worker *w)
{
    bool refused = false;

    if (w == NULL || !w->discovered)
        return BOND_UNHEARD;
    for (unsigned i = 0; i < rq->tried_count; i++) {
        if (!same_worker(rq->tried[i], w))
            continue;
        refused = rq->tried_causes[i] == CAUSE_REFUSED;
        if (!refused && w->routable)
            return BOND_TRIED;
    }
    if (!w->routable || (pin->rank >= 0 && (uint32_t)pin->rank >= w->ranks) ||
        (rq->recall == RECALL_AVOID && is_avoided(rq, w)))
        return BOND_BROKEN;
    if (request_has_adapter(rq) && !worker_may_serve(w, rq->adapter))
        return BOND_LACKING;
    if (request_has_adapter(rq) && !worker_holds(w, rq->adapter) &&
        (pin->mode == PIN_SOFT || pin->on_busy == ON_BUSY_SPILL))
        return BOND_BUSY; /* with a choice, who loads it is whom all routers pick */
    if (refused && rq->state != REQUEST_GRANTED) /* to it again from the queue only */
        return BOND_BUSY;
    return w->free ? BOND_FREE : BOND_BUSY;
}

bool request_contradicts(const struct request *rq, const struct pin *pin)
{
    return !span_eq(pin->worker, rq->target) ||
           (rq->target_rank >= 0 && pin->rank >= 0 && rq->target_rank != pin->rank);
}

wb_status request_constraints(const struct request *rq)
{
    const struct pool_options *options = &rq->pool->options;

    if (rq->malformed)
        return WB_BAD_REQUEST;
    if (request_has_target(rq))
        return WB_OK;
    if (rq->target_rank >= 0 || options->policy == POLICY_DIRECT ||
        (options->policy == POLICY_HASH && rq->key.len == 0))
        return WB_BAD_REQUEST;
    return WB_OK;
}

/* ---- what the queue asks ---- */

unsigned request_excluded_count(const struct request *rq)
{
    struct worker *out[REQUEST_TRIED_MAX];

    if (request_has_adapter(rq)) /* how many hold it changes with each heartbeat */
        return UINT_MAX;
    if (rq->recall == RECALL_AVOID)
        return tried_workers(rq, out) + 1;
    return excluded_workers(rq, out);
}

struct worker *request_left_with(const struct request *rq)
{
    struct worker *avoided = recalled(rq, RECALL_AVOID);

    return avoided != NULL && !is_avoided(rq, avoided) ? avoided : NULL;
}

bool request_may_hope(const struct request *rq)
{
    struct worker *out[REQUEST_TRIED_MAX];
    struct choice choice = {.adapter = rq->adapter, .tried = out};

    choice.tried_count = excluded_workers(rq, out);
    return rq->tried_count < REQUEST_TRIED_MAX && pool_has_untried(rq->pool, &choice);
}

void request_loaders(const struct request *rq, struct worker *out[2])
{
    struct worker *without[REQUEST_TRIED_MAX];
    struct choice choice;

    for (int again = 0; again < 2; again++) {
        out[again] = NULL;
        if (!request_has_adapter(rq))
            continue;
        (void)choice_among(rq, again != 0, &choice, without);
        out[again] = adapter_loader(rq->pool, &choice);
    }
}

static bool adapter_excludes(const struct request *rq, const struct worker *w)
{
    struct worker *loaders[2];

    if (!request_has_adapter(rq) || worker_holds(w, rq->adapter))
        return false;
    request_loaders(rq, loaders);
    return w != loaders[0] && w != loaders[1];
}

bool request_excludes(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        if (rq->tried_causes[i] != CAUSE_REFUSED && same_worker(rq->tried[i], w))
            return true;
    return (rq->recall == RECALL_AVOID && is_avoided(rq, w)) || adapter_excludes(rq, w);
}

bool request_waits_in_vain(const struct request *rq, const struct worker *w)
{
    int32_t rank = request_has_target(rq) ? rq->target_rank : rq->pinned_rank;

    return (rank >= 0 && (uint32_t)rank >= w->ranks) || (!request_has_target(rq) && !w->routable) ||
           (request_has_adapter(rq) && !worker_may_serve(w, rq->adapter));
}
