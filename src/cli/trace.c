/* waybill trace: what happened to a request, as a timeline made of its record.
 *
 * Times of the record are the router's clock; when a revision was written is the NATS server's, so
 * it may seem to lie before what it tells. When a failed attempt ended is not recorded: it stands
 * between choice and first answer without a time. */
#include <stdio.h>
#include <string.h>

#include "cli/admin.h"
#include "cli/history.h"
#include "cli/screen.h"
#include "cli/words.h"

struct trace_args {
    struct common common;
    const char *service, *bucket;
    int64_t timeout_ms;
};
static const struct trace_args defaults = {.bucket = RECORDS_BUCKET, .timeout_ms = 5000};

#define ARG(field) offsetof(struct trace_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME",
     "the request's service (any; the latest record with this id)", 0, 0, OPTION_SERVICES},
    {"bucket", 0, OPTION_TEXT, ARG(bucket), "NAME", "the bucket (waybill_attribution)", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait (5000)", 1, 86400000},
};

#define EVENTS_MAX 128
#define NO_TIME INT64_MIN

struct event {
    const char *name;   /* received, chosen, tried, answered, finished, recorded */
    int64_t offset_us;  /* since the receipt; NO_TIME: not known */
    const char *worker; /* NULL: none */
    const char *cause;  /* of tried */
    enum style style;
    char text[640];
};

struct timeline {
    const cJSON *record; /* the last revision's */
    int64_t received_us;
    struct event events[EVENTS_MAX];
    unsigned count;
};

static struct event *add(struct timeline *t, const char *name, int64_t offset_us)
{
    struct event *e = &t->events[t->count < EVENTS_MAX - 1 ? t->count++ : t->count];
    *e = (struct event){.name = name, .offset_us = offset_us};
    return e;
}

static int64_t since_receipt(const struct timeline *t, const char *at)
{
    wall when;
    return t->received_us != NO_TIME && revision_time(at, &when) ? when.us - t->received_us
                                                                 : NO_TIME;
}

static const char *text_or_null(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void add_begin(struct timeline *t)
{
    const cJSON *r = t->record, *one;
    const char *reason = admin_text(r, "reason"), *policy = admin_text(r, "policy"),
               *session = text_or_null(r, "session"), *adapter = text_or_null(r, "adapter");
    wall received;
    t->received_us = revision_time(admin_text(r, "received_at"), &received) ? received.us : NO_TIME;
    struct event *e = add(t, "received", t->received_us == NO_TIME ? NO_TIME : 0);
    snprintf(e->text, sizeof(e->text), "by router %s on %s%s%s%s%s", admin_text(r, "router"),
             admin_text(r, "subject"), session != NULL ? ", session " : "",
             session != NULL ? session : "", adapter != NULL ? ", adapter " : "",
             adapter != NULL ? adapter : "");
    e = add(t, "chosen", NO_TIME);
    e->worker = text_or_null(r, "selected");
    /* the record's reason is that of the attempt that was answered */
    if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(r, "tried")) > 0)
        snprintf(e->text, sizeof(e->text), "first");
    else if (strcmp(reason, "policy") != 0)
        snprintf(e->text, sizeof(e->text), "%s", word_of_reason(reason));
    else
        snprintf(e->text, sizeof(e->text), "by %s (%s)", policy, word_of_policy(policy));
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(r, "tried"))
    {
        e = add(t, "tried", NO_TIME);
        e->worker = text_or_null(one, "worker");
        e->cause = text_or_null(one, "cause");
        e->style = STYLE_WARN;
        snprintf(e->text, sizeof(e->text), "%s: %s", admin_text(one, "cause"),
                 word_of_cause(admin_text(one, "cause")));
    }
    e = add(t, "answered", NO_TIME);
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(r, "first_reply_us")))
        e->offset_us = (int64_t)admin_number(r, "first_reply_us");
    e->worker = text_or_null(r, "worker");
    e->style = STYLE_BOLD;
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(r, "rank");
    int n = snprintf(e->text, sizeof(e->text), "attempt %.0f", admin_number(r, "attempt"));
    if (cJSON_IsNumber(rank))
        n += snprintf(e->text + n, sizeof(e->text) - (size_t)n, ", rank %.0f", rank->valuedouble);
    snprintf(e->text + n, sizeof(e->text) - (size_t)n, ", %s: %s", reason, word_of_reason(reason));
}

static void add_end(struct timeline *t)
{
    const char *outcome = admin_text(t->record, "outcome"),
               *at = text_or_null(t->record, "finished_at");
    const cJSON *replies = cJSON_GetObjectItemCaseSensitive(t->record, "replies"),
                *code = cJSON_GetObjectItemCaseSensitive(t->record, "code");
    bool open = strcmp(outcome, "streaming") == 0;
    struct event *e =
        add(t, open ? "open" : "finished", at != NULL ? since_receipt(t, at) : NO_TIME);
    int n = snprintf(e->text, sizeof(e->text), "%s",
                     open ? "the stream's end is not recorded yet" : outcome);
    if (cJSON_IsNumber(replies))
        n += snprintf(e->text + n, sizeof(e->text) - (size_t)n, ", %.0f %s", replies->valuedouble,
                      replies->valuedouble == 1 ? "reply" : "replies");
    if (cJSON_IsNumber(code))
        snprintf(e->text + n, sizeof(e->text) - (size_t)n, ", code %.0f", code->valuedouble);
    e->style = screen_style_of(outcome);
}

