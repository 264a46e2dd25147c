/* Dispatch: carries core's decisions to the workers.
 *
 *   dispatch_start    chooses (again): after intake, after a pause, when the link is back, when an
 *                     awaited worker joined
 *   dispatch_follow   does what core said next
 *   dispatch_failed   an attempt failed before its first answer: core says what next
 *   dispatch_waiting  gives those that wait in the queue their turn: the one place that does
 *   dispatch_give_up  the only way a request ends without an answer
 *
 * Choice, charge, resolving and publish are one step of the loop: nothing waits between them. A
 * client's message is prepared afresh from its own bytes for each attempt, so nothing of a failed
 * attempt (worker, rank, number) can stick to the next. Each attempt has a new token; the failed
 * one's is forgotten, which is what makes its messages late. While the back lane is down nothing is
 * chosen: the request waits in PLACE_LINK_WAIT within its time, or goes on waiting in the queue.
 *
 * A worker that becomes free is only noted by core; before_sleep gives the turns, and so does each
 * choice of another request before it, so that nobody overtakes those that wait. */
#include "router/affinity.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "wire/headers.h"
#include "wire/subject.h"

#define TURNS_MAX 4096 /* given at once; the loop gives the others in its next round */
#define ONE_WAY_MS 100 /* spec section 3: published and no 503 within this time */

static bool drop_for_worker(void *arg, const struct header_field *f)
{
    (void)arg;
    if (header_is_waybill(f->name))
        return request_header_find(f->name) == RH_COUNT;
    return span_eq(f->name, H_TRACE_DEST) || span_eq(f->name, H_TRACE_ONLY);
}

static wb_status write_headers(struct transit *t, mono now)
{
    struct router *r = t->router;
    struct header_writer w = router_headers(r);

    if (t->filter_headers)
        header_copy(&w, t->headers, drop_for_worker, NULL);
    else
        header_copy_whole(&w, t->headers);
    if (!t->id_header)
        header_add(&w, H_REQUEST_ID, t->id);
    header_add(&w, H_SUBJECT, t->subject);
    if (t->core.attempt == 1 && t->hops == 1) {
        header_lines(&w, buf_span(&r->first_lines));
    } else {
        header_add_u64(&w, H_ATTEMPT, t->core.attempt);
        header_add(&w, H_ROUTER, r->id);
        header_add_u64(&w, H_HOPS, t->hops);
    }
    if (!mono_is_never(t->total_due)) {
        int64_t left = mono_diff_us(t->total_due, now) / 1000;

        header_add_u64(&w, H_DEADLINE_MS, left > 0 ? (unsigned long long)left : 0);
    }
    if (t->core.rank >= 0)
        header_add_u64(&w, H_RANK, (unsigned long long)t->core.rank);
    return header_close(&w);
}

static size_t write_reply_subject(struct transit *t, char *out)
{
    struct router *r = t->router;
    const struct worker *w = t->core.charge.worker;
    size_t n = r->reply_prefix_len, id_len = strlen(w->id);

    id_encode(t->token, TOKEN_HANDLE_LEN, t->handle);
    id_random(t->token + TOKEN_HANDLE_LEN, TOKEN_RANDOM_LEN);
    memcpy(out, r->reply_prefix, n);
    memcpy(out + n, t->service->name.ptr, t->service->name.len);
    n += t->service->name.len;
    out[n++] = '.';
    memcpy(out + n, w->id, id_len);
    n += id_len;
    out[n++] = '.';
    memcpy(out + n, r->id.ptr, r->id.len);
    n += r->id.len;
    out[n++] = '.';
    memcpy(out + n, t->token, TOKEN_LEN);
    return n + TOKEN_LEN;
}

static void send_attempt(struct transit *t, mono now)
{
    struct router *r = t->router;
    char reply[2 * WB_SUBJECT_MAX];
    const struct service_settings *set = t->service->settings;
    wb_status status = write_headers(t, now);
    size_t bytes;

    if (status == WB_OK)
        status = lane_publish_known(r->back, span_str(t->core.charge.worker->subject),
                                    span_of(reply, write_reply_subject(t, reply)),
                                    buf_span(&r->headers_out), t->payload);
    if (status != WB_OK) {
        transit_forget_token(t);
        request_unsendable(&t->core, now);
        if (status == WB_TOO_LARGE)
            dispatch_give_up(
                t, WB_PAYLOAD_TOO_LARGE,
                "with the router's headers the message exceeds the server's max_payload", now);
        else if (status == WB_FULL)
            dispatch_give_up(t, WB_OVERLOADED, "the link to the workers is full", now);
        else
            dispatch_give_up(t, WB_INTERNAL, "the message could not be prepared", now);
        return;
    }
    bytes = buf_len(&r->headers_out) + t->payload.len;
    request_sent(&t->core, bytes, now);
    t->link_broke = false;
    t->numbered = false;
    t->seq_in = 0;
    router_count(r, COUNT_ATTEMPTS);
    if (t->core.attempt > 1)
        router_count(r, COUNT_RETRIES);
    if (t->core.reason == REASON_ADAPTER_LOAD)
        router_count(r, COUNT_ADAPTER_LOADS);
    transit_place(t, PLACE_RUNNING);
    if (t->replies == WB_REPLIES_NONE)
        transit_arm(t, CLOCK_ONE_WAY, mono_add_ms(now, ONE_WAY_MS));
    else
        transit_arm(t, CLOCK_FIRST_REPLY, mono_add_ms(now, set->timeouts.first_reply_ms));
}

