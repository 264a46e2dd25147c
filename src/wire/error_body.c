#include "wire/error_body.h"

#include "wire/json.h"

wb_status error_body_encode(struct buf *out, wb_status error, struct span message,
                            struct span request_id, const struct record_tried *attempts,
                            unsigned count, const char *scope, bool disclose)
{
    struct json j;

    json_begin(&j, out);
    json_object(&j, NULL);
    json_text(&j, "error", span_str(wb_status_name(error)));
    json_text(&j, "message", message.len ? message : span_str(wb_status_text(error)));
    json_text_or_null(&j, "request_id", request_id);
    json_array(&j, "attempts");
    for (unsigned i = 0; i < count; i++) {
        json_object(&j, NULL);
        json_text_or_null(&j, "worker", disclose ? attempts[i].worker : SPAN_EMPTY);
        json_text(&j, "cause", attempts[i].cause);
        json_end_object(&j);
    }
    json_end_array(&j);
    if (scope)
        json_text(&j, "scope", span_str(scope));
    json_end_object(&j);
    return json_status(&j);
}
