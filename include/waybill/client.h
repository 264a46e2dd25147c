/** @file
 * The client's side of libwaybill: requests with Waybill's headers, answers with who served them,
 * checked streams, cancel. A plain natsConnection_Request works as well; this adds names for errors
 * and the checks of a stream.
 *
 * Ownership: what is given in is copied or not kept. A result belongs to whom it was given and ends
 * with wb_result_destroy(), a stream with wb_stream_close(). The connection stays the caller's and
 * must outlive the call, or the stream; use natsOptions_SetSendAsap(true) for it.
 *
 * Threads: any, also several calls at once on one connection. One stream, and one result, is for
 * one thread at a time.
 *
 * NULL: only where a comment says so. Times are in milliseconds, local waits run on the monotonic
 * clock. */
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

/** A message that came back: an answer, a router's error, a message of a stream or its end. */
typedef struct wb_result wb_result;
/** A stream that is being read, see wb_stream_open(). */
typedef struct wb_stream wb_stream;

/** A switch that may also be left as the service has it. */
typedef enum wb_choice {
    WB_CHOICE_DEFAULT, /**< as the service's config says */
    WB_CHOICE_YES,     /**< on for this request */
    WB_CHOICE_NO       /**< off for this request */
} wb_choice;

/** What a request may say besides its data. A zeroed one is fine; NULL texts are not sent. All of
 * it is checked before anything is sent: WB_INVALID. */
typedef struct wb_request_options {
    const char *id;       /**< request id, WB_REQUEST_ID_MAX at most; NULL: the router makes one */
    const char *target;   /**< "<worker>" or "<worker>/<rank>": this one exactly, or an error */
    const char *adapter;  /**< only workers that hold it */
    const char *session;  /**< the same worker as for the session's earlier requests */
    const char *hash_key; /**< key for the policy `hash` */
    const char *priority; /**< "low", "normal", "high": order while waiting for a free worker */
    const char *retry;    /**< "avoid", "prefer": this id was sent before */
    const char *older_reply; /**< with retry: the older request's reply subject; it is cancelled */
    wb_choice idempotent;    /**< may it go to a second worker after the first may have got it? */
    bool advise;             /**< only ask whom the router would choose; the answer is JSON */
    int64_t timeout_ms;      /**< 0 to 86400000. Sent as the request's total time; the local wait is
                                  2 s longer, so that the router's word comes first. 0: no total,
                                  60 s between two messages */
    const char *inbox_prefix;  /**< NULL: "_INBOX" */
    const char *reply_subject; /**< a fresh one of wb_reply_subject(), to cancel by; NULL: made
                                    inside */
    const wb_header *headers;  /**< the caller's own, sent as they are */
    unsigned header_count;     /**< how many these are */
} wb_request_options;

/** Makes an unguessable reply subject below inbox_prefix (NULL: "_INBOX"), for one request.
 *
 * Never blocks. Errors: WB_INVALID if the prefix is no literal subject or too long. */
WB_MUST_USE wb_status wb_reply_subject(const char *inbox_prefix, char out[WB_SUBJECT_MAX + 1]);

/** Sends a request and blocks for its one answer: up to timeout_ms + 2 s, or 60 s without one.
 *
 * data may be NULL if len is 0; options may be NULL. *out is the caller's to destroy, NULL where no
 * message came.
 *
 * - WB_OK: a worker answered. Its answer may be an error: ask wb_result_code().
 * - The router's errors each have a status (WB_OVERLOADED, WB_NO_WORKER, ...) and the message in
 *   *out: wb_result_message(), wb_result_delivered(), wb_result_tried() tell more,
 *   wb_status_retryable() whether to try again.
 * - WB_NOT_FOUND: no router serves the subject. WB_TIMED_OUT: not even the router answered.
 * - WB_INVALID: a subject or option is malformed. WB_CLOSED: the connection is down; neither was
 *   sent. WB_TOO_LARGE: over the server's max_payload. WB_NO_MEMORY, WB_IO.
 *
 * It is not for a callback of nats.c on the same connection: that would hold up its other
 * messages. */
