/* The life of one request as decisions; request.h draws the states.
 *
 * Invariants: a charge is held exactly in CHOSEN, OUT and SERVED; `tried` names each worker once,
 * by (service, id), and holds a reference, so that the name outlives the worker; `attempt` counts
 * publishes only, so what vanished or was full before the send stands in `tried` without a number.
 * The size of `tried` bounds all loops. Every failure of an attempt goes through request_failed:
 * blame, then `decide`, the one decision whether there is another try; every error leaves through
 * `request_fail` in state FAILED with the charge released.
 *
 * Four files: the life, here; whom it may go to (request_candidates.c); the choice, which charges
 * or lets it wait (request_choose.c); what that would be (request_advise.c).
 *
 * It knows no bytes: the router re-prepares the message for each attempt. */
#include "core/request.h"

#include <string.h>

#include "base/check.h"
#include "core/request_parts.h"

#define BACKOFF_BASE_US 25000
#define BACKOFF_CAP_US 1000000
#define REFUSED_MS 1000
#define REFUSED_MAX_MS 60000

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
    rq->pinned_rank = -1;
    rq->key = params->key;
    rq->target = params->target;
    rq->malformed = malformed_target(params->target);
    rq->priority = (int8_t)params->priority;
    rq->adapter = params->adapter;
}

void request_recall(struct request *rq, enum recall how, struct span worker, int32_t rank)
{
    CHECK(rq->state == REQUEST_NEW);
    if (how == RECALL_NONE || request_has_target(rq))
        return;
    rq->recall = (uint8_t)how;
    rq->recalled_rank = rank;
    rq->recalled = worker;
}

struct next request_fail(struct request *rq, wb_status error, mono now)
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

struct overload request_overload(struct pool *pool, struct span adapter,
                                 const struct worker *worker, mono now)
{
    if (worker != NULL)
        return (struct overload){"worker", worker_retry_after_ms(worker, now)};
    if (adapter.len > 0)
        return (struct overload){"adapter", pool_adapter_retry_after_ms(pool, adapter, now)};
    return (struct overload){"service", pool_retry_after_ms(pool, now)};
}

struct next request_fail_overloaded(struct request *rq, const struct worker *worker, mono now)
{
    struct next next = request_fail(rq, WB_OVERLOADED, now);
    struct overload overload = request_overload(rq->pool, rq->adapter, worker, now);

    next.scope = overload.scope;
    next.retry_after_ms = overload.retry_after_ms;
    return next;
}

struct next request_fail_by_cause(struct request *rq, mono now)
{
    const struct worker *target = NULL;
    struct next next;

    switch (rq->last_cause) {
    case CAUSE_REFUSED:
        if ((request_has_target(rq) || (request_is_pinned(rq) && rq->bound)) && rq->tried_count > 0)
            target = rq->tried[rq->tried_count - 1];
        next = request_fail_overloaded(rq, target, now);
        next.forward_refusal = rq->refused;
        return next;
    case CAUSE_LOST:
        return request_fail(rq, WB_WORKER_LOST, now);
    case CAUSE_TIMEOUT:
    case CAUSE_DEADLINE:
        return request_fail(rq, WB_TIMEOUT, now);
    case CAUSE_CANCELLED:
        return request_fail(rq, WB_CANCELLED, now);
    case CAUSE_LINK:
        return request_fail(rq, WB_LINK_LOST, now);
    case CAUSE_INTERRUPTED:
        return request_fail(rq, WB_INTERRUPTED, now);
    case CAUSE_NONE:
    case CAUSE_NO_RESPONDERS:
    case CAUSE_GONE:
    case CAUSE_COUNT:
        break;
    }
    return request_fail(rq, WB_NO_WORKER, now);
}

struct next request_wait_over(struct request *rq, mono now)
{
    struct worker *only = rq->ticket.only;
    struct next next;

    CHECK(rq->state == REQUEST_QUEUED);
    if (only != NULL)
        worker_ref(only);
    queue_leave(rq);
    next = rq->last_cause == CAUSE_REFUSED ? request_fail_by_cause(rq, now)
                                           : request_fail_overloaded(rq, only, now);
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

static bool others_left(const struct request *rq)
{
    return request_untried_left(rq) || (queue_has_room(rq, false) && request_may_hope(rq));
}

/* Its session's worker failed it. If that is gone the session rebinds, though nobody be left for
 * this request; after a refusal it is as if it were busy. */
static bool bound_left(const struct request *rq, enum cause cause)
{
    if (cause != CAUSE_REFUSED)
        return cause != CAUSE_TIMEOUT;
    return rq->on_busy == ON_BUSY_WAIT ? queue_has_room(rq, true)
                                       : rq->on_busy == ON_BUSY_SPILL && others_left(rq);
}

/* Somebody untried, or, from the queue, somebody who refused. */
static bool another_left(const struct request *rq, enum cause cause)
{
    if (rq->tried_count == REQUEST_TRIED_MAX)
        return false;
    if (request_has_target(rq))
        return cause == CAUSE_REFUSED && queue_has_room(rq, false);
    return request_is_pinned(rq) && rq->bound ? bound_left(rq, cause) : others_left(rq);
}

/* The attempt is over and its charge released: another one, or the end? */
static struct next decide(struct request *rq, enum cause cause, bool sent, mono now)
{
    struct next next = {.kind = NEXT_PAUSE, .at = now};

    if (!may_retry(rq, cause, sent) || rq->attempt >= rq->pool->options.max_attempts ||
        !another_left(rq, cause))
        return request_fail_by_cause(rq, now);
    if (cause == CAUSE_REFUSED || cause == CAUSE_LOST || cause == CAUSE_TIMEOUT) {
        if (!pool_take_retry(rq->pool, now))
            return request_fail_by_cause(rq, now);
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
    if (request_has_target(rq) || rq->pin == PIN_HARD || rq->tried_count == REQUEST_TRIED_MAX)
        return false;
    w = request_pick_untried(rq, false, now).worker;
    if (w == NULL)
        return false;
    rq->reason = REASON_FALLBACK;
    rq->bound = false;
    return request_occupy(rq, w, now);
}

struct next request_resolve(struct request *rq, mono now)
{
    CHECK(rq->state == REQUEST_CHOSEN);
    /* One that drains takes no new request, so for this one it is gone too. */
    while (rq->charge.ended || !worker_admits(rq->charge.worker)) {
        if (fall_back(rq, now))
            continue;
        (void)charge_release(&rq->charge, now);
        if (rq->pin == PIN_HARD && !request_has_target(rq))
            return decide(rq, CAUSE_GONE, false, now);
        return request_has_target(rq) ? request_fail_by_cause(rq, now)
                                      : request_wait_or_fail(rq, now);
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
    (void)request_fail(rq, WB_INTERNAL, now);
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
