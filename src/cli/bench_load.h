/* The bench's two load generators, each to be run in a process of its own. */
#ifndef CLI_BENCH_LOAD_H
#define CLI_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_PAYLOAD_SIZE 128
#define BENCH_VALUE_SIZE 420 /* of a bare put: what a record is about */

struct load {
    const char
        *subject;      /* of the requests; of a put: its beginning, to which a number is appended */
    bool headers;      /* two client headers, one of them X-Tenant */
    unsigned sessions; /* with headers: so many names in rotation as Waybill-Session; 0: without */
    bool puts;         /* JetStream publishes, answered by acknowledgements */
    unsigned window;   /* requests in flight */
    int64_t run_ms;
    uint64_t least; /* requests, however long they take */
};

struct load_result {
    uint64_t replies, errors, wrong, missing; /* replies: right ones */
    double seconds;                           /* from the first request to the last reply */
    double p50_us, p99_us;
    char first_error[160];
};

/* Blocks for run_ms, at least so many requests, and the last replies. False: no connection; the
 * result says so. */
bool load_run(const struct load *load, int port, struct load_result *result);

/* An echo worker, number 1 or 2, on all the ways that the bench compares. Returns only when its
 * connection ends. */
void load_serve(int port, int number);

#define BENCH_PREFIX_OFF "waybill"        /* of the router without attribution */
#define BENCH_PREFIX_ON "waybillrecorded" /* of the one that writes records */
#define BENCH_PREFIX_SESSIONS "waybillsessions"
#define BENCH_SESSIONS 1000
#define BENCH_DIRECT "bench.direct"
#define BENCH_OFF "bench.routed"
#define BENCH_ON "bench.recorded"
#define BENCH_BOUND "bench.bound"
#define BENCH_PEER "bench.peer"
#define BENCH_PEER_WORKER "bench.peerworker." /* and the number */

#endif