WB_MUST_USE wb_status wb_request(natsConnection *nc, const char *subject, const void *data,
                                 size_t len, const wb_request_options *options, wb_result **out);

/** Sends a request and calls back for each message of the stream of answers, until its end.
 *
 * on_message (NULL: none) runs in this thread, gets each data message and, if there is one, the
 * error message (wb_result_code() is not 0), and must not keep them; false leaves the stream
 * (WB_CANCELLED): what still comes is not heard; wb_cancel() has the worker stopped at once. *end
 * is the end message, the caller's to destroy; NULL if it did not come.
 *
 * WB_OK: all is there and the outcome is `done`, or the worker's own error is in *end. WB_HOLE: the
 * numbering (`Waybill-Seq`) has a gap or the end's count (`Waybill-Count`) is another than that of
 * the messages: what came is not all. Else as wb_request(). Blocks as long as the stream lasts;
 * each wait as in wb_request(). */
WB_MUST_USE wb_status wb_request_stream(natsConnection *nc, const char *subject, const void *data,
                                        size_t len, const wb_request_options *options,
                                        bool (*on_message)(void *arg, const wb_result *message),
                                        void *arg, wb_result **end);

/** Sends a request for a stream that the caller reads with wb_stream_next(). *out is the caller's
 * to close, NULL on failure. Does not wait for an answer. Errors: those of wb_request() before
 * anything is sent. */
WB_MUST_USE wb_status wb_stream_open(natsConnection *nc, const char *subject, const void *data,
                                     size_t len, const wb_request_options *options,
                                     wb_stream **out);

/** The next message. Blocks for wait_ms at most (0: hardly, 1 ms), if negative as long as
 * wb_request() would.
 *
 * - WB_OK with a message: data, or the one error message; the caller destroys it.
 * - WB_OK with *out NULL: the end; all is there and the outcome is `done`, or the worker's own
 * error is in wb_stream_end().
 * - WB_TIMED_OUT within wait_ms: the stream is as it was; call again.
 * - Anything else ends the stream, as in wb_request_stream(): WB_HOLE, a router's error, WB_CLOSED,
 *   WB_TIMED_OUT of the request's own time.
 *
 * After the end it gives the same status again, with *out NULL. */
WB_MUST_USE wb_status wb_stream_next(wb_stream *stream, int64_t wait_ms, wb_result **out);

/** The end message, which tells the outcome, who served, and after an error its details. Belongs to
 * the stream. NULL: it has not come. */
const wb_result *wb_stream_end(const wb_stream *stream);

/** How many data messages have come in their place; after WB_HOLE those that stand before the hole.
 */
int64_t wb_stream_count(const wb_stream *stream);

/** Ends the reading and frees the stream. Before the end: what still comes is not heard, see
 * wb_cancel(). Takes NULL. */
void wb_stream_close(wb_stream *stream);

/** Cancels a request in flight, by its id and the reply subject it was sent with; the request
 * itself then ends with WB_CANCELLED wherever it is waited for. From any thread.
 *
 * prefix NULL: WB_DEFAULT_PREFIX. Blocks for timeout_ms (1 or more) at most.
 *
 * WB_OK: a router has cancelled it. WB_NOT_FOUND: no router answered in time: the request had
 * ended, or was never here. WB_INVALID: a malformed argument. WB_CLOSED, WB_IO, WB_NO_MEMORY.
 *
 * @code
 * char reply[WB_SUBJECT_MAX + 1];
 * wb_status s = wb_reply_subject(NULL, reply);
 * wb_request_options options = {.id = "r-1", .reply_subject = reply};
 * // one thread: s = wb_request(nc, "chat.request.eu", "hi", 2, &options, &result);
 * // another:
 * s = wb_cancel(nc, NULL, "chat", "r-1", reply, 2000);
 * @endcode */
WB_MUST_USE wb_status wb_cancel(natsConnection *nc, const char *prefix, const char *service,
                                const char *request_id, const char *reply_subject,
                                int64_t timeout_ms);

