/* Control: what operators and clients ask of the router itself: admin subjects, cancel, events.
 * Answers to admin are small and built at once. Reply subjects are checked like a request's. */
#include "router/affinity.h"
#include "router/ledger.h"

#include <stdio.h>

#include "base/loop.h"
#include "core/adapter.h"
#include "wire/binding.h"
#include "wire/control.h"
#include "wire/headers.h"
#include "wire/json.h"
#include "wire/name.h"
#include "wire/subject.h"

#define ADMIN_BODY_MAX 65536

static void answer(struct router *r, struct span reply, const struct buf *body)
{
    if (reply.len && lane_publish(r->front, reply, SPAN_EMPTY, SPAN_EMPTY, buf_span(body)) != WB_OK)
        router_count(r, COUNT_CLIENT_LOST);
}

void control_event(struct router *r, const char *kind, struct span service, struct span worker,
                   const char *detail)
{
    char subject[2 * WB_SUBJECT_MAX], rest[96], now[WALL_TEXT_SIZE];
    struct json j;

    if (!r->front || !lane_is_up(r->front))
        return;
    snprintf(rest, sizeof rest, "event.%s", kind);
    wall_format(clock_wall(), now);
    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "kind", span_str(kind));
    json_text(&j, "at", span_str(now));
    json_text(&j, "router", r->id);
    json_text_or_null(&j, "service", service);
    json_text_or_null(&j, "worker", worker);
    json_text_or_null(&j, "detail", span_str(detail));
    json_end_object(&j);
    if (json_status(&j) != WB_OK ||
        lane_publish(r->front, span_of(subject, subject_join(subject, r->prefix, rest)), SPAN_EMPTY,
                     SPAN_EMPTY, buf_span(&r->body_out)) != WB_OK)
        log_write(LOG_DEBUG, "event %s was not sent", kind);
}

struct listing {
    struct json *j;
    const struct sessions *sessions; /* NULL: no service has them */
    struct span service;
    mono now;
    size_t limit; /* the answer must fit one message */
    bool cut;
};

static void list_worker(void *arg, struct worker *w)
{
    struct listing *l = arg;
    struct json *j = l->j;

    if (buf_len(j->out) > l->limit) {
        l->cut = true;
        return;
    }
    json_object(j, NULL);
    json_text(j, "id", worker_name(w));
    json_text(j, "state", span_str(worker_state_name(w->state)));
    json_text(j, "standing", span_str(worker_standing_name(worker_standing(w, l->now))));
    json_int(j, "epoch", w->epoch);
    json_int(j, "weight", w->weight);
    json_int(j, "capacity", w->capacity);
    json_int(j, "occupancy", w->occupancy);
    if (w->others_known)
        json_int(j, "others", w->others);
    else
        json_null(j, "others");
    json_int(j, "bytes_out", (int64_t)w->bytes_out);
    json_int(j, "bindings",
             l->sessions ? sessions_bound_to(l->sessions, l->service, span_str(w->id)) : 0);
    json_text_or_null(j, "class", span_str(w->class_name));
    json_int(j, "ranks", w->ranks);
    json_array(j, "adapters");
    for (uint32_t i = 0; i < w->adapter_count; i++)
        json_text(j, NULL, span_str(w->adapters[i]));
    json_end_array(j);
    json_bool(j, "static", w->is_static);
    json_int(j, "served", (int64_t)w->served);
    json_int(j, "refused", (int64_t)w->refused);
    json_int(j, "failed", (int64_t)w->failed);
    if (w->heard)
        json_int(j, "heard_ms_ago", mono_diff_us(l->now, w->heard_at) / 1000);
    else
        json_null(j, "heard_ms_ago");
    json_end_object(j);
}

/* Half of what is left goes to adapters, so that a service with very many of them still shows its
 * workers. */
struct adapter_listing {
    struct listing *l;
    size_t limit;
};

static bool list_adapter(void *arg, const struct adapter_numbers *n)
{
    struct adapter_listing *a = arg;
    struct json *j = a->l->j;
    struct adapter_standing standing;

    if (buf_len(j->out) > a->limit) {
        a->l->cut = true;
        return false;
    }
    standing = adapter_standing(n->adapter);
    json_object(j, NULL);
    json_text(j, "adapter", n->name);
    json_int(j, "holders", n->holders);
    json_int(j, "routable", standing.routable);
    json_int(j, "free", standing.free);
    json_int(j, "in_flight", n->in_flight);
    json_int(j, "arrivals", n->arrivals);
    json_int(j, "requests", (int64_t)n->requests);
    json_end_object(j);
    return true;
}

static void list_adapters(struct listing *l, const struct pool *pool)
{
    size_t used = buf_len(l->j->out);
    struct adapter_listing a = {l, used < l->limit ? used + (l->limit - used) / 2 : used};

    json_int(l->j, "arrivals_window_s", ADAPTER_WINDOW_S);
    json_array(l->j, "adapters");
    pool_each_adapter(pool, list_adapter, &a, l->now);
    json_end_array(l->j);
}

