/* The choice: target first, then what its session asks, then the policy; then the charge, the
 * queue, or the end.
 *
 * Where all that it may go to are only busy it waits (queue.c): those not yet tried, and those that
 * refused it, once their marks have run out. request_wait_or_fail is the way in for who may go to
 * any, wait_or_fail_at for who has one worker: a target, or a hard pin that waits. One that has had
 * a turn keeps its place; another waits if there is room.
 *
 * What its session asks comes with each choice as a pin, and may be another one each time. A hard
 * pin that is found broken is handed back (NEXT_REBIND) until this request has chosen as the
 * session's owner in consequence, once. */
#include "base/check.h"
#include "core/request_parts.h"

static struct next enqueue(struct request *rq, struct worker *only, mono now)
{
    struct worker *w = only;

    (void)charge_release(&rq->charge, now);
    queue_join(rq, only, now);
    if (rq->state == REQUEST_GRANTED && only == NULL)
        queue_pass_on(rq);
    else if (w == NULL && rq->tried_count > 0) /* its mark may have run out before the pause */
        w = request_pick_again(rq, true, now).worker;
    rq->state = REQUEST_QUEUED;
    if (w != NULL)
        queue_worker_changed(w, now);
    return (struct next){.kind = NEXT_QUEUE, .at = rq->ticket.due};
}

struct next request_wait_or_fail(struct request *rq, mono now)
{
    struct next next;

    if (request_may_hope(rq) && (rq->state == REQUEST_GRANTED || queue_has_room(rq, false)))
        return enqueue(rq, NULL, now);
    if (!request_untried_left(rq) && request_has_adapter(rq) && rq->tried_count == 0)
        return request_fail(rq, pool_adapter_status(rq->pool, rq->adapter), now);
    if (!request_untried_left(rq))
        return request_fail_by_cause(rq, now);
    next = request_fail_overloaded(rq, NULL, now);
    next.queue_full = rq->pool->options.queue_limit > 0;
    return next;
}

/* Its one worker has no room, or refused it before. */
static struct next wait_or_fail_at(struct request *rq, struct worker *w, mono now)
{
    struct next next;

    /* Pinned to whom it avoids, for want of another: any newcomer may have it. */
    bool any = request_is_pinned(rq) && request_left_with(rq) == w;

    if (rq->state == REQUEST_GRANTED || queue_has_room(rq, request_is_pinned(rq)))
        return enqueue(rq, any ? NULL : w, now);
    next =
        rq->tried_count > 0 ? request_fail_by_cause(rq, now) : request_fail_overloaded(rq, w, now);
    next.queue_full = rq->pool->options.queue_limit > 0 || request_is_pinned(rq);
    return next;
}

bool request_occupy(struct request *rq, struct worker *w, mono now)
{
    struct holding *holding = NULL;

    if (request_has_adapter(rq)) {
        if (!worker_holds(w, rq->adapter))
            rq->reason = REASON_ADAPTER_LOAD;
        holding = worker_holding(w, rq->adapter);
        if (holding == NULL)
            return false;
    }
    if (rq->charge.worker != NULL)
        charge_move(&rq->charge, w, now);
    else
        charge_take(&rq->charge, w, now);
    if (holding != NULL)
        charge_adapter(&rq->charge, holding);
    return true;
}

static struct next charge_chosen(struct request *rq, struct worker *w, mono now)
{
    if (!request_occupy(rq, w, now))
        return request_fail_overloaded(rq, NULL, now);
    if (rq->selected == NULL) {
        worker_ref(w);
        rq->selected = w;
    }
    rq->state = REQUEST_CHOSEN;
    return (struct next){.kind = NEXT_CHOSEN, .at = now};
}

static struct next wait_to_be_heard(struct request *rq, mono wait_until)
{
    rq->state = REQUEST_WAITING;
    return (struct next){.kind = NEXT_WAIT, .at = wait_until};
}

/* The session rebinds, once for a request. */
static struct next broken(struct request *rq, mono now)
{
    if (rq->rebound)
        return request_fail_by_cause(rq, now);
    rq->rebinding = true;
    if (rq->state == REQUEST_GRANTED) /* its turn is over without a worker */
        rq->state = REQUEST_PAUSED;
    return (struct next){.kind = NEXT_REBIND, .at = now};
}

/* Who owns its session anew has rebound it, whoever answers. */
static void note_owner(struct request *rq)
{
    if (rq->pin != PIN_OWNER || !rq->rebinding)
        return;
    rq->rebinding = false;
    rq->rebound = true;
    if (rq->reason != REASON_TARGET)
        rq->reason = REASON_REBIND;
}

static struct next contradiction(struct request *rq, const struct pin *pin, mono wait_until,
                                 mono now)
{
    switch (request_bond(rq, pin, pool_find(rq->pool, pin->worker))) {
    case BOND_UNHEARD:
        return mono_before(now, wait_until) ? wait_to_be_heard(rq, wait_until) : broken(rq, now);
    case BOND_BROKEN:
        return broken(rq, now);
    case BOND_LACKING:
    case BOND_TRIED:
    case BOND_BUSY:
    case BOND_FREE:
        break;
    }
    return request_fail(rq, WB_SESSION_CONFLICT, now);
}

