#include "base/rng.h"

#include "suite.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(a_seed_replays)
{
    struct rng a, b, c;

    rng_seed(&a, 1);
    rng_seed(&b, 1);
    rng_seed(&c, 2);
    for (int i = 0; i < 100; i++) {
        uint64_t value = rng_next(&a);

        ck_assert_uint_eq(value, rng_next(&b));
        ck_assert_uint_ne(value, rng_next(&c));
    }
}
END_TEST

START_TEST(below_is_even_and_in_range)
{
    unsigned count[7] = {0};
    struct rng rng;

    rng_seed(&rng, 5);
    for (int i = 0; i < 70000; i++)
        count[rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++)
        ck_assert(count[i] > 9500 && count[i] < 10500);
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(rng_below(&rng, 1), 0);
        ck_assert_uint_lt(rng_below(&rng, UINT64_MAX), UINT64_MAX);
        ck_assert_uint_lt(rng_below(&rng, (1ull << 63) + 1), (1ull << 63) + 1);
    }
}
END_TEST

START_TEST(secure_bytes_differ_across_blocks)
{
    static unsigned char a[10000], b[10000];

    rng_secure(a, sizeof(a));
    rng_secure(b, sizeof(b));
    ck_assert_int_ne(memcmp(a, b, sizeof(a)), 0);
    ck_assert_int_ne(memcmp(a, a + 4096, 4096), 0);
    rng_secure(a, 0);
}
END_TEST

START_TEST(a_forked_child_draws_other_bytes)
{
    unsigned char ours[16], theirs[16];
    int ends[2];
    pid_t child;

    rng_secure(ours, 1); /* the block is full when the child is born */
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    rng_secure(ours, sizeof(ours));
    if (child == 0) {
        ssize_t n = write(ends[1], ours, sizeof(ours));

        _exit(n != sizeof(ours));
    }
    ck_assert_int_eq(read(ends[0], theirs, sizeof(theirs)), sizeof(theirs));
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_ne(memcmp(ours, theirs, sizeof(ours)), 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(the_hash_never_changes)
{
    /* Routers of one major version must choose the same worker: these values are part of that
     * promise. */
    ck_assert_uint_eq(rng_hash("", 0, 0), 0xab6c3a4c7281e366u);
    ck_assert_uint_eq(rng_hash("a", 1, 0), 0xd4056289f0532a95u);
    ck_assert_uint_eq(rng_hash("worker-17", 9, 0), 0xd56bcfbf08198399u);
    ck_assert_uint_eq(rng_hash("ab", 2, 7), 0xe3434f6d68285ebfu);
    ck_assert_uint_eq(rng_hash("abc", 3, 7), 0x7521dc1b45db053au);
    ck_assert_uint_eq(rng_hash("abcd", 4, 7), 0x13cf887a27dda208u);
    ck_assert_uint_eq(rng_hash("abcdefg", 7, 7), 0x7c8b8ebf5fea3899u);
    ck_assert_uint_eq(rng_hash("the quick brown fox jumps", 25, 42), 0xb533231e62ebaaeu);
}
END_TEST

START_TEST(the_hash_spreads)
{
    unsigned buckets[64] = {0}, flips = 0;

    for (uint32_t i = 0; i < 64000; i++)
        buckets[rng_hash(&i, sizeof(i), 1) & 63]++;
    for (int i = 0; i < 64; i++)
        ck_assert(buckets[i] > 800 && buckets[i] < 1200);
    for (uint64_t i = 0; i < 64; i++) { /* one bit in: half of the bits out */
        uint64_t in = 0x123456789abcdef, other = in ^ 1ull << i;

        flips += (unsigned)__builtin_popcountll(rng_hash(&in, 8, 0) ^ rng_hash(&other, 8, 0));
    }
    ck_assert(flips > 64 * 28 && flips < 64 * 36);
    ck_assert_uint_ne(rng_hash("\0", 1, 0), rng_hash("\0\0", 2, 0));
    ck_assert_uint_ne(rng_hash("x", 1, 0), rng_hash("x", 1, 1));
}
END_TEST

RUN_SUITE("rng", a_seed_replays, below_is_even_and_in_range, secure_bytes_differ_across_blocks,
          a_forked_child_draws_other_bytes, the_hash_never_changes, the_hash_spreads)
