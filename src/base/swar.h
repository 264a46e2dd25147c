/* Eight bytes of a word tested at once: the classic test of a zero byte. A result other than 0 says
 * that there is such a byte; of several in a word it may mark more than there are. */
#ifndef BASE_SWAR_H
#define BASE_SWAR_H

#include <stdint.h>
#include <string.h>

#define SWAR_ONES 0x0101010101010101u
#define SWAR_TOPS 0x8080808080808080u

static inline uint64_t swar_load(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* A byte below n, 1 to 128. */
static inline uint64_t swar_below(uint64_t word, unsigned char n)
{
    return (word - SWAR_ONES * n) & ~word & SWAR_TOPS;
}

static inline uint64_t swar_has(uint64_t word, unsigned char byte)
{
    return swar_below(word ^ SWAR_ONES * byte, 1);
}

#endif
