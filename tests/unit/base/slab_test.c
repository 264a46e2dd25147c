#include "base/slab.h"

#include "base/rng.h"
#include "suite.h"

#include <string.h>

struct object {
    uint64_t value;
    char tail[13]; /* an odd size */
};

START_TEST(an_old_handle_never_finds_the_next_owner)
{
    struct slab *slab = slab_create(sizeof(struct object), 1);
    uint64_t first, second;
    struct object *o = slab_take(slab, &first);

    ck_assert_uint_eq(first >> 32, 1);
    o->value = 7;
    ck_assert_ptr_eq(slab_get(slab, first), o);
    ck_assert_ptr_null(slab_take(slab, &second)); /* at the cap */
    slab_give(slab, first);
    ck_assert_ptr_null(slab_get(slab, first));
    ck_assert_ptr_null(slab_get(slab, first + (1ull << 32))); /* forged: free, next generation */
    ck_assert_ptr_eq(slab_take(slab, &second), o);
    ck_assert_uint_ne(first, second);
    ck_assert_uint_eq(o->value, 0); /* zeroed */
    ck_assert_ptr_null(slab_get(slab, first));
    ck_assert_ptr_eq(slab_get(slab, second), o);
    ck_assert_ptr_null(slab_get(slab, 0));
    ck_assert_ptr_null(slab_get(slab, UINT64_MAX));
    ck_assert_ptr_null(slab_get(slab, second + 1));
    slab_destroy(slab);
    slab_destroy(NULL);
}
END_TEST

enum { MAX = 1000 };

START_TEST(random_use_agrees_with_a_table)
{
    static struct {
        uint64_t handle;
        struct object *at;
    } taken[MAX];
    static uint64_t dead[20000];
    struct slab *slab = slab_create(sizeof(struct object), MAX);
    unsigned n = 0, ndead = 0;
    struct rng rng;

    rng_seed(&rng, 11);
    for (int step = 0; step < 20000; step++) {
        if (rng_below(&rng, 100) < 55) {
            uint64_t handle;
            struct object *o = slab_take(slab, &handle);

            ck_assert_int_eq(o != NULL, n < MAX);
            if (!o)
                continue;
            ck_assert_uint_eq((uintptr_t)o % _Alignof(max_align_t), 0);
            o->value = handle;
            memset(o->tail, 0xff, sizeof(o->tail));
            taken[n].handle = handle;
            taken[n++].at = o;
        } else if (n) {
            unsigned i = (unsigned)rng_below(&rng, n);

            slab_give(slab, taken[i].handle);
            dead[ndead++] = taken[i].handle;
            taken[i] = taken[--n];
        }
        ck_assert_uint_eq(slab_used(slab), n);
        if (n) {
            unsigned i = (unsigned)rng_below(&rng, n);

            ck_assert_ptr_eq(slab_get(slab, taken[i].handle), taken[i].at);
            ck_assert_uint_eq(taken[i].at->value, taken[i].handle);
        }
        if (ndead)
            ck_assert_ptr_null(slab_get(slab, dead[rng_below(&rng, ndead)]));
    }
    slab_destroy(slab);
}
END_TEST

struct visit {
    struct slab *slab;
    unsigned count;
};

static void give_odd(void *arg, void *object, uint64_t handle)
{
    struct visit *v = arg;

    ck_assert_ptr_eq(slab_get(v->slab, handle), object);
    v->count++;
    if (((struct object *)object)->value % 2)
        slab_give(v->slab, handle);
}

START_TEST(each_visits_all_and_may_give_back)
{
    struct visit v = {slab_create(sizeof(struct object), 200), 0};

    for (unsigned i = 0; i < 200; i++) {
        uint64_t handle;

        ((struct object *)slab_take(v.slab, &handle))->value = i;
    }
    slab_each(v.slab, give_odd, &v);
    ck_assert_uint_eq(v.count, 200);
    slab_each(v.slab, give_odd, &v);
    ck_assert_uint_eq(v.count, 300);
    ck_assert_uint_eq(slab_used(v.slab), 100);
    slab_destroy(v.slab);
}
END_TEST

RUN_SUITE("slab", an_old_handle_never_finds_the_next_owner, random_use_agrees_with_a_table,
          each_visits_all_and_may_give_back)
