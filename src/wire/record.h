/* The attribution record (spec section 6): encoded by hand, members in the contract's order;
 * decoded with cJSON. Pure. */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

#define RECORD_TRIED_MAX 16
#define RECORD_SIZE_MAX 8192

struct record_tried {
    struct span worker, cause;
};

/* Empty span = null; int64 fields: -1 = null. */
struct record {
    struct span worker;
    int64_t rank;
    int64_t attempt;
    struct span service, request_id;
    struct record_tried tried[RECORD_TRIED_MAX];
    unsigned tried_count;
    struct span selected, policy, reason, session, adapter, subject, router, rid;
    int64_t worker_epoch;
    struct span trace;
    wall received_at;
    int64_t first_reply_us;
    wall finished_at; /* us < 0: null */
    int64_t replies, code;
    struct span outcome;
};

WB_MUST_USE wb_status record_encode(const struct record *r, struct buf *out);

/* What the ledger and the tools need of a stored record. Strings are NUL-terminated copies. */
struct record_brief {
    int v;
    char worker[WB_NAME_MAX + 1];
    int64_t rank;
    char rid[192];
    wall received_at;
    char outcome[16];
};
WB_MUST_USE wb_status record_decode_brief(
    struct span json, struct record_brief *out); /* WB_INVALID, WB_UNSUPPORTED: v > 1 */
/* The 32 hex digits of a W3C traceparent header's trace id; empty if malformed or all zero. */
struct span record_trace_of(struct span traceparent);

#endif
