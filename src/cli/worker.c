/* waybill worker: a worker for tests, demos and small services. SIGTERM and SIGINT drain it, a
 * second one stops it at once. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/work.h"

static const struct worker_args defaults = {.weight = 100,
                                            .interval_ms = 5000,
                                            .die_after = -1,
                                            .stream = -1,
                                            .drain_ms = 30000,
                                            .refuse_code = 429,
                                            .fail_code = 500,
                                            .retry_after_ms = -1};

#define ARG(field) offsetof(struct worker_args, field)
#define MANY 1000000000
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "the service it works for; required", 0, 0,
     OPTION_SERVICES},
    {"id", 0, OPTION_TEXT, ARG(id), "NAME", "its id; required", 0, 0},
    {"echo", 0, OPTION_FLAG, ARG(echo), NULL, "answer with the request's payload (the default)", 0,
     0},
    {"exec", 0, OPTION_TEXT, ARG(exec), "COMMAND",
     "payload to its stdin, its stdout is the answer; exit code not 0: error 500", 0, 0},
    {"stream", 0, OPTION_INT, ARG(stream), "N", "answer with a stream of N messages", 0, MANY},
    {"progress", 0, OPTION_INT, ARG(progress), "N", "N progress messages before", 0, MANY},
    {"delay-ms", 0, OPTION_INT, ARG(delay_ms), "MS", "wait before each message", 0, 86400000},
    {"fail-rate", 0, OPTION_RATE, ARG(fail_rate), "RATE",
     "share of requests answered with an error", 0, 0},
    {"fail-code", 0, OPTION_INT, ARG(fail_code), "CODE", "its code (500)", 1, 99999},
    {"refuse-rate", 0, OPTION_RATE, ARG(refuse_rate), "RATE", "share of requests refused", 0, 0},
    {"refuse-code", 0, OPTION_INT, ARG(refuse_code), "CODE", "the code (429)", 1, 99999},
    {"retry-after-ms", 0, OPTION_INT, ARG(retry_after_ms), "MS", "told with a refusal", 0,
     86400000},
    {"capacity", 0, OPTION_INT, ARG(capacity), "N", "requests at once; 0: no limit (0)", 0,
     1000000},
    {"weight", 0, OPTION_INT, ARG(weight), "N", "share of the load (100)", 1, 1000},
    {"class", 0, OPTION_TEXT, ARG(class_name), "NAME", "device class, e.g. cpu", 0, 0},
    {"ranks", 0, OPTION_INT, ARG(ranks), "N", "ranks 0 to N-1", 0, 4096},
    {"adapter", 0, OPTION_LIST, ARG(adapters), "NAME", "an adapter it holds; may be repeated", 0,
     0},
    {"adapter-slots", 0, OPTION_INT, ARG(adapter_slots), "N", "adapters it can hold", 0, 1000000},
    {"interval-ms", 0, OPTION_INT, ARG(interval_ms), "MS", "between heartbeats (5000)", 100, 60000},
    {"load-ms", 0, OPTION_INT, ARG(load_ms), "MS",
     "changed load is told between them once in so long (interval / 50, at least 100)", 10, 60000},
    {"epoch", 0, OPTION_INT, ARG(epoch), "N", "its epoch; 0: now in ms (0)", 0, 9007199254740991},
    {"no-heartbeat", 0, OPTION_FLAG, ARG(no_heartbeat), NULL,
     "send none: the routers list it as static", 0, 0},
    {"no-wait", 0, OPTION_FLAG, ARG(no_wait), NULL,
     "end where there is no NATS server, rather than wait for it", 0, 0},
    {"count", 'n', OPTION_INT, ARG(count), "N", "end after N served requests; 0: never (0)", 0,
     MANY},
    {"journal", 0, OPTION_TEXT, ARG(journal), "FILE",
     "append \"ID ATTEMPT\" for each answered request", 0, 0},
    {"drain-ms", 0, OPTION_INT, ARG(drain_ms), "MS", "longest drain (30000)", 1, 86400000},
    {"die-after", 0, OPTION_INT, ARG(die_after), "N",
     "kill itself after N sent messages; 0: at the first request", 0, MANY},
    {"hole", 0, OPTION_FLAG, ARG(hole), NULL, "leave out one number in each stream", 0, 0},
};

static int wake[2]; /* signals and the count write here, the main thread reads */

