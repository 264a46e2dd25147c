/* Adapters: candidates, cursors of their own, who holds what, what is counted, slots, and who loads
 * what nobody holds. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter.h"
#include "core/request.h"

#define IDLE_MAX 256   /* names in nobody's hands that are kept */
#define ASKED_MAX 1024 /* adapters with a rotation of their own */

static struct registry *registry;
static struct pool *pool;
static mono now;

static void open_pool(enum policy_kind policy, bool load)
{
    struct registry_options options = {.max_workers = 4096, .seed = 5};
    struct pool_options pool_opts = {.name = "chat",
                                     .policy = policy,
                                     .ratio = 2,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = 1000,
                                     .adapters_load = load};

    registry_destroy(registry);
    registry = registry_create(&options);
    pool = registry_add_pool(registry, &pool_opts);
    ck_assert_ptr_nonnull(pool);
}

static void set_up(void)
{
    now = (mono){1000000};
    open_pool(POLICY_ROUND_ROBIN, false);
}

static void tear_down(void)
{
    registry_destroy(registry);
    registry = NULL;
}

struct said {
    const char *adapters; /* one letter each; NULL: nothing is said of them */
    enum worker_state state;
    uint32_t slots, capacity, weight;
    int64_t epoch;
    const char *class_name;
};

static struct worker *says(const char *id, struct said said)
{
    struct span names[32];
    struct worker_report report = {.id = span_str(id),
                                   .subject = SPAN_LIT("s"),
                                   .epoch = said.epoch > 0 ? said.epoch : 1,
                                   .interval_ms = 5000,
                                   .state = said.state,
                                   .weight = said.weight > 0 ? said.weight : 100,
                                   .capacity = said.capacity,
                                   .adapter_slots = said.slots,
                                   .class_name = span_str(said.class_name),
                                   .has_adapters = said.adapters != NULL,
                                   .adapters = names};

    for (const char *c = said.adapters; c != NULL && *c != '\0'; c++)
        names[report.adapter_count++] = span_of(c, 1);
    (void)pool_report(pool, &report, now);
    return pool_find(pool, span_str(id));
}

static struct worker *holds(const char *id, const char *adapters)
{
    return says(id, (struct said){.adapters = adapters});
}

static struct worker *has_slots(const char *id, uint32_t slots)
{
    return says(id, (struct said){.adapters = "", .slots = slots});
}

static struct worker *choose(const char *adapter)
{
    struct choice choice = {.adapter = span_str(adapter), .key = SPAN_LIT("k")};

    return pool_choose(pool, &choice, false, now);
}

static void chooses(const char *adapter, const char *expected)
{
    struct worker *w = choose(adapter);

    ck_assert_str_eq(w != NULL ? w->id : "nobody", expected);
}

struct wanted {
    const char *name;
    struct adapter_numbers numbers;
    bool found;
};

static bool want(void *arg, const struct adapter_numbers *numbers)
{
    struct wanted *wanted = arg;

    if (!span_eq_str(numbers->name, wanted->name))
        return true;
    wanted->numbers = *numbers;
    wanted->found = true;
    return false;
}

static struct adapter_numbers numbers_of(const char *name)
{
    struct wanted wanted = {.name = name};

    pool_each_adapter(pool, want, &wanted, now);
    return wanted.numbers;
}

static void stands(const char *name, uint32_t holders, uint32_t routable, uint32_t is_free)
{
    struct adapter_numbers numbers = numbers_of(name);
    struct adapter_standing standing = {0};

    if (numbers.adapter != NULL)
        standing = adapter_standing(numbers.adapter);
    ck_assert_uint_eq(numbers.holders, holders);
    ck_assert_uint_eq(standing.routable, routable);
    ck_assert_uint_eq(standing.free, is_free);
}

static struct next start(struct request *rq, const char *adapter, const char *target)
{
    struct request_params params = {.target = span_str(target),
                                    .target_rank = -1,
                                    .key = SPAN_LIT("k"),
                                    .adapter = span_str(adapter),
                                    .idempotent = true};

    request_init(rq, pool, &params, now);
    return request_choose(rq, NULL, (mono){0}, now);
}

static struct worker *out(struct request *rq, const char *adapter)
{
    ck_assert_int_eq(start(rq, adapter, NULL).kind, NEXT_CHOSEN);
    ck_assert_int_eq(request_resolve(rq, now).kind, NEXT_SEND);
    request_sent(rq, 10, now);
    return rq->charge.worker;
}

