/* The waiting queue: order, turns of the priorities, fields, room, what wakes and what ends it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"

#define MANY 64

static struct registry *registry;
static struct pool *pool;
static mono now;
static struct request rqs[MANY];
static struct request_params params;

static void open_pool_as(uint32_t limit, bool loading)
{
    struct registry_options options = {.max_workers = 64, .worker_bytes = 1000, .seed = 1};
    struct pool_options pool_opts = {.name = "chat",
                                     .policy = POLICY_LEAST_LOADED,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = 100,
                                     .queue_limit = limit,
                                     .queue_wait_ms = 5000,
                                     .adapters_load = loading};

    registry_destroy(registry);
    registry = registry_create(&options);
    pool = registry_add_pool(registry, &pool_opts);
    ck_assert_ptr_nonnull(pool);
}

static void open_pool(uint32_t limit)
{
    open_pool_as(limit, false);
}

static void end_all(void)
{
    for (unsigned i = 0; i < MANY; i++)
        if (rqs[i].pool != NULL)
            request_end(&rqs[i], now);
    ck_assert_uint_eq(pool_waiting(pool), 0);
}

static void set_up(void)
{
    now = (mono){1000000};
    memset(rqs, 0, sizeof(rqs));
    params = (struct request_params){.target_rank = -1};
    open_pool(MANY);
}

static void tear_down(void)
{
    end_all();
    registry_destroy(registry);
    registry = NULL;
}

static struct worker *beat_as(const char *id, enum worker_state state, uint32_t capacity)
{
    struct worker_report report = {.id = span_str(id),
                                   .subject = SPAN_LIT("s.w"),
                                   .epoch = 1,
                                   .state = state,
                                   .interval_ms = 60000,
                                   .capacity = capacity,
                                   .has_others = true,
                                   .weight = 100};

    (void)pool_report(pool, &report, now);
    return pool_find(pool, span_str(id));
}

static struct worker *beat(const char *id, enum worker_state state)
{
    return beat_as(id, state, 1);
}

static enum next_kind send_if_chosen(struct request *rq, struct next next)
{
    if (next.kind == NEXT_CHOSEN)
        next = request_resolve(rq, now);
    if (next.kind == NEXT_SEND)
        request_sent(rq, 10, now);
    return next.kind;
}

static enum next_kind ask(unsigned i, enum priority priority)
{
    params.priority = priority;
    request_init(&rqs[i], pool, &params, now);
    return send_if_chosen(&rqs[i], request_choose(&rqs[i], NULL, (mono){0}, now));
}

static void waits(unsigned i, enum priority priority)
{
    ck_assert_int_eq(ask(i, priority), NEXT_QUEUE);
    ck_assert_int_eq(rqs[i].state, REQUEST_QUEUED);
}

static void serve(unsigned i)
{
    request_answered(&rqs[i], now);
    request_end(&rqs[i], now);
}

/* Whose turn it is; it is sent. -1: nobody's. */
static int turn(void)
{
    struct request *rq = queue_next(registry, now);

    if (rq == NULL)
        return -1;
    ck_assert_int_eq(rq->state, REQUEST_GRANTED);
    ck_assert_int_eq(send_if_chosen(rq, request_choose(rq, NULL, (mono){0}, now)), NEXT_SEND);
    return (int)(rq - rqs);
}

static void fails(struct next next, wb_status error)
{
    ck_assert_int_eq(next.kind, NEXT_FAIL);
    ck_assert_str_eq(wb_status_name(next.error), wb_status_name(error));
}

/* The request whose turn it is finds that it has waited in vain. */
static void turn_fails(unsigned i, wb_status error)
{
    struct request *rq = queue_next(registry, now);

    ck_assert_ptr_eq(rq, &rqs[i]);
    fails(request_choose(rq, NULL, (mono){0}, now), error);
    request_end(rq, now);
}

