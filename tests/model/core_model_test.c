/* Random events against a naive model of core: heartbeats of every kind, silence, link trouble,
 * ejections, requests with and without target, workers that vanish between choice and send,
 * answers, failures, ends, waiting in the queue with and without a limit. The model keeps for each
 * id what heartbeats alone say, and for each request whom it was sent to; after each event all
 * counts are made anew by counting, and compared, and nobody waits whom a free worker may serve, or
 * whom nobody can serve any more.
 *
 * Usage: core_model_test [EVENTS [SEED]]; without arguments 200,000 events over all policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "core/request.h"

#define IDS 12
#define LIVE 48

struct shadow { /* what is true of an id by its heartbeats and messages alone */
    bool known;
    int64_t epoch;
    enum worker_state state;
    uint32_t interval_ms;
    int64_t dead_at; /* us */
};

struct live {
    struct request rq;
    bool used;
    bool granted; /* it came from the queue, and has not failed since */
    unsigned sends;
    char key[4], target[8];
    uint64_t order; /* of its first waiting; 0: none */
    mono wait_over;
    char sent_to[WB_NAME_MAX + 1];
    enum recall how; /* what a retry of the client asks for */
    char recalled[16];
    int32_t recalled_rank;
};

static struct rng rng;
static struct registry *registry;
static struct pool *pool;
static struct shadow shadows[IDS];
static struct live lives[LIVE];
static mono now;
static bool link_up;
static uint64_t answered, fallbacks, lost, exhausted, avoided, avoided_used, preferred;
static uint64_t orders, grants, again, overtimes, hopeless;
static bool giving_turns;
static uint32_t queue_limit;
static unsigned ids; /* of IDS, in use: where there are few, more often nobody is left */

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

static void check_tried(const struct live *live)
{
    const struct request *rq = &live->rq;

    for (unsigned i = 0; i < rq->tried_count; i++) {
        const struct worker *tried = rq->tried[i];

        /* Twice only after its refusal, and only from the queue. */
        for (unsigned j = 0; j < i; j++)
            CHECK(strcmp(tried->id, rq->tried[j]->id) != 0 ||
                  (rq->tried_causes[j] == CAUSE_REFUSED && live->order > 0));
        if (rq->charge.worker != NULL && strcmp(tried->id, rq->charge.worker->id) == 0)
            CHECK(rq->tried_causes[i] == CAUSE_REFUSED && live->granted);
    }
}

static bool naive_tried(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        if (strcmp(rq->tried[i]->id, w->id) == 0)
            return true;
    return false;
}

struct others {
    const struct request *rq;
    unsigned untried; /* routable, and neither tried nor the recalled one */
};

static bool naive_routable(const struct worker *w);

static void count_other(void *arg, struct worker *w)
{
    struct others *others = arg;

    if (naive_routable(w) && !naive_tried(others->rq, w) &&
        !span_eq_str(others->rq->recalled, w->id))
        others->untried++;
}

/* NULL: nobody is, or there is no other one. */
static const struct worker *avoided_by(const struct request *rq)
{
    const struct worker *w = rq->recall == RECALL_AVOID ? pool_find(pool, rq->recalled) : NULL;
    struct others others = {rq, 0};

    pool_each(pool, count_other, &others);
    return w != NULL && !naive_tried(rq, w) && others.untried > 0 ? w : NULL;
}

/* ---- the queue, naively ---- */

static bool excludes(const struct request *rq, const struct worker *w)
{
    for (unsigned i = 0; i < rq->tried_count; i++)
        if (rq->tried_causes[i] != CAUSE_REFUSED && strcmp(rq->tried[i]->id, w->id) == 0)
            return true;
    return false;
}

struct look {
    const struct request *rq, *instead;
    bool usable, hope, only_rq; /* only_rq: some free one serves rq, and not `instead` */
    uint32_t healthy;
    const struct worker *resort;
    const struct worker *avoids; /* while there is another one untried */
};

