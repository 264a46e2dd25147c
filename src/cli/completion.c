/* waybill completion: what bash, zsh or fish need to complete its command lines, made of the tables
 * that the parser walks. Names of services, workers and routers are asked of the routers when the
 * user presses the key, for half a second at most. */
#include <stdio.h>
#include <string.h>

#include "cli/admin.h"
#include "cli/shells.h"

#define NAMES_MS 500
#define NAMES_MAX 4096

struct completion_args {
    struct common common;
    const char *names;
};
static const struct completion_args defaults = {0};

#define ARG(field) offsetof(struct completion_args, field)
static const struct option options[] = {
    {"names", 0, OPTION_TEXT, ARG(names), "WHAT",
     "instead: the names that there are, for the shell's functions", 0, 0,
     "services workers routers"},
};

struct names {
    const char *items[NAMES_MAX]; /* in the replies */
    unsigned count;
};

static void note(struct names *n, const char *name)
{
    for (unsigned i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0)
            return;
    if (n->count < NAMES_MAX) {
        n->items[n->count++] = name;
        printf("%s\n", name);
    }
}

static void note_reply(struct names *n, const cJSON *reply, const char *what)
{
    const cJSON *service, *worker;
    if (strcmp(what, "routers") == 0) {
        note(n, admin_text(reply, "router"));
        return;
    }
    cJSON_ArrayForEach(service, cJSON_GetObjectItemCaseSensitive(reply, "services"))
    {
        if (strcmp(what, "services") == 0)
            note(n, admin_text(service, "service"));
        else
            cJSON_ArrayForEach(worker, cJSON_GetObjectItemCaseSensitive(service, "workers"))
                note(n, admin_text(worker, "id"));
    }
}

static int print_names(const struct completion_args *args)
{
    struct link link;
    struct admin_replies replies;
    struct names n = {.count = 0};
    int code = link_open(&args->common, &link);
    if (code != EXIT_FINE)
        return code;
    code = admin_ask(&link, "show.workers", NULL, "{}", NAMES_MS, ADMIN_REPLIES_MAX, &replies);
    for (unsigned i = 0; i < replies.count; i++)
        note_reply(&n, replies.items[i], args->names);
    admin_fini(&replies);
    link_close(&link);
    return code;
}

static int run(const void *args_given, const struct words *rest)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", shells_bash}, {"zsh", shells_zsh}, {"fish", shells_fish}};
    const struct completion_args *args = args_given;
    if (args->names != NULL)
        return print_names(args);
    for (size_t i = 0; rest->count == 1 && i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(rest->items[0], shells[i].name) == 0) {
            shells[i].print();
            return EXIT_FINE;
        }
    fprintf(stderr, "waybill: completion needs bash, zsh or fish\n");
    return EXIT_USAGE;
}

const struct command command_completion = {
    "completion",
    "bash | zsh | fish",
    "print a shell's completion of these commands",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct completion_args),
    &defaults,
    0,
    1,
    run,
    .about = "What is printed is to be sourced by the shell. An installed waybill has put it where "
             "the shell finds it.",
    .first_word = "bash zsh fish",
    .examples = "in bash, for now\tsource <(waybill completion bash)\n"};
