/* waybill explain: whom the router would choose for a request, and why. The request asks for
 * advice: nothing is sent to a worker, charged, moved or recorded. */
#include <stdio.h>
#include <string.h>

#include "cli/admin.h"
#include "cli/headers.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/words.h"
#include "waybill/client.h"
#include "wire/json_read.h"

struct explain_args {
    struct common common;
    const char *target, *id, *adapter, *session, *hash_key, *priority, *retry;
    struct option_list headers;
    int64_t timeout_ms;
};
static const struct explain_args defaults = {.timeout_ms = 5000};

#define ARG(field) offsetof(struct explain_args, field)
static const struct option options[] = {
    {"target", 0, OPTION_TEXT, ARG(target), "WORKER[/RANK]", "this worker exactly", 0, 0,
     OPTION_WORKERS},
    {"header", 'H', OPTION_LIST, ARG(headers), "\"NAME: VALUE\"", "a header; may be repeated", 0,
     0},
    {"adapter", 0, OPTION_TEXT, ARG(adapter), "NAME", "only workers that hold it", 0, 0},
    {"session", 0, OPTION_TEXT, ARG(session), "NAME", "session affinity key", 0, 0},
    {"hash-key", 0, OPTION_TEXT, ARG(hash_key), "TEXT", "key of policy hash", 0, 0},
    {"priority", 0, OPTION_TEXT, ARG(priority), "WORD", "low, normal or high", 0, 0,
     "low normal high"},
    {"id", 0, OPTION_TEXT, ARG(id), "ID", "request id, for --retry", 0, 0},
    {"retry", 0, OPTION_TEXT, ARG(retry), "WORD", "avoid or prefer the worker that served this id",
     0, 0, "avoid prefer"},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait (5000)", 1, 86400000},
};

static const struct table_column columns[] = {
    {"", false, false},           {"WORKER", false, true}, {"STATE", false, false},
    {"FREE", false, false, true}, {"LOAD", true, false},   {"OCCUPANCY", true, false},
    {"CAPACITY", true, false},    {"WEIGHT", true, false}};

static void show_candidates(const cJSON *advice, const char *chosen)
{
    const cJSON *one;
    struct table t;
    table_begin(&t, columns, sizeof(columns) / sizeof(columns[0]));
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(advice, "candidates"))
    {
        const char *name = admin_text(one, "worker");
        double capacity = admin_number(one, "capacity");
        bool is_free = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "free"));
        table_text(&t, chosen != NULL && strcmp(name, chosen) == 0 ? "->" : "");
        table_text(&t, name);
        table_text(&t, admin_text(one, "state"));
        table_text(&t, is_free ? "yes" : "no");
        table_print(&t, "%.4g", admin_number(one, "load"));
        table_print(&t, "%.0f", admin_number(one, "occupancy"));
        if (capacity > 0)
            table_print(&t, "%.0f", capacity);
        else
            table_text(&t, "-");
        table_print(&t, "%.0f", admin_number(one, "weight"));
    }
    table_end(&t);
}

static void show_choice(const cJSON *advice, const char *chosen)
{
    const char *reason = admin_text(advice, "reason"), *error = admin_text(advice, "error");
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(advice, "rank");
    if (chosen == NULL) {
        screen_add(STYLE_BAD, "nobody");
        screen_add(STYLE_PLAIN, ": the request would get %s", error);
    } else {
        screen_add(STYLE_GOOD, "%s", chosen);
        if (cJSON_IsNumber(rank))
            screen_add(STYLE_GOOD, " rank %.0f", rank->valuedouble);
        screen_add(STYLE_PLAIN, ", for reason %s: ", reason);
        screen_folded(2, word_of_reason(reason));
    }
    screen_end();
}

static bool asks_policy(const char *reason)
{
    return strcmp(reason, "target") != 0 && strcmp(reason, "session") != 0 &&
           strcmp(reason, "prefer") != 0;
}

