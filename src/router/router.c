/* The router's life: created whole or not at all, started, drained, destroyed. Between, everything
 * happens in callbacks of the lanes, the clocks and the registry; this file only ties them
 * together.
 *
 * Each turn of the loop ends with before_sleep: workers that became free take those that wait, due
 * deadlines fire, the ledger writes what waits, then the lanes send (hooks run in the order of
 * creation, and the lanes are created last). */
#include "router/router.h"
#include "router/affinity.h"
#include "router/ledger.h"
#include "router/links.h"
#include "router/monitor.h"
#include "router/presence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "lane/credentials.h"
#include "store/store.h"
#include "wire/headers.h"
#include "wire/subject.h"

#define ROUTER_MAGIC 0x726f7574u
#define CLOCKS_PER_TURN 4096
#define DRAIN_TICK_MS 10
#define DRAIN_FLUSH_MS                                                                             \
    2000 /* after drain_ms: what is unfinished has been answered, its records still go out */

static void attempt_lost(void *arg, struct charge *charge, mono now)
{
    struct transit *t = transit_of_charge(charge);

    (void)arg;
    if (t->core.state == REQUEST_SERVED)
        relay_interrupt(t, WB_INTERRUPTED, "the worker left or was restarted during the stream",
                        now);
    else if (t->core.state == REQUEST_OUT)
        dispatch_failed(t, CAUSE_LOST, 0, now);
    /* CHOSEN: request_resolve is about to see that the worker is gone, and moves on. */
}

static bool attempt_begun(void *arg, const struct charge *charge)
{
    (void)arg;
    return transit_of_charge(charge)->core.state == REQUEST_SERVED;
}

static void on_worker(void *arg, struct worker *w, enum worker_event event, mono now)
{
    struct router *r = arg;
    struct span service = span_str(pool_name(w->pool));
    static const int which[WORKER_EVENT_COUNT] = {
        [WORKER_EVENT_JOINED] = COUNT_WORKERS_JOINED + 1,
        [WORKER_EVENT_LEFT] = COUNT_WORKERS_LEFT + 1,
        [WORKER_EVENT_LOST] = COUNT_WORKERS_LOST + 1,
        [WORKER_EVENT_EJECTED] = COUNT_EJECTIONS + 1,
        [WORKER_EVENT_RESTORED] = COUNT_RESTORATIONS + 1,
    };

    if (which[event])
        router_count(r, (enum count)(which[event] - 1));
    log_limited(&r->log_trouble, now, event == WORKER_EVENT_DUPLICATE ? LOG_WARN : LOG_INFO,
                "worker %s/%s: %s", pool_name(w->pool), w->id, worker_event_name(event));
    control_event(r, worker_event_name(event), service, worker_name(w), NULL);
    if ((event == WORKER_EVENT_JOINED || event == WORKER_EVENT_EPOCH) && r->front)
        links_worker_joined(r, w->pool, now);
}

static void on_timer(void *arg)
{
    struct router *r = arg;

    r->timer_due = MONO_NEVER; /* before_sleep runs what is due and arms it again */
}

static void before_sleep(void *arg)
{
    struct router *r = arg;
    mono now = loop_now(r->loop), session_due = MONO_NEVER, next;
    bool more = dispatch_waiting(r, now); /* before a clock says that they have waited in vain */

    deadlines_run(r->deadlines, now, CLOCKS_PER_TURN);
    next = registry_next(r->registry);
    if (!mono_before(now, next))
        (void)registry_run(r->registry, now);
    if (!mono_before(now, r->denied_due))
        links_retry_denied(r, now);
    if (!mono_before(now, r->start_until) && !r->ready_said)
        router_subscribe_due(r, now);
    if (r->affinity)
        session_due = affinity_turn(r->affinity, now);
    more = dispatch_waiting(r, now) || more;
    more = more || affinity_has_more(r->affinity); /* made by those who had their turn just now */
    next = mono_min(session_due, more ? now : registry_next(r->registry));
    next = mono_min(next, mono_min(r->denied_due, deadlines_next(r->deadlines)));
    if (mono_before(now, r->start_until))
        next = mono_min(next, r->start_until);
    /* An earlier timer than needed only wakes the loop once for nothing: re-arming at each request
     * would cost more. */
    if (mono_before(next, r->timer_due)) {
        r->timer_due = next;
        loop_timer_set(r->timer, next);
    }
}

static bool create_first_lines(struct router *r)
{
    struct header_writer w;

    buf_init(&r->first_lines, 4096);
    header_open(&w, &r->first_lines);
    buf_consume(&r->first_lines, buf_len(&r->first_lines)); /* only its fields are wanted */
    header_add_u64(&w, H_ATTEMPT, 1);
    header_add(&w, H_ROUTER, r->id);
    header_add_u64(&w, H_HOPS, 1);
    return w.status == WB_OK;
}

