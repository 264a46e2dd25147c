/* Affinity: what core/session decides, done.
 *
 *   dispatch --affinity_start--> core/session   --effects--> store_send --> the bucket
 *      ^                               |  ^                                    |
 *      +---- ready tickets ------------+  +--------- done, watch --------------+
 *
 * A transit that must wait is in PLACE_SESSION_WAIT; it is woken here, at the end of the turn in
 * which its verdict changed, and goes through dispatch_start like any other. All effects of a turn
 * are sent in its end, so a burst of new sessions is one batch for the store.
 *
 * Ages count from the bucket's own timestamps, so the router needs the server's clock. It is
 * estimated from live entries of the watch: an entry is at least as old as its stamp when it comes
 * in, so the greatest difference (stamp - our clock) seen lately is the best; the maxima of two
 * windows are kept, so that a server whose clock was set back is followed. Before the first entry
 * our own wall clock has to do.
 *
 * At the start the bucket is not bound yet: the first claims wait for it, wait_ms at most each, so
 * that a router which starts finds the bindings of those before it.
 *
 * The bucket can't be reached: sessions are bound here alone; log, metric and event say so, and
 * heal the same way. */
#include "router/affinity.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/loop.h"
#include "core/session.h"
#include "wire/binding.h"

#define CLOCK_WINDOW_MS 60000
#define DEAF_MS 5000 /* so long may a watch take to begin */

struct server_clock {
    int64_t present, before; /* greatest stamp - mono of the two windows, us; INT64_MIN: none */
    mono turned;
};

/* A transit's part in a session; most transits have none. */
struct attendance {
    struct session_ticket ticket;
    struct transit *transit;
    uint64_t handle;
    struct span session; /* as the client named it, in the transit's memory */
    bool entered;
};

struct affinity {
    struct router *router;
    struct sessions *sessions;
    struct slab *attendances;
    struct session_rules **rules; /* by service; NULL: no sessions */
    struct server_clock clock;
    bool current;    /* the watch tells news, not what has been there */
    bool said_alone; /* that bindings are not shared */
    bool heard_away; /* the bucket is away: believed once start_wait_ms has passed */
    bool said_deaf;  /* that nothing is heard of other routers' bindings */
    mono deaf_at;    /* when it is to be said */
    int64_t ttl_max_s;
    struct buf scratch;
};

static const struct session_rules *rules_of(const struct affinity *a, const struct service *s)
{
    return a->rules[s - a->router->services];
}

bool affinity_create(struct router *r, struct affinity **out)
{
    struct sessions_options options = {
        .max = r->settings->limits.sessions, .router = r->id, .shared = true};
    struct affinity *a;
    int64_t ttl_max_s = 0;

    *out = NULL;
    for (unsigned i = 0; i < r->service_count; i++)
        if (r->services[i].settings->session.ttl_s > ttl_max_s)
            ttl_max_s = r->services[i].settings->session.ttl_s;
    if (ttl_max_s == 0)
        return true;
    a = calloc(1, sizeof *a);
    if (!a)
        return false;
    *out = a;
    a->router = r;
    a->ttl_max_s = ttl_max_s;
    a->clock = (struct server_clock){INT64_MIN, INT64_MIN, {0}};
    a->deaf_at = MONO_NEVER;
    buf_init(&a->scratch, 2 * BINDING_SIZE_MAX);
    a->sessions = sessions_create(&options);
    a->attendances = slab_create(sizeof(struct attendance), r->settings->limits.in_flight);
    a->rules = calloc(r->service_count, sizeof(struct session_rules *));
    for (unsigned i = 0; a->sessions && a->rules && i < r->service_count; i++) {
        const struct service_settings *set = r->services[i].settings;

        if (set->session.ttl_s == 0)
            continue;
        a->rules[i] = sessions_add_service(a->sessions, r->services[i].name,
                                           set->session.ttl_s * 1000, set->session.wait_ms);
        if (!a->rules[i])
            return false;
    }
    return a->sessions && a->attendances && a->rules;
}

void affinity_destroy(struct affinity *a)
{
    if (!a)
        return;
    sessions_destroy(a->sessions);
    slab_destroy(a->attendances);
    free(a->rules);
    buf_fini(&a->scratch);
    free(a);
}

