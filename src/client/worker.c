/* libwaybill's worker: its subscriptions, its list of open tasks, its life.
 *
 * States: new -> ready <-> busy -> draining -> stopped; drain and stop go forward only. One lock
 * guards state, list and counts; it is never held while nats.c (but for a message's parts) or a
 * callback of the owner is called; another one keeps heartbeats in their order. Threads: nats.c's
 * (one per subscription: requests, cancels, announces), the heartbeat thread, and any that the
 * owner finishes tasks from.
 *
 * Life of memory: the owner, each live subscription and each open task hold a reference; the last
 * one frees. A subscription's is given back only in its on-complete callback, because nats.c may be
 * inside our handler until then.
 *
 * Drain: routers that have not yet seen the `draining` heartbeat may still send. So it keeps
 * serving until nothing is open and nothing has come for SETTLE_MS, then leaves the server's list,
 * serves what had arrived, and only then says `leaving`.
 *
 * It does not hold requests back at its capacity: routers count, and the owner may refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "client/message.h"
#include "client/worker_state.h"
#include "wire/headers.h"
#include "wire/name.h"
#include "wire/subject.h"

#define DRAIN_STEP_MS 100 /* between looks at the link while the server's word is awaited */
#define SETTLE_MS 250
#define FLUSH_MS 5000
#define LOAD_MS_LEAST 10
#define LOAD_MS_DEFAULT 100
#define LOAD_SHARE 50 /* by default at most so many tell the load in an interval */
#define TASKS_MAX_DEFAULT 65536
#define FULL_RETRY_AFTER_MS 100

bool worker_wait(struct wb_worker *w, pthread_cond_t *condition, mono until)
{
    struct timespec at = {until.us / 1000000, (until.us % 1000000) * 1000};
    return pthread_cond_timedwait(condition, &w->lock, &at) == 0;
}

static void sync_init(struct wb_worker *w)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&w->telling, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->parsing, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attributes);
    pthread_cond_init(&w->due, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void sync_fini(struct wb_worker *w)
{
    pthread_cond_destroy(&w->due);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->parsing);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->telling);
}

static void free_adapters(char **adapters, unsigned count)
{
    for (unsigned i = 0; adapters != NULL && i < count; i++)
        free(adapters[i]);
    free(adapters);
}

void worker_release(struct wb_worker *w)
{
    if (atomic_fetch_sub(&w->refs, 1) != 1)
        return;
    sync_fini(w);
    task_free_spares(w);
    free_adapters(w->adapters, w->adapter_count);
    free(w->routers);
    free(w->service);
    free(w->id);
    free(w->prefix);
    free(w->class_name);
    w->magic = 0;
    free(w);
}

/* Where the router is counted, perhaps a free place; -1: nowhere. */
static int find_router(const struct wb_worker *w, struct span router)
{
    int free_place = -1;
    for (unsigned i = 0; i < w->router_count; i++) {
        if (span_eq_str(router, w->routers[i].id))
            return (int)i;
        if (w->routers[i].count == 0)
            free_place = (int)i;
    }
    return free_place;
}

void worker_count_router(struct wb_worker *w, struct wb_task *task, struct span router)
{
    CHECK(w->routers != NULL);
    int place = find_router(w, router);
    if (place < 0 || !span_eq_str(router, w->routers[place].id)) {
        if (!name_is_id(router) || (place < 0 && w->router_count == HEARTBEAT_ROUTERS_MAX))
            return; /* still in `inflight` */
        if (place < 0)
            place = (int)w->router_count++;
        memcpy(w->routers[place].id, router.ptr, router.len);
        w->routers[place].id[router.len] = '\0';
        if (w->routers[place].told > 0)
            w->routers[place].told = NOTHING_TOLD; /* that was another's */
    }
    w->routers[place].count++;
    task->router = place;
}

static void list(struct wb_worker *w, struct wb_task *task)
{
    task->next = w->tasks;
    if (w->tasks != NULL)
        w->tasks->previous = task;
    w->tasks = task;
    w->inflight++;
    w->last_request = task->received;
    heartbeats_load(w);
}

void worker_unlist(struct wb_worker *w, struct wb_task *task)
{
    if (task->previous != NULL)
        task->previous->next = task->next;
    else
        w->tasks = task->next;
    if (task->next != NULL)
        task->next->previous = task->previous;
    w->inflight--;
    if (task->router >= 0)
        w->routers[task->router].count--;
    heartbeats_load(w);
    pthread_cond_broadcast(&w->changed);
}

