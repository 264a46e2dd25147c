/* Random events against a naive model of core: heartbeats of every kind, silence, link trouble,
 * ejections, requests with and without target, adapter, priority and a record to heed, workers that
 * vanish between choice and send, answers, failures, ends, waiting in the queue with and without a
 * limit. The model keeps for each id what heartbeats alone say, and for each request whom it was
 * sent to; core_oracle.c says of each choice beforehand what must come of it. After each event all
 * counts are made anew by counting, and compared, and nobody waits whom a free worker may serve, or
 * whom nobody can serve any more.
 *
 * Usage: core_model_test [EVENTS [SEED]]; without arguments 200,000 events over all policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core_oracle.h"

static struct rng rng;
static bool link_up;
static uint64_t answered, fallbacks, lost, exhausted, avoided, avoided_used, preferred;
static uint64_t at_bound, spilled, rebound, conflicts, bound_served, bound_gone;
static uint64_t orders, grants, again, overtimes, hopeless, held, loaded, unheard;
static bool giving_turns;
static unsigned ids; /* of IDS, in use: where there are few, more often nobody is left */

static unsigned below(unsigned n)
{
    return (unsigned)rng_below(&rng, n);
}

static struct live *live_of(const struct charge *charge)
{
    return CONTAINER_OF((struct charge *)(uintptr_t)charge, struct live, rq.charge);
}

static void life_sign(const struct live *live)
{
    struct shadow *shadow = &model.shadows[number_of(live->rq.charge.worker)];

    if (!live->rq.charge.ended && shadow->known)
        shadow->dead_at = model.now.us + (int64_t)shadow->interval_ms * 3000;
}

static void finish(struct live *live)
{
    request_end(&live->rq, model.now);
    CHECK(live->rq.charge.worker == NULL && live->rq.state == REQUEST_ENDED);
    request_end(&live->rq, model.now);
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

/* ---- the queue ---- */

/* Its turn has come: a worker is there for it, or none is left; and no earlier one of its priority
 * and field was left behind that could use the same worker. */
static void check_turn(const struct live *live)
{
    struct facts f = facts_now();
    unsigned usable = may_be_given(&f, live);

    CHECK(live->used && live->rq.state == REQUEST_GRANTED && live->order > 0);
    if (live->waits_at != NULL) {
        CHECK(!waits_rightly_at(&f, live));
        usable = suits(&f, live) ? f.admitting & f.roomy & live->waits_for : 0;
    } else {
        CHECK(usable != 0 || may_hope_for(&f, live) == 0);
    }
    hopeless += usable == 0;
    bound_served += live->waits_at != NULL && live->target[0] == '\0' && usable != 0;
    bound_gone += live->waits_at != NULL && live->target[0] == '\0' && usable == 0;
    for (unsigned i = 0; i < LIVE && usable != 0; i++) {
        const struct live *other = &model.lives[i];

        if (!other->used || other->rq.state != REQUEST_QUEUED || other->order > live->order ||
            other->rq.priority != live->rq.priority || other->waits_at != live->waits_at)
            continue;
        CHECK(live->waits_at == NULL && (usable & ~may_be_given(&f, other)) != 0);
    }
}

/* Nobody waits whom a free worker may serve, or whom nobody can serve any more. */
static void check_queue(void)
{
    struct facts f = facts_now();
    uint32_t waiting = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        const struct live *live = &model.lives[i];

        if (!live->used || live->rq.state != REQUEST_QUEUED)
            continue;
        waiting++;
        CHECK(mono_before(model.now, live->wait_over));
        if (live->waits_at != NULL)
            CHECK(waits_rightly_at(&f, live));
        else
            CHECK(may_be_given(&f, live) == 0 && may_hope_for(&f, live) != 0 &&
                  !is_bound_free(&f, live));
    }
    CHECK(waiting == pool_waiting(model.pool));
}

/* ---- choosing ---- */

