/* The request state machine: the causes table of spec section 5, targets, ranks, fallback, limits.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"

static struct registry *registry;
static struct pool *pool;
static mono now;
static struct request rq;
static struct request_params params;

static void open_pool(enum policy_kind policy, uint32_t budget_percent)
{
    struct registry_options options = {.max_workers = 64, .worker_bytes = 1000, .seed = 1};
    struct pool_options pool_opts = {.name = "chat",
                                     .policy = policy,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = budget_percent};

    registry_destroy(registry);
    registry = registry_create(&options);
    pool = registry_add_pool(registry, &pool_opts);
    ck_assert_ptr_nonnull(pool);
}

static void set_up(void)
{
    now = (mono){1000000};
    params = (struct request_params){.target_rank = -1};
    open_pool(POLICY_ROUND_ROBIN, 20);
}

static void tear_down(void)
{
    request_end(&rq, now);
    registry_destroy(registry);
    registry = NULL;
}

static struct worker_report report_of(const char *id)
{
    return (struct worker_report){.id = span_str(id),
                                  .subject = SPAN_LIT("s.w"),
                                  .epoch = 1,
                                  .interval_ms = 5000,
                                  .weight = 100};
}

static struct worker *beat(const char *id, enum worker_state state)
{
    struct worker_report report = report_of(id);

    report.state = state;
    (void)pool_report(pool, &report, now);
    return pool_find(pool, span_str(id));
}

static struct next start(void)
{
    request_init(&rq, pool, &params, now);
    return request_choose(&rq, NULL, (mono){0}, now);
}

static struct next out(void)
{
    struct next next = start();

    ck_assert_int_eq(next.kind, NEXT_CHOSEN);
    next = request_resolve(&rq, now);
    ck_assert_int_eq(next.kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    return next;
}

static void again(struct next next)
{
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    now = next.at;
    registry_run(registry, now);
    ck_assert_int_eq(request_choose(&rq, NULL, (mono){0}, now).kind, NEXT_CHOSEN);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
}

static struct advice advice(void)
{
    struct request asked;

    request_init(&asked, pool, &params, now);
    return request_advise(&asked, NULL, now);
}

static void fails(struct next next, wb_status error)
{
    ck_assert_int_eq(next.kind, NEXT_FAIL);
    ck_assert_str_eq(wb_status_name(next.error), wb_status_name(error));
    ck_assert_int_eq(rq.state, REQUEST_FAILED);
    ck_assert_ptr_null(rq.charge.worker);
}

START_TEST(the_first_answer_serves_and_history_stays)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    out();
    ck_assert_str_eq(rq.charge.worker->id, "a");
    again(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now));
    ck_assert_int_eq(now.us, 1000000); /* at once */
    ck_assert_int_eq(rq.reason, REASON_RETRY);
    request_answered(&rq, now);
    ck_assert_int_eq(rq.state, REQUEST_SERVED);
    ck_assert_str_eq(rq.charge.worker->id, "b");
    ck_assert_uint_eq(rq.attempt, 2);
    ck_assert_uint_eq(rq.tried_count, 1);
    ck_assert_str_eq(rq.tried[0]->id, "a");
    ck_assert_str_eq(rq.selected->id, "a");
    ck_assert_int_eq(rq.delivered, DELIVERED_NO);
    ck_assert_int_eq(pool_find(pool, SPAN_LIT("a"))->health, WORKER_EJECTED);
    request_end(&rq, now);
    ck_assert_uint_eq(pool_find(pool, SPAN_LIT("b"))->occupancy, 0);
}
END_TEST

START_TEST(no_responders_everywhere_is_no_worker_after_max_attempts)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    beat("c", WORKER_READY);
    beat("d", WORKER_READY);
    out();
    again(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now));
    again(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now));
    fails(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now), WB_NO_WORKER);
    ck_assert_uint_eq(rq.attempt, 3);
    ck_assert_int_eq(rq.delivered, DELIVERED_NO);
}
END_TEST

START_TEST(refused_marks_and_the_last_refusal_is_forwarded)
{
    struct worker *a = beat("a", WORKER_READY), *b = beat("b", WORKER_READY);
    struct next next;

    out();
    request_progress(&rq, now);
    next = request_failed(&rq, CAUSE_REFUSED, 0, now);
    ck_assert_int_eq(a->overloaded_until.us, now.us + 1000000);
    ck_assert_int_eq(rq.delivered, DELIVERED_NO); /* it says so, progress or not */
    ck_assert_int_le(next.at.us, now.us + 25000);
    again(next);
    next = request_failed(&rq, CAUSE_REFUSED, 90000, now);
    fails(next, WB_OVERLOADED);
    ck_assert(next.forward_refusal);
    ck_assert_str_eq(next.scope, "service");
    ck_assert_int_eq(b->overloaded_until.us, now.us + 60000000);
    ck_assert_int_eq(rq.retry_after_ms, 60000);
    ck_assert(next.retry_after_ms > 900 && next.retry_after_ms <= 1000); /* a's mark */
    ck_assert_int_eq(a->health, WORKER_HEALTHY);
}
END_TEST