bool affinity_bucket(const struct affinity *a, struct store_bucket *out)
{
    const struct router_settings *set;

    if (!a)
        return false;
    set = a->router->settings;
    *out = (struct store_bucket){
        .name = set->sessions.bucket,
        .ttl_s = 2 * a->ttl_max_s, /* what no router has removed */
        .history = 1,
        .max_bytes = set->sessions.max_bytes,
        .replicas = set->sessions.replicas,
        .memory = set->sessions.memory,
        .watch = true,
    };
    return true;
}

struct sessions *affinity_sessions(const struct affinity *a)
{
    return a ? a->sessions : NULL;
}

/* ---- requests ---- */

static bool has_sessions(const struct service *s)
{
    return s->settings->session.ttl_s > 0;
}

void affinity_attend(struct transit *t, struct span session)
{
    struct affinity *a = t->router->affinity;
    struct attendance *at;
    uint64_t handle;

    if (!has_sessions(t->service))
        return;
    at = slab_take(a->attendances, &handle);
    if (!at) {
        log_limited(&t->router->log_trouble, loop_now(t->router->loop), LOG_ERROR,
                    "no memory for a session: its request goes unbound");
        return;
    }
    at->transit = t;
    at->handle = handle;
    at->session = session;
    t->attendance = at;
}

struct span affinity_name(const struct transit *t)
{
    return t->attendance ? t->attendance->session : SPAN_EMPTY;
}

static size_t key_of(const struct transit *t, char key[BINDING_KEY_MAX])
{
    return binding_key(t->service->name, t->attendance->session, key);
}

static struct pin pin_of(const struct service *s, struct span worker, int32_t rank)
{
    return (struct pin){
        .mode = s->settings->session.mode == SESSION_SOFT ? PIN_SOFT : PIN_HARD,
        .worker = worker,
        .rank = rank,
        .on_busy = s->settings->session.on_busy,
    };
}

/* `follow`: whose worker a request that goes unbound should use if it is free; NULL: nobody's. */
static struct pin pin_by(const struct transit *t, enum session_verdict verdict,
                         const struct worker *follow)
{
    if (verdict == SESSION_GO_BOUND) {
        struct session_binding b = session_bound(&t->attendance->ticket);

        return pin_of(t->service, b.worker, b.rank);
    }
    if (verdict == SESSION_GO_OWNER)
        return (struct pin){.mode = PIN_OWNER, .worker = SPAN_EMPTY, .rank = -1};
    if (follow && follow->discovered && t->core.target.len == 0)
        return (struct pin){.mode = PIN_SOFT, .worker = span_str(follow->id), .rank = -1};
    return (struct pin){.mode = PIN_NONE, .worker = SPAN_EMPTY, .rank = -1};
}

static void go(struct transit *t, enum session_verdict verdict, const struct worker *follow,
               mono now)
{
    for (;;) {
        struct pin pin;
        struct next next;

        if (verdict == SESSION_WAIT) {
            transit_place(t, PLACE_SESSION_WAIT);
            transit_arm(t, CLOCK_SESSION, mono_add_ms(now, t->service->settings->session.wait_ms));
            return;
        }
        pin = pin_by(t, verdict, follow);
        next = request_choose(&t->core, &pin, t->router->start_until, now);
        if (next.kind != NEXT_REBIND) {
            dispatch_follow(t, next, now);
            return;
        }
        verdict = session_broken(&t->attendance->ticket, now);
    }
}

void affinity_start(struct transit *t, mono now)
{
    struct affinity *a = t->router->affinity;
    struct attendance *at = t->attendance;
    enum session_verdict verdict;
    char key[BINDING_KEY_MAX];

    if (at->entered) {
        verdict = session_verdict(&at->ticket);
    } else {
        at->entered = true;
        verdict = session_enter(a->sessions, &at->ticket, rules_of(a, t->service),
                                span_of(key, key_of(t, key)), now);
    }
    go(t, verdict, NULL, now);
}

void affinity_late(struct transit *t, mono now)
{
    struct session_ticket *owner;
    enum session_verdict verdict = session_wait_over(&t->attendance->ticket, &owner, now);
    const struct worker *follow = NULL;

    if (owner)
        follow = CONTAINER_OF(owner, struct attendance, ticket)->transit->core.charge.worker;
    transit_place(t, PLACE_RUNNING);
    if (lane_is_up(t->router->back))
        go(t, verdict, follow, now);
    else
        dispatch_start(t, now); /* waits for the link; its part in the session stays as it is */
}

void affinity_answered(struct transit *t, mono now)
{
    const struct worker *w = t->core.charge.worker;

    if (t->attendance)
        session_answered(&t->attendance->ticket, span_str(w->id), t->core.rank,
                         t->core.charge.epoch,
                         t->service->settings->session.mode == SESSION_SOFT &&
                             t->core.target.len == 0, /* a rank it named is for this request only */
                         now);
}

