/* waybill man: manual pages, made of the tables that the parser walks: waybill.1 and one page for
 * each command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/roff.h"
#include "cli/commands.h"
#include "waybill/version.h"

struct man_args {
    struct common common;
    const char *dir;
};
static const struct man_args defaults = {0};

#define ARG(field) offsetof(struct man_args, field)
static const struct option options[] = {
    {"dir", 0, OPTION_TEXT, ARG(dir), "DIR", "write all pages into this directory", 0, 0},
};

static void put_option(FILE *out, const struct option *o)
{
    roff_option(out, o->letter, o->name, o->value, o->help);
    if (o->env != NULL)
        fprintf(out, " (%s)", o->env);
    if (o->choices != NULL && *o->choices != '@') {
        fputs("; one of: ", out);
        roff_text(out, o->choices);
    }
    fputc('\n', out);
}

static void put_options(FILE *out, const char *title, const struct option_table *table)
{
    if (table->count > 0)
        fprintf(out, ".SH %s\n", title);
    for (unsigned i = 0; i < table->count; i++)
        put_option(out, &table->options[i]);
}

static void put_environment(FILE *out)
{
    fputs(".SH ENVIRONMENT\n", out);
    for (unsigned i = 0; i < common_options.count; i++) {
        const struct option *o = &common_options.options[i];
        if (o->env != NULL)
            fprintf(out, ".TP\n.B %s\n\\-\\-%s, where it is not given\n", o->env, o->name);
    }
    fputs(".TP\n.B NO_COLOR\nif it is set, nothing is coloured\n", out);
}

static void put_exits(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    for (unsigned i = 0; i < exit_row_count; i++) {
        fprintf(out, ".TP\n.B %d\n", exit_rows[i].code);
        roff_text(out, exit_rows[i].meaning);
        fputc('\n', out);
    }
}

static void put_examples(FILE *out, const char *lines)
{
    fputs(".SH EXAMPLES\n", out);
    while (*lines != '\0') {
        char what[256], how[256];
        size_t len = strcspn(lines, "\t"), rest;
        snprintf(what, sizeof(what), "%.*s:", (int)len, lines);
        lines += len + 1;
        rest = strcspn(lines, "\n");
        snprintf(how, sizeof(how), "%.*s", (int)rest, lines);
        lines += rest + 1;
        fputs(".PP\n", out);
        roff_text(out, what);
        fputs("\n.PP\n.nf\n.RS\n", out);
        roff_text(out, how);
        fputs("\n.RE\n.fi\n", out);
    }
}

static void put_head(FILE *out, const char *name, const char *summary)
{
    fputs(".TH \"", out);
    roff_text(out, name);
    fprintf(out, "\" 1 \"\" \"Waybill %s\" \"Waybill\"\n.SH NAME\n", WB_VERSION);
    roff_text(out, name);
    fputs(" \\- ", out);
    roff_text(out, summary);
    fputs("\n.SH SYNOPSIS\n", out);
}

static void put_page(FILE *out, const struct command *c)
{
    const struct option_table own = {c->options, c->option_count};
    char name[64];
    snprintf(name, sizeof(name), "waybill-%s", c->name);
    put_head(out, name, c->summary);
    fprintf(out, "\\fBwaybill %s\\fR ", c->name);
    roff_text(out, c->words);
    fputs("\n.SH DESCRIPTION\n", out);
    roff_text(out, c->about != NULL ? c->about : c->summary);
    fputc('\n', out);
    put_options(out, "OPTIONS", &own);
    put_options(out, "COMMON OPTIONS", &common_options);
    put_exits(out);
    put_environment(out);
    if (c->examples != NULL)
        put_examples(out, c->examples);
    fputs(".SH SEE ALSO\n.BR waybill (1),\n.BR waybilld (8)\n", out);
}

static void put_main_page(FILE *out)
{
    put_head(out, "waybill", "the tool for clients, workers and operators of Waybill");
    fputs("\\fBwaybill\\fR \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n"
          "Waybill is a request router for NATS. Its router is\n.BR waybilld (8);\n"
          "this tool sends requests, serves them, and tells what became of them.\n"
          ".SH COMMANDS\n",
          out);
    for (unsigned i = 0; i < command_count; i++) {
        fprintf(out, ".TP\n.BR waybill\\-%s (1)\n", commands[i]->name);
        roff_text(out, commands[i]->summary);
        fputc('\n', out);
    }
    put_options(out, "COMMON OPTIONS", &common_options);
    put_exits(out);
    put_environment(out);
    fputs(".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/nats/context/NAME.json\n"
          "a context of the nats tool: server, credentials, inbox prefix\n"
          ".SH SEE ALSO\n.BR waybilld (8)\n",
          out);
}

static const struct command *page_of(const char *name)
{
    if (strncmp(name, "waybill-", 8) == 0)
        name += 8;
    for (unsigned i = 0; i < command_count; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static bool write_page(const char *dir, const struct command *c)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/waybill%s%s.1", dir, c != NULL ? "-" : "",
             c != NULL ? c->name : "");
    FILE *out = fopen(path, "w");
    if (out != NULL && c != NULL)
        put_page(out, c);
    else if (out != NULL)
        put_main_page(out);
    if (out != NULL && fclose(out) == 0)
        return true;
    fprintf(stderr, "waybill: --dir: cannot write %s\n", path);
    return false;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct man_args *args = args_given;
    const char *name = rest->count == 1 ? rest->items[0] : "waybill";
    bool fine = true;
    if (args->dir != NULL) {
        fine = write_page(args->dir, NULL);
        for (unsigned i = 0; fine && i < command_count; i++)
            fine = write_page(args->dir, commands[i]);
        return fine ? EXIT_FINE : EXIT_USAGE;
    }
    const struct command *c = page_of(name);
    if (strcmp(name, "waybill") == 0)
        put_main_page(stdout);
    else if (c != NULL)
        put_page(stdout, c);
    else {
        fprintf(stderr, "waybill: no page of %s\n", name);
        return EXIT_NOTHING;
    }
    return EXIT_FINE;
}

const struct command command_man = {
    "man",
    "[COMMAND | --dir DIR]",
    "print a manual page",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct man_args),
    &defaults,
    0,
    1,
    run,
    .about = "It is written in roff: man -l reads it. An installed waybill has its pages where man "
             "finds them.",
    .examples = "read one\twaybill man doctor | man -l -\n"};