/* The revisions of this very request: an id may be used again. */
static unsigned add_revisions(struct timeline *t, const struct history *h)
{
    unsigned others = 0;
    for (unsigned i = 0; i < h->count; i++) {
        const struct revision *r = &h->items[i];
        bool ours = r->record != NULL &&
                    strcmp(admin_text(r->record, "rid"), admin_text(t->record, "rid")) == 0;
        others += !ours && !r->marker;
        if (!ours)
            continue;
        struct event *e = add(t, "recorded", since_receipt(t, r->at));
        e->style = STYLE_DIM;
        snprintf(e->text, sizeof(e->text), "revision %llu, %s (the server's clock)",
                 (unsigned long long)r->seq, admin_text(r->record, "outcome"));
    }
    return others;
}

static void show_events(const struct timeline *t)
{
    for (unsigned i = 0; i < t->count; i++) {
        const struct event *e = &t->events[i];
        char at[32] = "";
        if (e->offset_us != NO_TIME)
            snprintf(at, sizeof(at), "%+.3f ms", (double)e->offset_us / 1000);
        screen_add(STYLE_PLAIN, "  %16s  ", at);
        screen_add(e->style, "%-9s", e->name);
        if (e->worker != NULL)
            screen_add(STYLE_BOLD, " %s", e->worker);
        screen_add(STYLE_PLAIN, " ");
        screen_folded(29, e->text);
        screen_end();
    }
}

static int show(const struct timeline *t, unsigned others)
{
    const cJSON *r = t->record;
    const char *outcome = admin_text(r, "outcome");
    screen_add(STYLE_PLAIN, "request %s of %s: ", admin_text(r, "request_id"),
               admin_text(r, "service"));
    screen_add(screen_style_of(outcome), "%s", outcome);
    screen_add(STYLE_PLAIN, ", served by %s; received %s", admin_text(r, "worker"),
               admin_text(r, "received_at"));
    screen_end();
    show_events(t);
    if (text_or_null(r, "trace") != NULL) {
        screen_add(STYLE_PLAIN, "  trace id %s", text_or_null(r, "trace"));
        screen_end();
    }
    if (others > 0) {
        screen_add(STYLE_DIM,
                   "  %u older revisions are of other requests with this id; waybill who "
                   "--history shows them",
                   others);
        screen_end();
    }
    return EXIT_FINE;
}

static void json_event(struct json *j, const struct event *e)
{
    json_object(j, NULL);
    json_text(j, "event", span_str(e->name));
    if (e->offset_us != NO_TIME)
        json_int(j, "offset_us", e->offset_us);
    else
        json_null(j, "offset_us");
    json_text_or_null(j, "worker", span_str(e->worker));
    json_text_or_null(j, "cause", span_str(e->cause));
    json_text(j, "text", span_str(e->text));
    json_end_object(j);
}

static int show_json(const struct timeline *t, const struct history *h)
{
    struct buf text;
    struct json j;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_object(&j, NULL);
    revision_json(&j, &h->items[h->count - 1]);
    json_array(&j, "events");
    for (unsigned i = 0; i < t->count; i++)
        json_event(&j, &t->events[i]);
    json_end_array(&j);
    json_end_object(&j);
    print_json(&text);
    return EXIT_FINE;
}

static int trace(const struct trace_args *args, const struct history *h)
{
    struct timeline t = {.record = h->items[h->count - 1].record};
    if (t.record == NULL) {
        fprintf(stderr, "waybill: the record is not JSON\n");
        return EXIT_ERROR_ANSWER;
    }
    add_begin(&t);
    add_end(&t);
    unsigned others = add_revisions(&t, h);
    return args->common.json ? show_json(&t, h) : show(&t, others);
}

static int run(const void *args_given, const struct words *rest)
{
    const struct trace_args *args = args_given;
    char key[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2];
    struct link link;
    struct records r;
    struct history h;
    if (!history_key(args->service, rest->items[0], args->bucket, key))
        return EXIT_USAGE;
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    enum found found = records_open(&r, &link, args->bucket, args->timeout_ms);
    if (found == FOUND_ONE)
        found = history_read(&r, key, &h);
    if (found == FOUND_ONE) {
        code = trace(args, &h);
        history_fini(&h);
    } else {
        if (args->common.json)
            printf("null\n");
        code = history_complain(&r, found, args->service, rest->items[0]);
    }
    records_close(&r);
    link_close(&link);
    return code;
}

const struct command command_trace = {
    "trace",
    "REQUEST-ID [--service NAME] [options]",
    "show what happened to a request, as a timeline",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct trace_args),
    &defaults,
    1,
    1,
    run,
    .about = "Times are the router's clock, save when a revision was written, which is the NATS "
             "server's. When a failed attempt ended is not recorded.",
    .examples = "what became of r-1\twaybill trace r-1 --service chat\n"};
