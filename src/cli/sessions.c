/* waybill sessions: which worker each session belongs to, as each router knows it; and how to take
 * a session from its worker. */
#include <stdio.h>
#include <string.h>

#include "cli/admin.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "waybill/types.h"
#include "wire/json.h"
#include "wire/name.h"

struct sessions_args {
    struct common common;
    const char *service, *router;
    int64_t timeout_ms;
};
static const struct sessions_args defaults = {.timeout_ms = 2000};

#define ARG(field) offsetof(struct sessions_args, field)
static const struct option options[] = {
    {"service", 0, OPTION_TEXT, ARG(service), "NAME",
     "the session's service; list: only this service", 0, 0, OPTION_SERVICES},
    {"router", 0, OPTION_TEXT, ARG(router), "ID", "ask only this router", 0, 0, OPTION_ROUTERS},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "how long to wait for routers (2000)", 1,
     86400000},
};

#define BODY_MAX 2048 /* a service and a session, each byte escaped */

/* {"service":…,"session":…}; what is NULL is null. Session names may hold quotes and backslashes.
 */
static bool write_body(const char *service, const char *session, char body[BODY_MAX])
{
    struct buf out;
    struct json j;
    buf_init(&out, BODY_MAX - 1);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_text_or_null(&j, "service", span_str(service != NULL ? service : ""));
    json_text_or_null(&j, "session", span_str(session != NULL ? session : ""));
    json_end_object(&j);
    bool fine = json_status(&j) == WB_OK;
    struct span all = buf_span(&out);
    memcpy(body, all.ptr, all.len);
    body[all.len] = '\0';
    buf_fini(&out);
    if (!fine)
        fprintf(stderr, "waybill: no memory\n");
    return fine;
}

static const cJSON *sessions_of(const cJSON *reply)
{
    return cJSON_GetObjectItemCaseSensitive(reply, "sessions");
}

/* Says what a router answered instead of doing what it was asked. True: it did so. */
static bool print_error(const cJSON *reply)
{
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(reply, "error"));
    if (error != NULL)
        fprintf(stderr, "waybill: router %s: %s\n", admin_text(reply, "router"), error);
    return error != NULL;
}

static const struct table_column columns[] = {
    {"SESSION", false, true}, {"SERVICE", false, true}, {"STATE", false, false, true},
    {"WORKER", false, true},  {"RANK", true, false},    {"USERS", true, false},
    {"WAITING", true, false}, {"IDLE", true, false}};
static const struct table_column columns_of_one[] = {
    {"ROUTER", false, true}, {"STATE", false, false, true}, {"WORKER", false, true},
    {"RANK", true, false},   {"USERS", true, false},        {"WAITING", true, false},
    {"IDLE", true, false},   {"REVISION", true, false}};

static void number_or_dash(struct table *t, const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (cJSON_IsNumber(item))
        table_print(t, "%.0f", item->valuedouble);
    else
        table_text(t, "-");
}

/* State to idle: what both tables have. */
static void print_session(struct table *t, const cJSON *s)
{
    const cJSON *idle = cJSON_GetObjectItemCaseSensitive(s, "idle_ms");
    table_text(t, admin_text(s, "state"));
    table_text(t, admin_text(s, "worker"));
    number_or_dash(t, s, "rank");
    number_or_dash(t, s, "users");
    number_or_dash(t, s, "waiters");
    if (cJSON_IsNumber(idle))
        table_print(t, "%.1f s", idle->valuedouble / 1000);
    else
        table_text(t, "-");
}

static void print_list(const cJSON *reply)
{
    char head[512];
    const cJSON *s;
    struct table t;
    bool shared = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "shared"));
    if (print_error(reply))
        return;
    snprintf(head, sizeof(head), "router %s: holds %.0f sessions, %s", admin_text(reply, "router"),
             admin_number(reply, "held"),
             shared ? "shared with other routers" : "shared with nobody");
    screen_folded(2, head);
    screen_end();
    table_begin(&t, columns, sizeof(columns) / sizeof(columns[0]));
    cJSON_ArrayForEach(s, sessions_of(reply))
    {
        table_text(&t, admin_text(s, "session"));
        table_text(&t, admin_text(s, "service"));
        print_session(&t, s);
    }
    table_end(&t);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "truncated")))
        printf("  and more than fit in one message; show SESSION finds each\n");
}

/* EXIT_FINE, or, if every router answered with an error, EXIT_ERROR_ANSWER. */
static int code_of(const struct admin_replies *replies)
{
    for (unsigned i = 0; i < replies->count; i++)
        if (!cJSON_HasObjectItem(replies->items[i], "error"))
            return EXIT_FINE;
    return EXIT_ERROR_ANSWER;
}

static int list(const struct sessions_args *args, const struct admin_replies *replies)
{
    if (!args->common.json)
        for (unsigned i = 0; i < replies->count; i++)
            print_list(replies->items[i]);
    return code_of(replies);
}

