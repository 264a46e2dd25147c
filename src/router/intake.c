/* Intake: a client's message becomes a transit, or an error, or nothing.
 *
 * Everything in the message is hostile until checked: the reply subject first (the router publishes
 * with its own rights, so a reply subject that leads anywhere but to a client is dropped without a
 * word), then each header of spec section 3. All errors found here go out through the transit's own
 * path, so a refused request looks like any other failed one. */
#include "router/state.h"

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "wire/headers.h"
#include "wire/json.h"
#include "wire/name.h"
#include "wire/subject.h"

#define HOPS_MAX 4
/* Advice: enough to see why; the body stays small with thousands of workers. */
#define CANDIDATES_BYTES_MAX 16384

/* What the headers asked for, before it is believed. */
struct wishes {
    struct span value[RH_COUNT];
    bool given[RH_COUNT];
    struct span msg_id;
    unsigned long long hops;
    struct span target;
    int32_t rank;
    bool idempotent;
    enum priority priority;
    const char *wrong; /* first thing found wrong, or NULL */
};

/* What came over the protocol holds no blank; without a star and a bracket it holds no wildcard. */
static bool is_literal(struct span reply)
{
    if (span_starts(reply, SPAN_LIT("_INBOX.")) && !memchr(reply.ptr, '*', reply.len) &&
        !memchr(reply.ptr, '>', reply.len))
        return true;
    return subject_is_literal(reply);
}

static bool reply_allowed(struct router *r, struct span reply)
{
    const struct router_settings *set = r->settings;

    if (reply.len == 0)
        return true;
    if (reply.len > WB_SUBJECT_MAX || reply.ptr[0] == '$' || !is_literal(reply))
        return false;
    if (span_starts(reply, r->prefix) && reply.len > r->prefix.len &&
        reply.ptr[r->prefix.len] == '.')
        return false;
    if (set->reply_allow_count) {
        bool allowed = false;

        for (unsigned i = 0; i < set->reply_allow_count && !allowed; i++)
            allowed = subject_matches(span_str(set->reply_allow[i]), reply);
        if (!allowed)
            return false;
    }
    if (map_count(r->static_subjects) && map_get(r->static_subjects, reply))
        return false;
    /* --check refuses services that overlap _INBOX.>, so the common reply subject needs no walk. */
    if (span_starts(reply, SPAN_LIT("_INBOX.")))
        return true;
    for (unsigned i = 0; i < r->service_count; i++)
        for (unsigned k = 0; k < r->services[i].settings->subject_count; k++)
            if (subject_matches(span_str(r->services[i].settings->subjects[k]), reply))
                return false;
    return true;
}

bool intake_refuses(struct router *r, const struct lane_message *m)
{
    char subject[LOG_QUOTE_SIZE], reply[LOG_QUOTE_SIZE];

    if (reply_allowed(r, m->reply))
        return false;
    router_count(r, COUNT_REPLY_REFUSED);
    log_limited(&r->log_hostile, loop_now(r->loop), LOG_WARN,
                "dropped a message on %s: reply subject %s is not a client's",
                log_quote(m->subject, subject), log_quote(m->reply, reply));
    return true;
}

static void wrong(struct wishes *w, const char *what)
{
    if (!w->wrong)
        w->wrong = what;
}

static void read_headers(struct transit *t, struct wishes *w)
{
    struct header_iter iter;
    struct header_field f;

    if (t->headers.len == 0)
        return;
    if (header_check(t->headers) != WB_OK) {
        t->filter_headers = true;
        wrong(w, "the header block is malformed");
        return;
    }
    header_begin(&iter, t->headers);
    while (header_next(&iter, &f)) {
        enum request_header which;

        /* Only names beginning with W, w or N can concern the router. */
        if ((f.name.ptr[0] | 0x20) != 'w' && f.name.ptr[0] != 'N' && f.name.ptr[0] != 't')
            continue;
        if (span_eq(f.name, H_MSG_ID)) {
            w->msg_id = f.value;
        } else if (span_eq(f.name, H_TRACEPARENT)) {
            t->trace = record_trace_of(f.value);
        } else if (span_eq(f.name, H_TRACE_DEST) || span_eq(f.name, H_TRACE_ONLY)) {
            t->filter_headers = true;
        } else if (header_is_waybill(f.name)) {
            which = request_header_find(f.name);
            if (which != RH_COUNT) {
                if (w->given[which])
                    wrong(w, "a Waybill header is given twice");
                w->given[which] = true;
                w->value[which] = f.value;
                continue;
            }
            t->filter_headers = true;
            if (span_eq(f.name, H_HOPS) && !span_to_u64(f.value, &w->hops))
                wrong(w, "Waybill-Hops is not a number");
        }
    }
}

