/* libuv behind a door.
 *
 * A turn, in libuv's order: timers; hooks (one prepare handle walks our list, because libuv runs
 * its own in reverse order of creation); the poll, with the callbacks of descriptors, wakes,
 * signals and lookups inside it; closed handles are freed.
 *
 * Time. `now` is read once per turn after the poll has slept. libuv calls descriptors from within
 * the poll, before any check handle, so the prepare handle marks `now` as stale and whichever
 * callback comes first reads the clock; the check handle does it for turns that woke nobody. What
 * runs in a turn sees one time, not that of before the sleep.
 *
 * Timers. libuv counts whole milliseconds of CLOCK_MONOTONIC, and so do we: a timer is set to the
 * first whole millisecond not before its due time, against libuv's own idea of now, so it costs no
 * clock read and cannot come early. Setting it again to the same millisecond is free. This libuv
 * runs a timer that was set to now by a timer callback within the same round, for ever: such a
 * timer is put one millisecond off.
 *
 * Objects. Each is one allocation with its libuv handle inside; handle->data points back to it.
 * Closing is final for the owner at once: no callback comes after it. The memory goes when libuv
 * lets go of the handle, in the same turn or in loop_destroy. A lookup in a thread of libuv's pool
 * cannot be interrupted: loop_destroy waits for it.
 *
 * Does not: own descriptors, read or write them, or promise an order among the descriptors of one
 * turn. */
#include "base/loop.h"

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define ADDRESSES_MAX 32

enum {
    MAGIC_LOOP = 0x4c4f4f50,
    MAGIC_IO = 0x4c494f00,
    MAGIC_TIMER = 0x4c544d52,
    MAGIC_SIGNAL = 0x4c534947,
    MAGIC_WAKE = 0x4c57414b,
    MAGIC_LOOKUP = 0x4c4b5550
};

struct loop {
    int magic;
    mono now;
    bool stale;     /* the poll may have slept since `now` was read */
    bool running;   /* inside loop_run or loop_turn */
    bool turning;   /* inside loop_turn */
    bool in_timers; /* a timer's callback runs */
    bool busy;      /* a timer fired in this turn: it need not sleep */
    bool stopped;
    unsigned left_open; /* found by loop_destroy */
    struct list hooks;
    struct link *next; /* the hook after the one that runs */
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t bound; /* ends the sleep of loop_turn */
};

struct loop_hook {
    struct loop *loop;
    struct link link;
    void (*fn)(void *arg);
    void *arg;
};

struct loop_io {
    int magic;
    int wanted;
    struct loop *loop;
    void (*fn)(void *arg, int ready);
    void *arg;
    uv_poll_t uv;
};

struct loop_timer {
    int magic;
    mono due;
    uint64_t armed_ms; /* of libuv's clock; meaningful while active */
    struct loop *loop;
    void (*fn)(void *arg);
    void *arg;
    uv_timer_t uv;
};

struct loop_signal {
    int magic;
    struct loop *loop;
    void (*fn)(void *arg, int signum);
    void *arg;
    uv_signal_t uv;
};

struct loop_wake {
    int magic;
    struct loop *loop;
    void (*fn)(void *arg);
    void *arg;
    uv_async_t uv;
};

struct loop_lookup {
    int magic;
    bool ended; /* the callback runs or was cancelled: nobody is told any more */
    struct loop *loop;
    void (*fn)(void *arg, const struct loop_address *all, int n, const char *text);
    void *arg;
    uv_getaddrinfo_t uv;
};

static void refresh(struct loop *loop)
{
    if (loop->stale)
        loop_update_now(loop);
}

mono loop_now(const struct loop *loop)
{
    return loop->now;
}

mono loop_update_now(struct loop *loop)
{
    loop->stale = false;
    loop->now = clock_mono();
    return loop->now;
}

/* The loop itself */

