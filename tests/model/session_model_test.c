/* Up to four routers' session tables around one bucket, driven by chance: requests come, wait, are
 * answered, fail; workers break; operations on the bucket are late, lost before or after they took
 * effect, and overtaken; watches lag, break off and begin anew; the bucket goes away, is purged,
 * is made anew; routers die with all they owned.
 *
 * What must hold. Always: a ticket that comes out of the ready list has a verdict; a request is
 * told of a binding only as it stands; nobody waits longer than the rules say, and the table's
 * counts are those of the live requests. Without trouble (no loss, no lag beyond the wait, no
 * broken worker): all answered requests of a session went to one worker, on all routers. At rest,
 * once all is delivered: routers that hold a binding hold the bucket's, and no claim is left
 * anywhere.
 *
 * Usage: session_model_test [EVENTS [SEED]]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "core/session.h"

#define ROUTERS 4
#define KEYS 3
#define LIVES 24
#define WORKERS 6
#define OPS 64
#define LOG 4096
#define TTL_MS 6000
#define WAIT_MS 1000

struct value {
    enum session_hold hold;
    int router, worker;
    uint64_t revision;
    mono written;
};

struct logged {
    int key;
    struct value value;
};

struct bucket {
    bool up;
    uint64_t revision;
    struct value keys[KEYS];
    struct logged log[LOG];
    uint32_t logged;
};

enum op_stage { OP_FREE, OP_UNDER_WAY, OP_APPLIED };
struct op {
    enum op_stage stage;
    struct session_effect effect;
    int key;
    enum session_result result;
    struct value value;
    mono sent;
};

enum live_stage { LIVE_FREE, LIVE_WAITING, LIVE_OUT };
struct live {
    enum live_stage stage;
    struct session_ticket ticket;
    int key, worker;
    mono since; /* waiting since, or out since */
    bool rebound;
};

struct router {
    struct sessions *table;
    struct session_rules *rules;
    struct op ops[OPS];
    struct live lives[LIVES];
    uint32_t watched; /* of the log */
    bool watching;
    char id[8];
};

static struct rng rng;
static struct bucket bucket;
static struct router routers[ROUTERS];
static int router_count;
static bool broken[WORKERS];
static mono now;
static bool calm; /* a round without trouble */
static int calm_worker[KEYS];
static uint64_t answers, hits, overtakes, waits_over;

static const char *const keys[KEYS] = {"chat.a", "chat.b", "chat.c"};

static unsigned below(unsigned n)
{
    return (unsigned)rng_below(&rng, n);
}

static int worker_of(struct span worker)
{
    return worker.ptr[1] - '0';
}

static struct session_fact fact_of(const struct value *v)
{
    static const char *const names[WORKERS] = {"w0", "w1", "w2", "w3", "w4", "w5"};
    struct session_fact fact = {.hold = v->hold,
                                .router = SPAN_EMPTY,
                                .worker = SPAN_EMPTY,
                                .rank = -1,
                                .epoch = -1,
                                .revision = v->revision,
                                .written = v->written};

    if (v->hold != SESSION_HOLDS_NOTHING)
        fact.router = span_str(routers[v->router].id);
    if (v->hold == SESSION_HOLDS_BOUND)
        fact.worker = span_str(names[v->worker]);
    return fact;
}

/* ---- requests ---- */

static void leave(struct live *live)
{
    session_leave(&live->ticket, now);
    session_leave(&live->ticket, now);
    live->stage = LIVE_FREE;
}

static void go(struct live *live, enum session_verdict verdict);

static void go_out(struct live *live, int worker)
{
    live->stage = LIVE_OUT;
    live->worker = worker;
    live->since = now;
}

static void go_bound(struct live *live)
{
    struct session_binding b = session_bound(&live->ticket);
    int worker = worker_of(b.worker);

    if (!broken[worker]) {
        hits++;
        go_out(live, worker);
    } else if (live->rebound) {
        leave(live);
    } else {
        live->rebound = true;
        go(live, session_broken(&live->ticket, now));
    }
}