START_TEST(first_come_first_served)
{
    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    for (unsigned i = 1; i < 20; i++)
        waits(i, PRIORITY_NORMAL);
    ck_assert_uint_eq(pool_waiting(pool), 19);
    ck_assert(!queue_due(registry));
    request_end(&rqs[7], now); /* the order survives who leaves */
    for (unsigned i = 1; i < 20; i++) {
        if (i == 7)
            continue;
        ck_assert(!queue_due(registry));
        serve(i - 1 == 7 ? 6 : i - 1);
        ck_assert(queue_due(registry));
        ck_assert_int_eq(turn(), (int)i);
        ck_assert_int_eq(turn(), -1); /* one place, one turn */
    }
    serve(19);
    ck_assert(!queue_due(registry));
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

START_TEST(no_priority_starves)
{
    unsigned order[3 * 16] = {0}, counts[3] = {0}, since[3] = {0};
    unsigned last = 0, next[3] = {1, 17, 33};

    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    for (unsigned i = 33; i < 49; i++)
        waits(i, PRIORITY_LOW);
    for (unsigned i = 17; i < 33; i++)
        waits(i, PRIORITY_NORMAL);
    for (unsigned i = 1; i < 17; i++)
        waits(i, PRIORITY_HIGH);
    for (unsigned n = 0; n < 48; n++) {
        unsigned which, i;

        serve(last);
        last = (unsigned)turn();
        which = (last - 1) / 16;
        ck_assert_uint_eq(last, next[which]++); /* within each by arrival */
        order[n] = which;
        counts[which]++;
        for (i = 0; i < 3; i++) {
            since[i] = i == which ? 0 : since[i] + 1;
            /* Of 8 turns at least one, or of 9 where both lower ones are due at once. */
            ck_assert(counts[i] == 16 || since[i] <= 8);
        }
    }
    for (unsigned n = 0; n < 7; n++)
        ck_assert_uint_eq(order[n], 0); /* most are of the highest */
    ck_assert_uint_eq(order[7], 1);
    ck_assert_uint_eq(order[8], 2);
    serve(last);
}
END_TEST

START_TEST(one_that_never_ends_does_not_starve_the_lowest)
{
    unsigned last = 0, fresh = 2, turns = 0;

    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_LOW);
    do { /* there is always another of the highest */
        waits(fresh, PRIORITY_HIGH);
        fresh = fresh + 1 < MANY ? fresh + 1 : 2;
        serve(last);
        last = (unsigned)turn();
        ck_assert_uint_le(++turns, 8);
    } while (last != 1);
    ck_assert_uint_eq(turns, 8);
}
END_TEST

START_TEST(own_and_pool_share_one_order)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    params.target = SPAN_LIT("b");
    ck_assert_int_eq(ask(1, PRIORITY_NORMAL), NEXT_SEND);
    params.target = SPAN_EMPTY;
    waits(2, PRIORITY_NORMAL);
    params.target = SPAN_LIT("a");
    waits(3, PRIORITY_NORMAL);
    waits(4, PRIORITY_HIGH);
    params.target = SPAN_EMPTY;
    waits(5, PRIORITY_NORMAL);
    serve(1); /* b: those that wait for a are not for it */
    ck_assert_int_eq(turn(), 2);
    ck_assert_int_eq(turn(), -1);
    serve(0);
    ck_assert_int_eq(turn(), 4); /* by priority */
    ck_assert_str_eq(rqs[4].charge.worker->id, "a");
    ck_assert_int_eq(rqs[4].reason, REASON_TARGET);
    serve(4);
    ck_assert_int_eq(turn(), 3); /* by arrival */
    serve(3);
    ck_assert_int_eq(turn(), 5);
    serve(5);
    serve(2);
    ck_assert_int_eq(turn(), -1);
}
END_TEST

START_TEST(a_target_that_was_ejected_still_serves_those_that_wait_for_it)
{
    struct worker *a = beat("a", WORKER_READY);

    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    worker_eject(a, now);
    ck_assert_int_eq(turn(), -1);
    request_end(&rqs[0], now);
    ck_assert_int_eq(a->health, WORKER_EJECTED);
    ck_assert_int_eq(turn(), 1); /* the caller knows better */
}
END_TEST

START_TEST(room)
{
    struct next next;

    open_pool(2);
    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    waits(2, PRIORITY_LOW);
    request_init(&rqs[3], pool, &params, now);
    next = request_choose(&rqs[3], NULL, (mono){0}, now);
    fails(next, WB_OVERLOADED);
    ck_assert(next.queue_full);
    ck_assert_str_eq(next.scope, "service");
    request_end(&rqs[1], now);
    waits(3, PRIORITY_NORMAL);
    end_all();
    open_pool(0);
    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    request_init(&rqs[1], pool, &params, now);
    next = request_choose(&rqs[1], NULL, (mono){0}, now);
    fails(next, WB_OVERLOADED);
    ck_assert(!next.queue_full); /* there is none */
}
END_TEST

