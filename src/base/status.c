/* The status table. One row per constant; a row's name, code and text change together or not at
 * all. */
#include "waybill/status.h"

#include <stddef.h>
#include <string.h>

struct row {
    const char *name;
    const char *text;
    int code; /* 0: a local result, never sent */
    bool retryable;
};

static const struct row table[WB_STATUS_COUNT] = {
    [WB_OK] = {"ok", "success", 0, false},
    [WB_NO_MEMORY] = {"no_memory", "out of memory", 0, true},
    [WB_FULL] = {"full", "a bounded buffer, queue or table is full", 0, true},
    [WB_INVALID] = {"invalid", "malformed argument or bytes", 0, false},
    [WB_NOT_FOUND] = {"not_found", "not found", 0, false},
    [WB_EXISTS] = {"exists", "exists already", 0, false},
    [WB_CLOSED] = {"closed", "the connection or object is closed", 0, true},
    [WB_TIMED_OUT] = {"timed_out", "the wait ran out", 0, true},
    [WB_DENIED] = {"denied", "NATS refused authentication or permission", 0, false},
    [WB_TOO_LARGE] = {"too_large", "larger than allowed", 0, false},
    [WB_IO] = {"io", "an operating-system call failed", 0, true},
    [WB_UNSUPPORTED] = {"unsupported", "not supported", 0, false},
    [WB_HOLE] = {"hole", "messages of the stream are missing", 0, true},
    [WB_BAD_REQUEST] = {"bad_request", "a header or id is malformed or not accepted", 400, false},
    [WB_UNKNOWN_WORKER] = {"unknown_worker", "the target worker is not known", 404, false},
    [WB_UNKNOWN_ADAPTER] = {"unknown_adapter", "no known worker holds the adapter", 404, false},
    [WB_SESSION_CONFLICT] = {"session_conflict", "target or adapter contradicts the session", 409,
                             false},
    [WB_DUPLICATE] = {"duplicate", "the request id is in flight", 409, false},
    [WB_PAYLOAD_TOO_LARGE] = {"payload_too_large", "the message would exceed max_payload", 413,
                              false},
    [WB_OVERLOADED] = {"overloaded", "all permitted workers are busy and there is no room to wait",
                       429, true},
    [WB_CANCELLED] = {"cancelled", "the client cancelled", 499, false},
    [WB_INTERNAL] = {"internal", "a fault of the router", 500, true},
    [WB_WORKER_LOST] = {"worker_lost", "the worker vanished and may have received the request", 502,
                        true},
    [WB_LINK_LOST] = {"link_lost", "the router lost NATS while waiting", 502, true},
    [WB_INTERRUPTED] = {"interrupted", "the worker failed after its first answer", 502, true},
    [WB_NO_WORKER] = {"no_worker", "no worker can take the request", 503, true},
    [WB_DRAINING] = {"draining", "the router is stopping", 503, true},
    [WB_TIMEOUT] = {"timeout", "the request's time ran out", 504, true},
};

static const struct row *row_of(wb_status status)
{
    return (unsigned)status < WB_STATUS_COUNT ? &table[status] : NULL;
}

const char *wb_status_name(wb_status status)
{
    const struct row *row = row_of(status);

    return row ? row->name : "unknown";
}

const char *wb_status_text(wb_status status)
{
    const struct row *row = row_of(status);

    return row ? row->text : "unknown";
}

int wb_status_code(wb_status status)
{
    const struct row *row = row_of(status);

    return row ? row->code : 0;
}

bool wb_status_retryable(wb_status status)
{
    const struct row *row = row_of(status);

    return row && row->retryable;
}

wb_status wb_status_from_name(const char *name)
{
    if (!name)
        return WB_INVALID;
    /* Local names are not on the wire: only router errors are found. */
    for (int i = WB_BAD_REQUEST; i < WB_STATUS_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return (wb_status)i;
    return WB_INVALID;
}
