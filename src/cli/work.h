/* What `waybill worker` does with a request: queue, steps, programs. Private to the worker command.
 */
#ifndef CLI_WORK_H
#define CLI_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/command.h"
#include "waybill/worker.h"

struct worker_args {
    struct common common;
    const char *service, *id, *class_name, *exec, *journal;
    struct option_list adapters;
    int64_t stream, delay_ms, capacity, weight, ranks, interval_ms, count, epoch, die_after,
        progress, adapter_slots, load_ms, drain_ms, refuse_code, fail_code, retry_after_ms;
    double fail_rate, refuse_rate;
    bool echo, no_heartbeat, no_wait, hole;
};

struct job { /* a task on its way through its steps */
    struct job *next;
    wb_task *task;
    mono due;
    int64_t step; /* progress messages first, then stream messages */
};

struct work {
    const struct worker_args *args;
    int journal; /* descriptor, -1: none */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, *last; /* ordered by due: all wait the same delay */
    struct rng rng;
    bool stopping;
    int64_t served, sent; /* requests finished with an answer; messages sent */
    pthread_t threads[64];
    unsigned thread_count;
    void (*done)(void *arg); /* args->count requests are served */
    void *done_arg;
};

/* False: it has said why on stderr. */
bool work_init(struct work *work, const struct worker_args *args, void (*done)(void *arg),
               void *done_arg);
/* After the worker has stopped: drops what still waits. */
void work_fini(struct work *work);
void work_take(struct work *work, wb_task *task);

/* Runs `command` by /bin/sh, data on its stdin; its stdout is appended to out. Ends it when the
 * task is cancelled. The exit code, 128 + signal, or -1: it could not be run or wrote more than out
 * holds. */
int program_run(const char *command, wb_task *task, struct buf *out);

#endif
