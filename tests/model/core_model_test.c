/* Random events against a naive model of core: heartbeats of every kind, silence, link trouble,
 * ejections, requests with and without target, workers that vanish between choice and send,
 * answers, failures, ends, with and without an adapter. The model keeps for each id what heartbeats
 * alone say, and for each request whom it was sent to; after each event all counts are made anew by
 * counting, and compared.
 *
 * Usage: core_model_test [EVENTS [SEED]]; without arguments 200,000 events over all policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "core/adapter.h"
#include "core/request.h"

#define IDS 12
#define LIVE 48
#define ADAPTERS 3
#define LOAD_SEED UINT64_C(0x61646170746572) /* all routers agree on it */

struct shadow { /* what is true of an id by its heartbeats and messages alone */
    bool known;
    int64_t epoch;
    enum worker_state state;
    uint32_t interval_ms;
    int64_t dead_at; /* us */
    unsigned adapters, slots;
};

struct live {
    struct request rq;
    bool used;
    unsigned sends;
    int adapter; /* -1: none */
    char key[4];
    char sent_to[WB_NAME_MAX + 1];
};

static struct rng rng;
static struct registry *registry;
static struct pool *pool;
static struct shadow shadows[IDS];
static struct live lives[LIVE];
static mono now;
static bool link_up, loading_on;
static uint64_t answered, fallbacks, lost, exhausted, held, loaded;
static const char *const adapter_names[ADAPTERS] = {"a0", "a1", "a2"};

static unsigned below(unsigned n)
{
    return (unsigned)rng_below(&rng, n);
}

static struct live *live_of(const struct charge *charge)
{
    return CONTAINER_OF((struct charge *)(uintptr_t)charge, struct live, rq.charge);
}

static struct shadow *shadow_of(const struct worker *w)
{
    return &shadows[atoi(w->id + 1)];
}

static void life_sign(const struct live *live)
{
    struct shadow *shadow = shadow_of(live->rq.charge.worker);

    if (!live->rq.charge.ended && shadow->known)
        shadow->dead_at = now.us + (int64_t)shadow->interval_ms * 3000;
}

static void finish(struct live *live)
{
    request_end(&live->rq, now);
    CHECK(live->rq.charge.worker == NULL && live->rq.state == REQUEST_ENDED);
    request_end(&live->rq, now);
    live->used = false;
}

static void check_tried(const struct request *rq)
{
    for (unsigned i = 0; i < rq->tried_count; i++) {
        for (unsigned j = 0; j < i; j++)
            CHECK(strcmp(rq->tried[i].worker->id, rq->tried[j].worker->id) != 0);
        if (rq->charge.worker != NULL)
            CHECK(strcmp(rq->tried[i].worker->id, rq->charge.worker->id) != 0);
    }
}

static void heartbeat(unsigned number, enum worker_state state, int64_t epoch);

struct tally {
    uint32_t known, routable, free, healthy;
    const struct worker *resort;
    int adapter; /* of the holders below; -1: none */
    uint32_t holders, routable_holders, free_holders;
    const struct request *rq; /* whose tried are left out of the contest */
    struct worker *best;      /* to load it */
    uint64_t score;
};

static bool admits(const struct worker *w)
{
    return w->state == WORKER_READY || w->state == WORKER_BUSY;
}

static void tally_healthy(void *arg, struct worker *w)
{
    struct tally *tally = arg;

    if (!admits(w))
        return;
    if (w->health == WORKER_HEALTHY)
        tally->healthy++;
    else if (tally->resort == NULL || mono_before(w->ejected_until, tally->resort->ejected_until))
        tally->resort = w; /* moments of ejection differ: the model advances time before each */
}

static bool is_routable(const struct tally *tally, const struct worker *w)
{
    return admits(w) &&
           (w->health == WORKER_HEALTHY || (tally->healthy == 0 && w == tally->resort));
}

static bool is_free(const struct worker *w)
{
    return w->state == WORKER_READY && w->overloaded_until.us <= now.us && w->bytes_out <= 4096 &&
           (w->capacity == 0 || w->occupancy + w->others < w->capacity);
}

/* Adapters that requests in flight on it make it load, as a mask. */
static unsigned loads_on(const struct worker *w)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        const struct request *rq = &lives[i].rq;

        if (lives[i].used && lives[i].adapter >= 0 && rq->charge.worker == w && !rq->charge.ended)
            mask |= 1U << lives[i].adapter;
    }
    return mask & ~shadow_of(w)->adapters;
}

