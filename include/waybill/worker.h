/* The worker's side of libwaybill: receives requests from routers, sends heartbeats, answers.
 *
 * Ownership: everything given in options is copied. A task belongs to the handler's side from the
 * call of on_task until exactly one finishing call (marked "finishes"), from any thread; that call
 * frees it, whatever it returns. The connection stays the caller's; it must outlive the worker and
 * every task. Use natsOptions_SetSendAsap(true) for it: nats.c otherwise holds a lone message back
 * for up to 1 ms; and natsOptions_SetMaxReconnect(-1). Threads: on_task runs on a thread of nats.c,
 * one call at a time; on_cancel on another one. Calls on one task must not overlap each other
 * (on_cancel's and wb_task_cancelled excepted); calls on different tasks may. */
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

typedef struct wb_worker wb_worker;
typedef struct wb_task wb_task;

typedef struct wb_worker_options {
    const char *service, *id; /* 1 to 64 of [A-Za-z0-9_-] each; required */
    const char *prefix;       /* NULL: "waybill" */
    int64_t epoch;            /* 0: now, in Unix ms; a later start must have a higher one */
    uint32_t capacity;        /* requests at once; 0: no limit known */
    uint32_t weight;          /* 1 to 1000; 0: 100 */
    const char *class_name;   /* device class, or NULL */
    uint32_t ranks;           /* 0: none; else ranks 0 .. n-1 */
    const char *const *adapters;
    unsigned adapter_count;
    uint32_t adapter_slots;
    uint32_t interval_ms; /* 100 to 60000; 0: 5000 */
    bool no_heartbeats;   /* the router lists this worker as static */
    unsigned tasks_max;   /* open tasks; more are refused with 429; 0: 65536 */
    void (*on_task)(void *arg, wb_task *task);
    /* The router gave the request up. The task is valid during the call and must still be finished
     * (wb_task_drop) by its owner. May be NULL: then ask wb_task_cancelled. */
    void (*on_cancel)(void *arg, wb_task *task);
    void *arg;
} wb_worker_options;

/* Checks and copies; touches no network. WB_INVALID: a name or number out of bounds. *out is NULL
 * on failure. */
WB_MUST_USE wb_status wb_worker_create(natsConnection *nc, const wb_worker_options *options,
                                       wb_worker **out);
/* Subscribes, waits until the server knows it (5 s at most), sends the first heartbeat. Requests
 * may arrive before it returns. Once only. */
WB_MUST_USE wb_status wb_worker_start(wb_worker *worker);
/* true: tell routers `busy` (no new requests, not for being ill), at once; false: `ready` again.
 * Ignored after drain or stop. */
void wb_worker_set_busy(wb_worker *worker, bool busy);
/* Replaces the adapters and tells routers at once. */
WB_MUST_USE wb_status wb_worker_set_adapters(wb_worker *worker, const char *const *adapters,
                                             unsigned count);
/* Says `draining`, serves what is still on its way, waits for open tasks, says `leaving`, stops.
 * Blocks for timeout_ms at most; WB_TIMED_OUT: tasks were still open; it has stopped all the same.
 * Not from on_task or on_cancel. */
WB_MUST_USE wb_status wb_worker_drain(wb_worker *worker, int64_t timeout_ms);
/* Says `leaving` and stops at once: open tasks are lost for their clients and must still be
 * finished here. Idempotent. */
void wb_worker_stop(wb_worker *worker);
/* Stops, and frees once the last open task is finished. Takes NULL. */
void wb_worker_destroy(wb_worker *worker);
uint32_t wb_worker_inflight(wb_worker *worker);

/* What the request says. Texts live as long as the task. */
const char *wb_task_request_id(const wb_task *task); /* "" if the request came past a router */
const char *wb_task_subject(const wb_task *task);    /* the client's subject */
const void *wb_task_data(const wb_task *task, size_t *len);
int64_t wb_task_attempt(const wb_task *task); /* from 1 */
int64_t wb_task_rank(const wb_task *task);    /* -1: none */
int64_t wb_task_resume_from(
    const wb_task *task); /* messages the client already has: continue behind them */
int64_t wb_task_deadline_ms(const wb_task *task); /* time left at receipt; -1: no limit */
const char *wb_task_header(const wb_task *task,
                           const char *name); /* first value, or NULL; case-sensitive */
bool wb_task_cancelled(const wb_task *task);
/* A place for the owner's pointer. */
void wb_task_set_user(wb_task *task, void *user);
void *wb_task_user(const wb_task *task);

/* Each returns WB_CLOSED if the worker has stopped or the connection is closed, WB_TOO_LARGE over
 * the server's max_payload, WB_INVALID for a bad header. Data of length 0 with wb_task_send is
 * WB_INVALID: an empty message ends a stream. */
WB_MUST_USE wb_status
wb_task_progress(wb_task *task); /* accepted, still working; re-arms the router's clock */
WB_MUST_USE wb_status wb_task_send(wb_task *task, const void *data, size_t len,
                                   const wb_header *headers,
                                   unsigned header_count); /* one message of a stream, numbered */
/* Finishes: the only answer, or a stream's last message. */
WB_MUST_USE wb_status wb_task_answer(wb_task *task, const void *data, size_t len,
                                     const wb_header *headers, unsigned header_count);
/* Finishes: the end of a stream. */
WB_MUST_USE wb_status wb_task_end(wb_task *task);
/* Finishes: not served, try another; code is usually 429 (or 503). retry_after_ms < 0: not said.
 * Only before wb_task_send. */
WB_MUST_USE wb_status wb_task_refuse(wb_task *task, int code, int64_t retry_after_ms);
/* Finishes: served, and the answer is an error. text becomes a header: its control characters are
 * sent as blanks. data may be NULL. */
WB_MUST_USE wb_status wb_task_error(wb_task *task, int code, const char *text, const void *data,
                                    size_t len);
/* Finishes: sends nothing. For cancelled tasks. */
void wb_task_drop(wb_task *task);
/* The next stream message's number is one higher: a message was lost on the way to here, and the
 * client shall know it. */
void wb_task_skip(wb_task *task);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