void affinity_leave(struct transit *t, mono now)
{
    if (t->attendance)
        session_leave(&t->attendance->ticket, now);
}

void affinity_forget(struct transit *t)
{
    if (!t->attendance)
        return;
    slab_give(t->router->affinity->attendances, t->attendance->handle);
    t->attendance = NULL;
}

bool affinity_look(const struct transit *t, struct pin *out, mono now)
{
    char key[BINDING_KEY_MAX];
    struct session_view v;

    if (!t->attendance ||
        !sessions_find(t->router->affinity->sessions, span_of(key, key_of(t, key)), &v, now) ||
        v.state != SESSION_BOUND)
        return false;
    *out = pin_of(t->service, v.worker, v.rank);
    return true;
}

bool affinity_unbind(struct affinity *a, struct span service, struct span session, mono now)
{
    char key[BINDING_KEY_MAX];

    return session_unbind(a->sessions, span_of(key, binding_key(service, session, key)), now);
}

/* ---- the bucket ---- */

static void put_id(char out[WB_NAME_MAX + 1], struct span id)
{
    CHECK(id.len <= WB_NAME_MAX);
    memcpy(out, id.ptr, id.len);
    out[id.len] = '\0';
}

static wb_status send_effect(struct affinity *a, const struct session_effect *e)
{
    struct store_request request = {
        .op = e->kind == SESSION_READ    ? STORE_GET
              : e->kind == SESSION_WRITE ? STORE_PUT
                                         : STORE_DELETE,
        .bucket = a->router->settings->sessions.bucket,
        .key = e->key,
        .value = SPAN_EMPTY,
        .expect = e->expect,
        .timeout_ms = e->timeout_ms,
        .token = e->token,
    };

    if (e->kind == SESSION_WRITE) {
        struct binding b = {.bound = e->put.hold == SESSION_HOLDS_BOUND,
                            .rank = e->put.rank,
                            .epoch = e->put.epoch};
        wb_status status;

        put_id(b.router, e->put.router);
        put_id(b.worker, e->put.worker);
        buf_clear(&a->scratch);
        status = binding_encode(&b, &a->scratch);
        if (status != WB_OK)
            return status;
        request.value = buf_span(&a->scratch);
    }
    return store_send(a->router->store, &request);
}

static void send_effects(struct affinity *a, mono now)
{
    struct session_effect e;

    while (sessions_effect(a->sessions, &e))
        if (send_effect(a, &e) != WB_OK)
            sessions_done(a->sessions, e.token, SESSION_FAILED, NULL, now);
}

static void note_clock(struct server_clock *clock, wall stamp, mono now)
{
    int64_t ahead = stamp.us - now.us;

    if (!mono_before(now, mono_add_ms(clock->turned, CLOCK_WINDOW_MS))) {
        clock->before = clock->present;
        clock->present = INT64_MIN;
        clock->turned = now;
    }
    if (ahead > clock->present)
        clock->present = ahead;
}

/* The moment of a stamp on our own clock; never in the future. */
static mono moment_of(const struct server_clock *clock, wall stamp, mono now)
{
    int64_t ahead = clock->present > clock->before ? clock->present : clock->before;
    int64_t age;

    if (ahead == INT64_MIN)
        ahead = clock_wall().us - now.us;
    age = now.us + ahead - stamp.us;
    return (mono){now.us - (age > 0 ? age : 0)};
}

/* `b` holds the names that the fact points to. What can't be read is somebody's claim: it is waited
 * for, and replaced when it is overdue. */
static struct session_fact fact_of(struct affinity *a, const struct store_entry *entry,
                                   struct binding *b, mono now)
{
    struct session_fact fact = {.hold = SESSION_HOLDS_NOTHING,
                                .router = SPAN_EMPTY,
                                .worker = SPAN_EMPTY,
                                .rank = -1,
                                .epoch = -1,
                                .revision = entry->revision,
                                .written = moment_of(&a->clock, entry->created, now)};

    if (entry->deleted)
        return fact;
    fact.hold = SESSION_HOLDS_INIT;
    if (binding_decode(entry->value, b) != WB_OK)
        return fact;
    fact.router = span_str(b->router);
    if (b->bound) {
        fact.hold = SESSION_HOLDS_BOUND;
        fact.worker = span_str(b->worker);
        fact.rank = b->rank;
        fact.epoch = b->epoch;
    }
    return fact;
}