static unsigned bits(unsigned mask)
{
    unsigned n = 0;

    for (; mask != 0; mask &= mask - 1)
        n++;
    return n;
}

static bool was_tried(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; rq != NULL && i < rq->tried_count; i++)
        if (strcmp(rq->tried[i].worker->id, w->id) == 0)
            return true;
    return false;
}

static bool may_load(const struct worker *w, int adapter)
{
    const struct shadow *shadow = shadow_of(w);
    unsigned loads = loads_on(w);

    return loading_on &&
           ((loads >> adapter & 1) || shadow->slots > bits(shadow->adapters) + bits(loads));
}

static void tally_adapter(void *arg, struct worker *w)
{
    struct tally *tally = arg;
    const char *name = adapter_names[tally->adapter];
    bool holds = shadow_of(w)->adapters >> tally->adapter & 1;
    uint64_t score;

    CHECK(worker_holds(w, span_str(name)) == holds);
    CHECK(worker_may_serve(w, span_str(name)) == (holds || may_load(w, tally->adapter)));
    tally->holders += holds;
    if (!is_routable(tally, w))
        return;
    tally->routable_holders += holds;
    tally->free_holders += holds && is_free(w);
    if (!may_load(w, tally->adapter) || was_tried(tally->rq, w))
        return;
    score = rng_hash(w->id, strlen(w->id), rng_hash(name, strlen(name), LOAD_SEED));
    if (tally->best == NULL || score > tally->score) {
        tally->best = w;
        tally->score = score;
    }
}

static struct tally tally_of(int adapter, const struct request *rq)
{
    struct tally tally = {.adapter = adapter, .rq = rq};

    pool_each(pool, tally_healthy, &tally);
    if (adapter >= 0)
        pool_each(pool, tally_adapter, &tally);
    return tally;
}

/* Who holds it serves it; only if no routable worker does, the one whom all routers pick. */
static struct next choose(struct live *live)
{
    struct request *rq = &live->rq;
    struct tally tally = tally_of(live->adapter, rq);
    bool known_before = tally.holders > 0, target = rq->target[0] != '\0';
    struct next next = request_choose(rq, (mono){0}, now);
    const struct worker *w = rq->charge.worker;

    if (live->adapter < 0 || rq->malformed || next.error == WB_BAD_REQUEST)
        return next;
    if (w != NULL && (shadow_of(w)->adapters >> live->adapter & 1)) {
        CHECK(rq->reason != REASON_ADAPTER_LOAD && (target || tally.free_holders > 0));
        held++;
    } else if (w != NULL) {
        CHECK(rq->reason == REASON_ADAPTER_LOAD && loading_on);
        CHECK(target || (tally.routable_holders == 0 && w == tally.best));
        loaded++;
    } else if (!target && rq->tried_count == 0) {
        bool somebody = tally.routable_holders > 0 || tally.best != NULL;

        CHECK(next.error == (somebody       ? WB_OVERLOADED
                             : known_before ? WB_NO_WORKER
                                            : WB_UNKNOWN_ADAPTER));
        CHECK(!somebody || strcmp(next.scope, "adapter") == 0);
        CHECK(tally.routable_holders > 0 ? tally.free_holders == 0
                                         : tally.best == NULL || !is_free(tally.best));
    }
    return next;
}

