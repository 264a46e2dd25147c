/* Each shell gets its own text from the same tables: commands, the options of each, what a value
 * may be (a word of a few, a name that routers know, a file, or anything). */
#include "cli/shells.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

/* Calls fn for each option, in the table's order. */
static void each(const struct option_table *table, void (*fn)(const struct option *o))
{
    for (unsigned i = 0; i < table->count; i++)
        fn(&table->options[i]);
}

static struct option_table options_of(const struct command *c)
{
    return (struct option_table){c->options, c->option_count};
}

static bool is_asked(const struct option *o)
{
    return o->choices != NULL && *o->choices == '@';
}

/* Text in single quotes, which end around a quote of its own; with what else a shell takes for
 * special behind a backslash. */
static void put_quoted(const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr(special, *text) != NULL)
            putchar('\\');
        putchar(*text);
    }
}

/* -- bash */

static void bash_value(const struct option *o)
{
    if (o->kind == OPTION_FLAG)
        return;
    printf("        --%s", o->name);
    if (o->letter != '\0')
        printf(" | -%c", o->letter);
    if (is_asked(o))
        printf(") _waybill_names %s; return ;;\n", o->choices + 1);
    else if (o->choices != NULL)
        printf(") _waybill_words '%s'; return ;;\n", o->choices);
    else if (option_is_file(o))
        printf(") _waybill_files; return ;;\n");
    else
        printf(") return ;;\n");
}

static void bash_name(const struct option *o)
{
    printf("--%s ", o->name);
}

static void bash_command(const struct command *c)
{
    const struct option_table own = options_of(c);
    printf("    %s)\n        case \"$previous\" in\n", c->name);
    each(&own, bash_value);
    printf("        esac\n        options='");
    each(&own, bash_name);
    printf("'\n        first='%s'\n        ;;\n", c->first_word != NULL ? c->first_word : "");
}

static const char bash_head[] =
    "# bash completion of waybill, printed by `waybill completion bash`\n"
    "\n"
    "_waybill_words() {\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
    "}\n"
    "\n"
    "_waybill_names() {\n"
    "    _waybill_words \"$(\"${COMP_WORDS[0]}\" completion --names \"$1\" 2>/dev/null)\"\n"
    "}\n"
    "\n"
    "_waybill_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
    "}\n"
    "\n"
    "_waybill() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous='' options='' first='' commands\n"
    "    ((COMP_CWORD > 0)) && previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    # --option=value comes as three words\n"
    "    if [[ $current == = ]]; then\n"
    "        current=''\n"
    "    elif [[ $previous == = ]]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";

void shells_bash(void)
{
    fputs(bash_head, stdout);
    printf("    commands='help");
    for (unsigned i = 0; i < command_count; i++)
        printf(" %s", commands[i]->name);
    printf("'\n"
           "    if ((COMP_CWORD < 2)); then\n"
           "        _waybill_words \"$commands --help --version\"\n"
           "        return\n"
           "    fi\n"
           "    case \"$previous\" in\n");
    each(&common_options, bash_value);
    printf("    esac\n    case \"${COMP_WORDS[1]}\" in\n    help) first=$commands ;;\n");
    for (unsigned i = 0; i < command_count; i++)
        bash_command(commands[i]);
    printf("    *) return ;;\n    esac\n"
           "    if [[ $current == -* ]]; then\n        _waybill_words \"$options ");
    each(&common_options, bash_name);
    printf("\"\n"
           "    elif ((COMP_CWORD == 2)) && [[ -n $first ]]; then\n"
           "        _waybill_words \"$first\"\n"
           "    fi\n"
           "}\n"
           "complete -F _waybill waybill\n");
}

/* -- zsh */

