/* Adapters (spec section 9): for each name that workers of a pool hold or load, who holds it, what
 * is in flight for it, and how often it was asked for of late. Choosing for an adapter goes through
 * pool_choose with choice.adapter; this header is for what comes before and after that.
 *
 * Thread: the loop's. Blocking: never. Names are spans of 1 to WB_LONG_NAME_MAX bytes. */
#ifndef CORE_ADAPTER_H
#define CORE_ADAPTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"

struct pool;
struct worker;
struct adapter;
struct holding; /* one worker and one adapter that it holds, or is to load */

#define ADAPTER_WINDOW_S 60 /* over which arrivals are counted */

/* Does any listed worker hold it, routable or not? */
bool pool_adapter_held(const struct pool *pool, struct span name);
/* Can a new request for it go anywhere? WB_OK: there is a candidate, though it may be busy.
 * WB_NO_WORKER: none of its holders is routable. WB_UNKNOWN_ADAPTER: nobody holds it. The latter
 * two also mean that no worker may load it. */
wb_status pool_adapter_status(struct pool *pool, struct span name);
/* One request for it has come. False: nobody holds or loads it, or did so of late; nothing is
 * remembered of it. */
bool pool_adapter_arrived(struct pool *pool, struct span name, mono now);
/* When a holder may be free again for all we know. */
int64_t pool_adapter_retry_after_ms(struct pool *pool, struct span name, mono now);

bool worker_holds(const struct worker *w, struct span name);
/* Holds it, is loading it, or may load it into a free slot. */
bool worker_may_serve(const struct worker *w, struct span name);
/* What a charge of the worker for this adapter counts in (charge_adapter). Made, and one of the
 * worker's slots taken, if the worker does not hold the adapter; then it must be charged at once.
 * NULL: no memory, or too many names. */
struct holding *worker_holding(struct worker *w, struct span name);

struct adapter_numbers {
    struct span name;
    uint32_t holders, in_flight;
    uint32_t arrivals; /* within the window */
    uint64_t requests; /* since it became known */
    const struct adapter *adapter;
};
struct adapter_standing {
    uint32_t routable, free; /* of its holders */
};
/* Looks at each holder if nobody has asked for the adapter yet. */
struct adapter_standing adapter_standing(const struct adapter *adapter);
struct adapter_totals {
    uint32_t known; /* held, loading, or asked for not long ago */
    uint32_t held;
    uint64_t in_flight;
    uint64_t left_out; /* names that workers said and that found no room */
};
struct adapter_totals pool_adapter_totals(const struct pool *pool);
/* In the order in which they became known, until fn returns false; fn changes nothing. */
void pool_each_adapter(const struct pool *pool,
                       bool (*fn)(void *arg, const struct adapter_numbers *numbers), void *arg,
                       mono now);

#endif