static void check_chosen(const struct live *live, const struct expected *expected)
{
    const struct request *rq = &live->rq;
    const struct worker *w = rq->charge.worker;
    unsigned number = number_of(w);

    CHECK(set_has(expected->workers, number) && rq->reason == expected->reason);
    if (expected->rank == RANK_ANY)
        CHECK(rq->rank >= 0 && rq->rank < (int32_t)w->ranks);
    else
        CHECK(rq->rank == expected->rank);
    avoided += rq->reason == REASON_AVOID;
    preferred += rq->reason == REASON_PREFER;
    avoided_used += live->how == RECALL_AVOID && strcmp(w->id, live->recalled) == 0;
    loaded += rq->reason == REASON_ADAPTER_LOAD;
    held += live->adapter >= 0 && rq->reason != REASON_ADAPTER_LOAD;
    for (unsigned i = 0; i < rq->tried_count; i++)
        again += strcmp(rq->tried[i]->id, w->id) == 0;
}

static void check_next(const struct next *next, const struct expected *expected)
{
    CHECK(next->kind == expected->kind);
    if (next->kind != NEXT_FAIL)
        return;
    CHECK(next->error == expected->error);
    CHECK((next->scope == NULL) == (expected->scope == NULL));
    CHECK(next->scope == NULL || strcmp(next->scope, expected->scope) == 0);
    conflicts += next->error == WB_SESSION_CONFLICT;
}

static bool has_pin(const struct live *live)
{
    return live->pin.mode == PIN_HARD || live->pin.mode == PIN_SOFT;
}

static void note_chosen(struct live *live, const struct expected *expected)
{
    live->at_bound = expected->at_bound;
    at_bound += live->at_bound;
    spilled += live->rq.reason == REASON_SPILL;
    if (live->pin.mode != PIN_OWNER || !live->rebinding)
        return;
    live->rebinding = false;
    live->rebound = true;
    rebound++;
}

/* What the request's session asks for from now on. */
static void pin(struct live *live, enum pin_mode mode)
{
    unsigned number = below(ids);

    for (unsigned i = 0; i < 8 && !model.shadows[number].known; i++)
        number = below(ids); /* rather one that is there */
    snprintf(live->pinned, sizeof(live->pinned), "w%u", number);
    live->pin = (struct pin){.mode = mode,
                             .worker = span_str(live->pinned),
                             .rank = below(2) ? -1 : (int32_t)below(3),
                             .on_busy = (enum session_on_busy)below(3)};
}

static void pin_at_random(struct live *live)
{
    static const enum pin_mode modes[] = {PIN_NONE, PIN_NONE,  PIN_NONE, PIN_NONE, PIN_HARD,
                                          PIN_HARD, PIN_OWNER, PIN_SOFT, PIN_HARD, PIN_HARD};

    pin(live, modes[below(10)]);
}

static struct next choose(struct live *live)
{
    struct expected expected = expect_choice(live);
    struct next next = request_choose(&live->rq, live->pin.mode == PIN_NONE ? NULL : &live->pin,
                                      model.wait_until, model.now);

    check_next(&next, &expected);
    if (next.kind == NEXT_CHOSEN) {
        check_chosen(live, &expected);
        note_chosen(live, &expected);
    } else if (next.kind == NEXT_REBIND) {
        CHECK(!live->rebound && live->rq.charge.worker == NULL);
        live->rebinding = true;
    } else if (next.kind == NEXT_QUEUE) {
        const struct worker *only = live->rq.ticket.only;

        live->waits_at = only;
        live->waits_for = only != NULL ? 1U << number_of(only) : 0;
        CHECK(live->waits_for == expected.workers);
    }
    return next;
}

static void follow(struct live *live, struct next next);

static void give_turns(void)
{
    struct request *rq;

    if (giving_turns)
        return;
    giving_turns = true;
    while ((rq = queue_next(model.registry, model.now)) != NULL) {
        struct live *live = CONTAINER_OF(rq, struct live, rq);

        check_turn(live);
        live->granted = true;
        if (below(20) == 0)
            pin_at_random(live); /* the session has changed meanwhile */
        grants++;
        follow(live, choose(live));
    }
    CHECK(!queue_due(model.registry));
    giving_turns = false;
}

static void end_waits(void)
{
    for (unsigned i = 0; i < LIVE; i++) {
        struct live *live = &model.lives[i];

        if (live->used && live->rq.state == REQUEST_QUEUED &&
            !mono_before(model.now, live->wait_over)) {
            struct expected expected = expect_wait_over(live);
            struct next next = request_wait_over(&live->rq, model.now);

            check_next(&next, &expected);
            overtimes++;
            follow(live, next);
        }
    }
}

