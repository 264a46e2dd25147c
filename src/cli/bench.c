/* waybill bench: what routing costs. On a private nats-server the same requests go straight to two
 * echo workers (queue group), through waybilld, through waybilld with attribution, through waybilld
 * with sessions, and, if one is given, through another router; interleaved, round by round, so that
 * a machine that gets slower does so for all; the table shows medians.
 *
 * Load generators are processes of their own and cheap, so that routers and the server are what is
 * measured. CPU is per right reply, of all threads. The rate with attribution counts until the last
 * record is acknowledged, not until the last answer. What a session costs is the difference of two
 * ways with the same headers, Waybill-Session among them: one service keeps sessions, all bound
 * before, the other does not. One missing, wrong or error reply, or one that missed its binding,
 * fails the run. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench_fabric.h"
#include "cli/bench_load.h"
#include "cli/bench_workers.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "wire/json.h"

#define ROUNDS_MAX 99
#define SETTLE_MS 60000
#define WIDE 1024
#define WARM_MS 200

struct bench_args {
    struct common common;
    const char *nats_server, *peer, *router;
    int64_t rounds, run_ms;
    bool check, workers;
};
static const struct bench_args defaults = {
    .nats_server = "nats-server", .rounds = 5, .run_ms = 1000};

#define ARG(field) offsetof(struct bench_args, field)
static const struct option options[] = {
    {"nats-server", 0, OPTION_TEXT, ARG(nats_server), "PATH", "the server to run on (nats-server)",
     0, 0},
    {"router", 0, OPTION_TEXT, ARG(router), "PATH", "waybilld (the one beside this program)", 0, 0},
    {"peer", 0, OPTION_TEXT, ARG(peer), "COMMAND",
     "another router: NATS_URL, REQUEST_SUBJECT, WORKER_SUBJECTS", 0, 0},
    {"rounds", 0, OPTION_INT, ARG(rounds), "N", "rounds, of which medians are shown (5)", 1,
     ROUNDS_MAX},
    {"run-ms", 0, OPTION_INT, ARG(run_ms), "MS", "length of each run (1000)", 10, 600000},
    {"check", 0, OPTION_FLAG, ARG(check), NULL, "fail unless the promised ratios are met", 0, 0},
    {"workers", 0, OPTION_FLAG, ARG(workers), NULL,
     "what libwaybill costs a worker, over nats.c alone", 0, 0},
};

enum way { WAY_DIRECT, WAY_PEER, WAY_ROUTED, WAY_RECORDED, WAY_NAMED, WAY_BOUND, WAY_PUTS, WAYS };

static const struct {
    const char *name, *subject;
} ways[WAYS] = {{"direct", BENCH_DIRECT},
                {"peer", BENCH_PEER},
                {"waybill", BENCH_OFF},
                {"waybill+record", BENCH_ON},
                {"waybill+name", BENCH_OFF},
                {"waybill+session", BENCH_BOUND},
                {"bucket puts", "$KV.waybill_attribution.benchput."}};

enum metric { RATE, P50, P99, ROUTER_CPU, SERVER_CPU, RSS, METRICS };
static const char *const metric_names[METRICS] = {
    "requests_per_s", "p50_us", "p99_us", "router_cpu_us", "server_cpu_us", "router_rss_mib"};

struct measure {
    enum way way;
    bool headers;
    unsigned window;
    double values[METRICS][ROUNDS_MAX];
    double median[METRICS];
};

#define MEASURES_MAX 24
struct bench {
    const struct bench_args *args;
    struct fabric fabric;
    struct measure measures[MEASURES_MAX];
    unsigned count;
    bool sound;
};

static bool has_session(enum way way)
{
    return way == WAY_NAMED || way == WAY_BOUND;
}

static bool is_planned(const struct bench *b, enum way way, bool headers)
{
    if (way == WAY_PEER)
        return b->args->peer != NULL;
    return headers || !has_session(way);
}

static void plan(struct bench *b)
{
    static const unsigned windows[] = {1, WIDE};
    for (int w = 0; w < 2; w++)
        for (int h = 0; h < 2; h++)
            for (enum way way = WAY_DIRECT; way < WAY_PUTS; way++)
                if (is_planned(b, way, h == 1))
                    b->measures[b->count++] =
                        (struct measure){.way = way, .headers = h == 1, .window = windows[w]};
    b->measures[b->count++] = (struct measure){.way = WAY_PUTS, .window = WIDE};
}

static pid_t router_of(const struct bench *b, enum way way)
{
    switch (way) {
    case WAY_PEER:
        return b->fabric.peer;
    case WAY_ROUTED:
    case WAY_NAMED:
        return b->fabric.router_off;
    case WAY_BOUND:
        return b->fabric.router_sessions;
    case WAY_RECORDED:
        return b->fabric.router_on;
    default:
        return 0;
    }
}

/* Runs the client in a child; its result comes through a pipe. */
static bool run_child(const struct load *load, int port, struct load_result *result)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct load_result r;
        load_run(load, port, &r);
        _exit(write(ends[1], &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = -1;
    if (pid > 0) {
        do
            n = read(ends[0], result, sizeof(*result));
        while (n < 0 && errno == EINTR);
        waitpid(pid, NULL, 0);
    }
    close(ends[0]);
    return n == (ssize_t)sizeof(*result);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_sound(const struct measure *m, const struct load_result *r)
{
    if (r->replies > 0 && r->errors + r->wrong + r->missing == 0)
        return true;
    fprintf(stderr,
            "waybill: bench: %s, window %u: %llu right, %llu errors, %llu wrong, %llu missing; "
            "first: %s\n",
            ways[m->way].name, m->window, (unsigned long long)r->replies,
            (unsigned long long)r->errors, (unsigned long long)r->wrong,
            (unsigned long long)r->missing, r->first_error);
    return false;
}

/* After the last reply: whatever the way needs before its figures stand. */
static bool has_settled(const struct bench *b, enum way way, uint64_t replies, int64_t hits_before)
{
    bool fine = true;
    if (way == WAY_RECORDED) {
        fine = fabric_settle(&b->fabric, SETTLE_MS);
        if (!fine)
            fprintf(stderr, "waybill: bench: records were not written\n");
    } else if (way == WAY_BOUND) {
        int64_t hits = fabric_hits(&b->fabric) - hits_before;
        fine = hits_before >= 0 && hits == (int64_t)replies;
        if (!fine)
            fprintf(stderr, "waybill: bench: %lld of %llu requests found their session bound\n",
                    (long long)hits, (unsigned long long)replies);
    }
    return fine;
}

static bool run_measure(struct bench *b, struct measure *m, unsigned round, int64_t run_ms)
{
    struct load_result r = {0};
    const struct load load = {.subject = ways[m->way].subject,
                              .headers = m->headers,
                              .sessions = has_session(m->way) ? BENCH_SESSIONS : 0,
                              .puts = m->way == WAY_PUTS,
                              .window = m->window,
                              .run_ms = run_ms};
    pid_t router = router_of(b, m->way);
    int64_t hits = m->way == WAY_BOUND ? fabric_hits(&b->fabric) : 0;
    int64_t router_ns = process_cpu_ns(router), server_ns = process_cpu_ns(b->fabric.server);
    bool fine = run_child(&load, b->fabric.port, &r) && is_sound(m, &r);
    double ended = now_s(), seconds = r.seconds;
    if (!fine || !has_settled(b, m->way, r.replies, hits))
        return false;
    if (m->way == WAY_RECORDED)
        seconds += now_s() - ended;
    double n = (double)r.replies;
    m->values[RATE][round] = n / seconds;
    m->values[P50][round] = r.p50_us;
    m->values[P99][round] = r.p99_us;
    m->values[ROUTER_CPU][round] = (double)(process_cpu_ns(router) - router_ns) / 1000 / n;
    m->values[SERVER_CPU][round] =
        (double)(process_cpu_ns(b->fabric.server) - server_ns) / 1000 / n;
    m->values[RSS][round] = (double)process_rss(router) / (1024 * 1024);
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool run_rounds(struct bench *b)
{
    unsigned rounds = (unsigned)b->args->rounds;
    for (unsigned i = 0; i < b->count; i++)
        if (!run_measure(b, &b->measures[i], 0, WARM_MS))
            return false;
    progress_begin((int64_t)rounds * b->count);
    for (unsigned round = 0; round < rounds; round++) {
        progress_clear();
        fprintf(stderr, "waybill: bench: round %u of %u\n", round + 1, rounds);
        for (unsigned i = 0; i < b->count; i++) {
            if (!run_measure(b, &b->measures[i], round, b->args->run_ms))
                return false;
            progress_step();
        }
    }
    progress_end();
    for (unsigned i = 0; i < b->count; i++) {
        for (int k = 0; k < METRICS; k++) {
            double *v = b->measures[i].values[k];
            qsort(v, rounds, sizeof(*v), compare);
            b->measures[i].median[k] =
                rounds % 2 == 1 ? v[rounds / 2] : (v[rounds / 2 - 1] + v[rounds / 2]) / 2;
        }
    }
    return true;
}

static double median_of(const struct bench *b, enum way way, bool headers, unsigned window,
                        enum metric metric)
{
    for (unsigned i = 0; i < b->count; i++) {
        const struct measure *m = &b->measures[i];
        if (m->way == way && m->headers == headers && m->window == window)
            return m->median[metric];
    }
    return 0;
}

/* A promise: a ratio of two medians, and its bound. */
struct bar {
    char name[96];
    double value, bound;
    bool at_least, needs_peer;
};
#define BARS_MAX 12

static struct bar ratio(const struct bench *b, const char *name, enum metric metric, enum way way,
                        enum way to, bool headers, double bound, bool at_least)
{
    unsigned window = metric == P50 ? 1 : WIDE;
    struct bar bar = {.bound = bound, .at_least = at_least, .needs_peer = to == WAY_PEER};
    double base = median_of(b, to, headers, window, metric);
    snprintf(bar.name, sizeof(bar.name), "%s%s", name, headers ? ", headers" : "");
    bar.value = base > 0 ? median_of(b, way, headers, window, metric) / base : 0;
    return bar;
}

static struct bar recorded_rate(const struct bench *b, bool headers)
{
    double r = median_of(b, WAY_ROUTED, headers, WIDE, RATE),
           p = median_of(b, WAY_PUTS, false, WIDE, RATE);
    double expected = r > 0 && p > 0 ? 1 / (1 / r + 1 / p) : 0;
    struct bar bar = {.bound = 0.9, .at_least = true};
    snprintf(bar.name, sizeof(bar.name), "recorded rate / (1/(1/R+1/P))%s",
             headers ? ", headers" : "");
    bar.value = expected > 0 ? median_of(b, WAY_RECORDED, headers, WIDE, RATE) / expected : 0;
    return bar;
}

static unsigned bars_of(const struct bench *b, struct bar bars[BARS_MAX])
{
    const struct bar all[] = {
        ratio(b, "router CPU / peer", ROUTER_CPU, WAY_ROUTED, WAY_PEER, false, 0.40, false),
        ratio(b, "router CPU / peer", ROUTER_CPU, WAY_ROUTED, WAY_PEER, true, 0.35, false),
        ratio(b, "router CPU with records / peer", ROUTER_CPU, WAY_RECORDED, WAY_PEER, true, 0.50,
              false),
        ratio(b, "rate / peer", RATE, WAY_ROUTED, WAY_PEER, false, 1.05, true),
        ratio(b, "rate / peer", RATE, WAY_ROUTED, WAY_PEER, true, 1.05, true),
        ratio(b, "p50 at window 1 / direct", P50, WAY_ROUTED, WAY_DIRECT, false, 1.9, false),
        ratio(b, "p50 at window 1 / direct", P50, WAY_ROUTED, WAY_DIRECT, true, 1.9, false),
        ratio(b, "router CPU with sessions / without", ROUTER_CPU, WAY_BOUND, WAY_NAMED, true, 1.10,
              false),
        recorded_rate(b, false),
        recorded_rate(b, true),
    };
    unsigned n = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!all[i].needs_peer || b->args->peer != NULL)
            bars[n++] = all[i];
    return n;
}

static bool is_met(const struct bar *bar)
{
    return bar->at_least ? bar->value >= bar->bound : bar->value > 0 && bar->value <= bar->bound;
}

static void print_table(const struct bench *b, const struct bar *bars, unsigned bar_count)
{
    printf("%-16s %7s %7s %10s %9s %9s %11s %11s %9s\n", "WAY", "WINDOW", "HEADERS", "REQ/S",
           "P50 us", "P99 us", "ROUTER us", "SERVER us", "RSS MiB");
    for (unsigned i = 0; i < b->count; i++) {
        const struct measure *m = &b->measures[i];
        printf("%-16s %7u %7s %10.0f %9.1f %9.1f %11.2f %11.2f %9.1f\n", ways[m->way].name,
               m->window, m->headers ? "yes" : "no", m->median[RATE], m->median[P50],
               m->median[P99], m->median[ROUTER_CPU], m->median[SERVER_CPU], m->median[RSS]);
    }
    printf("\n");
    for (unsigned i = 0; i < bar_count; i++)
        printf("%-48s %6.2f  (%s %.2f) %s\n", bars[i].name, bars[i].value,
               bars[i].at_least ? "at least" : "at most", bars[i].bound,
               is_met(&bars[i]) ? "met" : "NOT MET");
}

static void show_json(const struct bench *b, const struct bar *bars, unsigned bar_count)
{
    struct buf text;
    struct json j;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_object(&j, NULL);
    json_int(&j, "rounds", b->args->rounds);
    json_int(&j, "payload_bytes", BENCH_PAYLOAD_SIZE);
    json_array(&j, "measures");
    for (unsigned i = 0; i < b->count; i++) {
        const struct measure *m = &b->measures[i];
        json_object(&j, NULL);
        json_text(&j, "way", span_str(ways[m->way].name));
        json_int(&j, "window", m->window);
        json_bool(&j, "headers", m->headers);
        for (int k = 0; k < METRICS; k++)
            json_double(&j, metric_names[k], m->median[k]);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_array(&j, "ratios");
    for (unsigned i = 0; i < bar_count; i++) {
        json_object(&j, NULL);
        json_text(&j, "name", span_str(bars[i].name));
        json_double(&j, "value", bars[i].value);
        json_text(&j, "bound", span_str(bars[i].at_least ? "at least" : "at most"));
        json_double(&j, "limit", bars[i].bound);
        json_bool(&j, "met", is_met(&bars[i]));
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    print_whole_json(&j, &text);
}

static int report(const struct bench *b)
{
    struct bar bars[BARS_MAX];
    unsigned n = bars_of(b, bars);
    if (b->args->common.json)
        show_json(b, bars, n);
    else
        print_table(b, bars, n);
    for (unsigned i = 0; b->args->check && i < n; i++)
        if (!is_met(&bars[i]))
            return EXIT_ERROR_ANSWER;
    return EXIT_FINE;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct bench_args *args = args_given;
    const struct fabric_options o = {args->nats_server, args->router, args->peer};
    (void)rest;
    if (args->workers) {
        const struct workers_bench w = {o, args->rounds, args->run_ms, args->check,
                                        args->common.json};
        return bench_workers(&w);
    }
    struct bench *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return EXIT_NO_LINK;
    b->args = args;
    plan(b);
    int code = EXIT_NO_LINK;
    if (fabric_open(&b->fabric, &o))
        code = run_rounds(b) ? report(b) : EXIT_ERROR_ANSWER;
    fabric_close(&b->fabric);
    free(b);
    return code;
}

const struct command command_bench = {
    "bench",
    "[options]",
    "measure what routing costs, on a private server",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct bench_args),
    &defaults,
    0,
    0,
    run,
    .about = "It starts a nats-server, routers and echo workers of its own, and ends them.",
    .examples = "measure\twaybill bench --nats-server /usr/sbin/nats-server\n"};