bool dispatch_waiting(struct router *r, mono now)
{
    struct request *rq;
    unsigned n = 0;

    if (!queue_due(r->registry) || r->giving_turns || !lane_is_up(r->back))
        return false;
    r->giving_turns = true;
    while (n < TURNS_MAX && (rq = queue_next(r->registry, now)) != NULL) {
        dispatch_start(CONTAINER_OF(rq, struct transit, core), now);
        n++;
    }
    r->giving_turns = false;
    return n == TURNS_MAX;
}

void dispatch_start(struct transit *t, mono now)
{
    struct router *r = t->router;

    if (t->core.state != REQUEST_GRANTED)
        (void)dispatch_waiting(r, now);
    if (!lane_is_up(r->back)) {
        transit_place(t, PLACE_LINK_WAIT);
        transit_arm(t, CLOCK_FIRST_REPLY,
                    mono_add_ms(t->received, t->service->settings->timeouts.first_reply_ms));
        return;
    }
    transit_place(t, PLACE_RUNNING);
    if (t->attendance)
        affinity_start(t, now);
    else
        dispatch_follow(t, request_choose(&t->core, NULL, r->start_until, now), now);
}

static const char *unknown_adapter_text(const struct transit *t)
{
    bool load = t->service->settings->adapters_load;

    if (t->core.target.len > 0)
        return load ? "the target does not hold the adapter and has no free slot for it"
                    : "the target does not hold the adapter";
    return load ? "no known worker holds the adapter, and none has a free slot for it"
                : wb_status_text(WB_UNKNOWN_ADAPTER);
}

static const char *failure_text(const struct transit *t, wb_status error)
{
    switch (error) {
    case WB_TIMEOUT:
        return t->core.progressed ? "inactivity_ms ran out after progress"
                                  : "first_reply_ms ran out";
    case WB_NO_WORKER:
        return t->core.tried_count ? "every permitted worker was tried and did not get the request"
               : t->core.adapter.len ? "no worker that holds the adapter is routable"
                                     : "no worker of this service is routable";
    case WB_UNKNOWN_ADAPTER:
        return unknown_adapter_text(t);
    case WB_LINK_LOST:
        return "the link to NATS was lost and the attempt's time ran out";
    case WB_OVERLOADED:
        return t->core.waited ? "no permitted worker became free in the time of the queue"
                              : wb_status_text(error);
    default:
        return wb_status_text(error);
    }
}

static void fail(struct transit *t, const struct next *next)
{
    relay_error(t, next->error, failure_text(t, next->error), next);
}

void dispatch_follow(struct transit *t, struct next next, mono now)
{
    for (;;) {
        switch (next.kind) {
        case NEXT_CHOSEN:
            next = request_resolve(&t->core, now);
            continue;
        case NEXT_SEND:
            send_attempt(t, now);
            return;
        case NEXT_PAUSE:
            if (mono_before(now, next.at)) {
                transit_place(t, PLACE_RUNNING);
                transit_arm(t, CLOCK_PAUSE, next.at);
            } else {
                dispatch_start(t, now);
            }
            return;
        case NEXT_WAIT:
            transit_place(t, PLACE_START_WAIT);
            transit_arm(t, CLOCK_PAUSE, next.at);
            return;
        case NEXT_QUEUE:
            router_count(t->router, COUNT_QUEUED);
            transit_place(t, PLACE_QUEUED);
            transit_arm(t, CLOCK_QUEUE, next.at);
            return;
        case NEXT_FAIL:
            if (next.queue_full)
                router_count(t->router, COUNT_QUEUE_FULL);
            fail(t, &next);
            return;
        case NEXT_REBIND: /* affinity's own */
            CHECK(false);
            return;
        }
    }
}

void dispatch_tell_cancel(struct transit *t)
{
    struct router *r = t->router;
    const struct worker *w = t->core.charge.worker;
    struct header_writer hw;

    if (!w || !w->cancel_subject)
        return;
    hw = router_headers(r);
    header_add(&hw, H_REQUEST_ID, t->id);
    header_add_u64(&hw, H_ATTEMPT, t->core.attempt);
    /* A notice: if it can't go out, the worker finishes in vain and its answer is late. */
    if (header_close(&hw) != WB_OK || lane_publish(r->back, span_str(w->cancel_subject), SPAN_EMPTY,
                                                   buf_span(&r->headers_out), SPAN_EMPTY) != WB_OK)
        return;
}