static void heartbeat(unsigned number, enum worker_state state, int64_t epoch);

/* The worker may leave between choice and send. */
static struct next resolve(struct live *live)
{
    struct request *rq = &live->rq;
    struct worker *first = rq->charge.worker;
    unsigned number = number_of(first), others;
    bool vanish = below(8) == 0;
    struct expected expected;
    struct facts f;
    struct next next;

    CHECK(first->state == WORKER_READY && first->discovered);
    CHECK(first->capacity == 0 || worker_load_count(first) <= first->capacity);
    if (!vanish)
        return request_resolve(rq, model.now);
    heartbeat(number, WORKER_LEAVING, first->epoch);
    f = facts_now();
    others = may_fall_back_to(&f, live);
    next = request_resolve(rq, model.now);
    CHECK(rq->tried_causes[rq->tried_count - 1] == CAUSE_GONE);
    CHECK((next.kind == NEXT_SEND) == (others != 0));
    if (next.kind != NEXT_SEND) {
        f = facts_now();
        expected = expect_after_fall(&f, live);
        CHECK(next.kind == NEXT_QUEUE || next.kind == expected.kind);
        live->waits_at = NULL;
        live->waits_for = 0;
        return next;
    }
    live->at_bound = false;
    number = number_of(rq->charge.worker);
    CHECK(set_has(others, number) && rq->rank == -1);
    CHECK(rq->reason == (live->adapter < 0 || set_has(f.holders[live->adapter], number)
                             ? REASON_FALLBACK
                             : REASON_ADAPTER_LOAD));
    fallbacks++;
    return next;
}

static void send_out(struct live *live)
{
    struct request *rq = &live->rq;

    if (below(50) == 0) {
        request_unsendable(rq, model.now);
        finish(live);
        return;
    }
    live->sends++;
    strcpy(live->sent_to, rq->charge.worker->id);
    request_sent(rq, below(5) ? 100 : 3000, model.now);
    CHECK(rq->attempt == live->sends && live->sends <= 3);
}

