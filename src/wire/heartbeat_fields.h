/* The one table of a heartbeat's fields, for both decoders and both encoders. Private to wire. */
#ifndef WIRE_HEARTBEAT_FIELDS_H
#define WIRE_HEARTBEAT_FIELDS_H

#include <stddef.h>

#include "wire/heartbeat.h"

enum heartbeat_kind {
    HK_INT,
    HK_I64,
    HK_U32,
    HK_STATE,
    HK_CLASS,
    HK_RANKS,
    HK_ADAPTERS,
    HK_INFLIGHT_BY,
    HK_META
};

enum heartbeat_field_id {
    HF_V,
    HF_EPOCH,
    HF_STATE,
    HF_INTERVAL_MS,
    HF_CAPACITY,
    HF_INFLIGHT,
    HF_INFLIGHT_BY,
    HF_QUEUED,
    HF_WEIGHT,
    HF_CLASS,
    HF_RANKS,
    HF_ADAPTERS,
    HF_ADAPTER_SLOTS,
    HF_META,
    HF_COUNT
};

struct heartbeat_field {
    struct span name;
    enum heartbeat_kind kind;
    size_t offset; /* numbers only */
    int64_t min, max;
    const char *expected; /* for the refusal's text */
};

#define HEARTBEAT_META_MAX 4096
#define HEARTBEAT_INFLIGHT_BY_MAX 1000000 /* times HEARTBEAT_ROUTERS_MAX it still fits 32 bits */

extern const struct heartbeat_field heartbeat_fields[HF_COUNT];

#endif
