/* Bytes to and from one server: name lookup, TCP, optional TLS, on the loop. One object per attempt
 * to connect. Every event comes from the loop, never from inside a call; an event may close the
 * transport. */
#ifndef LANE_TRANSPORT_H
#define LANE_TRANSPORT_H

#include <stdint.h>

#include "base/span.h"
#include "lane/tls.h"
#include "waybill/status.h"

struct loop;
struct transport;

struct transport_events {
    void (*connected)(void *arg); /* TCP stands */
    void (*secured)(void *arg);   /* TLS stands, after transport_secure */
    /* While clear or secure. writable: only after transport_write took less than it was given. */
    void (*ready)(void *arg, bool readable, bool writable);
    void (*failed)(void *arg, wb_status why, const char *text); /* before or in TLS; once */
};

/* Addresses are tried in turn, each with its share of timeout_ms. NULL: no memory. */
struct transport *transport_open(struct loop *loop, const char *host, int port, int64_t timeout_ms,
                                 const struct transport_events *events, void *arg);
void transport_close(struct transport *t); /* takes NULL; no event follows */
void transport_secure(struct transport *t, const struct tls_settings *settings);
/* Bytes read; 0: none now; -1: ended, and transport_text says how. `more` is set when the transport
 * itself still holds bytes, so that the loop would not tell. */
int64_t transport_read(struct transport *t, char *out, size_t n, bool *more);
/* Bytes taken, perhaps fewer: then `ready` with writable follows. -1: broken. */
int64_t transport_write(struct transport *t, const char *bytes, size_t n);
const char *transport_text(const struct transport *t);
bool transport_is_secure(const struct transport *t);

#endif
