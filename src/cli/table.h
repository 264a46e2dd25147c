/* Rows of text under titles, each column as wide as what is in it. On a terminal the columns that
 * may be cut are, until a line fits; where that is not enough the last columns are left out, and a
 * line says which. A pipe gets every cell whole. Private to the commands of operators. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>

#include "base/buf.h"

#define TABLE_COLUMNS_MAX 20

struct table_column {
    const char *title;
    bool number; /* to the right */
    bool cut;    /* may be shortened */
    bool state;  /* words that have a colour: how a worker or a session stands */
};

struct table {
    const struct table_column *columns;
    unsigned count, cells, shown; /* shown: the first so many columns */
    int widths[TABLE_COLUMNS_MAX];
    struct buf text; /* the cells, each with its NUL */
    bool full;       /* not all rows were taken */
};

/* The columns must outlive the table. */
void table_begin(struct table *t, const struct table_column *columns, unsigned count);
/* The next cell, from left to right, row after row. Control characters become '?'. */
void table_text(struct table *t, const char *text);
void table_print(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To stdout, the titles first; nothing without a row. Frees it. */
void table_end(struct table *t);

#endif
