/* Each policy's distribution against expectation, through a pool. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"

static struct registry *registry;
static struct pool *pool;
static mono now;

static void open_pool(enum policy_kind policy)
{
    struct registry_options options = {.max_workers = 1024, .seed = 5};
    struct pool_options pool_opts = {.name = "chat",
                                     .policy = policy,
                                     .ratio = 8,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = 20};

    now = (mono){1000};
    registry = registry_create(&options);
    pool = registry_add_pool(registry, &pool_opts);
    ck_assert_ptr_nonnull(pool);
}

static struct worker *worker(const char *id, uint32_t weight, uint32_t capacity, const char *class,
                             enum worker_state state)
{
    struct worker_report report = {.id = span_str(id),
                                   .subject = SPAN_LIT("s"),
                                   .epoch = 1,
                                   .interval_ms = 5000,
                                   .state = state,
                                   .weight = weight,
                                   .capacity = capacity,
                                   .class_name = span_str(class)};

    (void)pool_report(pool, &report, now);
    return pool_find(pool, span_str(id));
}

static struct worker *ready(const char *id, uint32_t weight)
{
    return worker(id, weight, 0, NULL, WORKER_READY);
}

static struct worker *choose(void)
{
    struct choice choice = {0};

    return pool_choose(pool, &choice, false, now);
}

static void sequence(const char *expected)
{
    for (const char *c = expected; *c; c++) {
        struct choice choice = {0};
        struct worker *seen = pool_choose(pool, &choice, true, now);
        struct worker *w = choose();

        ck_assert_ptr_eq(seen, w); /* a peek told it and moved nothing */
        ck_assert_msg(w->id[0] == *c, "%c instead of %c before \"%s\"", w->id[0], *c, c + 1);
    }
}

START_TEST(round_robin_rotates_exactly_and_stays_stable)
{
    open_pool(POLICY_ROUND_ROBIN);
    ready("a", 100);
    ready("b", 100);
    ready("c", 100);
    sequence("abcabcab");
    worker("b", 100, 0, NULL, WORKER_BUSY);
    sequence("caca");
    ready("b", 100);
    sequence("b"); /* is behind the others, claims one turn and not the missed ones */
    sequence("cabcab");
    worker("a", 100, 0, NULL, WORKER_LEAVING);
    sequence("cbcb");
    registry_destroy(registry);
}
END_TEST