static void follow(struct live *live, struct next next)
{
    struct request *rq = &live->rq;

    for (;;) {
        check_tried(rq);
        switch (next.kind) {
        case NEXT_CHOSEN: {
            struct worker *first = rq->charge.worker;
            char before[WB_NAME_MAX + 1];
            bool vanish = below(8) == 0;

            CHECK(first->state == WORKER_READY && first->discovered);
            CHECK(first->capacity == 0 || worker_load_count(first) <= first->capacity);
            CHECK(rq->target[0] == '\0' || strcmp(rq->target, first->id) == 0);
            strcpy(before, first->id);
            if (vanish)
                heartbeat((unsigned)atoi(before + 1), WORKER_LEAVING, first->epoch);
            next = request_resolve(rq, now);
            if (vanish && next.kind == NEXT_SEND) {
                CHECK(strcmp(rq->charge.worker->id, before) != 0);
                CHECK(rq->rank == -1 && !rq->target[0]);
                CHECK(rq->reason == REASON_FALLBACK ||
                      (rq->reason == REASON_ADAPTER_LOAD && live->adapter >= 0 && loading_on));
                CHECK(rq->tried[rq->tried_count - 1].cause == CAUSE_GONE);
                fallbacks++;
            }
            continue;
        }
        case NEXT_SEND:
            if (below(50) == 0) {
                request_unsendable(rq, now);
                finish(live);
                return;
            }
            live->sends++;
            strcpy(live->sent_to, rq->charge.worker->id);
            CHECK(live->adapter < 0 || rq->reason == REASON_ADAPTER_LOAD ||
                  (shadow_of(rq->charge.worker)->adapters >> live->adapter & 1));
            request_sent(rq, below(5) ? 100 : 3000, now);
            CHECK(rq->attempt == live->sends && live->sends <= 3);
            return;
        case NEXT_PAUSE:
            CHECK(rq->state == REQUEST_PAUSED && next.at.us <= now.us + 1000000);
            if (next.at.us > now.us)
                return; /* an event picks it up */
            next = choose(live);
            continue;
        case NEXT_WAIT:
            CHECK(rq->state == REQUEST_WAITING);
            return;
        case NEXT_FAIL:
            CHECK(rq->state == REQUEST_FAILED && rq->charge.worker == NULL);
            CHECK(next.error >= WB_BAD_REQUEST);
            CHECK((next.scope != NULL) == (next.error == WB_OVERLOADED));
            CHECK(next.error != WB_OVERLOADED || next.retry_after_ms > 0);
            exhausted++;
            finish(live);
            return;
        }
    }
}

static void attempt_lost(void *arg, struct charge *charge, mono when)
{
    struct live *live = live_of(charge);

    (void)arg;
    CHECK(live->used && when.us == now.us);
    lost++;
    if (live->rq.state == REQUEST_SERVED)
        finish(live);
    else if (live->rq.state == REQUEST_OUT)
        follow(live, request_failed(&live->rq, CAUSE_LOST, 0, now));
    /* CHOSEN: resolve will see that it is gone. */
}

static bool attempt_begun(void *arg, const struct charge *charge)
{
    (void)arg;
    return live_of(charge)->rq.state == REQUEST_SERVED;
}

static void heartbeat(unsigned number, enum worker_state state, int64_t epoch)
{
    struct shadow *shadow = &shadows[number];
    char id[16], subject[32];
    struct worker_report report = {.epoch = epoch, .state = state};
    enum report_result result, expected;
    struct span adapters[ADAPTERS];
    unsigned mask = below(3) ? shadow->adapters : below(1U << ADAPTERS) & below(1U << ADAPTERS);

    snprintf(id, sizeof(id), "w%u", number);
    snprintf(subject, sizeof(subject), "s.%s", id);
    report.id = span_str(id);
    report.subject = span_str(subject);
    report.interval_ms = 100 + 100 * (number % 3);
    report.capacity = below(4);
    report.weight = 1 + below(300);
    report.inflight = below(4);
    report.has_others = below(2);
    report.others = below(2);
    report.ranks = number % 3;
    report.class_name = number % 2 ? SPAN_LIT("cpu") : SPAN_LIT("gpu");
    report.adapter_slots = number % 4 ? below(4) : 0;
    report.has_adapters = below(3) > 0;
    report.adapters = adapters;
    for (unsigned i = 0; i < ADAPTERS && report.has_adapters; i++)
        if (mask >> i & 1)
            adapters[report.adapter_count++] = span_str(adapter_names[i]);
    if (shadow->known && epoch < shadow->epoch)
        expected = REPORT_STALE_EPOCH;
    else if (state == WORKER_LEAVING)
        expected = REPORT_LEFT;
    else if (!shadow->known)
        expected = REPORT_NEW;
    else
        expected = epoch > shadow->epoch ? REPORT_NEW_EPOCH : REPORT_UPDATED;
    if (expected == REPORT_LEFT) {
        shadow->known = false;
    } else if (expected != REPORT_STALE_EPOCH) {
        if (!report.has_adapters)
            mask = expected == REPORT_UPDATED ? shadow->adapters : 0;
        *shadow = (struct shadow){true,
                                  epoch,
                                  state,
                                  report.interval_ms,
                                  now.us + (int64_t)report.interval_ms * 3000,
                                  mask,
                                  report.adapter_slots};
    }
    result = pool_report(pool, &report, now);
    CHECK(result == expected);
}

static uint32_t naive_occupancy(const struct worker *w)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        const struct request *rq = &lives[i].rq;

        if (lives[i].used && rq->charge.worker == w && !rq->charge.ended)
            n++;
    }
    return n;
}

