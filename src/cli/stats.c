/* waybill stats: all counts of each router. */
#include <stdio.h>

#include "cli/admin.h"

struct stats_args {
    struct common common;
    const char *router;
    int64_t timeout_ms;
    bool all;
};
static const struct stats_args defaults = {.timeout_ms = 2000};

#define ARG(field) offsetof(struct stats_args, field)
static const struct option options[] = {
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "only this router", 0, 0, OPTION_ROUTERS},
    {"all", 'a', OPTION_FLAG, ARG(all), NULL, "also counts that are zero", 0, 0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for routers (2000)", 1,
     86400000},
};

static void print_reply(const cJSON *reply, bool all)
{
    const cJSON *count;
    printf("router %s\n", admin_text(reply, "router"));
    cJSON_ArrayForEach(count, cJSON_GetObjectItemCaseSensitive(reply, "counts"))
    {
        if (cJSON_IsNumber(count) && (all || count->valuedouble != 0))
            printf("  %-36s %15.0f\n", count->string, count->valuedouble);
    }
}

static int run(const void *args_given, const struct words *rest)
{
    const struct stats_args *args = args_given;
    struct link link;
    struct admin_replies replies;
    (void)rest;
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    code = admin_ask(&link, "show.stats", args->router, "{}", args->timeout_ms, ADMIN_REPLIES_MAX,
                     &replies);
    if (args->common.json)
        admin_print(&replies);
    else {
        for (unsigned i = 0; i < replies.count; i++)
            print_reply(replies.items[i], args->all);
        if (code == EXIT_NOTHING)
            fprintf(stderr, "waybill: no router answered\n");
    }
    admin_fini(&replies);
    link_close(&link);
    return code;
}

const struct command command_stats = {"stats",
                                      "[options]",
                                      "show each router's counts",
                                      options,
                                      sizeof(options) / sizeof(options[0]),
                                      sizeof(struct stats_args),
                                      &defaults,
                                      0,
                                      0,
                                      run,
                                      .examples = "all that is not zero\twaybill stats\n"};