static bool admits(const struct worker *w)
{
    return w->discovered && (w->state == WORKER_READY || w->state == WORKER_BUSY);
}

static bool roomy(const struct worker *w)
{
    return w->state == WORKER_READY && w->overloaded_until.us <= now.us && w->bytes_out <= 4096 &&
           (w->capacity == 0 || w->occupancy + w->others < w->capacity);
}

static void look_for_health(void *arg, struct worker *w)
{
    struct look *look = arg;

    if (admits(w) && w->health == WORKER_HEALTHY)
        look->healthy++;
    else if (admits(w) &&
             (look->resort == NULL || mono_before(w->ejected_until, look->resort->ejected_until)))
        look->resort = w;
}

static void look_at(void *arg, struct worker *w)
{
    struct look *look = arg;

    if (!admits(w))
        return;
    if (look->rq->target.len > 0) {
        if (!span_eq_str(look->rq->target, w->id))
            return;
    } else if (excludes(look->rq, w) ||
               (w->health == WORKER_EJECTED && (look->healthy > 0 || w != look->resort))) {
        return;
    }
    look->hope = true;
    if (look->avoids != NULL && w == look->avoids)
        return;
    look->usable = look->usable || roomy(w);
    if (roomy(w) && look->instead != NULL &&
        (excludes(look->instead, w) || w == avoided_by(look->instead)))
        look->only_rq = true;
}

static struct look look_around(const struct request *rq, const struct request *instead)
{
    struct look look = {.rq = rq, .instead = instead};

    pool_each(pool, look_for_health, &look);
    look.avoids = avoided_by(rq);
    pool_each(pool, look_at, &look);
    return look;
}

/* Its turn has come: a worker is there for it, and no earlier one of its priority and field was
 * left behind that could use the same worker. */
static void check_turn(const struct live *live)
{
    struct look look = look_around(&live->rq, NULL);

    CHECK(live->used && live->rq.state == REQUEST_GRANTED && live->order > 0);
    CHECK(look.usable || !look.hope);
    hopeless += !look.hope;
    for (unsigned i = 0; i < LIVE && look.hope; i++) {
        const struct live *other = &lives[i];

        if (!other->used || other->rq.state != REQUEST_QUEUED || other->order > live->order ||
            other->rq.priority != live->rq.priority || !span_eq(other->rq.target, live->rq.target))
            continue;
        CHECK(live->rq.target.len == 0 && look_around(&live->rq, &other->rq).only_rq);
    }
}

static void check_queue(void)
{
    uint32_t waiting = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        struct look look;

        if (!lives[i].used || lives[i].rq.state != REQUEST_QUEUED)
            continue;
        waiting++;
        look = look_around(&lives[i].rq, NULL);
        CHECK(!look.usable && look.hope);
        CHECK(mono_before(now, lives[i].wait_over));
    }
    CHECK(waiting == pool_waiting(pool));
}

static void follow(struct live *live, struct next next);

static void give_turns(void)
{
    struct request *rq;

    if (giving_turns)
        return;
    giving_turns = true;
    while ((rq = queue_next(registry, now)) != NULL) {
        struct live *live = CONTAINER_OF(rq, struct live, rq);

        check_turn(live);
        live->granted = true;
        grants++;
        follow(live, request_choose(rq, NULL, (mono){0}, now));
    }
    CHECK(!queue_due(registry));
    giving_turns = false;
}

static void end_waits(void)
{
    for (unsigned i = 0; i < LIVE; i++) {
        struct live *live = &lives[i];

        if (live->used && live->rq.state == REQUEST_QUEUED && !mono_before(now, live->wait_over)) {
            overtimes++;
            follow(live, request_wait_over(&live->rq, now));
        }
    }
}

/* Who was avoided is chosen only where there is no other; who was preferred is passed over only
 * where it is not free or was tried. `moved`: chosen anew before the send, by the policy alone. */
