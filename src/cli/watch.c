/* waybill watch: attributions as they are written.
 *
 * The bucket is read forward from its end (or from its start with --all), a question at a time
 * while nothing comes, up to 64 at a time while much does. So it needs no right but the one to read
 * a record. A bucket that is missing at the start is an error; one that goes away later is waited
 * for, and begins anew if its numbers do. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/admin.h"
#include "cli/records.h"
#include "cli/screen.h"
#include "wire/name.h"

#define IDLE_MS 50         /* between two looks at a bucket in which nothing happens */
#define LOOKS_PER_CHECK 40 /* how often it is asked whether the bucket is still the same one */

struct watch_args {
    struct common common;
    const char *service, *worker, *router, *session, *outcome, *bucket;
    int64_t count, timeout_ms;
    bool all;
};
static const struct watch_args defaults = {.bucket = RECORDS_BUCKET, .timeout_ms = 5000};

#define ARG(field) offsetof(struct watch_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "only requests of this service", 0, 0,
     OPTION_SERVICES},
    {"worker", 0, OPTION_TEXT, ARG(worker), "NAME", "only what this worker served", 0, 0,
     OPTION_WORKERS},
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "only what this router recorded", 0, 0,
     OPTION_ROUTERS},
    {"session", 0, OPTION_TEXT, ARG(session), "NAME", "only requests of this session", 0, 0},
    {"outcome", 0, OPTION_TEXT, ARG(outcome), "WORD",
     "only these: done, error, streaming, interrupted, cancelled, timeout", 0, 0,
     "done error streaming interrupted cancelled timeout"},
    {"all", 'a', OPTION_FLAG, ARG(all), NULL, "first what the bucket holds already", 0, 0},
    {"count", 'n', OPTION_INT, ARG(count), "N", "end after N records; 0: never (0)", 0,
     1000000000000},
    {"bucket", 0, OPTION_TEXT, ARG(bucket), "NAME", "the bucket (waybill_attribution)", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for an answer (5000)", 1,
     86400000},
};

struct watch {
    const struct watch_args *args;
    struct records records;
    char keys[WB_NAME_MAX + 3];
    uint64_t seq; /* the next one to see */
    unsigned batch, idle_looks;
    int64_t shown;
    bool away; /* said that nothing can be read */
};

static int wake[2]; /* a signal writes here */
static volatile sig_atomic_t stopped;

static void on_signal(int signum)
{
    (void)signum;
    int saved = errno;
    stopped = 1;
    ssize_t n = write(wake[1], "s", 1);
    (void)n;
    errno = saved;
}

static bool catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    return pipe(wake) == 0 && sigaction(SIGINT, &action, NULL) == 0 &&
           sigaction(SIGTERM, &action, NULL) == 0;
}

static void pause_ms(int ms)
{
    struct pollfd signal_came = {wake[0], POLLIN, 0};
    poll(&signal_came, 1, ms);
}

static bool is(const cJSON *record, const char *name, const char *wanted)
{
    return wanted == NULL || strcmp(admin_text(record, name), wanted) == 0;
}

static bool is_wanted(const struct watch_args *args, const struct revision *r)
{
    bool only_some = args->worker != NULL || args->router != NULL || args->session != NULL ||
                     args->outcome != NULL;
    if (r->record == NULL)
        return !only_some; /* a key that was deleted, or what no router wrote */
    return is(r->record, "worker", args->worker) && is(r->record, "router", args->router) &&
           is(r->record, "session", args->session) && is(r->record, "outcome", args->outcome);
}

static void show_json(const struct revision *r)
{
    struct buf text;
    struct json j;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_object(&j, NULL);
    revision_json(&j, r);
    json_end_object(&j);
    print_json(&text);
}

static void show_tried(const cJSON *record)
{
    const cJSON *tried;
    cJSON_ArrayForEach(tried, cJSON_GetObjectItemCaseSensitive(record, "tried"))
        screen_add(STYLE_WARN, "  %s:%s", admin_text(tried, "worker"), admin_text(tried, "cause"));
}

static void show_record(const struct revision *r)
{
    const cJSON *record = r->record, *rank = cJSON_GetObjectItemCaseSensitive(record, "rank"),
                *replies = cJSON_GetObjectItemCaseSensitive(record, "replies");
    const char *outcome = admin_text(record, "outcome"), *service = admin_text(record, "service");
    screen_add(STYLE_BOLD, "  %s", admin_text(record, "worker"));
    if (cJSON_IsNumber(rank))
        screen_add(STYLE_BOLD, "/%.0f", rank->valuedouble);
    screen_add(STYLE_PLAIN, " <- %s of %s  ", admin_text(record, "request_id"), service);
    screen_add(screen_style_of(outcome), "%s", outcome);
    screen_add(STYLE_PLAIN, "  %.3f ms", admin_number(record, "first_reply_us") / 1000);
    if (cJSON_IsNumber(replies))
        screen_add(STYLE_PLAIN, "  %.0f %s", replies->valuedouble,
                   replies->valuedouble == 1 ? "reply" : "replies");
    if (admin_number(record, "attempt") > 1)
        screen_add(STYLE_PLAIN, "  attempt %.0f", admin_number(record, "attempt"));
    screen_add(STYLE_PLAIN, "  %s", admin_text(record, "reason"));
    show_tried(record);
}

