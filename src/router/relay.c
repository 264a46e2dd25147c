/* Relay: what a worker sends on an attempt's reply subject, and what of it the client gets.
 *
 * A message is classified in the order of spec section 4; the first line that fits decides:
 *   late, status line, a stream's acknowledgement, progress, error (refusal or answer), end,
 * answer.
 *
 * Towards the client a transit sends data, at most one error, and in a stream exactly one empty
 * end; each has its Waybill-Seq. Sending goes through one function, which holds messages back while
 * the record's acknowledgement is awaited (attribution before_reply) or the front lane is away;
 * what is held keeps its order and is bounded. The charge is released before anything that ends the
 * request is sent. */
#include "router/affinity.h"
#include "router/ledger.h"
#include "router/presence.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "wire/error_body.h"
#include "wire/headers.h"
#include "wire/js.h"

#define SUSPECT_BYTES_MAX (64 * 1024)
#define RETRY_AFTER_MAX_MS 60000

/* What one pass over a worker's headers found. */
struct scan {
    bool waybill, progress, error, end, has_seq, seq_bad;
    bool whole; /* the block ends with its closing CRLF, as it should */
    int code;
    unsigned long long seq, retry_after_ms;
};

static struct scan scan_headers(struct span block)
{
    struct scan s = {.code = 500};
    struct header_iter iter;
    struct header_field f;
    unsigned long long n;
    const char *at;

    if (block.len == 0)
        return s;
    header_begin(&iter, block);
    for (at = iter.at; header_next(&iter, &f); at = iter.at) {
        if (header_is_waybill(f.name)) {
            s.waybill = true;
            if (span_eq(f.name, H_PROGRESS))
                s.progress = span_eq_str(f.value, "true");
            else if (span_eq(f.name, H_END))
                s.end = span_eq_str(f.value, "true");
            else if (span_eq(f.name, H_SEQ))
                s.has_seq = true, s.seq_bad = !span_to_u64(f.value, &s.seq);
            else if (span_eq(f.name, H_RETRY_AFTER_MS) && span_to_u64(f.value, &n))
                s.retry_after_ms = n > RETRY_AFTER_MAX_MS ? RETRY_AFTER_MAX_MS : n;
        } else if (span_eq(f.name, H_SERVICE_ERROR_CODE)) {
            s.error = true;
            s.code = span_to_u64(f.value, &n) && n <= 999 ? (int)n : 500;
        } else if (span_eq(f.name, H_SERVICE_ERROR)) {
            s.error = true;
        }
    }
    s.whole = at + 2 == iter.end && at[0] == '\r' && at[1] == '\n';
    return s;
}

static bool drop_waybill(void *arg, const struct header_field *f)
{
    (void)arg;
    return header_is_waybill(f->name);
}

static bool is_stream(const struct transit *t)
{
    return t->replies == WB_REPLIES_STREAM;
}

/* ---- towards the client ---- */

static void disclose(struct transit *t, struct header_writer *w)
{
    header_add(w, H_REQUEST_ID, t->id);
    if (t->server) {
        if (t->service->settings->disclose) {
            header_add(w, H_WORKER, worker_name(t->server));
            if (t->core.rank >= 0)
                header_add_u64(w, H_RANK, (unsigned long long)t->core.rank);
        }
        header_add_u64(w, H_ATTEMPT, t->core.attempt);
    }
    if (t->retry_unknown)
        header_add(w, H_RETRY_STATE, SPAN_LIT("unknown"));
    t->disclosed = true;
}

static mono front_due(const struct transit *t)
{
    return mono_min(t->total_due,
                    mono_add_ms(t->received, t->service->settings->timeouts.first_reply_ms));
}

static wb_status hold_back(struct transit *t, struct span headers, struct span payload)
{
    struct held *h;

    if (t->hold.first && t->hold.bytes + headers.len + payload.len > HOLD_BYTES_MAX)
        return WB_FULL;
    h = held_create(headers, payload);
    if (!h)
        return WB_NO_MEMORY;
    held_append(&t->hold, h);
    return WB_OK;
}

