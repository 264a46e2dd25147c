/* Where a transport can be:
 *
 *   LOOKUP -> TRYING -> CLEAR -> SECURING -> SECURE
 *      \________\_________________\______ -> FAILED
 *
 * LOOKUP   the name is being looked up (an address skips this, by way of the timer, so that no
 * event comes from inside open). TRYING   connect(2) to addresses[at] is under way; its share of
 * the time runs. The next address follows a failure. CLEAR    TCP stands, bytes pass as they are.
 * SECURING the TLS handshake runs; nothing is read or written by the owner.
 * SECURE   bytes pass through TLS.
 * FAILED   `failed` was told; only close is left.
 *
 * The descriptor, its watcher and the TLS object live and end together (drop_socket). Events are
 * always the last thing a function here does, because the owner may close, and so free, the
 * transport inside one. It does not reconnect, has no buffers of its own, and knows nothing of
 * NATS. Once CLEAR or SECURE a broken connection shows in the result of read or write, not as an
 * event: the owner decides in which order to learn of the last bytes and of the end. */
#include "lane/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/loop.h"

#define TRANSPORT_MAGIC 0x7a4e5b01u
#define ADDRESSES_MAX 16

enum phase { LOOKUP, TRYING, CLEAR, SECURING, SECURE, FAILED };

struct transport {
    uint32_t magic;
    enum phase phase;
    struct loop *loop;
    const struct transport_events *events;
    void *arg;
    struct loop_lookup *lookup;
    struct loop_timer *timer;
    struct loop_io *io;
    struct tls *tls;
    int fd;
    int wanted;       /* what the watcher is armed for */
    bool write_stuck; /* a write took less than it was given */
    int64_t timeout_ms;
    struct loop_address addresses[ADDRESSES_MAX];
    int count, at;
    wb_status status;
    char text[TLS_TEXT_MAX];
};

static void on_io(void *arg, int ready);

static void want(struct transport *t, int events)
{
    if (t->io && t->wanted != events) {
        t->wanted = events;
        loop_io_want(t->io, events);
    }
}

static void drop_socket(struct transport *t)
{
    tls_destroy(t->tls);
    t->tls = NULL;
    loop_io_close(t->io);
    t->io = NULL;
    t->wanted = 0;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

static void fail(struct transport *t, wb_status why)
{
    drop_socket(t);
    loop_timer_set(t->timer, MONO_NEVER);
    t->phase = FAILED;
    t->events->failed(t->arg, why, t->text);
}

static int open_socket(const struct loop_address *address)
{
    int on = 1, idle_s = 30, interval_s = 10, probes = 3;
    int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* All of these are wishes: a socket without them still works. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    return fd;
}

/* Begins with addresses[at] or the first after it that can be begun with; fails when there is none.
 */
static void try_addresses(struct transport *t)
{
    for (; t->at < t->count; t->at++) {
        const struct loop_address *address = &t->addresses[t->at];
        struct sockaddr_storage where = {0};

        memcpy(&where, address->bytes, address->length);
        t->fd = open_socket(address);
        if (t->fd >= 0 && (connect(t->fd, (struct sockaddr *)&where, address->length) == 0 ||
                           errno == EINPROGRESS)) {
            t->io = loop_io_open(t->loop, t->fd, on_io, t);
            if (t->io) {
                t->phase = TRYING;
                want(t, LOOP_WRITE);
                loop_timer_set(t->timer, mono_add_ms(loop_now(t->loop), t->timeout_ms / t->count));
                return;
            }
            errno = ENOMEM;
        }
        snprintf(t->text, sizeof(t->text), "connect: %s", strerror(errno));
        drop_socket(t);
    }
    fail(t, WB_IO);
}

static void next_address(struct transport *t, int error)
{
    snprintf(t->text, sizeof(t->text), "connect: %s", strerror(error));
    drop_socket(t);
    t->at++;
    try_addresses(t);
}

static void on_lookup(void *arg, const struct loop_address *all, int n, const char *text)
{
    struct transport *t = arg;

    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    t->lookup = NULL;
    if (n <= 0) {
        snprintf(t->text, sizeof(t->text), "lookup: %.200s", text ? text : "no address");
        fail(t, WB_IO);
        return;
    }
    t->count = n < ADDRESSES_MAX ? n : ADDRESSES_MAX;
    memcpy(t->addresses, all, (size_t)t->count * sizeof(*all));
    try_addresses(t);
}

static void on_timer(void *arg)
{
    struct transport *t = arg;

    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    if (t->phase == LOOKUP && t->status == WB_OK)
        try_addresses(t);
    else if (t->phase == TRYING)
        next_address(t, ETIMEDOUT);
    else if (t->phase != FAILED && t->status != WB_OK)
        fail(t, t->status);
}

/* True: the host is an address, and now the only one. */
static bool take_address(struct transport *t, const char *host, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct loop_address *a = &t->addresses[0];

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(a->bytes, &v4, sizeof(v4));
        a->length = sizeof(v4);
        a->family = AF_INET;
    } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(a->bytes, &v6, sizeof(v6));
        a->length = sizeof(v6);
        a->family = AF_INET6;
    } else {
        return false;
    }
    t->count = 1;
    return true;
}

/* An error that must not be told from inside the present call: the timer tells it. */
static void fail_later(struct transport *t, wb_status why)
{
    t->status = why;
    loop_timer_set(t->timer, loop_now(t->loop));
}

