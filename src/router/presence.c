/* Presence: who is there. Heartbeats are decoded by wire and judged by core's registry; this file
 * carries them, asks for them (announce), and looks every minute, at the start and after each
 * reconnect whether a 503 would reach the router at all (spec section 2):
 *
 *   (a) a publish to a worker subject that nobody can have must come back as 503 within PROBE_MS,
 *       else no_responders is blind;
 *   (b) JetStream is asked which streams capture worker subjects: their acknowledgements arrive
 * like answers and are none.
 *
 * A message that has the form of an acknowledgement of a stream not known yet waits, with all
 * behind it on its attempt, until (b) has been asked again, SUSPECT_MS at most. */
#include "router/presence.h"
#include "router/links.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "wire/heartbeat.h"
#include "wire/js.h"
#include "wire/name.h"
#include "wire/subject.h"

#define CHECK_MS 60000
#define PROBE_MS 1000
#define SUSPECT_MS 250
#define STREAMS_MAX 64
#define SUSPECTS_MAX 4096

struct presence {
    struct router *router;
    struct loop_timer *timer; /* next round of checks, or the end of a probe or a suspicion */
    mono round_due, probe_due, suspect_due;
    uint64_t generation; /* of the checks under way: answers to older ones are ignored */
    unsigned probes_open, names_open;
    bool blind_said;
    char *streams[STREAMS_MAX];
    unsigned stream_count;
    char *fresh[STREAMS_MAX]; /* being collected by the check under way */
    unsigned fresh_count;
    uint64_t suspects[SUSPECTS_MAX]; /* handles of transits */
    unsigned suspect_count;
    struct buf scratch;
};

static void arm(struct presence *p)
{
    loop_timer_set(p->timer, mono_min(p->round_due, mono_min(p->probe_due, p->suspect_due)));
}

static void probe_service(struct presence *p, struct service *s)
{
    struct router *r = p->router;
    char nobody[24], subject[2 * WB_SUBJECT_MAX], inbox[INBOX_SIZE];
    size_t n;

    id_random(nobody, 22);
    nobody[0] = 'x';
    n = subject_worker(subject, r->prefix, s->name, span_of(nobody, 22));
    if (lane_publish(r->back, span_of(subject, n),
                     span_of(inbox, links_inbox(r, 'p', p->generation, inbox)), SPAN_EMPTY,
                     SPAN_EMPTY) == WB_OK)
        p->probes_open++;
}

static void ask_names(struct presence *p, struct span filter)
{
    char inbox[INBOX_SIZE];

    buf_clear(&p->scratch);
    if (js_names_request(&p->scratch, filter) == WB_OK &&
        lane_publish(p->router->back, SPAN_LIT("$JS.API.STREAM.NAMES"),
                     span_of(inbox, links_inbox(p->router, 'n', p->generation, inbox)), SPAN_EMPTY,
                     buf_span(&p->scratch)) == WB_OK)
        p->names_open++;
}

void presence_check_streams(struct presence *p)
{
    struct router *r = p->router;
    char subject[2 * WB_SUBJECT_MAX];
    size_t n;

    if (p->names_open || !lane_is_up(r->back))
        return;
    p->generation++;
    p->fresh_count = 0;
    n = subject_join(subject, r->prefix, "worker.>");
    ask_names(p, span_of(subject, n));
    for (unsigned i = 0; i < r->service_count; i++)
        for (unsigned k = 0; k < r->services[i].settings->worker_count; k++)
            ask_names(p, span_str(r->services[i].settings->workers[k].subject));
}

static void checks(struct presence *p, mono now)
{
    p->round_due = mono_add_ms(now, CHECK_MS);
    p->names_open = 0;
    presence_check_streams(p);
    p->probes_open = 0;
    for (unsigned i = 0; i < p->router->service_count; i++)
        probe_service(p, &p->router->services[i]);
    p->probe_due = p->probes_open ? mono_add_ms(now, PROBE_MS) : MONO_NEVER;
    arm(p);
}

void presence_up(struct presence *p, mono now)
{
    struct router *r = p->router;
    char subject[2 * WB_SUBJECT_MAX];
    size_t n = subject_join(subject, r->prefix, "announce");

    if (lane_publish(r->back, span_of(subject, n), SPAN_EMPTY, SPAN_EMPTY, SPAN_EMPTY) != WB_OK)
        log_write(LOG_WARN, "announce could not be sent");
    checks(p, now);
}