static void show(const struct watch_args *args, const struct revision *r)
{
    if (args->common.json) {
        show_json(r);
        return;
    }
    screen_add(STYLE_DIM, "%s", r->at);
    if (r->record != NULL)
        show_record(r);
    else
        screen_add(STYLE_WARN, "  %s %s", r->key, r->marker ? "deleted" : "holds no JSON");
    screen_end();
}

static bool is_enough(const struct watch *w)
{
    return stopped || (w->args->count > 0 && w->shown >= w->args->count);
}

/* Where the bucket ends: there a watch begins. */
static enum found find_end(struct watch *w)
{
    struct revision last;
    enum found found = records_last(&w->records, ">", &last);
    w->seq = found == FOUND_ONE ? last.seq + 1 : 1;
    if (found == FOUND_ONE)
        revision_fini(&last);
    return found == FOUND_NONE ? FOUND_ONE : found;
}

/* A bucket that was made anew counts from 1 again. */
static enum found check_end(struct watch *w)
{
    uint64_t seq = w->seq;
    enum found found = find_end(w);
    bool anew = found == FOUND_ONE && w->seq < seq;
    if (anew)
        fprintf(stderr, "waybill: bucket %s begins anew\n", w->args->bucket);
    w->seq = anew ? 1 : seq;
    return found;
}

static void say_away(struct watch *w, enum found found)
{
    if (!w->away) {
        int code = records_complain(&w->records, found);
        (void)code; /* it goes on */
        fprintf(stderr, "waybill: waiting for it\n");
    }
    w->away = true;
}

/* One look. What ended it is told: FOUND_ONE there may be more, FOUND_NONE not now. */
static enum found look(struct watch *w)
{
    struct revision got[RECORDS_BATCH_MAX];
    unsigned used;
    enum found found = records_batch(&w->records, w->keys, w->seq, w->batch, got, &used);
    for (unsigned i = 0; i < used; i++) {
        if (!is_enough(w) && is_wanted(w->args, &got[i])) {
            show(w->args, &got[i]);
            w->shown++;
        }
        w->seq = got[i].seq + 1;
        revision_fini(&got[i]);
    }
    if (found != FOUND_ONE)
        w->batch = 1;
    else if (w->batch < RECORDS_BATCH_MAX)
        w->batch *= 2;
    if (used > 0)
        w->away = false;
    return found;
}

static int watch(struct watch *w)
{
    enum found found = find_end(w);
    if (found != FOUND_ONE)
        return records_complain(&w->records, found);
    if (w->args->all)
        w->seq = 1;
    fprintf(stderr, "waybill: watching bucket %s\n", w->args->bucket);
    while (!is_enough(w)) {
        found = look(w);
        if (found == FOUND_NONE && ++w->idle_looks % LOOKS_PER_CHECK == 0)
            found = check_end(w);
        else if (found == FOUND_NONE)
            pause_ms(IDLE_MS);
        if (found == FOUND_DENIED)
            return records_complain(&w->records, found);
        if (found > FOUND_NONE && !stopped) {
            say_away(w, found);
            pause_ms(10 * IDLE_MS);
        }
        if (found == FOUND_NO_BUCKET)
            w->seq = 1; /* all of the next one is new */
    }
    return EXIT_FINE;
}

static bool check_names(const struct watch_args *args)
{
    const char *const ids[][2] = {{"service", args->service},
                                  {"worker", args->worker},
                                  {"router", args->router},
                                  {"bucket", args->bucket}};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i][1] != NULL && !name_is_id(span_str(ids[i][1]))) {
            fprintf(stderr, "waybill: --%s: not a name: %s\n", ids[i][0], ids[i][1]);
            return false;
        }
    return true;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct watch_args *args = args_given;
    struct watch w = {.args = args, .batch = 1};
    struct link link;
    (void)rest;
    if (!check_names(args))
        return EXIT_USAGE;
    snprintf(w.keys, sizeof(w.keys), "%s%s>", args->service != NULL ? args->service : "",
             args->service != NULL ? "." : "");
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    enum found found = catch_signals()
                           ? records_open(&w.records, &link, args->bucket, args->timeout_ms)
                           : FOUND_ERROR;
    w.records.stop = &stopped;
    code = found == FOUND_ONE ? watch(&w) : records_complain(&w.records, found);
    records_close(&w.records);
    link_close(&link);
    return code;
}

const struct command command_watch = {
    "watch",
    "[options]",
    "show attributions as they are written",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct watch_args),
    &defaults,
    0,
    0,
    run,
    .about =
        "Each record is a line, each revision of a stream's too; with --json an object a line. "
        "Only the right to read a record is needed. SIGINT and SIGTERM end it with exit code 0.",
    .examples = "what worker w1 serves, from now on\twaybill watch --worker w1\nwhat went wrong in "
                "the last hour\twaybill watch --all --outcome interrupted --count 10\nfor a "
                "program\twaybill watch --json | jq -r .record.worker\n"};
