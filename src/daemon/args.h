/* Command line of waybilld. One table of options: the parser, --help, the manual page and the
 * shells' completions walk it. */
#ifndef DAEMON_ARGS_H
#define DAEMON_ARGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"

#define ARGS_SUBJECTS_MAX 64

enum option_id {
    OPTION_NONE, /* so that a zeroed field means "no option" */
    OPTION_CONFIG,
    OPTION_CHECK,
    OPTION_SHOW,
    OPTION_SERVICE,
    OPTION_SUBJECT,
    OPTION_POLICY,
    OPTION_REPLIES,
    OPTION_SERVER,
    OPTION_ID,
    OPTION_PREFIX,
    OPTION_MONITOR,
    OPTION_LOG_LEVEL,
    OPTION_GENERATE,
    OPTION_VERSION,
    OPTION_HELP,
    OPTION_HELP_CONFIG,
    OPTION_COUNT
};

struct option_row {
    char letter;                 /* 0: none */
    const char *name, *argument; /* argument NULL: takes none; "[...]": optional */
    const char *help;
    const char *words; /* what the argument may be, blanks between; NULL: anything */
};
extern const struct option_row args_rows[OPTION_COUNT]; /* from OPTION_NONE + 1 on */

struct args {
    const char
        *value[OPTION_COUNT]; /* NULL: not given; "" for an option without argument. Of argv */
    const char *subjects[ARGS_SUBJECTS_MAX];
    unsigned subject_count;
    bool show_json;
    enum log_level log_level; /* LOG_INFO unless told */
};

/* False: `why` says what is wrong with the command line. May be called more than once in a process.
 */
bool args_parse(struct args *args, int argc, char **argv, char why[256]);
void args_help(FILE *out);
/* The manual page (roff) or a completion: "man", "bash", "zsh", "fish". False: no such one. */
bool args_generate(const char *what, FILE *out);
const char *args_option_name(enum option_id id); /* "--server" */

#endif