static void show_workers(struct router *r, struct span reply, struct span only, mono now)
{
    struct json j;
    struct listing l = {.j = &j,
                        .sessions = affinity_sessions(r->affinity),
                        .now = now,
                        .limit = lane_max_payload(r->front) - 8192};

    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_array(&j, "services");
    for (unsigned i = 0; i < r->service_count; i++) {
        struct service *s = &r->services[i];

        if (only.len && !span_eq(only, s->name))
            continue;
        l.service = s->name;
        json_object(&j, NULL);
        json_text(&j, "service", s->name);
        json_text(&j, "policy", span_str(policy_name(s->settings->policy)));
        json_int(&j, "discovered", pool_discovered(s->pool));
        json_int(&j, "routable", pool_routable(s->pool));
        json_int(&j, "free", pool_free(s->pool));
        json_int(&j, "waiting", pool_waiting(s->pool));
        list_adapters(&l, s->pool);
        json_array(&j, "workers");
        pool_each(s->pool, list_worker, &l);
        json_end_array(&j);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_bool(&j, "truncated", l.cut);
    json_end_object(&j);
    if (json_status(&j) == WB_OK)
        answer(r, reply, &r->body_out);
}

static void stats_of_sessions(const struct sessions *sessions, struct json *j)
{
    json_object(j, "sessions");
    json_bool(j, "shared", sessions_shared(sessions));
    json_int(j, "held", sessions_held(sessions));
    for (int i = 0; i < SESSION_COUNTS; i++)
        json_int(j, session_count_table[i].name,
                 (int64_t)sessions_count(sessions, (enum session_count)i));
    json_end_object(j);
}

void control_stats(struct router *r, struct buf *out)
{
    struct json j;

    buf_clear(out);
    json_begin(&j, out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_object(&j, "counts");
    for (unsigned i = 0; i < COUNT_COUNT; i++)
        json_int(&j, count_table[i].name, (int64_t)r->counts[i]);
    json_int(&j, "in_flight", slab_used(r->transits));
    json_int(&j, "waiting", r->places[PLACE_QUEUED].count);
    json_int(&j, "bytes_held", (int64_t)r->bytes_held);
    json_int(&j, "attribution_backlog", ledger_backlog(r->ledger));
    json_end_object(&j);
    if (r->affinity)
        stats_of_sessions(affinity_sessions(r->affinity), &j);
    json_end_object(&j);
    if (json_status(&j) != WB_OK)
        buf_clear(out);
}

struct session_listing {
    struct json *j;
    struct span service; /* empty: all */
    size_t limit;
    bool cut;
};

static void list_session(struct json *j, const struct session_view *v)
{
    char text[WB_LONG_NAME_MAX];
    struct span service, name;

    if (!binding_key_read(v->key, &service, &name, text))
        return; /* put into the bucket by hand */
    json_object(j, NULL);
    json_text(j, "service", service);
    json_text(j, "session", name);
    json_text(j, "state", span_str(session_state_name(v->state)));
    json_text_or_null(j, "worker", v->worker);
    if (v->rank >= 0)
        json_int(j, "rank", v->rank);
    else
        json_null(j, "rank");
    json_int(j, "users", v->users);
    json_int(j, "waiters", v->waiters);
    if (v->idle_ms >= 0)
        json_int(j, "idle_ms", v->idle_ms);
    else
        json_null(j, "idle_ms");
    json_int(j, "revision", (int64_t)v->revision);
    json_end_object(j);
}

static bool list_view(void *arg, const struct session_view *v)
{
    struct session_listing *l = arg;

    if (l->service.len && !(span_starts(v->key, l->service) && v->key.len > l->service.len &&
                            v->key.ptr[l->service.len] == '.'))
        return true;
    if (buf_len(l->j->out) > l->limit) {
        l->cut = true;
        return false;
    }
    list_session(l->j, v);
    return true;
}

/* All, those of a service, or the one of a service and a name. */
static void show_sessions(struct router *r, struct span reply, const struct control_body *body,
                          mono now)
{
    struct sessions *sessions = affinity_sessions(r->affinity);
    struct json j;
    struct session_listing l = {
        .j = &j, .service = span_str(body->service), .limit = lane_max_payload(r->front) - 8192};
    char key[BINDING_KEY_MAX];
    struct session_view v;

    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_bool(&j, "shared", sessions && sessions_shared(sessions));
    json_int(&j, "held", sessions ? sessions_held(sessions) : 0);
    json_array(&j, "sessions");
    if (sessions && body->session[0] && body->service[0]) {
        size_t n = binding_key(l.service, span_str(body->session), key);

        if (sessions_find(sessions, span_of(key, n), &v, now))
            list_session(&j, &v);
    } else if (sessions) {
        sessions_each(sessions, list_view, &l, now);
    }
    json_end_array(&j);
    json_bool(&j, "truncated", l.cut);
    json_end_object(&j);
    if (json_status(&j) == WB_OK)
        answer(r, reply, &r->body_out);
}

static bool hostile(struct router *r, const struct lane_message *m)
{
    if (m->payload.len <= ADMIN_BODY_MAX)
        return intake_refuses(r, m);
    router_count(r, COUNT_REPLY_REFUSED);
    return true;
}

static void answer_error(struct router *r, struct span reply, const char *text)
{
    struct json j;

    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_text(&j, "error", span_str(text));
    json_end_object(&j);
    if (json_status(&j) == WB_OK)
        answer(r, reply, &r->body_out);
}

static struct transit *find_transit(struct router *r, struct span service, struct span id)
{
    if (!name_is_id(service) || !name_is_request_id(id))
        return NULL;
    for (unsigned i = 0; i < r->service_count; i++) {
        struct service *s = &r->services[i];
        struct transit *made = transit_of_made_id(r, s, id);

        if (span_eq(s->name, service))
            return made ? made : map_get(s->by_id, id);
    }
    return NULL;
}

static void answer_cancelled(struct router *r, struct span reply, bool name_router)
{
    struct json j;

    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    if (name_router) /* operators want to know; clients get the contract's {"cancelled":true} */
        json_text(&j, "router", r->id);
    json_bool(&j, "cancelled", true);
    json_end_object(&j);
    if (json_status(&j) == WB_OK)
        answer(r, reply, &r->body_out);
}

static void do_cancel(struct router *r, const struct lane_message *m,
                      const struct control_body *body)
{
    struct transit *t = find_transit(r, span_str(body->service), span_str(body->request_id));

    if (!t)
        return; /* another router may hold it; those that do not are silent */
    dispatch_cancel(t, loop_now(r->loop));
    answer_cancelled(r, m->reply, true);
}

static void do_unbind(struct router *r, const struct lane_message *m,
                      const struct control_body *body)
{
    struct json j;
    bool bound;

    if (!name_is_id(span_str(body->service)) || !name_is_long(span_str(body->session))) {
        answer_error(r, m->reply, "unbind needs a service and a session");
        return;
    }
    bound = r->affinity && affinity_unbind(r->affinity, span_str(body->service),
                                           span_str(body->session), loop_now(r->loop));
    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_bool(&j, "unbound", bound); /* false: not bound as far as this router knew */
    json_end_object(&j);
    if (json_status(&j) == WB_OK)
        answer(r, m->reply, &r->body_out);
}

/* <prefix>.admin.<show|do>.<what>[.<router>] */
static void on_admin(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    unsigned base = subject_token_count(r->prefix);
    struct span mode = subject_token(m->subject, base + 1),
                what = subject_token(m->subject, base + 2);
    struct control_body body;

    if (hostile(r, m))
        return;
    if (control_body_parse(m->payload, &body) != WB_OK) {
        answer_error(r, m->reply, "the body is not a JSON object with string members");
        return;
    }
    if (span_eq_str(mode, "show") && span_eq_str(what, "workers")) {
        show_workers(r, m->reply, span_str(body.service), loop_now(r->loop));
    } else if (span_eq_str(mode, "show") && span_eq_str(what, "stats")) {
        control_stats(r, &r->body_out);
        answer(r, m->reply, &r->body_out);
    } else if (span_eq_str(mode, "show") && span_eq_str(what, "sessions")) {
        show_sessions(r, m->reply, &body, loop_now(r->loop));
    } else if (span_eq_str(mode, "do") && span_eq_str(what, "unbind")) {
        do_unbind(r, m, &body);
    } else if (span_eq_str(mode, "do") && span_eq_str(what, "cancel")) {
        do_cancel(r, m, &body);
    } else {
        answer_error(r, m->reply, "unknown admin subject");
    }
}

/* <prefix>.cancel.<service>.<request-id>, by the one who knows the request's reply subject. */
static void on_cancel(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    struct span service, id, reply;
    struct transit *t;

    if (hostile(r, m) || !subject_parse_cancel(m->subject, r->prefix, &service, &id))
        return;
    t = find_transit(r, service, id);
    if (!t || m->headers.len == 0 || !header_find(m->headers, H_REPLY, &reply) || reply.len == 0 ||
        !span_eq(reply, t->reply))
        return;
    dispatch_cancel(t, loop_now(r->loop));
    answer_cancelled(r, m->reply, false);
}

void control_start(struct router *r)
{
    char subject[2 * WB_SUBJECT_MAX], rest[WB_NAME_MAX + 32];
    static const char *const kinds[] = {"admin.show.*", "admin.do.*"};

    for (unsigned i = 0; i < 2; i++) {
        lane_subscribe(r->front, span_of(subject, subject_join(subject, r->prefix, kinds[i])),
                       SPAN_EMPTY, on_admin, r);
        snprintf(rest, sizeof rest, "%s.%s", kinds[i], r->settings->id);
        lane_subscribe(r->front, span_of(subject, subject_join(subject, r->prefix, rest)),
                       SPAN_EMPTY, on_admin, r);
    }
    lane_subscribe(r->front, span_of(subject, subject_join(subject, r->prefix, "cancel.*.>")),
                   SPAN_EMPTY, on_cancel, r);
}
