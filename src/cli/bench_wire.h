/* A blocking NATS connection for load generators: as little work per message as can be, so that the
 * bench measures routers and not itself. Whole batches are read, answered into one buffer and sent
 * at once. One thread. */
#ifndef CLI_BENCH_WIRE_H
#define CLI_BENCH_WIRE_H

#include <stddef.h>

#include "base/span.h"

struct wire_message {
    struct span subject, reply, headers, payload;
};

struct wire {
    int fd;
    char *in, *out;
    size_t in_at, in_end, out_end;
    char error[128]; /* what the server said, if it said -ERR */
};

bool wire_open(struct wire *w, int port, const char *name);
void wire_close(struct wire *w); /* idempotent; also after a failed open */
/* Appends; sends first what is there if it would not fit. n is at most WIRE_OUT_SIZE. */
bool wire_put(struct wire *w, const void *bytes, size_t n);
bool wire_print(struct wire *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool wire_flush(struct wire *w);
/* 1: bytes have come, 0: none in time, -1: closed. Invalidates messages of wire_next. */
int wire_read(struct wire *w, int timeout_ms);
/* The next whole message of what was read: 1, none left: 0, the connection is broken: -1. Answers
 * pings. */
int wire_next(struct wire *w, struct wire_message *m);

#define WIRE_IN_SIZE (1u << 20)
#define WIRE_OUT_SIZE (1u << 20)

#endif