START_TEST(lost_and_timeout_are_retried_only_if_idempotent)
{
    static const enum cause causes[] = {CAUSE_LOST, CAUSE_TIMEOUT};
    static const wb_status errors[] = {WB_WORKER_LOST, WB_TIMEOUT};

    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    for (int i = 0; i < 2; i++) {
        params.idempotent = false;
        out();
        fails(request_failed(&rq, causes[i], 0, now), errors[i]);
        ck_assert_int_eq(rq.delivered, DELIVERED_MAYBE);
        request_end(&rq, now);
        params.idempotent = true;
        out();
        request_progress(&rq, now);
        again(request_failed(&rq, causes[i], 0, now));
        ck_assert_int_eq(rq.delivered, DELIVERED_YES);
        fails(request_failed(&rq, causes[i], 0, now), errors[i]);
        ck_assert_int_eq(rq.delivered, DELIVERED_YES); /* the worst over all */
        request_end(&rq, now);
    }
    params.one_way = true;
    out();
    fails(request_failed(&rq, CAUSE_TIMEOUT, 0, now), WB_TIMEOUT); /* one-way: never */
}
END_TEST

START_TEST(cancel_deadline_and_link_end_it_and_blame_nobody)
{
    static const enum cause causes[] = {CAUSE_CANCELLED, CAUSE_DEADLINE, CAUSE_LINK};
    static const wb_status errors[] = {WB_CANCELLED, WB_TIMEOUT, WB_LINK_LOST};
    struct worker *a = beat("a", WORKER_READY);

    params.idempotent = true;
    beat("b", WORKER_READY);
    for (int i = 0; i < 3; i++) {
        out();
        fails(request_failed(&rq, causes[i], 0, now), errors[i]);
        ck_assert_int_eq(rq.delivered, DELIVERED_MAYBE);
        request_end(&rq, now);
    }
    ck_assert_uint_eq(a->failed + a->refused, 0);
    ck_assert_uint_eq(pool_free(pool), 2);
}
END_TEST

START_TEST(gone_between_choice_and_send_moves_the_charge_and_costs_no_number)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    ck_assert_int_eq(start().kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "a");
    beat("a", WORKER_LEAVING);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    ck_assert_str_eq(rq.charge.worker->id, "b");
    ck_assert_int_eq(rq.reason, REASON_FALLBACK);
    ck_assert_uint_eq(rq.attempt, 1);
    ck_assert_int_eq(rq.tried_causes[0], CAUSE_GONE);
    ck_assert_uint_eq(pool_find(pool, SPAN_LIT("b"))->occupancy, 1);
    request_unsendable(&rq, now);
    ck_assert_int_eq(rq.state, REQUEST_FAILED);
    ck_assert_uint_eq(pool_find(pool, SPAN_LIT("b"))->occupancy, 0);
    ck_assert_uint_eq(rq.tried_count, 1); /* blames nobody */
    request_end(&rq, now);
    ck_assert_int_eq(start().kind, NEXT_CHOSEN);
    beat("b", WORKER_LEAVING);
    fails(request_resolve(&rq, now), WB_NO_WORKER);
}
END_TEST

START_TEST(overloaded_at_resolve_is_refused_without_a_send)
{
    struct worker *a = beat("a", WORKER_READY);

    beat("b", WORKER_READY);
    ck_assert_int_eq(start().kind, NEXT_CHOSEN);
    beat("a", WORKER_BUSY);
    again(request_resolve(&rq, now));
    ck_assert_str_eq(rq.charge.worker->id, "b");
    ck_assert_uint_eq(rq.attempt, 1);
    ck_assert_int_eq(rq.tried_causes[0], CAUSE_REFUSED);
    ck_assert_int_eq(a->overloaded_until.us, 0); /* no mark */
    ck_assert_uint_eq(a->occupancy + a->refused, 0);
}
END_TEST

START_TEST(the_own_charge_does_not_overload)
{
    struct worker_report report = report_of("a");

    report.capacity = 1;
    pool_report(pool, &report, now);
    out();
    request_end(&rq, now);
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

START_TEST(busy_and_missing_are_different_errors)
{
    struct next next;

    fails(start(), WB_NO_WORKER);
    request_end(&rq, now);
    beat("a", WORKER_BUSY);
    next = start();
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "service");
    ck_assert_int_eq(next.retry_after_ms, 1000);
    ck_assert(!next.forward_refusal);
    request_end(&rq, now);
    beat("b", WORKER_READY);
    out();
    next = request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    fails(request_choose(&rq, NULL, (mono){0}, now),
          WB_OVERLOADED); /* untried ones are only busy */
}
END_TEST

