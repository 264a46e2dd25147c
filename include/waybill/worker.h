/** @file
 * The worker's side of libwaybill: receives requests from routers, sends heartbeats, answers.
 *
 * A worker serves one service; a process that serves several creates one for each, on one
 * connection or more.
 *
 * Ownership: everything given in options is copied. A task belongs to the handler's side from the
 * call of on_task until exactly one finishing call (marked "finishes"), from any thread; that call
 * frees it, whatever it returns. The connection stays the caller's; it must outlive the worker and
 * every task. Use natsOptions_SetSendAsap(true) for it: nats.c otherwise holds a lone message back
 * for up to 1 ms; and natsOptions_SetMaxReconnect(-1).
 *
 * Threads: on_task runs on a thread of nats.c, one call at a time; on_cancel on another one. Calls
 * on one task must not overlap each other (on_cancel's and wb_task_cancelled() excepted); calls on
 * different tasks may. Calls on a worker may come from any thread, also at once.
 *
 * Blocking: only where a comment says so. Times are in milliseconds. NULL: only where a comment
 * says so. */
#ifndef WAYBILL_WORKER_H
#define WAYBILL_WORKER_H

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

/** One worker of one service. */
typedef struct wb_worker wb_worker;
/** One attempt of one request in the hands of the worker's owner. */
typedef struct wb_task wb_task;

/** What a worker is. A zeroed one with service, id and on_task is fine. */
typedef struct wb_worker_options {
    const char *service;         /**< 1 to WB_NAME_MAX of [A-Za-z0-9_-]; required */
    const char *id;              /**< as service; one process at a time; required */
    const char *prefix;          /**< NULL: WB_DEFAULT_PREFIX */
    int64_t epoch;               /**< 0: now, in Unix ms; a later start must have a higher one */
    uint32_t capacity;           /**< requests at once; 0: no limit known */
    uint32_t weight;             /**< 1 to 1000; 0: 100 */
    const char *class_name;      /**< device class, or NULL */
    uint32_t ranks;              /**< 0: none; else ranks 0 .. n-1 */
    const char *const *adapters; /**< the names of those it holds */
    unsigned adapter_count;      /**< how many these are, 1024 at most */
    uint32_t adapter_slots;      /**< how many it can hold */
    uint32_t interval_ms;        /**< of full heartbeats, 100 to 60000; 0: 5000 */
    /** Load that changed is told between these, so that routers see each other's: at the end of a
     * window of load_ms that begins with the first change, unless it changed back. So never more
     * often than this, and never more than twice for each request; n busy workers send at most n *
     * 1000 / load_ms a second. 10 to 60000; interval_ms or more: not at all; 0: a fiftieth of
     * interval_ms, at least 100. */
    uint32_t load_ms;
    bool no_heartbeats; /**< the router lists this worker as static */
    unsigned tasks_max; /**< open tasks; more are refused with 429; 0: 65536 */
    /** A request has come. The task is the owner's from now on; answer it here or later. */
    void (*on_task)(void *arg, wb_task *task);
    /** The router gave the request up. The task is valid during the call and must still be finished
     * (wb_task_drop()) by its owner. May be NULL: then ask wb_task_cancelled(). */
    void (*on_cancel)(void *arg, wb_task *task);
    void *arg; /**< handed to both; not touched */
} wb_worker_options;

/** Checks and copies; touches no network. *out is the caller's to destroy, NULL on failure.
 * WB_INVALID: nc or options is NULL, a name or number is out of bounds. WB_NO_MEMORY. */
WB_MUST_USE wb_status wb_worker_create(natsConnection *nc, const wb_worker_options *options,
                                       wb_worker **out);

/** Subscribes, waits until the server knows it (blocks for 5 s at most), sends the first heartbeat.
 * Requests may arrive before it returns. Once only: WB_INVALID. On another error it has stopped:
 * WB_CLOSED, WB_TIMED_OUT (the link), WB_NO_MEMORY. Permissions are the server's to refuse; it
 * tells them by the connection's error callback. */
WB_MUST_USE wb_status wb_worker_start(wb_worker *worker);

/** true: tell routers `busy` (no new requests, not for being ill), at once; false: `ready` again.
 * Ignored before start and after drain or stop.
 *
 * @code
 * wb_worker_set_busy(worker, true);  // a model is being loaded
 * load();
 * wb_worker_set_busy(worker, false);
 * @endcode */
void wb_worker_set_busy(wb_worker *worker, bool busy);

/** Replaces the adapters (copied) and tells routers at once. WB_INVALID: more than 1024, or a name
 * that is none; WB_NO_MEMORY: both leave the old ones.
 *
 * @code
 * const char *const now[] = {"fr-v1", "de-v2"};
 * wb_status s = wb_worker_set_adapters(worker, now, 2);
 * @endcode */
WB_MUST_USE wb_status wb_worker_set_adapters(wb_worker *worker, const char *const *adapters,
                                             unsigned count);

/** Says `draining`, serves what is still on its way, waits for open tasks, says `leaving`, stops.
 * Blocks for timeout_ms at most, and for the last flush. WB_TIMED_OUT: tasks were still open; it
 * has stopped all the same. WB_CLOSED: it was not started, or has stopped. Not from on_task or
 * on_cancel. */
WB_MUST_USE wb_status wb_worker_drain(wb_worker *worker, int64_t timeout_ms);

/** Says `leaving` and stops at once: open tasks are lost for their clients and must still be
 * finished here. Idempotent. Blocks for the flush, 5 s at most. Not from on_task or on_cancel.
 *
 * @code
 * wb_worker_stop(worker); // no drain: clients are told that the worker is lost
 * @endcode */
