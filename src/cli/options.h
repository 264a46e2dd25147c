/* Command lines: one table of options per command drives parsing, --help, the shells' completions
 * and the manual. Values are written into the command's own struct. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define OPTION_LIST_MAX 64
#define OPTION_SERVICES "@services"
#define OPTION_WORKERS "@workers"
#define OPTION_ROUTERS "@routers"

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
    const char *choices; /* the words that it may be, blanks between; "@services", "@workers",
                            "@routers": a shell may ask for those that there are */
    const char *env;     /* what it is taken from where it is not given */
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
/* Its value is the name of a file. */
bool option_is_file(const struct option *o);
/* Calls fn for each word that it may be; not for names that only a router knows. */
void option_each_choice(const struct option *o, void (*fn)(void *arg, struct span word), void *arg);
void options_print(const struct option_table *table);

#endif
