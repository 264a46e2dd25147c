/* The two trees against plain arrays. */
#include <check.h>
#include <stdlib.h>

#include "core/min_tree.h"
#include "core/sum_tree.h"

#define N 300

START_TEST(min_tree_agrees_with_an_array)
{
    struct min_tree tree = {0};
    uint64_t keys[N];
    struct rng rng;

    rng_seed(&rng, 1);
    ck_assert_uint_eq(min_tree_first(&tree), TREE_NONE);
    for (uint32_t size = 16; size <= 512; size *= 2) {
        uint32_t used = size < N ? size : N;

        ck_assert(min_tree_grow(&tree, size));
        for (uint32_t i = size == 16 ? 0 : size / 2; i < used; i++)
            keys[i] = TREE_ABSENT;
        for (int turn = 0; turn < 4000; turn++) {
            uint32_t at = (uint32_t)rng_below(&rng, used), first = TREE_NONE, drawn;
            uint64_t min = TREE_ABSENT;

            keys[at] = rng_below(&rng, 3) ? rng_below(&rng, 5) : TREE_ABSENT;
            min_tree_set(&tree, at, keys[at]);
            for (uint32_t i = 0; i < used; i++) {
                if (keys[i] < min) {
                    min = keys[i];
                    first = i;
                }
            }
            ck_assert_uint_eq(min_tree_min(&tree), min);
            ck_assert_uint_eq(min_tree_first(&tree), first);
            drawn = min_tree_draw(&tree, &rng);
            ck_assert(first == TREE_NONE ? drawn == TREE_NONE : keys[drawn] == min);
        }
    }
    min_tree_fini(&tree);
}
END_TEST

START_TEST(equals_are_drawn_equally)
{
    struct min_tree tree = {0};
    unsigned counts[64] = {0};
    struct rng rng;

    rng_seed(&rng, 2);
    ck_assert(min_tree_grow(&tree, 64));
    for (uint32_t i = 0; i < 64; i++)
        min_tree_set(&tree, i, i % 2 ? 7 : 9);
    for (int i = 0; i < 32000; i++)
        counts[min_tree_draw(&tree, &rng)]++;
    for (uint32_t i = 0; i < 64; i++)
        ck_assert(i % 2 ? counts[i] > 850 && counts[i] < 1150 : counts[i] == 0);
    min_tree_fini(&tree);
}
END_TEST

START_TEST(sums_are_drawn_by_weight_and_hidden_ones_never)
{
    struct sum_tree tree = {0};
    unsigned counts[40] = {0};
    uint32_t hidden[2] = {3, 20}, saved[2];
    struct rng rng;

    rng_seed(&rng, 3);
    ck_assert_uint_eq(sum_tree_draw(&tree, &rng), TREE_NONE);
    ck_assert(sum_tree_grow(&tree, 16));
    for (uint32_t i = 0; i < 16; i++)
        sum_tree_set(&tree, i, i);
    ck_assert(sum_tree_grow(&tree, 64));
    for (uint32_t i = 16; i < 40; i++)
        sum_tree_set(&tree, i, i);
    sum_tree_hide(&tree, hidden, 2, saved);
    for (int i = 0; i < 75700; i++) /* the weights sum to 780 - 23 */
        counts[sum_tree_draw(&tree, &rng)]++;
    sum_tree_restore(&tree, hidden, 2, saved);
    for (uint32_t i = 0; i < 40; i++) {
        unsigned expected = i == 3 || i == 20 ? 0 : 100 * i;

        ck_assert_msg(labs((long)counts[i] - (long)expected) <= 60 + expected / 10, "%u: %u", i,
                      counts[i]);
    }
    ck_assert_uint_eq(counts[3] + counts[20] + counts[0], 0);
    ck_assert_uint_eq(sum_tree_get(&tree, 20), 20);
    sum_tree_fini(&tree);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core trees");
    TCase *tests = tcase_create("trees");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, min_tree_agrees_with_an_array);
    tcase_add_test(tests, equals_are_drawn_equally);
    tcase_add_test(tests, sums_are_drawn_by_weight_and_hidden_ones_never);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
