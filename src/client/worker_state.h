/* The worker and its tasks, as worker.c, task.c and heartbeats.c share them. Private to client. */
#ifndef CLIENT_WORKER_STATE_H
#define CLIENT_WORKER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/rng.h"
#include "waybill/worker.h"
#include "wire/heartbeat.h"

enum worker_state { WORKER_NEW, WORKER_READY, WORKER_BUSY, WORKER_DRAINING, WORKER_STOPPED };

struct worker_router { /* how many open tasks a router has here */
    char id[WB_NAME_MAX + 1];
    uint32_t count, told; /* told: by the last heartbeat */
};

struct wb_task {
    uint32_t magic;
    struct wb_worker *worker;
    struct wb_task *previous,
        *next; /* the worker's list, or its spares by `next`; under its lock */
    natsMsg *message;
    const char *reply; /* NULL: the answer has nowhere to go */
    int64_t sent;      /* the number of the last message of the stream */
    int router;        /* its place in worker->routers, -1: none */
    mono received;
    atomic_bool parsed; /* nats.c has parsed the message's headers */
    atomic_bool cancelled;
    atomic_int refs;
    void *user;
};

struct wb_worker {
    uint32_t magic;
    natsConnection *nc; /* the caller's */
    char *service, *id, *prefix, *class_name;
    char **adapters;
    unsigned adapter_count;
    wb_worker_options options; /* numbers and callbacks; its texts are not used */
    char subject[WB_SUBJECT_MAX + 1], cancel_subject[WB_SUBJECT_MAX + 1];
    char announce_subject[WB_SUBJECT_MAX + 1], heartbeat_subject[WB_SUBJECT_MAX + 1];
    char reply_prefix[WB_SUBJECT_MAX + 1]; /* of its reply subjects; router and token follow */
    size_t reply_prefix_len;

    /* Held while a heartbeat is made and published, so that they leave in the order of what they
     * tell. Taken before `lock`. */
    pthread_mutex_t telling;
    pthread_mutex_t
        parsing; /* nats.c parses headers at the first look: one at a time. Taken after `lock` */
    pthread_mutex_t lock;   /* guards all below */
    pthread_cond_t changed; /* drain waits here, */
    pthread_cond_t due;     /* and here the heartbeat thread */
    enum worker_state state;
    atomic_bool stopped; /* state is WORKER_STOPPED; read without the lock */
    struct wb_task *tasks;
    struct wb_task *spares; /* tasks that have ended, for the next ones */
    unsigned spare_count;
    uint32_t inflight;
    struct worker_router *routers; /* HEARTBEAT_ROUTERS_MAX places, those of count 0 free */
    unsigned router_count;         /* places ever used */
    natsSubscription *requests, *cancels, *announces;
    pthread_t beater;
    bool beating;
    mono next_beat;         /* when the heartbeat thread sends the next full one */
    bool load_changed;      /* since the last heartbeat, perhaps there and back */
    bool full_owed;         /* the next heartbeat tells all */
    uint32_t told_inflight; /* by the last heartbeat; NOTHING_TOLD: it did not leave */
    mono last_request;
    struct rng rng;
    atomic_int refs; /* the owner, each subscription, each task */
};

#define NOTHING_TOLD UINT32_MAX /* no count is that high */
#define WORKER_MAGIC 0x77626b72u
#define TASK_MAGIC 0x7762746bu

void worker_release(struct wb_worker *worker);
/* Under the lock. */
void worker_count_router(struct wb_worker *worker, struct wb_task *task, struct span router);
void worker_unlist(struct wb_worker *worker, struct wb_task *task);
/* On one of its conditions. False: the time has come. */
bool worker_wait(struct wb_worker *worker, pthread_cond_t *condition, mono until);

/* Sends one full heartbeat of the present state, or of `leaving`. Not under the lock. */
wb_status heartbeats_send(struct wb_worker *worker, bool leaving);
wb_status heartbeats_start(struct wb_worker *worker);
void heartbeats_stop(struct wb_worker *worker);
void heartbeats_announce(struct wb_worker *worker); /* a router asked: soon, at random */
void heartbeats_now(struct wb_worker *worker);
/* Under the lock. A task came or went: a store, and the first in a window wakes the thread. */
void heartbeats_load(struct wb_worker *worker);

/* Under the lock. Owns the message if it succeeds; NULL: no memory. */
struct wb_task *task_create(struct wb_worker *worker, natsMsg *message);
void task_release(struct wb_task *task);
void task_free_spares(struct wb_worker *worker); /* nobody else holds the worker any more */
/* Of the request; from any thread. NULL: none. Lives in the message. */
const char *task_header(const struct wb_task *task, struct span name);

#endif