static void on_prepare(uv_prepare_t *handle)
{
    struct loop *loop = handle->data;

    MAGIC_CHECK(loop, MAGIC_LOOP);
    for (struct link *at = list_first(&loop->hooks); at; at = loop->next) {
        struct loop_hook *hook = CONTAINER_OF(at, struct loop_hook, link);

        loop->next = list_next(&loop->hooks, at);
        hook->fn(hook->arg);
    }
    if (loop->turning && loop->busy)
        uv_stop(&loop->uv); /* also makes the poll not wait */
    loop->busy = false;
    loop->stale = true;
}

static void on_check(uv_check_t *handle)
{
    refresh(handle->data);
}

static void on_bound(uv_timer_t *handle)
{
    refresh(handle->data);
}

struct loop *loop_create(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return NULL;
    if (uv_loop_init(&loop->uv) != 0) {
        free(loop);
        return NULL;
    }
    MAGIC_SET(loop, MAGIC_LOOP);
    list_init(&loop->hooks);
    /* These cannot fail: they only link the handles in. */
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    uv_timer_init(&loop->uv, &loop->bound);
    loop->prepare.data = loop->check.data = loop->bound.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    loop_update_now(loop);
    return loop;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_left(uv_handle_t *handle, void *arg)
{
    struct loop *loop = arg;

    if (uv_is_closing(handle))
        return;
    loop->left_open++;
    uv_close(handle, on_closed);
}

void loop_destroy(struct loop *loop)
{
    struct link *next;

    if (!loop)
        return;
    MAGIC_CHECK(loop, MAGIC_LOOP);
    CHECK(!loop->running);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->bound, NULL);
    uv_walk(&loop->uv, close_left, loop);
    for (struct link *at = list_first(&loop->hooks); at; at = next) {
        next = list_next(&loop->hooks, at);
        loop->left_open++;
        free(CONTAINER_OF(at, struct loop_hook, link));
    }
    if (loop->left_open)
        log_write(LOG_WARN, "loop: %u objects were still open at its end", loop->left_open);
    do
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    while (uv_loop_close(&loop->uv) == UV_EBUSY);
    loop->magic = 0;
    free(loop);
}

void loop_run(struct loop *loop)
{
    MAGIC_CHECK(loop, MAGIC_LOOP);
    CHECK(!loop->running);
    loop->running = true;
    loop_update_now(loop);
    while (!loop->stopped)
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    loop->stopped = false;
    loop->running = false;
}

void loop_turn(struct loop *loop, int max_wait_ms)
{
    MAGIC_CHECK(loop, MAGIC_LOOP);
    CHECK(!loop->running);
    loop->running = loop->turning = true;
    loop->busy = false;
    loop_update_now(loop);
    if (max_wait_ms > 0) {
        uv_update_time(&loop->uv); /* or the bound would count from the last turn */
        uv_timer_start(&loop->bound, on_bound, (uint64_t)max_wait_ms, 0);
        uv_run(&loop->uv, UV_RUN_ONCE);
        uv_timer_stop(&loop->bound);
    } else {
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    loop->running = loop->turning = false;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
    uv_stop(&loop->uv);
}

/* Hooks */

struct loop_hook *loop_hook_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_hook *hook = calloc(1, sizeof(*hook));

    if (!hook)
        return NULL;
    *hook = (struct loop_hook){.loop = loop, .fn = fn, .arg = arg};
    list_append(&loop->hooks, &hook->link);
    return hook;
}

void loop_hook_destroy(struct loop_hook *hook)
{
    struct loop *loop;

    if (!hook)
        return;
    loop = hook->loop;
    if (loop->next == &hook->link)
        loop->next = list_next(&loop->hooks, &hook->link);
    link_remove(&hook->link);
    free(hook);
}

/* Descriptors */

static void on_io(uv_poll_t *handle, int status, int events)
{
    struct loop_io *io = handle->data;
    int ready = 0;

    MAGIC_CHECK(io, MAGIC_IO);
    refresh(io->loop);
    if (events & UV_READABLE)
        ready |= LOOP_READ;
    if (events & UV_WRITABLE)
        ready |= LOOP_WRITE;
    if (status < 0)
        ready = LOOP_READ | LOOP_WRITE;
    if (ready)
        io->fn(io->arg, ready);
    /* libuv stops watching after an error; bytes that came before it may still wait to be read. */
    if (status < 0 && !uv_is_closing((uv_handle_t *)handle) && !uv_is_active((uv_handle_t *)handle))
        loop_io_want(io, io->wanted);
}

