/* waybill: the tool for clients, workers and operators. A table of commands; each has its file. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/screen.h"
#include "waybill/version.h"

static void usage(FILE *out)
{
    fprintf(out, "usage: waybill COMMAND [options]\n\n");
    for (unsigned i = 0; i < command_count; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(
        out,
        "\nwaybill help COMMAND tells a command's options, waybill man its manual page; waybill "
        "--version its version.\n\nExit codes:\n");
    for (unsigned i = 0; i < exit_row_count; i++)
        fprintf(out, "  %d  %s\n", exit_rows[i].code, exit_rows[i].meaning);
}

static int help(const struct command *command)
{
    const struct option_table own = {command->options, command->option_count};
    screen_add(STYLE_PLAIN, "usage: waybill %s ", command->name);
    screen_folded(7, command->words);
    screen_end();
    screen_end();
    screen_folded(0, command->summary);
    screen_add(STYLE_PLAIN, ".");
    screen_end();
    if (command->about != NULL) {
        screen_folded(0, command->about);
        screen_end();
    }
    screen_end();
    options_print(&own);
    screen_end();
    options_print(&common_options);
    screen_end();
    screen_add(STYLE_PLAIN, "Exit codes: ");
    for (unsigned i = 0; i < exit_row_count; i++) {
        char text[128];
        snprintf(text, sizeof(text), "%d %s%s", exit_rows[i].code, exit_rows[i].meaning,
                 i + 1 < exit_row_count ? "; " : ".");
        screen_folded(12, text);
    }
    screen_end();
    return EXIT_FINE;
}

static const struct command *find(const char *name)
{
    for (unsigned i = 0; i < command_count; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    fprintf(stderr, "waybill: no command \"%s\"; see waybill --help\n", name);
    return NULL;
}

static int run(const struct command *command, int argc, char **argv)
{
    const struct option_table own = {command->options, command->option_count};
    const struct option_table tables[] = {own, common_options};
    struct words rest;
    int code = EXIT_USAGE;
    void *args = malloc(command->args_size);
    if (args == NULL)
        return EXIT_USAGE;
    memcpy(args, command->defaults, command->args_size);
    if (options_read(tables, 2, argc, argv, args, &rest)) {
        const struct common *common = args;
        if (common->help)
            code = help(command);
        else if (rest.count < command->min_words || rest.count > command->max_words)
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
        const struct command *about = argc > 2 ? find(argv[2]) : NULL;
        if (argc > 2)
            return about != NULL ? help(about) : EXIT_USAGE;
        usage(stdout);
        return EXIT_FINE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("waybill %s\n", WB_VERSION);
        return EXIT_FINE;
    }
    const struct command *command = find(argv[1]);
    return command != NULL ? run(command, argc - 2, argv + 2) : EXIT_USAGE;
}
