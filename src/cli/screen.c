#include "cli/screen.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIECE_MAX 2048
#define BLANKS 40   /* the deepest indent */
#define FOLD_MIN 20 /* narrower than this nothing is folded */

static int column; /* where the line stands */

static const char *const codes[] = {
    [STYLE_PLAIN] = "",        [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",
    [STYLE_GOOD] = "\033[32m", [STYLE_WARN] = "\033[33m", [STYLE_BAD] = "\033[31m",
};

int screen_width(void)
{
    struct winsize size = {0};
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}

static bool is_coloured(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return (no == NULL || *no == '\0') && (term == NULL || strcmp(term, "dumb") != 0) &&
           isatty(STDOUT_FILENO);
}

static void put(enum style style, const char *text, int len)
{
    bool coloured = style != STYLE_PLAIN && len > 0 && is_coloured();
    if (coloured)
        fputs(codes[style], stdout);
    fwrite(text, 1, (size_t)len, stdout);
    if (coloured)
        fputs("\033[0m", stdout);
    column += len;
}

/* As much of it as the line has room for. */
static void place(enum style style, char *text)
{
    int len = (int)strlen(text), width = screen_width();
    for (int i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    if (width > 0 && column + len > width)
        len = column < width ? width - column : 0;
    put(style, text, len);
}

void screen_add(enum style style, const char *format, ...)
{
    char text[PIECE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    place(style, text);
}

void screen_end(void)
{
    putchar('\n');
    fflush(stdout);
    column = 0;
}

void screen_folded(int indent, const char *text)
{
    static const char blanks[BLANKS + 1] = "                                        ";
    int width = screen_width();
    while (*text != '\0') {
        int room = width - column, len = (int)strlen(text);
        if (width > 0 && room >= FOLD_MIN && len > room) {
            int at = room;
            while (at > 0 && text[at] != ' ')
                at--;
            len = at > 0 ? at : room;
        }
        char piece[PIECE_MAX];
        snprintf(piece, sizeof(piece), "%.*s", len, text);
        place(STYLE_PLAIN, piece);
        text += len;
        while (*text == ' ')
            text++;
        if (*text != '\0') {
            screen_end();
            put(STYLE_PLAIN, blanks, indent < BLANKS ? indent : BLANKS);
        }
    }
}

enum style screen_style_of(const char *outcome)
{
    if (strcmp(outcome, "done") == 0)
        return STYLE_GOOD;
    if (strcmp(outcome, "streaming") == 0)
        return STYLE_BOLD;
    return strcmp(outcome, "cancelled") == 0 ? STYLE_WARN : STYLE_BAD;
}
