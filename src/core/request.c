/* The life of one request as decisions; request.h draws the states.
 *
 * Invariants: a charge is held exactly in CHOSEN, OUT and SERVED; `tried` names each worker once,
 * by (service, id), and holds a reference, so that the name outlives the worker; `attempt` counts
 * publishes only, so what vanished or was full before the send stands in `tried` without a number.
 * The size of `tried` bounds all loops. Every failure goes through `failed_by`: blame, then the one
 * decision whether there is another try; every error leaves through `fail` in state FAILED with the
 * charge released.
 *
 * With an adapter all choices are made among its candidates (adapter.c), so retries and fallback
 * never leave them; each charge then counts in the adapter too.
 *
 * It does not queue, does not look at sessions, and knows no bytes: the router re-prepares the
 * message for each attempt. */
#include "core/request.h"

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
    static const char *const names[REASON_COUNT] = {"policy", "target", "fallback", "retry",
                                                    "adapter_load"};

    CHECK((unsigned)reason < REASON_COUNT);
    return names[reason];
}

static bool malformed_target(struct span target)
{
    return target.len > WB_NAME_MAX || memchr(target.ptr, '\0', target.len) != NULL;
}

static void copy_target(struct request *rq, struct span target)
{
    memcpy(rq->target, target.ptr, target.len);
    rq->target[target.len] = '\0';
}

void request_init(struct request *rq, struct pool *pool, const struct request_params *params,
                  mono now)
{
    (void)now;
    memset(rq, 0, offsetof(struct request, target));
    rq->target[0] = '\0';
    rq->state = REQUEST_NEW;
    rq->pool = pool;
    rq->idempotent = params->idempotent;
    rq->one_way = params->one_way;
    rq->rank = -1;
    rq->target_rank = params->target_rank;
    rq->key = params->key;
    rq->adapter = params->adapter;
    if (params->target.len > 0) {
        rq->malformed = malformed_target(params->target);
        if (!rq->malformed)
            copy_target(rq, params->target);
    }
}

static bool has_target(const struct request *rq)
{
    return rq->target[0] != '\0';
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
            target = rq->tried[rq->tried_count - 1].worker;
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

static unsigned tried_workers(const struct request *rq, struct worker *out[REQUEST_TRIED_MAX])
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        out[i] = rq->tried[i].worker;
    return rq->tried_count;
}

static struct worker *choose_untried(struct request *rq, mono now)
{
    struct worker *tried[REQUEST_TRIED_MAX];
    struct choice choice = {.key = rq->key, .adapter = rq->adapter, .tried = tried};

    choice.tried_count = tried_workers(rq, tried);
    return pool_choose(rq->pool, &choice, false, now);
}

static bool untried_left(const struct request *rq)
{
    struct worker *tried[REQUEST_TRIED_MAX];
    struct choice choice = {.adapter = rq->adapter, .tried = tried};

    choice.tried_count = tried_workers(rq, tried);
    return choice.tried_count < REQUEST_TRIED_MAX && pool_has_untried(rq->pool, &choice);
}