static void fails(struct request *rq, struct next next, wb_status error)
{
    ck_assert_int_eq(next.kind, NEXT_FAIL);
    ck_assert_str_eq(wb_status_name(next.error), wb_status_name(error));
    request_end(rq, now);
}

static void answer(struct request *rq)
{
    request_answered(rq, now);
    request_end(rq, now);
}

START_TEST(every_policy_chooses_among_the_holders)
{
    open_pool((enum policy_kind)_i, false);
    for (int i = 0; i < 20; i++) {
        char id[16];

        snprintf(id, sizeof(id), "w%d", i);
        says(id, (struct said){.adapters = i % 5 == 0 ? "ab" : "b",
                               .class_name = i % 2 ? "cpu" : "gpu"});
    }
    for (int i = 0; i < 100; i++) {
        struct worker *w = choose("a");

        if (_i == POLICY_DIRECT) {
            ck_assert_ptr_null(w);
            continue;
        }
        ck_assert_ptr_nonnull(w);
        ck_assert_int_eq(atoi(w->id + 1) % 5, 0);
    }
    ck_assert_ptr_null(choose("c"));
    stands("a", 4, 4, 4);
    stands("b", 20, 20, 20);
}
END_TEST

START_TEST(each_adapter_has_a_cursor_of_its_own)
{
    struct choice choice = {.adapter = SPAN_LIT("a")};
    struct choice plain = {0};

    holds("v", "ab");
    holds("w", "ab");
    holds("x", "a");
    chooses("a", "v");
    chooses("b", "v");
    chooses("a", "w");
    ck_assert_str_eq(pool_choose(pool, &plain, false, now)->id, "v");
    ck_assert_str_eq(pool_choose(pool, &choice, true, now)->id, "x"); /* a peek moves nothing */
    chooses("a", "x");
    chooses("b", "w");
    chooses("a", "v");
    ck_assert_str_eq(pool_choose(pool, &plain, false, now)->id, "w");
    chooses("b", "v");
}
END_TEST

START_TEST(the_rotation_survives_heartbeats_that_say_the_same)
{
    holds("v", "ab");
    holds("w", "ab");
    holds("x", "ab");
    chooses("a", "v");
    holds("v", "ab");
    says("w", (struct said){0}); /* nothing said: unchanged */
    holds("x", "abc");           /* another one more */
    holds("x", "ac");
    chooses("a", "w");
    chooses("a", "x");
    chooses("a", "v");
    stands("a", 3, 3, 3);
    stands("b", 2, 2, 2);
}
END_TEST

START_TEST(holders_come_and_go)
{
    struct worker *w;

    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
    holds("v", "");
    w = holds("w", "a");
    chooses("a", "w");
    stands("a", 1, 1, 1);
    holds("v", "a");
    stands("a", 2, 2, 2);
    says("w", (struct said){.adapters = "a", .state = WORKER_BUSY});
    stands("a", 2, 2, 1);
    chooses("a", "v");
    chooses("a", "v");
    says("v", (struct said){.adapters = "a", .state = WORKER_DRAINING});
    stands("a", 2, 1, 0);
    ck_assert_ptr_null(choose("a"));
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_OK); /* busy is not gone */
    holds("w", "");
    ck_assert(!worker_holds(w, SPAN_LIT("a")));
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_NO_WORKER);
    says("v", (struct said){.state = WORKER_LEAVING});
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
    says("w", (struct said){.adapters = "a", .epoch = 2});
    chooses("a", "w");
    says("w", (struct said){.epoch = 3}); /* a new life that says nothing has none */
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
    holds("w", "a");
    while (pool_find(pool, SPAN_LIT("w")) != NULL) { /* until it is lost */
        now = registry_next(registry);
        registry_run(registry, now);
    }
    stands("a", 0, 0, 0);
}
END_TEST