START_TEST(a_bound_request_waits_for_its_worker_even_without_a_queue)
{
    struct request *bound = calloc(QUEUE_BOUND_MAX + 1, sizeof(*bound));
    struct pin pin = {PIN_HARD, SPAN_LIT("a"), -1, ON_BUSY_WAIT};
    struct next next;

    open_pool(0);
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    request_init(&rqs[1], pool, &params, now);
    next = request_choose(&rqs[1], NULL, (mono){0}, now);
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "worker");
    params.target = SPAN_EMPTY;
    for (unsigned i = 0; i <= QUEUE_BOUND_MAX; i++) {
        request_init(&bound[i], pool, &params, now);
        next = request_choose(&bound[i], &pin, (mono){0}, now);
        if (i < QUEUE_BOUND_MAX)
            ck_assert_int_eq(next.kind, NEXT_QUEUE);
        else
            fails(next, WB_OVERLOADED);
    }
    ck_assert(next.queue_full);
    serve(0);
    ck_assert_ptr_eq(queue_next(registry, now), &bound[0]);
    ck_assert_int_eq(send_if_chosen(&bound[0], request_choose(&bound[0], &pin, (mono){0}, now)),
                     NEXT_SEND);
    ck_assert_str_eq(bound[0].charge.worker->id, "a");
    ck_assert_ptr_null(queue_next(registry, now));
    for (unsigned i = 0; i <= QUEUE_BOUND_MAX; i++)
        request_end(&bound[i], now);
    free(bound);
}
END_TEST

START_TEST(after_its_refusal_the_same_worker_from_the_queue_when_its_mark_ran_out)
{
    struct worker *a = beat_as("a", WORKER_READY, 0);
    struct next next;

    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    next = request_failed(&rqs[0], CAUSE_REFUSED, 300, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    now = next.at;
    next = request_choose(&rqs[0], NULL, (mono){0}, now);
    ck_assert_int_eq(next.kind, NEXT_QUEUE);
    ck_assert_int_eq(next.at.us, now.us + 5000000);
    ck_assert_int_eq(turn(), -1);
    now = a->overloaded_until;
    registry_run(registry, now);
    ck_assert_int_eq(turn(), 0);
    ck_assert_ptr_eq(rqs[0].charge.worker, a);
    ck_assert_uint_eq(rqs[0].attempt, 2);
    /* Its mark runs out in the pause: still only from the queue. */
    next = request_failed(&rqs[0], CAUSE_REFUSED, 1, now);
    now = mono_add_ms(next.at, 1);
    registry_run(registry, now);
    ck_assert_int_eq(worker_standing(a, now), STANDING_FREE);
    ck_assert_int_eq(request_choose(&rqs[0], NULL, (mono){0}, now).kind, NEXT_QUEUE);
    ck_assert_int_eq(turn(), 0);
    ck_assert_uint_eq(rqs[0].attempt, 3);
    next = request_failed(&rqs[0], CAUSE_REFUSED, 1, now);
    fails(next, WB_OVERLOADED); /* attempts are used up */
    ck_assert(next.forward_refusal);
    ck_assert_uint_eq(rqs[0].tried_count, 3);
}
END_TEST

START_TEST(a_target_that_refused_is_asked_again_only_in_its_turn)
{
    struct next next;

    beat("a", WORKER_READY);
    params.target = SPAN_LIT("a");
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    next = request_failed(&rqs[0], CAUSE_REFUSED, 1, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    now = mono_add_ms(next.at, 1);
    registry_run(registry, now); /* the mark is over, and the worker free */
    ck_assert_int_eq(request_choose(&rqs[0], NULL, (mono){0}, now).kind, NEXT_QUEUE);
    ck_assert_int_eq(turn(), 1);
    ck_assert_int_eq(turn(), -1);
    serve(1);
    ck_assert_int_eq(turn(), 0);
    ck_assert_uint_eq(rqs[0].attempt, 2);
    fails(request_failed(&rqs[0], CAUSE_NO_RESPONDERS, 0, now), WB_NO_WORKER);
}
END_TEST

START_TEST(after_any_other_failure_never_the_same_worker)
{
    struct worker *b = beat("b", WORKER_READY), *a;

    params.idempotent = true;
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND); /* on b */
    a = beat("a", WORKER_READY);
    ck_assert_int_eq(ask(1, PRIORITY_NORMAL), NEXT_SEND); /* on a */
    ck_assert_ptr_eq(rqs[1].charge.worker, a);
    now = request_failed(&rqs[1], CAUSE_TIMEOUT, 0, now).at;
    ck_assert_int_eq(ask(3, PRIORITY_NORMAL), NEXT_SEND); /* keeps a busy */
    ck_assert_int_eq(request_choose(&rqs[1], NULL, (mono){0}, now).kind, NEXT_QUEUE);
    waits(2, PRIORITY_NORMAL);
    serve(3);
    ck_assert_int_eq(turn(), 2); /* the first in the order can't use it */
    ck_assert_int_eq(turn(), -1);
    ck_assert_ptr_eq(rqs[2].charge.worker, a);
    serve(2);
    ck_assert_int_eq(turn(), -1); /* free, and no use to who waits */
    ck_assert_int_eq(ask(4, PRIORITY_NORMAL), NEXT_SEND);
    serve(0);
    ck_assert_int_eq(turn(), 1);
    ck_assert_ptr_eq(rqs[1].charge.worker, b);
}
END_TEST

START_TEST(who_failed_everywhere_else_does_not_wait_for_nobody)
{
    beat("b", WORKER_READY);
    params.idempotent = true;
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(1, PRIORITY_NORMAL), NEXT_SEND);
    now = request_failed(&rqs[1], CAUSE_TIMEOUT, 0, now).at;
    ck_assert_int_eq(request_choose(&rqs[1], NULL, (mono){0}, now).kind, NEXT_QUEUE);
    beat("b", WORKER_DRAINING);
    ck_assert_uint_eq(pool_routable(pool), 1);
    turn_fails(1, WB_TIMEOUT); /* only a is left, and it was tried: the last cause decides */
}
END_TEST