START_TEST(round_robin_is_smooth_by_weight)
{
    unsigned a = 0, run = 0, longest = 0;

    open_pool(POLICY_ROUND_ROBIN);
    ready("a", 500);
    ready("b", 100);
    ready("c", 100);
    for (int i = 0; i < 700; i++) {
        bool is_a = choose()->id[0] == 'a';

        a += is_a;
        run = is_a ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    ck_assert_uint_eq(a, 500);
    ck_assert_uint_le(longest, 5);
    registry_destroy(registry);
}
END_TEST

START_TEST(random_draws_by_weight)
{
    unsigned a = 0;

    open_pool(POLICY_RANDOM);
    ready("a", 300);
    ready("b", 100);
    for (int i = 0; i < 8000; i++)
        a += choose()->id[0] == 'a';
    ck_assert(a > 5800 && a < 6200);
    registry_destroy(registry);
}
END_TEST

START_TEST(power_of_two_takes_the_less_loaded_of_two_and_never_the_worst)
{
    struct charge charges[12] = {{0}};
    unsigned counts[3] = {0};
    struct worker *a, *b;

    open_pool(POLICY_POWER_OF_TWO);
    a = ready("a", 100);
    b = ready("b", 100);
    ready("c", 100);
    for (int i = 0; i < 10; i++)
        charge_take(&charges[i], a, now);
    charge_take(&charges[10], b, now);
    for (int i = 0; i < 3000; i++)
        counts[choose()->id[0] - 'a']++;
    ck_assert_uint_eq(counts[0], 0);
    /* c wins whenever drawn (2 of 3 pairs), b only against a */
    ck_assert(counts[2] > 1850 && counts[2] < 2150);
    for (int i = 0; i < 12; i++)
        charge_release(&charges[i], now);
    registry_destroy(registry);
}
END_TEST

START_TEST(least_loaded_divides_by_weight_and_draws_among_ties)
{
    struct charge charges[40] = {{0}};
    unsigned a = 0, first_a = 0;

    open_pool(POLICY_LEAST_LOADED);
    ready("a", 300);
    ready("b", 100);
    for (int i = 0; i < 1000; i++)
        first_a += choose()->id[0] == 'a';
    ck_assert(first_a > 400 && first_a < 600);
    for (int i = 0; i < 40; i++) {
        struct worker *w = choose();

        charge_take(&charges[i], w, now);
        a += w->id[0] == 'a';
    }
    ck_assert_uint_eq(a, 30);
    for (int i = 0; i < 40; i++)
        charge_release(&charges[i], now);
    registry_destroy(registry);
}
END_TEST

START_TEST(device_weighted_follows_the_formula)
{
    struct charge charges[64] = {{0}};
    uint64_t cpu = 0, other = 0;

    open_pool(POLICY_DEVICE_WEIGHTED);
    worker("c1", 100, 0, "cpu", WORKER_READY);
    worker("c2", 100, 0, "cpu", WORKER_READY);
    worker("g1", 100, 0, "cuda", WORKER_READY);
    for (int i = 0; i < 64; i++) {
        struct worker *w = choose();
        bool use_cpu = cpu < other * 2 / (8 * 1);

        ck_assert_int_eq(use_cpu, w->id[0] == 'c');
        cpu += use_cpu;
        other += !use_cpu;
        charge_take(&charges[i], w, now);
    }
    ck_assert_uint_gt(cpu, 0);
    for (int i = 0; i < 64; i++)
        charge_release(&charges[i], now);
    worker("g1", 100, 0, "cuda", WORKER_BUSY);
    ck_assert_int_eq(choose()->id[0], 'c'); /* the others have nobody free */
    worker("g1", 100, 0, "cuda", WORKER_LEAVING);
    ck_assert_int_eq(choose()->id[0], 'c'); /* one group only */
    worker("c1", 100, 0, "cpu", WORKER_LEAVING);
    worker("c2", 100, 0, "cpu", WORKER_LEAVING);
    worker("g1", 100, 0, "cuda", WORKER_READY);
    ck_assert_int_eq(choose()->id[0], 'g');
    registry_destroy(registry);
}
END_TEST

static struct worker *by_key(unsigned key)
{
    struct choice choice = {.key = span_of(&key, sizeof(key))};

    return pool_choose(pool, &choice, false, now);
}

START_TEST(hash_is_the_same_in_every_router_and_moves_little)
{
    static char before[2000][16];
    unsigned moved = 0, first = 0;
    char id[16];

    open_pool(POLICY_HASH);
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "w%d", i);
        ready(id, 100);
    }
    for (unsigned key = 0; key < 2000; key++) {
        strcpy(before[key], by_key(key)->id);
        first += strcmp(before[key], "w3") == 0;
    }
    registry_destroy(registry);
    ck_assert(first > 60 && first < 400);

    open_pool(POLICY_HASH); /* another router learns of them in another order, and of more before */
    ready("x", 1000);
    for (int i = 9; i >= 0; i--) {
        snprintf(id, sizeof(id), "w%d", i);
        ready(id, i == 4 ? 700 : 100);
    }
    worker("x", 100, 0, NULL, WORKER_LEAVING);
    ready("w4", 100);
    for (unsigned key = 0; key < 2000; key++)
        ck_assert_str_eq(by_key(key)->id, before[key]);
    worker("w3", 100, 0, NULL, WORKER_BUSY);
    for (unsigned key = 0; key < 2000; key++)
        moved += strcmp(by_key(key)->id, before[key]) != 0;
    ck_assert_uint_eq(moved, first); /* only its own keys */
    registry_destroy(registry);
}
END_TEST