START_TEST(ejection_and_marks_reach_the_adapter)
{
    struct worker *v = holds("v", "a"), *w = holds("w", "a");

    holds("x", "b");
    chooses("a", "v");
    worker_eject(v, now);
    stands("a", 2, 1, 1);
    for (int i = 0; i < 4; i++)
        chooses("a", "w");
    worker_overloaded(w, mono_add_ms(now, 700), now);
    stands("a", 2, 1, 0);
    ck_assert_int_eq(pool_adapter_retry_after_ms(pool, SPAN_LIT("a"), now), 700);
    ck_assert_ptr_null(choose("a"));
    now = mono_add_ms(now, 1000);
    registry_run(registry, now);
    stands("a", 2, 2, 2);
    ck_assert_int_eq(pool_adapter_retry_after_ms(pool, SPAN_LIT("a"), now), 1000);
    worker_eject(v, now);
    worker_eject(w, now); /* x is routable, so neither is the last resort */
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_NO_WORKER);
    worker_eject(pool_find(pool, SPAN_LIT("x")), now);
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_OK);
    chooses("a", "v"); /* the least recently ejected of the pool */
}
END_TEST

START_TEST(busy_holders_are_overloaded_with_scope_adapter)
{
    struct request first, second;
    struct next next;

    says("v", (struct said){.adapters = "a", .capacity = 1});
    holds("w", "b");
    out(&first, "a");
    next = start(&second, "a", NULL);
    ck_assert_str_eq(next.scope, "adapter");
    ck_assert_int_eq(next.retry_after_ms, 1000);
    fails(&second, next, WB_OVERLOADED);
    next = start(&second, "a", "v");
    ck_assert_str_eq(next.scope, "worker");
    fails(&second, next, WB_OVERLOADED);
    fails(&second, start(&second, "a", "w"), WB_UNKNOWN_ADAPTER);
    fails(&second, start(&second, "c", NULL), WB_UNKNOWN_ADAPTER);
    ck_assert_uint_eq(numbers_of("a").in_flight, 1);
    answer(&first);
    ck_assert_uint_eq(numbers_of("a").in_flight, 0);
    ck_assert_uint_eq(numbers_of("a").requests, 4);
}
END_TEST

START_TEST(in_flight_moves_with_the_charge)
{
    struct request rq;
    struct worker *first;

    holds("v", "a");
    holds("w", "a");
    holds("x", "");
    ck_assert_int_eq(start(&rq, "a", NULL).kind, NEXT_CHOSEN);
    first = rq.charge.worker;
    says(first->id, (struct said){.state = WORKER_LEAVING}); /* between choice and send */
    ck_assert_uint_eq(numbers_of("a").in_flight, 0);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    ck_assert_int_eq(rq.reason, REASON_FALLBACK);
    ck_assert_str_eq(rq.charge.worker->id, "w");
    ck_assert_uint_eq(numbers_of("a").in_flight, 1);
    request_sent(&rq, 1, now);
    fails(&rq, request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now), WB_NO_WORKER);
    ck_assert_uint_eq(numbers_of("a").in_flight, 0);
}
END_TEST

START_TEST(retries_stay_among_the_holders)
{
    struct request rq;
    struct next next;

    holds("v", "a");
    holds("w", "a");
    holds("x", "b");
    out(&rq, "a");
    next = request_failed(&rq, CAUSE_REFUSED, 0, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    now = next.at;
    ck_assert_int_eq(request_choose(&rq, NULL, (mono){0}, now).kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "w");
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 1, now);
    next = request_failed(&rq, CAUSE_REFUSED, 0, now);
    ck_assert_str_eq(next.scope, "adapter");
    fails(&rq, next, WB_OVERLOADED);
}
END_TEST

START_TEST(what_is_dropped_in_flight_is_counted_to_its_end)
{
    struct request one, two;

    holds("v", "a");
    ck_assert_str_eq(out(&one, "a")->id, "v");
    ck_assert_str_eq(out(&two, "a")->id, "v");
    holds("v", "");
    ck_assert_uint_eq(numbers_of("a").holders, 0);
    ck_assert_uint_eq(numbers_of("a").in_flight, 2);
    answer(&one);
    holds("v", "a");
    ck_assert_uint_eq(numbers_of("a").in_flight, 1);
    says("v", (struct said){.epoch = 2, .adapters = "a"}); /* ends the attempts of the old life */
    ck_assert_uint_eq(numbers_of("a").in_flight, 0);
    (void)request_failed(&two, CAUSE_LOST, 0, now);
    request_end(&two, now);
    ck_assert_uint_eq(numbers_of("a").in_flight, 0);
    stands("a", 1, 1, 1);
}
END_TEST