static void zsh_option(const struct option *o)
{
    printf("            ");
    if (o->letter != '\0' && o->kind != OPTION_LIST)
        printf("'(-%c --%s)'{-%c,--%s}'", o->letter, o->name, o->letter, o->name);
    else if (o->letter != '\0')
        printf("'*'{-%c,--%s}'", o->letter, o->name);
    else
        printf("'%s--%s", o->kind == OPTION_LIST ? "*" : "", o->name);
    printf("[");
    put_quoted(o->help, "[]:\\");
    printf("]");
    if (o->kind != OPTION_FLAG) {
        printf(":");
        put_quoted(o->value, ":\\");
        if (is_asked(o))
            printf(":_waybill_names %s", o->choices + 1);
        else if (o->choices != NULL)
            printf(":(%s)", o->choices);
        else
            printf(":%s", option_is_file(o) ? "_files" : "");
    }
    printf("' \\\n");
}

static void zsh_command(const struct command *c)
{
    const struct option_table own = options_of(c);
    printf("    %s)\n        _arguments -s \\\n", c->name);
    each(&own, zsh_option);
    if (c->first_word != NULL)
        printf("            '1:word:(%s)' \\\n", c->first_word);
    printf("            $common\n        ;;\n");
}

void shells_zsh(void)
{
    printf("#compdef waybill\n# zsh completion of waybill, printed by `waybill completion zsh`\n\n"
           "_waybill_names() {\n"
           "    local -a names\n"
           "    names=(${(f)\"$(waybill completion --names $1 2>/dev/null)\"})\n"
           "    compadd -a names\n"
           "}\n\n"
           "_waybill() {\n    local -a commands common\n    commands=(\n");
    for (unsigned i = 0; i < command_count; i++) {
        printf("        '%s:", commands[i]->name);
        put_quoted(commands[i]->summary, ":\\");
        printf("'\n");
    }
    printf("    )\n    common=( \\\n");
    each(&common_options, zsh_option);
    printf("    )\n"
           "    if ((CURRENT == 2)); then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    shift words\n"
           "    ((CURRENT--))\n"
           "    case $command in\n"
           "    help) _describe command commands ;;\n");
    for (unsigned i = 0; i < command_count; i++)
        zsh_command(commands[i]);
    printf("    esac\n}\n\n"
           "if [ \"$funcstack[1]\" = _waybill ]; then\n    _waybill \"$@\"\nelse\n"
           "    compdef _waybill waybill\nfi\n");
}

/* -- fish */

static void fish_option(const char *condition, const struct option *o)
{
    printf("complete -c waybill -n '%s' -l %s", condition, o->name);
    if (o->letter != '\0')
        printf(" -s %c", o->letter);
    if (is_asked(o))
        printf(" -x -a '(waybill completion --names %s 2>/dev/null)'", o->choices + 1);
    else if (o->choices != NULL)
        printf(" -x -a '%s'", o->choices);
    else if (o->kind != OPTION_FLAG)
        printf(option_is_file(o) ? " -r -F" : " -x");
    printf(" -d '");
    for (const char *c = o->help; *c != '\0'; c++)
        printf(*c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    printf("'\n");
}

void shells_fish(void)
{
    char condition[128];
    printf(
        "# fish completion of waybill, printed by `waybill completion fish`\n"
        "complete -c waybill -f\n"
        "complete -c waybill -n __fish_use_subcommand -a help -d 'tell a command'\\''s options'\n");
    for (unsigned i = 0; i < command_count; i++) {
        const struct command *c = commands[i];
        const struct option_table own = options_of(c);
        printf("complete -c waybill -n __fish_use_subcommand -a %s -d '", c->name);
        put_quoted(c->summary, "");
        printf("'\n");
        snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s", c->name);
        if (c->first_word != NULL)
            printf("complete -c waybill -n '%s' -a '%s'\n", condition, c->first_word);
        for (unsigned k = 0; k < own.count; k++)
            fish_option(condition, &own.options[k]);
    }
    for (unsigned k = 0; k < common_options.count; k++)
        fish_option("not __fish_use_subcommand", &common_options.options[k]);
}
