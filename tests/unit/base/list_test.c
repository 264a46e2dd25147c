#include "base/list.h"

#include "base/rng.h"
#include "suite.h"

#include <stdint.h>

struct item {
    int number;
    struct link link;
};

static struct item *first(const struct list *list)
{
    return LIST_OWNER(list_first(list), struct item, link);
}

static struct item *after(const struct list *list, const struct item *item)
{
    return LIST_OWNER(list_next(list, &item->link), struct item, link);
}

static struct item *last(const struct list *list)
{
    return LIST_OWNER(list_last(list), struct item, link);
}

START_TEST(an_empty_list_has_no_ends)
{
    struct list list;

    list_init(&list);
    ck_assert(list_is_empty(&list));
    ck_assert_ptr_null(first(&list));
    ck_assert_ptr_null(last(&list));
}
END_TEST

START_TEST(what_was_taken_out_may_be_put_on_another)
{
    struct list one, two;
    struct item item = {.number = 7};

    list_init(&one);
    list_init(&two);
    ck_assert(!link_is_on(&item.link));
    list_append(&one, &item.link);
    ck_assert(link_is_on(&item.link));
    ck_assert_ptr_eq(first(&one), &item);
    ck_assert_ptr_eq(last(&one), &item);
    ck_assert_ptr_null(after(&one, &item));
    link_remove(&item.link);
    ck_assert(!link_is_on(&item.link));
    ck_assert(list_is_empty(&one));
    list_prepend(&two, &item.link);
    ck_assert_int_eq(first(&two)->number, 7);
    link_remove(&item.link);
    ck_assert(list_is_empty(&two));
}
END_TEST

enum { ITEMS = 20, STEPS = 20000 };

/* Against an array of numbers that is shifted by hand. */
START_TEST(any_order_of_steps_keeps_the_order)
{
    static struct item items[ITEMS];
    struct list list;
    struct rng rng;
    int order[ITEMS], count = 0;

    list_init(&list);
    rng_seed(&rng, 1);
    for (int i = 0; i < ITEMS; i++)
        items[i].number = i;
    for (int step = 0; step < STEPS; step++) {
        int n = (int)rng_below(&rng, ITEMS), at = 0;
        struct item *item;

        if (link_is_on(&items[n].link)) {
            while (order[at] != n)
                at++;
            for (count--; at < count; at++)
                order[at] = order[at + 1];
            link_remove(&items[n].link);
        } else if (rng_below(&rng, 2) == 0) {
            order[count++] = n;
            list_append(&list, &items[n].link);
        } else {
            for (int i = count++; i > 0; i--)
                order[i] = order[i - 1];
            order[0] = n;
            list_prepend(&list, &items[n].link);
        }
        item = first(&list);
        for (int i = 0; i < count; i++, item = after(&list, item))
            ck_assert_int_eq(item->number, order[i]);
        ck_assert_ptr_null(item);
        ck_assert(list_is_empty(&list) == (count == 0));
        if (count > 0)
            ck_assert_int_eq(last(&list)->number, order[count - 1]);
    }
}
END_TEST

RUN_SUITE("list", an_empty_list_has_no_ends, what_was_taken_out_may_be_put_on_another,
          any_order_of_steps_keeps_the_order)
