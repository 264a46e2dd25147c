/* Log lines to stderr: RFC 3339 time, level, text. Any thread. Text from peers is escaped by
 * log_quote. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/clock.h"
#include "base/span.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* At most LOG_LIMIT_BURST lines a second per limiter; what was held back is told with the next
 * line. A zeroed limiter is ready. Loop thread. */
#define LOG_LIMIT_BURST 10
struct log_limit {
    int64_t second;
    unsigned used, held;
};
void log_limited(struct log_limit *limit, mono now, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define LOG_QUOTE_SIZE 132
/* Printable ASCII form of hostile bytes, fit to stand between double quotes (it adds none), cut to
 * fit with "..."; returns out. */
const char *log_quote(struct span text, char out[LOG_QUOTE_SIZE]);

#endif