/* Which router the task is from: its reply subject says it, and the header where there is none. */
static struct span router_of(const struct wb_worker *w, const struct wb_task *task)
{
    if (task->reply != NULL && strncmp(task->reply, w->reply_prefix, w->reply_prefix_len) == 0) {
        const char *id = task->reply + w->reply_prefix_len, *end = strchr(id, '.');
        if (end != NULL)
            return span_of(id, (size_t)(end - id));
    }
    const char *named = task_header(task, H_ROUTER);
    return span_str(named != NULL ? named : "");
}

static void on_request(natsConnection *nc, natsSubscription *sub, natsMsg *message, void *arg)
{
    (void)nc, (void)sub;
    struct wb_worker *w = arg;
    MAGIC_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->lock);
    bool full = w->inflight >= w->options.tasks_max;
    struct wb_task *task = task_create(w, message);
    if (task != NULL) {
        list(w, task);
        worker_count_router(w, task, router_of(w, task));
    }
    pthread_mutex_unlock(&w->lock);
    if (task == NULL) {
        natsMsg_Destroy(message);
        return;
    }
    if (full) {
        wb_status s = wb_task_refuse(task, 429, FULL_RETRY_AFTER_MS);
        (void)s; /* unheard, the router's own clock decides */
        return;
    }
    w->options.on_task(w->options.arg, task);
}

/* The next open task of that request and attempt behind `after`, held; NULL: none. Two routers may
 * have the same id in flight. */
static struct wb_task *find_cancelled(struct wb_worker *w, const char *id, int64_t attempt)
{
    pthread_mutex_lock(&w->lock);
    struct wb_task *task = w->tasks;
    for (; task != NULL; task = task->next) {
        if (!atomic_load(&task->cancelled) && wb_task_attempt(task) == attempt &&
            strcmp(wb_task_request_id(task), id) == 0)
            break;
    }
    if (task != NULL) {
        atomic_store(&task->cancelled, true);
        atomic_fetch_add(&task->refs, 1);
    }
    pthread_mutex_unlock(&w->lock);
    return task;
}

static void on_cancel(natsConnection *nc, natsSubscription *sub, natsMsg *message, void *arg)
{
    (void)nc, (void)sub;
    struct wb_worker *w = arg;
    const char *id = message_get(message, H_REQUEST_ID);
    int64_t attempt = message_get_int(message, H_ATTEMPT, 1);
    struct wb_task *task;
    while (id != NULL && (task = find_cancelled(w, id, attempt)) != NULL) {
        if (w->options.on_cancel != NULL)
            w->options.on_cancel(w->options.arg, task);
        task_release(task);
    }
    natsMsg_Destroy(message);
}

static void on_announce(natsConnection *nc, natsSubscription *sub, natsMsg *message, void *arg)
{
    (void)nc, (void)sub;
    heartbeats_announce(arg);
    natsMsg_Destroy(message);
}

static void on_complete(void *arg)
{
    worker_release(arg);
}

static bool options_are_valid(const wb_worker_options *o)
{
    return o->on_task != NULL && o->service != NULL && name_is_id(span_str(o->service)) &&
           o->id != NULL && name_is_id(span_str(o->id)) && o->epoch >= 0 && o->weight <= 1000 &&
           o->ranks <= HEARTBEAT_RANKS_MAX &&
           (o->prefix == NULL ||
            (message_is_subject(o->prefix) && strlen(o->prefix) <= WB_NAME_MAX)) &&
           (o->class_name == NULL || name_is_id(span_str(o->class_name))) &&
           o->adapter_count <= HEARTBEAT_ADAPTERS_MAX &&
           (o->interval_ms == 0 || (o->interval_ms >= 100 && o->interval_ms <= 60000)) &&
           (o->load_ms == 0 || (o->load_ms >= LOAD_MS_LEAST && o->load_ms <= 60000));
}

static wb_status copy_adapters(const char *const *from, unsigned count, char ***out)
{
    if (count > HEARTBEAT_ADAPTERS_MAX)
        return WB_INVALID;
    for (unsigned i = 0; i < count; i++)
        if (!name_is_long(span_str(from[i])))
            return WB_INVALID;
    char **copy = calloc(count + 1, sizeof(*copy));
    for (unsigned i = 0; copy != NULL && i < count; i++) {
        copy[i] = strdup(from[i]);
        if (copy[i] == NULL) {
            free_adapters(copy, count);
            copy = NULL;
        }
    }
    *out = copy;
    return copy != NULL ? WB_OK : WB_NO_MEMORY;
}

