/* What both sides of libwaybill need of nats.c's messages and status codes. Private to client. */
#ifndef CLIENT_MESSAGE_H
#define CLIENT_MESSAGE_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

wb_status message_status(natsStatus status);
/* nats.c checks no header: these do. WB_INVALID: a name or value that would break the protocol. */
WB_MUST_USE wb_status message_add_all(natsMsg *message, const wb_header *headers, unsigned count);
WB_MUST_USE wb_status message_set(natsMsg *message, struct span name, const char *value);
/* A value that is known to be safe. */
WB_MUST_USE wb_status message_set_literal(natsMsg *message, struct span name, const char *value);
WB_MUST_USE wb_status message_set_int(natsMsg *message, struct span name, int64_t value);
/* NULL: none. Lives in the message. */
const char *message_get(const natsMsg *message, struct span name);
/* `absent` if there is none or it is no number of at most 18 digits. */
int64_t message_get_int(const natsMsg *message, struct span name, int64_t absent);
/* The same of a header's value; NULL: absent. */
int64_t message_number(const char *value, int64_t absent);
bool message_is_subject(const char *subject);

#endif