void presence_down(struct presence *p)
{
    p->names_open = p->probes_open = 0;
    p->round_due = p->probe_due = MONO_NEVER;
    arm(p);
}

static void release_suspects(struct presence *p, mono now)
{
    uint64_t all[SUSPECTS_MAX];
    unsigned n = p->suspect_count;

    memcpy(all, p->suspects, n * sizeof all[0]);
    p->suspect_count = 0;
    p->suspect_due = MONO_NEVER;
    for (unsigned i = 0; i < n; i++) {
        struct transit *t = slab_get(p->router->transits, all[i]);

        if (t)
            relay_suspects(t, now);
    }
}

static void probe_late(struct presence *p)
{
    struct router *r = p->router;

    p->probe_due = MONO_NEVER;
    if (!p->probes_open)
        return;
    router_count(r, COUNT_BLIND);
    if (!p->blind_said)
        log_write(LOG_WARN,
                  "no_responders blind: somebody subscribes %s.worker.> or a wildcard over it, so "
                  "a dead worker is seen by its heartbeats only",
                  r->settings->prefix);
    if (!p->blind_said)
        control_event(r, "no_responders_blind", SPAN_EMPTY, SPAN_EMPTY,
                      "no 503 came for a subject that nobody serves");
    p->blind_said = true;
}

static void tick(void *arg)
{
    struct presence *p = arg;
    mono now = loop_now(p->router->loop);

    if (!mono_before(now, p->suspect_due))
        release_suspects(p, now);
    if (!mono_before(now, p->probe_due))
        probe_late(p);
    if (!mono_before(now, p->round_due) && lane_is_up(p->router->back))
        checks(p, now);
    arm(p);
}

static void add_name(void *arg, struct span name)
{
    struct presence *p = arg;

    if (p->fresh_count < STREAMS_MAX && (p->fresh[p->fresh_count] = strndup(name.ptr, name.len)))
        p->fresh_count++;
}

static void names_complete(struct presence *p, mono now)
{
    struct router *r = p->router;

    for (unsigned i = 0; i < p->fresh_count; i++) {
        if (!presence_captures(p, span_str(p->fresh[i]))) {
            log_write(LOG_WARN,
                      "stream %s captures worker subjects: its acknowledgements are dropped, and "
                      "no_responders is blind",
                      p->fresh[i]);
            control_event(r, "stream_captures", SPAN_EMPTY, SPAN_EMPTY, p->fresh[i]);
        }
    }
    for (unsigned i = 0; i < p->stream_count; i++)
        free(p->streams[i]);
    memcpy(p->streams, p->fresh, sizeof p->streams);
    p->stream_count = p->fresh_count;
    p->fresh_count = 0;
    release_suspects(p, now);
}

void presence_on_inbox(struct presence *p, struct span token, const struct lane_message *m,
                       mono now)
{
    if (token.len != 1 + TOKEN_HANDLE_LEN ||
        (uint64_t)id_decode(token.ptr + 1, TOKEN_HANDLE_LEN) != p->generation)
        return;
    if (token.ptr[0] == 'p' && p->probes_open) {
        if (m->headers.len && header_status(m->headers) == 503)
            p->probes_open--;
        if (p->probes_open == 0) {
            p->blind_said = false;
            p->probe_due = MONO_NEVER;
        }
    } else if (token.ptr[0] == 'n' && p->names_open) {
        /* A 503 or an error body says JetStream is off: then no stream captures anything. */
        if (!(m->headers.len && header_status(m->headers)))
            (void)!js_names_parse(m->payload, add_name, p);
        if (--p->names_open == 0)
            names_complete(p, now);
    }
    arm(p);
}

bool presence_captures(const struct presence *p, struct span stream)
{
    for (unsigned i = 0; i < p->stream_count; i++)
        if (span_eq_str(stream, p->streams[i]))
            return true;
    return false;
}

void presence_suspect(struct presence *p, struct transit *t)
{
    mono now = loop_now(p->router->loop);

    if (p->suspect_count == SUSPECTS_MAX) {
        relay_suspects(t, now); /* the table is full: taken as it is */
        return;
    }
    p->suspects[p->suspect_count++] = t->handle;
    p->suspect_due = mono_min(p->suspect_due, mono_add_ms(now, SUSPECT_MS));
    arm(p);
}

