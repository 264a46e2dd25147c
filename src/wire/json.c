#include "wire/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/swar.h"
#include "wire/json_text.h"
#include "wire/utf8.h"

/* True if none of eight bytes is a control, a quote, a backslash or not ASCII. */
static inline bool plain8(const char *at)
{
    uint64_t w = swar_load(at);

    return !((w & SWAR_TOPS) | swar_below(w, 0x20) | swar_has(w, '"') | swar_has(w, '\\'));
}

static inline bool plain1(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

enum { ESCAPE_MAX = 6 };

/* Writes what stands for the character at value[*i], at most ESCAPE_MAX bytes, and moves *i past
 * it. */
static char *escape(char *at, struct span value, size_t *i)
{
    static const char hex[] = "0123456789abcdef";
    static const unsigned char stray[] = {0xef, 0xbf, 0xbd}; /* U+FFFD */
    const unsigned char *s = (const unsigned char *)value.ptr + *i;
    const char *found = *s ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", *s) : NULL;

    if (*s >= 0x80) {
        size_t n = utf8_length(s, value.len - *i);

        if (n == 0)
            memcpy(at, stray, sizeof stray);
        else
            memcpy(at, s, n);
        *i += n ? n : 1;
        return at + (n ? n : 3);
    }
    (*i)++;
    *at++ = '\\';
    if (found) {
        *at++ = found[1];
        return at;
    }
    at[0] = 'u';
    at[1] = '0';
    at[2] = '0';
    at[3] = hex[*s >> 4];
    at[4] = hex[*s & 15];
    return at + 5;
}

size_t json_text_size(struct span value)
{
    size_t n = 2;

    for (size_t i = 0; i < value.len;) {
        char scratch[ESCAPE_MAX];

        if (value.len - i >= 8 && plain8(value.ptr + i)) {
            n += 8;
            i += 8;
        } else if (plain1(value.ptr[i])) {
            n++;
            i++;
        } else {
            n += (size_t)(escape(scratch, value, &i) - scratch);
        }
    }
    return n;
}

char *json_text_put(char *at, struct span value)
{
    *at++ = '"';
    for (size_t i = 0; i < value.len;) {
        size_t left = value.len - i;

        if (left >= 8 && plain8(value.ptr + i)) {
            memcpy(at, value.ptr + i, 8);
            at += 8;
            i += 8;
        } else if (left < 8 && value.len >= 8 && plain8(value.ptr + value.len - 8)) {
            /* the end, and once more those before it: being plain, they stand there as they are */
            memcpy(at + left - 8, value.ptr + value.len - 8, 8);
            at += left;
            i = value.len;
        } else if (plain1(value.ptr[i])) {
            *at++ = value.ptr[i++];
        } else {
            at = escape(at, value, &i);
        }
    }
    *at++ = '"';
    return at;
}

char *json_int_put(char *at, int64_t value)
{
    char digits[JSON_INT_MAX];
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned used = 0;

    do {
        digits[used++] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    if (value < 0)
        *at++ = '-';
    while (used)
        *at++ = digits[--used];
    return at;
}

void json_begin(struct json *j, struct buf *out)
{
    *j = (struct json){.out = out, .status = WB_OK};
}

/* Room for `extra` bytes behind comma and key, which are written; NULL when the writer has failed.
 */
static char *member(struct json *j, const char *key, size_t extra)
{
    struct span name = span_str(key);
    size_t need = extra + 1 + (key ? json_text_size(name) + 1 : 0);
    char *at;

    if (j->status != WB_OK)
        return NULL;
    at = buf_reserve(j->out, need);
    if (!at) {
        j->status = WB_FULL;
        return NULL;
    }
    if (j->comma)
        *at++ = ',';
    if (key) {
        at = json_text_put(at, name);
        *at++ = ':';
    }
    j->comma = true;
    return at;
}

/* Takes over what was written from the reserved room's start, which is the buf's tail. */
static void wrote(struct json *j, const char *end)
{
    buf_grew(j->out, (size_t)(end - (j->out->data + j->out->tail)));
}

static void put_raw(struct json *j, const char *key, const char *text, size_t n)
{
    char *at = member(j, key, n);

    if (!at)
        return;
    memcpy(at, text, n);
    wrote(j, at + n);
}

static void open_with(struct json *j, const char *key, const char *bracket)
{
    put_raw(j, key, bracket, 1);
    j->comma = false;
}

static void close_with(struct json *j, const char *bracket)
{
    j->comma = false;
    put_raw(j, NULL, bracket, 1);
}

void json_object(struct json *j, const char *key)
{
    open_with(j, key, "{");
}

void json_array(struct json *j, const char *key)
{
    open_with(j, key, "[");
}

void json_end_object(struct json *j)
{
    close_with(j, "}");
}

void json_end_array(struct json *j)
{
    close_with(j, "]");
}

void json_text(struct json *j, const char *key, struct span value)
{
    char *at = member(j, key, json_text_size(value));

    if (at)
        wrote(j, json_text_put(at, value));
}

void json_text_or_null(struct json *j, const char *key, struct span value)
{
    if (value.len)
        json_text(j, key, value);
    else
        json_null(j, key);
}

void json_int(struct json *j, const char *key, int64_t value)
{
    char *at = member(j, key, JSON_INT_MAX);

    if (at)
        wrote(j, json_int_put(at, value));
}

void json_bool(struct json *j, const char *key, bool value)
{
    put_raw(j, key, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json *j, const char *key)
{
    put_raw(j, key, "null", 4);
}

void json_double(struct json *j, const char *key, double value)
{
    char text[32];
    int n;

    if (!isfinite(value)) {
        json_null(j, key);
        return;
    }
    n = snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        n = snprintf(text, sizeof(text), "%.17g", value);
    put_raw(j, key, text, (size_t)n);
}

void json_raw(struct json *j, const char *key, struct span text)
{
    put_raw(j, key, text.ptr, text.len);
}

wb_status json_status(const struct json *j)
{
    return j->status;
}
