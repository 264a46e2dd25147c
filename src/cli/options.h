/* Command lines: one table of options per command drives parsing and --help. Values are written
 * into the command's own struct. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_LIST_MAX 64

enum option_kind {
    OPTION_FLAG, /* bool */
    OPTION_TEXT, /* const char *, points into argv */
    OPTION_INT,  /* int64_t, bounded by min and max */
    OPTION_RATE, /* double, 0 to 1 */
    OPTION_LIST  /* struct option_list: may be given again and again */
};

struct option_list {
    const char *items[OPTION_LIST_MAX];
    unsigned count;
};

struct option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    size_t offset;
    const char *value; /* what --help calls the value */
    const char *help;
    int64_t min, max;
};

struct option_table {
    const struct option *options;
    unsigned count;
};

struct words { /* what is no option */
    char **items;
    int count;
};

/* Reads argv into target; words are moved to the front of argv. `--` ends the options. False: it
 * has said on stderr what is wrong. */
bool options_read(const struct option_table *tables, unsigned table_count, int argc, char **argv,
                  void *target, struct words *rest);
void options_print(const struct option_table *table);

#endif