START_TEST(a_target_is_exact)
{
    struct worker_report report = report_of("a");
    struct next next;
    struct worker *a;

    report.ranks = 2;
    report.capacity = 1;
    pool_report(pool, &report, now);
    a = pool_find(pool, SPAN_LIT("a"));
    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    for (int i = 0; i < 3; i++) { /* by rotation */
        worker_eject(a, now);     /* the caller knows better */
        ck_assert_int_eq(advice().rank, i % 2);
        out();
        ck_assert_str_eq(rq.charge.worker->id, "a");
        ck_assert_int_eq(rq.rank, i % 2);
        ck_assert_int_eq(rq.reason, REASON_TARGET);
        request_end(&rq, now);
    }
    params.target_rank = 2;
    fails(start(), WB_BAD_REQUEST);
    request_end(&rq, now);
    params.target_rank = 1;
    out();
    ck_assert_int_eq(rq.rank, 1);
    fails(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now), WB_NO_WORKER); /* never elsewhere */
    ck_assert_int_eq(rq.rank, -1);
    request_end(&rq, now);
    out();
    next = request_failed(&rq, CAUSE_REFUSED, 3000, now);
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "worker");
    ck_assert(next.forward_refusal);
    ck_assert_int_eq(next.retry_after_ms, 3000);
    request_end(&rq, now);
    next = start();
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "worker");
    ck_assert(!next.forward_refusal);
    request_end(&rq, now);
    beat("a", WORKER_DRAINING);
    params.target_rank = -1;
    fails(start(), WB_NO_WORKER);
}
END_TEST

START_TEST(an_unknown_target_is_waited_for_after_a_start)
{
    struct next next;

    params.target = SPAN_LIT("a");
    request_init(&rq, pool, &params, now);
    next = request_choose(&rq, NULL, mono_add_ms(now, 100), now);
    ck_assert_int_eq(next.kind, NEXT_WAIT);
    ck_assert_int_eq(next.at.us, now.us + 100000);
    beat("a", WORKER_READY);
    ck_assert_int_eq(request_choose(&rq, NULL, mono_add_ms(now, 100), now).kind, NEXT_CHOSEN);
    request_end(&rq, now);
    params.target = SPAN_LIT("x");
    request_init(&rq, pool, &params, now);
    next = request_choose(&rq, NULL, mono_add_ms(now, 100), now);
    now = next.at;
    fails(request_choose(&rq, NULL, next.at, now), WB_UNKNOWN_WORKER);
    request_end(&rq, now);
    params.target = SPAN_LIT("x2345678901234567890123456789012345678901234567890123456789012345");
    fails(start(), WB_BAD_REQUEST);
}
END_TEST

START_TEST(constraints_that_cannot_be_met_are_bad_requests)
{
    params.target_rank = 0;
    fails(start(), WB_BAD_REQUEST);
    request_end(&rq, now);
    params.target_rank = -1;
    open_pool(POLICY_HASH, 20);
    beat("a", WORKER_READY);
    fails(start(), WB_BAD_REQUEST);
    request_end(&rq, now);
    params.key = SPAN_LIT("k");
    out();
    request_end(&rq, now);
    open_pool(POLICY_DIRECT, 20);
    beat("a", WORKER_READY);
    ck_assert_int_eq(advice().error, WB_BAD_REQUEST);
    fails(start(), WB_BAD_REQUEST);
    request_end(&rq, now);
    params.target = SPAN_LIT("a");
    out();
}
END_TEST

START_TEST(the_budget_bounds_retries_but_not_after_no_responders)
{
    struct next next;

    open_pool(POLICY_ROUND_ROBIN, 0);
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    beat("c", WORKER_READY);
    params.idempotent = true;
    for (int i = 0; i < 4; i++) {
        out();
        next = request_failed(&rq, CAUSE_TIMEOUT, 0, now);
        ck_assert_int_eq(next.kind, i < 3 ? NEXT_PAUSE : NEXT_FAIL);
        request_end(&rq, now);
    }
    out();
    again(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now));
}
END_TEST

START_TEST(an_answer_restores_an_ejected_worker)
{
    struct worker *a = beat("a", WORKER_READY);

    out();
    worker_eject(a, now);
    ck_assert_int_eq(a->health, WORKER_EJECTED);
    request_answered(&rq, now);
    ck_assert_int_eq(a->health, WORKER_HEALTHY);
    ck_assert_uint_eq(a->served, 1);
}
END_TEST

/* A retry of the client, whose id has a record of this worker. */
static struct next recalls(enum recall how, const char *worker, int32_t rank)
{
    request_end(&rq, now);
    request_init(&rq, pool, &params, now);
    request_recall(&rq, how, span_str(worker), rank);
    return request_choose(&rq, NULL, (mono){0}, now);
}

static void chosen(struct next next, const char *worker, enum reason reason)
{
    ck_assert_int_eq(next.kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, worker);
    ck_assert_str_eq(reason_name(rq.reason), reason_name(reason));
}

START_TEST(avoid_excludes_the_recorded_worker_while_there_is_another)
{
    beat("a", WORKER_READY);
    chosen(recalls(RECALL_AVOID, "a", -1), "a", REASON_POLICY); /* nobody else: it is used */
    beat("b", WORKER_READY);
    for (int i = 0; i < 4; i++)
        chosen(recalls(RECALL_AVOID, "a", -1), "b", REASON_AVOID);
    beat("b", WORKER_BUSY); /* busy is not gone: the avoided one is still not the one */
    fails(recalls(RECALL_AVOID, "a", -1), WB_OVERLOADED);
    beat("b", WORKER_DRAINING);
    chosen(recalls(RECALL_AVOID, "a", -1), "a", REASON_POLICY);
    beat("b", WORKER_LEAVING);
    chosen(recalls(RECALL_AVOID, "a", -1), "a", REASON_POLICY);
}
END_TEST

