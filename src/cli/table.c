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

static int total_width(const struct table *t)
{
    int total = 0;
    for (unsigned i = 0; i < t->shown; i++)
        total += t->widths[i] + GAP;
    return total;
}

/* Cuts what may be cut; false: that is not enough. */
static bool cut(struct table *t, int room)
{
    for (int total = total_width(t); total > room; total--) {
        int *widest = NULL;
        for (unsigned i = 0; i < t->shown; i++)
            if (t->columns[i].cut && t->widths[i] > CUT_MIN &&
                (widest == NULL || t->widths[i] > *widest))
                widest = &t->widths[i];
        if (widest == NULL)
            return false;
        --*widest;
    }
    return true;
}

static void fit(struct table *t, int room)
{
    int whole[TABLE_COLUMNS_MAX];
    memcpy(whole, t->widths, sizeof(whole));
    while (!cut(t, room) && t->shown > 1) {
        memcpy(t->widths, whole, sizeof(whole));
        t->shown--;
    }
}

static enum style style_of_state(const char *word)
{
    static const char *const good[] = {"free", "bound", "yes"}, *const bad[] = {"ejected"},
                             *const warn[] = {"overloaded", "full", "busy", "draining", "unknown"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (strcmp(word, good[i]) == 0)
            return STYLE_GOOD;
    for (size_t i = 0; i < sizeof(warn) / sizeof(warn[0]); i++)
        if (strcmp(word, warn[i]) == 0)
            return STYLE_WARN;
    return strcmp(word, bad[0]) == 0 ? STYLE_BAD : STYLE_PLAIN;
}

static void print_cell(const struct table *t, unsigned column, const char *text, bool title)
{
    const struct table_column *c = &t->columns[column];
    int width = t->widths[column], len = (int)strlen(text);
    enum style style = title ? STYLE_BOLD : c->state ? style_of_state(text) : STYLE_PLAIN;
    screen_add(STYLE_PLAIN, "%*s", GAP + (c->number && len < width ? width - len : 0), "");
    if (len > width)
        screen_add(style, "%.*s" MARK, width - (int)strlen(MARK), text);
    else
        screen_add(style, "%s", text);
    if (column + 1 == t->shown)
        screen_end(); /* no blanks at the end of a line */
    else if (!c->number && len < width)
        screen_add(STYLE_PLAIN, "%*s", width - len, "");
}

static void print_left_out(const struct table *t)
{
    if (t->shown == t->count)
        return;
    screen_add(STYLE_DIM, "  not shown, for want of room:");
    for (unsigned i = t->shown; i < t->count; i++)
        screen_add(STYLE_DIM, " %s%s", t->columns[i].title, i + 1 < t->count ? "," : "");
    screen_end();
}

void table_end(struct table *t)
{
    unsigned rows = t->cells / t->count;
    const char *cell = buf_span(&t->text).ptr;
    int room = screen_width();
    t->shown = t->count;
    if (room > 0)
        fit(t, room);
    for (unsigned column = 0; rows > 0 && column < t->shown; column++)
        print_cell(t, column, t->columns[column].title, true);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned column = 0; column < t->count; column++) {
            if (column < t->shown)
                print_cell(t, column, cell, false);
            cell += strlen(cell) + 1;
        }
    }
    if (rows > 0)
        print_left_out(t);
    if (t->full)
        fprintf(stderr, "waybill: not all rows fit in memory\n");
    buf_fini(&t->text);
}