START_TEST(arrivals_slide)
{
    struct request rq;

    now = (mono){INT64_C(5000000)};
    holds("v", "a");
    for (int i = 0; i < 3; i++) {
        out(&rq, "a");
        answer(&rq);
    }
    now = mono_add_ms(now, 30000);
    registry_link(registry, true, now);
    out(&rq, "a");
    answer(&rq);
    ck_assert_uint_eq(numbers_of("a").arrivals, 4);
    now = mono_add_ms(now, 29000);
    ck_assert_uint_eq(numbers_of("a").arrivals, 4);
    now = mono_add_ms(now, 1000);
    ck_assert_uint_eq(numbers_of("a").arrivals, 1);
    now = mono_add_ms(now, 30000);
    ck_assert_uint_eq(numbers_of("a").arrivals, 0);
    ck_assert_uint_eq(numbers_of("a").requests, 4);
}
END_TEST

START_TEST(start_wait_waits_for_a_holder_but_not_for_a_target_without)
{
    struct request rq;
    struct request_params params = {.target_rank = -1, .adapter = SPAN_LIT("a")};
    mono until = mono_add_ms(now, 500);

    open_pool(POLICY_ROUND_ROBIN, true);
    has_slots("v", 1);
    request_init(&rq, pool, &params, now);
    ck_assert_int_eq(request_choose(&rq, NULL, until, now).kind, NEXT_WAIT); /* rather than load */
    holds("w", "a");
    ck_assert_int_eq(request_choose(&rq, NULL, until, now).kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "w");
    ck_assert_uint_eq(numbers_of("a").requests, 1);
    request_end(&rq, now);
    params.target = SPAN_LIT("w");
    params.adapter = SPAN_LIT("b");
    request_init(&rq, pool, &params, now);
    fails(&rq, request_choose(&rq, NULL, until, now), WB_UNKNOWN_ADAPTER);
    params.target = SPAN_EMPTY;
    request_init(&rq, pool, &params, now);
    now = until;
    ck_assert_int_eq(request_choose(&rq, NULL, until, now).kind, NEXT_CHOSEN);
    ck_assert_str_eq(rq.charge.worker->id, "v");
    ck_assert_int_eq(rq.reason, REASON_ADAPTER_LOAD);
    request_end(&rq, now);
}
END_TEST

START_TEST(static_workers_hold_what_the_config_says)
{
    static const char *const adapters[] = {"fr", "de", "fr"};
    struct static_worker entry = {
        .id = "s", .subject = "old", .adapters = adapters, .adapter_count = 3, .weight = 100};

    ck_assert_int_eq(pool_add_static(pool, &entry, now), WB_OK);
    chooses("fr", "s");
    chooses("de", "s");
    stands("fr", 1, 1, 1);
    ck_assert_ptr_null(choose("f"));
}
END_TEST

START_TEST(slots_bound_what_is_loaded)
{
    struct request a, b, c, d;

    open_pool(POLICY_LEAST_LOADED, true);
    has_slots("v", 1);
    has_slots("w", 0);
    says("x", (struct said){.adapters = "yz", .slots = 2}); /* full */
    ck_assert_str_eq(out(&a, "a")->id, "v");
    ck_assert_int_eq(a.reason, REASON_ADAPTER_LOAD);
    ck_assert_str_eq(out(&b, "a")->id, "v"); /* it is being loaded there */
    fails(&c, start(&c, "c", NULL), WB_UNKNOWN_ADAPTER);
    fails(&c, start(&c, "c", "v"), WB_UNKNOWN_ADAPTER);
    ck_assert_int_eq(start(&d, "a", "v").kind, NEXT_CHOSEN);
    request_end(&d, now);
    answer(&a);
    fails(&c, start(&c, "c", NULL), WB_UNKNOWN_ADAPTER);
    says("v", (struct said){.adapters = "a", .slots = 1}); /* now it holds it */
    ck_assert_uint_eq(numbers_of("a").in_flight, 1);
    answer(&b);
    fails(&c, start(&c, "c", NULL), WB_UNKNOWN_ADAPTER);
    ck_assert_str_eq(out(&a, "a")->id, "v");
    ck_assert_int_eq(a.reason, REASON_POLICY);
    answer(&a);
    has_slots("v", 1);
    ck_assert_str_eq(out(&c, "c")->id, "v");
    answer(&c);
    ck_assert_uint_eq(pool_adapter_totals(pool).in_flight, 0);
}
END_TEST

