/* The life of one request as decisions; request.h draws the states.
 *
 * Invariants: a charge is held exactly in CHOSEN, OUT and SERVED; `tried` names each worker once,
 * by (service, id), and holds a reference, so that the name outlives the worker; `attempt` counts
 * publishes only, so what vanished or was full before the send stands in `tried` without a number.
 * The size of `tried` bounds all loops. Every failure goes through `failed_by`: blame, then the one
 * decision whether there is another try; every error leaves through `fail` in state FAILED with the
 * charge released.
 *
 * Where all that it may go to are only busy it waits (queue.c): those not yet tried, and those that
 * refused it, once their marks have run out. `wait_or_fail` is the one way in.
 *
 * With an adapter all choices are made among its candidates (adapter.c), so retries and fallback
 * never leave them; each charge then counts in the adapter too. What its session asks comes with
 * each choice as a pin.
 *
 * It knows no bytes: the router re-prepares the message for each attempt. */
#include "core/request.h"

#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

#define BACKOFF_BASE_US 25000
#define BACKOFF_CAP_US 1000000
#define REFUSED_MS 1000
#define REFUSED_MAX_MS 60000

_Static_assert(REQUEST_TRIED_MAX == POLICY_TRIED_MAX, "policies exclude all tried workers");

const char *cause_name(enum cause cause)
{
    static const char *const names[CAUSE_COUNT] = {"none", "no_responders", "gone",      "refused",
                                                   "lost", "timeout",       "cancelled", "deadline",
                                                   "link", "interrupted"};

    CHECK((unsigned)cause < CAUSE_COUNT);
    return names[cause];
}

const char *delivered_name(enum delivered delivered)
{
    static const char *const names[] = {"no", "maybe", "yes"};

    CHECK((unsigned)delivered <= DELIVERED_YES);
    return names[delivered];
}

const char *reason_name(enum reason reason)
{
    static const char *const names[REASON_COUNT] = {"policy", "target",      "fallback", "retry",
                                                    "prefer", "avoid",       "session",  "rebind",
                                                    "spill",  "adapter_load"};

    CHECK((unsigned)reason < REASON_COUNT);
    return names[reason];
}

static bool malformed_target(struct span target)
{
    return target.len > WB_NAME_MAX ||
           (target.len > 0 && memchr(target.ptr, '\0', target.len) != NULL);
}

void request_init(struct request *rq, struct pool *pool, const struct request_params *params,
                  mono now)
{
    (void)now;
    memset(rq, 0, offsetof(struct request, tried));
    rq->state = REQUEST_NEW;
    rq->pool = pool;
    rq->idempotent = params->idempotent;
    rq->one_way = params->one_way;
    rq->rank = -1;
    rq->target_rank = params->target_rank;
    rq->recalled_rank = -1;
    rq->key = params->key;
    rq->target = params->target;
    rq->malformed = malformed_target(params->target);
    rq->priority = (int8_t)params->priority;
    rq->adapter = params->adapter;
}

static bool has_target(const struct request *rq)
{
    return rq->recall == RECALL_NONE && rq->target.len > 0;
}

void request_recall(struct request *rq, enum recall how, struct span worker, int32_t rank)
{
    CHECK(rq->state == REQUEST_NEW);
    if (how == RECALL_NONE || has_target(rq))
        return;
    rq->recall = (uint8_t)how;
    rq->recalled_rank = rank;
    rq->recalled = worker;
}

static struct next fail(struct request *rq, wb_status error, mono now)
{
    (void)charge_release(&rq->charge, now);
    rq->state = REQUEST_FAILED;
    rq->rank = -1;
    return (struct next){.kind = NEXT_FAIL, .at = now, .error = error};
}

static int64_t worker_retry_after_ms(const struct worker *w, mono now)
{
    if (w == NULL || !mono_before(now, w->overloaded_until))
        return REFUSED_MS;
    return (mono_diff_us(w->overloaded_until, now) + 999) / 1000;
}

static bool has_adapter(const struct request *rq)
{
    return rq->adapter.len > 0;
}

struct overload {
    const char *scope;
    int64_t retry_after_ms;
};

/* worker NULL: all that hold the adapter, or the whole service. */
static struct overload overload_of(struct pool *pool, struct span adapter,
                                   const struct worker *worker, mono now)
{
    if (worker != NULL)
        return (struct overload){"worker", worker_retry_after_ms(worker, now)};
    if (adapter.len > 0)
        return (struct overload){"adapter", pool_adapter_retry_after_ms(pool, adapter, now)};
    return (struct overload){"service", pool_retry_after_ms(pool, now)};
}

