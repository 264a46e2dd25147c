/* The client's side of libwaybill: requests with Waybill's headers, answers with who served them,
 * checked streams, cancel. A plain natsConnection_Request works as well; this adds names for errors
 * and the checks of a stream.
 *
 * Ownership: inputs are copied or not kept; results are freed with wb_result_destroy. The
 * connection stays the caller's; use natsOptions_SetSendAsap(true) for it. Threads: any, also
 * several calls at once on one connection. */
#ifndef WAYBILL_CLIENT_H
#define WAYBILL_CLIENT_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "waybill/status.h"
#include "waybill/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what is public, whatever the including program hides */
#endif

typedef struct wb_result wb_result;

typedef enum wb_choice { WB_CHOICE_DEFAULT, WB_CHOICE_YES, WB_CHOICE_NO } wb_choice;

/* A zeroed one is fine; NULL texts are not sent. */
typedef struct wb_request_options {
    const char *id;     /* request id; NULL: the router makes one */
    const char *target; /* "<worker>" or "<worker>/<rank>" */
    const char *adapter, *session, *hash_key;
    const char *priority;    /* "low", "normal", "high" */
    const char *retry;       /* "avoid", "prefer": this id was sent before */
    const char *older_reply; /* with retry: the older request's reply subject */
    wb_choice idempotent;
    bool advise;        /* only ask whom the router would choose; the answer is JSON */
    int64_t timeout_ms; /* sent as the request's total time; the local wait is a little longer. 0:
                           no total, 30 s between messages */
    const char *inbox_prefix; /* NULL: "_INBOX" */
    const char
        *reply_subject; /* a fresh one of wb_reply_subject, to cancel by; NULL: made inside */
    const wb_header *headers;
    unsigned header_count;
} wb_request_options;

/* An unguessable reply subject below inbox_prefix (NULL: "_INBOX"). WB_INVALID: not a literal
 * subject of decent length. */
WB_MUST_USE wb_status wb_reply_subject(const char *inbox_prefix, char out[WB_SUBJECT_MAX + 1]);

/* Blocks for the one answer. WB_OK: an answer of a worker is in *out; it may be the worker's error:
 * see wb_result_code. A router's error gives its own status (WB_OVERLOADED, ...), with the message
 * in *out. WB_NOT_FOUND: no router serves the subject. WB_TIMED_OUT: nothing came. WB_INVALID: an
 * option is malformed (nothing was sent). *out is NULL where there is no message. */
WB_MUST_USE wb_status wb_request(natsConnection *nc, const char *subject, const void *data,
                                 size_t len, const wb_request_options *options, wb_result **out);
/* Blocks until the stream's end. on_message gets each data message and the error message, if any;
 * false leaves the stream (WB_CANCELLED). *end is the end message. WB_OK: the outcome is `done`.
 * WB_HOLE: the numbering has a gap or the count is wrong: what came is not all. A worker's own
 * error: WB_OK with wb_result_code(*end) set. Else as wb_request. */
WB_MUST_USE wb_status wb_request_stream(natsConnection *nc, const char *subject, const void *data,
                                        size_t len, const wb_request_options *options,
                                        bool (*on_message)(void *arg, const wb_result *message),
                                        void *arg, wb_result **end);
/* Cancels a request in flight, by its id and the reply subject it was sent with. prefix NULL:
 * "waybill". WB_OK: a router has cancelled it; WB_NOT_FOUND: no router answered in time: it had
 * ended, or was never here. */
WB_MUST_USE wb_status wb_cancel(natsConnection *nc, const char *prefix, const char *service,
                                const char *request_id, const char *reply_subject,
                                int64_t timeout_ms);

/* All take a result; texts live as long as it; NULL or -1 where the message does not say. */
const void *wb_result_data(const wb_result *result, size_t *len);
const char *wb_result_worker(const wb_result *result);
int64_t wb_result_rank(const wb_result *result);
int64_t wb_result_attempt(const wb_result *result);
const char *wb_result_request_id(const wb_result *result);
const char *wb_result_outcome(const wb_result *result);   /* of a stream's end */
const char *wb_result_delivered(const wb_result *result); /* of an error: "no", "maybe", "yes" */
int wb_result_code(const wb_result *result); /* 0: no error; an error without a number is 500 */
const char *wb_result_error_text(const wb_result *result);
int64_t wb_result_retry_after_ms(const wb_result *result);
const char *wb_result_header(const wb_result *result,
                             const char *name); /* first value; case-sensitive */
/* Calls fn for each header, in no order: nats.c does not keep it. */
void wb_result_each_header(const wb_result *result,
                           void (*fn)(void *arg, const char *name, const char *value), void *arg);
void wb_result_destroy(wb_result *result); /* takes NULL */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