static bool create_tables(struct router *r)
{
    const struct router_settings *set = r->settings;

    for (unsigned i = 0; i < PLACE_COUNT; i++)
        list_init(&r->places[i].list);
    r->deadlines = deadlines_create(set->limits.in_flight * 2 + 65536 + 16);
    r->transits = slab_create(sizeof(struct transit), set->limits.in_flight);
    if (r->transits)
        slab_zero_only(r->transits, offsetof(struct transit, core));
    r->smalls = slab_create(MESSAGE_SMALL, set->limits.in_flight);
    if (r->smalls)
        slab_zero_only(r->smalls, 0);
    r->static_subjects = map_create(set->limits.workers);
    r->hook = loop_hook_create(r->loop, before_sleep, r);
    r->timer = loop_timer_create(r->loop, on_timer, r);
    return r->deadlines && r->transits && r->smalls && r->static_subjects && r->hook && r->timer;
}

static bool add_static(struct router *r, struct service *s, const struct static_settings *w,
                       mono now)
{
    struct static_worker entry = {
        .id = w->id,
        .subject = w->subject,
        .cancel_subject = w->cancel_subject,
        .weight = w->weight,
        .capacity = w->capacity,
        .ranks = w->ranks,
        .class_name = w->class_name,
        .adapters = (const char *const *)w->adapters,
        .adapter_count = w->adapter_count,
        .follows_heartbeats = w->heartbeat,
    };

    return pool_add_static(s->pool, &entry, now) == WB_OK &&
           map_put(r->static_subjects, span_str(w->subject), s) != WB_NO_MEMORY;
}

static bool add_service(struct router *r, struct service *s, const struct service_settings *set,
                        mono now)
{
    struct pool_options options = {
        .name = set->name,
        .policy = set->policy,
        .ratio = set->ratio,
        .heartbeats = set->heartbeats,
        .eject_enabled = set->eject_enabled,
        .max_attempts = set->retry.max_attempts,
        .budget_percent = set->retry.budget_percent,
        .idempotent = set->retry.idempotent,
        .queue_limit = set->queue.limit,
        .queue_wait_ms = set->queue.wait_ms,
        .adapters_load = set->adapters_load,
    };

    s->settings = set;
    s->router = r;
    s->name = span_str(set->name);
    s->queue = set->queue_group ? span_str(set->queue_group) : r->prefix;
    s->sids = calloc(set->subject_count ? set->subject_count : 1, sizeof *s->sids);
    s->pool = registry_add_pool(r->registry, &options);
    s->by_id = map_create(r->settings->limits.in_flight);
    if (!s->sids || !s->pool || !s->by_id)
        return false;
    for (unsigned i = 0; i < set->worker_count; i++)
        if (!add_static(r, s, &set->workers[i], now))
            return false;
    return true;
}

static bool create_services(struct router *r)
{
    const struct router_settings *set = r->settings;
    struct registry_options options = {
        .max_workers = set->limits.workers,
        .worker_bytes = set->limits.worker_bytes,
        .seed = rng_next(&r->rng),
        .events = {attempt_lost, attempt_begun, on_worker, links_prove},
        .arg = r,
    };

    r->registry = registry_create(&options);
    r->services = calloc(set->service_count ? set->service_count : 1, sizeof *r->services);
    if (!r->registry || !r->services)
        return false;
    r->service_count = set->service_count;
    for (unsigned i = 0; i < set->service_count; i++)
        if (!add_service(r, &r->services[i], &set->services[i], loop_now(r->loop)))
            return false;
    return true;
}

static struct lane *create_lane(struct router *r, const char *which)
{
    static const struct lane_events events = {links_on_up, links_on_down, links_on_denied,
                                              links_on_drained};
    const struct router_settings *set = r->settings;
    char name[WB_NAME_MAX + 32];
    struct lane_options options = {
        .servers = set->nats.url,
        .user = set->nats.user,
        .password = set->nats.password,
        .token = set->nats.token,
        .nkey_file = set->nats.nkey,
        .creds_file = set->nats.creds,
        .tls_ca = set->nats.ca,
        .tls_cert = set->nats.cert,
        .tls_key = set->nats.key,
        .tls_first = set->nats.tls_first,
        .tls_insecure = set->nats.tls_insecure,
        .name = name,
    };

    snprintf(name, sizeof name, "waybilld %s %s", set->id, which);
    return lane_create(r->loop, &options, &events, r);
}

