/* A subcommand: its options, its words, its function. main.c has the table of them. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <nats/nats.h>

#include "base/buf.h"
#include "cli/options.h"
#include "waybill/status.h"
#include "wire/json.h"

enum exit_code {
    EXIT_FINE = 0,
    EXIT_USAGE = 1,
    EXIT_NO_LINK = 2,
    EXIT_NOTHING = 3,
    EXIT_ERROR_ANSWER = 4,
    EXIT_UNHEALTHY = 5 /* doctor: a check failed */
};

/* First member of every command's struct. */
struct common {
    const char *server, *creds, *user, *password, *token, *nkey, *cert, *key, *ca, *context,
        *prefix;
    bool json, help;
};

struct command {
    const char *name, *words, *summary;
    const struct option *options;
    unsigned option_count;
    size_t args_size;
    const void *defaults; /* args_size bytes */
    int min_words, max_words;
    int (*run)(const void *args, const struct words *rest);
    const char *about;      /* more than the summary: whole sentences */
    const char *first_word; /* words that the first one may be, blanks between; "@files" */
    const char *examples;   /* lines of "what it does\tcommand" */
};

extern const struct command command_request, command_worker, command_who, command_workers,
    command_sessions, command_stats, command_cancel, command_bench, command_watch, command_trace,
    command_explain, command_doctor, command_completion, command_man;

struct link {
    natsConnection *nc;
    char *inbox_prefix; /* NULL: nats.c's own */
    const char *prefix; /* of Waybill's subjects; checked */
};

/* Connects as the `nats` CLI would. EXIT_FINE, or the exit code after a line on stderr. Once per
 * process. */
int link_open(const struct common *common, struct link *link);
/* The same; a server that is not there is waited for, until there is something to read at stop_fd:
 * then EXIT_FINE, and link->nc is NULL. */
int link_open_patiently(const struct common *common, struct link *link, int stop_fd);
void link_close(struct link *link);

/* The server's last refusal of this connection names this subject. Reads what has come in; flush
 * first to be sure. */
void link_hush(void); /* refusals are not said by the link: the command does */
bool link_denied(const struct link *link, const char *subject);

/* Says on stderr what a status means for this command; the exit code for it. */
int exit_of(wb_status status, const char *what);
/* Writes the JSON text and a newline to stdout, and frees it. */
void print_json(struct buf *text);
/* The same, but nothing if the writer failed. */
void print_whole_json(const struct json *j, struct buf *text);

#define OUTPUT_MAX (64u * 1024 * 1024)

#endif