START_TEST(avoid_of_a_worker_that_is_gone_or_not_routable_excludes_nobody)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    beat("c", WORKER_DRAINING);
    ck_assert_int_eq(recalls(RECALL_AVOID, "x", -1).kind, NEXT_CHOSEN);
    ck_assert_int_eq(rq.reason, REASON_POLICY);
    ck_assert_int_eq(recalls(RECALL_AVOID, "c", -1).kind, NEXT_CHOSEN);
    ck_assert_int_eq(rq.reason, REASON_POLICY);
}
END_TEST

START_TEST(avoid_holds_in_the_requests_own_retries_until_nobody_else_is_untried)
{
    struct next next;

    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    beat("c", WORKER_READY);
    chosen(recalls(RECALL_AVOID, "b", -1), "a", REASON_AVOID);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    again(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now));
    ck_assert_str_eq(rq.charge.worker->id, "c");
    ck_assert_int_eq(rq.reason, REASON_RETRY); /* the last that applied */
    next = request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now);
    again(next);
    ck_assert_str_eq(rq.charge.worker->id, "b");
    request_answered(&rq, now);
}
END_TEST

START_TEST(avoid_holds_when_the_chosen_one_vanishes_before_the_send)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    beat("c", WORKER_READY);
    chosen(recalls(RECALL_AVOID, "b", -1), "a", REASON_AVOID);
    beat("a", WORKER_LEAVING);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    ck_assert_str_eq(rq.charge.worker->id, "c");
    ck_assert_int_eq(rq.reason, REASON_FALLBACK);
}
END_TEST

START_TEST(prefer_chooses_the_recorded_worker_and_its_rank_while_it_is_free)
{
    struct worker_report report = report_of("b");

    report.ranks = 2;
    beat("a", WORKER_READY);
    pool_report(pool, &report, now);
    beat("c", WORKER_READY);
    for (int i = 0; i < 4; i++) {
        chosen(recalls(RECALL_PREFER, "b", 1), "b", REASON_PREFER);
        ck_assert_int_eq(rq.rank, 1);
    }
    chosen(recalls(RECALL_PREFER, "b", 2), "b", REASON_PREFER);
    ck_assert_int_eq(rq.rank, -1); /* it has no such rank any more */
    chosen(recalls(RECALL_PREFER, "b", -1), "b", REASON_PREFER);
    ck_assert_int_eq(rq.rank, -1);
    report.state = WORKER_BUSY;
    pool_report(pool, &report, now);
    chosen(recalls(RECALL_PREFER, "b", 1), "a", REASON_POLICY);
    ck_assert_int_eq(rq.rank, -1); /* a rank never travels */
    chosen(recalls(RECALL_PREFER, "x", 1), "c", REASON_POLICY);
    worker_eject(pool_find(pool, SPAN_LIT("c")), now);
    chosen(recalls(RECALL_PREFER, "c", -1), "a", REASON_POLICY);
}
END_TEST

START_TEST(a_preferred_worker_that_vanishes_before_the_send_leaves_the_choice_to_the_policy)
{
    struct worker_report report = report_of("b");

    report.ranks = 2;
    beat("a", WORKER_READY);
    pool_report(pool, &report, now);
    chosen(recalls(RECALL_PREFER, "b", 1), "b", REASON_PREFER);
    beat("b", WORKER_LEAVING);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    ck_assert_str_eq(rq.charge.worker->id, "a");
    ck_assert_int_eq(rq.rank, -1);
    ck_assert_int_eq(rq.reason, REASON_FALLBACK);
}
END_TEST

START_TEST(a_preferred_worker_is_tried_once)
{
    params.idempotent = true;
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    chosen(recalls(RECALL_PREFER, "b", -1), "b", REASON_PREFER);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    again(request_failed(&rq, CAUSE_TIMEOUT, 0, now));
    ck_assert_str_eq(rq.charge.worker->id, "a");
    ck_assert_int_eq(rq.reason, REASON_RETRY);
}
END_TEST

START_TEST(a_target_wins_over_a_record)
{
    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    params.target = SPAN_LIT("a");
    chosen(recalls(RECALL_AVOID, "a", -1), "a", REASON_TARGET);
    chosen(recalls(RECALL_PREFER, "b", 0), "a", REASON_TARGET);
    ck_assert_int_eq(rq.rank, -1);
}
END_TEST