struct loop_io *loop_io_open(struct loop *loop, int fd, void (*fn)(void *arg, int ready), void *arg)
{
    struct loop_io *io = calloc(1, sizeof(*io));

    if (!io)
        return NULL;
    if (uv_poll_init(&loop->uv, &io->uv, fd) != 0) {
        free(io);
        return NULL;
    }
    MAGIC_SET(io, MAGIC_IO);
    io->loop = loop;
    io->fn = fn;
    io->arg = arg;
    io->uv.data = io;
    return io;
}

void loop_io_want(struct loop_io *io, int events)
{
    bool active;
    int mask = 0;

    MAGIC_CHECK(io, MAGIC_IO);
    active = uv_is_active((uv_handle_t *)&io->uv);
    if (events == io->wanted && active == (events != 0))
        return;
    io->wanted = events;
    if (events & LOOP_READ)
        mask |= UV_READABLE;
    if (events & LOOP_WRITE)
        mask |= UV_WRITABLE;
    CHECK((mask ? uv_poll_start(&io->uv, mask, on_io) : uv_poll_stop(&io->uv)) == 0);
}

void loop_io_close(struct loop_io *io)
{
    if (!io)
        return;
    MAGIC_CHECK(io, MAGIC_IO);
    uv_close((uv_handle_t *)&io->uv, on_closed);
}

/* Timers */

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *timer = handle->data;
    struct loop *loop;

    MAGIC_CHECK(timer, MAGIC_TIMER);
    loop = timer->loop;
    /* `now` was read before this round of timers began; a timer that is due must not see a time
     * before its own. */
    if (loop->stale || mono_before(loop->now, timer->due))
        loop_update_now(loop);
    loop->busy = true;
    loop->in_timers = true;
    if (mono_before(loop->now, timer->due)) {
        loop_timer_set(timer, timer->due);
    } else {
        timer->due = MONO_NEVER;
        timer->fn(timer->arg);
    }
    loop->in_timers = false;
}

struct loop_timer *loop_timer_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    MAGIC_SET(timer, MAGIC_TIMER);
    timer->due = MONO_NEVER;
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    return timer;
}

