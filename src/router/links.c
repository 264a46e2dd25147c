/* Links: the two lanes' ups and downs, the subscriptions on them, and what the rest of the router
 * must know of it.
 *
 *   front  service subjects (queue groups), admin, cancel; answers, events
 *   back   replies, heartbeats, acknowledgements; requests to workers, announce, record writes
 *
 * The router sits in its queue groups only while both lanes are up, it is not draining, and the
 * service has a worker or start_wait_ms has passed: whoever can't serve must not be chosen by the
 * server. */
#include "router/links.h"
#include "router/ledger.h"
#include "router/micro.h"
#include "router/presence.h"

#include <stdio.h>

#include "base/id.h"
#include "base/loop.h"
#include "wire/subject.h"

#define DENIED_RETRY_MS 5000

static bool service_ready(const struct service *s, mono now)
{
    return pool_discovered(s->pool) > 0 || !mono_before(now, s->router->start_until);
}

static void subscribe_service(struct service *s)
{
    struct router *r = s->router;

    for (unsigned i = 0; i < s->settings->subject_count; i++)
        s->sids[i] = lane_subscribe(r->front, span_str(s->settings->subjects[i]), s->queue,
                                    intake_on_request, s);
    s->subscribed = true;
    log_write(LOG_INFO, "service %s: serving, %u workers known", s->settings->name,
              pool_discovered(s->pool));
}

static void unsubscribe_service(struct service *s)
{
    for (unsigned i = 0; i < s->settings->subject_count; i++) {
        if (s->sids[i])
            lane_unsubscribe(s->router->front, s->sids[i]);
        s->sids[i] = 0;
    }
    s->subscribed = false;
}

void links_leave(struct router *r)
{
    for (unsigned i = 0; i < r->service_count; i++)
        unsubscribe_service(&r->services[i]);
}

static void say_ready(struct router *r)
{
    bool ready = router_ready(r);

    if (ready != r->ready_said)
        log_write(LOG_INFO, ready ? "ready" : "not ready");
    r->ready_said = ready;
}

static void confirmed(void *arg, bool ok)
{
    struct router *r = arg;

    r->confirming--;
    if (ok) /* else the lane is down, or ends */
        say_ready(r);
}

/* Not ready before the server knows the subscriptions: who was told so would get a 503, and what
 * a worker says would be lost. */
static void confirm(struct router *r, struct lane *lane)
{
    if (lane_flush(lane, confirmed, r) == WB_OK)
        r->confirming++;
}

void router_subscribe_due(struct router *r, mono now)
{
    bool any = false;

    if (lane_is_up(r->front) && lane_is_up(r->back) && !r->draining)
        for (unsigned i = 0; i < r->service_count; i++)
            if (!r->services[i].subscribed && service_ready(&r->services[i], now)) {
                subscribe_service(&r->services[i]);
                any = true;
            }
    if (any)
        confirm(r, r->front);
    say_ready(r);
}

bool router_ready(const struct router *r)
{
    if (r->draining || r->denied || r->confirming || !lane_is_up(r->front) || !lane_is_up(r->back))
        return false;
    for (unsigned i = 0; i < r->service_count; i++)
        if (!r->services[i].subscribed)
            return false;
    return true;
}

static void resume_list(struct router *r, enum place place, const struct pool *pool, mono now)
{
    /* dispatch_start may put a transit back at the end of the same list: walk no further than those
     * there now. */
    for (uint32_t n = r->places[place].count; n > 0; n--) {
        struct transit *t = transit_first(r, place);

        if (pool && t->service->pool != pool) {
            transit_place(t, PLACE_RUNNING);
            transit_place(t, place);
        } else {
            dispatch_start(t, now);
        }
    }
}

void links_worker_joined(struct router *r, const struct pool *pool, mono now)
{
    if (r->places[PLACE_START_WAIT].count && lane_is_up(r->back))
        resume_list(r, PLACE_START_WAIT, pool, now);
    router_subscribe_due(r, now);
}

static void back_up(struct router *r, mono now)
{
    if (mono_is_never(r->start_until))
        r->start_until = mono_add_ms(now, r->settings->start_wait_ms);
    registry_link(r->registry, true, now);
    ledger_link(r->ledger, true, now);
    presence_up(r->presence, now);
    resume_list(r, PLACE_LINK_WAIT, NULL, now);
}

static void back_down(struct router *r, mono now)
{
    struct transit *next;

    registry_link(r->registry, false, now);
    presence_down(r->presence);
    ledger_link(r->ledger, false, now);
    links_leave(r);
    for (struct transit *t = transit_first(r, PLACE_RUNNING); t; t = next) {
        next = transit_next(t);
        t->link_broke = true;
        /* Who does not number can't show that nothing was lost. */
        if (t->core.state == REQUEST_SERVED && !t->numbered)
            relay_interrupt(t, WB_INTERRUPTED, "the link to the worker was lost during the stream",
                            now);
    }
}

void links_on_up(void *arg, struct lane *lane, unsigned reconnects)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);

    (void)reconnects;
    log_write(LOG_INFO, "%s link up: %s", lane == r->front ? "front" : "back", lane_server(lane));
    r->denied = false;
    if (lane == r->back)
        back_up(r, now);
    else
        relay_front_up(r);
    confirm(r, lane);
    router_subscribe_due(r, now);
}

void links_on_down(void *arg, struct lane *lane, wb_status why, const char *text)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);

    (void)why;
    router_count(r, COUNT_LINK_DOWN);
    log_write(LOG_WARN, "%s link down: %s", lane == r->front ? "front" : "back", text);
    if (lane == r->back)
        back_down(r, now);
    else
        relay_front_down(r, now);
    say_ready(r);
}