START_TEST(advice_heeds_the_record_and_changes_nothing)
{
    struct advice told;
    struct request asked;

    beat("a", WORKER_READY);
    beat("b", WORKER_READY);
    for (int i = 0; i < 3; i++) {
        request_init(&asked, pool, &params, now);
        request_recall(&asked, i % 2 ? RECALL_PREFER : RECALL_AVOID, SPAN_LIT("b"), -1);
        told = request_advise(&asked, NULL, now);
        ck_assert_str_eq(told.worker->id, i % 2 ? "b" : "a");
        ck_assert_int_eq(told.reason, i % 2 ? REASON_PREFER : REASON_AVOID);
    }
    beat("a", WORKER_BUSY);
    request_init(&asked, pool, &params, now);
    request_recall(&asked, RECALL_AVOID, SPAN_LIT("b"), -1);
    told = request_advise(&asked, NULL, now);
    ck_assert_ptr_null(told.worker);
    ck_assert_int_eq(told.error, WB_OVERLOADED);
}
END_TEST

/* ---- pins: how it stands with the bound worker, what the session asks, what the request asks ----
 */

enum standing { FREE, BUSY, DRAINING, EJECTED, GONE, NO_RANK, AVOIDED };
static const char *const standings[] = {"free", "busy",           "draining", "ejected",
                                        "gone", "without a rank", "avoided"};

/* The session is bound to a, which stands so and holds x; b is free, has a rank and holds y. */
static void stand(enum standing standing, enum policy_kind policy)
{
    struct span holds = SPAN_LIT("x");
    struct worker_report report = report_of("a");

    open_pool(policy, 20);
    report.state = standing == BUSY ? WORKER_BUSY : WORKER_READY;
    report.ranks = standing == NO_RANK ? 1 : 2;
    report.has_adapters = true;
    report.adapters = &holds;
    report.adapter_count = 1;
    pool_report(pool, &report, now);
    report = report_of("b");
    report.ranks = 2;
    holds = SPAN_LIT("y");
    report.has_adapters = true;
    report.adapters = &holds;
    report.adapter_count = 1;
    pool_report(pool, &report, now);
    if (standing == EJECTED)
        worker_eject(pool_find(pool, SPAN_LIT("a")), now);
    if (standing == DRAINING || standing == GONE)
        beat("a", standing == GONE ? WORKER_LEAVING : WORKER_DRAINING);
}

static struct next pinned(const struct pin *pin, enum standing standing)
{
    request_init(&rq, pool, &params, now);
    if (standing == AVOIDED)
        request_recall(&rq, RECALL_AVOID, SPAN_LIT("a"), -1);
    return request_choose(&rq, pin, (mono){0}, now);
}

struct pin_row {
    enum standing standing;
    enum pin_mode mode;
    enum session_on_busy on_busy;
    const char *target;
    int32_t target_rank;
    const char *adapter;
    /* what comes of it */
    enum next_kind kind;
    const char *worker; /* of NEXT_CHOSEN, or whose queue it is */
    int32_t rank;       /* -1: none */
    enum reason reason;
    wb_status error;
};
#define HARD PIN_HARD
#define SOFT PIN_SOFT
#define WAITS ON_BUSY_WAIT
#define SPILLS ON_BUSY_SPILL
#define FAILS ON_BUSY_FAIL
#define CHOSEN(worker, rank, reason) NEXT_CHOSEN, worker, rank, REASON_##reason, WB_OK
#define REBINDS NEXT_REBIND, NULL, -1, REASON_POLICY, WB_OK
#define FAIL(error) NEXT_FAIL, NULL, -1, REASON_POLICY, error
#define QUEUE(worker) NEXT_QUEUE, worker, -1, REASON_POLICY, WB_OK