static void go(struct live *live, enum session_verdict verdict)
{
    switch (verdict) {
    case SESSION_WAIT:
        live->stage = LIVE_WAITING;
        live->since = now;
        break;
    case SESSION_GO_OWNER:
        go_out(live, (int)below(WORKERS));
        break;
    case SESSION_GO_BOUND:
        go_bound(live);
        break;
    case SESSION_GO_UNBOUND:
        CHECK(!calm);
        go_out(live, (int)below(WORKERS));
        break;
    }
}

static void enter(struct router *r)
{
    for (int i = 0; i < LIVES; i++) {
        struct live *live = &r->lives[i];

        if (live->stage != LIVE_FREE)
            continue;
        live->ticket = (struct session_ticket){0};
        live->rebound = false;
        live->key = (int)below(KEYS);
        go(live, session_enter(r->table, &live->ticket, r->rules, span_str(keys[live->key]), now));
        return;
    }
}

static void answer(struct live *live)
{
    static const char *const names[WORKERS] = {"w0", "w1", "w2", "w3", "w4", "w5"};

    if (broken[live->worker]) {
        leave(live);
        return;
    }
    answers++;
    if (calm) {
        if (calm_worker[live->key] < 0)
            calm_worker[live->key] = live->worker;
        CHECK(calm_worker[live->key] == live->worker);
    }
    session_answered(&live->ticket, span_str(names[live->worker]), -1, 1, !calm && below(4) == 0,
                     now);
    leave(live);
}

static void drain_ready(struct router *r)
{
    struct session_ticket *t;

    while ((t = sessions_ready(r->table))) {
        struct live *live = CONTAINER_OF(t, struct live, ticket);

        CHECK(session_verdict(t) != SESSION_WAIT);
        if (live->stage == LIVE_WAITING)
            go(live, session_verdict(t));
    }
}

static void waits(struct router *r)
{
    for (int i = 0; i < LIVES; i++) {
        struct live *live = &r->lives[i];
        struct session_ticket *owner;

        if (live->stage != LIVE_WAITING || mono_before(now, mono_add_ms(live->since, WAIT_MS)))
            continue;
        CHECK(!calm);
        waits_over++;
        go(live, session_wait_over(&live->ticket, &owner, now));
    }
}

/* ---- the bucket ---- */

static void put(int key, struct value value)
{
    value.revision = ++bucket.revision;
    value.written = now;
    bucket.keys[key] = value;
    CHECK(bucket.logged < LOG);
    bucket.log[bucket.logged++] = (struct logged){key, value};
}

static void apply(struct router *r, struct op *op)
{
    struct value *held = &bucket.keys[op->key];
    uint64_t present = held->hold == SESSION_HOLDS_NOTHING ? 0 : held->revision;

    op->stage = OP_APPLIED;
    op->value = *held;
    op->result = SESSION_DONE;
    if (op->effect.kind == SESSION_READ)
        return;
    if (op->effect.expect != present) {
        op->result = SESSION_OTHER;
        return;
    }
    struct value value = {.hold = op->effect.put.hold, .router = (int)(r - routers)};

    if (op->effect.kind == SESSION_DELETE)
        value.hold = SESSION_HOLDS_NOTHING;
    if (value.hold == SESSION_HOLDS_BOUND)
        value.worker = worker_of(op->effect.put.worker);
    put(op->key, value);
    op->value = *held;
}

static void take_effects(struct router *r)
{
    struct session_effect effect;

    for (int i = 0; i < OPS; i++) {
        if (r->ops[i].stage != OP_FREE)
            continue;
        if (!sessions_effect(r->table, &effect))
            return;
        r->ops[i] = (struct op){.stage = OP_UNDER_WAY, .effect = effect, .sent = now};
        for (int key = 0; key < KEYS; key++)
            if (span_eq_str(effect.key, keys[key]))
                r->ops[i].key = key;
    }
}

static void finish(struct router *r, struct op *op, bool lost)
{
    struct session_fact fact;

    if (op->stage == OP_UNDER_WAY && (!lost || below(2)) && bucket.up)
        apply(r, op);
    if (op->stage == OP_UNDER_WAY)
        lost = true;
    fact = fact_of(&op->value);
    op->stage = OP_FREE;
    sessions_done(r->table, op->effect.token, lost ? SESSION_FAILED : op->result, &fact, now);
}

static void work_on(struct router *r)
{
    struct op *op = &r->ops[below(OPS)];

    if (op->stage == OP_UNDER_WAY && bucket.up && below(2))
        apply(r, op);
    else if (op->stage != OP_FREE)
        finish(r, op, !calm && (!bucket.up || below(10) == 0));
}

