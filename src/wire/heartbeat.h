/* Heartbeats (spec section 11): msgpack map or JSON object, told apart by the first byte. Decoding
 * validates everything and allocates one block; the result is freed with heartbeat_fini. Pure: no
 * clock, no I/O. */
#ifndef WIRE_HEARTBEAT_H
#define WIRE_HEARTBEAT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

enum heartbeat_state { HB_READY, HB_BUSY, HB_DRAINING, HB_LEAVING, HB_STATE_COUNT };
extern const char *const heartbeat_state_names[HB_STATE_COUNT];

#define HEARTBEAT_SIZE_MAX 65536
#define HEARTBEAT_ADAPTERS_MAX 1024
#define HEARTBEAT_RANKS_MAX 4096
#define HEARTBEAT_COUNT_MAX 2147483647 /* of capacity, inflight, queued, adapter_slots */
#define HEARTBEAT_ROUTERS_MAX 1024
#define HEARTBEAT_INTERVAL_DEFAULT_MS 5000

struct heartbeat_inflight {
    struct span router; /* a valid id */
    uint32_t count;
};

struct heartbeat {
    int v;
    int64_t epoch; /* 0..2^53 */
    enum heartbeat_state state;
    uint32_t interval_ms; /* 100..60000 */
    uint32_t capacity;    /* 0: no limit known */
    uint32_t inflight, queued;
    bool has_inflight_by;
    struct heartbeat_inflight *inflight_by;
    uint32_t inflight_by_count;
    uint32_t weight;                  /* 1..1000 */
    char class_name[WB_NAME_MAX + 1]; /* "" none */
    uint32_t ranks;    /* number of ranks: ids are 0..ranks-1; 0: none. On the wire: a number, or a
                          list 0..n-1 */
    bool has_adapters; /* false: unchanged */
    struct span *adapters;
    uint32_t adapter_count;
    uint32_t adapter_slots;
    bool has_meta;
    struct span meta; /* as JSON text of an object, at most 4096 bytes */
    void *memory;     /* owns all of the above */
};

void heartbeat_defaults(struct heartbeat *hb);
/* On failure `why` (static or inside the given buffer) says which field and what was expected;
 * nothing to free. */
WB_MUST_USE wb_status heartbeat_decode(struct span bytes, struct heartbeat *hb, char why[128]);
void heartbeat_fini(struct heartbeat *hb);
/* msgpack, every field that is not its default, plus v and epoch. */
WB_MUST_USE wb_status heartbeat_encode_msgpack(const struct heartbeat *hb, struct buf *out);
WB_MUST_USE wb_status heartbeat_encode_json(const struct heartbeat *hb, struct buf *out);

#endif
