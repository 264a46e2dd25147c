/* What the bucket of sessions holds (spec section 8): key "<service>.<name>", value by
 * schemas/session.schema.json. Pure. */
#ifndef WIRE_BINDING_H
#define WIRE_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

#define BINDING_KEY_MAX (WB_NAME_MAX + 1 + 3 * WB_LONG_NAME_MAX) /* each byte may become =HH */
#define BINDING_SIZE_MAX 1024

struct binding {
    bool bound; /* false: its owner is choosing */
    char router[WB_NAME_MAX + 1];
    char worker[WB_NAME_MAX + 1]; /* "" unless bound */
    int32_t rank;                 /* -1: none */
    int64_t epoch;                /* -1: unknown */
};

WB_MUST_USE wb_status binding_encode(const struct binding *binding, struct buf *out);
/* WB_INVALID; WB_UNSUPPORTED: of a later version. */
WB_MUST_USE wb_status binding_decode(struct span json, struct binding *out);

/* Length written (no NUL). The names must be checked before (name_is_id, name_is_long). */
size_t binding_key(struct span service, struct span name, char out[BINDING_KEY_MAX]);
/* The two names of a key; *name into `text`. False: it is no such key. */
bool binding_key_read(struct span key, struct span *service, struct span *name,
                      char text[WB_LONG_NAME_MAX]);

#endif
