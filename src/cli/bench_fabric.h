/* What the bench runs on: a private nats-server, three routers (a bare one, one that writes
 * records, one that keeps sessions), two echo workers, perhaps a peer; all children of this
 * process, ended with it. */
#ifndef CLI_BENCH_FABRIC_H
#define CLI_BENCH_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fabric_options {
    const char *nats_server; /* program */
    const char *router;      /* waybilld; NULL: beside this program */
    const char *peer;        /* shell command, or NULL */
};

/* Workers that are compared; their number is appended to both subjects: where clients ask, and
 * where the static ones listen. */
#define FABRIC_CANDIDATES 3
#define FABRIC_CANDIDATE_REQUESTS "bench.candidate."
#define FABRIC_CANDIDATE_SUBJECT "bench.responder."

struct fabric {
    char dir[64];
    int port;
    pid_t server, router_off, router_on, router_sessions, peer, workers[2]; /* 0: not running */
    pid_t candidates[FABRIC_CANDIDATES];
};

/* Starts all and waits until a request goes through each and BENCH_SESSIONS are bound. False: it
 * has said why on stderr; fabric_close is due all the same. */
bool fabric_open(struct fabric *fabric, const struct fabric_options *options);
/* Starts a server and a router, for candidates. The same otherwise. */
bool fabric_open_candidates(struct fabric *fabric, const struct fabric_options *options);
/* One process for each candidate, in place of those before, and waits for their first answers. Each
 * calls serve(port, number) and must not return from it: number 0 sends heartbeats as worker w of
 * service bench0, the others are static. */
bool fabric_start_candidates(struct fabric *fabric, void (*serve)(int port, unsigned number));
void fabric_close(struct fabric *fabric);
/* Waits until the recording router has no record left to write; false: not within timeout_ms, or
 * records were lost. */
bool fabric_settle(const struct fabric *fabric, int64_t timeout_ms);
/* Requests that found their session bound so far; -1: the router does not say. */
int64_t fabric_hits(const struct fabric *fabric);

/* CPU time of all threads in nanoseconds; resident memory in bytes. 0 for pid 0. */
int64_t process_cpu_ns(pid_t pid);
int64_t process_rss(pid_t pid);

#endif
