/* Intake: a client's message becomes a transit, or an error, or nothing.
 *
 * Everything in the message is hostile until checked: the reply subject first (the router publishes
 * with its own rights, so a reply subject that leads anywhere but to a client is dropped without a
 * word), then each header of spec section 3. All errors found here go out through the transit's own
 * path, so a refused request looks like any other failed one. */
#include "router/affinity.h"

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "core/adapter.h"
#include "wire/headers.h"
#include "wire/json.h"
#include "wire/name.h"
#include "wire/subject.h"

#define HOPS_MAX 4
/* Advice: enough to see why; the body stays small with thousands of workers. */
#define CANDIDATES_MAX 32

/* What the headers asked for, before it is believed. */
struct wishes {
    struct span value[RH_COUNT];
    bool given[RH_COUNT], any;
    struct span msg_id;
    unsigned long long hops;
    struct span target;
    int32_t rank;
    bool idempotent;
    enum recall recall;
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

static void read_header(struct transit *t, struct wishes *w, const struct header_field *f)
{
    enum request_header which;

    /* Only names beginning with W, w, N or t can concern the router. */
    if ((f->name.ptr[0] | 0x20) != 'w' && f->name.ptr[0] != 'N' && f->name.ptr[0] != 't')
        return;
    if (span_eq(f->name, H_MSG_ID)) {
        w->msg_id = f->value;
    } else if (span_eq(f->name, H_TRACEPARENT)) {
        t->trace = record_trace_of(f->value);
    } else if (span_eq(f->name, H_TRACE_DEST) || span_eq(f->name, H_TRACE_ONLY)) {
        t->filter_headers = true;
    } else if (header_is_waybill(f->name)) {
        which = request_header_find(f->name);
        if (which != RH_COUNT) {
            if (w->given[which])
                wrong(w, "a Waybill header is given twice");
            w->given[which] = w->any = true;
            w->value[which] = f->value;
            return;
        }
        t->filter_headers = true;
        if (span_eq(f->name, H_HOPS) && !span_to_u64(f->value, &w->hops))
            wrong(w, "Waybill-Hops is not a number");
    }
}

/* One pass: what a block said counts only if all of it is well formed. */
static void read_headers(struct transit *t, struct wishes *w)
{
    struct header_iter iter;
    struct header_field f;
    enum header_step step;

    if (t->headers.len == 0)
        return;
    header_begin(&iter, t->headers);
    while ((step = header_walk(&iter, &f)) == HEADER_FIELD)
        read_header(t, w, &f);
    if (step == HEADER_END)
        return;
    *w = (struct wishes){.rank = -1};
    t->trace = SPAN_EMPTY;
    t->filter_headers = true;
    wrong(w, "the header block is malformed");
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
        t->id_header = w->given[RH_REQUEST_ID];
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
        {RH_REPLY, ACCEPT_RETRY, "Waybill-Reply is not accepted by this service"},
    };

