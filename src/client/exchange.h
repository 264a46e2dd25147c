/* One request out, and what comes back on a reply subject of its own. Private to client. */
#ifndef CLIENT_EXCHANGE_H
#define CLIENT_EXCHANGE_H

#include "base/clock.h"
#include "client/result.h"

/* Checks, subscribes to the reply subject, then sends. replies: what Waybill-Replies says, NULL:
 * nothing. *sub is NULL on failure. */
WB_MUST_USE wb_status exchange_begin(natsConnection *nc, const char *subject, const void *data,
                                     size_t len, const wb_request_options *options,
                                     const char *replies, natsSubscription **sub);
/* The next message. WB_NOT_FOUND: the server says that nobody serves the subject. */
WB_MUST_USE wb_status exchange_next(natsSubscription *sub, mono until, wb_result **out);
/* When the whole exchange ends at the latest; MONO_NEVER: the request has no total time. */
mono exchange_end(const wb_request_options *options);
/* How long the next message may take. */
mono exchange_patience(mono end);

#endif