static void fill_options(struct wb_worker *w, const wb_worker_options *o)
{
    w->options = *o;
    if (o->epoch == 0)
        w->options.epoch = clock_wall().us / 1000;
    if (o->weight == 0)
        w->options.weight = 100;
    if (o->interval_ms == 0)
        w->options.interval_ms = HEARTBEAT_INTERVAL_DEFAULT_MS;
    if (o->load_ms == 0)
        w->options.load_ms = w->options.interval_ms > LOAD_SHARE * LOAD_MS_DEFAULT
                                 ? w->options.interval_ms / LOAD_SHARE
                                 : LOAD_MS_DEFAULT;
    if (o->tasks_max == 0)
        w->options.tasks_max = TASKS_MAX_DEFAULT;
    struct span prefix = span_str(w->prefix), service = span_str(w->service), id = span_str(w->id);
    subject_worker(w->subject, prefix, service, id);
    subject_worker_cancel(w->cancel_subject, prefix, service, id);
    subject_heartbeat(w->heartbeat_subject, prefix, service, id);
    w->reply_prefix_len = (size_t)snprintf(w->reply_prefix, sizeof(w->reply_prefix),
                                           "%s.reply.%s.%s.", w->prefix, w->service, w->id);
    subject_join(w->announce_subject, prefix, "announce");
}

wb_status wb_worker_create(natsConnection *nc, const wb_worker_options *o, wb_worker **out)
{
    *out = NULL;
    if (nc == NULL || o == NULL || !options_are_valid(o))
        return WB_INVALID;
    struct wb_worker *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return WB_NO_MEMORY;
    MAGIC_SET(w, WORKER_MAGIC);
    w->nc = nc;
    atomic_init(&w->refs, 1);
    sync_init(w);
    w->service = strdup(o->service);
    w->id = strdup(o->id);
    w->prefix = strdup(o->prefix != NULL ? o->prefix : WB_DEFAULT_PREFIX);
    w->class_name = o->class_name != NULL ? strdup(o->class_name) : NULL;
    w->routers = calloc(HEARTBEAT_ROUTERS_MAX, sizeof(*w->routers));
    wb_status s = copy_adapters(o->adapters, o->adapter_count, &w->adapters);
    if (s == WB_OK)
        w->adapter_count = o->adapter_count;
    if (s == WB_OK &&
        (!w->service || !w->id || !w->prefix || !w->routers || (o->class_name && !w->class_name)))
        s = WB_NO_MEMORY;
    if (s != WB_OK) {
        worker_release(w);
        return s;
    }
    fill_options(w, o);
    uint64_t seed;
    rng_secure(&seed, sizeof(seed));
    rng_seed(&w->rng, seed);
    *out = w;
    return WB_OK;
}

static wb_status subscribe(struct wb_worker *w, natsSubscription **sub, const char *subject,
                           natsMsgHandler handler)
{
    atomic_fetch_add(&w->refs, 1);
    natsStatus s = natsConnection_Subscribe(sub, w->nc, subject, handler, w);
    if (s == NATS_OK)
        s = natsSubscription_SetOnCompleteCB(*sub, on_complete, w);
    if (s == NATS_OK)
        s = natsSubscription_SetPendingLimits(*sub, -1, 256 * 1024 * 1024);
    /* Of one closed at once no completion is told, and a handler may still run: its reference
     * stays. */
    if (*sub == NULL)
        worker_release(w);
    return message_status(s);
}

wb_status wb_worker_start(wb_worker *w)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->lock);
    bool fresh = w->state == WORKER_NEW;
    if (fresh)
        w->state = WORKER_READY;
    pthread_mutex_unlock(&w->lock);
    if (!fresh)
        return WB_INVALID;
    /* The analyzer does not count references: subscribe() lets go of the one it took, not of ours.
     */
    // NOLINTBEGIN(clang-analyzer-unix.Malloc)
    wb_status s = subscribe(w, &w->requests, w->subject, on_request);
    if (s == WB_OK)
        s = subscribe(w, &w->cancels, w->cancel_subject, on_cancel);
    if (s == WB_OK && !w->options.no_heartbeats)
        s = subscribe(w, &w->announces, w->announce_subject, on_announce);
    /* known to the server before the first heartbeat says so: else a router's request may find
     * nobody */
    if (s == WB_OK)
        s = message_status(natsConnection_FlushTimeout(w->nc, FLUSH_MS));
    if (s == WB_OK)
        s = heartbeats_start(w);
    if (s != WB_OK)
        wb_worker_stop(w);
    // NOLINTEND(clang-analyzer-unix.Malloc)
    return s;
}