/* The binding is a/1. */
static const struct pin_row pin_table[] = {
    {FREE, HARD, WAITS, NULL, -1, NULL, CHOSEN("a", 1, SESSION)},
    {FREE, HARD, SPILLS, NULL, -1, NULL, CHOSEN("a", 1, SESSION)},
    {FREE, HARD, FAILS, NULL, -1, NULL, CHOSEN("a", 1, SESSION)},
    {FREE, SOFT, WAITS, NULL, -1, NULL, CHOSEN("a", 1, SESSION)},
    {BUSY, HARD, WAITS, NULL, -1, NULL, QUEUE("a")},
    {BUSY, HARD, SPILLS, NULL, -1, NULL, CHOSEN("b", -1, SPILL)},
    {BUSY, HARD, FAILS, NULL, -1, NULL, FAIL(WB_OVERLOADED)},
    {BUSY, SOFT, WAITS, NULL, -1, NULL, CHOSEN("b", -1, POLICY)},
    {BUSY, SOFT, FAILS, NULL, -1, NULL, CHOSEN("b", -1, POLICY)},
    {DRAINING, HARD, WAITS, NULL, -1, NULL, REBINDS},
    {DRAINING, HARD, FAILS, NULL, -1, NULL, REBINDS},
    {DRAINING, SOFT, WAITS, NULL, -1, NULL, CHOSEN("b", -1, POLICY)},
    {EJECTED, HARD, WAITS, NULL, -1, NULL, REBINDS},
    {EJECTED, HARD, SPILLS, NULL, -1, NULL, REBINDS},
    {EJECTED, SOFT, SPILLS, NULL, -1, NULL, CHOSEN("b", -1, POLICY)},
    {GONE, HARD, WAITS, NULL, -1, NULL, REBINDS},
    {GONE, HARD, FAILS, NULL, -1, NULL, REBINDS},
    {GONE, SOFT, WAITS, NULL, -1, NULL, CHOSEN("b", -1, POLICY)},
    {NO_RANK, HARD, WAITS, NULL, -1, NULL, REBINDS},
    {NO_RANK, SOFT, WAITS, NULL, -1, NULL, CHOSEN("a", -1, POLICY)},
    {AVOIDED, HARD, WAITS, NULL, -1, NULL, REBINDS},
    {AVOIDED, HARD, SPILLS, NULL, -1, NULL, REBINDS},
    {AVOIDED, SOFT, WAITS, NULL, -1, NULL, CHOSEN("b", -1, AVOID)},
    /* a target: the same is allowed, and has the binding's rank; another is a conflict */
    {FREE, HARD, WAITS, "a", -1, NULL, CHOSEN("a", 1, TARGET)},
    {FREE, HARD, WAITS, "a", 1, NULL, CHOSEN("a", 1, TARGET)},
    {FREE, HARD, WAITS, "a", 0, NULL, FAIL(WB_SESSION_CONFLICT)},
    {FREE, HARD, WAITS, "b", -1, NULL, FAIL(WB_SESSION_CONFLICT)},
    {FREE, SOFT, WAITS, "b", -1, NULL, FAIL(WB_SESSION_CONFLICT)},
    {BUSY, HARD, SPILLS, "b", -1, NULL, FAIL(WB_SESSION_CONFLICT)},
    {BUSY, HARD, SPILLS, "a", -1, NULL, FAIL(WB_OVERLOADED)},
    {EJECTED, HARD, WAITS, "a", -1, NULL, CHOSEN("a", 1, TARGET)},
    {DRAINING, HARD, WAITS, "a", -1, NULL, FAIL(WB_NO_WORKER)},
    {GONE, HARD, WAITS, "a", -1, NULL, FAIL(WB_UNKNOWN_WORKER)},
    {NO_RANK, HARD, WAITS, "a", -1, NULL, CHOSEN("a", 0, TARGET)},
    /* unless the binding is broken anyway: then the target is bound */
    {EJECTED, HARD, WAITS, "b", -1, NULL, REBINDS},
    {DRAINING, SOFT, WAITS, "b", -1, NULL, REBINDS},
    {GONE, HARD, WAITS, "b", -1, NULL, REBINDS},
    {NO_RANK, HARD, WAITS, "b", -1, NULL, REBINDS},
    /* an adapter that the bound worker lacks */
    {FREE, HARD, WAITS, NULL, -1, "x", CHOSEN("a", 1, SESSION)},
    {FREE, HARD, WAITS, NULL, -1, "y", FAIL(WB_SESSION_CONFLICT)},
    {FREE, HARD, SPILLS, NULL, -1, "y", FAIL(WB_SESSION_CONFLICT)},
    {BUSY, HARD, SPILLS, NULL, -1, "y", FAIL(WB_SESSION_CONFLICT)},
    {BUSY, HARD, SPILLS, NULL, -1, "x", FAIL(WB_OVERLOADED)},
    {BUSY, HARD, WAITS, NULL, -1, "x", QUEUE("a")},
    {FREE, SOFT, WAITS, NULL, -1, "y", CHOSEN("b", -1, POLICY)},
    {BUSY, SOFT, WAITS, NULL, -1, "x", FAIL(WB_OVERLOADED)},
    {EJECTED, HARD, WAITS, NULL, -1, "y", REBINDS},
};

#define PIN_ROWS (int)(sizeof(pin_table) / sizeof(pin_table[0]))

/* Stands ready to choose by this row. */
static struct pin begin_row(const struct pin_row *row)
{
    stand(row->standing, POLICY_ROUND_ROBIN);
    params.target = span_str(row->target);
    params.target_rank = row->target_rank;
    params.adapter = span_str(row->adapter);
    request_init(&rq, pool, &params, now);
    if (row->standing == AVOIDED)
        request_recall(&rq, RECALL_AVOID, SPAN_LIT("a"), -1);
    return (struct pin){row->mode, SPAN_LIT("a"), 1, row->on_busy};
}

static void row_comes_true(int i, const struct pin_row *row)
{
    struct pin pin = begin_row(row);
    struct next next = request_choose(&rq, &pin, (mono){0}, now);

    ck_assert_msg(next.kind == row->kind, "row %d, %s: kind %d", i, standings[row->standing],
                  (int)next.kind);
    if (row->kind == NEXT_FAIL) {
        fails(next, row->error);
    } else if (row->kind == NEXT_QUEUE) {
        ck_assert_str_eq(rq.ticket.only->id, row->worker);
    } else if (row->kind == NEXT_CHOSEN) {
        ck_assert_msg(strcmp(rq.charge.worker->id, row->worker) == 0, "row %d: %s", i,
                      rq.charge.worker->id);
        ck_assert_msg(rq.reason == row->reason, "row %d: %s", i, reason_name(rq.reason));
        ck_assert_msg(rq.rank == row->rank, "row %d: rank %d", i, rq.rank);
    } else {
        ck_assert_ptr_null(rq.charge.worker);
    }
    request_end(&rq, now);
}