void wb_worker_stop(wb_worker *worker);

/** Stops if it still runs, and frees once the last open task is finished. Takes NULL. */
void wb_worker_destroy(wb_worker *worker);

/** How many tasks are open now.
 *
 * @code
 * printf("%u at work\n", (unsigned)wb_worker_inflight(worker));
 * @endcode */
uint32_t wb_worker_inflight(wb_worker *worker);

/** The request's id; "" if the request came past a router. Lives as long as the task. */
const char *wb_task_request_id(const wb_task *task);

/** The client's subject. Lives as long as the task.
 *
 * @code
 * bool urgent = strcmp(wb_task_subject(task), "chat.request.urgent") == 0;
 * @endcode */
const char *wb_task_subject(const wb_task *task);

/** The payload; *len is its length, 0 is possible. Not NUL-terminated. Lives as long as the task.
 */
const void *wb_task_data(const wb_task *task, size_t *len);

/** Which attempt of the request this is, from 1.
 *
 * @code
 * if (wb_task_attempt(task) > 1)
 *     count_retry();
 * @endcode */
int64_t wb_task_attempt(const wb_task *task);

/** The rank asked for, -1: none.
 *
 * @code
 * struct device *device = devices[wb_task_rank(task) < 0 ? 0 : wb_task_rank(task)];
 * @endcode */
int64_t wb_task_rank(const wb_task *task);

/** How many messages the client already has, from a worker that failed: continue behind them,
 * numbering is the library's. 0: none.
 *
 * @code
 * for (int64_t i = wb_task_resume_from(task); i < total && s == WB_OK; i++)
 *     s = wb_task_send(task, part[i], part_len[i], NULL, 0);
 * @endcode */
int64_t wb_task_resume_from(const wb_task *task);

/** The request's time that was left when it was received, in ms; -1: no limit.
 *
 * @code
 * bool in_a_hurry = wb_task_deadline_ms(task) >= 0 && wb_task_deadline_ms(task) < 500;
 * @endcode */
int64_t wb_task_deadline_ms(const wb_task *task);

/** The request's time that is left now, in ms, 0 if it is over; -1: no limit. */
int64_t wb_task_left_ms(const wb_task *task);

/** The first value of that header, or NULL; case-sensitive. Lives as long as the task.
 *
 * @code
 * const char *language = wb_task_header(task, "Accept-Language");
 * @endcode */
const char *wb_task_header(const wb_task *task, const char *name);

/** Has the router given the request up? From any thread, at any time before the finishing call. */
bool wb_task_cancelled(const wb_task *task);

/** Keeps a pointer of the owner's with the task; it is neither read nor freed.
 *
 * @code
 * wb_task_set_user(task, job); // in on_task
 * job_stop(wb_task_user(task)); // in on_cancel
 * @endcode */
void wb_task_set_user(wb_task *task, void *user);

/** What wb_task_set_user() kept, at first NULL.
 *
 * @code
 * struct job *job = wb_task_user(task);
 * @endcode */
void *wb_task_user(const wb_task *task);

/** Says: accepted, still working. Re-arms the router's clock, the client does not see it.
 * WB_CLOSED: the worker has stopped or the connection is closed. WB_IO, WB_NO_MEMORY. */
WB_MUST_USE wb_status wb_task_progress(wb_task *task);

/** Sends one message of a stream, numbered. Data and headers are copied. While the link is down
 * nats.c keeps it, within its reconnect buffer.
 *
 * WB_INVALID: len is 0 (an empty message ends a stream), or a header is malformed. WB_TOO_LARGE:
 * over the server's max_payload. WB_FULL: the reconnect buffer is. WB_CLOSED, WB_IO, WB_NO_MEMORY.
 * A message that failed has no number: try it again, or see wb_task_skip(). */
WB_MUST_USE wb_status wb_task_send(wb_task *task, const void *data, size_t len,
                                   const wb_header *headers, unsigned header_count);

/** Finishes: the only answer, or a stream's last message. headers may be NULL if header_count is 0,
 * data if len is 0. Errors as wb_task_send(), an empty answer is allowed. */
WB_MUST_USE wb_status wb_task_answer(wb_task *task, const void *data, size_t len,
                                     const wb_header *headers, unsigned header_count);

/** Finishes: the end of a stream. Errors as wb_task_send(). */
WB_MUST_USE wb_status wb_task_end(wb_task *task);

/** Finishes: not served, try another; code is usually 429 (or 503). retry_after_ms: leave me alone
 * for so long, 60000 at most; negative: not said, the router takes 1 s. Only before wb_task_send():
 * WB_INVALID. Errors else as wb_task_send(). */
WB_MUST_USE wb_status wb_task_refuse(wb_task *task, int code, int64_t retry_after_ms);

/** Finishes: served, and the answer is an error. text becomes a header, cut at 511 bytes: its
 * control characters are sent as blanks. data may be NULL. Errors as wb_task_send(). */
WB_MUST_USE wb_status wb_task_error(wb_task *task, int code, const char *text, const void *data,
                                    size_t len);

/** Finishes: sends nothing. For cancelled tasks. */
void wb_task_drop(wb_task *task);

/** The next stream message's number is one higher: a message was lost on the way to here, and the
 * client shall know it.
 *
 * @code
 * if (gap_in_my_source)
 *     wb_task_skip(task); // the client's stream ends with WB_HOLE or WB_INTERRUPTED
 * @endcode */
void wb_task_skip(wb_task *task);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