static void resubscribed(void *arg, bool ok)
{
    struct router *r = arg;

    if (ok && mono_is_never(r->denied_due)) {
        r->denied = false;
        say_ready(r);
    }
}

/* A withdrawn right to subscribe leaves the connection up and the router deaf: it says so, is
 * unready, and asks again. */
static void subscription_denied(struct router *r, struct span subject, const char *text, mono now)
{
    char quoted[LOG_QUOTE_SIZE];

    if (!r->denied)
        control_event(r, "subscription_denied", SPAN_EMPTY, SPAN_EMPTY, text);
    log_limited(&r->log_trouble, now, LOG_ERROR, "NATS denies the subscription of %s: %s",
                log_quote(subject, quoted), text);
    r->denied = true;
    r->denied_due = mono_add_ms(now, DENIED_RETRY_MS);
    say_ready(r);
}

static void proved(void *arg, bool ok)
{
    struct router *r = arg;
    mono since = r->proving_since;

    r->proving_since = MONO_NEVER;
    if (ok)
        registry_link_proved(r->registry, since, loop_now(r->loop));
}

/* By a PONG on the lane that brings the heartbeats. From a frozen one there is none, and it is down
 * after some unanswered pings: no worker was lost meanwhile. */
void links_prove(void *arg, mono now)
{
    struct router *r = arg;

    if (!mono_is_never(r->proving_since))
        return;
    r->proving_since = now;
    if (lane_flush(r->back, proved, r) != WB_OK)
        r->proving_since = MONO_NEVER; /* asked again while anybody is overdue */
}

void links_retry_denied(struct router *r, mono now)
{
    r->denied_due = MONO_NEVER;
    if (lane_is_up(r->front)) {
        for (unsigned i = 0; i < r->service_count; i++)
            for (unsigned k = 0; k < r->services[i].settings->subject_count; k++)
                if (r->services[i].sids[k])
                    lane_resubscribe(r->front, r->services[i].sids[k]);
        if (lane_flush(r->front, resubscribed, r) != WB_OK)
            r->denied_due = mono_add_ms(now, DENIED_RETRY_MS);
    }
    if (lane_is_up(r->back)) {
        lane_resubscribe(r->back, r->sid_reply);
        lane_resubscribe(r->back, r->sid_inbox);
        lane_resubscribe(r->back, r->sid_heartbeat);
    }
}

/* The server's -ERR names the subject only: all that is out to it and was not answered did not go.
 */
static void publish_denied(struct router *r, struct span subject, const char *text, mono now)
{
    char quoted[LOG_QUOTE_SIZE];
    struct transit *next;

    log_limited(&r->log_trouble, now, LOG_ERROR, "NATS denies a publish to %s: %s",
                log_quote(subject, quoted), text);
    for (struct transit *t = transit_first(r, PLACE_RUNNING); t; t = next) {
        next = transit_next(t);
        if (t->core.state == REQUEST_OUT && span_eq_str(subject, t->core.charge.worker->subject))
            dispatch_give_up(t, WB_INTERNAL, "NATS denied the publish to the worker", now);
    }
}

void links_on_denied(void *arg, struct lane *lane, bool publish, struct span subject,
                     const char *text)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);

    (void)lane;
    if (publish)
        publish_denied(r, subject, text, now);
    else
        subscription_denied(r, subject, text, now);
}

void links_on_drained(void *arg, struct lane *lane)
{
    struct router *r = arg;

    if (lane == r->front)
        relay_front_up(r);
}

size_t links_inbox(const struct router *r, char kind, uint64_t handle, char out[INBOX_SIZE])
{
    size_t n = r->inbox_prefix_len;

    memcpy(out, r->inbox_prefix, n);
    out[n++] = kind;
    id_encode(out + n, TOKEN_HANDLE_LEN, handle);
    return n + TOKEN_HANDLE_LEN;
}

static void on_inbox(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);
    struct span token;

    if (m->subject.len < 1 + TOKEN_HANDLE_LEN)
        return;
    token = span_of(m->subject.ptr + m->subject.len - 1 - TOKEN_HANDLE_LEN, 1 + TOKEN_HANDLE_LEN);
    if (token.ptr[0] == 'a' || token.ptr[0] == 'r')
        ledger_on_inbox(r->ledger, token, m, now);
    else if (token.ptr[0] == 'k')
        recall_on_inbox(r, token, m, now);
    else
        presence_on_inbox(r->presence, token, m, now);
}

bool links_subscribe_own(struct router *r)
{
    char subject[2 * WB_SUBJECT_MAX], rest[WB_NAME_MAX + 32];

    snprintf(rest, sizeof rest, "reply.*.*.%s.*", r->settings->id);
    r->sid_reply = lane_subscribe(r->back, span_of(subject, subject_join(subject, r->prefix, rest)),
                                  SPAN_EMPTY, relay_on_reply, r);
    /* Only this part of the inbox: the store's nats.c connection has its own subjects beside it. */
    snprintf(rest, sizeof rest, "inbox.%s.l.*", r->settings->id);
    r->sid_inbox = lane_subscribe(r->back, span_of(subject, subject_join(subject, r->prefix, rest)),
                                  SPAN_EMPTY, on_inbox, r);
    r->sid_heartbeat =
        lane_subscribe(r->back, span_of(subject, subject_join(subject, r->prefix, "heartbeat.*.*")),
                       SPAN_EMPTY, presence_on_heartbeat, r);
    control_start(r);
    micro_start(r);
    return r->sid_reply && r->sid_inbox && r->sid_heartbeat;
}
