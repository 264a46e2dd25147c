/* A view of bytes owned by somebody else. Never NUL-terminated by promise. Passed by value. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *ptr;
    size_t len;
};

#define SPAN_EMPTY ((struct span){"", 0})
#define SPAN_LIT(text) ((struct span){(text), sizeof(text) - 1})

static inline struct span span_str(const char *text)
{
    return text ? (struct span){text, strlen(text)} : SPAN_EMPTY;
}

static inline struct span span_of(const void *ptr, size_t len)
{
    return (struct span){(const char *)ptr, len};
}

static inline bool span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool span_eq_str(struct span a, const char *text)
{
    return span_eq(a, span_str(text));
}

static inline bool span_starts(struct span a, struct span prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

/* Decimal without sign, spaces or leading '+', at most 18 digits. False leaves *out alone. */
static inline bool span_to_u64(struct span a, unsigned long long *out)
{
    unsigned long long n = 0;

    if (a.len == 0 || a.len > 18)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (a.ptr[i] < '0' || a.ptr[i] > '9')
            return false;
        n = n * 10 + (unsigned long long)(a.ptr[i] - '0');
    }
    *out = n;
    return true;
}

#endif
