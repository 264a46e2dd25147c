/* waybill cancel: ends a request in flight. As its client with --reply (its reply subject proves
 * it), else as an operator. */
#include <stdio.h>

#include "cli/admin.h"
#include "waybill/client.h"
#include "wire/name.h"

struct cancel_args {
    struct common common;
    const char *service, *reply;
    int64_t timeout_ms;
};
static const struct cancel_args defaults = {.timeout_ms = 2000};

#define ARG(field) offsetof(struct cancel_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME", "the request's service; required", 0, 0,
     OPTION_SERVICES},
    {"reply", 0, OPTION_TEXT, ARG(reply), "SUBJECT", "its reply subject: cancel as the client", 0,
     0},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for routers (2000)", 1,
     86400000},
};

static bool is_cancelled(const struct admin_replies *replies)
{
    for (unsigned i = 0; i < replies->count; i++)
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(replies->items[i], "cancelled")))
            return true;
    return false;
}

static int cancel(const struct cancel_args *args, struct link *link, const char *id)
{
    char body[320];
    struct admin_replies replies = {.count = 0};
    bool done;
    if (args->reply != NULL) {
        wb_status s =
            wb_cancel(link->nc, link->prefix, args->service, id, args->reply, args->timeout_ms);
        if (s != WB_OK && s != WB_NOT_FOUND)
            return exit_of(s, id);
        done = s == WB_OK;
    } else {
        snprintf(body, sizeof(body), "{\"service\":\"%s\",\"request_id\":\"%s\"}", args->service,
                 id);
        int code = admin_ask(link, "do.cancel", NULL, body, args->timeout_ms, 1, &replies);
        if (code != EXIT_FINE && code != EXIT_NOTHING)
            return code;
        done = is_cancelled(&replies);
    }
    if (args->common.json)
        printf("{\"service\":\"%s\",\"request_id\":\"%s\",\"cancelled\":%s}\n", args->service, id,
               done ? "true" : "false");
    else if (done)
        printf("%s is cancelled\n", id);
    else
        fprintf(stderr, "waybill: no router has a request %s of %s in flight\n", id, args->service);
    admin_fini(&replies);
    return done ? EXIT_FINE : EXIT_NOTHING;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct cancel_args *args = args_given;
    struct link link;
    if (args->service == NULL || !name_is_id(span_str(args->service)) ||
        !name_is_request_id(span_str(rest->items[0]))) {
        fprintf(stderr, "waybill: cancel needs a request id and --service\n");
        return EXIT_USAGE;
    }
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    code = cancel(args, &link, rest->items[0]);
    link_close(&link);
    return code;
}

const struct command command_cancel = {"cancel",
                                       "REQUEST-ID --service NAME [options]",
                                       "cancel a request in flight",
                                       options,
                                       sizeof(options) / sizeof(options[0]),
                                       sizeof(struct cancel_args),
                                       &defaults,
                                       1,
                                       1,
                                       run,
                                       .about = "As an operator, or with --reply as the client "
                                                "that sent it: its reply subject proves that.",
                                       .examples =
                                           "end a request\twaybill cancel r-1 --service chat\n"};
