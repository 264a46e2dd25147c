/* The waiting queue of a service: requests for which everybody permitted is only busy. A request
 * waits for a field: any worker of its pool, or one given worker. A pure order with wake-ups: who
 * waits how long, and what follows when its time is over, is request.c's; who runs the clock is the
 * router's.
 *
 * Thread: the loop's. Blocking: never. Time is an argument. Nothing allocates: a ticket lies in its
 * request. */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define QUEUE_BOUND_MAX 1024 /* bound requests of a pool whose queue_limit is 0 */

struct pool;
struct registry;
struct request;
struct waiting;
struct worker;

enum priority { PRIORITY_HIGH = -1, PRIORITY_NORMAL, PRIORITY_LOW };
#define PRIORITIES 3

/* Written when its request waits for the first time, and read only after that. */
struct ticket {
    struct waiting *waiting; /* the field: the pool's, or one worker's. NULL: not in the queue */
    struct worker *only;     /* that one; a reference is held. NULL: any */
    struct ticket *left, *right;
    uint64_t number; /* of arrival in this pool */
    mono due;        /* when the waiting is over; zero: it begins afresh */
    uint32_t rank;
    uint8_t line; /* by priority, the highest is 0 */
};

/* The next request whose turn has come, in state REQUEST_GRANTED: a worker that it may go to is
 * free, or waiting has become hopeless. Call request_choose at once, before anything else happens
 * in core. NULL: nobody else's turn now. O(log n) in those that wait, however many workers there
 * are. */
struct request *queue_next(struct registry *registry, mono now);
/* May queue_next find somebody? Cheap: a worker has become free, or gone, where requests wait. */
bool queue_due(const struct registry *registry);
uint32_t pool_waiting(const struct pool *pool);

#endif
