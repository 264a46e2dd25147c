/* Bodies of admin requests: a JSON object with string members, or nothing. Pure. */
#ifndef WIRE_CONTROL_H
#define WIRE_CONTROL_H

#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

struct control_body { /* "" where absent or null */
    char service[WB_NAME_MAX + 1];
    char request_id[WB_REQUEST_ID_MAX + 1];
    char session[WB_LONG_NAME_MAX + 1];
};

/* An empty payload is an empty object. WB_INVALID: not an object, or a member of the wrong type or
 * too long. Unknown members are ignored. */
WB_MUST_USE wb_status control_body_parse(struct span json, struct control_body *out);

#endif