static void follow(struct live *live, struct next next)
{
    struct request *rq = &live->rq;

    for (;;) {
        check_tried(live);
        switch (next.kind) {
        case NEXT_REBIND: /* its session may have another owner, or another binding by now */
            switch (below(6)) {
            case 0:
                pin_at_random(live);
                return; /* it waits for the owner; an event picks it up */
            case 1:
                pin_at_random(live);
                break;
            default:
                pin(live, PIN_OWNER);
                break;
            }
            next = choose(live);
            continue;
        case NEXT_CHOSEN:
            next = resolve(live);
            continue;
        case NEXT_SEND:
            send_out(live);
            return;
        case NEXT_PAUSE:
            CHECK(rq->state == REQUEST_PAUSED && next.at.us <= model.now.us + 1000000);
            if (next.at.us > model.now.us)
                return; /* an event picks it up */
            give_turns();
            next = choose(live);
            continue;
        case NEXT_WAIT:
            CHECK(rq->state == REQUEST_WAITING && next.at.us == model.wait_until.us);
            unheard++;
            return;
        case NEXT_QUEUE:
            CHECK(rq->state == REQUEST_QUEUED && rq->charge.worker == NULL);
            CHECK(pool_waiting(model.pool) <= (model.queue_limit ? model.queue_limit : LIVE));
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

static struct next failed(struct live *live, enum cause cause)
{
    struct next next =
        request_failed(&live->rq, cause, below(2) ? 0 : (int64_t)below(3000), model.now);
    struct expected expected = expect_end(live);

    if (next.kind == NEXT_FAIL)
        check_next(&next, &expected);
    else
        CHECK(next.kind == NEXT_PAUSE);
    return next;
}

static void attempt_lost(void *arg, struct charge *charge, mono when)
{
    struct live *live = live_of(charge);

    (void)arg;
    CHECK(live->used && when.us == model.now.us);
    lost++;
    if (live->rq.state == REQUEST_OUT)
        live->granted = false;
    if (live->rq.state == REQUEST_SERVED)
        finish(live);
    else if (live->rq.state == REQUEST_OUT)
        follow(live, failed(live, CAUSE_LOST));
    /* CHOSEN: resolve will see that it is gone. */
}

static bool attempt_begun(void *arg, const struct charge *charge)
{
    (void)arg;
    return live_of(charge)->rq.state == REQUEST_SERVED;
}

static void heartbeat(unsigned number, enum worker_state state, int64_t epoch)
{
    struct shadow *shadow = &model.shadows[number];
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
    report.counts_ours = below(2);
    report.ranks = below(8) ? number % 3 : below(3);
    report.adapter_slots = number % 4 ? below(4) : 0;
    report.has_adapters = below(3) > 0;
    report.adapters = adapters;
    for (unsigned i = 0; i < ADAPTERS && report.has_adapters; i++)
        if (set_has(mask, i))
            adapters[report.adapter_count++] = span_str(adapter_names[i]);
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
        bool told = report.has_adapters || (expected == REPORT_UPDATED && shadow->told);

        if (!report.has_adapters)
            mask = expected == REPORT_UPDATED ? shadow->adapters : 0;
        *shadow = (struct shadow){.known = true,
                                  .epoch = epoch,
                                  .state = state,
                                  .interval_ms = report.interval_ms,
                                  .ranks = report.ranks,
                                  .slots = report.adapter_slots,
                                  .adapters = mask,
                                  .dead_at = model.now.us + (int64_t)report.interval_ms * 3000,
                                  .told = told};
    }
    result = pool_report(model.pool, &report, model.now);
    CHECK(result == expected);
}

static bool counts_at(const struct live *live, const struct worker *w)
{
    return live->used && live->rq.charge.worker == w && !live->rq.charge.ended;
}

static void compare_worker(void *arg, struct worker *w)
{
    const struct facts *f = arg;
    unsigned number = number_of(w);
    const struct shadow *shadow = &model.shadows[number];
    uint32_t occupancy = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        if (!counts_at(&model.lives[i], w))
            continue;
        occupancy++;
        bytes += model.lives[i].rq.charge.bytes;
    }
    CHECK(shadow->known && w->discovered && shadow->epoch == w->epoch && shadow->state == w->state);
    CHECK(shadow->ranks == w->ranks);
    CHECK(w->occupancy == occupancy && w->bytes_out == bytes);
    for (unsigned a = 0; a < ADAPTERS; a++) {
        struct span name = span_str(adapter_names[a]);

        CHECK(worker_holds(w, name) == set_has(f->holders[a], number));
        CHECK(worker_may_serve(w, name) == set_has(f->holders[a] | f->loaders[a], number));
    }
}

static unsigned set_size(unsigned set)
{
    unsigned n = 0;

    for (; set != 0; set &= set - 1)
        n++;
    return n;
}

static bool compare_adapter(void *arg, const struct adapter_numbers *numbers)
{
    struct facts f = facts_now();
    int adapter = numbers->name.ptr[1] - '0';
    struct adapter_standing standing = adapter_standing(numbers->adapter);
    unsigned in_flight = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        const struct live *live = &model.lives[i];

        in_flight += live->used && live->adapter == adapter && live->rq.charge.worker != NULL &&
                     !live->rq.charge.ended;
    }
    CHECK(numbers->in_flight == in_flight);
    CHECK(numbers->holders == set_size(f.holders[adapter]));
    CHECK(standing.routable == set_size(f.holders[adapter] & f.routable));
    CHECK(standing.free == set_size(f.holders[adapter] & f.free));
    CHECK(numbers->arrivals <= numbers->requests);
    *(unsigned *)arg |= 1U << adapter;
    return true;
}

static void compare(void)
{
    struct facts f = facts_now();
    uint32_t known = 0;
    unsigned seen = 0;

    pool_each_adapter(model.pool, compare_adapter, &seen, model.now);
    for (unsigned i = 0; i < IDS; i++) {
        known += model.shadows[i].known;
        CHECK(!model.shadows[i].known || (model.shadows[i].adapters & ~seen) == 0);
    }
    pool_each(model.pool, compare_worker, &f);
    CHECK(set_size(f.known) == known && pool_discovered(model.pool) == known);
    CHECK(pool_routable(model.pool) == set_size(f.routable));
    CHECK(pool_free(model.pool) == set_size(f.free));
}