START_TEST(back_to_its_old_place)
{
    struct request *rq;
    struct next next;

    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    waits(2, PRIORITY_NORMAL);
    beat("b", WORKER_READY);
    rq = queue_next(registry, now);
    ck_assert_ptr_eq(rq, &rqs[1]);
    ck_assert_int_eq(request_choose(rq, NULL, (mono){0}, now).kind, NEXT_CHOSEN);
    now = mono_add_ms(now, 100);
    beat("b", WORKER_LEAVING); /* between choice and send */
    next = request_resolve(rq, now);
    ck_assert_int_eq(next.kind, NEXT_QUEUE);
    ck_assert_int_eq(next.at.us, 1000000 + 5000000); /* its time runs on */
    ck_assert_int_eq(turn(), -1);
    serve(0);
    ck_assert_int_eq(turn(), 1);
    /* Refused after a wait: old place, but a time of its own. */
    now = mono_add_ms(now, 100);
    next = request_failed(&rqs[1], CAUSE_REFUSED, 200, now);
    now = next.at;
    next = request_choose(&rqs[1], NULL, (mono){0}, now);
    ck_assert_int_eq(next.at.us, now.us + 5000000);
    now = mono_add_ms(now, 300);
    registry_run(registry, now);
    ck_assert_int_eq(turn(), 1);
    serve(1);
    ck_assert_int_eq(turn(), 2);
}
END_TEST

START_TEST(waited_long_enough)
{
    struct worker *a = beat("a", WORKER_READY);
    struct next next;

    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    params.target = SPAN_LIT("a");
    waits(2, PRIORITY_NORMAL);
    now = mono_add_ms(now, 5000);
    next = request_wait_over(&rqs[1], now);
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "service");
    ck_assert(!next.forward_refusal && !next.queue_full);
    next = request_wait_over(&rqs[2], now);
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "worker");
    ck_assert_uint_eq(a->occupancy, 1);
    ck_assert_uint_eq(pool_waiting(pool), 0);
    next = request_failed(&rqs[0], CAUSE_REFUSED, 60000, now);
    now = next.at;
    ck_assert_int_eq(request_choose(&rqs[0], NULL, (mono){0}, now).kind, NEXT_QUEUE);
    now = mono_add_ms(now, 5000);
    next = request_wait_over(&rqs[0], now);
    fails(next, WB_OVERLOADED);
    ck_assert(next.forward_refusal); /* it was all that it heard */
    ck_assert_int_ge(next.retry_after_ms, 54000);
}
END_TEST

