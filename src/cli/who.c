/* waybill who: who served a request, from the attribution bucket. */
#include <stdio.h>

#include "cli/admin.h"
#include "cli/history.h"
#include "cli/screen.h"
#include "wire/json_read.h"

struct who_args {
    struct common common;
    const char *service, *bucket;
    int64_t timeout_ms;
    bool history;
};
static const struct who_args defaults = {.bucket = RECORDS_BUCKET, .timeout_ms = 5000};

#define ARG(field) offsetof(struct who_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME",
     "the request's service (any; the latest record with this id)", 0, 0, OPTION_SERVICES},
    {"history", 0, OPTION_FLAG, ARG(history), NULL,
     "every revision of the record that the bucket keeps, oldest first", 0, 0},
    {"bucket", 0, OPTION_TEXT, ARG(bucket), "NAME", "the bucket (waybill_attribution)", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait (5000)", 1, 86400000},
};

static void print_tried(const cJSON *record)
{
    const cJSON *tried;
    cJSON_ArrayForEach(tried, cJSON_GetObjectItemCaseSensitive(record, "tried"))
    {
        screen_add(STYLE_PLAIN, "  tried     %s: ", admin_text(tried, "worker"));
        screen_add(STYLE_WARN, "%s", admin_text(tried, "cause"));
        screen_end();
    }
}

static int print_record(const cJSON *record)
{
    static const struct {
        const char *name, *label;
    } rows[] = {{"outcome", "outcome"},     {"policy", "policy"},   {"reason", "reason"},
                {"selected", "selected"},   {"session", "session"}, {"adapter", "adapter"},
                {"subject", "subject"},     {"router", "router"},   {"received_at", "received"},
                {"finished_at", "finished"}};
    if (record == NULL) {
        fprintf(stderr, "waybill: the record is not JSON\n");
        return EXIT_ERROR_ANSWER;
    }
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(record, "rank");
    screen_add(STYLE_BOLD, "%s", admin_text(record, "worker"));
    if (cJSON_IsNumber(rank))
        screen_add(STYLE_PLAIN, " rank %.0f", rank->valuedouble);
    screen_add(STYLE_PLAIN, " served %s of %s, attempt %.0f", admin_text(record, "request_id"),
               admin_text(record, "service"), admin_number(record, "attempt"));
    screen_end();
    print_tried(record);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = admin_text(record, rows[i].name);
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(record, rows[i].name)))
            continue;
        screen_add(STYLE_PLAIN, "  %-9s ", rows[i].label);
        screen_add(i == 0 ? screen_style_of(text) : STYLE_PLAIN, "%s", text);
        screen_end();
    }
    screen_add(STYLE_PLAIN, "  answered  after %.3f ms",
               admin_number(record, "first_reply_us") / 1000);
    screen_end();
    return EXIT_FINE;
}

static int print_history(const struct history *h)
{
    int worst = EXIT_FINE;
    for (unsigned i = 0; i < h->count; i++) {
        const struct revision *r = &h->items[i];
        screen_add(STYLE_DIM, "revision %llu, %s", (unsigned long long)r->seq, r->at);
        screen_add(STYLE_PLAIN, "%s", r->marker ? ": deleted" : "");
        screen_end();
        int code = r->marker ? EXIT_FINE : print_record(r->record);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static int print_history_json(const struct history *h)
{
    struct buf text;
    struct json j;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_array(&j, NULL);
    for (unsigned i = 0; i < h->count; i++) {
        json_object(&j, NULL);
        revision_json(&j, &h->items[i]);
        json_end_object(&j);
    }
    json_end_array(&j);
    print_json(&text);
    return EXIT_FINE;
}

static int show_history(const struct who_args *args, struct records *r, const char *key,
                        const char *id)
{
    struct history h;
    enum found found = history_read(r, key, &h);
    if (found != FOUND_ONE) {
        if (args->common.json)
            printf("[]\n");
        return history_complain(r, found, args->service, id);
    }
    int code = args->common.json ? print_history_json(&h) : print_history(&h);
    history_fini(&h);
    return code;
}

static int show_last(const struct who_args *args, struct records *r, const char *key,
                     const char *id)
{
    struct revision last;
    enum found found = history_last(r, key, &last);
    if (found != FOUND_ONE) {
        if (args->common.json)
            printf("null\n");
        return history_complain(r, found, args->service, id);
    }
    int code = EXIT_FINE;
    struct span text = buf_span(&last.text);
    if (args->common.json)
        printf("%.*s\n", (int)text.len, text.ptr);
    else
        code = print_record(last.record);
    revision_fini(&last);
    return code;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct who_args *args = args_given;
    const char *id = rest->items[0];
    char key[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2];
    struct link link;
    struct records r;
    if (!history_key(args->service, id, args->bucket, key))
        return EXIT_USAGE;
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    enum found found = records_open(&r, &link, args->bucket, args->timeout_ms);
    if (found != FOUND_ONE)
        code = records_complain(&r, found);
    else if (args->history)
        code = show_history(args, &r, key, id);
    else
        code = show_last(args, &r, key, id);
    records_close(&r);
    link_close(&link);
    return code;
}

const struct command command_who = {
    "who",
    "REQUEST-ID [--service NAME] [options]",
    "tell who served a request",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct who_args),
    &defaults,
    1,
    1,
    run,
    .about = "The record is read from the stream's leader, so it is never older than an answer "
             "that has been seen. It is there once the worker's first answer has arrived, and "
             "never for a request that nobody answered.",
    .examples = "who served r-1\twaybill who r-1\nevery revision, for a program\twaybill who r-1 "
                "--history --json\n"};
