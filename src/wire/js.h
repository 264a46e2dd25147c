/* JetStream's small JSON, as much as the ledger and the blindness checks need. Pure. */
#ifndef WIRE_JS_H
#define WIRE_JS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

/* A publish acknowledgement, or the error in its place. */
struct js_ack {
    struct span stream; /* into the input */
    uint64_t seq;
    bool duplicate;
    int code, err_code; /* 0: no error */
};
/* Fast path for the plain form; cJSON for anything else. WB_INVALID: neither an ack nor an error.
 */
WB_MUST_USE wb_status js_ack_parse(struct span json, struct js_ack *out);

/* Answer of STREAM.MSG.GET: the message's data decoded from base64 into `data`, its sequence, and
 * whether it is a delete or purge marker. */
struct js_message {
    uint64_t seq;
    bool marker;
    int code, err_code; /* 404/10037: none */
};
WB_MUST_USE wb_status js_msg_get_parse(struct span json, struct js_message *out, struct buf *data);
/* {"last_by_subj":"..."} */
WB_MUST_USE wb_status js_msg_get_request(struct buf *out, struct span subject);
/* {"subject":"..."} for STREAM.NAMES, and its answer: calls fn per name. WB_UNSUPPORTED: the server
 * answered with an error. */
WB_MUST_USE wb_status js_names_request(struct buf *out, struct span subject);
WB_MUST_USE wb_status js_names_parse(struct span json, void (*fn)(void *arg, struct span name),
                                     void *arg);

#endif