/* Sends one message to the client, or holds it. The headers are a whole block. */
static wb_status send(struct transit *t, struct span headers, struct span payload)
{
    struct router *r = t->router;
    wb_status status;

    if (t->reply.len == 0)
        return WB_OK;
    if (t->held_for_ack) {
        status = hold_back(t, headers, payload);
        if (status != WB_FULL)
            return status;
        relay_release(t, false);
    }
    if (!t->held_for_front) {
        status = lane_publish_known(r->front, t->reply, SPAN_EMPTY, headers, payload);
        if (status != WB_CLOSED && status != WB_FULL)
            return status;
        t->held_for_front = true;
    }
    return hold_back(t, headers, payload);
}

/* Takes a finished transit out, or leaves it where its held messages wait. */
static void settle(struct transit *t)
{
    struct router *r = t->router;

    if (!t->hold.first) {
        transit_dispose(t);
        return;
    }
    request_end(&t->core, loop_now(r->loop));
    affinity_leave(t, loop_now(r->loop));
    transit_place(t, PLACE_HELD);
    if (t->held_for_ack)
        deadline_cancel(r->deadlines, &t->clock); /* the ledger's clock bounds it */
    else
        transit_arm(t, CLOCK_FRONT, front_due(t));
}

static void flush_held(struct transit *t)
{
    struct router *r = t->router;
    struct held *h;

    while ((h = t->hold.first)) {
        wb_status status =
            lane_publish(r->front, t->reply, SPAN_EMPTY, held_headers(h), held_payload(h));

        if (status == WB_CLOSED || status == WB_FULL) {
            t->held_for_front = true;
            return;
        }
        if (status != WB_OK)
            router_count(r, COUNT_CLIENT_LOST);
        free(held_take(&t->hold));
    }
    t->held_for_front = false;
}

/* In a buffer of its own: headers_out may hold the very block that is about to be sent. */
static struct held *marked_unconfirmed(const struct held *old)
{
    struct held *marked = NULL;
    struct header_writer w;
    struct buf block;

    buf_init(&block, old->headers_len + 256);
    header_open(&w, &block);
    header_copy(&w, held_headers(old), NULL, NULL);
    header_add(&w, H_ATTRIBUTION, SPAN_LIT("unconfirmed"));
    if (header_close(&w) == WB_OK)
        marked = held_create(buf_span(&block), held_payload(old));
    buf_fini(&block);
    return marked;
}

static void mark_unconfirmed(struct transit *t)
{
    struct held *old = held_take(&t->hold), *marked, *rest;
    struct held_list list = {0};

    if (!old)
        return;
    router_count(t->router, COUNT_ATTRIBUTION_UNCONFIRMED);
    marked = marked_unconfirmed(old);
    /* Without memory the answer goes out unmarked rather than not at all. */
    held_append(&list, marked ? marked : old);
    if (marked)
        free(old);
    while ((rest = held_take(&t->hold)))
        held_append(&list, rest);
    t->hold = list;
}

void relay_release(struct transit *t, bool confirmed)
{
    if (!t->held_for_ack)
        return;
    t->held_for_ack = false;
    if (!confirmed)
        mark_unconfirmed(t);
    flush_held(t);
    if (t->place == PLACE_HELD)
        settle(t);
}

void relay_front_up(struct router *r)
{
    struct transit *next;

    for (struct transit *t = transit_first(r, PLACE_HELD); t; t = next) {
        next = transit_next(t);
        if (!t->held_for_ack) {
            flush_held(t);
            settle(t);
        }
    }
    for (struct transit *t = transit_first(r, PLACE_RUNNING); t; t = next) {
        next = transit_next(t);
        if (t->held_for_front && !t->held_for_ack)
            flush_held(t);
    }
}

void relay_front_down(struct router *r, mono now)
{
    struct transit *next;

    for (struct transit *t = transit_first(r, PLACE_RUNNING); t; t = next) {
        next = transit_next(t);
        if (t->core.state == REQUEST_SERVED && t->seq_out > 0)
            relay_interrupt(t, WB_INTERRUPTED, "the link to the client was lost during the stream",
                            now);
    }
}

/* ---- errors ---- */

static void service_error(struct service *s, wb_status error)
{
    s->errors[error]++;
    s->last_error = wb_status_name(error);
}

static const char *outcome_of(wb_status error)
{
    switch (error) {
    case WB_INTERRUPTED:
        return "interrupted";
    case WB_CANCELLED:
        return "cancelled";
    case WB_TIMEOUT:
        return "timeout";
    default:
        return "error";
    }
}