static void count_failure(struct router *r, enum cause cause)
{
    static const int which[CAUSE_COUNT] = {
        [CAUSE_NO_RESPONDERS] = COUNT_NO_RESPONDERS + 1,
        [CAUSE_GONE] = COUNT_GONE + 1,
        [CAUSE_REFUSED] = COUNT_REFUSALS + 1,
        [CAUSE_LOST] = COUNT_LOST + 1,
        [CAUSE_TIMEOUT] = COUNT_TIMEOUTS + 1,
        [CAUSE_DEADLINE] = COUNT_TIMEOUTS + 1,
        [CAUSE_CANCELLED] = COUNT_CANCELS + 1,
    };

    if (which[cause])
        router_count(r, (enum count)(which[cause] - 1));
}

void dispatch_failed(struct transit *t, enum cause cause, int64_t retry_after_ms, mono now)
{
    CHECK(t->core.state == REQUEST_OUT);
    count_failure(t->router, cause);
    if (cause == CAUSE_TIMEOUT || cause == CAUSE_DEADLINE || cause == CAUSE_CANCELLED ||
        cause == CAUSE_LINK)
        dispatch_tell_cancel(t);
    transit_forget_token(t);
    dispatch_follow(t, request_failed(&t->core, cause, retry_after_ms, now), now);
}

/* Ends the attempt that is out, whatever core would say next. */
static void abandon(struct transit *t, enum cause cause, mono now)
{
    dispatch_tell_cancel(t);
    transit_forget_token(t);
    (void)request_failed(&t->core, cause, 0, now);
}

void dispatch_give_up(struct transit *t, wb_status error, const char *message, mono now)
{
    struct next next = {.kind = NEXT_FAIL,
                        .error = error,
                        .scope = error == WB_OVERLOADED ? "service" : NULL,
                        .retry_after_ms = error == WB_OVERLOADED ? 1000 : 0};

    if (t->core.state == REQUEST_OUT)
        abandon(t, CAUSE_CANCELLED, now);
    relay_error(t, error, message, &next);
}

void dispatch_cancel(struct transit *t, mono now)
{
    if (t->place == PLACE_HELD) /* its answer is in already and wins */
        return;
    router_count(t->router, COUNT_CANCELS);
    if (t->core.state == REQUEST_SERVED)
        relay_interrupt(t, WB_CANCELLED, "the request was cancelled", now);
    else
        dispatch_give_up(t, WB_CANCELLED, "the request was cancelled", now);
}

static void attempt_clock(struct transit *t, bool total, mono now)
{
    if (t->clock_kind == CLOCK_ONE_WAY) {
        router_count(t->router, COUNT_ONE_WAY);
        transit_dispose(t);
    } else if (total) {
        count_failure(t->router, CAUSE_DEADLINE);
        abandon(t, CAUSE_DEADLINE, now);
        dispatch_give_up(t, WB_TIMEOUT, "the total time ran out", now);
    } else if (t->link_broke || !lane_is_up(t->router->back)) {
        dispatch_failed(t, CAUSE_LINK, 0, now);
    } else {
        dispatch_failed(t, CAUSE_TIMEOUT, 0, now);
    }
}

static void waited_in_vain(struct transit *t, mono now)
{
    if (!lane_is_up(t->router->back)) {
        dispatch_give_up(t, WB_LINK_LOST, "the link to NATS was lost while the request waited",
                         now);
        return;
    }
    router_count(t->router, COUNT_QUEUE_TIMEOUTS);
    dispatch_follow(t, request_wait_over(&t->core, now), now);
}

void dispatch_clock(struct deadline *d, mono now)
{
    struct transit *t = CONTAINER_OF(d, struct transit, clock);
    bool total = !mono_before(now, t->total_due);

    if (t->place == PLACE_HELD) { /* the front lane stayed away longer than the request's time */
        router_count(t->router, COUNT_CLIENT_LOST);
        transit_dispose(t);
    } else if (t->core.state == REQUEST_OUT) {
        attempt_clock(t, total, now);
    } else if (t->core.state == REQUEST_SERVED) {
        router_count(t->router, COUNT_TIMEOUTS);
        relay_interrupt(t, WB_TIMEOUT, total ? "the total time ran out" : "inactivity_ms ran out",
                        now);
    } else if (total) {
        dispatch_give_up(t, WB_TIMEOUT, "the total time ran out", now);
    } else if (t->place == PLACE_RECORD_WAIT) {
        recall_late(t, now);
    } else if (t->place == PLACE_SESSION_WAIT) {
        affinity_late(t, now);
    } else if (t->place == PLACE_QUEUED) {
        waited_in_vain(t, now);
    } else if (t->place == PLACE_LINK_WAIT) {
        dispatch_give_up(t, WB_LINK_LOST,
                         "the link to NATS was down for the whole time of an attempt", now);
    } else {
        dispatch_start(t, now);
    }
}
