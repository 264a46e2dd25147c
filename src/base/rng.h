/* Two kinds of chance: secure bytes for tokens (kernel, buffered), and a fast seeded generator for
 * choices, so that tests replay. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t n); /* uniform in [0, n); n > 0 */
/* From getrandom(2), 4 KiB at a time and per thread; any thread; forgotten by the child of a fork;
 * aborts if the kernel refuses. */
void rng_secure(void *out, size_t n);
uint64_t rng_hash(const void *bytes, size_t n,
                  uint64_t seed); /* stable across versions of one major: used by consistent hash */

#endif
