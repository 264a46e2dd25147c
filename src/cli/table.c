#include "cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/screen.h"

#define GAP 2     /* before each cell */
#define CUT_MIN 8 /* no column is cut to less */
#define MARK "..."

void table_begin(struct table *t, const struct table_column *columns, unsigned count)
{
    *t = (struct table){.columns = columns, .count = count};
    for (unsigned i = 0; i < count; i++)
        t->widths[i] = (int)strlen(columns[i].title);
    buf_init(&t->text, OUTPUT_MAX);
}

void table_text(struct table *t, const char *text)
{
    size_t len = strlen(text);
    char *cell = t->full ? NULL : buf_reserve(&t->text, len + 1);
    if (cell == NULL) {
        t->full = true;
        return;
    }
    for (size_t i = 0; i < len; i++)
        cell[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    cell[len] = '\0';
    buf_grew(&t->text, len + 1);
    int *width = &t->widths[t->cells++ % t->count];
    if ((int)len > *width)
        *width = (int)len;
}

void table_print(struct table *t, const char *format, ...)
{
    char cell[512];
    va_list args;
    va_start(args, format);
    vsnprintf(cell, sizeof(cell), format, args);
    va_end(args);
    table_text(t, cell);
}

static void fit(struct table *t, int room)
{
    int total = 0;
    for (unsigned i = 0; i < t->count; i++)
        total += t->widths[i] + GAP;
    while (total > room) {
        int *widest = NULL;
        for (unsigned i = 0; i < t->count; i++)
            if (t->columns[i].cut && t->widths[i] > CUT_MIN &&
                (widest == NULL || t->widths[i] > *widest))
                widest = &t->widths[i];
        if (widest == NULL)
            return;
        --*widest;
        total--;
    }
}

static void print_cell(const struct table *t, unsigned column, const char *text)
{
    const struct table_column *c = &t->columns[column];
    int width = t->widths[column], len = (int)strlen(text);
    printf("%*s", GAP, "");
    if (len > width)
        printf("%.*s" MARK, width - (int)strlen(MARK), text);
    else if (c->number)
        printf("%*s", width, text);
    else if (column + 1 == t->count)
        printf("%s", text); /* no blanks at the end of a line */
    else
        printf("%-*s", width, text);
    if (column + 1 == t->count)
        putchar('\n');
}

void table_end(struct table *t)
{
    unsigned rows = t->cells / t->count;
    const char *cell = buf_span(&t->text).ptr;
    int room = screen_width();
    if (room > 0)
        fit(t, room);
    for (unsigned column = 0; rows > 0 && column < t->count; column++)
        print_cell(t, column, t->columns[column].title);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned column = 0; column < t->count; column++) {
            print_cell(t, column, cell);
            cell += strlen(cell) + 1;
        }
    }
    if (t->full)
        fprintf(stderr, "waybill: not all rows fit in memory\n");
    buf_fini(&t->text);
}
