#include "wire/name.h"

#include "base/id.h"

/* What a byte may be part of, looked up once per byte: these checks stand on the hot path. */
enum { IN_ID = 1, IN_REQUEST_ID = 2 };

static const unsigned char classes[256] = {
    ['A'] = 3, ['B'] = 3, ['C'] = 3, ['D'] = 3, ['E'] = 3, ['F'] = 3, ['G'] = 3, ['H'] = 3,
    ['I'] = 3, ['J'] = 3, ['K'] = 3, ['L'] = 3, ['M'] = 3, ['N'] = 3, ['O'] = 3, ['P'] = 3,
    ['Q'] = 3, ['R'] = 3, ['S'] = 3, ['T'] = 3, ['U'] = 3, ['V'] = 3, ['W'] = 3, ['X'] = 3,
    ['Y'] = 3, ['Z'] = 3, ['a'] = 3, ['b'] = 3, ['c'] = 3, ['d'] = 3, ['e'] = 3, ['f'] = 3,
    ['g'] = 3, ['h'] = 3, ['i'] = 3, ['j'] = 3, ['k'] = 3, ['l'] = 3, ['m'] = 3, ['n'] = 3,
    ['o'] = 3, ['p'] = 3, ['q'] = 3, ['r'] = 3, ['s'] = 3, ['t'] = 3, ['u'] = 3, ['v'] = 3,
    ['w'] = 3, ['x'] = 3, ['y'] = 3, ['z'] = 3, ['0'] = 3, ['1'] = 3, ['2'] = 3, ['3'] = 3,
    ['4'] = 3, ['5'] = 3, ['6'] = 3, ['7'] = 3, ['8'] = 3, ['9'] = 3, ['-'] = 3, ['_'] = 3,
    ['='] = 2, ['.'] = 2,
};

static unsigned char_class(unsigned char c)
{
    return classes[c];
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
    size_t n = 0, most = name.len < size ? name.len : size;

    for (; n < most && char_class((unsigned char)name.ptr[n]) & IN_ID; n++)
        out[n] = name.ptr[n]; /* most names are plain all through */
    for (size_t i = n; i < name.len; i++) {
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
