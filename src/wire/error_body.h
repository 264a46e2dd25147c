/* The JSON body of the router's error answers (spec section 5, schemas/error.schema.json). Pure. */
#ifndef WIRE_ERROR_BODY_H
#define WIRE_ERROR_BODY_H

#include "base/buf.h"
#include "wire/record.h"

/* scope: "worker", "adapter", "service" or NULL. disclose=false leaves each attempt's worker out
 * (null). */
WB_MUST_USE wb_status error_body_encode(struct buf *out, wb_status error, struct span message,
                                        struct span request_id, const struct record_tried *attempts,
                                        unsigned count, const char *scope, bool disclose);

#endif