struct trouble {
    wb_status error;
    const char *message;
    const char *scope;
    int64_t retry_after_ms;
    const struct held *refusal; /* forwarded instead of a body of ours */
};

static wb_status error_body(struct transit *t, const struct trouble *e)
{
    struct router *r = t->router;
    struct record_tried tried[RECORD_TRIED_MAX];
    unsigned n = 0;

    for (; n < t->core.tried_count && n < RECORD_TRIED_MAX; n++) {
        tried[n].worker = worker_name(t->core.tried[n]);
        tried[n].cause = span_str(cause_name(t->core.tried_causes[n]));
    }
    buf_clear(&r->body_out);
    return error_body_encode(&r->body_out, e->error, span_str(e->message), t->id, tried, n,
                             e->scope, t->service->settings->disclose);
}

static void error_headers(struct header_writer *w, const struct trouble *e,
                          enum delivered delivered)
{
    if (e->refusal) {
        header_copy(w, held_headers(e->refusal), drop_waybill, NULL);
    } else {
        header_add(w, H_SERVICE_ERROR, span_str(wb_status_text(e->error)));
        header_add_u64(w, H_SERVICE_ERROR_CODE, (unsigned long long)wb_status_code(e->error));
    }
    header_add(w, H_ERROR, span_str(wb_status_name(e->error)));
    header_add(w, H_DELIVERED, span_str(delivered_name(delivered)));
    if (e->error == WB_OVERLOADED)
        header_add_u64(w, H_RETRY_AFTER_MS,
                       (unsigned long long)(e->retry_after_ms > 0 ? e->retry_after_ms : 1000));
}

static void send_checked(struct transit *t, struct header_writer *w, struct span payload)
{
    if (header_close(w) != WB_OK || send(t, buf_span(&t->router->headers_out), payload) != WB_OK)
        router_count(t->router, COUNT_CLIENT_LOST);
}

/* The end of a stream to the client; e NULL: it went well. `worker_error`: headers of the worker's
 * own error, or empty. */
static void send_end(struct transit *t, const char *outcome, const struct trouble *e,
                     struct span worker_error)
{
    struct header_writer w = router_headers(t->router);

    if (e)
        error_headers(&w, e, t->core.delivered);
    else if (worker_error.len)
        header_copy(&w, worker_error, drop_waybill, NULL);
    header_add_u64(&w, H_SEQ, ++t->seq_out);
    disclose(t, &w);
    header_add(&w, H_OUTCOME, span_str(outcome));
    header_add_u64(&w, H_COUNT_, t->answers);
    send_checked(t, &w, SPAN_EMPTY);
}

/* The one error message, and in a stream its end. */
static void send_error(struct transit *t, const struct trouble *e, const char *outcome)
{
    struct header_writer w;
    struct span payload = SPAN_EMPTY;

    if (t->reply.len == 0)
        return;
    if (e->refusal && e->refusal->payload_len)
        payload = held_payload(e->refusal);
    else if (!e->refusal || is_stream(t)) {
        if (error_body(t, e) == WB_OK)
            payload = buf_span(&t->router->body_out);
    }
    w = router_headers(t->router);
    error_headers(&w, e, t->core.delivered);
    if (is_stream(t))
        header_add_u64(&w, H_SEQ, ++t->seq_out);
    if (!t->disclosed || !is_stream(t))
        disclose(t, &w);
    send_checked(t, &w, payload);
    if (is_stream(t))
        send_end(t, outcome, e, SPAN_EMPTY);
}

void relay_error(struct transit *t, wb_status error, const char *message, const struct next *next)
{
    struct trouble e = {.error = error,
                        .message = message,
                        .scope = next->scope,
                        .retry_after_ms = next->retry_after_ms,
                        .refusal = next->forward_refusal ? t->refusal : NULL};

    service_error(t->service, error);
    send_error(t, &e, outcome_of(error));
    settle(t);
}

