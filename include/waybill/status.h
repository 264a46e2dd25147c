/** @file
 * One table of results for everything Waybill says: library calls, router errors, exit texts.
 *
 * Values below WB_BAD_REQUEST are local results of calls. WB_BAD_REQUEST and later are the errors a
 * router answers with: their name is the `Waybill-Error` header, their code the
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

/** What a call came to. */
typedef enum wb_status {
    WB_OK = 0,            /**< done */
    WB_NO_MEMORY,         /**< nothing was changed or sent */
    WB_FULL,              /**< a bounded buffer, queue or table is at its cap */
    WB_INVALID,           /**< an argument or a peer's bytes are malformed */
    WB_NOT_FOUND,         /**< nobody or nothing of that name */
    WB_EXISTS,            /**< it is there already */
    WB_CLOSED,            /**< the connection or object is down or ended */
    WB_TIMED_OUT,         /**< a local wait ran out (a request's own timeout is WB_TIMEOUT) */
    WB_DENIED,            /**< NATS refused authentication or permission */
    WB_TOO_LARGE,         /**< over a limit of size */
    WB_IO,                /**< an operating-system call failed */
    WB_UNSUPPORTED,       /**< of a version or kind that is not known here */
    WB_HOLE,              /**< a stream's numbering has a gap or its count is wrong */
    WB_BAD_REQUEST,       /**< 400: a header or id is malformed or not accepted */
    WB_UNKNOWN_WORKER,    /**< 404: the target is not known */
    WB_UNKNOWN_ADAPTER,   /**< 404: no known worker, or not the target, holds it */
    WB_SESSION_CONFLICT,  /**< 409: target or adapter contradicts the session's binding */
    WB_DUPLICATE,         /**< 409: the id is in flight */
    WB_PAYLOAD_TOO_LARGE, /**< 413: over the server's max_payload with the router's headers */
    WB_OVERLOADED,        /**< 429: all permitted workers are busy or refuse, no room to wait */
    WB_CANCELLED,         /**< 499: the client cancelled */
    WB_INTERNAL,          /**< 500: a fault of the router, or NATS denied it a publish */
    WB_WORKER_LOST,       /**< 502: the worker vanished after the request may have reached it */
    WB_LINK_LOST,         /**< 502: the router lost NATS while waiting, and the time ran out */
    WB_INTERRUPTED,       /**< 502: the worker failed after its first answer */
    WB_NO_WORKER,         /**< 503: no routable worker, or none of those tried got it */
    WB_DRAINING,          /**< 503: the router is stopping */
    WB_TIMEOUT,           /**< 504: first reply, inactivity or total time ran out */
    WB_STATUS_COUNT       /**< how many there are */
} wb_status;

#if defined(__GNUC__)
/** The compiler warns of a result that is not looked at. */
#define WB_MUST_USE __attribute__((warn_unused_result))
#else
#define WB_MUST_USE
#endif

/** Its name in lower case, as in `Waybill-Error`. Never NULL; "unknown" outside the table. Static
 * storage. */
const char *wb_status_name(wb_status status);

/** What it means, in one line. Never NULL; "unknown" outside the table. Static storage. */
const char *wb_status_text(wb_status status);

/** HTTP-like code of a router error (400 to 504), 0 for local results.
 *
 * @code
 * int code = wb_status_code(WB_OVERLOADED); // 429
 * @endcode */
int wb_status_code(wb_status status);

/** May the same request succeed if the caller sends it again later? */
bool wb_status_retryable(wb_status status);

/** The router error of that name, WB_INVALID if there is none; NULL gives WB_INVALID.
 *
 * @code
 * wb_status s = wb_status_from_name("no_worker"); // WB_NO_WORKER
 * @endcode */
wb_status wb_status_from_name(const char *name);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
