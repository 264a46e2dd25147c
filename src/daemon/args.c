#include "daemon/args.h"

#include <getopt.h>
#include <string.h>

#include "daemon/config.h"

const struct option_row args_rows[OPTION_COUNT] = {
    [OPTION_CONFIG] = {'c', "config", "FILE",
                       "read the configuration from FILE (JSON with comments)"},
    [OPTION_CHECK] = {0, "check", NULL, "check the configuration, tell all errors, exit 0 or 1"},
    [OPTION_SHOW] = {0, "show-config", "[=json]",
                     "print the effective configuration and where each value came from"},
    [OPTION_SERVICE] = {0, "service", "NAME", "route one service without a file; needs --subject"},
    [OPTION_SUBJECT] = {0, "subject", "SUBJECT", "request subject of --service; may be repeated"},
    [OPTION_POLICY] = {0, "policy", "POLICY", "policy of --service",
                       "round_robin random power_of_two least_loaded device_weighted hash direct"},
    [OPTION_REPLIES] = {0, "replies", "REPLIES", "replies of --service: one, stream or none",
                        "one stream none"},
    [OPTION_SERVER] = {'s', "server", "URL", "NATS servers, comma-separated (nats.url)"},
    [OPTION_ID] = {0, "id", "ID", "this router's id (router.id)"},
    [OPTION_PREFIX] = {0, "prefix", "PREFIX", "prefix of Waybill's subjects (router.prefix)"},
    [OPTION_MONITOR] = {0, "monitor", "ADDR:PORT",
                        "serve /metrics and /healthz there (monitor.listen)"},
    [OPTION_LOG_LEVEL] = {0, "log-level", "LEVEL", "debug, info, warn, error or off; info",
                          "debug info warn error off"},
    [OPTION_GENERATE] = {0, "generate", "WHAT",
                         "print the manual page (man) or a shell's completion and exit",
                         "man bash zsh fish"},
    [OPTION_VERSION] = {0, "version", NULL, "print the version and exit"},
    [OPTION_HELP] = {'h', "help", NULL, "print this and exit"},
    [OPTION_HELP_CONFIG] = {0, "help-config", NULL,
                            "print the reference of the configuration as Markdown and exit"},
};

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn",
    [LOG_ERROR] = "error", [LOG_OFF] = "off",
};

const char *args_option_name(enum option_id id)
{
    static const char *const names[OPTION_COUNT] = {
        [OPTION_CONFIG] = "--config",
        [OPTION_CHECK] = "--check",
        [OPTION_SHOW] = "--show-config",
        [OPTION_SERVICE] = "--service",
        [OPTION_SUBJECT] = "--subject",
        [OPTION_POLICY] = "--policy",
        [OPTION_REPLIES] = "--replies",
        [OPTION_SERVER] = "--server",
        [OPTION_ID] = "--id",
        [OPTION_PREFIX] = "--prefix",
        [OPTION_MONITOR] = "--monitor",
        [OPTION_LOG_LEVEL] = "--log-level",
        [OPTION_GENERATE] = "--generate",
        [OPTION_VERSION] = "--version",
        [OPTION_HELP] = "--help",
        [OPTION_HELP_CONFIG] = "--help-config",
    };

    return id > OPTION_NONE && id < OPTION_COUNT ? names[id] : "";
}

static void build_getopt(struct option longs[OPTION_COUNT], char shorts[2 * OPTION_COUNT + 2])
{
    char *s = shorts;
    unsigned n = 0;

    *s++ = ':';
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++) {
        int takes = args_rows[i].argument == NULL     ? no_argument
                    : args_rows[i].argument[0] == '[' ? optional_argument
                                                      : required_argument;

        longs[n++] = (struct option){args_rows[i].name, takes, NULL, 256 + i};
        if (args_rows[i].letter) {
            *s++ = args_rows[i].letter;
            if (takes == required_argument)
                *s++ = ':';
        }
    }
    *s = 0;
    longs[n] = (struct option){0};
}

static int option_of(int code)
{
    if (code >= 256)
        return code - 256;
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++)
        if (args_rows[i].letter && args_rows[i].letter == code)
            return i;
    return OPTION_NONE;
}

