/* A list under a lock, and a wake.
 *
 * An item is the poster's, on the list, or the handler's. The loop takes the whole list at once and
 * handles it without the lock, so a poster waits for a few stores at most. Only the post that finds
 * the list empty wakes the loop: the others ride with it. Order is kept for each poster and over
 * all of them. */
#include "base/inbox.h"

#include "base/check.h"
#include "base/loop.h"

#include <pthread.h>
#include <stdlib.h>

struct inbox {
    pthread_mutex_t lock; /* guards first, last, count */
    struct inbox_item *first, **last;
    unsigned count, max;
    struct loop_wake *wake;
    void (*handle)(void *arg, struct inbox_item *item);
    void *arg;
};

static bool drain(struct inbox *inbox)
{
    struct inbox_item *item;

    pthread_mutex_lock(&inbox->lock);
    item = inbox->first;
    inbox->first = NULL;
    inbox->last = &inbox->first;
    inbox->count = 0;
    pthread_mutex_unlock(&inbox->lock);
    if (!item)
        return false;
    while (item) {
        struct inbox_item *next = item->next;

        item->next = NULL;
        inbox->handle(inbox->arg, item);
        item = next;
    }
    return true;
}

static void on_wake(void *arg)
{
    drain(arg);
}

struct inbox *inbox_create(struct loop *loop, unsigned max,
                           void (*handle)(void *arg, struct inbox_item *item), void *arg)
{
    struct inbox *inbox = calloc(1, sizeof(*inbox));

    CHECK(max > 0);
    if (!inbox)
        return NULL;
    inbox->last = &inbox->first;
    inbox->max = max;
    inbox->handle = handle;
    inbox->arg = arg;
    inbox->wake = loop_wake_create(loop, on_wake, inbox);
    if (!inbox->wake) {
        free(inbox);
        return NULL;
    }
    pthread_mutex_init(&inbox->lock, NULL);
    return inbox;
}

void inbox_destroy(struct inbox *inbox)
{
    if (!inbox)
        return;
    while (drain(inbox)) /* a handler may have posted again */
        ;
    loop_wake_destroy(inbox->wake);
    pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}

wb_status inbox_post(struct inbox *inbox, struct inbox_item *item)
{
    bool first;

    item->next = NULL;
    pthread_mutex_lock(&inbox->lock);
    if (inbox->count == inbox->max) {
        pthread_mutex_unlock(&inbox->lock);
        return WB_FULL;
    }
    first = inbox->count++ == 0;
    *inbox->last = item;
    inbox->last = &item->next;
    pthread_mutex_unlock(&inbox->lock);
    if (first)
        loop_wake_send(inbox->wake);
    return WB_OK;
}