START_TEST(a_busy_loader_is_waited_for)
{
    struct request rq;
    struct next next;

    open_pool(POLICY_LEAST_LOADED, true);
    says("v", (struct said){.adapters = "", .slots = 1, .state = WORKER_BUSY});
    holds("w", "b");
    next = start(&rq, "a", NULL);
    ck_assert_str_eq(next.scope, "adapter");
    fails(&rq, next, WB_OVERLOADED);
    says("v", (struct said){.adapters = "", .slots = 1, .state = WORKER_DRAINING});
    fails(&rq, start(&rq, "a", NULL), WB_UNKNOWN_ADAPTER);
    says("v", (struct said){.adapters = "", .slots = 1});
    ck_assert_str_eq(out(&rq, "a")->id, "v");
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_OK);
    /* The answer to who loads is remembered, but not beyond a change. */
    says("v", (struct said){.adapters = "", .slots = 1, .state = WORKER_DRAINING});
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
    says("v", (struct said){.state = WORKER_LEAVING});
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
    request_end(&rq, now);
}
END_TEST

START_TEST(a_loader_that_gave_its_slot_away_loads_no_more)
{
    struct request rq;

    open_pool(POLICY_LEAST_LOADED, true);
    has_slots("v", 1);
    out(&rq, "a");
    says("v", (struct said){.adapters = "z", .slots = 1});
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_OK); /* at it still */
    answer(&rq);
    ck_assert_int_eq(pool_adapter_status(pool, SPAN_LIT("a")), WB_UNKNOWN_ADAPTER);
}
END_TEST

static void says_numbered(const char *id, char prefix, unsigned count)
{
    static char text[1000][16];
    static struct span names[1000];
    struct worker_report report = {.id = span_str(id),
                                   .subject = SPAN_LIT("s"),
                                   .epoch = 1,
                                   .interval_ms = 5000,
                                   .weight = 100,
                                   .has_adapters = true,
                                   .adapters = names,
                                   .adapter_count = count};

    for (unsigned i = 0; i < count; i++) {
        snprintf(text[i], sizeof(text[i]), "%c%u", prefix, i);
        names[i] = span_str(text[i]);
    }
    (void)pool_report(pool, &report, now);
}

START_TEST(a_worker_exchanges_more_adapters_than_are_kept)
{
    for (int round = 0; round < 4; round++) {
        says_numbered("v", (char)('k' + round), 1000);
        ck_assert_uint_eq(pool_adapter_totals(pool).held, 1000);
        ck_assert_uint_eq(pool_adapter_totals(pool).known, round > 0 ? 1000 + IDLE_MAX : 1000);
    }
    chooses("n999", "v");
    chooses("m999", "nobody");
    says_numbered("v", 'k', 0);
    ck_assert_uint_eq(pool_adapter_totals(pool).held, 0);
}
END_TEST

/* Where each of 200 adapters is loaded, workers having been heard of in this order. */
static void loaders(unsigned first, unsigned step, unsigned count, char chosen[200][8])
{
    open_pool(POLICY_RANDOM, true);
    for (unsigned i = 0; i < count; i++) {
        char id[16];

        snprintf(id, sizeof(id), "w%u", (first + i * step) % count);
        has_slots(id, 4);
    }
    for (int i = 0; i < 200; i++) {
        char name[24];
        struct worker *w;

        snprintf(name, sizeof(name), "model-%d", i);
        w = choose(name);
        ck_assert_ptr_nonnull(w);
        memcpy(chosen[i], w->id, sizeof(chosen[i]));
    }
}

START_TEST(every_router_picks_the_same_loader)
{
    static char one[200][8], two[200][8], more[200][8];
    unsigned moved = 0, seen = 0;

    loaders(0, 1, 10, one);
    loaders(7, 3, 10, two);
    ck_assert_mem_eq(one, two, sizeof(one));
    loaders(0, 1, 11,
            more); /* one more takes its own share from the others, and nothing else moves */
    for (int i = 0; i < 200; i++) {
        seen |= 1U << atoi(one[i] + 1);
        if (strcmp(one[i], more[i]) == 0)
            continue;
        ck_assert_str_eq(more[i], "w10");
        moved++;
    }
    ck_assert_uint_eq(seen, 0x3ff);
    ck_assert(moved > 5 && moved < 40);
}
END_TEST