static void read_id(struct transit *t, struct wishes *w)
{
    struct router *r = t->router;
    struct span id = SPAN_EMPTY;

    if (w->given[RH_REQUEST_ID]) {
        id = w->value[RH_REQUEST_ID];
        if (!name_is_request_id(id)) {
            wrong(w, "Waybill-Request-Id is not 1 to 128 of [A-Za-z0-9_=.-]");
            id = SPAN_EMPTY;
        }
    } else if (w->msg_id.len && name_is_request_id(w->msg_id)) {
        id = w->msg_id;
    }
    if (id.len) {
        t->id = id; /* it lies in the headers */
        return;
    }
    t->made_id = true;
    /* The handle stands in the id: a transit is found by it without a map, and it never comes
     * twice. */
    memcpy(t->made, r->id_prefix, MADE_ID_PREFIX_LEN);
    id_encode(t->made + MADE_ID_PREFIX_LEN, TOKEN_HANDLE_LEN, t->handle);
    t->id = span_of(t->made, MADE_ID_LEN);
}

static void read_accept(const struct transit *t, struct wishes *w)
{
    static const struct {
        enum request_header header;
        unsigned bit;
        const char *text;
    } rules[] = {
        {RH_TARGET, ACCEPT_TARGET, "Waybill-Target is not accepted by this service"},
        {RH_PRIORITY, ACCEPT_PRIORITY, "Waybill-Priority is not accepted by this service"},
        {RH_IDEMPOTENT, ACCEPT_IDEMPOTENT, "Waybill-Idempotent is not accepted by this service"},
        {RH_ADVISE, ACCEPT_ADVISE, "Waybill-Advise is not accepted by this service"},
        {RH_TIMEOUT_MS, ACCEPT_TIMEOUT, "Waybill-Timeout-Ms is not accepted by this service"},
        {RH_RETRY, ACCEPT_RETRY, "Waybill-Retry is not accepted by this service"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (w->given[rules[i].header] && !(t->service->settings->accept & rules[i].bit))
            wrong(w, rules[i].text);
    if (w->given[RH_ADAPTER])
        wrong(w, "Waybill-Adapter is not served by this version");
    if (w->given[RH_RETRY] || w->given[RH_REPLY])
        wrong(w, "Waybill-Retry is not served by this version");
}

static void read_target(struct wishes *w)
{
    struct span value = w->value[RH_TARGET];
    const char *slash;
    unsigned long long rank;

    w->rank = -1;
    if (!w->given[RH_TARGET])
        return;
    slash = memchr(value.ptr, '/', value.len);
    if (slash) {
        struct span text = {slash + 1, value.len - (size_t)(slash - value.ptr) - 1};

        value.len = (size_t)(slash - value.ptr);
        if (!span_to_u64(text, &rank) || rank > INT32_MAX)
            wrong(w, "the rank of Waybill-Target is not a number");
        else
            w->rank = (int32_t)rank;
    }
    if (!name_is_id(value))
        wrong(w, "Waybill-Target is not <worker> or <worker>/<rank>");
    else
        w->target = value;
}

static bool read_bool(struct wishes *w, enum request_header which, bool otherwise, const char *what)
{
    if (!w->given[which])
        return otherwise;
    if (span_eq_str(w->value[which], "true"))
        return true;
    if (!span_eq_str(w->value[which], "false"))
        wrong(w, what);
    return false;
}

static void read_priority(struct wishes *w)
{
    struct span v = w->value[RH_PRIORITY];

    w->priority = PRIORITY_NORMAL;
    if (!w->given[RH_PRIORITY] || span_eq_str(v, "normal"))
        return;
    if (span_eq_str(v, "high"))
        w->priority = PRIORITY_HIGH;
    else if (span_eq_str(v, "low"))
        w->priority = PRIORITY_LOW;
    else
        wrong(w, "Waybill-Priority is not low, normal or high");
}

static void read_modes(struct transit *t, struct wishes *w)
{
    const struct service_settings *set = t->service->settings;
    struct span v = w->value[RH_REPLIES];
    int64_t total_ms = set->timeouts.total_ms;
    unsigned long long ms;

    if (w->given[RH_REPLIES]) {
        if (span_eq_str(v, "one"))
            t->replies = WB_REPLIES_ONE;
        else if (span_eq_str(v, "stream"))
            t->replies = WB_REPLIES_STREAM;
        else if (span_eq_str(v, "none"))
            t->replies = WB_REPLIES_NONE;
        else
            wrong(w, "Waybill-Replies is not one, stream or none");
    }
    if (w->given[RH_TIMEOUT_MS]) {
        if (!span_to_u64(w->value[RH_TIMEOUT_MS], &ms) || ms < 1 || ms > 86400000)
            wrong(w, "Waybill-Timeout-Ms is not 1 to 86400000");
        else if (total_ms == 0 || (int64_t)ms < total_ms)
            total_ms = (int64_t)ms;
    }
    if (total_ms > 0)
        t->total_due = mono_add_ms(t->received, total_ms);
    read_priority(w);
    w->idempotent = read_bool(w, RH_IDEMPOTENT, set->retry.idempotent,
                              "Waybill-Idempotent is not true or false");
    if (w->hops + 1 > HOPS_MAX)
        wrong(w, "Waybill-Hops is over 4: routers send the request round in a circle");
    else
        t->hops = (uint8_t)(w->hops + 1);
    if (w->given[RH_SESSION] && !name_is_long(w->value[RH_SESSION]))
        wrong(w, "Waybill-Session is not 1 to 256 printable ASCII characters without space");
}

static struct request_params params_of(const struct transit *t, const struct wishes *w)
{
    struct request_params p = {
        .target = w->target,
        .target_rank = w->rank,
        .key = w->given[RH_HASH_KEY] ? w->value[RH_HASH_KEY] : w->value[RH_SESSION],
        .idempotent = w->idempotent,
        .one_way = t->reply.len == 0 || t->replies == WB_REPLIES_NONE,
        .priority = w->priority,
    };

    if (!p.key.ptr)
        p.key = SPAN_EMPTY;
    if (!p.target.ptr)
        p.target = SPAN_EMPTY;
    return p;
}

struct candidates {
    struct json *j;
    mono now;
};

static void candidate(void *arg, struct worker *w)
{
    struct candidates *c = arg;
    struct json *j = c->j;

    if (buf_len(j->out) > CANDIDATES_BYTES_MAX)
        return;
    json_object(j, NULL);
    json_text(j, "worker", span_str(w->id));
    json_double(j, "load", (double)worker_load_count(w) / w->weight);
    json_int(j, "occupancy", worker_load_count(w));
    json_int(j, "capacity", w->capacity);
    json_int(j, "weight", w->weight);
    json_text(j, "state", span_str(worker_state_name(w->state)));
    json_bool(j, "free", worker_standing(w, c->now) == STANDING_FREE);
    json_end_object(j);
}

/* Answers with the choice and its reasons; nothing is charged and no cursor moves. */
static void advise(struct transit *t, const struct request_params *params, mono now)
{
    struct router *r = t->router;
    struct pool *pool = t->service->pool;
    struct advice a = request_advise(pool, params, now);
    struct header_writer w;
    struct json j;

    if (!a.worker) {
        dispatch_give_up(t, a.error, wb_status_text(a.error), now);
        return;
    }
    router_count(r, COUNT_ADVISED);
    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "request_id", t->id);
    json_text(&j, "service", t->service->name);
    json_text(&j, "worker", span_str(a.worker->id));
    if (a.rank < 0)
        json_null(&j, "rank");
    else
        json_int(&j, "rank", a.rank);
    json_text(&j, "policy", span_str(policy_name(t->service->settings->policy)));
    json_text(&j, "reason", span_str(reason_name(a.reason)));
    json_int(&j, "discovered", pool_discovered(pool));
    json_int(&j, "routable", pool_routable(pool));
    json_int(&j, "free", pool_free(pool));
    json_array(&j, "candidates");
    pool_each(pool, candidate, &(struct candidates){&j, now});
    json_end_array(&j);
    json_null(&j, "error");
    json_end_object(&j);
    w = router_headers(r);
    header_add(&w, H_REQUEST_ID, t->id);
    if (t->reply.len && header_close(&w) == WB_OK && json_status(&j) == WB_OK &&
        lane_publish(r->front, t->reply, SPAN_EMPTY, buf_span(&r->headers_out),
                     buf_span(&r->body_out)) != WB_OK)
        router_count(r, COUNT_CLIENT_LOST);
    transit_dispose(t);
}

static bool enter_map(struct transit *t)
{
    if (t->made_id)
        return true;
    if (transit_of_made_id(t->router, t->service, t->id))
        return false;
    t->in_map = map_put(t->service->by_id, t->id, t) == WB_OK;
    return t->in_map;
}

static void take(struct transit *t, struct wishes *w, mono now)
{
    struct request_params params = params_of(t, w);
    bool advice = read_bool(w, RH_ADVISE, false, "Waybill-Advise is not true or false");

    if (advice && !t->service->settings->disclose)
        wrong(w, "Waybill-Advise is refused: this service does not disclose its workers");
    request_init(&t->core, t->service->pool, &params, now);
    if (w->wrong) {
        dispatch_give_up(t, WB_BAD_REQUEST, w->wrong, now);
    } else if (advice) {
        advise(t, &params, now);
    } else if (!enter_map(t)) {
        dispatch_give_up(t, WB_DUPLICATE, "a request with this id is in flight here", now);
    } else {
        pool_note_request(t->service->pool, now);
        dispatch_start(t, now);
    }
}

void intake_on_request(void *arg, const struct lane_message *m)
{
    struct service *s = arg;
    struct router *r = s->router;
    mono now = loop_now(r->loop);
    struct wishes w = {.rank = -1};
    struct transit *t;

    if (intake_refuses(r, m))
        return;
    router_count(r, COUNT_REQUESTS);
    s->requests++;
    t = transit_create(r, s, m, now);
    if (!t) {
        char id[ID_REQUEST_LEN];

        id_random(id, sizeof id); /* nothing of it is kept */
        relay_refuse(r, s, m->reply, span_of(id, sizeof id),
                     s->settings->replies == WB_REPLIES_STREAM, WB_OVERLOADED,
                     "the router holds as many requests as it may", 1000);
        return;
    }
    read_headers(t, &w);
    read_id(t, &w);
    read_accept(t, &w);
    read_target(&w);
    read_modes(t, &w);
    take(t, &w, now);
}