void loop_timer_set(struct loop_timer *timer, mono due)
{
    uint64_t now_ms, due_ms;

    MAGIC_CHECK(timer, MAGIC_TIMER);
    timer->due = due;
    if (mono_is_never(due)) {
        uv_timer_stop(&timer->uv);
        return;
    }
    due_ms = due.us <= 0 ? 0 : ((uint64_t)due.us + 999) / 1000;
    now_ms = uv_now(&timer->loop->uv);
    if (timer->loop->in_timers && due_ms <= now_ms)
        due_ms = now_ms + 1;
    if (timer->armed_ms == due_ms && uv_is_active((uv_handle_t *)&timer->uv))
        return;
    timer->armed_ms = due_ms;
    uv_timer_start(&timer->uv, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

void loop_timer_destroy(struct loop_timer *timer)
{
    if (!timer)
        return;
    MAGIC_CHECK(timer, MAGIC_TIMER);
    uv_close((uv_handle_t *)&timer->uv, on_closed);
}

/* Signals */

static void on_signal(uv_signal_t *handle, int signum)
{
    struct loop_signal *sig = handle->data;

    MAGIC_CHECK(sig, MAGIC_SIGNAL);
    refresh(sig->loop);
    sig->fn(sig->arg, signum);
}

struct loop_signal *loop_signal_open(struct loop *loop, int signum,
                                     void (*fn)(void *arg, int signum), void *arg)
{
    struct loop_signal *sig = calloc(1, sizeof(*sig));

    if (!sig)
        return NULL;
    if (uv_signal_init(&loop->uv, &sig->uv) != 0) {
        free(sig);
        return NULL;
    }
    MAGIC_SET(sig, MAGIC_SIGNAL);
    sig->loop = loop;
    sig->fn = fn;
    sig->arg = arg;
    sig->uv.data = sig;
    if (uv_signal_start(&sig->uv, on_signal, signum) != 0) {
        loop_signal_close(sig);
        return NULL;
    }
    return sig;
}

void loop_signal_close(struct loop_signal *sig)
{
    if (!sig)
        return;
    MAGIC_CHECK(sig, MAGIC_SIGNAL);
    uv_close((uv_handle_t *)&sig->uv, on_closed);
}

/* Wakes */

static void on_async(uv_async_t *handle)
{
    struct loop_wake *wake = handle->data;

    MAGIC_CHECK(wake, MAGIC_WAKE);
    refresh(wake->loop);
    wake->fn(wake->arg);
}

struct loop_wake *loop_wake_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_wake *wake = calloc(1, sizeof(*wake));

    if (!wake)
        return NULL;
    MAGIC_SET(wake, MAGIC_WAKE);
    wake->loop = loop;
    wake->fn = fn;
    wake->arg = arg;
    wake->uv.data = wake;
    if (uv_async_init(&loop->uv, &wake->uv, on_async) != 0) {
        free(wake);
        return NULL;
    }
    return wake;
}

void loop_wake_send(struct loop_wake *wake)
{
    uv_async_send(&wake->uv);
}

void loop_wake_destroy(struct loop_wake *wake)
{
    if (!wake)
        return;
    MAGIC_CHECK(wake, MAGIC_WAKE);
    uv_close((uv_handle_t *)&wake->uv, on_closed);
}

/* Lookups */

static int copy_addresses(const struct addrinfo *list, struct loop_address all[ADDRESSES_MAX])
{
    int n = 0;

    for (; list && n < ADDRESSES_MAX; list = list->ai_next) {
        if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
            continue;
        if (list->ai_addrlen > sizeof(all[n].bytes))
            continue;
        memcpy(all[n].bytes, list->ai_addr, list->ai_addrlen);
        all[n].length = list->ai_addrlen;
        all[n].family = list->ai_family;
        n++;
    }
    return n;
}

static void on_lookup(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct loop_lookup *lookup = request->data;
    struct loop_address all[ADDRESSES_MAX] = {{.length = 0}};
    int n = 0;

    MAGIC_CHECK(lookup, MAGIC_LOOKUP);
    refresh(lookup->loop);
    if (!lookup->ended) {
        lookup->ended = true;
        if (status == 0)
            n = copy_addresses(list, all);
        lookup->fn(lookup->arg, all, n,
                   status < 0 ? uv_strerror(status)
                   : n        ? ""
                              : "the name has no address");
    }
    uv_freeaddrinfo(list);
    lookup->magic = 0;
    free(lookup);
}

struct loop_lookup *loop_lookup_start(struct loop *loop, const char *host, int port,
                                      void (*fn)(void *arg, const struct loop_address *all, int n,
                                                 const char *text),
                                      void *arg)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct loop_lookup *lookup;
    char service[8];

    if (port < 0 || port > 65535)
        return NULL;
    lookup = calloc(1, sizeof(*lookup));
    if (!lookup)
        return NULL;
    MAGIC_SET(lookup, MAGIC_LOOKUP);
    lookup->loop = loop;
    lookup->fn = fn;
    lookup->arg = arg;
    lookup->uv.data = lookup;
    snprintf(service, sizeof(service), "%d", port);
    if (uv_getaddrinfo(&loop->uv, &lookup->uv, on_lookup, host, service, &hints) != 0) {
        free(lookup);
        return NULL;
    }
    return lookup;
}

void loop_lookup_cancel(struct loop_lookup *lookup)
{
    if (!lookup)
        return;
    MAGIC_CHECK(lookup, MAGIC_LOOKUP);
    if (lookup->ended)
        return;
    lookup->ended = true;
    /* Refused when a thread of the pool has it already: then its result is thrown away. */
    uv_cancel((uv_req_t *)&lookup->uv);
}