static void watch(struct router *r)
{
    while (r->watching && r->watched < bucket.logged) {
        const struct logged *l = &bucket.log[r->watched++];
        struct session_fact fact = fact_of(&l->value);

        sessions_seen(r->table, span_str(keys[l->key]), &fact, now);
        if (below(3) == 0)
            return;
    }
}

static void begin_watch(struct router *r, bool another)
{
    sessions_link(r->table, true, now);
    sessions_reading(r->table, another, now);
    for (int key = 0; key < KEYS; key++) {
        struct session_fact fact = fact_of(&bucket.keys[key]);

        if (fact.hold != SESSION_HOLDS_NOTHING)
            sessions_seen(r->table, span_str(keys[key]), &fact, now);
    }
    r->watched = bucket.logged;
    r->watching = true;
    sessions_current(r->table, now);
}

static void lose_watch(struct router *r)
{
    r->watching = false;
    sessions_gap(r->table);
}

static void fail_ops(struct router *r)
{
    for (int i = 0; i < OPS; i++)
        if (r->ops[i].stage != OP_FREE)
            finish(r, &r->ops[i], true);
}

static void bucket_down(void)
{
    bucket.up = false;
    for (int i = 0; i < router_count; i++) {
        lose_watch(&routers[i]);
        fail_ops(&routers[i]);
        sessions_link(routers[i].table, false, now);
    }
}

static void bucket_up(bool another)
{
    if (another) {
        bucket.revision = 0;
        bucket.logged = 0;
        memset(bucket.keys, 0, sizeof bucket.keys);
    }
    bucket.up = true;
    for (int i = 0; i < router_count; i++)
        begin_watch(&routers[i], another);
}

/* ---- routers ---- */

static void start(struct router *r, bool with_watch)
{
    struct sessions_options options = {.max = KEYS - 1 + below(2), .shared = true};

    if (calm)
        options.max = 0;
    snprintf(r->id, sizeof r->id, "r%d", (int)(r - routers));
    options.router = span_str(r->id);
    r->table = sessions_create(&options);
    CHECK(r->table);
    r->rules = sessions_add_service(r->table, SPAN_LIT("chat"), TTL_MS, WAIT_MS);
    if (with_watch && bucket.up)
        begin_watch(r, false);
}

static void end(struct router *r)
{
    for (int i = 0; i < LIVES; i++)
        if (r->lives[i].stage != LIVE_FREE)
            leave(&r->lives[i]);
    while (sessions_ready(r->table))
        CHECK(false);
    sessions_destroy(r->table);
    memset(r->ops, 0, sizeof r->ops);
    r->table = NULL;
    r->watching = false;
}

static void trouble(struct router *r)
{
    switch (below(40)) {
    case 0:
        broken[below(WORKERS)] = true;
        break;
    case 1:
    case 2:
        broken[below(WORKERS)] = false;
        break;
    case 3:
        lose_watch(r);
        break;
    case 4:
        if (bucket.up && !r->watching)
            begin_watch(r, false);
        break;
    case 5:
        if (bucket.up && below(4) == 0)
            bucket_down();
        break;
    case 6:
        if (!bucket.up)
            bucket_up(below(3) == 0);
        break;
    case 7:
        end(r);
        start(r, true);
        break;
    case 8: /* purged or deleted by hand */
        if (bucket.up)
            put((int)below(KEYS), (struct value){.hold = SESSION_HOLDS_NOTHING});
        break;
    case 9:
        (void)session_unbind(r->table, span_str(keys[below(KEYS)]), now);
        break;
    default:
        break;
    }
}

static void check_counts(struct router *r)
{
    for (int key = 0; key < KEYS; key++) {
        struct session_view v;
        uint32_t users = 0, waiters = 0, owners = 0;

        for (int i = 0; i < LIVES; i++) {
            const struct live *live = &r->lives[i];

            if (live->stage == LIVE_FREE || live->key != key)
                continue;
            users += live->ticket.role == SESSION_USER;
            waiters += live->ticket.role == SESSION_WAITER;
            owners += live->ticket.role == SESSION_OWNER;
        }
        if (!sessions_find(r->table, span_str(keys[key]), &v, now)) {
            CHECK(users + waiters + owners == 0);
            continue;
        }
        CHECK(v.users == users && v.waiters == waiters);
        CHECK(owners == (v.state == SESSION_CLAIMING || v.state == SESSION_OWNED));
        CHECK(sessions_held(r->table) <= KEYS);
    }
}

