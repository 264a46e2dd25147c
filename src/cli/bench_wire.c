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

enum op { OP_MORE, OP_MESSAGE, OP_PING, OP_PONG, OP_ERR, OP_OTHER, OP_BROKEN };

static size_t number_of(struct span field)
{
    unsigned long long n;
    return span_to_u64(field, &n) && n < WIRE_IN_SIZE ? (size_t)n : WIRE_IN_SIZE;
}

/* MSG subject sid [reply] size, HMSG subject sid [reply] headers size; the body follows the line.
 */
static enum op next_message(struct wire *w, const char *line, size_t line_len,
                            struct wire_message *m)
{
    struct span fields[6];
    unsigned n = 0;
    const char *end = line + line_len;
    bool has_headers = line[0] == 'H';
    for (const char *at = line; at < end && n < 6;) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        fields[n] = span_of(at, (size_t)((blank != NULL ? blank : end) - at));
        at = fields[n].ptr + fields[n].len + 1;
        n++;
    }
    unsigned least = has_headers ? 5 : 4;
    if (n < least || n > least + 1)
        return OP_BROKEN;
    size_t size = number_of(fields[n - 1]), headers = has_headers ? number_of(fields[n - 2]) : 0;
    if (size == WIRE_IN_SIZE || headers > size)
        return OP_BROKEN;
    const char *body = end + 2;
    if ((size_t)(w->in + w->in_end - body) < size + 2 || body > w->in + w->in_end)
        return OP_MORE;
    *m = (struct wire_message){.subject = fields[1],
                               .reply = n > least ? fields[3] : SPAN_EMPTY,
                               .headers = span_of(body, headers),
                               .payload = span_of(body + headers, size - headers)};
    w->in_at = (size_t)(body + size + 2 - w->in);
    return OP_MESSAGE;
}

/* One operation from the front of what was read. Messages point into the buffer. */
static enum op next_op(struct wire *w, struct wire_message *m)
{
    static const struct {
        const char *word;
        enum op op;
    } words[] = {{"PING", OP_PING},
                 {"PONG", OP_PONG},
                 {"-ERR", OP_ERR},
                 {"INFO", OP_OTHER},
                 {"+OK", OP_OTHER}};
    const char *line = w->in + w->in_at;
    size_t left = w->in_end - w->in_at;
    const char *end = left > 0 ? memmem(line, left, "\r\n", 2) : NULL;
    if (end == NULL)
        return OP_MORE;
    struct span text = span_of(line, (size_t)(end - line));
    if (span_starts(text, SPAN_LIT("MSG ")) || span_starts(text, SPAN_LIT("HMSG ")))
        return next_message(w, line, text.len, m);
    w->in_at += text.len + 2;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!span_starts(text, span_str(words[i].word)))
            continue;
        if (words[i].op == OP_ERR)
            snprintf(w->error, sizeof(w->error), "%.*s", (int)(text.len < 120 ? text.len : 120),
                     text.ptr);
        return words[i].op;
    }
    return OP_BROKEN;
}

/* Reads until PONG. */
static bool handshake(struct wire *w)
{
    struct wire_message m;
    for (;;) {
        enum op op = next_op(w, &m);
        if (op == OP_PONG)
            return true;
        if (op == OP_ERR || op == OP_BROKEN || (op == OP_MORE && wire_read(w, HANDSHAKE_MS) != 1))
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

int wire_next(struct wire *w, struct wire_message *m)
{
    for (;;) {
        switch (next_op(w, m)) {
        case OP_MESSAGE:
            return 1;
        case OP_MORE:
            return 0;
        case OP_PING:
            if (!wire_print(w, "PONG\r\n"))
                return -1;
            break;
        case OP_ERR:
        case OP_BROKEN:
            return -1;
        case OP_PONG:
        case OP_OTHER:
            break;
        }
    }
}