START_TEST(hash_is_the_same_after_a_thousand_came_and_went)
{
    static char before[2000]; /* the id's digit */
    char id[16];

    open_pool(POLICY_HASH);
    ready("w0", 1);
    ready("w1", 100);
    for (unsigned key = 0; key < 2000; key++)
        before[key] = by_key(key)->id[1];
    registry_destroy(registry);

    open_pool(POLICY_HASH);
    for (int i = 1000; i-- > 0;) {
        snprintf(id, sizeof(id), "w%d", i);
        ready(id, i == 0 ? 1 : 100);
    }
    for (int i = 2; i < 1000; i++) {
        snprintf(id, sizeof(id), "w%d", i);
        worker(id, 100, 0, NULL, WORKER_LEAVING);
    }
    for (unsigned key = 0; key < 2000; key++)
        ck_assert_int_eq(by_key(key)->id[1], before[key]);
    registry_destroy(registry);
}
END_TEST

START_TEST(hash_keeps_to_its_bound_even_for_one_key)
{
    static struct charge charges[1000];
    char id[16];

    open_pool(POLICY_HASH);
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "w%d", i);
        ready(id, 100);
    }
    for (int i = 0; i < 1000; i++) {
        struct worker *w = by_key(7);

        charge_take(&charges[i], w, now);
        /* ceil(1.25 * (i + 1) / 10) */
        ck_assert_uint_le(w->occupancy, (unsigned)(5 * (i + 1) + 39) / 40);
    }
    for (int i = 0; i < 1000; i++)
        charge_release(&charges[i], now);
    registry_destroy(registry);
}
END_TEST

START_TEST(hash_finds_the_last_free_one)
{
    char id[16];

    open_pool(POLICY_HASH);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "w%d", i);
        worker(id, 100, 0, NULL, i == 777 ? WORKER_READY : WORKER_BUSY);
    }
    for (unsigned key = 0; key < 50; key++)
        ck_assert_str_eq(by_key(key)->id, "w777");
    registry_destroy(registry);
}
END_TEST

START_TEST(tried_ones_are_never_chosen)
{
    enum policy_kind policy = (enum policy_kind)_i;
    struct worker *tried[2];
    char key = 'k';
    struct choice choice = {.key = {&key, 1}, .tried = tried, .tried_count = 2};

    open_pool(policy);
    tried[0] = ready("a", 1000);
    tried[1] = ready("b", 1000);
    ready("c", 1);
    for (int i = 0; i < 100; i++)
        ck_assert_str_eq(pool_choose(pool, &choice, i % 2, now)->id, "c");
    worker("c", 1, 0, NULL, WORKER_BUSY);
    ck_assert_ptr_null(pool_choose(pool, &choice, false, now));
    choice.tried_count = 0;
    ck_assert_ptr_nonnull(pool_choose(pool, &choice, false, now));
    registry_destroy(registry);
}
END_TEST

START_TEST(names_go_both_ways)
{
    enum policy_kind kind;

    for (int i = 0; i < POLICY_COUNT; i++) {
        ck_assert(policy_from_name(span_str(policy_name((enum policy_kind)i)), &kind));
        ck_assert_int_eq((int)kind, i);
    }
    ck_assert(!policy_from_name(SPAN_LIT("best"), &kind));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core policies");
    TCase *tests = tcase_create("policies");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, round_robin_rotates_exactly_and_stays_stable);
    tcase_add_test(tests, round_robin_is_smooth_by_weight);
    tcase_add_test(tests, random_draws_by_weight);
    tcase_add_test(tests, power_of_two_takes_the_less_loaded_of_two_and_never_the_worst);
    tcase_add_test(tests, least_loaded_divides_by_weight_and_draws_among_ties);
    tcase_add_test(tests, device_weighted_follows_the_formula);
    tcase_add_test(tests, hash_is_the_same_in_every_router_and_moves_little);
    tcase_add_test(tests, hash_is_the_same_after_a_thousand_came_and_went);
    tcase_add_test(tests, hash_keeps_to_its_bound_even_for_one_key);
    tcase_add_test(tests, hash_finds_the_last_free_one);
    tcase_add_loop_test(tests, tried_ones_are_never_chosen, 0, POLICY_DIRECT);
    tcase_add_test(tests, names_go_both_ways);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