static void check_recall(const struct live *live, bool moved)
{
    const struct request *rq = &live->rq;
    const struct worker *named = live->how ? pool_find(pool, span_str(live->recalled)) : NULL;
    bool is_named = live->how && strcmp(rq->charge.worker->id, live->recalled) == 0;
    struct others others = {rq, 0};

    if (rq->target.len && !rq->recall) {
        CHECK(rq->reason == REASON_TARGET);
        return;
    }
    CHECK(rq->reason != REASON_TARGET && (enum recall)rq->recall == live->how);
    CHECK(rq->reason != REASON_AVOID || (live->how == RECALL_AVOID && !is_named));
    CHECK(rq->reason != REASON_PREFER || (live->how == RECALL_PREFER && is_named));
    CHECK(rq->rank == -1 ||
          (live->how == RECALL_PREFER && is_named && !moved && rq->rank == live->recalled_rank &&
           (uint32_t)rq->rank < rq->charge.worker->ranks));
    if (live->how == RECALL_AVOID && is_named) {
        pool_each(pool, count_other, &others);
        CHECK(others.untried == 0);
        avoided_used++;
    } else if (live->how == RECALL_AVOID && rq->reason == REASON_AVOID) {
        avoided++;
    } else if (live->how == RECALL_PREFER && named && !is_named && !moved) {
        CHECK(naive_tried(rq, named) || !naive_routable(named) ||
              worker_standing(named, now) != STANDING_FREE);
    }
    if (rq->reason == REASON_PREFER)
        preferred++;
}

static void heartbeat(unsigned number, enum worker_state state, int64_t epoch);

