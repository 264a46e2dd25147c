/* waybill who: who served a request, from the attribution bucket. Reads the record from the
 * stream's leader: a replica's direct read may be older than the answer that the caller has in
 * hand. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/admin.h"
#include "waybill/client.h"
#include "wire/js.h"
#include "wire/json.h"
#include "wire/json_read.h"
#include "wire/name.h"
#include "wire/record.h"

#define JS_NO_MESSAGE 10037
#define SUBJECT_SIZE 600

struct who_args {
    struct common common;
    const char *service, *bucket;
    int64_t timeout_ms;
};
static const struct who_args defaults = {.bucket = "waybill_attribution", .timeout_ms = 5000};

#define ARG(field) offsetof(struct who_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "the request's service; required", 0, 0},
    {"bucket", 0, OPTION_TEXT, ARG(bucket), "NAME", "the bucket (waybill_attribution)", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait (5000)", 1, 86400000},
};

/* EXIT_FINE: `record` holds the value. EXIT_NOTHING: there is no record. Else it has said why. */
static int fetch(const struct who_args *args, struct link *link, const char *id, struct buf *record)
{
    char subject[SUBJECT_SIZE], key[SUBJECT_SIZE];
    struct buf body;
    struct js_message message;
    natsMsg *reply = NULL;
    snprintf(subject, sizeof(subject), "$JS.API.STREAM.MSG.GET.KV_%s", args->bucket);
    snprintf(key, sizeof(key), "$KV.%s.%s.%s", args->bucket, args->service, id);
    buf_init(&body, 4096);
    if (js_msg_get_request(&body, span_str(key)) != WB_OK) {
        buf_fini(&body);
        return EXIT_USAGE;
    }
    struct span all = buf_span(&body);
    natsStatus s =
        natsConnection_Request(&reply, link->nc, subject, all.ptr, (int)all.len, args->timeout_ms);
    buf_fini(&body);
    if (s != NATS_OK) {
        fprintf(stderr, "waybill: bucket %s: %s\n", args->bucket,
                s == NATS_NO_RESPONDERS ? "no JetStream answers here" : natsStatus_GetText(s));
        return s == NATS_NO_RESPONDERS || s == NATS_TIMEOUT ? EXIT_NOTHING : EXIT_NO_LINK;
    }
    wb_status parsed = js_msg_get_parse(
        span_of(natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply)), &message, record);
    natsMsg_Destroy(reply);
    bool none = parsed == WB_OK && (message.marker || message.err_code == JS_NO_MESSAGE);
    if (none || (parsed == WB_OK && message.code == 0)) {
        if (none && !args->common.json)
            fprintf(stderr,
                    "waybill: no record of %s in service %s: nobody has answered it, or its record "
                    "has expired\n",
                    id, args->service);
        return none ? EXIT_NOTHING : EXIT_FINE;
    }
    fprintf(stderr, "waybill: bucket %s: error %d (%d)\n", args->bucket, message.code,
            message.err_code);
    return EXIT_NOTHING;
}

static void print_tried(const cJSON *record)
{
    const cJSON *tried;
    cJSON_ArrayForEach(tried, cJSON_GetObjectItemCaseSensitive(record, "tried"))
        printf("  tried     %s: %s\n", admin_text(tried, "worker"), admin_text(tried, "cause"));
}

static int print_record(struct span text)
{
    static const char *const rows[] = {"outcome",     "policy",     "reason",  "selected",
                                       "session",     "adapter",    "subject", "router",
                                       "received_at", "finished_at"};
    cJSON *record = json_read(text, NULL);
    if (record == NULL) {
        fprintf(stderr, "waybill: the record is not JSON\n");
        return EXIT_ERROR_ANSWER;
    }
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(record, "rank");
    printf("%s", admin_text(record, "worker"));
    if (cJSON_IsNumber(rank))
        printf(" rank %.0f", rank->valuedouble);
    printf(" served %s of %s, attempt %.0f\n", admin_text(record, "request_id"),
           admin_text(record, "service"), admin_number(record, "attempt"));
    print_tried(record);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (cJSON_IsString(cJSON_GetObjectItemCaseSensitive(record, rows[i])))
            printf("  %-9s %s\n", rows[i], admin_text(record, rows[i]));
    printf("  first answer after %.3f ms\n", admin_number(record, "first_reply_us") / 1000);
    cJSON_Delete(record);
    return EXIT_FINE;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct who_args *args = args_given;
    const char *id = rest->items[0];
    struct link link;
    struct buf record;
    if (args->service == NULL || !name_is_id(span_str(args->service)) ||
        !name_is_request_id(span_str(id)) || !name_is_id(span_str(args->bucket))) {
        fprintf(stderr, "waybill: who needs a request id and --service\n");
        return EXIT_USAGE;
    }
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    buf_init(&record, OUTPUT_MAX);
    code = fetch(args, &link, id, &record);
    struct span text = buf_span(&record);
    if (code == EXIT_FINE && args->common.json)
        printf("%.*s\n", (int)text.len, text.ptr);
    else if (code == EXIT_FINE)
        code = print_record(text);
    else if (args->common.json)
        printf("null\n");
    buf_fini(&record);
    link_close(&link);
    return code;
}

const struct command command_who = {"who",
                                    "REQUEST-ID --service NAME [options]",
                                    "tell who served a request",
                                    options,
                                    sizeof(options) / sizeof(options[0]),
                                    sizeof(struct who_args),
                                    &defaults,
                                    1,
                                    1,
                                    run};
