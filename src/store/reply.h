/* JetStream's JSON answers to a publish and to a read, and the reply subjects of a consumer. Pure.
 * Private to store. */
#ifndef STORE_REPLY_H
#define STORE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"

/* A publish acknowledgement. Errors are those of events.done. */
WB_MUST_USE wb_status reply_read_ack(struct span json, uint64_t *revision);

struct reply_message {
    uint64_t revision;
    wall created;
    bool deleted;
    char *value; /* malloc'ed, the caller's; NULL when empty */
    size_t value_len;
};
/* STREAM.MSG.GET's answer. On errors (those of events.done) nothing is allocated. */
WB_MUST_USE wb_status reply_read_message(struct span json, struct reply_message *out);

struct reply_place { /* where a delivered message stands */
    uint64_t stream_seq, consumer_seq, pending;
    wall created;
};
/* "$JS.ACK...." of either form. */
bool reply_read_place(const char *subject, struct reply_place *out);

/* Are these values of the headers KV-Operation and Nats-Marker-Reason (NULL: none) a marker's? */
bool reply_is_marker(const char *operation, const char *reason);

#endif