static void follow(struct live *live, struct next next)
{
    struct request *rq = &live->rq;

    for (;;) {
        check_tried(live);
        switch (next.kind) {
        case NEXT_REBIND: /* only a pin asks for it */
            CHECK(false);
            return;
        case NEXT_CHOSEN: {
            struct worker *first = rq->charge.worker;
            char before[WB_NAME_MAX + 1];
            bool vanish = below(8) == 0;

            for (unsigned i = 0; i < rq->tried_count; i++)
                again += strcmp(rq->tried[i]->id, first->id) == 0;
            CHECK(first->state == WORKER_READY && first->discovered);
            CHECK(first->capacity == 0 || worker_load_count(first) <= first->capacity);
            CHECK(rq->recall || rq->target.len == 0 || span_eq_str(rq->target, first->id));
            check_recall(live, false);
            strcpy(before, first->id);
            if (vanish)
                heartbeat((unsigned)atoi(before + 1), WORKER_LEAVING, first->epoch);
            next = request_resolve(rq, now);
            if (vanish && next.kind == NEXT_SEND) {
                CHECK(strcmp(rq->charge.worker->id, before) != 0);
                CHECK(rq->rank == -1 && rq->reason == REASON_FALLBACK);
                CHECK(rq->recall || !rq->target.len);
                check_recall(live, true);
                CHECK(rq->tried_causes[rq->tried_count - 1] == CAUSE_GONE);
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
            request_sent(rq, below(5) ? 100 : 3000, now);
            CHECK(rq->attempt == live->sends && live->sends <= 3);
            return;
        case NEXT_PAUSE:
            CHECK(rq->state == REQUEST_PAUSED && next.at.us <= now.us + 1000000);
            if (next.at.us > now.us)
                return; /* an event picks it up */
            give_turns();
            next = request_choose(rq, NULL, (mono){0}, now);
            continue;
        case NEXT_WAIT:
            CHECK(rq->state == REQUEST_WAITING);
            return;
        case NEXT_QUEUE:
            CHECK(rq->state == REQUEST_QUEUED && rq->charge.worker == NULL);
            CHECK(pool_waiting(pool) <= (queue_limit > 0 ? queue_limit : QUEUE_BOUND_MAX));
            CHECK(queue_limit > 0 || rq->bound);
            if (live->order == 0)
                live->order = ++orders;
            live->wait_over = next.at;
            return;
        case NEXT_FAIL:
            CHECK(rq->state == REQUEST_FAILED && rq->charge.worker == NULL);
            CHECK(next.error >= WB_BAD_REQUEST);
            CHECK((next.scope != NULL) == (next.error == WB_OVERLOADED));
            CHECK(next.error != WB_OVERLOADED ||
                  (next.retry_after_ms > 0 && next.retry_after_ms <= 60000));
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
    if (live->rq.state == REQUEST_OUT)
        live->granted = false;
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
    report.counts_ours = below(2);
    report.ranks = number % 3;
    report.class_name = number % 2 ? SPAN_LIT("cpu") : SPAN_LIT("gpu");
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
        *shadow = (struct shadow){true, epoch, state, report.interval_ms,
                                  now.us + (int64_t)report.interval_ms * 3000};
    }
    result = pool_report(pool, &report, now);
    CHECK(result == expected);
}

struct tally {
    uint32_t known, routable, free, healthy;
    const struct worker *resort;
};

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

static void count_healthy(void *arg, struct worker *w)
{
    struct tally *tally = arg;

    if (w->state != WORKER_READY && w->state != WORKER_BUSY)
        return;
    if (w->health == WORKER_HEALTHY)
        tally->healthy++;
    else if (tally->resort == NULL || mono_before(w->ejected_until, tally->resort->ejected_until))
        tally->resort = w;
}

static bool naive_routable(const struct worker *w)
{
    struct tally tally = {0};

    if (w->state != WORKER_READY && w->state != WORKER_BUSY)
        return false;
    pool_each(pool, count_healthy, &tally);
    return tally.healthy > 0 ? w->health == WORKER_HEALTHY : w == tally.resort;
}

static void tally_worker(void *arg, struct worker *w)
{
    struct tally *tally = arg;
    const struct shadow *shadow = shadow_of(w);

    CHECK(shadow->known && w->discovered && shadow->epoch == w->epoch && shadow->state == w->state);
    CHECK(w->occupancy == naive_occupancy(w));
    tally->known++;
    count_healthy(tally, w);
}

static void tally_free(void *arg, struct worker *w)
{
    struct tally *tally = arg;
    bool admits = w->state == WORKER_READY || w->state == WORKER_BUSY;
    uint64_t bytes = 0;

    if (!admits || (w->health == WORKER_EJECTED && tally->healthy > 0))
        return;
    if (w->health == WORKER_EJECTED && w != tally->resort)
        return; /* moments of ejection differ: the model advances time before each */
    for (unsigned i = 0; i < LIVE; i++)
        if (lives[i].used && lives[i].rq.charge.worker == w && !lives[i].rq.charge.ended)
            bytes += lives[i].rq.charge.bytes;
    CHECK(bytes == w->bytes_out);
    tally->routable++;
    if (w->state == WORKER_READY && w->overloaded_until.us <= now.us && bytes <= 4096 &&
        (w->capacity == 0 || w->occupancy + w->others < w->capacity))
        tally->free++;
}

static void compare(void)
{
    struct tally tally = {0};
    uint32_t known = 0;

    for (unsigned i = 0; i < IDS; i++)
        known += shadows[i].known;
    pool_each(pool, tally_worker, &tally);
    pool_each(pool, tally_free, &tally);
    CHECK(tally.known == known && pool_discovered(pool) == known);
    CHECK(pool_routable(pool) == tally.routable);
    CHECK(pool_free(pool) == tally.free);
}

static void start_request(void)
{
    struct request_params params = {.target_rank = -1};
    struct live *live = NULL;

    for (unsigned i = 0; i < LIVE && live == NULL; i++)
        if (!lives[i].used)
            live = &lives[i];
    if (live == NULL)
        return;
    memset(live, 0, sizeof(*live));
    if (below(5) == 0)
        snprintf(live->target, sizeof(live->target), "w%u", below(ids));
    if (below(20) == 0)
        params.target_rank = (int32_t)below(3);
    params.target = span_str(live->target);
    params.idempotent = below(2);
    params.one_way = below(10) == 0;
    params.priority = (enum priority)((int)below(3) - 1);
    live->used = true;
    snprintf(live->key, sizeof(live->key), "%u", below(100));
    params.key = span_str(live->key);
    request_init(&live->rq, pool, &params, now);
    if (below(3) == 0) {
        enum recall how = below(2) ? RECALL_AVOID : RECALL_PREFER;

        live->how = live->target[0] ? RECALL_NONE : how; /* a target wins */
        live->recalled_rank = (int32_t)below(3) - 1;
        snprintf(live->recalled, sizeof(live->recalled), "w%u", below(ids));
        request_recall(&live->rq, how, span_str(live->recalled), live->recalled_rank);
    }
    live->rq.bound = live->target[0] != '\0' && below(2);
    pool_note_request(pool, now);
    if (below(4) == 0) {
        struct advice advice = request_advise(&live->rq, NULL, now);
        struct next next;

        CHECK((advice.worker == NULL) == (advice.error != WB_OK));
        next = request_choose(&live->rq, NULL, (mono){0}, now);
        CHECK((next.kind == NEXT_CHOSEN) == (advice.worker != NULL));
        CHECK(next.kind != NEXT_CHOSEN || advice.worker == live->rq.charge.worker);
        CHECK(next.kind != NEXT_FAIL || next.error == advice.error);
        CHECK(next.kind != NEXT_CHOSEN || live->rq.rank == advice.rank);
        follow(live, next);
        return;
    }
    follow(live, request_choose(&live->rq, NULL, (mono){0}, now));
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
            live->granted = false;
            follow(live, request_failed(rq, cause, below(2) ? 0 : below(3000), now));
        }
        break;
    case REQUEST_SERVED:
        CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
        if (below(2) == 0)
            finish(live);
        break;
    case REQUEST_QUEUED:
        if (below(10) == 0)
            finish(live); /* cancelled */
        break;
    case REQUEST_PAUSED:
        follow(live, request_choose(rq, NULL, (mono){0}, now));
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
    unsigned kind = below(100), number = below(ids);
    struct live *live = &lives[below(LIVE)];

    pass_time(1);
    give_turns();
    end_waits();
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
    give_turns();
    end_waits();
}

static void run(enum policy_kind policy, unsigned long events, unsigned part, uint64_t seed)
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
                                     .queue_limit = part * part * 4,
                                     .queue_wait_ms = 100};

    queue_limit = pool_opts.queue_limit;

    rng_seed(&rng, seed);
    ids = part % 2 ? IDS : 2 + part / 2;
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
        check_queue();
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (lives[i].used)
            finish(&lives[i]);
    compare();
    CHECK(pool_waiting(pool) == 0);
    registry_destroy(registry);
}

int main(int argc, char **argv)
{
    unsigned long events = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (int policy = 0; policy < POLICY_COUNT; policy++)
        for (unsigned part = 0; part < 4; part++)
            run((enum policy_kind)policy, events / POLICY_COUNT / 4, part, seed * 100 + part);
    printf(
        "answered %llu, fallbacks %llu, lost %llu, without an answer %llu, avoided %llu (used all "
        "the same %llu), preferred %llu\n",
        (unsigned long long)answered, (unsigned long long)fallbacks, (unsigned long long)lost,
        (unsigned long long)exhausted, (unsigned long long)avoided,
        (unsigned long long)avoided_used, (unsigned long long)preferred);
    printf("granted %llu, to one that had refused %llu, waited in vain %llu, hopeless %llu\n",
           (unsigned long long)grants, (unsigned long long)again, (unsigned long long)overtimes,
           (unsigned long long)hopeless);
    return answered > 0 && fallbacks > 0 && lost > 0 && exhausted > 0 && avoided > 0 &&
                   avoided_used > 0 && preferred > 0 && grants > 0 && again > 0 && overtimes > 0 &&
                   hopeless > 0
               ? 0
               : 1;
}