START_TEST(nobody_is_left)
{
    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    waits(1, PRIORITY_NORMAL);
    params.target = SPAN_LIT("a");
    waits(2, PRIORITY_LOW);
    waits(3, PRIORITY_NORMAL);
    request_end(&rqs[2], now);
    beat("a", WORKER_LEAVING);
    ck_assert(queue_due(registry));
    turn_fails(1, WB_NO_WORKER);
    turn_fails(3, WB_UNKNOWN_WORKER);
    ck_assert_int_eq(turn(), -1);
    request_end(&rqs[0], now);
    beat("b", WORKER_READY);
    params.target = SPAN_LIT("b");
    ck_assert_int_eq(ask(4, PRIORITY_NORMAL), NEXT_SEND);
    waits(5, PRIORITY_NORMAL);
    params.target = SPAN_EMPTY;
    waits(6, PRIORITY_NORMAL);
    beat("b", WORKER_DRAINING);
    turn_fails(6, WB_NO_WORKER);
    turn_fails(5, WB_NO_WORKER);
}
END_TEST

static struct worker *beat_holding(const char *id, enum worker_state state, bool holds,
                                   uint32_t slots, uint32_t ranks)
{
    struct span name = SPAN_LIT("x");
    struct worker_report report = {.id = span_str(id),
                                   .subject = SPAN_LIT("s.w"),
                                   .epoch = 1,
                                   .state = state,
                                   .interval_ms = 60000,
                                   .capacity = 1,
                                   .has_others = true,
                                   .ranks = ranks,
                                   .has_adapters = true,
                                   .adapters = &name,
                                   .adapter_count = holds,
                                   .adapter_slots = slots,
                                   .weight = 100};

    (void)pool_report(pool, &report, now);
    return pool_find(pool, span_str(id));
}

START_TEST(a_holder_that_drops_the_adapter_by_a_heartbeat_leaves_nobody_waiting_in_vain)
{
    beat_holding("a", WORKER_BUSY, true, 0, 0);
    beat_holding("b", WORKER_BUSY, true, 0, 0);
    params.adapter = SPAN_LIT("x");
    waits(0, PRIORITY_NORMAL);
    params.target = SPAN_LIT("a");
    waits(1, PRIORITY_NORMAL);
    beat_holding("a", WORKER_BUSY, false, 0, 0);
    turn_fails(1, WB_UNKNOWN_ADAPTER);
    ck_assert_int_eq(turn(), -1); /* b still holds it */
    beat_holding("b", WORKER_BUSY, false, 0, 0);
    turn_fails(0, WB_UNKNOWN_ADAPTER);
}
END_TEST

START_TEST(where_the_last_holder_drops_it_a_free_worker_with_a_slot_is_woken)
{
    open_pool_as(MANY, true);
    beat_holding("a", WORKER_BUSY, true, 0, 0);
    beat_holding("b", WORKER_READY, false, 1, 0);
    params.adapter = SPAN_LIT("x");
    waits(0, PRIORITY_NORMAL); /* a busy holder is waited for */
    ck_assert_int_eq(turn(), -1);
    beat_holding("a", WORKER_BUSY, false, 0, 0);
    ck_assert_int_eq(turn(), 0);
    ck_assert_str_eq(rqs[0].charge.worker->id, "b");
    ck_assert_str_eq(reason_name(rqs[0].reason), "adapter_load");
}
END_TEST

START_TEST(who_waits_for_a_holder_does_not_keep_others_from_a_worker_with_a_slot)
{
    open_pool_as(MANY, true);
    beat_holding("a", WORKER_BUSY, true, 0, 0);
    beat_holding("b", WORKER_BUSY, false, 1, 0);
    params.adapter = SPAN_LIT("x");
    waits(0, PRIORITY_HIGH);
    params.adapter = SPAN_EMPTY;
    waits(1, PRIORITY_LOW);
    beat_holding("b", WORKER_READY, false, 1, 0);
    ck_assert_int_eq(turn(), 1);
    ck_assert_str_eq(rqs[1].charge.worker->id, "b");
    ck_assert_int_eq(turn(), -1);
    beat_holding("a", WORKER_READY, true, 0, 0);
    ck_assert_int_eq(turn(), 0);
}
END_TEST

