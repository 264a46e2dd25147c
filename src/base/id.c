#include "base/id.h"

#include "base/rng.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void id_random(char *out, unsigned n)
{
    rng_secure(out, n);
    for (unsigned i = 0; i < n; i++)
        out[i] = alphabet[(unsigned char)out[i] & 63];
}

void id_encode(char *out, unsigned n, uint64_t value)
{
    for (unsigned i = 0; i < n; i++) {
        out[i] = alphabet[value & 63];
        value >>= 6;
    }
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '-')
        return 62;
    return c == '_' ? 63 : -1;
}

int64_t id_decode(const char *text, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = n; i-- > 0;) {
        int d = digit(text[i]);

        if (d < 0 || value > ((uint64_t)INT64_MAX >> 6))
            return -1; /* not of the alphabet, or more than 63 bits */
        value = value << 6 | (uint64_t)d;
    }
    return (int64_t)value;
}
