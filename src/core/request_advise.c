/* Advice: what request_choose would do for a new request, without doing it. It follows the choice
 * step by step; the model test holds the two together. */
#include "base/check.h"
#include "core/request_parts.h"

/* Nobody was chosen: why? */
static wb_status unchosen_status(struct pool *pool, struct span adapter)
{
    wb_status status = pool->routable > 0 ? WB_OK : WB_NO_WORKER;

    if (adapter.len > 0)
        status = pool_adapter_status(pool, adapter);
    return status == WB_OK ? WB_OVERLOADED : status;
}

static bool is_gone(enum bond bond)
{
    return bond == BOND_UNHEARD || bond == BOND_BROKEN;
}

/* pin: of a binding; NULL: none. */
static struct advice advise_target(const struct request *rq, const struct pin *pin, mono now)
{
    struct worker *w = pool_find(rq->pool, rq->target);
    struct advice advice = {.rank = rq->target_rank, .reason = REASON_TARGET};

    if (pin != NULL && request_contradicts(rq, pin)) {
        if (!is_gone(request_bond(rq, pin, pool_find(rq->pool, pin->worker))))
            return (struct advice){.rank = -1, .error = WB_SESSION_CONFLICT};
        pin = NULL; /* it rebinds to the target */
    }
    advice.error = request_target_status(w, rq->target_rank, rq->adapter, now);
    if (advice.error != WB_OK)
        return advice;
    advice.worker = w;
    if (advice.rank < 0 && pin != NULL && pin->rank < (int64_t)w->ranks)
        advice.rank = pin->rank;
    if (advice.rank < 0 && w->ranks > 0)
        advice.rank = (int32_t)(w->next_rank % w->ranks);
    return advice;
}

static struct advice advise_policy(const struct request *rq, enum reason reason, mono now)
{
    struct pick pick = request_pick(rq, true, now);
    struct advice advice = {.worker = pick.worker, .rank = pick.rank, .reason = reason};

    if (reason == REASON_POLICY || (reason == REASON_SPILL && pick.reason != REASON_POLICY))
        advice.reason = pick.reason;
    if (pick.worker == NULL)
        advice.error = unchosen_status(rq->pool, rq->adapter);
    return advice;
}

/* It names the bound worker where the request would go to it, or wait for it. */
static struct advice advise_bound(const struct request *rq, const struct pin *pin, mono now)
{
    struct worker *w = pool_find(rq->pool, pin->worker);
    struct advice advice = {.worker = w, .rank = pin->rank, .reason = REASON_SESSION};
    enum bond bond = request_bond(rq, pin, w);

    if (bond == BOND_FREE)
        return advice;
    if (pin->mode == PIN_SOFT)
        return advise_policy(rq, REASON_POLICY, now);
    if (is_gone(bond))
        return advise_policy(rq, REASON_REBIND, now);
    if (bond == BOND_LACKING)
        return (struct advice){.rank = -1, .error = WB_SESSION_CONFLICT};
    if (pin->on_busy == ON_BUSY_SPILL)
        return advise_policy(rq, REASON_SPILL, now);
    if (pin->on_busy == ON_BUSY_FAIL || !queue_has_room(rq, true))
        return (struct advice){.rank = -1, .error = WB_OVERLOADED, .scope = "worker"};
    return advice;
}

static struct advice advise(const struct request *rq, const struct pin *pin, mono now)
{
    wb_status status = request_constraints(rq);

    CHECK(rq->state == REQUEST_NEW);
    if (status != WB_OK)
        return (struct advice){.rank = -1, .error = status};
    if (pin != NULL && pin->mode != PIN_HARD && pin->mode != PIN_SOFT)
        pin = NULL; /* an owner's request is as any other until it is answered */
    if (request_has_target(rq))
        return advise_target(rq, pin, now);
    return pin != NULL ? advise_bound(rq, pin, now) : advise_policy(rq, REASON_POLICY, now);
}

struct advice request_advise(const struct request *rq, const struct pin *pin, mono now)
{
    struct advice advice = advise(rq, pin, now);
    const struct worker *only = NULL;
    struct overload overload;

    if (advice.worker != NULL && request_has_adapter(rq) &&
        !worker_holds(advice.worker, rq->adapter))
        advice.reason = REASON_ADAPTER_LOAD;
    if (advice.error != WB_OVERLOADED)
        return advice;
    if (request_has_target(rq))
        only = pool_find(rq->pool, rq->target);
    else if (advice.scope != NULL)
        only = pool_find(rq->pool, pin->worker);
    overload = request_overload(rq->pool, rq->adapter, only, now);
    advice.scope = overload.scope;
    advice.retry_after_ms = overload.retry_after_ms;
    return advice;
}