static void tally_worker(void *arg, struct worker *w)
{
    struct tally *tally = arg;
    const struct shadow *shadow = shadow_of(w);

    CHECK(shadow->known && w->discovered && shadow->epoch == w->epoch && shadow->state == w->state);
    CHECK(w->occupancy == naive_occupancy(w));
    tally->known++;
}

static void tally_free(void *arg, struct worker *w)
{
    struct tally *tally = arg;
    uint64_t bytes = 0;

    if (!is_routable(tally, w))
        return;
    for (unsigned i = 0; i < LIVE; i++)
        if (lives[i].used && lives[i].rq.charge.worker == w && !lives[i].rq.charge.ended)
            bytes += lives[i].rq.charge.bytes;
    CHECK(bytes == w->bytes_out);
    tally->routable++;
    tally->free += is_free(w);
}

static bool compare_adapter(void *arg, const struct adapter_numbers *numbers)
{
    int adapter = numbers->name.ptr[1] - '0';
    struct tally tally = tally_of(adapter, NULL);
    struct adapter_standing standing = adapter_standing(numbers->adapter);
    unsigned in_flight = 0;

    for (unsigned i = 0; i < LIVE; i++)
        in_flight += lives[i].used && lives[i].adapter == adapter &&
                     lives[i].rq.charge.worker != NULL && !lives[i].rq.charge.ended;
    CHECK(numbers->in_flight == in_flight);
    CHECK(numbers->holders == tally.holders);
    CHECK(standing.routable == tally.routable_holders && standing.free == tally.free_holders);
    CHECK(numbers->arrivals <= numbers->requests);
    *(unsigned *)arg |= 1U << adapter;
    return true;
}

static void compare(void)
{
    struct tally tally = tally_of(-1, NULL);
    uint32_t known = 0;
    unsigned seen = 0;

    pool_each_adapter(pool, compare_adapter, &seen, now);
    for (unsigned i = 0; i < IDS; i++) {
        known += shadows[i].known;
        CHECK(!shadows[i].known || (shadows[i].adapters & ~seen) == 0);
    }
    pool_each(pool, tally_worker, &tally);
    pool_each(pool, tally_free, &tally);
    CHECK(tally.known == known && pool_discovered(pool) == known);
    CHECK(pool_routable(pool) == tally.routable);
    CHECK(pool_free(pool) == tally.free);
}

static void start_request(void)
{
    char target[16] = "";
    struct request_params params = {.target_rank = -1};
    struct live *live = NULL;

    for (unsigned i = 0; i < LIVE && live == NULL; i++)
        if (!lives[i].used)
            live = &lives[i];
    if (live == NULL)
        return;
    if (below(5) == 0)
        snprintf(target, sizeof(target), "w%u", below(IDS));
    if (below(20) == 0)
        params.target_rank = (int32_t)below(3);
    params.target = span_str(target);
    params.idempotent = below(2);
    params.one_way = below(10) == 0;
    memset(live, 0, sizeof(*live));
    live->used = true;
    snprintf(live->key, sizeof(live->key), "%u", below(100));
    params.key = span_str(live->key);
    live->adapter = below(3) ? -1 : (int)below(ADAPTERS);
    if (live->adapter >= 0)
        params.adapter = span_str(adapter_names[live->adapter]);
    request_init(&live->rq, pool, &params, now);
    pool_note_request(pool, now);
    if (below(4) == 0) {
        struct advice advice = request_advise(pool, &params, now);
        struct next next;

        CHECK((advice.worker == NULL) == (advice.error != WB_OK));
        next = choose(live);
        CHECK((next.kind == NEXT_CHOSEN) == (advice.worker != NULL));
        CHECK(next.kind != NEXT_CHOSEN || advice.worker == live->rq.charge.worker);
        CHECK(next.kind != NEXT_FAIL || next.error == advice.error);
        CHECK(next.kind != NEXT_CHOSEN || live->rq.rank == advice.rank);
        CHECK(next.kind != NEXT_CHOSEN || live->rq.reason == advice.reason);
        follow(live, next);
        return;
    }
    follow(live, choose(live));
}

