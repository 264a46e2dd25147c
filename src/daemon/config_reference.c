/* The table of keys as a page of Markdown, a table per scope. */
#include "daemon/config.h"

static const struct part {
    enum config_scope scope;
    const char *title, *about;
} parts[] = {
    {SCOPE_TOP, "The router",
     "A key `a.b` stands in the file as `{\"a\": {\"b\": ...}}`. An environment variable goes "
     "before "
     "the file, a flag before both."},
    {SCOPE_SERVICE, "A service", "Each object of `services` has these."},
    {SCOPE_WORKER, "A static worker",
     "Each object of a service's `workers` has these. Workers that send heartbeats need no entry."},
};

/* "An integer ..." of what the loader expects, and all that is said of the key elsewhere. */
static void write_row(const struct config_key *key, FILE *out)
{
    char expected[512];

    config_key_expected(key, expected, sizeof expected);
    fprintf(out, "| `%s` | ", key->path);
    if (key->fallback)
        fprintf(out, "`%s`", key->fallback);
    else
        fputs(key->required ? "required" : "", out);
    fprintf(out, " | %s", key->help);
    if (key->env)
        fprintf(out, " (`%s`)", key->env);
    if (key->flag != OPTION_NONE)
        fprintf(out, " (`%s`)", args_option_name(key->flag));
    if (key->built == BUILT_NOT)
        fputs(". *Not built yet: a router with another value does not start*", out);
    else if (key->built == BUILT_INERT)
        fputs(". *Not built yet: has no effect*", out);
    fprintf(out, " | %s", expected);
    if (key->unit)
        fprintf(out, ", %s", key->unit);
    fputs(" |\n", out);
}

void config_reference(FILE *out)
{
    fputs("# Every key of the configuration\n\n"
          "Printed by `waybilld --help-config` from the table that the loader walks; a test holds "
          "this page to it. `waybilld --check -c FILE`\ntells all errors of a file at once, "
          "`waybilld --show-config -c FILE` every value in effect and where it came from.\n",
          out);
    for (unsigned part = 0; part < sizeof parts / sizeof parts[0]; part++) {
        fprintf(out,
                "\n## %s\n\n%s\n\n| key | default | what it is | expected |\n|---|---|---|---|\n",
                parts[part].title, parts[part].about);
        for (unsigned i = 0; i < config_key_count; i++)
            if (config_keys[i].scope == parts[part].scope)
                write_row(&config_keys[i], out);
    }
}
