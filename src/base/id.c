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

/* 1 + the value of each character of the alphabet; 0: not of it. */
static const unsigned char digits[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['-'] = 63, ['_'] = 64,
};

static int digit(char c)
{
    return digits[(unsigned char)c] - 1;
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
