/* The CPU of a worker per request, of all its threads: on libwaybill, and written on nats.c alone.
 *
 * Three workers behind one router, each a service of its own and a process of its own, get the same
 * load in turn, round by round. All echo, on connections with the same settings:
 *
 *   libwaybill   heartbeats, the task list, counts by router, numbers
 *   nats.c       by hand what the protocol asks of an answer: numbered, and marked as the end
 *   nats.c bare  natsConnection_Publish of the payload; answers single replies only
 *
 * The promise is about the first two: what libwaybill adds to what any worker on nats.c must do. It
 * is judged by the median of the rounds' ratios: a busy machine moves all figures of a round alike.
 * Each round has new processes, since where one lies in memory counts, and another order. */
#include "cli/bench_workers.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/bench_load.h"
#include "cli/command.h"
#include "waybill/worker.h"
#include "wire/json.h"

#define ROUNDS_MAX 99
#define WARM_MS 200
#define BAR 1.10

static const unsigned windows[] = {1, 1024};
#define WINDOWS 2

static const char *const names[FABRIC_CANDIDATES] = {"libwaybill", "nats.c", "nats.c bare"};

struct rounds {
    double cpu_us[FABRIC_CANDIDATES][WINDOWS][ROUNDS_MAX];
    double median[FABRIC_CANDIDATES][WINDOWS];
    double ratio[FABRIC_CANDIDATES][WINDOWS]; /* of libwaybill to it: the median of the rounds' */
};

/* ---- the candidates, each in a process of its own ---- */

static natsConnection *connect_to(int port)
{
    char url[64];
    natsConnection *nc = NULL;
    natsOptions *o = NULL;
    snprintf(url, sizeof(url), "nats://127.0.0.1:%d", port);
    if (natsOptions_Create(&o) != NATS_OK || natsOptions_SetURL(o, url) != NATS_OK ||
        natsConnection_Connect(&nc, o) != NATS_OK)
        _exit(1);
    natsOptions_Destroy(o);
    return nc;
}

static void on_task(void *arg, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    (void)arg;
    if (wb_task_answer(task, data, len, NULL, 0) != WB_OK)
        _exit(1);
}

static void on_numbered(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *arg)
{
    natsMsg *answer = NULL;
    (void)sub, (void)arg;
    if (natsMsg_Create(&answer, natsMsg_GetReply(m), NULL, natsMsg_GetData(m),
                       natsMsg_GetDataLength(m)) != NATS_OK ||
        natsMsgHeader_Set(answer, "Waybill-Seq", "1") != NATS_OK ||
        natsMsgHeader_Set(answer, "Waybill-End", "true") != NATS_OK ||
        natsConnection_PublishMsg(nc, answer) != NATS_OK)
        _exit(1);
    natsMsg_Destroy(answer);
    natsMsg_Destroy(m);
}

static void on_bare(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *arg)
{
    (void)sub, (void)arg;
    if (natsConnection_Publish(nc, natsMsg_GetReply(m), natsMsg_GetData(m),
                               natsMsg_GetDataLength(m)) != NATS_OK)
        _exit(1);
    natsMsg_Destroy(m);
}

static void serve(int port, unsigned candidate)
{
    natsConnection *nc = connect_to(port);
    natsSubscription *sub = NULL;
    if (candidate == 0) {
        wb_worker *w;
        const wb_worker_options o = {.service = "bench0", .id = "w", .on_task = on_task};
        if (wb_worker_create(nc, &o, &w) != WB_OK || wb_worker_start(w) != WB_OK)
            _exit(1);
    } else {
        char subject[64];
        snprintf(subject, sizeof(subject), FABRIC_CANDIDATE_SUBJECT "%u", candidate);
        if (natsConnection_Subscribe(&sub, nc, subject, candidate == 1 ? on_numbered : on_bare,
                                     NULL) != NATS_OK)
            _exit(1);
    }
    for (;;)
        pause();
}

/* ---- the measure ---- */

