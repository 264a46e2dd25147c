#include "cli/bench_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE_MS 5000

/* Reads until PONG. */
static bool handshake(struct wire *w)
{
    for (;;) {
        struct parser_result r =
            parser_next(span_of(w->in + w->in_at, w->in_end - w->in_at), WIRE_IN_SIZE);
        w->in_at += r.used;
        if (r.op == PARSER_PONG)
            return true;
        if (r.op == PARSER_ERR || r.op == PARSER_BROKEN) {
            snprintf(w->error, sizeof(w->error), "%.*s", (int)(r.text.len < 120 ? r.text.len : 120),
                     r.text.ptr);
            return false;
        }
        if (r.op == PARSER_MORE && wire_read(w, HANDSHAKE_MS) != 1)
            return false;
    }
}

bool wire_open(struct wire *w, int port, const char *name)
{
    *w = (struct wire){.fd = -1, .in = malloc(WIRE_IN_SIZE), .out = malloc(WIRE_OUT_SIZE)};
    if (w->in == NULL || w->out == NULL)
        return false;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int yes = 1;
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        return false;
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return wire_print(
               w,
               "CONNECT "
               "{\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,"
               "\"echo\":true,"
               "\"protocol\":1,\"lang\":\"c\",\"version\":\"0\",\"name\":\"%s\"}\r\nPING\r\n",
               name) &&
           wire_flush(w) && handshake(w);
}

void wire_close(struct wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    free(w->in);
    free(w->out);
    w->fd = -1;
    w->in = w->out = NULL;
}

bool wire_flush(struct wire *w)
{
    size_t at = 0;
    while (at < w->out_end) {
        ssize_t n = send(w->fd, w->out + at, w->out_end - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    w->out_end = 0;
    return true;
}

bool wire_put(struct wire *w, const void *bytes, size_t n)
{
    if (n > WIRE_OUT_SIZE - w->out_end && !wire_flush(w))
        return false;
    memcpy(w->out + w->out_end, bytes, n);
    w->out_end += n;
    return true;
}

bool wire_print(struct wire *w, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return n >= 0 && (size_t)n < sizeof(text) && wire_put(w, text, (size_t)n);
}

int wire_read(struct wire *w, int timeout_ms)
{
    struct pollfd ready = {w->fd, POLLIN, 0};
    if (w->in_at > 0) {
        memmove(w->in, w->in + w->in_at, w->in_end - w->in_at);
        w->in_end -= w->in_at;
        w->in_at = 0;
    }
    if (w->in_end == WIRE_IN_SIZE)
        return -1; /* a message larger than any of ours */
    if (poll(&ready, 1, timeout_ms) != 1)
        return 0;
    ssize_t n = recv(w->fd, w->in + w->in_end, WIRE_IN_SIZE - w->in_end, 0);
    if (n <= 0)
        return -1;
    w->in_end += (size_t)n;
    return 1;
}

int wire_next(struct wire *w, struct parser_message *m)
{
    for (;;) {
        struct parser_result r =
            parser_next(span_of(w->in + w->in_at, w->in_end - w->in_at), WIRE_IN_SIZE);
        w->in_at += r.used;
        switch (r.op) {
        case PARSER_MSG:
            *m = r.message;
            return 1;
        case PARSER_MORE:
            return 0;
        case PARSER_PING:
            if (!wire_print(w, "PONG\r\n"))
                return -1;
            break;
        case PARSER_ERR:
        case PARSER_BROKEN:
            snprintf(w->error, sizeof(w->error), "%.*s", (int)(r.text.len < 120 ? r.text.len : 120),
                     r.text.ptr);
            return -1;
        default:
            break;
        }
    }
}