static struct next fail_overloaded(struct request *rq, const struct worker *worker, mono now)
{
    struct next next = fail(rq, WB_OVERLOADED, now);
    struct overload overload = overload_of(rq->pool, rq->adapter, worker, now);

    next.scope = overload.scope;
    next.retry_after_ms = overload.retry_after_ms;
    return next;
}

/* Nobody is left to try: the last cause decides. */
static struct next fail_by_cause(struct request *rq, mono now)
{
    const struct worker *target = NULL;
    struct next next;

    switch (rq->last_cause) {
    case CAUSE_REFUSED:
        if (has_target(rq) && rq->tried_count > 0)
            target = rq->tried[rq->tried_count - 1];
        next = fail_overloaded(rq, target, now);
        next.forward_refusal = rq->refused;
        return next;
    case CAUSE_LOST:
        return fail(rq, WB_WORKER_LOST, now);
    case CAUSE_TIMEOUT:
    case CAUSE_DEADLINE:
        return fail(rq, WB_TIMEOUT, now);
    case CAUSE_CANCELLED:
        return fail(rq, WB_CANCELLED, now);
    case CAUSE_LINK:
        return fail(rq, WB_LINK_LOST, now);
    case CAUSE_INTERRUPTED:
        return fail(rq, WB_INTERRUPTED, now);
    case CAUSE_NONE:
    case CAUSE_NO_RESPONDERS:
    case CAUSE_GONE:
    case CAUSE_COUNT:
        break;
    }
    return fail(rq, WB_NO_WORKER, now);
}

/* What a choice came to; worker NULL: nobody is free. */
struct pick {
    struct worker *worker;
    int32_t rank;
    enum reason reason;
};

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

/* The worker of the record, if it could be chosen now for all that is known of it. */
static struct worker *recalled(const struct request *rq, enum recall how)
{
    struct worker *w = rq->recall == how ? pool_find(rq->pool, rq->recalled) : NULL;

