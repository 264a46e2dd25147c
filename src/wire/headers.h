/* Header names, once. Request headers (spec section 3) stand in a table that the parser and the
 * documentation walk. */
#ifndef WIRE_HEADERS_H
#define WIRE_HEADERS_H

#include "base/span.h"

enum request_header {
    RH_REQUEST_ID,
    RH_SESSION,
    RH_TARGET,
    RH_ADAPTER,
    RH_HASH_KEY,
    RH_REPLIES,
    RH_TIMEOUT_MS,
    RH_IDEMPOTENT,
    RH_RETRY,
    RH_REPLY,
    RH_PRIORITY,
    RH_ADVISE,
    RH_COUNT
};
struct request_header_info {
    struct span name;
    const char *accept; /* the word of a service's `accept` list that governs it, or NULL */
    const char *help;
};
extern const struct request_header_info request_headers[RH_COUNT];
/* RH_COUNT: not in the table. Case-sensitive. */
enum request_header request_header_find(struct span name);

#define H_REQUEST_ID SPAN_LIT("Waybill-Request-Id")
#define H_ATTEMPT SPAN_LIT("Waybill-Attempt")
#define H_SUBJECT SPAN_LIT("Waybill-Subject")
#define H_ROUTER SPAN_LIT("Waybill-Router")
#define H_DEADLINE_MS SPAN_LIT("Waybill-Deadline-Ms")
#define H_RANK SPAN_LIT("Waybill-Rank")
#define H_HOPS SPAN_LIT("Waybill-Hops")
#define H_RESUME_FROM SPAN_LIT("Waybill-Resume-From")
#define H_PROGRESS SPAN_LIT("Waybill-Progress")
#define H_END SPAN_LIT("Waybill-End")
#define H_SEQ SPAN_LIT("Waybill-Seq")
#define H_WORKER SPAN_LIT("Waybill-Worker")
#define H_OUTCOME SPAN_LIT("Waybill-Outcome")
#define H_COUNT_ SPAN_LIT("Waybill-Count")
#define H_ERROR SPAN_LIT("Waybill-Error")
#define H_DELIVERED SPAN_LIT("Waybill-Delivered")
#define H_RETRY_AFTER_MS SPAN_LIT("Waybill-Retry-After-Ms")
#define H_ATTRIBUTION SPAN_LIT("Waybill-Attribution")
#define H_RETRY_STATE SPAN_LIT("Waybill-Retry-State")
#define H_REPLY SPAN_LIT("Waybill-Reply")
#define H_SERVICE_ERROR SPAN_LIT("Nats-Service-Error")
#define H_SERVICE_ERROR_CODE SPAN_LIT("Nats-Service-Error-Code")
#define H_MSG_ID SPAN_LIT("Nats-Msg-Id")
#define H_TRACE_DEST SPAN_LIT("Nats-Trace-Dest")
#define H_TRACE_ONLY SPAN_LIT("Nats-Trace-Only")
#define H_EXPECTED_LAST_SUBJECT_SEQ SPAN_LIT("Nats-Expected-Last-Subject-Sequence")
#define H_TRACEPARENT SPAN_LIT("traceparent")

/* "Waybill-" in any case: such a name speaks between router, worker and client only. */
bool header_is_waybill(struct span name);

#endif