/* Who is to load it refused; the next best is busy. Whoever of the two is free first serves it. */
START_TEST(who_was_refused_by_the_loader_waits_for_it_and_for_the_next_best)
{
    for (int first = 0; first < 2; first++) {
        struct worker *best, *next_best;
        struct next next;

        open_pool_as(MANY, true);
        params.adapter = SPAN_LIT("x");
        beat_holding("a", WORKER_READY, false, 1, 0);
        beat_holding("b", WORKER_READY, false, 1, 0);
        ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
        best = rqs[0].charge.worker;
        next_best = pool_find(pool, strcmp(best->id, "a") == 0 ? SPAN_LIT("b") : SPAN_LIT("a"));
        beat_holding(next_best->id, WORKER_BUSY, false, 1, 0);
        next = request_failed(&rqs[0], CAUSE_REFUSED, 2000, now);
        ck_assert_int_eq(next.kind, NEXT_PAUSE);
        now = next.at;
        ck_assert_int_eq(request_choose(&rqs[0], NULL, (mono){0}, now).kind, NEXT_QUEUE);
        ck_assert_int_eq(turn(), -1);
        if (first == 0)
            beat_holding(next_best->id, WORKER_READY, false, 1, 0);
        else
            now = mono_add_ms(now, 2000);
        registry_run(registry, now);
        ck_assert_int_eq(turn(), 0);
        ck_assert_ptr_eq(rqs[0].charge.worker, first == 0 ? next_best : best);
        end_all();
    }
}
END_TEST

START_TEST(a_rank_that_goes_is_not_waited_for)
{
    beat_holding("a", WORKER_BUSY, false, 0, 2);
    params.target = SPAN_LIT("a");
    waits(0, PRIORITY_NORMAL);
    params.target_rank = 1;
    waits(1, PRIORITY_NORMAL);
    beat_holding("a", WORKER_BUSY, false, 0, 1);
    turn_fails(1, WB_BAD_REQUEST);
    ck_assert_int_eq(turn(), -1);
    ck_assert_uint_eq(pool_waiting(pool), 1);
}
END_TEST

static void waits_bound(unsigned i, const struct pin *pin)
{
    request_init(&rqs[i], pool, &params, now);
    ck_assert_int_eq(request_choose(&rqs[i], pin, (mono){0}, now).kind, NEXT_QUEUE);
}

START_TEST(who_waits_for_its_sessions_worker_rebinds_when_that_is_ejected_while_targets_wait_on)
{
    struct pin pin = {PIN_HARD, SPAN_LIT("a"), -1, ON_BUSY_WAIT}, owner = {.mode = PIN_OWNER};
    struct worker *a = beat("a", WORKER_BUSY);
    struct request *rq;

    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    waits(0, PRIORITY_HIGH);
    params.target = SPAN_EMPTY;
    waits_bound(1, &pin);
    waits_bound(2, &pin);
    ck_assert_int_eq(turn(), -1);
    worker_eject(a, now);
    for (unsigned i = 1; i < 3; i++) {
        rq = queue_next(registry, now);
        ck_assert_ptr_eq(rq, &rqs[i]);
        ck_assert_int_eq(request_choose(rq, &pin, (mono){0}, now).kind, NEXT_REBIND);
        ck_assert_int_eq(rq->state, REQUEST_PAUSED);
    }
    ck_assert_int_eq(turn(), -1);
    ck_assert_int_eq(send_if_chosen(&rqs[1], request_choose(&rqs[1], &owner, (mono){0}, now)),
                     NEXT_SEND);
    ck_assert_str_eq(rqs[1].charge.worker->id, "b");
    ck_assert_int_eq(request_choose(&rqs[2], &owner, (mono){0}, now).kind, NEXT_QUEUE);
    serve(1);
    ck_assert_int_eq(turn(), 2);
    beat("a", WORKER_READY);
    ck_assert_int_eq(turn(), 0);
}
END_TEST

START_TEST(who_has_rebound_waits_as_any_other_and_nowhere_without_a_queue)
{
    struct pin pin = {PIN_HARD, SPAN_LIT("a"), -1, ON_BUSY_WAIT}, owner = {.mode = PIN_OWNER};
    struct request *rq;

    open_pool(0);
    beat("a", WORKER_BUSY);
    beat("b", WORKER_BUSY);
    waits_bound(0, &pin);
    beat("a", WORKER_LEAVING);
    rq = queue_next(registry, now);
    ck_assert_ptr_eq(rq, &rqs[0]);
    ck_assert_int_eq(request_choose(rq, &pin, (mono){0}, now).kind, NEXT_REBIND);
    fails(request_choose(rq, &owner, (mono){0}, now), WB_OVERLOADED);
}
END_TEST