static void on_bucket(void *arg, const char *bucket, enum store_bucket_state state, const char *why)
{
    struct router *r = arg;
    bool there = state == STORE_BOUND || state == STORE_CREATED;

    if (there)
        log_write(LOG_INFO, "bucket %s %s", bucket, state == STORE_CREATED ? "created" : "bound");
    else
        log_write(LOG_WARN, "bucket %s is away: %s", bucket, why ? why : "unknown");
    control_event(r, there ? "bucket_bound" : "bucket_away", SPAN_EMPTY, SPAN_EMPTY, bucket);
    if (strcmp(bucket, r->settings->attribution.bucket) == 0)
        ledger_bucket(r->ledger, there, loop_now(r->loop));
    else if (r->affinity)
        affinity_on_bucket(r->affinity, there, loop_now(r->loop));
}

static void on_done(void *arg, uint64_t token, wb_status status, const struct store_entry *entry)
{
    struct router *r = arg;

    affinity_on_done(r->affinity, token, status, entry, loop_now(r->loop));
}

static void on_watch(void *arg, const char *bucket, enum store_watch_event event, bool another,
                     const struct store_entry *entry)
{
    struct router *r = arg;

    (void)bucket; /* the only one that is watched */
    affinity_on_watch(r->affinity, event, another, entry, loop_now(r->loop));
}

static bool create_store(struct router *r)
{
    static const struct store_events events = {on_bucket, on_done, on_watch};
    const struct router_settings *set = r->settings;
    char inbox[2 * WB_SUBJECT_MAX], name[WB_NAME_MAX + 32];
    struct store_connection connection = {
        .url = set->nats.url,
        .user = set->nats.user,
        .password = set->nats.password,
        .token = set->nats.token,
        .nkey_file = set->nats.nkey,
        .creds = set->nats.creds,
        .cert = set->nats.cert,
        .key = set->nats.key,
        .ca = set->nats.ca,
        .tls = set->nats.ca || strstr(set->nats.url, "tls://"),
        .tls_insecure = set->nats.tls_insecure,
        .tls_first = set->nats.tls_first,
        .name = name,
        .inbox_prefix = inbox,
        .nkey_public = credentials_public_of,
    };
    struct store_bucket sessions, bucket = {
                                      .name = set->attribution.bucket,
                                      .ttl_s = set->attribution.ttl_s,
                                      .history = set->attribution.history,
                                      .max_bytes = set->attribution.max_bytes,
                                      .replicas = set->attribution.replicas,
                                      .memory = set->attribution.memory,
                                  };

    snprintf(inbox, sizeof inbox, "%s.inbox.%s", set->prefix, set->id);
    snprintf(name, sizeof name, "waybilld %s store", set->id);
    r->store = store_create(r->loop, &connection, &events, r);
    return r->store &&
           (set->attribution.write == ATTRIBUTION_OFF || store_want(r->store, &bucket) == WB_OK) &&
           (!affinity_bucket(r->affinity, &sessions) || store_want(r->store, &sessions) == WB_OK);
}

static void init_values(struct router *r, struct loop *loop, const struct router_settings *settings)
{
    uint64_t seed;

    rng_secure(&seed, sizeof seed);
    rng_seed(&r->rng, seed);
    r->magic = ROUTER_MAGIC;
    r->loop = loop;
    r->settings = settings;
    r->prefix = span_str(settings->prefix);
    r->id = span_str(settings->id);
    r->started_ms = clock_wall().us / 1000;
    r->start_until = r->timer_due = r->denied_due = r->drain_due = r->proving_since = MONO_NEVER;
    id_random(r->id_prefix, 12);
    r->reply_prefix_len = subject_join(r->reply_prefix, r->prefix, "reply.");
    r->inbox_prefix_len = (size_t)snprintf(r->inbox_prefix, sizeof r->inbox_prefix,
                                           "%s.inbox.%s.l.", settings->prefix, settings->id);
    buf_init(&r->headers_out, 4 * 1024 * 1024);
    buf_init(&r->body_out, 16 * 1024 * 1024);
}

struct router *router_create(struct loop *loop, const struct router_settings *settings,
                             char why[256])
{
    struct router *r = calloc(1, sizeof *r);

    snprintf(why, 256, "no memory");
    if (!r)
        return NULL;
    init_values(r, loop, settings);
    if (!create_first_lines(r) || !create_tables(r) || !create_services(r) ||
        !affinity_create(r, &r->affinity) || !(r->ledger = ledger_create(r)) ||
        !(r->presence = presence_create(r)) || !create_store(r)) {
        router_destroy(r);
        return NULL;
    }
    r->front = create_lane(r, "front");
    r->back = create_lane(r, "back");
    if (!r->front || !r->back || !links_subscribe_own(r)) {
        snprintf(why, 256, "the connection settings can't be used (nats.url %s)",
                 settings->nats.url);
        router_destroy(r);
        return NULL;
    }
    if (settings->monitor_listen &&
        !(r->monitor = monitor_open(r, settings->monitor_listen, why))) {
        router_destroy(r);
        return NULL;
    }
    return r;
}

