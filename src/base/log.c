#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE 2048

static atomic_int threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&threshold, memory_order_relaxed);
}

/* One write per line, so that lines of several threads do not mix. A line that stderr refuses is
 * lost. */
static void emit(enum log_level level, unsigned held, const char *format, va_list args)
{
    static const char *const names[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
    char line[LINE_SIZE], time[WALL_TEXT_SIZE];
    size_t start, end;
    int n;

    wall_format(clock_wall(), time);
    n = held ? snprintf(line, sizeof(line), "%s %s (%u like this held back) ", time, names[level],
                        held)
             : snprintf(line, sizeof(line), "%s %s ", time, names[level]);
    if (n < 0)
        return;
    start = end = (size_t)n;
    n = vsnprintf(line + start, sizeof(line) - start, format, args);
    if (n < 0)
        return;
    end += (size_t)n;
    if (end > sizeof(line) - 1) { /* the last place is for the newline */
        end = sizeof(line) - 1;
        memcpy(line + end - 3, "...", 3);
    }
    for (size_t i = start; i < end; i++) /* one event, one line, whatever the text */
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[end++] = '\n';
    if (write(STDERR_FILENO, line, end) < 0)
        return;
}

static bool wanted(enum log_level level)
{
    return level < LOG_OFF && level >= log_get_level();
}

void log_write(enum log_level level, const char *format, ...)
{
    va_list args;

    if (!wanted(level))
        return;
    va_start(args, format);
    emit(level, 0, format, args);
    va_end(args);
}

void log_limited(struct log_limit *limit, mono now, enum log_level level, const char *format, ...)
{
    int64_t second = now.us / 1000000;
    va_list args;

    if (!wanted(level))
        return;
    if (second != limit->second) {
        limit->second = second;
        limit->used = 0;
    }
    if (limit->used >= LOG_LIMIT_BURST) {
        limit->held++;
        return;
    }
    limit->used++;
    va_start(args, format);
    emit(level, limit->held, format, args);
    va_end(args);
    limit->held = 0;
}

const char *log_quote(struct span text, char out[LOG_QUOTE_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    const size_t room = LOG_QUOTE_SIZE - 4; /* "..." and NUL */
    size_t used = 0, i;

    for (i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool plain = c >= ' ' && c < 0x7f;
        size_t need = !plain ? 4 : c == '"' || c == '\\' ? 2 : 1;

        if (used + need > room)
            break;
        if (need > 1)
            out[used++] = '\\';
        if (plain) {
            out[used++] = (char)c;
        } else {
            out[used++] = 'x';
            out[used++] = hex[c >> 4];
            out[used++] = hex[c & 15];
        }
    }
    memcpy(out + used, i < text.len ? "..." : "", i < text.len ? 4 : 1);
    return out;
}