static void show(const cJSON *advice)
{
    const char *chosen = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(advice, "worker")),
               *policy = admin_text(advice, "policy");
    int shown = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(advice, "candidates"));
    double routable = admin_number(advice, "routable");
    show_choice(advice, chosen);
    screen_add(STYLE_PLAIN, "  service %s, policy %s: ", admin_text(advice, "service"), policy);
    screen_folded(2, asks_policy(admin_text(advice, "reason")) ? word_of_policy(policy)
                                                               : "it was not asked");
    screen_end();
    screen_add(STYLE_PLAIN, "  workers: %.0f discovered, %.0f routable, %.0f free",
               admin_number(advice, "discovered"), routable, admin_number(advice, "free"));
    screen_end();
    show_candidates(advice, chosen);
    if (shown < (int)routable && shown >= 32)
        printf("  and more than these %d\n", shown);
}

static int show_error(const struct explain_args *args, wb_status status, const wb_result *r,
                      const char *subject)
{
    size_t len;
    const void *data = wb_result_data(r, &len);
    const char *message = wb_result_message(r);
    if (args->common.json)
        printf("%.*s\n", (int)len, (const char *)data);
    else {
        screen_add(STYLE_BAD, "nobody");
        screen_add(STYLE_PLAIN, ": a request on %s would get %d %s: ", subject, wb_result_code(r),
                   wb_status_name(status));
        screen_folded(2, message != NULL ? message : wb_status_text(status));
        screen_end();
    }
    return EXIT_ERROR_ANSWER;
}

static int show_answer(const struct explain_args *args, wb_status status, const wb_result *r,
                       const char *subject)
{
    size_t len;
    if (r == NULL && status == WB_NOT_FOUND) {
        fprintf(stderr, "waybill: no router serves %s\n", subject);
        return EXIT_NOTHING;
    }
    if (r == NULL)
        return exit_of(status, subject);
    if (status != WB_OK)
        return show_error(args, status, r, subject);
    const void *data = wb_result_data(r, &len);
    cJSON *advice = json_read(span_of(data, len), NULL);
    bool is_advice = cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(advice, "candidates"));
    if (!is_advice)
        fprintf(stderr, "waybill: what answers on %s is no router: it gave no advice\n", subject);
    else if (args->common.json)
        printf("%.*s\n", (int)len, (const char *)data);
    else
        show(advice);
    bool fine = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(advice, "worker"));
    cJSON_Delete(advice);
    return is_advice && fine ? EXIT_FINE : EXIT_ERROR_ANSWER;
}

static int explain(const struct explain_args *args, struct link *link, const char *subject,
                   const wb_header *headers)
{
    const wb_request_options o = {.id = args->id,
                                  .target = args->target,
                                  .adapter = args->adapter,
                                  .session = args->session,
                                  .hash_key = args->hash_key,
                                  .priority = args->priority,
                                  .retry = args->retry,
                                  .advise = true,
                                  .timeout_ms = args->timeout_ms,
                                  .inbox_prefix = link->inbox_prefix,
                                  .headers = headers,
                                  .header_count = args->headers.count};
    wb_result *r = NULL;
    wb_status s = wb_request(link->nc, subject, NULL, 0, &o, &r);
    int code = EXIT_NO_LINK;
    if (r == NULL && link_denied(link, subject))
        fprintf(stderr, "waybill: these credentials may not publish %s\n", subject);
    else
        code = show_answer(args, s, r, subject);
    wb_result_destroy(r);
    return code;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct explain_args *args = args_given;
    wb_header headers[OPTION_LIST_MAX] = {{NULL, NULL}};
    struct link link;
    int code = EXIT_USAGE;
    if (headers_split(&args->headers, headers))
        code = link_open(&args->common, &link);
    if (code == EXIT_FINE) {
        code = explain(args, &link, rest->items[0], headers);
        link_close(&link);
    }
    headers_free(&args->headers, headers);
    return code;
}

const struct command command_explain = {
    "explain",
    "SUBJECT [options]",
    "show whom a router would choose for a request, and why",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct explain_args),
    &defaults,
    1,
    1,
    run,
    .about = "It asks for advice (Waybill-Advise): nothing is sent to a worker, nothing is "
             "charged, no session or cursor moves. It fails with the error that the request would "
             "get. Client rights are needed.",
    .examples = "whom a request would go to\twaybill explain chat.request.eu\nand one of session "
                "s-9\twaybill explain chat.request.eu --session s-9\n"};
