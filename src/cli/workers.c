/* waybill workers: what each router knows and sees of its workers. */
#include <stdio.h>
#include <string.h>

#include "cli/admin.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "wire/json.h"
#include "wire/name.h"

struct workers_args {
    struct common common;
    const char *service, *router;
    int64_t timeout_ms;
    bool adapters;
};
static const struct workers_args defaults = {.timeout_ms = 2000};

#define ARG(field) offsetof(struct workers_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "only this service", 0, 0, OPTION_SERVICES},
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "only this router's view", 0, 0, OPTION_ROUTERS},
    {"adapters", 'a', OPTION_FLAG, ARG(adapters), NULL, "also each adapter's holders and requests",
     0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for routers (2000)", 1,
     86400000},
};

#define ADAPTERS_WIDTH 40

/* "fr,de,+12": whole names while there is room, and how many more. */
static void print_adapters(struct table *t, const cJSON *adapters)
{
    char text[ADAPTERS_WIDTH + 16] = "";
    size_t used = 0;
    int left = cJSON_GetArraySize(adapters);
    const cJSON *one;
    cJSON_ArrayForEach(one, adapters)
    {
        const char *name = cJSON_GetStringValue(one);
        size_t len = name != NULL ? strlen(name) : 0;
        if (used + len + 1 > ADAPTERS_WIDTH && used > 0)
            break;
        if (len > ADAPTERS_WIDTH - 4)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s...",
                                     ADAPTERS_WIDTH - 4, name);
        else
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used > 0 ? "," : "",
                                     name != NULL ? name : "");
        left--;
    }
    if (left > 0)
        snprintf(text + used, sizeof(text) - used, ",+%d", left);
    table_text(t, *text != '\0' ? text : "-");
}

static const struct table_column worker_columns[] = {
    {"WORKER", false, true},   {"STATE", false, false},    {"STANDING", false, false, true},
    {"LOAD", true, false},     {"OTHERS", true, false},    {"CAPACITY", true, false},
    {"WEIGHT", true, false},   {"CLASS", false, true},     {"RANKS", true, false},
    {"BINDINGS", true, false}, {"SERVED", true, false},    {"REFUSED", true, false},
    {"FAILED", true, false},   {"HEARD AGO", true, false}, {"ADAPTERS", false, true}};

static void print_worker(struct table *t, const cJSON *w)
{
    static const char *const texts[] = {"id", "state", "standing"},
                             *const loads[] = {"occupancy", "others", "capacity", "weight"},
                             *const rest[] = {"ranks", "bindings", "served", "refused", "failed"};
    const cJSON *ms = cJSON_GetObjectItemCaseSensitive(w, "heard_ms_ago");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        table_text(t, admin_text(w, texts[i]));
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
        if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(w, loads[i])))
            table_print(t, "%.0f", admin_number(w, loads[i]));
        else
            table_text(t, "?"); /* others: no heartbeat has told of late */
    table_text(t, admin_text(w, "class"));
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        table_print(t, "%.0f", admin_number(w, rest[i]));
    if (cJSON_IsNumber(ms))
        table_print(t, "%.1f s", ms->valuedouble / 1000);
    else
        table_text(t, "never");
    print_adapters(t, cJSON_GetObjectItemCaseSensitive(w, "adapters"));
}

static const struct table_column adapter_columns[] = {
    {"ADAPTER", false, true}, {"HOLDERS", true, false},   {"ROUTABLE", true, false},
    {"FREE", true, false},    {"IN FLIGHT", true, false}, {"ARRIVALS", true, false},
    {"REQUESTS", true, false}};

static void print_adapter(struct table *t, const cJSON *adapter)
{
    static const char *const numbers[] = {"holders",   "routable", "free",
                                          "in_flight", "arrivals", "requests"};
    table_text(t, admin_text(adapter, "adapter"));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        table_print(t, "%.0f", admin_number(adapter, numbers[i]));
}

static void print_service(const char *router, const cJSON *service, bool with_adapters)
{
    const cJSON *one;
    struct table t;
    char head[512];
    snprintf(head, sizeof(head),
             "router %s, service %s (%s): %.0f discovered, %.0f routable, %.0f free", router,
             admin_text(service, "service"), admin_text(service, "policy"),
             admin_number(service, "discovered"), admin_number(service, "routable"),
             admin_number(service, "free"));
    screen_folded(2, head);
    screen_end();
    table_begin(&t, worker_columns, sizeof(worker_columns) / sizeof(worker_columns[0]));
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(service, "workers"))
        print_worker(&t, one);
    table_end(&t);
    table_begin(&t, adapter_columns, sizeof(adapter_columns) / sizeof(adapter_columns[0]));
    if (with_adapters)
        cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(service, "adapters"))
            print_adapter(&t, one);
    table_end(&t);
}

static void print_reply(const cJSON *reply, bool with_adapters)
{
    const cJSON *service;
    const char *router = admin_text(reply, "router");
    cJSON_ArrayForEach(service, cJSON_GetObjectItemCaseSensitive(reply, "services"))
        print_service(router, service, with_adapters);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "truncated")))
        printf("  and more than fit in one message; --service NAME asks for less\n");
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(reply, "error"));
    if (error != NULL)
        printf("router %s: %s\n", router, error);
}

static int run(const void *args_given, const struct words *rest)
{
    const struct workers_args *args = args_given;
    struct link link;
    struct admin_replies replies;
    char body[128] = "{\"service\":null}";
    (void)rest;
    if (args->service != NULL) {
        if (!name_is_id(span_str(args->service))) {
            fprintf(stderr, "waybill: --service: not a service's name\n");
            return EXIT_USAGE;
        }
        snprintf(body, sizeof(body), "{\"service\":\"%s\"}", args->service);
    }
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    code = admin_ask(&link, "show.workers", args->router, body, args->timeout_ms, ADMIN_REPLIES_MAX,
                     &replies);
    if (args->common.json)
        admin_print(&replies);
    else {
        for (unsigned i = 0; i < replies.count; i++)
            print_reply(replies.items[i], args->adapters);
        if (code == EXIT_NOTHING)
            fprintf(stderr, "waybill: no router answered\n");
    }
    admin_fini(&replies);
    link_close(&link);
    return code;
}

const struct command command_workers = {
    "workers",
    "[options]",
    "show each router's workers",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct workers_args),
    &defaults,
    0,
    0,
    run,
    .about = "LOAD is this router's attempts at work, OTHERS those of other routers by the "
             "worker's heartbeats.",
    .examples =
        "workers of one service, as each router sees them\twaybill workers --service chat\n"};