static void on_signal(int signum)
{
    (void)signum;
    int saved = errno;
    ssize_t n = write(wake[1], "s", 1);
    (void)n;
    errno = saved;
}

static void on_done(void *arg)
{
    (void)arg;
    on_signal(0);
}

static void on_task(void *arg, wb_task *task)
{
    work_take(arg, task);
}

/* Blocks until a signal, the count, or the connection's end. */
static void wait_wake(void)
{
    char c;
    while (read(wake[0], &c, 1) < 0 && errno == EINTR) {
    }
}

static void catch_signals(bool again)
{
    struct sigaction action = {.sa_handler = again ? SIG_DFL : on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* For programs; people read stderr. */
static void tell(const struct worker_args *args, const char *event, const struct work *work)
{
    if (!args->common.json)
        return;
    printf("{\"event\":\"%s\",\"service\":\"%s\",\"worker\":\"%s\"", event, args->service,
           args->id);
    if (work != NULL)
        printf(",\"served\":%lld", (long long)work->served);
    printf("}\n");
    fflush(stdout);
}

static int serve(const struct worker_args *args, struct link *link, struct work *work)
{
    wb_worker *worker;
    const wb_worker_options o = {.service = args->service,
                                 .id = args->id,
                                 .prefix = link->prefix,
                                 .epoch = args->epoch,
                                 .capacity = (uint32_t)args->capacity,
                                 .weight = (uint32_t)args->weight,
                                 .class_name = args->class_name,
                                 .ranks = (uint32_t)args->ranks,
                                 .adapters = args->adapters.items,
                                 .adapter_count = args->adapters.count,
                                 .adapter_slots = (uint32_t)args->adapter_slots,
                                 .interval_ms = (uint32_t)args->interval_ms,
                                 .load_ms = (uint32_t)args->load_ms,
                                 .no_heartbeats = args->no_heartbeat,
                                 .on_task = on_task,
                                 .arg = work};
    wb_status s = wb_worker_create(link->nc, &o, &worker);
    if (s == WB_OK) {
        s = wb_worker_start(worker);
        if (s == WB_OK) {
            fprintf(stderr, "waybill: worker %s of %s is ready\n", args->id, args->service);
            tell(args, "started", NULL);
            wait_wake();
            catch_signals(true);
            fprintf(stderr, "waybill: worker %s drains\n", args->id);
            s = wb_worker_drain(worker, args->drain_ms);
        }
    }
    work_fini(work);
    if (s == WB_OK)
        tell(args, "stopped", work);
    wb_worker_destroy(worker);
    return exit_of(s, args->id);
}

static int run(const void *args_given, const struct words *rest)
{
    const struct worker_args *args = args_given;
    struct link link;
    struct work work;
    (void)rest;
    if (args->service == NULL || args->id == NULL) {
        fprintf(stderr, "waybill: worker needs --service and --id\n");
        return EXIT_USAGE;
    }
    if (args->exec != NULL && (args->echo || args->stream >= 0)) {
        fprintf(stderr, "waybill: --exec goes with neither --echo nor --stream\n");
        return EXIT_USAGE;
    }
    if (pipe(wake) != 0)
        return EXIT_NO_LINK;
    catch_signals(false);
    int code = args->no_wait ? link_open(&args->common, &link)
                             : link_open_patiently(&args->common, &link, wake[0]);
    if (link.nc != NULL) {
        if (work_init(&work, args, on_done, NULL))
            code = serve(args, &link, &work);
        else {
            work_fini(&work);
            code = EXIT_USAGE;
        }
        link_close(&link);
    }
    close(wake[0]);
    close(wake[1]);
    return code;
}

const struct command command_worker = {
    "worker",
    "--service NAME --id NAME [options]",
    "serve requests: echo, a program, a stream",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct worker_args),
    &defaults,
    0,
    0,
    run,
    .about = "It answers with the request's payload, with what a program writes, or with a stream, "
             "and can be told to be slow, to fail and to refuse. SIGTERM and SIGINT drain it, a "
             "second one stops it at once.",
    .examples =
        "answer in capitals\twaybill worker --service chat --id w1 --exec 'tr a-z A-Z'\nrefuse a "
        "tenth of all requests\twaybill worker --service chat --id w2 --refuse-rate 0.1\n"};
