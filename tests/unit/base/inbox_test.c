#include "base/inbox.h"

#include "base/loop.h"
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { THREADS = 4, EACH = 20000, MAX = 64 };

struct letter {
    struct inbox_item item; /* first */
    int thread, number;
};

struct desk {
    struct loop *loop;
    struct inbox *inbox;
    int next[THREADS];
    int total;
};

struct poster {
    struct desk *desk;
    int thread;
    unsigned refused;
};

static void receive(void *arg, struct inbox_item *item)
{
    struct desk *desk = arg;
    struct letter *letter = (struct letter *)item;

    ck_assert_int_eq(letter->number, desk->next[letter->thread]++);
    free(letter);
    if (++desk->total == THREADS * EACH)
        loop_stop(desk->loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;

    for (int i = 0; i < EACH; i++) {
        struct letter *letter = calloc(1, sizeof(*letter));

        letter->thread = poster->thread;
        letter->number = i;
        while (inbox_post(poster->desk->inbox, &letter->item) == WB_FULL) {
            poster->refused++;
            sched_yield();
        }
    }
    return NULL;
}

START_TEST(four_threads_post_and_none_is_lost)
{
    struct desk desk = {.loop = loop_create()};
    struct poster posters[THREADS];
    pthread_t threads[THREADS];

    desk.inbox = inbox_create(desk.loop, MAX, receive, &desk);
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){&desk, i, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    loop_run(desk.loop);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(desk.next[i], EACH);
    }
    inbox_destroy(desk.inbox);
    loop_destroy(desk.loop);
}
END_TEST

static struct letter *letter_new(int number)
{
    struct letter *letter = calloc(1, sizeof(*letter));

    letter->number = number;
    return letter;
}

START_TEST(the_cap_refuses_and_destroy_hands_over_the_rest)
{
    struct desk desk = {.loop = loop_create()};
    struct letter *extra = letter_new(2);

    desk.inbox = inbox_create(desk.loop, 2, receive, &desk);
    ck_assert_int_eq(inbox_post(desk.inbox, &letter_new(0)->item), WB_OK);
    ck_assert_int_eq(inbox_post(desk.inbox, &letter_new(1)->item), WB_OK);
    ck_assert_int_eq(inbox_post(desk.inbox, &extra->item), WB_FULL);
    loop_turn(desk.loop, 1000);
    ck_assert_int_eq(desk.total, 2);
    ck_assert_int_eq(inbox_post(desk.inbox, &extra->item), WB_OK);
    inbox_destroy(desk.inbox);
    ck_assert_int_eq(desk.total, 3);
    inbox_destroy(NULL);
    loop_destroy(desk.loop);
}
END_TEST

RUN_SUITE("inbox", four_threads_post_and_none_is_lost,
          the_cap_refuses_and_destroy_hands_over_the_rest)