static bool take(struct args *args, int id, const char *text, char why[256])
{
    if (id == OPTION_SUBJECT) {
        if (args->subject_count == ARGS_SUBJECTS_MAX) {
            snprintf(why, 256, "--subject may be given %d times at most", ARGS_SUBJECTS_MAX);
            return false;
        }
        args->subjects[args->subject_count++] = text;
    } else if (args->value[id]) {
        snprintf(why, 256, "--%s is given twice", args_rows[id].name);
        return false;
    }
    args->value[id] = text ? text : "";
    return true;
}

/* What the options mean together. */
static bool agree(struct args *args, char why[256])
{
    const char *level = args->value[OPTION_LOG_LEVEL], *show = args->value[OPTION_SHOW];
    bool service = args->value[OPTION_SERVICE] != NULL;

    args->log_level = LOG_INFO;
    if (level) {
        size_t i = 0;

        while (i < sizeof level_names / sizeof level_names[0] && strcmp(level, level_names[i]) != 0)
            i++;
        if (i == sizeof level_names / sizeof level_names[0]) {
            snprintf(why, 256, "--log-level: expected debug, info, warn, error or off");
            return false;
        }
        args->log_level = (enum log_level)i;
    }
    if (show && *show && strcmp(show, "json") != 0 && strcmp(show, "text") != 0) {
        snprintf(why, 256, "--show-config: expected nothing, =text or =json");
        return false;
    }
    args->show_json = show && strcmp(show, "json") == 0;
    if (args->value[OPTION_HELP] || args->value[OPTION_HELP_CONFIG] ||
        args->value[OPTION_VERSION] || args->value[OPTION_GENERATE])
        return true;
    if (service && args->value[OPTION_CONFIG])
        snprintf(why, 256, "--service is for running without a file: give it or -c, not both");
    else if (service != (args->subject_count > 0))
        snprintf(why, 256, "--service and --subject go together");
    else if (!service && (args->value[OPTION_POLICY] || args->value[OPTION_REPLIES]))
        snprintf(why, 256, "--policy and --replies belong to --service");
    else if (!service && !args->value[OPTION_CONFIG])
        snprintf(why, 256, "nothing to route: give -c FILE, or --service NAME --subject SUBJECT");
    else
        return true;
    return false;
}

bool args_parse(struct args *args, int argc, char **argv, char why[256])
{
    struct option longs[OPTION_COUNT];
    char shorts[2 * OPTION_COUNT + 2];
    int code;

    memset(args, 0, sizeof *args);
    build_getopt(longs, shorts);
    opterr = 0;
    optind = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == '?' || code == ':') {
            const char *what = argv[optind > 0 ? optind - 1 : 0];

            snprintf(why, 256, "%s: %.100s", code == '?' ? "bad option" : "an argument is missing",
                     what);
            return false;
        }
        if (!take(args, option_of(code), optarg, why))
            return false;
    }
    if (optind < argc) {
        snprintf(why, 256, "unexpected argument: %.100s", argv[optind]);
        return false;
    }
    return agree(args, why);
}

void args_help(FILE *out)
{
    fputs("Usage: waybilld -c FILE [options]\n"
          "       waybilld --service NAME --subject SUBJECT [--policy P] [--replies R] [options]\n"
          "Routes NATS requests to workers and records who served them.\n\nOptions:\n",
          out);
    for (int i = OPTION_NONE + 1; i < OPTION_COUNT; i++) {
        const char *argument = args_rows[i].argument ? args_rows[i].argument : "";
        char left[64];

        snprintf(left, sizeof left, "--%s%s%s", args_rows[i].name,
                 *argument && *argument != '[' ? " " : "", argument);
        if (args_rows[i].letter)
            fprintf(out, "  -%c, %-22s %s\n", args_rows[i].letter, left, args_rows[i].help);
        else
            fprintf(out, "      %-22s %s\n", left, args_rows[i].help);
    }
    fputs("\nPrecedence: flag, environment, file, nats context (NATS_CONTEXT, or the selected one "
          "if no\nURL is given otherwise), default.\n"
          "Exit codes: 0 fine, 1 bad configuration or usage, 2 could not start.\n\n"
          "Keys of the configuration file:\n",
          out);
    config_table_help(out);
}
