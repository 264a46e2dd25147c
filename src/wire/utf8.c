#include "wire/utf8.h"

size_t utf8_length(const unsigned char *s, size_t n)
{
    size_t len;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0; /* overlong, surrogate, beyond U+10FFFF */
    return len;
}

size_t utf8_bad_at(struct span text)
{
    size_t i = 0, n = 1;

    while (n && i < text.len) {
        n = utf8_length((const unsigned char *)text.ptr + i, text.len - i);
        i += n;
    }
    return i;
}