void wb_worker_set_busy(wb_worker *w, bool busy)
{
    pthread_mutex_lock(&w->lock);
    bool can = w->state == WORKER_READY || w->state == WORKER_BUSY;
    if (can)
        w->state = busy ? WORKER_BUSY : WORKER_READY;
    pthread_mutex_unlock(&w->lock);
    if (can)
        heartbeats_now(w);
}

wb_status wb_worker_set_adapters(wb_worker *w, const char *const *adapters, unsigned count)
{
    char **copy;
    wb_status s = copy_adapters(adapters, count, &copy);
    if (s != WB_OK)
        return s;
    pthread_mutex_lock(&w->lock);
    char **old = w->adapters;
    unsigned old_count = w->adapter_count;
    w->adapters = copy;
    w->adapter_count = count;
    pthread_mutex_unlock(&w->lock);
    free_adapters(old, old_count);
    heartbeats_now(w);
    return WB_OK;
}

uint32_t wb_worker_inflight(wb_worker *w)
{
    pthread_mutex_lock(&w->lock);
    uint32_t n = w->inflight;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* Waits until nothing is open and nothing came for settle_ms since `since`. False: `until` came
 * first. */
static bool wait_quiet(struct wb_worker *w, mono since, int64_t settle_ms, mono until)
{
    pthread_mutex_lock(&w->lock);
    bool quiet = false;
    for (;;) {
        mono now = clock_mono();
        mono last = mono_before(w->last_request, since) ? since : w->last_request;
        mono settled = mono_add_ms(last, settle_ms);
        quiet = w->inflight == 0 && !mono_before(now, settled);
        if (quiet || !mono_before(now, until))
            break;
        worker_wait(w, &w->changed, mono_before(now, settled) ? mono_min(settled, until) : until);
    }
    pthread_mutex_unlock(&w->lock);
    return quiet;
}

/* nats.c waits for the server's word, which never comes while the link is down: then nobody can
 * send us more either. */
static void await_drained(struct wb_worker *w, mono until)
{
    while (natsConnection_Status(w->nc) == NATS_CONN_STATUS_CONNECTED &&
           mono_before(clock_mono(), until) &&
           natsSubscription_WaitForDrainCompletion(w->requests, DRAIN_STEP_MS) == NATS_TIMEOUT)
        continue;
}

wb_status wb_worker_drain(wb_worker *w, int64_t timeout_ms)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    mono start = clock_mono(), until = mono_add_ms(start, timeout_ms);
    pthread_mutex_lock(&w->lock);
    bool alive = w->state == WORKER_READY || w->state == WORKER_BUSY;
    if (alive)
        w->state = WORKER_DRAINING;
    pthread_mutex_unlock(&w->lock);
    if (!alive)
        return WB_CLOSED;
    wb_status s = heartbeats_send(w, false);
    (void)s; /* without a link nobody sends us more either */
    bool quiet = wait_quiet(w, start, SETTLE_MS, until);
    if (quiet && natsSubscription_Drain(w->requests) == NATS_OK) {
        await_drained(w, until);
        quiet = wait_quiet(w, start, 0, until);
    }
    wb_worker_stop(w);
    return quiet ? WB_OK : WB_TIMED_OUT;
}

static void unsubscribe(natsSubscription **sub)
{
    if (*sub == NULL)
        return;
    natsSubscription_Unsubscribe(*sub); /* fails if it was drained already: as well */
    natsSubscription_Destroy(*sub);
    *sub = NULL;
}

void wb_worker_stop(wb_worker *w)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->lock);
    enum worker_state before = w->state;
    w->state = WORKER_STOPPED;
    atomic_store(&w->stopped, true);
    pthread_cond_broadcast(&w->changed);
    pthread_cond_signal(&w->due);
    pthread_mutex_unlock(&w->lock);
    if (before == WORKER_NEW || before == WORKER_STOPPED)
        return;
    heartbeats_stop(w); /* so that `leaving` is the last one */
    wb_status s = heartbeats_send(w, true);
    unsubscribe(&w->requests);
    unsubscribe(&w->cancels);
    unsubscribe(&w->announces);
    if (s == WB_OK)
        natsConnection_FlushTimeout(w->nc, FLUSH_MS);
}

void wb_worker_destroy(wb_worker *w)
{
    if (w == NULL)
        return;
    wb_worker_stop(w);
    worker_release(w);
}