START_TEST(all_ways_a_worker_becomes_free_wake)
{
    struct worker *a = beat("a", WORKER_BUSY);

    waits(0, PRIORITY_NORMAL);
    beat("a", WORKER_READY);
    ck_assert_int_eq(turn(), 0);
    waits(1, PRIORITY_NORMAL);
    beat_as("a", WORKER_READY, 2); /* more capacity */
    ck_assert_int_eq(turn(), 1);
    waits(2, PRIORITY_NORMAL);
    beat("b", WORKER_READY); /* another one */
    ck_assert_int_eq(turn(), 2);
    waits(3, PRIORITY_NORMAL);
    beat_as("a", WORKER_READY, 0);
    ck_assert_int_eq(turn(), 3);
    worker_overloaded(a, mono_add_ms(now, 500), now);
    waits(4, PRIORITY_NORMAL);
    now = mono_add_ms(now, 500);
    registry_run(registry, now); /* the end of a mark */
    ck_assert_int_eq(turn(), 4);
    worker_eject(a, now);
    waits(5, PRIORITY_NORMAL);
    now = mono_add_ms(now, 1000);
    registry_run(registry, now); /* the end of an ejection */
    ck_assert_int_eq(turn(), 5);
}
END_TEST

START_TEST(retry_after_follows_the_rate)
{
    unsigned last = 0;
    int64_t one, more;

    beat("a", WORKER_READY);
    ck_assert_int_eq(ask(0, PRIORITY_NORMAL), NEXT_SEND);
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 1000); /* nothing is known */
    for (unsigned i = 1; i < 60; i++)
        waits(i, PRIORITY_NORMAL);
    for (unsigned i = 0; i < 40; i++) {
        now = mono_add_ms(now, 200);
        serve(last);
        last = (unsigned)turn();
    }
    one = pool_retry_after_ms(pool, now);
    ck_assert_int_eq(one, 200 * (19 + 1));
    now = mono_add_ms(now, 1000);
    more = pool_retry_after_ms(pool, now); /* it has become slower */
    ck_assert_int_eq(more, 1000 * (19 + 1));
    now = mono_add_ms(now, 100000);
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 60000);
    worker_overloaded(pool_find(pool, SPAN_LIT("a")), mono_add_ms(now, 30000), now);
    end_all();
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 30000); /* the mark */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core queue");
    TCase *tests = tcase_create("queue");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, first_come_first_served);
    tcase_add_test(tests, no_priority_starves);
    tcase_add_test(tests, one_that_never_ends_does_not_starve_the_lowest);
    tcase_add_test(tests, own_and_pool_share_one_order);
    tcase_add_test(tests, a_target_that_was_ejected_still_serves_those_that_wait_for_it);
    tcase_add_test(tests, room);
    tcase_add_test(tests, a_bound_request_waits_for_its_worker_even_without_a_queue);
    tcase_add_test(tests, after_its_refusal_the_same_worker_from_the_queue_when_its_mark_ran_out);
    tcase_add_test(tests, a_target_that_refused_is_asked_again_only_in_its_turn);
    tcase_add_test(tests, after_any_other_failure_never_the_same_worker);
    tcase_add_test(tests, who_failed_everywhere_else_does_not_wait_for_nobody);
    tcase_add_test(tests, back_to_its_old_place);
    tcase_add_test(tests, waited_long_enough);
    tcase_add_test(tests, nobody_is_left);
    tcase_add_test(tests,
                   a_holder_that_drops_the_adapter_by_a_heartbeat_leaves_nobody_waiting_in_vain);
    tcase_add_test(tests, where_the_last_holder_drops_it_a_free_worker_with_a_slot_is_woken);
    tcase_add_test(tests, who_waits_for_a_holder_does_not_keep_others_from_a_worker_with_a_slot);
    tcase_add_test(tests, who_was_refused_by_the_loader_waits_for_it_and_for_the_next_best);
    tcase_add_test(tests, a_rank_that_goes_is_not_waited_for);
    tcase_add_test(
        tests,
        who_waits_for_its_sessions_worker_rebinds_when_that_is_ejected_while_targets_wait_on);
    tcase_add_test(tests, who_has_rebound_waits_as_any_other_and_nowhere_without_a_queue);
    tcase_add_test(tests, all_ways_a_worker_becomes_free_wake);
    tcase_add_test(tests, retry_after_follows_the_rate);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
