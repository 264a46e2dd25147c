/* waybill doctor: is all there that Waybill needs, and as it needs it? */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/records.h"
#include "cli/screen.h"
#include "waybill/client.h"
#include "wire/json_read.h"
#include "wire/name.h"

static const struct doctor_args defaults = {.role = "operator", .timeout_ms = 2000};

#define ARG(field) offsetof(struct doctor_args, field)
static const struct option options[] = {
    {"as", 0, OPTION_TEXT, ARG(role), "ROLE",
     "whose credentials these are: operator, client, worker, static (a worker by the routers' "
     "configuration) or router (operator)",
     0, 0, "operator client worker static router"},
    {"service", 0, OPTION_TEXT, ARG(service), "NAME",
     "with --as client, worker or static: the service", 0, 0, OPTION_SERVICES},
    {"worker", 0, OPTION_TEXT, ARG(worker), "NAME", "with --as worker or static: its id", 0, 0,
     OPTION_WORKERS},
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "with --as router: its id", 0, 0, OPTION_ROUTERS},
    {"subject", 0, OPTION_LIST, ARG(subjects), "SUBJECT",
     "with --as client or router: a request subject, may be repeated; with --as static: its own", 0,
     0},
    {"config", 'c', OPTION_TEXT, ARG(config), "FILE",
     "waybilld's configuration: what is wanted of the buckets, prefix and subjects", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for an answer (2000)", 1,
     86400000},
};

static const char *const verdict_words[] = {"ok", "warn", "fail"};
static const enum style verdict_styles[] = {STYLE_GOOD, STYLE_WARN, STYLE_BAD};

#define CHECK_WIDTH 22

void doctor_find(struct doctor *d, enum verdict verdict, const char *check, const char *advice,
                 const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    d->counts[verdict]++;
    if (d->args->common.json) {
        json_object(&d->json, NULL);
        json_text(&d->json, "check", span_str(check));
        json_text(&d->json, "verdict", span_str(verdict_words[verdict]));
        json_text(&d->json, "text", span_str(text));
        json_text_or_null(&d->json, "advice", span_str(advice));
        json_end_object(&d->json);
        return;
    }
    screen_add(verdict_styles[verdict], "%-4s", verdict_words[verdict]);
    screen_add(STYLE_PLAIN, "  %-*s ", CHECK_WIDTH, check);
    screen_folded(CHECK_WIDTH + 7, text);
    screen_end();
    if (advice == NULL)
        return;
    screen_add(STYLE_PLAIN, "%*s-> ", CHECK_WIDTH + 7, "");
    screen_folded(CHECK_WIDTH + 10, advice);
    screen_end();
}

static enum answer wait_answer(struct doctor *d, natsSubscription *sub, const char *subject,
                               const char *inbox, natsMsg **out)
{
    enum { SLICE_MS = 50 };
    mono until = mono_add_ms(clock_mono(), d->args->timeout_ms);
    for (;;) {
        int64_t left_ms = mono_diff_us(until, clock_mono()) / 1000;
        natsStatus s =
            left_ms < 1
                ? NATS_TIMEOUT
                : natsSubscription_NextMsg(out, sub, left_ms < SLICE_MS ? left_ms : SLICE_MS);
        if (s == NATS_OK)
            return ANSWER_GOOD;
        if (s == NATS_NO_RESPONDERS)
            return ANSWER_NOBODY;
        if (link_denied(&d->link, subject) || link_denied(&d->link, inbox))
            return ANSWER_DENIED;
        if (s != NATS_TIMEOUT || left_ms < 1)
            return ANSWER_SILENCE;
    }
}

enum answer doctor_ask(struct doctor *d, const char *subject, const char *body, cJSON **out)
{
    char inbox[WB_SUBJECT_MAX + 1];
    natsSubscription *sub = NULL;
    natsMsg *message = NULL;
    enum answer answer = ANSWER_SILENCE;
    *out = NULL;
    if (wb_reply_subject(d->link.inbox_prefix, inbox) == WB_OK &&
        natsConnection_SubscribeSync(&sub, d->link.nc, inbox) == NATS_OK &&
        natsConnection_PublishRequestString(d->link.nc, subject, inbox, body) == NATS_OK)
        answer = wait_answer(d, sub, subject, inbox, &message);
    if (answer == ANSWER_GOOD) {
        *out = json_read(span_of(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)),
                         NULL);
        if (*out == NULL)
            answer = ANSWER_SILENCE;
    }
    natsMsg_Destroy(message);
    natsSubscription_Destroy(sub);
    return answer;
}

const cJSON *doctor_member(const cJSON *tree, const char *way)
{
    char name[64];
    while (tree != NULL && *way != '\0') {
        size_t len = strcspn(way, ".");
        snprintf(name, sizeof(name), "%.*s", (int)len, way);
        tree = cJSON_GetObjectItemCaseSensitive(tree, name);
        way += len + (way[len] == '.');
    }
    return tree;
}

int doctor_js_error(const cJSON *answer)
{
    const cJSON *code = doctor_member(answer, "error.err_code");
    return cJSON_IsNumber(code) ? code->valueint : 0;
}

static bool needs(const char *role, const char *what, bool given)
{
    if (!given)
        fprintf(stderr, "waybill: --as %s needs %s\n", role, what);
    return given;
}