START_TEST(pins)
{
    for (int i = 0; i < PIN_ROWS; i++)
        row_comes_true(i, &pin_table[i]);
}
END_TEST

static void row_is_advised(int i, const struct pin_row *row)
{
    struct pin pin = begin_row(row), owner = {.mode = PIN_OWNER};
    struct advice named = request_advise(&rq, &pin, now);
    struct next next = request_choose(&rq, &pin, (mono){0}, now);

    if (next.kind == NEXT_REBIND)
        next = request_choose(&rq, &owner, (mono){0}, now);
    if (next.kind == NEXT_FAIL) {
        ck_assert_msg(named.error == next.error, "row %d: %s", i, wb_status_name(named.error));
        ck_assert(named.error != WB_OVERLOADED || strcmp(named.scope, next.scope) == 0);
    } else {
        ck_assert_msg(named.error == WB_OK, "row %d: %s", i, wb_status_name(named.error));
        ck_assert_str_eq(named.worker->id,
                         next.kind == NEXT_QUEUE ? rq.ticket.only->id : rq.charge.worker->id);
    }
    if (next.kind == NEXT_CHOSEN) {
        ck_assert_msg(named.rank == rq.rank, "row %d: rank %d", i, named.rank);
        ck_assert_msg(named.reason == rq.reason, "row %d: %s", i, reason_name(named.reason));
    }
    request_end(&rq, now);
}

/* Advice names whom the choice takes or waits for, and fails as it does. */
START_TEST(advice_with_pins)
{
    for (int i = 0; i < PIN_ROWS; i++)
        row_is_advised(i, &pin_table[i]);
}
END_TEST

START_TEST(a_broken_pin_rebinds_once_for_each_request)
{
    struct pin pin = {HARD, SPAN_LIT("a"), -1, WAITS}, owner = {.mode = PIN_OWNER};
    struct pin other = {HARD, SPAN_LIT("c"), -1, WAITS};

    params.idempotent = true;
    stand(GONE, POLICY_ROUND_ROBIN);
    ck_assert_int_eq(pinned(&pin, GONE).kind, NEXT_REBIND);
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, now).kind, NEXT_REBIND); /* not yet */
    ck_assert_int_eq(request_choose(&rq, &owner, (mono){0}, now).kind, NEXT_CHOSEN);
    ck_assert_str_eq(reason_name(rq.reason), "rebind");
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    beat("d", WORKER_READY);
    ck_assert_int_eq(request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now).kind, NEXT_PAUSE);
    /* Another router took the session, and bound it to one that is gone too. */
    fails(request_choose(&rq, &other, (mono){0}, now), WB_NO_WORKER);
}
END_TEST

START_TEST(a_bound_worker_not_heard_of_is_waited_for_after_a_start)
{
    static const enum pin_mode modes[] = {PIN_HARD, PIN_SOFT};

    for (int i = 0; i < 2; i++) {
        struct pin pin = {modes[i], SPAN_LIT("a"), -1, WAITS};
        mono until = mono_add_ms(now, 2000);
        struct next next;

        stand(GONE, POLICY_ROUND_ROBIN);
        request_init(&rq, pool, &params, now);
        next = request_choose(&rq, &pin, until, now);
        ck_assert_int_eq(next.kind, NEXT_WAIT);
        ck_assert_int_eq(next.at.us, until.us);
        beat("a", WORKER_READY);
        ck_assert_int_eq(request_choose(&rq, &pin, until, now).kind, NEXT_CHOSEN);
        ck_assert_str_eq(rq.charge.worker->id, "a");
        request_end(&rq, now);
    }
}
END_TEST

/* It is sent to its bound worker, which fails it so. */
static struct next fails_when_bound(const struct pin *pin, enum cause cause)
{
    params.idempotent = true;
    stand(FREE, POLICY_ROUND_ROBIN);
    ck_assert_int_eq(pinned(pin, FREE).kind, NEXT_CHOSEN);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    if (cause == CAUSE_LOST)
        beat("a", WORKER_LEAVING);
    return request_failed(&rq, cause, 0, now);
}

