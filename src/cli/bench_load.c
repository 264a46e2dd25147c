/* The load generators. The client keeps `window` requests in flight, each in a slot: the slot's
 * number is the last token of its reply subject, and its payload is made from a serial number, so
 * that a reply that is lost, doubled, mixed up or changed is seen.
 *
 * Time is read once per batch. A reply later than WAIT_MS is missing. */
#include "cli/bench_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench_wire.h"

#define WAIT_MS 5000
#define SAMPLES_MAX (1u << 21)
#define HEARTBEAT_MS 500
#define SLOTS_MAX 65536

#define REQUEST_HEADERS "NATS/1.0\r\nX-Tenant: a\r\nX-Trace: 0af7651916cd43dd8448eb211c80319c\r\n"
#define HEADERS_MAX 160
static const char answer_headers[] = "NATS/1.0\r\nX-Model: m1\r\n\r\n";

struct slot {
    uint64_t serial;
    int64_t sent_ns;
    bool open;
};

struct client {
    const struct load *load;
    struct load_result *result;
    struct wire wire;
    struct slot *slots;
    uint32_t *samples; /* nanoseconds, the first SAMPLES_MAX */
    uint64_t serial, open;
    size_t sample_count, size; /* size: of a payload */
    char inbox[32];
    unsigned inbox_len;
    char payload[BENCH_VALUE_SIZE];
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void put_hex(char *at, uint64_t value, unsigned digits)
{
    for (unsigned i = digits; i-- > 0; value >>= 4)
        at[i] = "0123456789abcdef"[value & 15];
}

/* The serial number at both ends, the pattern between. */
static const char *payload_of(struct client *c, uint64_t serial)
{
    put_hex(c->payload, serial, 16);
    memcpy(c->payload + c->size - 16, c->payload, 16);
    return c->payload;
}

/* Of the request of this serial number; 0: none. */
static size_t headers_of(const struct load *load, uint64_t serial, char out[HEADERS_MAX])
{
    int n = 0;
    if (load->headers && load->sessions > 0)
        n = snprintf(out, HEADERS_MAX, REQUEST_HEADERS "Waybill-Session: conversation-%04u\r\n\r\n",
                     (unsigned)(serial % load->sessions));
    else if (load->headers)
        n = snprintf(out, HEADERS_MAX, REQUEST_HEADERS "\r\n");
    return (size_t)n;
}

static bool send_slot(struct client *c, unsigned number, int64_t now)
{
    struct slot *slot = &c->slots[number];
    const struct load *load = c->load;
    char line[512], token[8], block[HEADERS_MAX];
    *slot = (struct slot){++c->serial, now, true};
    c->open++;
    put_hex(token, number, 4);
    size_t headers = headers_of(load, slot->serial, block);
    int n;
    if (load->puts)
        n = snprintf(line, sizeof(line), "PUB %s%d-%llu %s%.4s %zu\r\n", load->subject,
                     (int)getpid(), (unsigned long long)slot->serial, c->inbox, token, c->size);
    else if (headers > 0)
        n = snprintf(line, sizeof(line), "HPUB %s %s%.4s %zu %zu\r\n%s", load->subject, c->inbox,
                     token, headers, headers + c->size, block);
    else
        n = snprintf(line, sizeof(line), "PUB %s %s%.4s %zu\r\n", load->subject, c->inbox, token,
                     c->size);
    return wire_put(&c->wire, line, (size_t)n) &&
           wire_put(&c->wire, payload_of(c, slot->serial), c->size) &&
           wire_put(&c->wire, "\r\n", 2);
}

static bool is_right(struct client *c, const struct slot *slot, const struct wire_message *m)
{
    if (c->load->puts)
        return m->payload.len > 11 && memcmp(m->payload.ptr, "{\"stream\":\"", 11) == 0;
    return m->payload.len == c->size &&
           memcmp(m->payload.ptr, payload_of(c, slot->serial), c->size) == 0;
}

static void count_bad(struct load_result *r, const struct wire_message *m)
{
    bool error = memmem(m->headers.ptr, m->headers.len, "Nats-Service-Error", 18) != NULL ||
                 (m->headers.len > 9 && m->headers.ptr[8] == ' ') ||
                 memmem(m->payload.ptr, m->payload.len, "\"error\"", 7) != NULL;
    if (r->errors + r->wrong == 0)
        snprintf(r->first_error, sizeof(r->first_error), "%.*s%.*s",
                 (int)(m->headers.len < 20 ? m->headers.len : 20), m->headers.ptr,
                 (int)(m->payload.len < 120 ? m->payload.len : 120), m->payload.ptr);
    if (error)
        r->errors++;
    else
        r->wrong++;
}

/* Takes one reply; its slot's number, or -1: of no slot. */
static int take(struct client *c, const struct wire_message *m, int64_t now)
{
    char digits[5] = "";
    if (m->subject.len != c->inbox_len + 4u) {
        count_bad(c->result, m);
        return -1;
    }
    memcpy(digits, m->subject.ptr + c->inbox_len, 4);
    unsigned number = (unsigned)strtoul(digits, NULL, 16);
    struct slot *slot = number < c->load->window ? &c->slots[number] : NULL;
    if (slot == NULL || !slot->open) {
        count_bad(c->result, m);
        return -1;
    }
    slot->open = false;
    c->open--;
    if (is_right(c, slot, m))
        c->result->replies++;
    else
        count_bad(c->result, m);
    int64_t took = now - slot->sent_ns;
    if (c->sample_count < SAMPLES_MAX)
        c->samples[c->sample_count++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    return (int)number;
}

static bool goes_on(const struct client *c, int64_t now, int64_t end_ns)
{
    return now < end_ns || c->serial < c->load->least;
}

/* Until the time is over, enough was sent, and no reply is outstanding. */
static void turn(struct client *c, int64_t end_ns)
{
    struct wire_message m;
    bool fine = true;
    int64_t now = now_ns();
    for (unsigned i = 0; fine && i < c->load->window; i++)
        fine = send_slot(c, i, now);
    while (fine && c->open > 0) {
        fine = wire_flush(&c->wire);
        int got = fine ? wire_read(&c->wire, WAIT_MS) : -1;
        if (got <= 0)
            break;
        int more;
        now = now_ns();
        while (fine && (more = wire_next(&c->wire, &m)) == 1) {
            int number = take(c, &m, now);
            if (number >= 0 && goes_on(c, now, end_ns))
                fine = send_slot(c, (unsigned)number, now);
        }
        fine = fine && more == 0;
    }
    c->result->missing = c->open;
    if (c->wire.error[0] != '\0')
        snprintf(c->result->first_error, sizeof(c->result->first_error), "server: %s",
                 c->wire.error);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void percentiles(struct client *c)
{
    size_t n = c->sample_count;
    if (n == 0)
        return;
    qsort(c->samples, n, sizeof(*c->samples), compare);
    size_t p50 = n / 2, p99 = n * 99 / 100;
    c->result->p50_us = c->samples[p50] / 1000.0;
    c->result->p99_us = c->samples[p99] / 1000.0;
}

bool load_run(const struct load *load, int port, struct load_result *result)
{
    struct client c = {
        .load = load, .result = result, .size = load->puts ? BENCH_VALUE_SIZE : BENCH_PAYLOAD_SIZE};
    *result = (struct load_result){0};
    c.slots = calloc(load->window, sizeof(*c.slots));
    c.samples = malloc(SAMPLES_MAX * sizeof(*c.samples));
    bool fine = wire_open(&c.wire, port, "bench-client") && c.slots != NULL && c.samples != NULL &&
                load->window <= SLOTS_MAX;
    if (fine) {
        memset(c.payload, 'x', sizeof(c.payload));
        c.inbox_len = (unsigned)snprintf(c.inbox, sizeof(c.inbox), "_INBOX.b%d.", (int)getpid());
        fine = wire_print(&c.wire, "SUB %s* 1\r\n", c.inbox);
    }
    if (fine) {
        int64_t start = now_ns();
        turn(&c, start + load->run_ms * 1000000);
        result->seconds = (double)(now_ns() - start) / 1e9;
        percentiles(&c);
    } else
        snprintf(result->first_error, sizeof(result->first_error), "no connection: %s",
                 c.wire.error);
    wire_close(&c.wire);
    free(c.slots);
    free(c.samples);
    return fine;
}

static bool beat(struct wire *w, int number, int64_t epoch)
{
    static const char *const prefixes[] = {BENCH_PREFIX_OFF, BENCH_PREFIX_ON,
                                           BENCH_PREFIX_SESSIONS};
    char body[160];
    int n = snprintf(body, sizeof(body), "{\"v\":1,\"epoch\":%lld,\"interval_ms\":1000}",
                     (long long)epoch);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (!wire_print(w, "PUB %s.heartbeat.bench.w%d %d\r\n%s\r\n", prefixes[i], number, n, body))
            return false;
    return true;
}

static bool answer(struct wire *w, const struct wire_message *m)
{
    char line[768];
    int n;
    size_t headers = sizeof(answer_headers) - 1;
    if (m->headers.len > 0 && memmem(m->headers.ptr, m->headers.len, "X-Tenant:", 9) != NULL)
        n = snprintf(line, sizeof(line), "HPUB %.*s %zu %zu\r\n%s", (int)m->reply.len, m->reply.ptr,
                     headers, headers + m->payload.len, answer_headers);
    else
        n = snprintf(line, sizeof(line), "PUB %.*s %zu\r\n", (int)m->reply.len, m->reply.ptr,
                     m->payload.len);
    return (size_t)n < sizeof(line) && wire_put(w, line, (size_t)n) &&
           wire_put(w, m->payload.ptr, m->payload.len) && wire_put(w, "\r\n", 2);
}

void load_serve(int port, int number)
{
    struct wire w;
    struct wire_message m;
    struct timespec wall_now;
    clock_gettime(CLOCK_REALTIME, &wall_now);
    int64_t epoch = wall_now.tv_sec * INT64_C(1000) + wall_now.tv_nsec / 1000000,
            next_beat = now_ns();
    bool fine =
        wire_open(&w, port, "bench-worker") &&
        wire_print(&w,
                   "SUB " BENCH_DIRECT " echo 1\r\nSUB " BENCH_PREFIX_OFF ".worker.bench.w%d 2\r\n"
                   "SUB " BENCH_PREFIX_ON ".worker.bench.w%d 3\r\nSUB " BENCH_PEER_WORKER
                   "%d 4\r\nSUB " BENCH_PREFIX_SESSIONS ".worker.bench.w%d 5\r\n",
                   number, number, number, number);
    while (fine) {
        if (now_ns() >= next_beat) {
            fine = beat(&w, number, epoch);
            next_beat = now_ns() + HEARTBEAT_MS * INT64_C(1000000);
        }
        fine = fine && wire_flush(&w) && wire_read(&w, HEARTBEAT_MS) >= 0;
        int more = 0;
        while (fine && (more = wire_next(&w, &m)) == 1)
            if (m.reply.len > 0)
                fine = answer(&w, &m);
        fine = fine && more == 0;
    }
    wire_close(&w);
}
