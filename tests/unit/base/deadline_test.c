#include "base/deadline.h"

#include "base/rng.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>

enum { N = 300 };

struct thing {
    struct deadline d;
    mono expected; /* the model: when it must fire */
    int fired;
};

static struct thing things[N];
static struct deadlines *heap;
static struct rng rng;
static mono last_due, run_now;
static int rearm; /* in percent of the callbacks */

static void fire(struct deadline *d, mono now)
{
    struct thing *t = (struct thing *)d; /* d is first */

    ck_assert_int_eq(now.us, run_now.us);
    ck_assert_int_le(t->expected.us, now.us);
    ck_assert(mono_is_never(d->due) && d->slot == 0); /* disarmed first */
    ck_assert_int_ge(t->expected.us, last_due.us);    /* in order of due */
    last_due = t->expected;
    t->expected = MONO_NEVER;
    t->fired++;
    if ((int)rng_below(&rng, 100) < rearm) {
        struct thing *other = &things[rng_below(&rng, N)];
        mono due = mono_add_us(now, 1 + (int64_t)rng_below(&rng, 1000));

        ck_assert_int_eq(deadline_set(heap, &other->d, due), WB_OK);
        other->expected = due;
    }
}

static void setup(unsigned max)
{
    heap = deadlines_create(max);
    rng_seed(&rng, 99);
    rearm = 0;
    for (int i = 0; i < N; i++) {
        deadline_init(&things[i].d, fire);
        things[i].expected = MONO_NEVER;
        things[i].fired = 0;
    }
}

static void run_at(int64_t us)
{
    run_now = (mono){us};
    last_due = (mono){INT64_MIN};
    deadlines_run(heap, run_now, UINT32_MAX);
}

static void expect_agreement(mono now)
{
    unsigned armed = 0, wrong = 0;
    mono first = MONO_NEVER;

    for (int i = 0; i < N; i++) {
        wrong += things[i].d.due.us != things[i].expected.us;
        wrong += things[i].expected.us <= now.us; /* left behind */
        armed += !mono_is_never(things[i].expected);
        first = mono_min(first, things[i].expected);
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(deadlines_armed(heap), armed);
    /* May be early after a move to later, never late. */
    ck_assert_int_le(deadlines_next(heap).us, first.us);
}

START_TEST(random_use_agrees_with_a_naive_model)
{
    int64_t now = 0;

    setup(N);
    rearm = 40;
    for (int step = 0; step < 20000; step++) {
        struct thing *t = &things[rng_below(&rng, N)];
        mono due = {now + 1 + (int64_t)rng_below(&rng, 5000)};

        switch (rng_below(&rng, 8)) {
        case 0:
            deadline_cancel(heap, &t->d);
            t->expected = MONO_NEVER;
            break;
        case 1:
            ck_assert_int_eq(deadline_set(heap, &t->d, MONO_NEVER), WB_OK);
            t->expected = MONO_NEVER;
            break;
        case 2:
            now += (int64_t)rng_below(&rng, 500);
            run_at(now);
            break;
        default:
            ck_assert_int_eq(deadline_set(heap, &t->d, due), WB_OK);
            t->expected = due;
        }
        if (step % 16 == 0) {
            run_at(now);
            expect_agreement((mono){now});
        }
    }
    deadlines_destroy(heap);
}
END_TEST

START_TEST(the_cap_refuses_and_changes_nothing)
{
    setup(3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(deadline_set(heap, &things[i].d, (mono){10 + i}), WB_OK);
    ck_assert_int_eq(deadline_set(heap, &things[3].d, (mono){1}), WB_FULL);
    ck_assert(things[3].d.slot == 0 && mono_is_never(things[3].d.due));
    ck_assert_int_eq(deadline_set(heap, &things[0].d, (mono){5}),
                     WB_OK); /* a move needs no place */
    ck_assert_int_eq(deadlines_next(heap).us, 5);
    deadline_cancel(heap, &things[1].d);
    deadline_cancel(heap, &things[1].d);
    ck_assert_int_eq(deadline_set(heap, &things[3].d, (mono){1}), WB_OK);
    deadlines_destroy(heap);
    deadlines_destroy(NULL);
}
END_TEST

static void fire_again(struct deadline *d, mono now)
{
    ((struct thing *)d)->fired++;
    ck_assert_int_eq(deadline_set(heap, d, now), WB_OK); /* due at once, for ever */
}

START_TEST(the_budget_ends_a_run)
{
    setup(N);
    deadline_init(&things[0].d, fire_again);
    ck_assert_int_eq(deadline_set(heap, &things[0].d, (mono){1}), WB_OK);
    ck_assert_uint_eq(deadlines_run(heap, (mono){5}, 7), 7);
    ck_assert_int_eq(things[0].fired, 7);
    ck_assert_uint_eq(deadlines_run(heap, (mono){5}, 0), 0);
    deadlines_destroy(heap);
}
END_TEST

static void fire_and_cancel_next(struct deadline *d, mono now)
{
    (void)now;
    ((struct thing *)d)->fired++;
    deadline_cancel(heap, &things[1].d);
}

START_TEST(a_callback_may_cancel_one_that_is_due_too)
{
    setup(N);
    deadline_init(&things[0].d, fire_and_cancel_next);
    ck_assert_int_eq(deadline_set(heap, &things[0].d, (mono){1}), WB_OK);
    ck_assert_int_eq(deadline_set(heap, &things[1].d, (mono){2}), WB_OK);
    ck_assert_uint_eq(deadlines_run(heap, (mono){5}, 10), 1);
    ck_assert_int_eq(things[1].fired, 0);
    ck_assert(mono_is_never(deadlines_next(heap)));
    deadlines_destroy(heap);
}
END_TEST

START_TEST(a_move_to_later_fires_once_at_the_later_time)
{
    setup(N);
    ck_assert_int_eq(deadline_set(heap, &things[0].d, (mono){10}), WB_OK);
    for (int64_t us = 11; us < 100; us++)
        ck_assert_int_eq(deadline_set(heap, &things[0].d, (mono){us}), WB_OK);
    things[0].expected = (mono){99};
    ck_assert_uint_eq(deadlines_run(heap, (mono){50}, 10), 0);
    ck_assert_int_eq(deadlines_next(heap).us, 99); /* put right when it came up */
    run_at(99);
    ck_assert_int_eq(things[0].fired, 1);
    deadlines_destroy(heap);
}
END_TEST

RUN_SUITE("deadline", random_use_agrees_with_a_naive_model, the_cap_refuses_and_changes_nothing,
          the_budget_ends_a_run, a_callback_may_cancel_one_that_is_due_too,
          a_move_to_later_fires_once_at_the_later_time)