    if (w == NULL || !w->routable || is_tried(rq, w) ||
        (has_adapter(rq) && !worker_holds(w, rq->adapter)))
        return NULL;
    return w;
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

bool request_excludes(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        if (rq->tried_causes[i] != CAUSE_REFUSED && same_worker(rq->tried[i], w))
            return true;
    return (has_adapter(rq) && !worker_may_serve(w, rq->adapter)) ||
           (rq->recall == RECALL_AVOID && is_avoided(rq, w));
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

unsigned request_excluded_count(const struct request *rq)
{
    struct worker *out[REQUEST_TRIED_MAX];

    if (has_adapter(rq)) /* how many hold it changes with each heartbeat */
        return UINT_MAX;
    if (rq->recall == RECALL_AVOID)
        return tried_workers(rq, out) + 1;
    return excluded_workers(rq, out);
}

bool request_may_rebind(const struct request *rq)
{
    return rq->pin == PIN_HARD && !has_target(rq) && !rq->rebound;
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

/* By the policy among those it may go to, without the avoided one while there is another. again:
 * from the queue, also one that refused and is free again. */
static struct pick pick_among(const struct request *rq, bool again, bool peek, mono now)
{
    struct worker *without[REQUEST_TRIED_MAX];
    struct choice choice = {.key = rq->key, .adapter = rq->adapter, .tried = without};
    struct pick pick = {NULL, -1, rq->tried_count > 0 ? REASON_RETRY : REASON_POLICY};
    struct worker *avoided = recalled(rq, RECALL_AVOID);

    choice.tried_count = again ? excluded_workers(rq, without) : tried_workers(rq, without);
    if (avoided != NULL && choice.tried_count < REQUEST_TRIED_MAX) {
        without[choice.tried_count++] = avoided;
        if (!pool_has_untried(rq->pool, &choice))
            choice.tried_count--;
        else if (pick.reason == REASON_POLICY)
            pick.reason = REASON_AVOID;
    }
    pick.worker = pool_choose(rq->pool, &choice, peek, now);
    return pick;
}

static struct pick pick_untried(const struct request *rq, bool peek, mono now)
{
    return pick_among(rq, false, peek, now);
}

static struct pick pick_worker(const struct request *rq, bool peek, mono now)
{
    struct worker *preferred = recalled(rq, RECALL_PREFER);
    bool has_rank;

    if (preferred == NULL || !preferred->free)
        return pick_untried(rq, peek, now);
    has_rank = rq->recalled_rank >= 0 && (uint32_t)rq->recalled_rank < preferred->ranks;
    return (struct pick){preferred, has_rank ? rq->recalled_rank : -1,
                         rq->tried_count > 0 ? REASON_RETRY : REASON_PREFER};
}

static bool untried_left(const struct request *rq)
{
    struct worker *tried[REQUEST_TRIED_MAX];
    struct choice choice = {.adapter = rq->adapter, .tried = tried};

    choice.tried_count = tried_workers(rq, tried);
    return choice.tried_count < REQUEST_TRIED_MAX && pool_has_untried(rq->pool, &choice);
}

static struct next enqueue(struct request *rq, struct worker *only, mono now)
{
    struct worker *w = only;

    (void)charge_release(&rq->charge, now);
    queue_join(rq, only, now);
    if (rq->state == REQUEST_GRANTED && only == NULL)
        queue_pass_on(rq->pool->registry);
    else if (w == NULL && rq->tried_count > 0) /* its mark may have run out before the pause */
        w = pick_among(rq, true, true, now).worker;
    rq->state = REQUEST_QUEUED;
    if (w != NULL)
        queue_worker_changed(w, now);
    return (struct next){.kind = NEXT_QUEUE, .at = rq->ticket.due};
}

/* Nobody is free among those it may go to now. */
static struct next wait_or_fail(struct request *rq, mono now)
{
    struct next next;

    if (request_may_hope(rq) && (rq->state == REQUEST_GRANTED || queue_has_room(rq)))
        return enqueue(rq, NULL, now);
    if (!untried_left(rq) && has_adapter(rq) && rq->tried_count == 0)
        return fail(rq, pool_adapter_status(rq->pool, rq->adapter), now);
    if (!untried_left(rq))
        return fail_by_cause(rq, now);
    next = fail_overloaded(rq, NULL, now);
    next.queue_full = rq->pool->options.queue_limit > 0;
    return next;
}

/* Its one worker has no room, or refused it before. */
static struct next wait_or_fail_at(struct request *rq, struct worker *w, mono now)
{
    struct next next;

    if (rq->state == REQUEST_GRANTED || queue_has_room(rq))
        return enqueue(rq, w, now);
    next = rq->tried_count > 0 ? fail_by_cause(rq, now) : fail_overloaded(rq, w, now);
    next.queue_full = rq->pool->options.queue_limit > 0 || rq->bound;
    return next;
}

/* What the target's worker says to a new request; ejection is the caller's own risk. */
static wb_status target_status(const struct worker *w, int32_t rank, struct span adapter, mono now)
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

/* Constraints that no choice can meet. */
static wb_status request_status(const struct request *rq)
{
    const struct pool_options *options = &rq->pool->options;

    if (rq->malformed)
        return WB_BAD_REQUEST;
    if (has_target(rq))
        return WB_OK;
    if (rq->target_rank >= 0 || options->policy == POLICY_DIRECT ||
        (options->policy == POLICY_HASH && rq->key.len == 0))
        return WB_BAD_REQUEST;
    return WB_OK;
}

/* Charges the worker, from now on or instead of another. False: its adapter can't be counted, for
 * want of memory, and nothing has changed. */
static bool occupy(struct request *rq, struct worker *w, mono now)
{
    struct holding *holding = NULL;

    if (has_adapter(rq)) {
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
    if (!occupy(rq, w, now))
        return fail_overloaded(rq, NULL, now);
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

/* ---- sessions ---- */

/* How it stands with the worker that the session is bound to. */
enum bond {
    BOND_UNHEARD, /* not discovered */
    BOND_BROKEN,  /* not routable, the rank gone, or the client's retry avoids it */
    BOND_LACKING, /* it does not hold the adapter, and may not load it */
    BOND_TRIED,   /* in vain, by this request */
    BOND_BUSY,
    BOND_FREE
};

static enum bond bond_of(const struct request *rq, const struct pin *pin, struct worker *w)
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
    if (!w->routable || (pin->rank >= 0 && (uint32_t)pin->rank >= w->ranks) || is_avoided(rq, w))
        return BOND_BROKEN;
    if (has_adapter(rq) && !worker_may_serve(w, rq->adapter))
        return BOND_LACKING;
    if (refused && rq->state != REQUEST_GRANTED) /* to it again from the queue only */
        return BOND_BUSY;
    return w->free ? BOND_FREE : BOND_BUSY;
}

/* The session rebinds, once for a request. */
static struct next broken(struct request *rq, mono now)
{
    if (rq->rebound)
        return fail_by_cause(rq, now);
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

/* A target that contradicts the binding is a conflict, unless that is broken anyway. */
static bool contradicts(const struct request *rq, const struct pin *pin)
{
    return !span_eq(pin->worker, rq->target) ||
           (rq->target_rank >= 0 && pin->rank >= 0 && rq->target_rank != pin->rank);
}

static struct next contradiction(struct request *rq, const struct pin *pin, mono wait_until,
                                 mono now)
{
    switch (bond_of(rq, pin, pool_find(rq->pool, pin->worker))) {
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
    return fail(rq, WB_SESSION_CONFLICT, now);
}

static struct next choose_target(struct request *rq, const struct pin *pin, mono wait_until,
                                 mono now)
{
    struct worker *w = pool_find(rq->pool, rq->target);
    wb_status status = target_status(w, rq->target_rank, rq->adapter, now);
    bool bound = rq->pin == PIN_HARD || rq->pin == PIN_SOFT;

    if (bound && contradicts(rq, pin))
        return contradiction(rq, pin, wait_until, now);
    if (status == WB_UNKNOWN_WORKER && mono_before(now, wait_until))
        return wait_to_be_heard(rq, wait_until);
    if (status == WB_OVERLOADED ||
        (status == WB_OK && rq->tried_count > 0 && rq->state != REQUEST_GRANTED))
        return wait_or_fail_at(rq, w, now);
    if (status != WB_OK)
        return rq->tried_count > 0 ? fail_by_cause(rq, now) : fail(rq, status, now);
    rq->reason = REASON_TARGET;
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
    struct pick pick = pick_worker(rq, false, now);

    if (pick.worker == NULL && rq->state == REQUEST_GRANTED && rq->tried_count > 0)
        pick = pick_among(rq, true, false, now);
    if (pick.worker == NULL)
        return wait_or_fail(rq, now);
    rq->reason = spill && pick.reason == REASON_POLICY ? REASON_SPILL : pick.reason;
    rq->rank = pick.rank;
    note_owner(rq);
    return charge_chosen(rq, pick.worker, now);
}

static struct next choose_bound(struct request *rq, const struct pin *pin, struct worker *w,
                                mono now)
{
    rq->reason = rq->tried_count > 0 ? REASON_RETRY : REASON_SESSION;
    rq->rank = pin->rank;
    return charge_chosen(rq, w, now);
}

static struct next choose_hard(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct worker *w = pool_find(rq->pool, pin->worker);

    switch (bond_of(rq, pin, w)) {
    case BOND_UNHEARD:
        if (mono_before(now, wait_until))
            return wait_to_be_heard(rq, wait_until);
        return broken(rq, now);
    case BOND_BROKEN:
        return broken(rq, now);
    case BOND_LACKING:
        return fail(rq, WB_SESSION_CONFLICT, now);
    case BOND_TRIED:
        break;
    case BOND_BUSY:
        if (pin->on_busy == ON_BUSY_SPILL)
            return choose_by_policy(rq, true, now);
        if (pin->on_busy == ON_BUSY_FAIL)
            return rq->tried_count > 0 ? fail_by_cause(rq, now) : fail_overloaded(rq, w, now);
        rq->bound = true;
        return wait_or_fail_at(rq, w, now);
    case BOND_FREE:
        return choose_bound(rq, pin, w, now);
    }
    return fail_by_cause(rq, now);
}

/* Once for each request, as soon as its adapter is known. */
static void note_arrival(struct request *rq, mono now)
{
    if (!has_adapter(rq) || rq->arrived)
        return;
    rq->arrived = pool_adapter_arrived(rq->pool, rq->adapter, now);
}

static struct next choose(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct worker *w;

    if (has_target(rq))
        return choose_target(rq, pin, wait_until, now);
    if (has_adapter(rq) && rq->tried_count == 0 && mono_before(now, wait_until) &&
        !pool_adapter_held(rq->pool, rq->adapter))
        return wait_to_be_heard(rq, wait_until);
    if (rq->pin == PIN_HARD)
        return choose_hard(rq, pin, wait_until, now);
    if (rq->pin == PIN_SOFT) {
        w = pool_find(rq->pool, pin->worker);
        if (bond_of(rq, pin, w) == BOND_FREE)
            return choose_bound(rq, pin, w, now);
    }
    return choose_by_policy(rq, false, now);
}

struct next request_choose(struct request *rq, const struct pin *pin, mono wait_until, mono now)
{
    struct next next;
    wb_status status;

    CHECK(rq->state == REQUEST_NEW || rq->state == REQUEST_PAUSED || rq->state == REQUEST_WAITING ||
          rq->state == REQUEST_GRANTED);
    status = request_status(rq);
    if (status != WB_OK)
        return fail(rq, status, now);
    rq->pin = pin != NULL ? (uint8_t)pin->mode : PIN_NONE;
    next = choose(rq, pin, wait_until, now);
    note_arrival(rq, now);
    return next;
}

struct next request_wait_over(struct request *rq, mono now)
{
    struct worker *only = rq->ticket.only;
    struct next next;

    CHECK(rq->state == REQUEST_QUEUED);
    if (only != NULL)
        worker_ref(only);
    queue_leave(rq);
    next =
        rq->last_cause == CAUSE_REFUSED ? fail_by_cause(rq, now) : fail_overloaded(rq, only, now);
    worker_unref(only);
    return next;
}

static void note_tried(struct request *rq, enum cause cause)
{
    CHECK(rq->tried_count < REQUEST_TRIED_MAX);
    worker_ref(rq->charge.worker);
    rq->tried[rq->tried_count] = rq->charge.worker;
    rq->tried_causes[rq->tried_count++] = (uint8_t)cause;
    rq->last_cause = cause;
    rq->rank = -1;
}

static bool may_retry(const struct request *rq, enum cause cause, bool sent)
{
    if (cause == CAUSE_NO_RESPONDERS || cause == CAUSE_GONE)
        return true;
    if (cause == CAUSE_REFUSED)
        return !sent || !rq->one_way;
    return (cause == CAUSE_LOST || cause == CAUSE_TIMEOUT) && rq->idempotent && !rq->one_way;
}

/* Full jitter: anywhere between now and a bound that doubles. */
static mono backed_off(struct request *rq, mono now)
{
    int64_t bound = BACKOFF_BASE_US;

    for (unsigned i = 1; i < rq->attempt && bound < BACKOFF_CAP_US; i++)
        bound *= 2;
    if (bound > BACKOFF_CAP_US)
        bound = BACKOFF_CAP_US;
    return mono_add_us(now,
                       (int64_t)registry_random_below(rq->pool->registry, (uint64_t)bound + 1));
}

/* Somebody untried, or, from the queue, somebody who refused. Who is bound hard asks its session
 * again: the bound worker after a refusal, another one if that is gone. */
static bool another_left(const struct request *rq, enum cause cause)
{
    if (rq->tried_count == REQUEST_TRIED_MAX)
        return false;
    if (has_target(rq))
        return cause == CAUSE_REFUSED && queue_has_room(rq);
    if (rq->pin == PIN_HARD)
        return cause != CAUSE_TIMEOUT;
    return untried_left(rq) || (queue_has_room(rq) && request_may_hope(rq));
}

/* The attempt is over and its charge released: another one, or the end? */
static struct next decide(struct request *rq, enum cause cause, bool sent, mono now)
{
    struct next next = {.kind = NEXT_PAUSE, .at = now};

    if (!may_retry(rq, cause, sent) || rq->attempt >= rq->pool->options.max_attempts ||
        !another_left(rq, cause))
        return fail_by_cause(rq, now);
    if (cause == CAUSE_REFUSED || cause == CAUSE_LOST || cause == CAUSE_TIMEOUT) {
        if (!pool_take_retry(rq->pool, now))
            return fail_by_cause(rq, now);
        next.at = backed_off(rq, now);
    }
    rq->state = REQUEST_PAUSED;
    return next;
}

/* To another one before anything was sent. False: there is none free. */
static bool fall_back(struct request *rq, mono now)
{
    struct worker *w;

    note_tried(rq, CAUSE_GONE);
    if (has_target(rq) || rq->pin == PIN_HARD || rq->tried_count == REQUEST_TRIED_MAX)
        return false;
    w = pick_untried(rq, false, now).worker;
    if (w == NULL)
        return false;
    rq->reason = REASON_FALLBACK;
    return occupy(rq, w, now);
}

struct next request_resolve(struct request *rq, mono now)
{
    CHECK(rq->state == REQUEST_CHOSEN);
    /* One that drains takes no new request, so for this one it is gone too. */
    while (rq->charge.ended || !worker_admits(rq->charge.worker)) {
        if (fall_back(rq, now))
            continue;
        (void)charge_release(&rq->charge, now);
        if (rq->pin == PIN_HARD && !has_target(rq))
            return decide(rq, CAUSE_GONE, false, now);
        return has_target(rq) ? fail_by_cause(rq, now) : wait_or_fail(rq, now);
    }
    if (!worker_has_room(rq->charge.worker, 1, now)) {
        note_tried(rq, CAUSE_REFUSED);
        (void)charge_release(&rq->charge, now);
        return decide(rq, CAUSE_REFUSED, false, now);
    }
    rq->attempt++;
    rq->progressed = false;
    return (struct next){.kind = NEXT_SEND, .at = now};
}

void request_sent(struct request *rq, uint64_t bytes, mono now)
{
    CHECK(rq->state == REQUEST_CHOSEN && rq->attempt > 0);
    charge_bytes(&rq->charge, bytes, now);
    if (rq->waited)
        rq->ticket.due = (mono){0}; /* another wait has its own time */
    rq->state = REQUEST_OUT;
}

void request_unsendable(struct request *rq, mono now)
{
    CHECK(rq->state == REQUEST_CHOSEN);
    (void)fail(rq, WB_INTERNAL, now);
}

static enum delivered delivered_by(enum cause cause, bool progressed)
{
    if (cause == CAUSE_NO_RESPONDERS || cause == CAUSE_GONE || cause == CAUSE_REFUSED)
        return DELIVERED_NO;
    return progressed ? DELIVERED_YES : DELIVERED_MAYBE;
}

/* A message of this attempt: its worker lives. */
static void sign_of_life(struct request *rq, mono now)
{
    charge_bytes_arrived(&rq->charge, now);
    if (rq->charge.ended)
        return;
    worker_alive(rq->charge.worker, now);
    worker_restore(rq->charge.worker, now);
}

/* Does to the worker what the cause says of it; a later epoch is not to blame. */
static void blame(struct request *rq, enum cause cause, int64_t retry_after_ms, mono now)
{
    struct worker *w = rq->charge.worker;

    if (cause == CAUSE_REFUSED) {
        w->refused++;
        sign_of_life(rq, now);
        if (!rq->charge.ended)
            worker_overloaded(w, mono_add_ms(now, retry_after_ms > 0 ? retry_after_ms : REFUSED_MS),
                              now);
    } else if (cause == CAUSE_NO_RESPONDERS) {
        w->failed++;
        if (!rq->charge.ended)
            worker_eject(w, now);
    } else if (cause == CAUSE_LOST || (cause == CAUSE_TIMEOUT && !rq->one_way)) {
        w->failed++;
    }
}

struct next request_failed(struct request *rq, enum cause cause, int64_t retry_after_ms, mono now)
{
    enum delivered delivered = delivered_by(cause, rq->progressed);

    CHECK(rq->state == REQUEST_OUT && cause != CAUSE_NONE && cause < CAUSE_COUNT);
    if (delivered > rq->delivered)
        rq->delivered = delivered;
    if (cause == CAUSE_REFUSED) {
        if (retry_after_ms > REFUSED_MAX_MS)
            retry_after_ms = REFUSED_MAX_MS;
        rq->refused = true;
        rq->retry_after_ms = retry_after_ms > 0 ? retry_after_ms : 0;
    }
    blame(rq, cause, retry_after_ms, now);
    note_tried(rq, cause);
    (void)charge_release(&rq->charge, now);
    return decide(rq, cause, true, now);
}

void request_progress(struct request *rq, mono now)
{
    CHECK(rq->state == REQUEST_OUT || rq->state == REQUEST_SERVED);
    rq->progressed = true;
    sign_of_life(rq, now);
}

void request_answered(struct request *rq, mono now)
{
    CHECK(rq->state == REQUEST_OUT);
    rq->state = REQUEST_SERVED;
    rq->progressed = true;
    rq->charge.worker->served++;
    sign_of_life(rq, now);
}

void request_end(struct request *rq, mono now)
{
    if (rq->state == REQUEST_ENDED)
        return;
    if (rq->state == REQUEST_QUEUED)
        queue_leave(rq);
    rq->state = REQUEST_ENDED;
    (void)charge_release(&rq->charge, now);
    while (rq->tried_count > 0)
        worker_unref(rq->tried[--rq->tried_count]);
    worker_unref(rq->selected);
    rq->selected = NULL;
}

/* Nobody was chosen: why? */
static wb_status unchosen_status(struct pool *pool, struct span adapter)
{
    wb_status status = pool->routable > 0 ? WB_OK : WB_NO_WORKER;

    if (adapter.len > 0)
        status = pool_adapter_status(pool, adapter);
    return status == WB_OK ? WB_OVERLOADED : status;
}

static struct advice advise_target(const struct request *rq, mono now)
{
    struct worker *w = pool_find(rq->pool, rq->target);
    struct advice advice = {.rank = -1, .reason = REASON_TARGET};

    advice.error = target_status(w, rq->target_rank, rq->adapter, now);
    if (advice.error != WB_OK)
        return advice;
    advice.worker = w;
    advice.rank = rq->target_rank;
    if (advice.rank < 0 && w->ranks > 0)
        advice.rank = (int32_t)(w->next_rank % w->ranks);
    return advice;
}

/* The bound worker's name where the request would go to it, or wait for it. */
static bool advise_bound(const struct request *rq, const struct pin *pin, struct advice *advice)
{
    struct worker *w = pool_find(rq->pool, pin->worker);
    enum bond bond = bond_of(rq, pin, w);

    if (bond == BOND_UNHEARD || bond == BOND_BROKEN) {
        advice->reason = REASON_REBIND;
        return false;
    }
    if (bond == BOND_LACKING && pin->mode == PIN_HARD) {
        advice->error = WB_SESSION_CONFLICT;
        return true;
    }
    if (bond == BOND_LACKING)
        return false;
    if (bond == BOND_BUSY && pin->on_busy == ON_BUSY_FAIL && pin->mode == PIN_HARD) {
        advice->error = WB_OVERLOADED;
        return true;
    }
    if (bond == BOND_BUSY && (pin->mode == PIN_SOFT || pin->on_busy == ON_BUSY_SPILL)) {
        advice->reason = pin->mode == PIN_SOFT ? REASON_POLICY : REASON_SPILL;
        return false;
    }
    *advice = (struct advice){.worker = w, .rank = pin->rank, .reason = REASON_SESSION};
    return true;
}

static struct advice advise(const struct request *rq, const struct pin *pin, mono now)
{
    struct advice advice = {.rank = -1, .reason = REASON_POLICY};
    struct pick pick;

    CHECK(rq->state == REQUEST_NEW);
    advice.error = request_status(rq);
    if (advice.error != WB_OK)
        return advice;
    if (has_target(rq)) {
        advice = advise_target(rq, now);
        if (pin != NULL && contradicts(rq, pin))
            advice = (struct advice){.rank = -1, .error = WB_SESSION_CONFLICT};
        return advice;
    }
    if (pin != NULL && advise_bound(rq, pin, &advice))
        return advice;
    pick = pick_worker(rq, true, now);
    if (pick.worker == NULL) {
        advice.error = unchosen_status(rq->pool, rq->adapter);
        return advice;
    }
    advice.worker = pick.worker;
    advice.rank = pick.rank;
    if (advice.reason == REASON_POLICY)
        advice.reason = pick.reason;
    return advice;
}

struct advice request_advise(const struct request *rq, const struct pin *pin, mono now)
{
    struct advice advice = advise(rq, pin, now);
    const struct worker *only = NULL;
    struct overload overload;

    if (advice.worker != NULL && has_adapter(rq) && !worker_holds(advice.worker, rq->adapter))
        advice.reason = REASON_ADAPTER_LOAD;
    if (advice.error != WB_OVERLOADED)
        return advice;
    if (has_target(rq))
        only = pool_find(rq->pool, rq->target);
    else if (pin != NULL && pin->mode == PIN_HARD && pin->on_busy == ON_BUSY_FAIL)
        only = pool_find(rq->pool, pin->worker);
    overload = overload_of(rq->pool, rq->adapter, only, now);
    advice.scope = overload.scope;
    advice.retry_after_ms = overload.retry_after_ms;
    return advice;
}
