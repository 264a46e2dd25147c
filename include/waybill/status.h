/* One table of results for everything Waybill says: library calls, router errors, exit texts.
 *
 * Values below WB_BAD_REQUEST are local results of calls. WB_BAD_REQUEST and later are the errors a
 * router answers with (spec section 5): their name is the `Waybill-Error` header, their code the
 * `Nats-Service-Error-Code`. Thread: any. Blocking: never. */
#ifndef WAYBILL_STATUS_H
#define WAYBILL_STATUS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what is public, whatever the including program hides */
#endif

typedef enum wb_status {
    WB_OK = 0,
    WB_NO_MEMORY,
    WB_FULL,    /* a bounded buffer, queue or table is at its cap */
    WB_INVALID, /* an argument or a peer's bytes are malformed */
    WB_NOT_FOUND,
    WB_EXISTS,
    WB_CLOSED,    /* the connection or object is down or ended */
    WB_TIMED_OUT, /* a local wait ran out (a request's own timeout is WB_TIMEOUT) */
    WB_DENIED,    /* NATS refused authentication or permission */
    WB_TOO_LARGE,
    WB_IO, /* an operating-system call failed */
    WB_UNSUPPORTED,
    WB_HOLE, /* a stream's numbering has a gap or its count is wrong (libwaybill) */
    WB_BAD_REQUEST,
    WB_UNKNOWN_WORKER,
    WB_UNKNOWN_ADAPTER,
    WB_SESSION_CONFLICT,
    WB_DUPLICATE,
    WB_PAYLOAD_TOO_LARGE,
    WB_OVERLOADED,
    WB_CANCELLED,
    WB_INTERNAL,
    WB_WORKER_LOST,
    WB_LINK_LOST,
    WB_INTERRUPTED,
    WB_NO_WORKER,
    WB_DRAINING,
    WB_TIMEOUT,
    WB_STATUS_COUNT
} wb_status;

#if defined(__GNUC__)
#define WB_MUST_USE __attribute__((warn_unused_result))
#else
#define WB_MUST_USE
#endif

/* Never NULL; "unknown" outside the table. Static storage. */
const char *wb_status_name(wb_status status);
const char *wb_status_text(wb_status status);
/* HTTP-like code of a router error (400 to 504), 0 for local results. */
int wb_status_code(wb_status status);
/* May the same request succeed if the caller sends it again later? */
bool wb_status_retryable(wb_status status);
/* The router error of that name, WB_INVALID if there is none; NULL gives WB_INVALID. */
wb_status wb_status_from_name(const char *name);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