/* The reply's one session; NULL: that router has none of this name. */
static const cJSON *one_of(const cJSON *reply)
{
    return cJSON_GetArrayItem(sessions_of(reply), 0);
}

static void print_one(const struct admin_replies *replies)
{
    struct table t;
    table_begin(&t, columns_of_one, sizeof(columns_of_one) / sizeof(columns_of_one[0]));
    for (unsigned i = 0; i < replies->count; i++) {
        const cJSON *s = one_of(replies->items[i]);
        if (print_error(replies->items[i]) || s == NULL)
            continue;
        table_text(&t, admin_text(replies->items[i], "router"));
        print_session(&t, s);
        number_or_dash(&t, s, "revision");
    }
    table_end(&t);
}

static int show(const struct sessions_args *args, const char *session,
                const struct admin_replies *replies)
{
    bool found = false;
    for (unsigned i = 0; i < replies->count; i++)
        found = found || one_of(replies->items[i]) != NULL;
    int code = found ? EXIT_FINE : code_of(replies) == EXIT_FINE ? EXIT_NOTHING : EXIT_ERROR_ANSWER;
    if (args->common.json)
        return code;
    if (found)
        printf("session %s of %s\n", session, args->service);
    else if (code == EXIT_NOTHING)
        fprintf(stderr, "waybill: no router has a session %s of %s\n", session, args->service);
    print_one(replies);
    return code;
}

static int unbind(const struct sessions_args *args, const char *session,
                  const struct admin_replies *replies)
{
    bool done = false;
    for (unsigned i = 0; i < replies->count; i++) {
        const cJSON *reply = replies->items[i];
        bool unbound = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "unbound"));
        done = done || unbound;
        if (!args->common.json && !print_error(reply))
            printf("router %s: %s\n", admin_text(reply, "router"),
                   unbound ? "unbound" : "was not bound, as far as it knew");
    }
    if (!done && !args->common.json && code_of(replies) == EXIT_FINE)
        fprintf(stderr,
                "waybill: no router knew a binding of %s; if the bucket holds one, it goes too\n",
                session);
    return done ? EXIT_FINE : code_of(replies) == EXIT_FINE ? EXIT_NOTHING : EXIT_ERROR_ANSWER;
}

enum verb { LIST, SHOW, UNBIND, NO_VERB };

static enum verb verb_of(const struct words *rest)
{
    static const char *const names[] = {"list", "show", "unbind"};
    if (rest->count == 0)
        return LIST;
    for (int v = LIST; v < NO_VERB; v++)
        if (strcmp(rest->items[0], names[v]) == 0 && rest->count == (v == LIST ? 1 : 2))
            return (enum verb)v;
    return NO_VERB;
}

/* True: what was given makes sense; else it has said why not. */
static bool check(const struct sessions_args *args, enum verb verb, const char *session)
{
    const char *wrong = NULL;
    if (verb == NO_VERB)
        wrong = "expected list, show SESSION or unbind SESSION";
    else if (verb != LIST && args->service == NULL)
        wrong = "a session needs --service";
    else if (args->service != NULL && !name_is_id(span_str(args->service)))
        wrong = "--service: not a service's name";
    else if (session != NULL && !name_is_long(span_str(session)))
        wrong = "a session's name is 1 to 256 printable ASCII characters without spaces";
    if (wrong != NULL)
        fprintf(stderr, "waybill: %s\n", wrong);
    return wrong == NULL;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct sessions_args *args = args_given;
    enum verb verb = verb_of(rest);
    const char *session = verb == SHOW || verb == UNBIND ? rest->items[1] : NULL;
    struct link link;
    struct admin_replies replies;
    char body[BODY_MAX];
    if (!check(args, verb, session) || !write_body(args->service, session, body))
        return EXIT_USAGE;
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    code = admin_ask(&link, verb == UNBIND ? "do.unbind" : "show.sessions", args->router, body,
                     args->timeout_ms, ADMIN_REPLIES_MAX, &replies);
    if (args->common.json && code != EXIT_USAGE && code != EXIT_NO_LINK)
        admin_print(&replies);
    if (code == EXIT_NOTHING && !args->common.json)
        fprintf(stderr, "waybill: no router answered\n");
    if (code == EXIT_FINE)
        code = verb == LIST     ? list(args, &replies)
               : verb == UNBIND ? unbind(args, session, &replies)
                                : show(args, session, &replies);
    admin_fini(&replies);
    link_close(&link);
    return code;
}

const struct command command_sessions = {
    "sessions",
    "[list | show SESSION --service NAME | unbind SESSION --service NAME] [options]",
    "show which worker a session belongs to; unbind one",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct sessions_args),
    &defaults,
    0,
    2,
    run,
    .about = "unbind takes a session from its worker: requests under way end where they are, the "
             "next one chooses. After -- a name may begin with dashes.",
    .first_word = "list show unbind",
    .examples = "find a session\twaybill sessions show s-9 --service chat\n"};