wb_status router_start(struct router *r)
{
    MAGIC_CHECK(r, ROUTER_MAGIC);
    lane_start(r->front);
    lane_start(r->back);
    ledger_start(r->ledger);
    if (r->settings->attribution.write == ATTRIBUTION_OFF && !r->affinity)
        return WB_OK;
    return store_start(r->store);
}

static void drain_flushed(void *arg, bool ok)
{
    struct router *r = arg;

    (void)ok; /* a lane that went down delivers nothing more either */
    r->drain_flushed = true;
}

static void end_unfinished(struct router *r, mono now)
{
    static const enum place places[] = {PLACE_QUEUED,       PLACE_RUNNING,   PLACE_RECORD_WAIT,
                                        PLACE_SESSION_WAIT, PLACE_LINK_WAIT, PLACE_START_WAIT};

    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (uint32_t n = r->places[places[i]].count; n > 0; n--) {
            struct transit *t = transit_first(r, places[i]);

            if (t->core.state == REQUEST_SERVED)
                relay_interrupt(t, WB_INTERRUPTED, "the router is stopping", now);
            else
                dispatch_give_up(t, WB_DRAINING, "the router is stopping", now);
        }
    }
}

static void drain_tick(void *arg)
{
    struct router *r = arg;
    mono now = loop_now(r->loop);
    bool done = r->drain_flushed && slab_used(r->transits) == 0 && ledger_idle(r->ledger);

    if (!done && !r->drain_overdue && !mono_before(now, r->drain_due)) {
        r->drain_overdue = true;
        end_unfinished(r, now);
    }
    if (done || !mono_before(now, mono_add_ms(r->drain_due, DRAIN_FLUSH_MS))) {
        if (lane_state(r->front) != LANE_CLOSED && lane_state(r->front) != LANE_CLOSING) {
            lane_close(r->front, 1000);
            lane_close(r->back, 1000);
        }
        if (lane_state(r->front) == LANE_CLOSED && lane_state(r->back) == LANE_CLOSED) {
            r->drained(r->drained_arg);
            return;
        }
    }
    loop_timer_set(r->drain_timer, mono_add_ms(now, DRAIN_TICK_MS));
}

void router_drain(struct router *r, void (*done)(void *arg), void *arg)
{
    mono now;

    MAGIC_CHECK(r, ROUTER_MAGIC);
    now = loop_update_now(r->loop);
    if (r->draining) {
        r->drain_due = (mono){now.us - (DRAIN_FLUSH_MS + 1) * 1000};
        return;
    }
    log_write(LOG_INFO, "draining: %u requests in flight, %u records to write",
              slab_used(r->transits), ledger_backlog(r->ledger));
    r->draining = true;
    r->drained = done;
    r->drained_arg = arg;
    r->drain_due = mono_add_ms(now, r->settings->drain_ms);
    r->drain_timer = loop_timer_create(r->loop, drain_tick, r);
    links_leave(r);
    if (lane_flush(r->front, drain_flushed, r) != WB_OK)
        r->drain_flushed = true;
    if (r->drain_timer)
        loop_timer_set(r->drain_timer, now);
    else
        done(arg);
}

static void dispose_all(void *arg, void *object, uint64_t handle)
{
    (void)arg, (void)handle;
    transit_dispose(object);
}

void router_destroy(struct router *r)
{
    if (!r)
        return;
    monitor_close(r->monitor);
    store_destroy(r->store);
    lane_destroy(r->front);
    lane_destroy(r->back);
    r->front = r->back = NULL;
    if (r->transits)
        slab_each(r->transits, dispose_all, r);
    ledger_destroy(r->ledger);
    affinity_destroy(r->affinity);
    registry_destroy(r->registry);
    presence_destroy(r->presence);
    for (unsigned i = 0; r->services && i < r->service_count; i++) {
        free(r->services[i].sids);
        map_destroy(r->services[i].by_id);
    }
    free(r->services);
    map_destroy(r->static_subjects);
    deadlines_destroy(r->deadlines);
    slab_destroy(r->transits);
    slab_destroy(r->smalls);
    loop_timer_destroy(r->timer);
    loop_timer_destroy(r->drain_timer);
    if (r->hook)
        loop_hook_destroy(r->hook);
    buf_fini(&r->first_lines);
    buf_fini(&r->headers_out);
    buf_fini(&r->body_out);
    free(r);
}
