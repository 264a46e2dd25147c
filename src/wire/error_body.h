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

#define ERROR_MESSAGE_MAX 512
#define ERROR_WORD_MAX 31

/* A body as the client's side reads it: copies, cut to fit. */
struct error_brief {
    char message[ERROR_MESSAGE_MAX + 1];
    char scope[ERROR_WORD_MAX + 1]; /* "": does not apply */
    unsigned count;
    struct {
        char worker[WB_NAME_MAX + 1]; /* "": the service hides it */
        char cause[ERROR_WORD_MAX + 1];
    } attempts[RECORD_TRIED_MAX];
};
/* WB_INVALID: not the body of a router's error (a refusal that was forwarded has the worker's). */
WB_MUST_USE wb_status error_body_decode(struct span json, struct error_brief *out);

#endif