static bool measure(const struct fabric *f, unsigned candidate, unsigned window, int64_t run_ms,
                    double *cpu_us)
{
    char subject[64];
    struct load_result r;
    snprintf(subject, sizeof(subject), FABRIC_CANDIDATE_REQUESTS "%u", candidate);
    const struct load load = {.subject = subject, .window = window, .run_ms = run_ms};
    int64_t before = process_cpu_ns(f->candidates[candidate]);
    bool fine =
        load_run(&load, f->port, &r) && r.replies > 0 && r.errors + r.wrong + r.missing == 0;
    if (!fine) {
        fprintf(stderr, "waybill: bench: %s: %llu right, %llu errors; first: %s\n",
                names[candidate], (unsigned long long)r.replies, (unsigned long long)r.errors,
                r.first_error);
        return false;
    }
    *cpu_us =
        (double)(process_cpu_ns(f->candidates[candidate]) - before) / 1000 / (double)r.replies;
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(double *v, int64_t count)
{
    qsort(v, (size_t)count, sizeof(*v), compare);
    return v[count / 2];
}

static void summarize(struct rounds *all, int64_t rounds)
{
    double ratios[ROUNDS_MAX] = {0};
    for (unsigned w = 0; w < WINDOWS; w++)
        for (unsigned c = FABRIC_CANDIDATES; c-- > 0;) {
            for (int64_t i = 0; i < rounds; i++)
                ratios[i] = all->cpu_us[0][w][i] / all->cpu_us[c][w][i];
            all->ratio[c][w] = median_of(ratios, rounds);
            all->median[c][w] = median_of(all->cpu_us[c][w], rounds); /* sorts: ours comes last */
        }
}

static bool run_rounds(struct fabric *f, const struct workers_bench *o, struct rounds *all)
{
    for (int64_t round = -1; round < o->rounds; round++) { /* the first one warms up */
        int64_t at = round < 0 ? 0 : round;
        if (!fabric_start_candidates(f, serve))
            return false;
        for (unsigned w = 0; w < WINDOWS; w++)
            for (unsigned i = 0; i < FABRIC_CANDIDATES; i++) {
                unsigned c = (unsigned)(round + 1 + i) % FABRIC_CANDIDATES; /* each comes first */
                if (!measure(f, c, windows[w], round < 0 ? WARM_MS : o->run_ms,
                             &all->cpu_us[c][w][at]))
                    return false;
            }
    }
    summarize(all, o->rounds);
    return true;
}

static void show_json(const struct rounds *all)
{
    struct buf text;
    struct json j;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_object(&j, NULL);
    json_array(&j, "workers");
    for (unsigned w = 0; w < WINDOWS; w++)
        for (unsigned c = 0; c < FABRIC_CANDIDATES; c++) {
            json_object(&j, NULL);
            json_text(&j, "worker", span_str(names[c]));
            json_int(&j, "window", windows[w]);
            json_double(&j, "cpu_us", all->median[c][w]);
            json_double(&j, "ratio", all->ratio[c][w]);
            json_end_object(&j);
        }
    json_end_array(&j);
    json_end_object(&j);
    print_whole_json(&j, &text);
}

static int report(const struct workers_bench *o, const struct rounds *all)
{
    bool met = true;
    for (unsigned w = 0; w < WINDOWS; w++)
        met = met && all->ratio[1][w] <= BAR;
    if (o->json) {
        show_json(all);
    } else {
        printf("%-12s %7s %14s %18s\n", "WORKER", "WINDOW", "CPU us/request", "libwaybill is");
        for (unsigned w = 0; w < WINDOWS; w++)
            for (unsigned c = 0; c < FABRIC_CANDIDATES; c++)
                printf("%-12s %7u %14.2f %17.2fx\n", names[c], windows[w], all->median[c][w],
                       all->ratio[c][w]);
        printf("\nat most %.2fx of nats.c: %s\n", BAR, met ? "met" : "NOT MET");
    }
    return o->check && !met ? EXIT_ERROR_ANSWER : EXIT_FINE;
}

int bench_workers(const struct workers_bench *o)
{
    struct fabric f;
    struct rounds *all = calloc(1, sizeof(*all));
    int code = EXIT_NO_LINK;
    if (all == NULL)
        return code;
    if (fabric_open_candidates(&f, &o->fabric))
        code = run_rounds(&f, o, all) ? report(o, all) : EXIT_ERROR_ANSWER;
    fabric_close(&f);
    free(all);
    return code;
}