void presence_forget(struct presence *p, struct transit *t)
{
    for (unsigned i = 0; i < p->suspect_count; i++) {
        if (p->suspects[i] == t->handle) {
            p->suspects[i] = p->suspects[--p->suspect_count];
            return;
        }
    }
}

static void report_of(struct router *r, const struct heartbeat *hb, struct worker_report *out)
{
    *out = (struct worker_report){
        .epoch = hb->epoch,
        .state = (enum worker_state)hb->state,
        .interval_ms = hb->interval_ms,
        .capacity = hb->capacity,
        .inflight = hb->inflight,
        .queued = hb->queued,
        .weight = hb->weight,
        .ranks = hb->ranks,
        .adapter_slots = hb->adapter_slots,
        .has_others = hb->has_inflight_by,
        .has_adapters = hb->has_adapters,
        .has_meta = hb->has_meta,
        .class_name = span_str(hb->class_name),
        .adapters = hb->adapters,
        .adapter_count = hb->adapter_count,
        .meta = hb->meta,
    };
    for (uint32_t i = 0; i < hb->inflight_by_count; i++) {
        if (span_eq(hb->inflight_by[i].router, r->id))
            out->counts_ours = true;
        else
            out->others += hb->inflight_by[i].count;
    }
}

static void reported(struct router *r, enum report_result result)
{
    switch (result) {
    case REPORT_STALE_EPOCH:
        router_count(r, COUNT_DUPLICATE_WORKER);
        break;
    case REPORT_IGNORED_STATIC:
    case REPORT_NOT_ACCEPTED:
    case REPORT_FULL:
    case REPORT_NO_MEMORY:
        router_count(r, COUNT_HEARTBEATS_IGNORED);
        break;
    default:
        router_count(r, COUNT_HEARTBEATS);
    }
}

void presence_on_heartbeat(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);
    struct span service, worker;
    char why[128], quoted[LOG_QUOTE_SIZE], subject[WB_SUBJECT_MAX + 1], cancel[WB_SUBJECT_MAX + 1];
    struct worker_report report;
    enum report_result result;
    struct heartbeat hb;
    struct pool *pool;

    if (!subject_parse_heartbeat(m->subject, r->prefix, &service, &worker) || !name_is_id(worker) ||
        !(pool = registry_pool(r->registry, service))) {
        router_count(r, COUNT_HEARTBEATS_IGNORED);
        return;
    }
    if (m->payload.len > HEARTBEAT_SIZE_MAX || heartbeat_decode(m->payload, &hb, why) != WB_OK) {
        router_count(r, COUNT_HEARTBEATS_BAD);
        log_limited(&r->log_heartbeat, now, LOG_WARN, "heartbeat on %s dropped: %s",
                    log_quote(m->subject, quoted),
                    m->payload.len > HEARTBEAT_SIZE_MAX ? "over 64 KiB" : why);
        return;
    }
    report_of(r, &hb, &report);
    report.id = worker;
    report.subject = span_of(subject, subject_worker(subject, r->prefix, service, worker));
    report.cancel_subject =
        span_of(cancel, subject_worker_cancel(cancel, r->prefix, service, worker));
    result = pool_report(pool, &report, now);
    reported(r, result);
    /* It may hold an adapter that is waited for. Whoever is new has been announced already. */
    if (result == REPORT_UPDATED && hb.has_adapters && r->places[PLACE_START_WAIT].count)
        links_worker_joined(r, pool, now);
    heartbeat_fini(&hb);
}

struct presence *presence_create(struct router *r)
{
    struct presence *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->router = r;
    p->round_due = p->probe_due = p->suspect_due = MONO_NEVER;
    buf_init(&p->scratch, 4096);
    p->timer = loop_timer_create(r->loop, tick, p);
    if (!p->timer) {
        presence_destroy(p);
        return NULL;
    }
    return p;
}

void presence_destroy(struct presence *p)
{
    if (!p)
        return;
    loop_timer_destroy(p->timer);
    for (unsigned i = 0; i < p->stream_count; i++)
        free(p->streams[i]);
    for (unsigned i = 0; i < p->fresh_count; i++)
        free(p->fresh[i]);
    buf_fini(&p->scratch);
    free(p);
}
