/* waybilld.8 and the shells' completions, from the tables of options and of configuration keys. */
#include <stdlib.h>
#include <string.h>

#include "base/roff.h"
#include "daemon/args.h"
#include "daemon/config.h"
#include "waybill/version.h"

static void man_option(const struct option_row *row, FILE *out)
{
    roff_option(out, row->letter, row->name, row->argument, row->help);
    fputc('\n', out);
}

/* The keys as --help tells them, line by line. */
static void man_keys(FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *help = open_memstream(&text, &size);

    if (!help)
        return;
    config_table_help(help);
    if (fclose(help) != 0 || !text) {
        free(text);
        return;
    }
    fputs(".SH CONFIGURATION\nThe file is JSON; // and /* */ comments are allowed. Its keys, with "
          "what "
          "each is without the file:\n",
          out);
    for (char *save, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        bool key = strncmp(line, "      ", 6) != 0;

        line += strspn(line, " ");
        fputs(key ? ".TP\n\\fB" : "", out);
        roff_text(out, line);
        fputs(key ? "\\fR\n" : "\n.br\n", out);
    }
    free(text);
}

static void man(FILE *out)
{
    fprintf(out, ".TH waybilld 8 \"\" \"Waybill %s\" \"Waybill\"\n", WB_VERSION);
    fputs(
        ".SH NAME\nwaybilld \\- request router for NATS\n.SH SYNOPSIS\n"
        "\\fBwaybilld\\fR \\fB\\-c\\fR \\fIFILE\\fR [options]\n.br\n"
        "\\fBwaybilld\\fR \\fB\\-\\-service\\fR \\fINAME\\fR \\fB\\-\\-subject\\fR \\fISUBJECT\\fR "
        "[options]\n.SH DESCRIPTION\n"
        "Takes requests from the subjects of its services, sends each to one worker, relays the "
        "answers, and records in a JetStream key\\-value bucket who served it. Any number may "
        "serve the same services.\n.PP\n"
        "SIGTERM and SIGINT drain it: what is in flight is finished within router.drain_ms; a "
        "second one stops it at once.\n.SH OPTIONS\n",
        out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++)
        man_option(&args_rows[i], out);
    man_keys(out);
    fputs(".SH EXIT STATUS\n.TP\n.B 0\nfine\n.TP\n.B 1\nbad configuration or usage\n.TP\n.B 2\n"
          "could not start; the line on stderr says why\n.SH ENVIRONMENT\n"
          "NATS_URL, NATS_CREDS, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_NKEY, NATS_CERT, "
          "NATS_KEY, NATS_CA and NATS_CONTEXT mean what they mean to the nats tool.\n"
          ".SH SEE ALSO\n.BR waybill (1)\n",
          out);
}

static bool takes_file(const struct option_row *row)
{
    return row->argument && strcmp(row->argument, "FILE") == 0;
}

static void bash(FILE *out)
{
    fputs("# bash completion of waybilld, printed by `waybilld --generate bash`\n"
          "_waybilld() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=''\n"
          "    ((COMP_CWORD > 0)) && previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    if [[ $current == = ]]; then\n        current=''\n"
          "    elif [[ $previous == = ]]; then\n        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n    COMPREPLY=()\n    case \"$previous\" in\n",
          out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++) {
        const struct option_row *row = &args_rows[i];

        if (!row->argument || *row->argument == '[')
            continue;
        fprintf(out, "    --%s", row->name);
        if (row->letter)
            fprintf(out, " | -%c", row->letter);
        if (row->words)
            fprintf(out, ") mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$current\"); return ;;\n",
                    row->words);
        else if (takes_file(row))
            fputs(") compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "
                  "\"$current\"); return ;;\n",
                  out);
        else
            fputs(") return ;;\n", out);
    }
    fputs("    esac\n    mapfile -t COMPREPLY < <(compgen -W '", out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++)
        fprintf(out, "--%s ", args_rows[i].name);
    fputs("' -- \"$current\")\n}\ncomplete -F _waybilld waybilld\n", out);
}

/* In single quotes; a quote ends them and is written for itself. */
static void put_quoted(FILE *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (strchr(special, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void zsh(FILE *out)
{
    fputs("#compdef waybilld\n# zsh completion of waybilld, printed by `waybilld --generate zsh`\n"
          "_waybilld() {\n    _arguments -s \\\n",
          out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++) {
        const struct option_row *row = &args_rows[i];

        if (row->letter)
            fprintf(out, "        '(-%c --%s)'{-%c,--%s}'[", row->letter, row->name, row->letter,
                    row->name);
        else
            fprintf(out, "        '%s--%s[", strcmp(row->name, "subject") == 0 ? "*" : "",
                    row->name);
        put_quoted(out, row->help, "[]:\\");
        fputs("]", out);
        if (row->argument && *row->argument != '[') {
            fputs(":", out);
            put_quoted(out, row->argument, ":\\");
            fprintf(out, row->words ? ":(%s)" : ":%s",
                    row->words        ? row->words
                    : takes_file(row) ? "_files"
                                      : "");
        }
        fputs("' \\\n", out);
    }
    fputs(
        "        && return 0\n}\nif [ \"$funcstack[1]\" = _waybilld ]; then\n    _waybilld \"$@\"\n"
        "else\n    compdef _waybilld waybilld\nfi\n",
        out);
}

static void fish(FILE *out)
{
    fputs("# fish completion of waybilld, printed by `waybilld --generate fish`\n"
          "complete -c waybilld -f\n",
          out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++) {
        const struct option_row *row = &args_rows[i];

        fprintf(out, "complete -c waybilld -l %s", row->name);
        if (row->letter)
            fprintf(out, " -s %c", row->letter);
        if (row->words)
            fprintf(out, " -x -a '%s'", row->words);
        else if (row->argument && *row->argument != '[')
            fputs(takes_file(row) ? " -r -F" : " -x", out);
        fputs(" -d '", out);
        put_quoted(out, row->help, "");
        fputs("'\n", out);
    }
}

bool args_generate(const char *what, FILE *out)
{
    static const struct {
        const char *name;
        void (*put)(FILE *out);
    } kinds[] = {{"man", man}, {"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(what, kinds[i].name) == 0) {
            kinds[i].put(out);
            return true;
        }
    }
    return false;
}
