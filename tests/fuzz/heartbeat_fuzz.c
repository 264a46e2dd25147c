/* Any bytes as a heartbeat: refused with a reason, or accepted within its limits and the same again
 * after encoding. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/heartbeat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct heartbeat *hb,
                       wb_status (*encode)(const struct heartbeat *hb, struct buf *out))
{
    struct heartbeat again;
    char why[128];
    struct buf out;

    buf_init(&out, 4 * HEARTBEAT_SIZE_MAX);
    CHECK(encode(hb, &out) == WB_OK);
    if (buf_len(&out) <= HEARTBEAT_SIZE_MAX) {
        CHECK(heartbeat_decode(buf_span(&out), &again, why) == WB_OK);
        CHECK(again.epoch == hb->epoch && again.state == hb->state);
        CHECK(again.interval_ms == hb->interval_ms && again.capacity == hb->capacity);
        CHECK(again.inflight == hb->inflight && again.queued == hb->queued);
        CHECK(again.inflight_by_count == hb->inflight_by_count);
        CHECK(again.adapter_count == hb->adapter_count && again.ranks == hb->ranks);
        CHECK(again.has_meta == hb->has_meta && span_eq(again.meta, hb->meta));
        CHECK(strcmp(again.class_name, hb->class_name) == 0);
        heartbeat_fini(&again);
    }
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heartbeat hb;
    char why[128] = "";

    if (heartbeat_decode(span_of(data, size), &hb, why) != WB_OK) {
        CHECK(memchr(why, '\0', sizeof(why)) != NULL && why[0] != '\0');
        return 0;
    }
    CHECK(hb.state < HB_STATE_COUNT);
    CHECK(hb.adapter_count <= HEARTBEAT_ADAPTERS_MAX);
    CHECK(hb.inflight_by_count <= HEARTBEAT_ROUTERS_MAX);
    round_trip(&hb, heartbeat_encode_msgpack);
    round_trip(&hb, heartbeat_encode_json);
    heartbeat_fini(&hb);
    return 0;
}