static struct next choose_target(struct request *rq, const struct pin *pin, mono wait_until,
                                 mono now)
{
    struct worker *w = pool_find(rq->pool, rq->target);
    wb_status status = request_target_status(w, rq->target_rank, rq->adapter, now);
    bool bound = rq->pin == PIN_HARD || rq->pin == PIN_SOFT;

    if (bound && request_contradicts(rq, pin))
        return contradiction(rq, pin, wait_until, now);
    /* What it holds comes with a full heartbeat, not with the first word of its load. */
    if ((status == WB_UNKNOWN_WORKER || (status == WB_UNKNOWN_ADAPTER && !w->told)) &&
        mono_before(now, wait_until))
        return wait_to_be_heard(rq, wait_until);
    if (status == WB_OVERLOADED ||
        (status == WB_OK && rq->tried_count > 0 && rq->state != REQUEST_GRANTED))
        return wait_or_fail_at(rq, w, now);
    if (status != WB_OK)
        return rq->tried_count > 0 ? request_fail_by_cause(rq, now) : request_fail(rq, status, now);
    rq->reason = REASON_TARGET;
    rq->bound = false;
    rq->rank = rq->target_rank;
    note_owner(rq);
    if (rq->rank < 0 && bound && pin->rank >= 0 && (uint32_t)pin->rank < w->ranks)
        rq->rank = pin->rank;
    if (rq->rank < 0 && w->ranks > 0) {
        rq->rank = (int32_t)(w->next_rank % w->ranks);
        w->next_rank = (uint16_t)((w->next_rank + 1) % w->ranks);
    }
    return charge_chosen(rq, w, now);
}

static struct next choose_by_policy(struct request *rq, bool spill, mono now)
{
    struct pick pick = request_pick(rq, false, now);

    if (pick.worker == NULL && rq->state == REQUEST_GRANTED && rq->tried_count > 0)
        pick = request_pick_again(rq, false, now);
    if (pick.worker == NULL)
        return request_wait_or_fail(rq, now);
    rq->reason = spill && pick.reason == REASON_POLICY ? REASON_SPILL : pick.reason;
    rq->rank = pick.rank;
    rq->bound = false;
    note_owner(rq);
    return charge_chosen(rq, pick.worker, now);
}

static struct next choose_bound(struct request *rq, const struct pin *pin, struct worker *w,
                                mono now)
{
    rq->reason = rq->tried_count > 0 ? REASON_RETRY : REASON_SESSION;
    rq->rank = pin->rank;
    rq->bound = true;
    return charge_chosen(rq, w, now);
}

static struct next choose_hard(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct worker *w = pool_find(rq->pool, pin->worker);

    switch (request_bond(rq, pin, w)) {
    case BOND_UNHEARD:
        if (mono_before(now, wait_until))
            return wait_to_be_heard(rq, wait_until);
        return broken(rq, now);
    case BOND_BROKEN:
        return broken(rq, now);
    case BOND_LACKING:
        if (!w->told && mono_before(now, wait_until))
            return wait_to_be_heard(rq, wait_until);
        return request_fail(rq, WB_SESSION_CONFLICT, now);
    case BOND_TRIED:
        break;
    case BOND_BUSY:
        if (pin->on_busy == ON_BUSY_SPILL)
            return choose_by_policy(rq, true, now);
        if (pin->on_busy == ON_BUSY_FAIL)
            return rq->tried_count > 0 ? request_fail_by_cause(rq, now)
                                       : request_fail_overloaded(rq, w, now);
        return wait_or_fail_at(rq, w, now);
    case BOND_FREE:
        return choose_bound(rq, pin, w, now);
    }
    return request_fail_by_cause(rq, now);
}

/* Once for each request, as soon as its adapter is known. */
static void note_arrival(struct request *rq, mono now)
{
    if (!request_has_adapter(rq) || rq->arrived)
        return;
    rq->arrived = pool_adapter_arrived(rq->pool, rq->adapter, now);
}

static struct next choose(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct worker *w;
    enum bond bond;

    if (request_has_target(rq))
        return choose_target(rq, pin, wait_until, now);
    if (request_has_adapter(rq) && rq->tried_count == 0 && mono_before(now, wait_until) &&
        !pool_adapter_held(rq->pool, rq->adapter))
        return wait_to_be_heard(rq, wait_until);
    if (rq->pin == PIN_HARD)
        return choose_hard(rq, pin, wait_until, now);
    if (rq->pin == PIN_SOFT) {
        w = pool_find(rq->pool, pin->worker);
        bond = request_bond(rq, pin, w);
        if (bond == BOND_FREE)
            return choose_bound(rq, pin, w, now);
        if (bond == BOND_UNHEARD && mono_before(now, wait_until))
            return wait_to_be_heard(rq, wait_until);
    }
    return choose_by_policy(rq, false, now);
}

static void note_pin(struct request *rq, const struct pin *pin)
{
    rq->pin = pin != NULL ? (uint8_t)pin->mode : PIN_NONE;
    rq->on_busy = pin != NULL ? (uint8_t)pin->on_busy : ON_BUSY_WAIT;
    rq->pinned_rank = pin != NULL ? pin->rank : -1;
}

struct next request_choose(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct next next;
    wb_status status;

    CHECK(rq->state == REQUEST_NEW || rq->state == REQUEST_PAUSED || rq->state == REQUEST_WAITING ||
          rq->state == REQUEST_GRANTED);
    status = request_constraints(rq);
    if (status != WB_OK)
        return request_fail(rq, status, now);
    note_pin(rq, pin);
    next = choose(rq, pin, wait_until, now);
    note_arrival(rq, now);
    return next;
}
