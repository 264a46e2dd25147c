/* The one way into the loop from another thread: items are posted, the loop handles them in order.
 * Intrusive; bounded. */
#ifndef BASE_INBOX_H
#define BASE_INBOX_H

#include "waybill/status.h"

struct loop;
struct inbox;
struct inbox_item {
    struct inbox_item *next;
};

/* `handle` runs on the loop and takes ownership of each item. */
struct inbox *inbox_create(struct loop *loop, unsigned max,
                           void (*handle)(void *arg, struct inbox_item *item), void *arg);
/* Loop thread, after the posting threads have ended. Items still queued are handed to `handle`.
 * Takes NULL. */
void inbox_destroy(struct inbox *inbox);
/* Any thread. WB_FULL (max items wait) leaves the item with the caller. */
WB_MUST_USE wb_status inbox_post(struct inbox *inbox, struct inbox_item *item);

#endif