/* Nobody is free among the untried. */
static struct next fail_unchosen(struct request *rq, mono now)
{
    if (untried_left(rq))
        return fail_overloaded(rq, NULL, now);
    if (has_adapter(rq) && rq->tried_count == 0)
        return fail(rq, pool_adapter_status(rq->pool, rq->adapter), now);
    return fail_by_cause(rq, now);
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
static wb_status params_status(const struct pool *pool, bool target, int32_t rank, struct span key)
{
    if (target)
        return WB_OK;
    if (rank >= 0 || pool->options.policy == POLICY_DIRECT ||
        (pool->options.policy == POLICY_HASH && key.len == 0))
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

static struct next choose_target(struct request *rq, mono wait_until, mono now)
{
    struct worker *w = pool_find(rq->pool, span_str(rq->target));
    wb_status status = target_status(w, rq->target_rank, rq->adapter, now);

    if (status == WB_UNKNOWN_WORKER && mono_before(now, wait_until)) {
        rq->state = REQUEST_WAITING;
        return (struct next){.kind = NEXT_WAIT, .at = wait_until};
    }
    if (status == WB_OVERLOADED)
        return fail_overloaded(rq, w, now);
    if (status != WB_OK)
        return fail(rq, status, now);
    rq->reason = REASON_TARGET;
    rq->rank = rq->target_rank;
    if (rq->rank < 0 && w->ranks > 0) {
        rq->rank = (int32_t)(w->next_rank % w->ranks);
        w->next_rank = (w->next_rank + 1) % w->ranks;
    }
    return charge_chosen(rq, w, now);
}

static struct next choose_any(struct request *rq, mono wait_until, mono now)
{
    struct worker *w;

    if (has_adapter(rq) && rq->tried_count == 0 && mono_before(now, wait_until) &&
        !pool_adapter_held(rq->pool, rq->adapter)) {
        rq->state = REQUEST_WAITING;
        return (struct next){.kind = NEXT_WAIT, .at = wait_until};
    }
    w = choose_untried(rq, now);
    if (w == NULL)
        return fail_unchosen(rq, now);
    rq->reason = rq->tried_count > 0 ? REASON_RETRY : REASON_POLICY;
    return charge_chosen(rq, w, now);
}

/* Once for each request, as soon as its adapter is known. */
static void note_arrival(struct request *rq, mono now)
{
    if (!has_adapter(rq) || rq->arrived)
        return;
    rq->arrived = pool_adapter_arrived(rq->pool, rq->adapter, now);
}

struct next request_choose(struct request *rq, mono wait_until, mono now)
{
    struct next next;
    wb_status status;

    CHECK(rq->state == REQUEST_NEW || rq->state == REQUEST_PAUSED || rq->state == REQUEST_WAITING);
    status = rq->malformed ? WB_BAD_REQUEST
                           : params_status(rq->pool, has_target(rq), rq->target_rank, rq->key);
    if (status != WB_OK)
        return fail(rq, status, now);
    next = has_target(rq) ? choose_target(rq, wait_until, now) : choose_any(rq, wait_until, now);
    note_arrival(rq, now);
    return next;
}

static void note_tried(struct request *rq, enum cause cause)
{
    CHECK(rq->tried_count < REQUEST_TRIED_MAX);
    worker_ref(rq->charge.worker);
    rq->tried[rq->tried_count++] = (struct tried){rq->charge.worker, cause};
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

/* The attempt is over and its charge released: another one, or the end? */
static struct next decide(struct request *rq, enum cause cause, bool sent, mono now)
{
    struct next next = {.kind = NEXT_PAUSE, .at = now};

    if (has_target(rq) || !may_retry(rq, cause, sent) ||
        rq->attempt >= rq->pool->options.max_attempts || !untried_left(rq))
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
    if (has_target(rq) || rq->tried_count == REQUEST_TRIED_MAX)
        return false;
    w = choose_untried(rq, now);
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
        return has_target(rq) ? fail_by_cause(rq, now) : fail_unchosen(rq, now);
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
    rq->state = REQUEST_ENDED;
    (void)charge_release(&rq->charge, now);
    while (rq->tried_count > 0) {
        struct tried *tried = &rq->tried[--rq->tried_count];

        worker_unref(tried->worker);
        tried->worker = NULL;
    }
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

static struct advice advise(struct pool *pool, const struct request_params *params, mono now)
{
    bool target = params->target.len > 0;
    struct advice advice = {.rank = -1, .reason = target ? REASON_TARGET : REASON_POLICY};
    struct choice choice = {.key = params->key, .adapter = params->adapter};
    struct worker *w;

    advice.error = params_status(pool, target, params->target_rank, params->key);
    if (target && malformed_target(params->target))
        advice.error = WB_BAD_REQUEST;
    if (advice.error != WB_OK)
        return advice;
    if (target) {
        w = pool_find(pool, params->target);
        advice.error = target_status(w, params->target_rank, params->adapter, now);
        if (advice.error != WB_OK)
            return advice;
        advice.rank = params->target_rank;
        if (advice.rank < 0 && w->ranks > 0)
            advice.rank = (int32_t)(w->next_rank % w->ranks);
    } else {
        w = pool_choose(pool, &choice, true, now);
        if (w == NULL) {
            advice.error = unchosen_status(pool, params->adapter);
            return advice;
        }
    }
    if (params->adapter.len > 0 && !worker_holds(w, params->adapter))
        advice.reason = REASON_ADAPTER_LOAD;
    advice.worker = w;
    return advice;
}

struct advice request_advise(struct pool *pool, const struct request_params *params, mono now)
{
    struct advice advice = advise(pool, params, now);

    if (advice.error == WB_OVERLOADED) {
        const struct worker *target =
            params->target.len > 0 ? pool_find(pool, params->target) : NULL;
        struct overload overload = overload_of(pool, params->adapter, target, now);

        advice.scope = overload.scope;
        advice.retry_after_ms = overload.retry_after_ms;
    }
    return advice;
}
