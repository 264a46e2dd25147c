#include "wire/headers.h"

#include <strings.h>

#define INIT(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

const struct request_header_info request_headers[RH_COUNT] = {
    [RH_REQUEST_ID] = {INIT("Waybill-Request-Id"), NULL,
                       "the request's id; else a valid Nats-Msg-Id; else the router makes one"},
    [RH_SESSION] = {INIT("Waybill-Session"), NULL,
                    "session affinity key; without sessions only the key for hash"},
    [RH_TARGET] = {INIT("Waybill-Target"), "target",
                   "<worker> or <worker>/<rank>: exactly this one"},
    [RH_ADAPTER] = {INIT("Waybill-Adapter"), NULL, "only workers that hold this adapter"},
    [RH_HASH_KEY] = {INIT("Waybill-Hash-Key"), NULL, "key for the policy hash"},
    [RH_REPLIES] = {INIT("Waybill-Replies"), NULL,
                    "one, stream or none; else the service's replies"},
    [RH_TIMEOUT_MS] = {INIT("Waybill-Timeout-Ms"), "timeout",
                       "total time, 1 to 86400000; only shortens the service's limit"},
    [RH_IDEMPOTENT] = {INIT("Waybill-Idempotent"), "idempotent",
                       "true: may reach a second worker; false: not even to resume"},
    [RH_RETRY] = {INIT("Waybill-Retry"), "retry", "avoid or prefer the recorded worker of this id"},
    [RH_REPLY] = {INIT("Waybill-Reply"), "retry",
                  "with Waybill-Retry: the older request's reply subject"},
    [RH_PRIORITY] = {INIT("Waybill-Priority"), "priority",
                     "low, normal or high: order while waiting"},
    [RH_ADVISE] = {INIT("Waybill-Advise"), "advise", "true: answer with the choice, send nothing"},
};

enum request_header request_header_find(struct span name)
{
    if (!span_starts(name, SPAN_LIT("Waybill-")))
        return RH_COUNT;
    for (int i = 0; i < RH_COUNT; i++)
        if (span_eq(request_headers[i].name, name))
            return (enum request_header)i;
    return RH_COUNT;
}

bool header_is_waybill(struct span name)
{
    return name.len >= 8 && strncasecmp(name.ptr, "Waybill-", 8) == 0;
}