    for (size_t i = 0; w->any && i < sizeof rules / sizeof rules[0]; i++)
        if (w->given[rules[i].header] && !(t->service->settings->accept & rules[i].bit))
            wrong(w, rules[i].text);
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

static void read_retry(struct wishes *w)
{
    if (!w->given[RH_RETRY])
        return;
    if (span_eq_str(w->value[RH_RETRY], "avoid"))
        w->recall = RECALL_AVOID;
    else if (span_eq_str(w->value[RH_RETRY], "prefer"))
        w->recall = RECALL_PREFER;
    else
        wrong(w, "Waybill-Retry is not avoid or prefer");
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
    if (w->given[RH_ADAPTER] && !name_is_long(w->value[RH_ADAPTER]))
        wrong(w, "Waybill-Adapter is not 1 to 256 printable ASCII characters without space");
}

static struct request_params params_of(const struct transit *t, const struct wishes *w)
{
    struct request_params p = {
        .target = w->target,
        .target_rank = w->rank,
        .key = w->given[RH_HASH_KEY] ? w->value[RH_HASH_KEY] : w->value[RH_SESSION],
        .adapter = w->given[RH_ADAPTER] ? w->value[RH_ADAPTER] : SPAN_EMPTY,
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
    struct span adapter;
    bool held; /* only those that hold the adapter; else with an adapter those that may load it */
    unsigned count;
    mono now;
};

static bool is_candidate(const struct candidates *c, const struct worker *w)
{
    if (c->count == CANDIDATES_MAX)
        return false;
    if (c->adapter.len == 0)
        return true;
    return c->held ? worker_holds(w, c->adapter) : worker_may_serve(w, c->adapter);
}

/* What it says of itself, unless it is the router that keeps it out. */
static const char *state_of(const struct worker *w, enum worker_standing standing)
{
    switch (standing) {
    case STANDING_EJECTED:
    case STANDING_FULL:
    case STANDING_OVERLOADED:
        return worker_standing_name(standing);
    case STANDING_UNKNOWN:
    case STANDING_DRAINING:
    case STANDING_BUSY:
    case STANDING_FREE:
        break;
    }
    return worker_state_name(w->state);
}

static void candidate(void *arg, struct worker *w)
{
    struct candidates *c = arg;
    struct json *j = c->j;
    enum worker_standing standing;

    if (!is_candidate(c, w))
        return;
    c->count++;
    standing = worker_standing(w, c->now);
    json_object(j, NULL);
    json_text(j, "worker", worker_name(w));
    json_double(j, "load", (double)worker_load(w) / w->weight);
    json_int(j, "occupancy", worker_load_count(w));
    json_int(j, "capacity", w->capacity);
    json_int(j, "weight", w->weight);
    json_text(j, "state", span_str(state_of(w, standing)));
    json_bool(j, "free", standing == STANDING_FREE);
    json_end_object(j);
}

/* Answers with the choice and its reasons; nothing is charged and no cursor moves. */
static void advise(struct transit *t, mono now)
{
    struct router *r = t->router;
    struct pool *pool = t->service->pool;
    struct pin pin;
    bool pinned = affinity_look(t, &pin, now);
    struct advice a = request_advise(&t->core, pinned ? &pin : NULL, now);
    struct candidates c = {.adapter = t->core.adapter, .now = now};
    struct header_writer w;
    struct json j;

    c.j = &j;
    if (!a.worker) {
        dispatch_follow(t,
                        (struct next){.kind = NEXT_FAIL,
                                      .at = now,
                                      .error = a.error,
                                      .scope = a.scope,
                                      .retry_after_ms = a.retry_after_ms},
                        now);
        return;
    }
    router_count(r, COUNT_ADVISED);
    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "request_id", t->id);
    json_text(&j, "service", t->service->name);
    json_text(&j, "worker", worker_name(a.worker));
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
    c.held = t->core.adapter.len && a.reason != REASON_ADAPTER_LOAD;
    pool_each(pool, candidate, &c);
    json_end_array(&j);
    json_null(&j, "error");
    json_end_object(&j);
    w = router_headers(r);
    header_add(&w, H_REQUEST_ID, t->id);
    if (t->retry_unknown)
        header_add(&w, H_RETRY_STATE, SPAN_LIT("unknown"));
    if (t->reply.len && header_close(&w) == WB_OK && json_status(&j) == WB_OK &&
        lane_publish(r->front, t->reply, SPAN_EMPTY, buf_span(&r->headers_out),
                     buf_span(&r->body_out)) != WB_OK)
        router_count(r, COUNT_CLIENT_LOST);
    transit_dispose(t);
}

void intake_proceed(struct transit *t, mono now)
{
    if (t->advice)
        advise(t, now);
    else
        dispatch_start(t, now);
}

/* A client's retry that knows the older request's reply subject is from who sent that one. */
static bool may_replace(const struct transit *older, const struct wishes *w)
{
    struct span reply = w->value[RH_REPLY];

    return w->recall != RECALL_NONE && w->given[RH_REPLY] && reply.len > 0 &&
           span_eq(reply, older->reply);
}

/* Whatever is left of it then only holds an answer that is already in. */
static void retire(struct transit *older, mono now)
{
    struct router *r = older->router;
    uint64_t handle = older->handle;

    dispatch_cancel(older, now);
    older = slab_get(r->transits, handle);
    if (older)
        transit_forget_id(older);
}

static bool enter_map(struct transit *t, const struct wishes *w, mono now)
{
    struct map *by_id = t->service->by_id;
    struct transit *older;
    wb_status status = WB_EXISTS;

    if (t->made_id)
        return true;
    older = transit_of_made_id(t->router, t->service, t->id);
    if (!older)
        status = map_put(by_id, t->id, t);
    if (status == WB_EXISTS) {
        if (!older)
            older = map_get(by_id, t->id);
        if (!may_replace(older, w))
            return false;
        retire(older, now);
        status = map_put(by_id, t->id, t);
    }
    t->in_map = status == WB_OK;
    return t->in_map;
}

static void take(struct transit *t, struct wishes *w, mono now)
{
    struct request_params params = params_of(t, w);

    t->advice = read_bool(w, RH_ADVISE, false, "Waybill-Advise is not true or false");
    if (t->advice && !t->service->settings->disclose)
        wrong(w, "Waybill-Advise is refused: this service does not disclose its workers");
    request_init(&t->core, t->service->pool, &params, now);
    if (w->given[RH_SESSION] && !w->wrong)
        affinity_attend(t, w->value[RH_SESSION]);
    if (w->wrong) {
        dispatch_give_up(t, WB_BAD_REQUEST, w->wrong, now);
        return;
    }
    if (!t->advice) {
        if (!enter_map(t, w, now)) {
            dispatch_give_up(t, WB_DUPLICATE, "a request with this id is in flight here", now);
            return;
        }
        pool_note_request(t->service->pool, now);
        if (params.adapter.len)
            router_count(t->router, COUNT_REQUESTS_WITH_ADAPTER);
    }
    /* A target wins: whom the record names does not matter then. */
    if (w->recall != RECALL_NONE && w->target.len == 0)
        recall_start(t, w->recall, now);
    else
        intake_proceed(t, now);
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
    read_retry(&w);
    read_modes(t, &w);
    take(t, &w, now);
}