/* One that waits for its session's worker is told that one; a new binding is made by an owner. */
static void advise_bound(const struct live *live, const struct advice *advice, enum next_kind kind)
{
    if (kind == NEXT_REBIND) {
        struct live owner = *live;
        struct expected expected;

        owner.pin.mode = PIN_OWNER;
        owner.rebinding = true;
        expected = expect_choice(&owner);
        CHECK((advice->worker != NULL) == (expected.kind == NEXT_CHOSEN));
        CHECK(advice->worker == NULL || set_has(expected.workers, number_of(advice->worker)));
        CHECK(advice->worker == NULL || advice->reason == expected.reason);
        CHECK(expected.kind != NEXT_FAIL || advice->error == expected.error);
    } else if (live->target[0] != '\0') {
        CHECK(advice->error == WB_OVERLOADED);
    } else {
        CHECK(advice->worker != NULL && strcmp(advice->worker->id, live->pinned) == 0);
    }
}

/* What it says is what the choice will be; it changes nothing. Whom it names. */
static const struct worker *ask_advice(const struct live *live)
{
    struct expected expected = expect_choice(live);
    struct advice advice = request_advise(&live->rq, has_pin(live) ? &live->pin : NULL, model.now);

    CHECK((advice.worker == NULL) == (advice.error != WB_OK));
    if (expected.kind == NEXT_WAIT)
        return NULL;
    if (expected.kind == NEXT_REBIND || (expected.kind == NEXT_QUEUE && expected.workers != 0)) {
        advise_bound(live, &advice, expected.kind);
        return NULL;
    }
    CHECK((advice.worker != NULL) == (expected.kind == NEXT_CHOSEN));
    if (expected.kind == NEXT_CHOSEN) {
        CHECK(set_has(expected.workers, number_of(advice.worker)));
        CHECK(advice.reason == expected.reason);
        CHECK(expected.rank == RANK_ANY ? advice.rank >= 0 : advice.rank == expected.rank);
    } else if (expected.kind == NEXT_FAIL) {
        CHECK(advice.error == expected.error);
    }
    return advice.worker;
}

static void start_request(void)
{
    struct request_params params = {.target_rank = -1};
    struct live *live = NULL;
    const struct worker *named;
    struct next next;

    for (unsigned i = 0; i < LIVE && live == NULL; i++)
        if (!model.lives[i].used)
            live = &model.lives[i];
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
    live->adapter = below(3) ? -1 : (int)below(ADAPTERS);
    if (live->adapter >= 0)
        params.adapter = span_str(adapter_names[live->adapter]);
    request_init(&live->rq, model.pool, &params, model.now);
    if (below(3) == 0) {
        enum recall how = below(2) ? RECALL_AVOID : RECALL_PREFER;

        live->how = live->target[0] ? RECALL_NONE : how; /* a target wins */
        live->recalled_rank = (int32_t)below(3) - 1;
        snprintf(live->recalled, sizeof(live->recalled), "w%u", below(ids));
        request_recall(&live->rq, how, span_str(live->recalled), live->recalled_rank);
    }
    pin_at_random(live);
    pool_note_request(model.pool, model.now);
    named = below(4) == 0 ? ask_advice(live) : NULL;
    next = choose(live);
    CHECK(named == NULL || live->rq.charge.worker == named);
    follow(live, next);
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
            request_progress(rq, model.now);
        } else if (below(2) == 0) {
            life_sign(live);
            CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
            request_answered(rq, model.now);
            CHECK(rq->attempt == live->sends);
            CHECK(strcmp(rq->charge.worker->id, live->sent_to) == 0);
            answered++;
        } else {
            if (cause == CAUSE_REFUSED)
                life_sign(live);
            live->granted = false;
            follow(live, failed(live, cause));
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
    case REQUEST_NEW:
    case REQUEST_PAUSED:
    case REQUEST_WAITING:
        if (below(10) == 0)
            pin_at_random(live);
        follow(live, choose(live));
        break;
    default:
        finish(live);
        break;
    }
}

static void pass_time(unsigned us)
{
    mono next = registry_next(model.registry);

    model.now.us += us;
    if (link_up && mono_before(next, model.now) && !mono_is_never(next))
        model.now = next; /* a punctual loop */
    for (unsigned i = 0; i < IDS; i++) {
        if (model.shadows[i].known && model.shadows[i].dead_at <= model.now.us) {
            if (link_up)
                model.shadows[i].known = false;
            else
                model.shadows[i].dead_at =
                    model.now.us + (int64_t)model.shadows[i].interval_ms * 3000;
        }
    }
    (void)registry_run(model.registry, model.now);
}