void affinity_on_done(struct affinity *a, uint64_t token, wb_status status,
                      const struct store_entry *entry, mono now)
{
    const struct store_entry none = {.key = SPAN_EMPTY, .value = SPAN_EMPTY, .deleted = true};
    enum session_result result = SESSION_FAILED;
    struct session_fact fact;
    struct binding b;

    if (status == WB_OK || status == WB_NOT_FOUND)
        result = SESSION_DONE;
    else if (status == WB_EXISTS)
        result = SESSION_OTHER;
    else if (status != WB_CLOSED) /* which is said once, for all */
        log_limited(&a->router->log_trouble, now, LOG_WARN, "bucket %s: %s",
                    a->router->settings->sessions.bucket, wb_status_text(status));
    fact = fact_of(a, status == WB_OK && entry ? entry : &none, &b, now);
    sessions_done(a->sessions, token, result, &fact, now);
}

/* Says when bindings stop to be shared with other routers, and when they are again. */
static void say_shared(struct affinity *a)
{
    struct router *r = a->router;
    bool alone = !sessions_shared(a->sessions);

    if (alone == a->said_alone)
        return;
    a->said_alone = alone;
    if (alone)
        log_write(LOG_WARN, "sessions are bound by this router alone: bucket %s is away",
                  r->settings->sessions.bucket);
    else
        log_write(LOG_INFO, "sessions are shared again");
    control_event(r, alone ? "sessions_local" : "sessions_shared", SPAN_EMPTY, SPAN_EMPTY,
                  r->settings->sessions.bucket);
}

/* Each binding is read before it is used then: right, and slow. */
static void say_deaf(struct affinity *a, bool deaf)
{
    a->deaf_at = MONO_NEVER;
    if (deaf == a->said_deaf)
        return;
    a->said_deaf = deaf;
    if (deaf)
        log_write(LOG_WARN, "bucket %s can't be watched: each binding is read before it is used",
                  a->router->settings->sessions.bucket);
    else
        log_write(LOG_INFO, "bucket %s is watched again", a->router->settings->sessions.bucket);
}

static void believe_away(struct affinity *a, mono now)
{
    a->heard_away = false;
    a->deaf_at = MONO_NEVER;
    a->current = false;
    sessions_link(a->sessions, false, now);
    say_shared(a);
}

void affinity_on_bucket(struct affinity *a, bool there, mono now)
{
    a->heard_away = !there;
    if (there) {
        if (!a->current)
            a->deaf_at = mono_add_ms(now, DEAF_MS);
        sessions_link(a->sessions, true, now);
        say_shared(a);
    } else if (!mono_before(now, a->router->start_until) || sessions_shared(a->sessions)) {
        believe_away(a, now);
    }
}

void affinity_on_watch(struct affinity *a, enum store_watch_event event, bool another,
                       const struct store_entry *entry, mono now)
{
    struct session_fact fact;
    struct binding b;

    switch (event) {
    case STORE_WATCH_BEGUN:
        a->current = false;
        sessions_reading(a->sessions, another, now);
        return;
    case STORE_WATCH_ENTRY:
        if (a->current)
            note_clock(&a->clock, entry->created, now);
        fact = fact_of(a, entry, &b, now);
        sessions_seen(a->sessions, entry->key, &fact, now);
        return;
    case STORE_WATCH_CURRENT:
        a->current = true;
        say_deaf(a, false);
        sessions_current(a->sessions, now);
        return;
    case STORE_WATCH_LOST:
        a->current = false;
        if (sessions_shared(a->sessions))
            a->deaf_at = mono_add_ms(now, DEAF_MS);
        sessions_gap(a->sessions);
        return;
    }
}

bool affinity_has_more(const struct affinity *a)
{
    return a && sessions_busy(a->sessions);
}

mono affinity_turn(struct affinity *a, mono now)
{
    struct session_ticket *ticket;
    mono next = sessions_next(a->sessions);

    if (a->heard_away && !mono_before(now, a->router->start_until))
        believe_away(a, now);
    if (!mono_before(now, a->deaf_at))
        say_deaf(a, true);
    if (!mono_before(now, next))
        (void)sessions_run(a->sessions, now);
    while ((ticket = sessions_ready(a->sessions)))
        dispatch_start(CONTAINER_OF(ticket, struct attendance, ticket)->transit, now);
    send_effects(a, now);
    return mono_min(sessions_next(a->sessions), a->deaf_at);
}
