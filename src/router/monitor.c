/* The HTTP monitor: libmicrohttpd in its external mode. Its epoll descriptor is watched by the
 * loop, so it runs on the loop thread and needs no lock. */
#include "router/monitor.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/loop.h"

#define BODY_MAX (8u * 1024 * 1024)
#define CONNECTIONS_MAX 32
#define TIMEOUT_S 10

struct monitor {
    struct router *router;
    struct MHD_Daemon *daemon;
    struct loop_io *io;
    struct loop_timer *timer;
};

static enum MHD_Result respond(struct MHD_Connection *c, unsigned code, const char *type,
                               const char *text, size_t len)
{
    struct MHD_Response *res =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!res)
        return MHD_NO;
    if (MHD_add_response_header(res, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES) {
        MHD_destroy_response(res);
        return MHD_NO;
    }
    done = MHD_queue_response(c, code, res);
    MHD_destroy_response(res);
    return done;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct monitor *m = cls;
    enum MHD_Result result;
    struct buf body;

    (void)version, (void)data, (void)size, (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return respond(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET\n", 9);
    if (strcmp(url, "/healthz") == 0)
        return router_ready(m->router)
                   ? respond(c, MHD_HTTP_OK, "text/plain", "ok\n", 3)
                   : respond(c, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", "not ready\n", 10);
    if (strcmp(url, "/metrics") != 0)
        return respond(c, MHD_HTTP_NOT_FOUND, "text/plain", "/metrics or /healthz\n", 21);
    buf_init(&body, BODY_MAX);
    if (metrics_write(m->router, &body) == WB_OK)
        result = respond(c, MHD_HTTP_OK, "text/plain; version=0.0.4", buf_span(&body).ptr,
                         buf_len(&body));
    else
        result = respond(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain", "no memory\n", 10);
    buf_fini(&body);
    return result;
}

static void run(struct monitor *m)
{
    MHD_UNSIGNED_LONG_LONG ms;
    mono now;

    MHD_run(m->daemon);
    now = loop_now(m->router->loop);
    loop_timer_set(m->timer, MHD_get_timeout(m->daemon, &ms) == MHD_YES
                                 ? mono_add_ms(now, (int64_t)ms)
                                 : MONO_NEVER);
}

static void on_timer(void *arg)
{
    run(arg);
}

static void on_io(void *arg, int ready)
{
    (void)ready;
    run(arg);
}

/* "host:port", "[v6]:port" or ":port" to an address. */
static bool parse(const char *listen, struct sockaddr_storage *out)
{
    const char *colon = strrchr(listen, ':');
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    char host[64] = "0.0.0.0", *end;
    long port;

    memset(out, 0, sizeof *out);
    if (!colon || (size_t)(colon - listen) >= sizeof host)
        return false;
    port = strtol(colon + 1, &end, 10);
    if (*end || end == colon + 1 || port < 0 || port > 65535)
        return false;
    if (colon > listen) {
        memcpy(host, listen, (size_t)(colon - listen));
        host[colon - listen] = '\0';
    }
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", 10);
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
}

struct monitor *monitor_open(struct router *r, const char *listen, char why[256])
{
    struct monitor *m = calloc(1, sizeof *m);
    struct sockaddr_storage at;
    const union MHD_DaemonInfo *info;

    if (!m || !parse(listen, &at)) {
        snprintf(why, 256, "monitor.listen %s: expected <address>:<port>", listen);
        free(m);
        return NULL;
    }
    m->router = r;
    m->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | (at.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0, NULL, NULL, on_request, m,
        MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
    info = m->daemon ? MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) {
        snprintf(why, 256, "monitor.listen %s: cannot listen there", listen);
        monitor_close(m);
        return NULL;
    }
    m->timer = loop_timer_create(r->loop, on_timer, m);
    m->io = loop_io_open(r->loop, info->epoll_fd, on_io, m);
    if (!m->timer || !m->io) {
        snprintf(why, 256, "monitor.listen %s: no memory", listen);
        monitor_close(m);
        return NULL;
    }
    loop_io_want(m->io, LOOP_READ);
    return m;
}

void monitor_close(struct monitor *m)
{
    if (!m)
        return;
    loop_io_close(m->io);
    loop_timer_destroy(m->timer);
    if (m->daemon)
        MHD_stop_daemon(m->daemon);
    free(m);
}
