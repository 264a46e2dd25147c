/* Secure bytes are bought from the kernel in blocks, one block per thread, and wiped as they are
 * handed out; a forked child starts with an empty block, so parent and child never share a token.
 * The fast generator is xoshiro256**, seeded through splitmix64. The hash folds 128-bit products;
 * it reads little-endian on every machine, so routers agree. */
#include "base/rng.h"

#include "base/check.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define BLOCK 4096

__extension__ typedef unsigned __int128 u128;

static _Thread_local unsigned char block[BLOCK];
static _Thread_local size_t left;

static void forget_block(void)
{
    left = 0;
}

static void watch_forks(void)
{
    CHECK(pthread_atfork(NULL, NULL, forget_block) == 0);
}

static void refill(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t got = 0;

    pthread_once(&once, watch_forks);
    while (got < BLOCK) {
        ssize_t n = getrandom(block + got, BLOCK - got, 0);

        CHECK(n > 0 || errno == EINTR);
        if (n > 0)
            got += (size_t)n;
    }
    left = BLOCK;
}

void rng_secure(void *out, size_t n)
{
    unsigned char *to = out;

    while (n) {
        size_t part;

        if (!left)
            refill();
        part = n < left ? n : left;
        memcpy(to, block + BLOCK - left, part);
        memset(block + BLOCK - left, 0, part);
        left -= part;
        to += part;
        n -= part;
    }
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        rng->s[i] = z ^ z >> 31;
    }
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    u128 product;

    CHECK(n > 0);
    /* The high half of next * n is the choice; the few low halves that would favour some choices
     * are thrown back. */
    product = (u128)rng_next(rng) * n;
    if ((uint64_t)product < n) {
        uint64_t unfair = -n % n;

        while ((uint64_t)product < unfair)
            product = (u128)rng_next(rng) * n;
    }
    return (uint64_t)(product >> 64);
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    u128 product = (u128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load(const unsigned char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return le64toh(word);
}

static uint64_t load_half(const unsigned char *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return le32toh(word);
}

/* The last `rest` of n bytes, 1 to 7, by words of a fixed size that overlap: nothing beyond the
 * ends is read, and nothing is copied byte by byte. */
static uint64_t load_rest(const unsigned char *at, size_t rest, size_t n)
{
    if (n >= 8)
        return load(at + rest - 8) >> 8 * (8 - rest);
    if (rest >= 4)
        return load_half(at) | load_half(at + rest - 4) << 8 * (rest - 4);
    return at[0] | (uint64_t)at[rest / 2] << 8 * (rest / 2) |
           (uint64_t)at[rest - 1] << 8 * (rest - 1);
}

uint64_t rng_hash(const void *bytes, size_t n, uint64_t seed)
{
    const uint64_t k1 = 0xa0761d6478bd642fu, k2 = 0xe7037ed1a0b428dbu;
    const unsigned char *at = bytes;
    uint64_t h = seed ^ fold(seed ^ k2, k1) ^ n;
    size_t rest = n;

    for (; rest >= 8; at += 8, rest -= 8)
        h = fold(h ^ load(at) ^ k2, k1) + rotate(h, 23);
    if (rest)
        h = fold(h ^ load_rest(at, rest, n) ^ k2, k1) + rotate(h, 23);
    h ^= h >> 32;
    h = fold(h ^ k1, k2 ^ n);
    return h ^ h >> 29;
}