void relay_refuse(struct router *r, struct service *s, struct span reply, struct span id,
                  bool stream, wb_status error, const char *message, int64_t retry_after_ms)
{
    const struct trouble e = {.error = error, .retry_after_ms = retry_after_ms};

    service_error(s, error);
    if (reply.len == 0)
        return;
    buf_clear(&r->body_out);
    if (error_body_encode(&r->body_out, error, span_str(message), id, NULL, 0,
                          error == WB_OVERLOADED ? "service" : NULL,
                          s->settings->disclose) != WB_OK)
        return;
    for (unsigned seq = 1; seq <= (stream ? 2u : 1u); seq++) {
        struct header_writer w = router_headers(r);

        error_headers(&w, &e, DELIVERED_NO);
        header_add(&w, H_REQUEST_ID, id);
        if (stream)
            header_add_u64(&w, H_SEQ, seq);
        if (seq == 2) {
            header_add(&w, H_OUTCOME, SPAN_LIT("error"));
            header_add_u64(&w, H_COUNT_, 0);
        }
        if (header_close(&w) != WB_OK ||
            lane_publish(r->front, reply, SPAN_EMPTY, buf_span(&r->headers_out),
                         seq == 2 ? SPAN_EMPTY : buf_span(&r->body_out)) != WB_OK)
            router_count(r, COUNT_CLIENT_LOST);
    }
}

/* ---- from the worker ---- */

/* The attempt is answered: from here on who served is known. */
static void served(struct transit *t, mono now)
{
    request_answered(&t->core, now);
    t->server = t->core.charge.worker;
    worker_ref(t->server);
    t->first_reply_us = mono_diff_us(now, t->received);
    router_count(t->router, COUNT_ANSWERED);
    affinity_answered(t, now);
}

/* The heart: only after served is anything written about who served. What follows to the client
 * waits for the bucket, if so configured. */
static void attribute(struct transit *t, const char *outcome, int code, mono now)
{
    t->held_for_ack =
        t->router->settings->attribution.write == ATTRIBUTION_BEFORE_REPLY && t->reply.len > 0;
    ledger_first(t, outcome, code, now);
}

static void release_if_untaken(struct transit *t)
{
    if (t->held_for_ack && t->entry == 0)
        relay_release(t, false);
}

static void end_request(struct transit *t, mono now)
{
    transit_forget_token(t);
    request_end(&t->core, now);
    affinity_leave(t, now);
}

/* Headers of a forwarded answer into headers_out; without the disclosure if it would not fit,
 * WB_TOO_LARGE if even that does not. */
static wb_status answer_headers(struct transit *t, const struct lane_message *m,
                                const struct scan *s)
{
    struct router *r = t->router;
    size_t max = lane_max_payload(r->front);
    wb_status status;

    for (int with = !t->disclosed; with >= 0; with--) {
        struct header_writer w = router_headers(t->router);

        if (s->whole && !s->waybill)
            header_copy_whole(&w, m->headers);
        else
            header_copy(&w, m->headers, drop_waybill, NULL);
        if (is_stream(t))
            header_add_u64(&w, H_SEQ, t->seq_out + 1);
        if (with)
            disclose(t, &w);
        status = header_close(&w);
        if (status != WB_OK)
            return status;
        if (buf_len(&r->headers_out) == sizeof "NATS/1.0\r\n\r\n" - 1)
            buf_clear(&r->headers_out); /* no field: no block */
        if (buf_len(&r->headers_out) + m->payload.len <= max)
            return WB_OK;
    }
    return WB_TOO_LARGE;
}

static void answer_one(struct transit *t, const struct lane_message *m, const struct scan *s,
                       mono now)
{
    wb_status status;

    served(t, now);
    status = answer_headers(t, m, s);
    if (status == WB_TOO_LARGE)
        attribute(t, "error", wb_status_code(WB_PAYLOAD_TOO_LARGE), now);
    else
        attribute(t, s->error ? "error" : "done", s->error ? s->code : 0, now);
    end_request(t, now);
    if (status == WB_OK) {
        if (send(t, buf_span(&t->router->headers_out), m->payload) != WB_OK)
            router_count(t->router, COUNT_CLIENT_LOST);
    } else {
        struct trouble e = {.error = WB_PAYLOAD_TOO_LARGE,
                            .message = "the answer exceeds the server's max_payload"};

        service_error(t->service, WB_PAYLOAD_TOO_LARGE);
        send_error(t, &e, "error");
    }
    release_if_untaken(t);
    settle(t);
}

static bool is_hole(struct transit *t, const struct scan *s)
{
    bool hole = false;

    if (s->has_seq) {
        hole = s->seq_bad || s->seq != t->seq_in + 1;
        t->numbered = true;
        t->seq_in++;
    } else {
        hole = t->numbered;
    }
    return hole;
}