struct transport *transport_open(struct loop *loop, const char *host, int port, int64_t timeout_ms,
                                 const struct transport_events *events, void *arg)
{
    struct transport *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    MAGIC_SET(t, TRANSPORT_MAGIC);
    t->phase = LOOKUP;
    t->loop = loop;
    t->events = events;
    t->arg = arg;
    t->fd = -1;
    t->timeout_ms = timeout_ms;
    t->timer = loop_timer_create(loop, on_timer, t);
    if (!t->timer) {
        free(t);
        return NULL;
    }
    if (take_address(t, host, port)) {
        loop_timer_set(t->timer, loop_now(loop));
        return t;
    }
    t->lookup = loop_lookup_start(loop, host, port, on_lookup, t);
    if (!t->lookup) {
        snprintf(t->text, sizeof(t->text), "lookup: cannot start");
        fail_later(t, WB_NO_MEMORY);
    }
    return t;
}

void transport_close(struct transport *t)
{
    if (!t)
        return;
    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    if (t->lookup)
        loop_lookup_cancel(t->lookup);
    drop_socket(t);
    loop_timer_destroy(t->timer);
    MAGIC_SET(t, 0);
    free(t);
}

static void on_connect(struct transport *t)
{
    int error = 0;
    socklen_t n = sizeof(error);

    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    if (error) {
        next_address(t, error);
        return;
    }
    t->phase = CLEAR;
    loop_timer_set(t->timer, MONO_NEVER);
    want(t, LOOP_READ);
    t->events->connected(t->arg);
}

static void on_handshake(struct transport *t)
{
    switch (tls_handshake(t->tls, t->text)) {
    case TLS_OK:
        t->phase = SECURE;
        want(t, LOOP_READ);
        t->events->secured(t->arg);
        return;
    case TLS_WANT_READ:
        want(t, LOOP_READ);
        return;
    case TLS_WANT_WRITE:
        want(t, LOOP_WRITE);
        return;
    default:
        fail(t, WB_DENIED);
    }
}

static void on_io(void *arg, int ready)
{
    struct transport *t = arg;

    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    if (t->phase == TRYING) {
        on_connect(t);
    } else if (t->phase == SECURING) {
        on_handshake(t);
    } else if (t->phase == CLEAR || t->phase == SECURE) {
        bool writable = t->write_stuck && (ready & LOOP_WRITE || t->phase == SECURE);

        if (writable) {
            t->write_stuck = false;
            want(t, LOOP_READ);
        }
        t->events->ready(t->arg, ready & LOOP_READ, writable);
    }
}

void transport_secure(struct transport *t, const struct tls_settings *settings)
{
    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    CHECK(t->phase == CLEAR);
    t->phase = SECURING;
    t->tls = tls_create(t->fd, settings, t->text);
    if (!t->tls) {
        want(t, 0);
        fail_later(t, WB_INVALID);
        return;
    }
    want(t, LOOP_WRITE); /* writable at once: the handshake begins from the loop */
}

static void stuck(struct transport *t, bool for_writing)
{
    t->write_stuck = true;
    want(t, for_writing ? LOOP_READ | LOOP_WRITE : LOOP_READ);
}

static int64_t ended(struct transport *t, const char *text)
{
    if (text != t->text)
        snprintf(t->text, sizeof(t->text), "%s", text);
    return -1;
}

/* A record holds at most 16 KiB, so it takes several to fill `out`; a full one says nothing about
 * what OpenSSL still holds. */
static int64_t read_secure(struct transport *t, char *out, size_t n, bool *more)
{
    size_t total = 0, got = 0;

    while (total < n) {
        switch (tls_read(t->tls, out + total, n - total, &got, t->text)) {
        case TLS_OK:
            total += got;
            break;
        case TLS_WANT_WRITE:
            stuck(t, true);
            return (int64_t)total;
        case TLS_WANT_READ:
            return (int64_t)total;
        default:
            *more = total > 0; /* the end itself is told by the next read */
            return total > 0 ? (int64_t)total : -1;
        }
    }
    *more = true;
    return (int64_t)total;
}

int64_t transport_read(struct transport *t, char *out, size_t n, bool *more)
{
    ssize_t got;

    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    *more = false;
    if (t->phase == SECURE)
        return read_secure(t, out, n, more);
    if (t->phase != CLEAR)
        return 0;
    got = recv(t->fd, out, n, 0);
    if (got > 0)
        return got;
    if (got == 0)
        return ended(t, "closed by the server");
    return errno == EAGAIN || errno == EINTR ? 0 : ended(t, strerror(errno));
}

static int64_t write_secure(struct transport *t, const char *bytes, size_t n)
{
    size_t total = 0, put = 0;

    while (total < n) {
        switch (tls_write(t->tls, bytes + total, n - total, &put, t->text)) {
        case TLS_OK:
            total += put;
            break;
        case TLS_WANT_WRITE:
            stuck(t, true);
            return (int64_t)total;
        case TLS_WANT_READ:
            stuck(t, false);
            return (int64_t)total;
        default:
            return -1;
        }
    }
    return (int64_t)total;
}

int64_t transport_write(struct transport *t, const char *bytes, size_t n)
{
    ssize_t sent;

    MAGIC_CHECK(t, TRANSPORT_MAGIC);
    if (t->phase == SECURE)
        return write_secure(t, bytes, n);
    if (t->phase != CLEAR)
        return 0;
    sent = send(t->fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return ended(t, strerror(errno));
    if (sent < 0)
        sent = 0;
    if ((size_t)sent < n)
        stuck(t, true);
    return sent;
}

const char *transport_text(const struct transport *t)
{
    return t->text;
}

bool transport_is_secure(const struct transport *t)
{
    return t->phase == SECURE;
}