static bool check_args(const struct doctor_args *args, const struct wanted *w)
{
    const char *const names[][2] = {
        {"service", args->service}, {"worker", args->worker}, {"router", args->router}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i][1] != NULL && !name_is_id(span_str(names[i][1]))) {
            fprintf(stderr, "waybill: --%s: not a name: %s\n", names[i][0], names[i][1]);
            return false;
        }
    if (strcmp(args->role, "operator") == 0)
        return true;
    if (strcmp(args->role, "client") == 0)
        return needs("client", "--service and --subject, or --config",
                     w->service[0] != '\0' && w->subject_count > 0);
    if (strcmp(args->role, "worker") == 0)
        return needs("worker", "--service and --worker",
                     args->service != NULL && args->worker != NULL);
    if (strcmp(args->role, "static") == 0)
        return needs("static", "--service, --worker and --subject",
                     args->service != NULL && args->worker != NULL && args->subjects.count > 0);
    return needs("router", "--router", args->router != NULL);
}

/* A router's answers come below its own subject. */
static void take_inbox(struct doctor *d)
{
    char prefix[WB_SUBJECT_MAX + 1];
    if (strcmp(d->args->role, "router") != 0)
        return;
    snprintf(prefix, sizeof(prefix), "%s.inbox.%s", d->link.prefix, d->args->router);
    free(d->link.inbox_prefix);
    d->link.inbox_prefix = strdup(prefix);
}

static void look_around(struct doctor *d, bool operates)
{
    if (operates) {
        doctor_routers(d);
        doctor_workers(d);
    }
    doctor_streams(d);
    if (d->has_jetstream)
        doctor_buckets(d);
    doctor_blindness(d);
    if (d->has_jetstream && operates)
        doctor_clocks(d);
}

/* Looks at everything that this role may look at; the exit code. */
static int examine(struct doctor *d)
{
    bool operates = strcmp(d->args->role, "operator") == 0;
    take_inbox(d);
    doctor_server(d);
    doctor_rights(d);
    if (operates || strcmp(d->args->role, "router") == 0)
        look_around(d, operates); /* clients and workers may not */
    return d->counts[VERDICT_FAIL] > 0 ? EXIT_UNHEALTHY : EXIT_FINE;
}

static void begin(struct doctor *d)
{
    buf_init(&d->text, OUTPUT_MAX);
    json_begin(&d->json, &d->text);
    json_object(&d->json, NULL);
    json_text(&d->json, "role", span_str(d->args->role));
    json_array(&d->json, "findings");
}

static void conclude(struct doctor *d)
{
    unsigned ok = d->counts[VERDICT_OK], warn = d->counts[VERDICT_WARN],
             fail = d->counts[VERDICT_FAIL];
    if (d->args->common.json) {
        json_end_array(&d->json);
        json_int(&d->json, "ok", ok);
        json_int(&d->json, "warn", warn);
        json_int(&d->json, "fail", fail);
        json_end_object(&d->json);
        print_json(&d->text);
    } else {
        screen_add(fail > 0   ? STYLE_BAD
                   : warn > 0 ? STYLE_WARN
                              : STYLE_GOOD,
                   "%u ok, %u to look at, %u failed", ok, warn, fail);
        screen_end();
    }
    buf_fini(&d->text);
}

static int run(const void *args_given, const struct words *rest)
{
    struct doctor_args args = *(const struct doctor_args *)args_given;
    struct doctor d = {.args = &args};
    int code = EXIT_USAGE;
    (void)rest;
    bool fine = wanted_read(args.config, &d.wanted);
    if (fine && args.service != NULL)
        snprintf(d.wanted.service, sizeof(d.wanted.service), "%s", args.service);
    for (unsigned i = 0; i < args.subjects.count; i++)
        wanted_add(&d.wanted, args.subjects.items[i]);
    if (args.common.prefix == NULL)
        args.common.prefix = d.wanted.prefix;
    if (fine && check_args(&args, &d.wanted)) {
        link_hush(); /* its findings tell */
        code = link_open(&args.common, &d.link);
    }
    if (code != EXIT_USAGE) {
        begin(&d);
        if (code == EXIT_FINE)
            code = examine(&d);
        else
            doctor_find(&d, VERDICT_FAIL, "connection",
                        "is the server up, and are its address and these credentials right?",
                        "cannot connect");
        conclude(&d);
        admin_fini(&d.stats);
        admin_fini(&d.workers);
        if (code != EXIT_NO_LINK)
            link_close(&d.link);
    }
    wanted_fini(&d.wanted);
    return code;
}

const struct command command_doctor = {
    "doctor",
    "[options]",
    "check server, rights, routers, workers, buckets and clocks",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct doctor_args),
    &defaults,
    0,
    0,
    run,
    .about = "It looks at the server and its version, at what these credentials may publish and "
             "subscribe, at routers, workers, JetStream, streams over worker subjects, buckets, "
             "whether a 503 can be had, and clocks, and says of each ok, warn or fail and what to "
             "do. Nothing is changed. Rights to publish are tried without publishing; each try "
             "leaves a line of a violation in the server's log. With --as it looks at a client's, "
             "a worker's or a router's credentials instead of an operator's.",
    .examples = "is all well?\twaybill doctor\nagainst what is wanted\twaybill doctor --config "
                "/etc/waybill/waybill.json\nmay this worker do what it must, and no more?\twaybill "
                "doctor --as worker --service chat --worker w1 --creds w1.creds\n"};
