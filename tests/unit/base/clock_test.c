#include "base/clock.h"

#include "base/rng.h"
#include "suite.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void expect_text(int64_t us, const char *text)
{
    char out[WALL_TEXT_SIZE];
    wall back = {1};

    wall_format((wall){us}, out);
    ck_assert_str_eq(out, text);
    ck_assert(wall_parse(out, &back));
    ck_assert_int_eq(back.us, us);
}

START_TEST(known_times_are_written_and_read)
{
    expect_text(0, "1970-01-01T00:00:00.000000Z");
    expect_text(-1, "1969-12-31T23:59:59.999999Z");
    expect_text(1767225600000000, "2026-01-01T00:00:00.000000Z");
    expect_text(1709210096123456, "2024-02-29T12:34:56.123456Z");
    expect_text(253402300799999999, "9999-12-31T23:59:59.999999Z");
}
END_TEST

START_TEST(the_coarse_clock_is_a_little_behind)
{
    mono before = clock_mono(), coarse = clock_mono_coarse(), after = clock_mono();

    ck_assert(!mono_before(after, coarse));
    ck_assert_int_lt(mono_diff_us(before, coarse), 20000);
}
END_TEST

START_TEST(times_that_do_not_fit_are_cut)
{
    char out[WALL_TEXT_SIZE];

    wall_format((wall){INT64_MAX}, out);
    ck_assert_str_eq(out, "9999-12-31T23:59:59.999999Z");
    wall_format((wall){INT64_MIN}, out);
    ck_assert_str_eq(out, "0000-01-01T00:00:00.000000Z");
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const char *const bad[] = {"",
                                      "2026-01-01T00:00:00.000000",
                                      "2026-01-01T00:00:00.000000Zx",
                                      "2026-01-01t00:00:00.000000Z",
                                      "2026-02-30T00:00:00.000000Z",
                                      "2026-13-01T00:00:00.000000Z",
                                      "2026-01-00T00:00:00.000000Z",
                                      "2026-01-01T24:00:00.000000Z",
                                      "2026-01-01T00:00:60.000000Z",
                                      "2025-02-29T00:00:00.000000Z",
                                      "2026-01-01T00:00:00Z",
                                      "-026-01-01T00:00:00.000000Z"};
    wall out = {42};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!wall_parse(bad[i], &out), "%s", bad[i]);
    ck_assert(!wall_parse(NULL, &out));
    ck_assert_int_eq(out.us, 42);
}
END_TEST

static void *format_many(void *arg)
{
    struct rng rng;

    rng_seed(&rng, (uint64_t)(size_t)arg);
    for (int i = 0; i < 5000; i++) {
        int64_t us = (int64_t)rng_below(&rng, 4102444800000000);
        char out[WALL_TEXT_SIZE], expected[64];
        time_t second = us / 1000000;
        struct tm tm;

        wall_format((wall){us}, out);
        gmtime_r(&second, &tm);
        strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(expected + strlen(expected), 16, ".%06dZ", (int)(us % 1000000));
        if (strcmp(out, expected) != 0)
            return "differs";
    }
    return NULL;
}

START_TEST(threads_format_without_mixing)
{
    pthread_t threads[4];
    void *result;

    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, format_many, (void *)(i + 1)), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        ck_assert_ptr_null(result);
    }
}
END_TEST

START_TEST(monotonic_sums_saturate)
{
    mono t = {1000};

    ck_assert_int_eq(mono_add_us(t, -1).us, 999);
    ck_assert_int_eq(mono_add_ms(t, 2).us, 3000);
    ck_assert(mono_is_never(mono_add_us(t, INT64_MAX)));
    ck_assert(mono_is_never(mono_add_ms(t, INT64_MAX / 10)));
    ck_assert(mono_is_never(mono_add_us(MONO_NEVER, 5)));
    ck_assert(mono_before(t, MONO_NEVER) && mono_min(t, MONO_NEVER).us == 1000);
    t = clock_mono();
    ck_assert(!mono_before(clock_mono(), t));
    ck_assert_int_gt(clock_wall().us, 1700000000000000);
}
END_TEST

RUN_SUITE("clock", known_times_are_written_and_read, the_coarse_clock_is_a_little_behind,
          times_that_do_not_fit_are_cut, other_texts_are_refused, threads_format_without_mixing,
          monotonic_sums_saturate)
