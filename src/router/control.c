/* Control: what operators and clients ask of the router itself: admin subjects, cancel, events.
 * Answers to admin are small and built at once. Reply subjects are checked like a request's. */
#include "router/ledger.h"

#include <stdio.h>

#include "base/loop.h"
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
    json_text(j, "id", span_str(w->id));
    json_text(j, "state", span_str(worker_state_name(w->state)));
    json_text(j, "standing", span_str(worker_standing_name(worker_standing(w, l->now))));
    json_int(j, "epoch", w->epoch);
    json_int(j, "weight", w->weight);
    json_int(j, "capacity", w->capacity);
    json_int(j, "occupancy", w->occupancy);
    json_int(j, "others", w->others);
    json_int(j, "bytes_out", (int64_t)w->bytes_out);
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

static void show_workers(struct router *r, struct span reply, struct span only, mono now)
{
    struct json j;
    struct listing l = {.j = &j, .now = now, .limit = lane_max_payload(r->front) - 8192};

    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    json_object(&j, NULL);
    json_text(&j, "router", r->id);
    json_array(&j, "services");
    for (unsigned i = 0; i < r->service_count; i++) {
        struct service *s = &r->services[i];

        if (only.len && !span_eq(only, s->name))
            continue;
        json_object(&j, NULL);
        json_text(&j, "service", s->name);
        json_text(&j, "policy", span_str(policy_name(s->settings->policy)));
        json_int(&j, "discovered", pool_discovered(s->pool));
        json_int(&j, "routable", pool_routable(s->pool));
        json_int(&j, "free", pool_free(s->pool));
        json_int(&j, "waiting", pool_waiting(s->pool));
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
    json_end_object(&j);
    if (json_status(&j) != WB_OK)
        buf_clear(out);
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
