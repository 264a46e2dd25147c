#include "cli/commands.h"

const struct command *const commands[] = {
    &command_request, &command_worker,  &command_who,        &command_trace, &command_watch,
    &command_explain, &command_workers, &command_sessions,   &command_stats, &command_doctor,
    &command_cancel,  &command_bench,   &command_completion, &command_man,
};
const unsigned command_count = sizeof(commands) / sizeof(commands[0]);

#define COMMON(field) offsetof(struct common, field)
static const struct option rows[] = {
    {"server", 's', OPTION_TEXT, COMMON(server), "URL", "NATS server, or several with commas", 0, 0,
     NULL, "NATS_URL"},
    {"context", 0, OPTION_TEXT, COMMON(context), "NAME", "settings of the nats CLI's context", 0, 0,
     NULL, "NATS_CONTEXT"},
    {"creds", 0, OPTION_TEXT, COMMON(creds), "FILE", "credentials file", 0, 0, NULL, "NATS_CREDS"},
    {"user", 0, OPTION_TEXT, COMMON(user), "NAME", "user", 0, 0, NULL, "NATS_USER"},
    {"password", 0, OPTION_TEXT, COMMON(password), "TEXT", "password", 0, 0, NULL, "NATS_PASSWORD"},
    {"token", 0, OPTION_TEXT, COMMON(token), "TEXT", "token", 0, 0, NULL, "NATS_TOKEN"},
    {"nkey", 0, OPTION_TEXT, COMMON(nkey), "FILE", "file with an nkey's seed", 0, 0, NULL,
     "NATS_NKEY"},
    {"tlscert", 0, OPTION_TEXT, COMMON(cert), "FILE", "client certificate", 0, 0, NULL,
     "NATS_CERT"},
    {"tlskey", 0, OPTION_TEXT, COMMON(key), "FILE", "its key", 0, 0, NULL, "NATS_KEY"},
    {"tlsca", 0, OPTION_TEXT, COMMON(ca), "FILE", "certificate authorities", 0, 0, NULL, "NATS_CA"},
    {"prefix", 0, OPTION_TEXT, COMMON(prefix), "TEXT", "first part of Waybill's subjects (waybill)",
     0, 0},
    {"json", 'j', OPTION_FLAG, COMMON(json), NULL, "answer in JSON", 0, 0},
    {"help", 'h', OPTION_FLAG, COMMON(help), NULL, "this text", 0, 0},
};
const struct option_table common_options = {rows, sizeof(rows) / sizeof(rows[0])};

const struct exit_row exit_rows[] = {
    {EXIT_FINE, "fine"},
    {EXIT_USAGE, "usage: the line on stderr says what was wrong"},
    {EXIT_NO_LINK, "cannot connect, or not permitted"},
    {EXIT_NOTHING, "nothing found, or nobody answered"},
    {EXIT_ERROR_ANSWER, "an error was answered"},
    {EXIT_UNHEALTHY, "a check of doctor failed"},
};
const unsigned exit_row_count = sizeof(exit_rows) / sizeof(exit_rows[0]);