static void toggle_link(void)
{
    link_up = !link_up;
    registry_link(model.registry, link_up, model.now);
    for (unsigned i = 0; i < IDS && link_up; i++)
        if (model.shadows[i].known)
            model.shadows[i].dead_at = model.now.us + (int64_t)model.shadows[i].interval_ms * 3000;
}

static void event(void)
{
    unsigned kind = below(100), number = below(ids);
    struct live *live = &model.lives[below(LIVE)];

    pass_time(1);
    give_turns();
    end_waits();
    if (kind < 22) {
        static const enum worker_state states[] = {WORKER_READY, WORKER_READY, WORKER_READY,
                                                   WORKER_READY, WORKER_BUSY,  WORKER_DRAINING};
        int64_t epoch = model.shadows[number].epoch;
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

static bool is_at_rest(void *arg, const struct adapter_numbers *numbers)
{
    (void)arg;
    CHECK(numbers->in_flight == 0);
    return true;
}

static void run(enum policy_kind policy, unsigned long events, unsigned part, uint64_t seed)
{
    struct registry_options options = {.max_workers = IDS,
                                       .worker_bytes = WORKER_BYTES,
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
                                     .queue_wait_ms = 100,
                                     .adapters_load = (part + policy) & 1};

    rng_seed(&rng, seed);
    ids = part % 2 ? IDS : 2 + part / 2;
    model = (struct model){.now = {1000000},
                           .wait_until = {3000000},
                           .loading = pool_opts.adapters_load,
                           .policy = policy,
                           .queue_limit = pool_opts.queue_limit};
    link_up = true;
    model.registry = registry_create(&options);
    CHECK(model.registry != NULL);
    model.pool = registry_add_pool(model.registry, &pool_opts);
    CHECK(model.pool != NULL);
    for (unsigned long i = 0; i < events; i++) {
        event();
        compare();
        check_queue();
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (model.lives[i].used)
            finish(&model.lives[i]);
    compare();
    CHECK(pool_waiting(model.pool) == 0);
    pool_each_adapter(model.pool, is_at_rest, NULL, model.now);
    CHECK(pool_adapter_totals(model.pool).in_flight == 0);
    registry_destroy(model.registry);
}

int main(int argc, char **argv)
{
    unsigned long events = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (int policy = 0; policy < POLICY_COUNT; policy++)
        for (unsigned part = 0; part < 4; part++)
            run((enum policy_kind)policy, events / POLICY_COUNT / 4, part, seed * 100 + part);
    printf(
        "answered %llu, fallbacks %llu, lost %llu, without an answer %llu, not yet heard of %llu\n",
        (unsigned long long)answered, (unsigned long long)fallbacks, (unsigned long long)lost,
        (unsigned long long)exhausted, (unsigned long long)unheard);
    printf(
        "avoided %llu (used all the same %llu), preferred %llu; adapters: held %llu, loaded %llu\n",
        (unsigned long long)avoided, (unsigned long long)avoided_used,
        (unsigned long long)preferred, (unsigned long long)held, (unsigned long long)loaded);
    printf("granted %llu, to one that had refused %llu, waited in vain %llu, hopeless %llu\n",
           (unsigned long long)grants, (unsigned long long)again, (unsigned long long)overtimes,
           (unsigned long long)hopeless);
    printf(
        "sessions: at the bound worker %llu, after waiting for it %llu, for which some waited in "
        "vain %llu, spilled %llu, rebound %llu, conflicts %llu\n",
        (unsigned long long)at_bound, (unsigned long long)bound_served,
        (unsigned long long)bound_gone, (unsigned long long)spilled, (unsigned long long)rebound,
        (unsigned long long)conflicts);
    return at_bound && bound_served && bound_gone && spilled && rebound && conflicts && answered &&
                   fallbacks && lost && exhausted && unheard && avoided && avoided_used &&
                   preferred && held && loaded && grants && again && overtimes && hopeless
               ? 0
               : 1;
}