START_TEST(what_follows_a_failure_of_the_bound_worker)
{
    struct pin pin = {HARD, SPAN_LIT("a"), -1, WAITS};
    struct next next;

    fails(fails_when_bound(&pin, CAUSE_TIMEOUT), WB_TIMEOUT); /* it lives, and nobody else may */
    request_end(&rq, now);
    ck_assert_int_eq(fails_when_bound(&pin, CAUSE_NO_RESPONDERS).kind, NEXT_PAUSE);
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, now).kind, NEXT_REBIND);
    request_end(&rq, now);
    next = fails_when_bound(&pin, CAUSE_LOST);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, next.at).kind, NEXT_REBIND);
    request_end(&rq, now);
    next = fails_when_bound(&pin, CAUSE_REFUSED); /* as if it were busy */
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, next.at).kind, NEXT_QUEUE);
    ck_assert_str_eq(rq.ticket.only->id, "a");
    next = request_wait_over(&rq, now);
    fails(next, WB_OVERLOADED);
    ck_assert(next.forward_refusal);
    ck_assert_str_eq(next.scope, "worker");
    request_end(&rq, now);
    pin.on_busy = FAILS;
    next = fails_when_bound(&pin, CAUSE_REFUSED); /* at once, and without a retry's price */
    fails(next, WB_OVERLOADED);
    ck_assert_str_eq(next.scope, "worker");
    request_end(&rq, now);
    pin.on_busy = SPILLS;
    next = fails_when_bound(&pin, CAUSE_REFUSED);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, next.at).kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "b");
}
END_TEST

/* Its own worker is as good as any other to one that was spilled. */
START_TEST(a_spilled_request_that_timed_out_may_go_back_to_its_bound_worker)
{
    struct pin pin = {HARD, SPAN_LIT("a"), -1, SPILLS};
    struct next next;

    params.idempotent = true;
    stand(BUSY, POLICY_ROUND_ROBIN);
    ck_assert_int_eq(pinned(&pin, BUSY).kind, NEXT_CHOSEN);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 10, now);
    beat("a", WORKER_READY);
    next = request_failed(&rq, CAUSE_TIMEOUT, 0, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    ck_assert_int_eq(request_choose(&rq, &pin, (mono){0}, next.at).kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "a");
    ck_assert_str_eq(reason_name(rq.reason), "retry");
}
END_TEST

START_TEST(names_are_those_of_the_contract)
{
    ck_assert_str_eq(cause_name(CAUSE_NO_RESPONDERS), "no_responders");
    ck_assert_str_eq(cause_name(CAUSE_INTERRUPTED), "interrupted");
    ck_assert_str_eq(delivered_name(DELIVERED_MAYBE), "maybe");
    ck_assert_str_eq(reason_name(REASON_RETRY), "retry");
    ck_assert_str_eq(reason_name(REASON_PREFER), "prefer");
    ck_assert_str_eq(reason_name(REASON_AVOID), "avoid");
    ck_assert_str_eq(worker_event_name(WORKER_EVENT_DUPLICATE), "duplicate_worker");
    ck_assert_str_eq(worker_standing_name(STANDING_FREE), "free");
    ck_assert_str_eq(worker_state_name(WORKER_LEAVING), "leaving");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core request");
    TCase *tests = tcase_create("request");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_first_answer_serves_and_history_stays);
    tcase_add_test(tests, no_responders_everywhere_is_no_worker_after_max_attempts);
    tcase_add_test(tests, refused_marks_and_the_last_refusal_is_forwarded);
    tcase_add_test(tests, lost_and_timeout_are_retried_only_if_idempotent);
    tcase_add_test(tests, cancel_deadline_and_link_end_it_and_blame_nobody);
    tcase_add_test(tests, gone_between_choice_and_send_moves_the_charge_and_costs_no_number);
    tcase_add_test(tests, overloaded_at_resolve_is_refused_without_a_send);
    tcase_add_test(tests, the_own_charge_does_not_overload);
    tcase_add_test(tests, busy_and_missing_are_different_errors);
    tcase_add_test(tests, a_target_is_exact);
    tcase_add_test(tests, an_unknown_target_is_waited_for_after_a_start);
    tcase_add_test(tests, constraints_that_cannot_be_met_are_bad_requests);
    tcase_add_test(tests, the_budget_bounds_retries_but_not_after_no_responders);
    tcase_add_test(tests, an_answer_restores_an_ejected_worker);
    tcase_add_test(tests, avoid_excludes_the_recorded_worker_while_there_is_another);
    tcase_add_test(tests, avoid_of_a_worker_that_is_gone_or_not_routable_excludes_nobody);
    tcase_add_test(tests, avoid_holds_in_the_requests_own_retries_until_nobody_else_is_untried);
    tcase_add_test(tests, avoid_holds_when_the_chosen_one_vanishes_before_the_send);
    tcase_add_test(tests, prefer_chooses_the_recorded_worker_and_its_rank_while_it_is_free);
    tcase_add_test(
        tests, a_preferred_worker_that_vanishes_before_the_send_leaves_the_choice_to_the_policy);
    tcase_add_test(tests, a_preferred_worker_is_tried_once);
    tcase_add_test(tests, a_target_wins_over_a_record);
    tcase_add_test(tests, advice_heeds_the_record_and_changes_nothing);
    tcase_add_test(tests, pins);
    tcase_add_test(tests, advice_with_pins);
    tcase_add_test(tests, a_broken_pin_rebinds_once_for_each_request);
    tcase_add_test(tests, a_bound_worker_not_heard_of_is_waited_for_after_a_start);
    tcase_add_test(tests, what_follows_a_failure_of_the_bound_worker);
    tcase_add_test(tests, a_spilled_request_that_timed_out_may_go_back_to_its_bound_worker);
    tcase_add_test(tests, names_are_those_of_the_contract);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
