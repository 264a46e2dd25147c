#include "base/map.h"

#include "base/rng.h"
#include "suite.h"

#include <stdio.h>

struct item {
    char key[24];
    size_t length;
    bool in;
};

static struct span key_of(const struct item *item)
{
    return span_of(item->key, item->length);
}

START_TEST(put_get_remove)
{
    struct map *map = map_create(2);
    char other[] = "one";
    int a, b;

    ck_assert_ptr_null(map_get(map, SPAN_LIT("one")));
    ck_assert_ptr_null(map_remove(map, SPAN_LIT("one")));
    ck_assert_int_eq(map_put(map, SPAN_LIT("one"), &a), WB_OK);
    ck_assert_int_eq(map_put(map, span_str(other), &b), WB_EXISTS); /* by bytes, not by place */
    ck_assert_ptr_eq(map_get(map, span_str(other)), &a);
    ck_assert_int_eq(map_put(map, SPAN_EMPTY, &b), WB_OK); /* the empty key is one */
    ck_assert_ptr_eq(map_get(map, SPAN_EMPTY), &b);
    ck_assert_int_eq(map_put(map, SPAN_LIT("two"), &b), WB_FULL);
    ck_assert_int_eq(map_put(map, SPAN_LIT("one"), &b), WB_EXISTS);
    ck_assert_ptr_null(map_get(map, span_of("one\0", 4)));
    ck_assert_uint_eq(map_count(map), 2);
    ck_assert_ptr_eq(map_remove(map, SPAN_LIT("one")), &a);
    ck_assert_ptr_eq(map_remove(map, SPAN_EMPTY), &b);
    ck_assert_uint_eq(map_count(map), 0);
    ck_assert_int_eq(map_put(map, SPAN_LIT("two"), &b), WB_OK);
    map_destroy(map);
    map_destroy(NULL);
}
END_TEST

START_TEST(random_use_agrees_with_flags)
{
    enum { N = 3000, MAX = 2000 };
    static struct item items[N];
    struct map *map = map_create(MAX);
    unsigned n = 0;
    struct rng rng;

    rng_seed(&rng, 21);
    for (int i = 0; i < N; i++)
        items[i].length = (size_t)snprintf(items[i].key, sizeof(items[i].key), "request-%d", i);
    for (int step = 0; step < 60000; step++) {
        struct item *item = &items[rng_below(&rng, N)];

        if (rng_below(&rng, 100) < 60) {
            wb_status expected = item->in ? WB_EXISTS : n == MAX ? WB_FULL : WB_OK;

            ck_assert_int_eq(map_put(map, key_of(item), item), expected);
            if (expected == WB_OK) {
                item->in = true;
                n++;
            }
        } else {
            ck_assert_ptr_eq(map_remove(map, key_of(item)), item->in ? item : NULL);
            n -= item->in;
            item->in = false;
        }
        item = &items[rng_below(&rng, N)];
        ck_assert_ptr_eq(map_get(map, key_of(item)), item->in ? item : NULL);
        ck_assert_uint_eq(map_count(map), n);
    }
    map_destroy(map);
}
END_TEST

struct walk {
    struct map *map;
    const struct item *items;
    int next;
    bool removing;
};

static void visit(void *arg, void *value)
{
    struct walk *w = arg;

    ck_assert_ptr_eq(value, &w->items[w->next++]); /* order of insertion */
    if (w->removing)
        ck_assert_ptr_eq(map_remove(w->map, key_of(value)), value);
}

START_TEST(each_keeps_the_order_and_may_remove)
{
    static struct item items[500];
    struct walk w = {map_create(500), items, 0, false};

    map_each(w.map, visit, &w);
    ck_assert_int_eq(w.next, 0);
    for (int i = 0; i < 500; i++) {
        items[i].length = (size_t)snprintf(items[i].key, sizeof(items[i].key), "%d", i);
        ck_assert_int_eq(map_put(w.map, key_of(&items[i]), &items[i]), WB_OK);
    }
    map_each(w.map, visit, &w);
    ck_assert_int_eq(w.next, 500);
    w.next = 0;
    w.removing = true;
    map_each(w.map, visit, &w);
    ck_assert_int_eq(w.next, 500);
    ck_assert_uint_eq(map_count(w.map), 0);
    map_destroy(w.map);
}
END_TEST

RUN_SUITE("map", put_get_remove, random_use_agrees_with_flags, each_keeps_the_order_and_may_remove)