static void request_event(struct live *live)
{
    static const enum cause causes[] = {CAUSE_NO_RESPONDERS, CAUSE_REFUSED, CAUSE_TIMEOUT,
                                        CAUSE_CANCELLED,     CAUSE_LINK,    CAUSE_REFUSED};
    enum cause cause = causes[below(6)];
    struct request *rq = &live->rq;

    switch (rq->state) {
    case REQUEST_OUT:
        if (below(4) == 0) {
            life_sign(live);
            request_progress(rq, now);
        } else if (below(2) == 0) {
            life_sign(live);
            CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
            request_answered(rq, now);
            CHECK(rq->attempt == live->sends);
            CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
            answered++;
        } else {
            if (cause == CAUSE_REFUSED)
                life_sign(live);
            follow(live, request_failed(rq, cause, below(2) ? 0 : below(3000), now));
        }
        break;
    case REQUEST_SERVED:
        CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
        if (below(2) == 0)
            finish(live);
        break;
    case REQUEST_PAUSED:
        follow(live, choose(live));
        break;
    default:
        finish(live);
        break;
    }
}

static void pass_time(unsigned us)
{
    mono next = registry_next(registry);

    now.us += us;
    if (link_up && mono_before(next, now) && !mono_is_never(next))
        now = next; /* a punctual loop */
    for (unsigned i = 0; i < IDS; i++) {
        if (shadows[i].known && shadows[i].dead_at <= now.us) {
            if (link_up)
                shadows[i].known = false;
            else
                shadows[i].dead_at = now.us + (int64_t)shadows[i].interval_ms * 3000;
        }
    }
    (void)registry_run(registry, now);
}

static void toggle_link(void)
{
    link_up = !link_up;
    registry_link(registry, link_up, now);
    for (unsigned i = 0; i < IDS && link_up; i++)
        if (shadows[i].known)
            shadows[i].dead_at = now.us + (int64_t)shadows[i].interval_ms * 3000;
}

static void event(void)
{
    unsigned kind = below(100), number = below(IDS);
    struct live *live = &lives[below(LIVE)];

    pass_time(1);
    if (kind < 22) {
        static const enum worker_state states[] = {WORKER_READY, WORKER_READY, WORKER_READY,
                                                   WORKER_READY, WORKER_BUSY,  WORKER_DRAINING};
        int64_t epoch = shadows[number].epoch;
        unsigned turn = below(30);

        heartbeat(number, turn == 1 ? WORKER_LEAVING : states[below(6)],
                  turn == 2   ? epoch + 1
                  : turn == 3 ? epoch - 1
                              : epoch);
    } else if (kind < 50) {
        start_request();
    } else if (kind < 85) {
        if (live->used)
            request_event(live);
    } else if (kind < 99) {
        pass_time(1 + below(20000));
    } else if (below(3) == 0) {
        toggle_link();
    }
}

static bool is_at_rest(void *arg, const struct adapter_numbers *numbers)
{
    (void)arg;
    CHECK(numbers->in_flight == 0);
    return true;
}

static void run(enum policy_kind policy, unsigned long events, uint64_t seed)
{
    struct registry_options options = {.max_workers = IDS,
                                       .worker_bytes = 4096,
                                       .seed = seed,
                                       .events = {attempt_lost, attempt_begun, NULL}};
    struct pool_options pool_opts = {.name = "model",
                                     .policy = policy,
                                     .ratio = 2,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = 20,
                                     .adapters_load = loading_on};

    rng_seed(&rng, seed);
    memset(shadows, 0, sizeof(shadows));
    now = (mono){1000000};
    link_up = true;
    registry = registry_create(&options);
    CHECK(registry != NULL);
    pool = registry_add_pool(registry, &pool_opts);
    CHECK(pool != NULL);
    for (unsigned long i = 0; i < events; i++) {
        event();
        compare();
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (lives[i].used)
            finish(&lives[i]);
    compare();
    pool_each_adapter(pool, is_at_rest, NULL, now);
    CHECK(pool_adapter_totals(pool).in_flight == 0);
    registry_destroy(registry);
}

int main(int argc, char **argv)
{
    unsigned long events = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (int policy = 0; policy < POLICY_COUNT; policy++)
        for (unsigned part = 0; part < 4; part++) {
            loading_on = part & 1;
            run((enum policy_kind)policy, events / POLICY_COUNT / 4, seed * 100 + part);
        }
    printf("answered %llu, fallbacks %llu, lost %llu, without an answer %llu; adapters: held %llu, "
           "loaded %llu\n",
           (unsigned long long)answered, (unsigned long long)fallbacks, (unsigned long long)lost,
           (unsigned long long)exhausted, (unsigned long long)held, (unsigned long long)loaded);
    return answered > 0 && fallbacks > 0 && lost > 0 && exhausted > 0 && held > 0 && loaded > 0 ? 0
                                                                                                : 1;
}
