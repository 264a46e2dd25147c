#include "wire/name.h"

#include "base/id.h"

/* What a byte may be part of, looked up once per byte: these checks stand on the hot path. */
enum { IN_ID = 1, IN_REQUEST_ID = 2 };

static unsigned char_class(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '-')
        return IN_ID | IN_REQUEST_ID;
    return c == '=' || c == '.' ? IN_REQUEST_ID : 0;
}

bool name_is_id(struct span name)
{
    if (name.len == 0 || name.len > WB_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!(char_class((unsigned char)name.ptr[i]) & IN_ID))
            return false;
    return true;
}

bool name_is_request_id(struct span name)
{
    bool after_dot = true; /* so that a leading dot counts as a double one */

    if (name.len == 0 || name.len > WB_REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (!(char_class((unsigned char)name.ptr[i]) & IN_REQUEST_ID))
            return false;
        if (name.ptr[i] == '.' && after_dot)
            return false;
        after_dot = name.ptr[i] == '.';
    }
    return !after_dot;
}

bool name_is_long(struct span name)
{
    if (name.len == 0 || name.len > WB_LONG_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= ' ' || name.ptr[i] > '~')
            return false;
    return true;
}

size_t name_to_key(struct span name, char *out, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        bool plain = char_class(c) & IN_ID;

        if (size - n < (plain ? 1U : 3U))
            return 0;
        if (plain) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '=';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    return n;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t name_from_key(struct span key, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < key.len; i++) {
        int c = (unsigned char)key.ptr[i];

        if (c == '=') {
            int high = key.len - i > 2 ? hex_value(key.ptr[i + 1]) : -1;
            int low = key.len - i > 2 ? hex_value(key.ptr[i + 2]) : -1;

            c = high >= 0 && low >= 0 ? high << 4 | low : -1;
            i += 2;
        } else if (!(char_class((unsigned char)c) & IN_ID)) {
            c = -1;
        }
        if (c < 0 || n == size)
            return 0;
        out[n++] = (char)c;
    }
    return n;
}

void name_router_default(const char *host, char *out)
{
    enum { HOST_MAX = 59, RANDOM = 4 };
    size_t n = 0;

    if (!host || !host[0])
        host = "router";
    for (; n < HOST_MAX && host[n]; n++)
        out[n] = char_class((unsigned char)host[n]) & IN_ID ? host[n] : '-';
    out[n++] = '-';
    id_random(out + n, RANDOM);
    out[n + RANDOM] = '\0';
}
