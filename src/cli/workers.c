/* waybill workers: what each router knows and sees of its workers. */
#include <stdio.h>

#include "cli/admin.h"
#include "wire/json.h"
#include "wire/name.h"

struct workers_args {
    struct common common;
    const char *service, *router;
    int64_t timeout_ms;
};
static const struct workers_args defaults = {.timeout_ms = 2000};

#define ARG(field) offsetof(struct workers_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "only this service", 0, 0},
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "only this router's view", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for routers (2000)", 1,
     86400000},
};

static void print_worker(const cJSON *w)
{
    char heard[32] = "never", others[16] = "?";
    const cJSON *ms = cJSON_GetObjectItemCaseSensitive(w, "heard_ms_ago");
    if (cJSON_IsNumber(ms))
        snprintf(heard, sizeof(heard), "%.1f s ago", ms->valuedouble / 1000);
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(w, "others")))
        snprintf(others, sizeof(others), "%.0f", admin_number(w, "others"));
    printf("  %-20s %-10s %-12s %5.0f+%-5s %8.0f %6.0f %-8s %9.0f %8.0f %7.0f  %s\n",
           admin_text(w, "id"), admin_text(w, "state"), admin_text(w, "standing"),
           admin_number(w, "occupancy"), others, admin_number(w, "capacity"),
           admin_number(w, "weight"), admin_text(w, "class"), admin_number(w, "served"),
           admin_number(w, "refused"), admin_number(w, "failed"), heard);
}

static void print_reply(const cJSON *reply)
{
    const cJSON *service, *worker;
    cJSON_ArrayForEach(service, cJSON_GetObjectItemCaseSensitive(reply, "services"))
    {
        printf("router %s, service %s (%s): %.0f discovered, %.0f routable, %.0f free\n",
               admin_text(reply, "router"), admin_text(service, "service"),
               admin_text(service, "policy"), admin_number(service, "discovered"),
               admin_number(service, "routable"), admin_number(service, "free"));
        const cJSON *workers = cJSON_GetObjectItemCaseSensitive(service, "workers");
        if (cJSON_GetArraySize(workers) > 0)
            printf("  %-20s %-10s %-12s %11s %8s %6s %-8s %9s %8s %7s  %s\n", "WORKER", "STATE",
                   "STANDING", "LOAD+OTHERS", "CAPACITY", "WEIGHT", "CLASS", "SERVED", "REFUSED",
                   "FAILED", "HEARD");
        cJSON_ArrayForEach(worker, workers) print_worker(worker);
    }
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(reply, "error"));
    if (error != NULL)
        printf("router %s: %s\n", admin_text(reply, "router"), error);
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
            print_reply(replies.items[i]);
        if (code == EXIT_NOTHING)
            fprintf(stderr, "waybill: no router answered\n");
    }
    admin_fini(&replies);
    link_close(&link);
    return code;
}

const struct command command_workers = {"workers",
                                        "[options]",
                                        "show each router's workers",
                                        options,
                                        sizeof(options) / sizeof(options[0]),
                                        sizeof(struct workers_args),
                                        &defaults,
                                        0,
                                        0,
                                        run};
