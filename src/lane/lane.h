/* A lane: one NATS connection on the loop thread, for the hot path. Text in, text out, bytes
 * untouched; batches writes and sends once before the loop sleeps; reconnects for ever. See lane.c
 * for the states and for what happens at each mark of the output buffer. Thread: the loop's, for
 * every function. Blocking: never. */
#ifndef LANE_LANE_H
#define LANE_LANE_H

#include <stdint.h>

#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"

struct loop;
struct lane;

/* Strings are copied; NULL or "" = not set. Files are read anew at each connect, so changed
 * credentials are taken up. */
struct lane_options {
    const char *servers; /* comma-separated nats:// tls:// or bare host:port; may carry user:pass@
                            or token@ */
    const char *user, *password, *token, *nkey_file, *creds_file;
    const char *nkey_seed; /* the seed itself, instead of a file */
    const char *tls_ca, *tls_cert, *tls_key;
    bool tls_required;          /* also implied by tls:// or a CA: then never a clear connection */
    bool tls_first;             /* handshake before INFO */
    bool tls_insecure;          /* no verification; for tests and contexts that say so */
    const char *name;           /* connection name shown by the server */
    int64_t ping_interval_ms;   /* 0: 5000; two unanswered pings: dead */
    int64_t connect_timeout_ms; /* 0: 5000: TCP, TLS and CONNECT together */
    int64_t reconnect_min_ms, reconnect_max_ms; /* 0: 100 and 5000; full jitter between */
    size_t output_max;                          /* 0: 64 MiB */
    uint64_t seed;                              /* for shuffle and jitter; 0: random */
};

struct lane_message {
    struct span subject, reply, headers, payload; /* valid during the callback only */
    uint64_t sid;
};

enum lane_state {
    LANE_IDLE,
    LANE_WAITING,
    LANE_CONNECTING,
    LANE_HANDSHAKE,
    LANE_UP,
    LANE_CLOSING,
    LANE_CLOSED
};

struct lane_events {
    /* Accepted by the server; all subscriptions were sent again already. reconnects counts from 0.
     */
    void (*up)(void *arg, struct lane *lane, unsigned reconnects);
    /* Was up and is down; what was not yet sent is discarded, and will never be sent. */
    void (*down)(void *arg, struct lane *lane, wb_status why, const char *text);
    /* The server refused one subject; the connection lives. */
    void (*denied)(void *arg, struct lane *lane, bool publish, struct span subject,
                   const char *text);
    /* Output fell below its low mark after a publish had been refused with WB_FULL. */
    void (*drained)(void *arg, struct lane *lane);
};

struct lane *lane_create(struct loop *loop, const struct lane_options *options,
                         const struct lane_events *events, void *arg);
void lane_start(struct lane *lane);
/* Sends what is buffered within `within_ms`, then closes; lane_state becomes LANE_CLOSED and no
 * event follows. */
void lane_close(struct lane *lane, int64_t within_ms);
void lane_destroy(struct lane *lane); /* takes NULL; closes at once */
enum lane_state lane_state(const struct lane *lane);
bool lane_is_up(const struct lane *lane);

/* Kept over reconnects. queue SPAN_EMPTY: plain. May be called in any state. Returns the sid (never
 * 0), 0: no memory or over 65,536. */
uint64_t lane_subscribe(struct lane *lane, struct span subject, struct span queue,
                        void (*on_message)(void *arg, const struct lane_message *m), void *arg);
/* Stops at the server; messages already sent by the server are still delivered until a PONG
 * confirms, then never again. */
void lane_unsubscribe(struct lane *lane, uint64_t sid);
/* Sends SUB for it again (after a permission was withdrawn and perhaps came back). */
void lane_resubscribe(struct lane *lane, uint64_t sid);

/* Appends to the output buffer. headers is a whole block or empty. WB_CLOSED: not up (nothing is
 * kept); WB_FULL: output at its mark; WB_TOO_LARGE: over max_payload; WB_INVALID: a subject that is
 * empty or holds blanks or controls. On any error nothing is sent. */
WB_MUST_USE wb_status lane_publish(struct lane *lane, struct span subject, struct span reply,
                                   struct span headers, struct span payload);
/* The same for subjects that were built from checked parts, or checked before: they are not looked
 * at again. */
WB_MUST_USE wb_status lane_publish_known(struct lane *lane, struct span subject, struct span reply,
                                         struct span headers, struct span payload);
/* Calls `fn` when the server has processed all that was published before (PING/PONG), or with
 * ok=false when the lane went down. */
WB_MUST_USE wb_status lane_flush(struct lane *lane, void (*fn)(void *arg, bool ok), void *arg);

size_t lane_output_len(const struct lane *lane);
size_t lane_max_payload(
    const struct lane *lane); /* of the present or last server; 1 MiB before the first INFO */
const char *lane_server(const struct lane *lane); /* "host:port" of the present or last server */
const char *lane_last_error(const struct lane *lane);

struct lane_counts {
    uint64_t in_msgs, in_bytes, out_msgs, out_bytes, connects, disconnects, refused_full, errors;
};
const struct lane_counts *lane_counts(const struct lane *lane);

#endif
