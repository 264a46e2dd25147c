/* The table of commands, the options that all of them take, and how they end: what main, the
 * shells' completions and the manual walk. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/command.h"

extern const struct command *const commands[];
extern const unsigned command_count;
extern const struct option_table common_options;

struct exit_row {
    enum exit_code code;
    const char *meaning;
};
extern const struct exit_row exit_rows[];
extern const unsigned exit_row_count;

#endif
