/* What is said before and around messages: the server's INFO read, our CONNECT written. Pure but
 * for credential files. */
#ifndef LANE_HANDSHAKE_H
#define LANE_HANDSHAKE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "lane/credentials.h"
#include "waybill/status.h"

struct handshake_info {
    char server_id[80], version[32], nonce[128];
    uint64_t max_payload; /* 0: not told */
    bool headers, tls_required, tls_available, ldm;
    bool has_urls; /* connect_urls was there, perhaps empty */
};

/* Each URL of connect_urls goes to on_url (may be NULL), valid during the call. WB_INVALID: not a
 * JSON object. */
WB_MUST_USE wb_status handshake_read_info(struct span json, struct handshake_info *info,
                                          void (*on_url)(void *arg, struct span url), void *arg);
/* Appends `CONNECT {...}\r\n`. */
WB_MUST_USE wb_status handshake_write_connect(struct buf *out, const struct credentials *who,
                                              const char *name, bool tls);

/* What an -ERR means for the connection. */
enum handshake_verdict {
    HANDSHAKE_DENIED_PUBLISH,   /* lives; `subject` was refused */
    HANDSHAKE_DENIED_SUBSCRIBE, /* lives; `subject` was refused */
    HANDSHAKE_LIVES,            /* to be told, nothing more */
    HANDSHAKE_REFUSED,          /* over: who we are is not, or no longer, accepted */
    HANDSHAKE_OVER              /* over for another reason */
};
enum handshake_verdict handshake_read_error(struct span text, struct span *subject);

#endif
