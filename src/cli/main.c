/* waybill: the tool for clients, workers and operators. A table of commands; each has its file. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "waybill/version.h"

static const struct command *const commands[] = {
    &command_request, &command_worker,  &command_who,     &command_trace,
    &command_watch,   &command_explain, &command_workers, &command_sessions,
    &command_stats,   &command_doctor,  &command_cancel,  &command_bench,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define COMMON(field) offsetof(struct common, field)
static const struct option common_options[] = {
    {"server", 's', OPTION_TEXT, COMMON(server), "URL",
     "NATS server, or several with commas (NATS_URL)", 0, 0},
    {"context", 0, OPTION_TEXT, COMMON(context), "NAME",
     "settings of the nats CLI's context (NATS_CONTEXT)", 0, 0},
    {"creds", 0, OPTION_TEXT, COMMON(creds), "FILE", "credentials file (NATS_CREDS)", 0, 0},
    {"user", 0, OPTION_TEXT, COMMON(user), "NAME", "user (NATS_USER)", 0, 0},
    {"password", 0, OPTION_TEXT, COMMON(password), "TEXT", "password (NATS_PASSWORD)", 0, 0},
    {"token", 0, OPTION_TEXT, COMMON(token), "TEXT", "token (NATS_TOKEN)", 0, 0},
    {"nkey", 0, OPTION_TEXT, COMMON(nkey), "FILE", "file with an nkey's seed (NATS_NKEY)", 0, 0},
    {"tlscert", 0, OPTION_TEXT, COMMON(cert), "FILE", "client certificate (NATS_CERT)", 0, 0},
    {"tlskey", 0, OPTION_TEXT, COMMON(key), "FILE", "its key (NATS_KEY)", 0, 0},
    {"tlsca", 0, OPTION_TEXT, COMMON(ca), "FILE", "certificate authorities (NATS_CA)", 0, 0},
    {"prefix", 0, OPTION_TEXT, COMMON(prefix), "TEXT", "first part of Waybill's subjects (waybill)",
     0, 0},
    {"json", 'j', OPTION_FLAG, COMMON(json), NULL, "answer in JSON", 0, 0},
    {"help", 'h', OPTION_FLAG, COMMON(help), NULL, "this text", 0, 0},
};
static const struct option_table common_table = {common_options, sizeof(common_options) /
                                                                     sizeof(common_options[0])};

static void usage(FILE *out)
{
    fprintf(out, "usage: waybill COMMAND [options]\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out,
            "\nwaybill COMMAND --help tells a command's options; waybill --version its version.\n"
            "Exit codes: 0 fine, 1 usage, 2 cannot connect or not permitted, 3 nothing found or no "
            "answer, 4 an\nerror was answered, 5 a check of doctor failed.\n");
}

static int run(const struct command *command, int argc, char **argv)
{
    const struct option_table own = {command->options, command->option_count};
    const struct option_table tables[] = {own, common_table};
    struct words rest;
    int code = EXIT_USAGE;
    void *args = malloc(command->args_size);
    if (args == NULL)
        return EXIT_USAGE;
    memcpy(args, command->defaults, command->args_size);
    if (options_read(tables, 2, argc, argv, args, &rest)) {
        const struct common *common = args;
        if (common->help) {
            printf("usage: waybill %s %s\n\n%s\n\n", command->name, command->words,
                   command->summary);
            options_print(&own);
            printf("\n");
            options_print(&common_table);
            code = EXIT_FINE;
        } else if (rest.count < command->min_words || rest.count > command->max_words)
            fprintf(stderr, "usage: waybill %s %s\n", command->name, command->words);
        else
            code = command->run(args, &rest);
    }
    free(args);
    return code;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return EXIT_FINE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("waybill %s\n", WB_VERSION);
        return EXIT_FINE;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return run(commands[i], argc - 2, argv + 2);
    fprintf(stderr, "waybill: no command \"%s\"; see waybill --help\n", argv[1]);
    return EXIT_USAGE;
}