void relay_interrupt(struct transit *t, wb_status error, const char *message, mono now)
{
    struct trouble e = {.error = error, .message = message};

    if (error == WB_INTERRUPTED)
        router_count(t->router, COUNT_INTERRUPTED);
    service_error(t->service, error);
    dispatch_tell_cancel(t);
    t->core.delivered = DELIVERED_YES;
    ledger_end(t, outcome_of(error), wb_status_code(error), now);
    end_request(t, now);
    send_error(t, &e, outcome_of(error));
    release_if_untaken(t);
    settle(t);
}

static void finish_stream(struct transit *t, const char *outcome, int code,
                          struct span worker_error, mono now)
{
    ledger_end(t, outcome, code, now);
    end_request(t, now);
    send_end(t, outcome, NULL, worker_error);
    release_if_untaken(t);
    settle(t);
}

/* False: it could not be forwarded and the stream has been ended. */
static bool forward(struct transit *t, const struct lane_message *m, const struct scan *s,
                    struct span payload, mono now)
{
    wb_status status = answer_headers(t, m, s);

    if (status == WB_OK)
        status = send(t, buf_span(&t->router->headers_out), payload);
    if (status == WB_OK) {
        t->seq_out++;
        release_if_untaken(t);
        return true;
    }
    if (status == WB_TOO_LARGE)
        relay_interrupt(t, WB_PAYLOAD_TOO_LARGE,
                        "a message of the stream exceeds the server's max_payload", now);
    else
        relay_interrupt(t, WB_INTERRUPTED, "the client's link holds as much as it may", now);
    return false;
}

static void stream_error(struct transit *t, const struct lane_message *m, const struct scan *s,
                         mono now)
{
    struct trouble e = {.error = WB_INTERNAL, .message = "the worker answered with an error"};
    struct span payload = m->payload;

    if (payload.len == 0 && error_body(t, &e) == WB_OK)
        payload = buf_span(&t->router->body_out);
    if (forward(t, m, s, payload, now))
        finish_stream(t, "error", s->code, m->headers, now);
}

static void stream_message(struct transit *t, const struct lane_message *m, const struct scan *s,
                           mono now)
{
    if (t->core.state == REQUEST_OUT) {
        router_count(t->router, COUNT_STREAMS);
        served(t, now);
        attribute(t, "streaming", 0, now);
    }
    if (is_hole(t, s)) {
        relay_interrupt(t, WB_INTERRUPTED, "the worker's numbering has a hole", now);
        return;
    }
    transit_arm(t, CLOCK_INACTIVITY,
                mono_add_ms(now, t->service->settings->timeouts.inactivity_ms));
    if (s->error) {
        stream_error(t, m, s, now);
        return;
    }
    if (m->payload.len > 0) {
        t->answers++;
        router_count(t->router, COUNT_STREAM_MESSAGES);
        if (!forward(t, m, s, m->payload, now))
            return;
    }
    if (m->payload.len == 0 || s->end)
        finish_stream(t, "done", 0, SPAN_EMPTY, now);
}

static bool refuses(const struct transit *t, int code)
{
    const struct service_settings *set = t->service->settings;

    if (!set->retry.on_codes_set)
        return code == 429 || (code == 503 && !t->core.charge.worker->is_static);
    for (unsigned i = 0; i < set->retry.on_code_count; i++)
        if (set->retry.on_codes[i] == code)
            return true;
    return false;
}

static void status_line(struct transit *t, int status, const struct lane_message *m, mono now)
{
    if (status == 503 && m->payload.len == 0 && t->core.state == REQUEST_OUT && !t->core.progressed)
        dispatch_failed(t, CAUSE_NO_RESPONDERS, 0, now);
    else
        router_count(t->router, COUNT_FORGED);
}