/** One attempt that failed before the error, as the router tells it. Texts live as long as the
 * result. */
typedef struct wb_tried {
    const char *worker; /**< NULL: the service hides its workers' names */
    const char *cause; /**< "no_responders", "refused", "lost", "timeout", ...; NULL: no such one */
} wb_tried;

/** The payload; *len is its length, 0 is possible. Never NULL with *len > 0, not NUL-terminated.
 * Lives as long as the result. */
const void *wb_result_data(const wb_result *result, size_t *len);

/** Who served; NULL: the message does not say (services may hide it, and in a stream the first
 * message and the end tell). */
const char *wb_result_worker(const wb_result *result);

/** The rank that served, -1: none. */
int64_t wb_result_rank(const wb_result *result);

/** Which attempt this was, from 1; -1: not said.
 *
 * @code
 * if (wb_result_attempt(result) > 1)
 *     printf("the first choice did not serve\n");
 * @endcode */
int64_t wb_result_attempt(const wb_result *result);

/** The request's id, also if the router made it; NULL: not said. */
const char *wb_result_request_id(const wb_result *result);

/** Of a stream's end: "done", "error", "interrupted", "cancelled", "timeout"; else NULL. */
const char *wb_result_outcome(const wb_result *result);

/** Of a router's error: may a worker have got the request? "no", "maybe", "yes"; else NULL.
 *
 * @code
 * const char *delivered = wb_result_delivered(result);
 * bool safe_to_repeat = delivered != NULL && strcmp(delivered, "no") == 0;
 * @endcode */
const char *wb_result_delivered(const wb_result *result);

/** The status of the router's error that this message carries, WB_OK if none; what wb_request()
 * returned. For the messages of a stream. An error of a newer router is WB_INTERNAL. */
wb_status wb_result_status(const wb_result *result);

/** 0: no error; else the code (400 to 599 by custom) of a router's or a worker's error. An error
 * without a number is 500. */
int wb_result_code(const wb_result *result);

/** The short text of an error (`Nats-Service-Error`), NULL if it is none. */
const char *wb_result_error_text(const wb_result *result);

/** What a router's error says in particular, from its body: which time ran out, which header was
 * wrong. For other errors wb_result_error_text(); NULL if it is none. */
const char *wb_result_message(const wb_result *result);

/** With WB_OVERLOADED: what is, "worker", "adapter" or "service"; NULL: not said.
 *
 * @code
 * const char *scope = wb_result_scope(result);
 * if (s == WB_OVERLOADED && scope != NULL && strcmp(scope, "worker") == 0)
 *     options.target = NULL; // any other one
 * @endcode */
const char *wb_result_scope(const wb_result *result);

/** How many attempts a router's error lists, 16 at most; 0 for anything else. */
unsigned wb_result_tried_count(const wb_result *result);

/** One of them, in their order, index from 0; both texts NULL beyond the last. */
wb_tried wb_result_tried(const wb_result *result, unsigned index);

/** When it makes sense to ask again, in ms; -1: not said. */
int64_t wb_result_retry_after_ms(const wb_result *result);

/** The first value of that header, NULL: none. Case-sensitive; lives as long as the result.
 *
 * @code
 * const char *type = wb_result_header(result, "Content-Type");
 * @endcode */
const char *wb_result_header(const wb_result *result, const char *name);

/** Calls fn for each value of each header, in no order: nats.c does not keep it.
 *
 * @code
 * static void show(void *arg, const char *name, const char *value)
 * {
 *     fprintf(arg, "%s: %s\n", name, value);
 * }
 * // ...
 * wb_result_each_header(result, show, stdout);
 * @endcode */
void wb_result_each_header(const wb_result *result,
                           void (*fn)(void *arg, const char *name, const char *value), void *arg);

/** Frees it and the texts taken from it. Takes NULL. Not for those lent by on_message or
 * wb_stream_end(). */
void wb_result_destroy(wb_result *result);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