static void step(void)
{
    struct router *r = &routers[below((unsigned)router_count)];

    now.us += (int64_t)below(calm ? 2000 : 200000);
    if (!calm)
        trouble(r);
    for (int i = 0; i < router_count; i++) {
        (void)sessions_run(routers[i].table, now);
        waits(&routers[i]);
        drain_ready(&routers[i]);
        take_effects(&routers[i]);
    }
    if (below(3) == 0)
        enter(r);
    for (int i = 0; i < (calm ? 64 : 8); i++)
        work_on(&routers[below((unsigned)router_count)]);
    for (int i = 0; i < 4; i++) {
        struct live *live = &r->lives[below(LIVES)];

        if (live->stage == LIVE_OUT && below(2))
            answer(live);
        else if (live->stage != LIVE_FREE && !calm && below(8) == 0)
            leave(live);
    }
    watch(r);
    for (int i = 0; i < router_count; i++) {
        drain_ready(&routers[i]);
        check_counts(&routers[i]);
    }
}

/* Everything comes to its end. */
static void settle(void)
{
    if (!bucket.up)
        bucket_up(false);
    for (int turn = 0; turn < 60; turn++) {
        now.us += 100000;
        for (int i = 0; i < router_count; i++) {
            struct router *r = &routers[i];

            if (!r->watching)
                begin_watch(r, false);
            (void)sessions_run(r->table, now);
            waits(r);
            drain_ready(r);
            for (int n = 0; n < LIVES; n++)
                if (r->lives[n].stage == LIVE_OUT)
                    answer(&r->lives[n]);
            take_effects(r);
            for (int n = 0; n < OPS; n++)
                if (r->ops[n].stage != OP_FREE)
                    finish(r, &r->ops[n], false);
            for (int n = 0; n < 100; n++)
                watch(r);
            drain_ready(r);
        }
        if (turn > 40) /* by then no request is left: nobody began one */
            for (int i = 0; i < router_count; i++)
                for (int n = 0; n < LIVES; n++)
                    CHECK(routers[i].lives[n].stage == LIVE_FREE);
    }
    for (int i = 0; i < router_count; i++) {
        for (int key = 0; key < KEYS; key++) {
            const struct value *held = &bucket.keys[key];
            struct session_view v;

            CHECK(!calm || held->hold != SESSION_HOLDS_INIT);
            if (!sessions_find(routers[i].table, span_str(keys[key]), &v, now))
                continue;
            CHECK(v.state == SESSION_BOUND);
            CHECK(held->hold == SESSION_HOLDS_BOUND && worker_of(v.worker) == held->worker);
            CHECK(v.revision == held->revision);
        }
    }
}

static void round_of(uint64_t steps)
{
    calm = below(3) == 0;
    router_count = 1 + (int)below(ROUTERS);
    memset(&bucket, 0, sizeof bucket);
    memset(broken, 0, sizeof broken);
    for (int key = 0; key < KEYS; key++)
        calm_worker[key] = -1;
    bucket.up = true;
    for (int i = 0; i < router_count; i++)
        start(&routers[i], true);
    for (uint64_t i = 0; i < steps; i++)
        step();
    settle();
    for (int i = 0; i < router_count; i++) {
        overtakes += sessions_count(routers[i].table, SESSION_COUNT_LOST);
        end(&routers[i]);
    }
}

int main(int argc, char **argv)
{
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000, done = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    while (done < events) {
        rng_seed(&rng, seed + done);
        now = (mono){1000000000};
        round_of(200);
        done += 200;
    }
    printf("session model: %llu events, %llu answers, %llu hits, %llu owners overtaken, %llu waits "
           "over\n",
           (unsigned long long)done, (unsigned long long)answers, (unsigned long long)hits,
           (unsigned long long)overtakes, (unsigned long long)waits_over);
    CHECK(answers > events / 100 && hits > events / 200 && overtakes > 0 && waits_over > 0);
    return 0;
}