static void classified(struct transit *t, const struct lane_message *m, mono now)
{
    struct scan s = scan_headers(m->headers);
    struct worker *w = t->core.charge.worker;

    worker_alive(w, now);
    if (s.progress) {
        router_count(t->router, COUNT_PROGRESS);
        request_progress(&t->core, now);
        transit_arm(t, CLOCK_INACTIVITY,
                    mono_add_ms(now, t->service->settings->timeouts.inactivity_ms));
    } else if (s.error && t->core.state == REQUEST_OUT && refuses(t, s.code)) {
        free(t->refusal);
        t->refusal = held_create(m->headers, m->payload);
        dispatch_failed(t, CAUSE_REFUSED, (int64_t)s.retry_after_ms, now);
    } else if (is_stream(t)) {
        stream_message(t, m, &s, now);
    } else {
        answer_one(t, m, &s, now);
    }
}

/* True: it is the acknowledgement of a stream that captures worker subjects, and was dropped. */
static bool stream_ack(struct transit *t, const struct lane_message *m)
{
    struct presence *p = t->router->presence;
    struct js_ack ack;

    if (m->headers.len || !span_starts(m->payload, SPAN_LIT("{\"stream\":")) ||
        js_ack_parse(m->payload, &ack) != WB_OK || ack.code)
        return false;
    if (presence_captures(p, ack.stream)) {
        router_count(t->router, COUNT_STREAM_ACKS);
        return true;
    }
    return false;
}

static void take_message(struct transit *t, const struct lane_message *m, mono now)
{
    int status = m->headers.len ? header_status(m->headers) : 0;

    if (status)
        status_line(t, status, m, now);
    else if (t->replies == WB_REPLIES_NONE)
        router_count(t->router, COUNT_LATE);
    else if (!stream_ack(t, m))
        classified(t, m, now);
}

static bool suspect(struct transit *t, const struct lane_message *m)
{
    struct js_ack ack;
    struct held *h;

    if (!t->suspects.first) {
        if (t->ack_checked || t->replies == WB_REPLIES_NONE || m->headers.len ||
            !span_starts(m->payload, SPAN_LIT("{\"stream\":")) ||
            js_ack_parse(m->payload, &ack) != WB_OK || ack.code ||
            presence_captures(t->router->presence, ack.stream))
            return false;
    }
    h = held_create(m->headers, m->payload);
    if (!h)
        return false;
    held_append(&t->suspects, h);
    return true;
}

void relay_suspects(struct transit *t, mono now)
{
    struct router *r = t->router;
    uint64_t handle = t->handle;
    struct held *h;

    presence_forget(r->presence, t);
    t->ack_checked = true;
    while (t && (h = held_take(&t->suspects))) {
        struct lane_message m = {.headers = held_headers(h), .payload = held_payload(h)};

        if (t->core.state == REQUEST_OUT || t->core.state == REQUEST_SERVED)
            take_message(t, &m, now);
        free(h);
        t = slab_get(r->transits, handle);
    }
}

static struct transit *find_attempt(struct router *r, struct span subject)
{
    struct span token, service, worker;
    struct transit *t;
    size_t at = r->reply_prefix_len;

    if (subject.len < at + TOKEN_LEN + 6)
        return NULL;
    token = span_of(subject.ptr + subject.len - TOKEN_LEN, TOKEN_LEN);
    t = slab_get(r->transits, (uint64_t)id_decode(token.ptr, TOKEN_HANDLE_LEN));
    if (!t || memcmp(t->token, token.ptr, TOKEN_LEN) != 0 || !t->core.charge.worker)
        return NULL;
    /* The subject also names service and worker: a worker's permission ends there, so one that
     * learned another's token can't use it. */
    service = t->service->name;
    worker = worker_name(t->core.charge.worker);
    if (subject.len != at + service.len + 1 + worker.len + 1 + r->id.len + 1 + TOKEN_LEN ||
        memcmp(subject.ptr + at, service.ptr, service.len) != 0 ||
        memcmp(subject.ptr + at + service.len + 1, worker.ptr, worker.len) != 0)
        return NULL;
    return t;
}

void relay_on_reply(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);
    struct transit *t = find_attempt(r, m->subject);

    if (!t || (t->core.state != REQUEST_OUT && t->core.state != REQUEST_SERVED)) {
        router_count(r, COUNT_LATE);
        return;
    }
    if (!suspect(t, m)) {
        take_message(t, m, now);
        return;
    }
    if (t->suspects.first == t->suspects.last) {
        presence_suspect(r->presence, t);
        presence_check_streams(r->presence);
    } else if (t->suspects.bytes > SUSPECT_BYTES_MAX) {
        relay_suspects(t, now);
    }
}
