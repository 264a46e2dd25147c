/* Everything the router counts, in one table: /metrics, show.stats and the documentation walk it.
 * Loop thread only. */
#ifndef ROUTER_COUNTS_H
#define ROUTER_COUNTS_H

#include <stdint.h>

#include "waybill/status.h"

enum count {
    COUNT_REQUESTS,
    COUNT_ATTEMPTS,
    COUNT_RETRIES,
    COUNT_ANSWERED,
    COUNT_ONE_WAY,
    COUNT_STREAMS,
    COUNT_STREAM_MESSAGES,
    COUNT_ADVISED,
    COUNT_CANCELS,
    COUNT_LATE,
    COUNT_FORGED,
    COUNT_STREAM_ACKS,
    COUNT_PROGRESS,
    COUNT_REFUSALS,
    COUNT_NO_RESPONDERS,
    COUNT_GONE,
    COUNT_TIMEOUTS,
    COUNT_LOST,
    COUNT_INTERRUPTED,
    COUNT_REPLY_REFUSED,
    COUNT_CLIENT_LOST,
    COUNT_HEARTBEATS,
    COUNT_HEARTBEATS_BAD,
    COUNT_HEARTBEATS_IGNORED,
    COUNT_DUPLICATE_WORKER,
    COUNT_WORKERS_JOINED,
    COUNT_WORKERS_LOST,
    COUNT_WORKERS_LEFT,
    COUNT_EJECTIONS,
    COUNT_RESTORATIONS,
    COUNT_BLIND,
    COUNT_ATTRIBUTION_WRITTEN,
    COUNT_ATTRIBUTION_RETRIED,
    COUNT_ATTRIBUTION_FAILED,
    COUNT_ATTRIBUTION_DROPPED,
    COUNT_ATTRIBUTION_SUPERSEDED,
    COUNT_ATTRIBUTION_UNCONFIRMED,
    COUNT_REQUESTS_WITH_ADAPTER,
    COUNT_ADAPTER_LOADS,
    COUNT_LINK_DOWN,
    COUNT_COUNT
};

struct count_info {
    const char *name; /* without the waybill_ before and the _total behind it */
    const char *help;
};
extern const struct count_info count_table[COUNT_COUNT];

#endif