START_TEST(a_retry_loads_at_the_next_best)
{
    struct request rq;
    struct worker *first;
    struct next next;

    open_pool(POLICY_LEAST_LOADED, true);
    has_slots("v", 1);
    has_slots("w", 1);
    first = out(&rq, "a");
    next = request_failed(&rq, CAUSE_REFUSED, 0, now);
    ck_assert_int_eq(next.kind, NEXT_PAUSE);
    now = next.at;
    ck_assert_int_eq(request_choose(&rq, NULL, (mono){0}, now).kind, NEXT_CHOSEN);
    ck_assert_ptr_ne(rq.charge.worker, first);
    ck_assert_int_eq(rq.reason, REASON_ADAPTER_LOAD);
    ck_assert_int_eq(request_resolve(&rq, now).kind, NEXT_SEND);
    request_sent(&rq, 1, now);
    fails(&rq, request_failed(&rq, CAUSE_NO_RESPONDERS, 0, now), WB_NO_WORKER);
    ck_assert_uint_eq(pool_adapter_totals(pool).in_flight, 0);
}
END_TEST

START_TEST(made_up_names_are_not_kept)
{
    struct request rq;
    char name[24];

    open_pool(POLICY_LEAST_LOADED, true);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "x%d", i);
        fails(&rq, start(&rq, name, NULL), WB_UNKNOWN_ADAPTER);
    }
    ck_assert_uint_eq(pool_adapter_totals(pool).known, 0);
    has_slots("v", 1);
    for (int i = 0; i < 2000; i++) { /* these get a slot, one after the other */
        snprintf(name, sizeof(name), "x%d", i);
        ck_assert_str_eq(out(&rq, name)->id, "v");
        answer(&rq);
    }
    ck_assert_uint_eq(pool_adapter_totals(pool).known, IDLE_MAX);
    ck_assert_uint_eq(pool_adapter_totals(pool).held, 0);
    ck_assert_uint_eq(numbers_of("x1999").requests, 1); /* the latest are still spoken of */
}
END_TEST

START_TEST(the_one_asked_for_longest_ago_loses_its_rotation_only)
{
    static struct span names[ASKED_MAX + 1];
    static char text[ASKED_MAX + 1][16];
    struct worker_report report = {.subject = SPAN_LIT("s"),
                                   .epoch = 1,
                                   .interval_ms = 5000,
                                   .weight = 100,
                                   .has_adapters = true,
                                   .adapters = names,
                                   .adapter_count = ASKED_MAX + 1};

    for (unsigned i = 0; i <= ASKED_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "n%u", i);
        names[i] = span_str(text[i]);
    }
    report.id = SPAN_LIT("v");
    (void)pool_report(pool, &report, now);
    report.id = SPAN_LIT("w");
    (void)pool_report(pool, &report, now);
    for (unsigned i = 0; i < ASKED_MAX; i++)
        chooses(text[i], "v");
    chooses("n0", "w");
    chooses(text[ASKED_MAX], "v"); /* n1 goes */
    chooses("n2", "w");
    chooses("n1", "v"); /* begins again; n3 goes */
    chooses("n1", "w");
    chooses("n0", "v");
    stands("n3", 2, 2, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("adapter");
    TCase *t = tcase_create("adapter");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, every_policy_chooses_among_the_holders, 0, POLICY_COUNT);
    tcase_add_test(t, each_adapter_has_a_cursor_of_its_own);
    tcase_add_test(t, the_rotation_survives_heartbeats_that_say_the_same);
    tcase_add_test(t, holders_come_and_go);
    tcase_add_test(t, ejection_and_marks_reach_the_adapter);
    tcase_add_test(t, busy_holders_are_overloaded_with_scope_adapter);
    tcase_add_test(t, in_flight_moves_with_the_charge);
    tcase_add_test(t, retries_stay_among_the_holders);
    tcase_add_test(t, what_is_dropped_in_flight_is_counted_to_its_end);
    tcase_add_test(t, arrivals_slide);
    tcase_add_test(t, start_wait_waits_for_a_holder_but_not_for_a_target_without);
    tcase_add_test(t, static_workers_hold_what_the_config_says);
    tcase_add_test(t, slots_bound_what_is_loaded);
    tcase_add_test(t, a_busy_loader_is_waited_for);
    tcase_add_test(t, a_loader_that_gave_its_slot_away_loads_no_more);
    tcase_add_test(t, a_worker_exchanges_more_adapters_than_are_kept);
    tcase_add_test(t, every_router_picks_the_same_loader);
    tcase_add_test(t, a_retry_loads_at_the_next_best);
    tcase_add_test(t, made_up_names_are_not_kept);
    tcase_add_test(t, the_one_asked_for_longest_ago_loses_its_rotation_only);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
