#include "base/id.h"

#include "base/rng.h"
#include "suite.h"

#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

START_TEST(random_ids_keep_to_the_alphabet_and_the_length)
{
    char a[ID_TOKEN_LEN + 2], b[ID_TOKEN_LEN + 2];

    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    a[ID_TOKEN_LEN] = '!';
    id_random(a, ID_TOKEN_LEN);
    id_random(b, ID_TOKEN_LEN);
    ck_assert_uint_eq(strspn(a, letters), ID_TOKEN_LEN);
    ck_assert_int_eq(a[ID_TOKEN_LEN], '!');
    ck_assert_int_ne(memcmp(a, b, ID_TOKEN_LEN), 0);
}
END_TEST

START_TEST(every_letter_comes_up)
{
    char text[4096];
    unsigned seen[256] = {0};

    id_random(text, sizeof(text));
    for (size_t i = 0; i < sizeof(text); i++)
        seen[(unsigned char)text[i]]++;
    for (const char *c = letters; *c; c++)
        ck_assert_uint_gt(seen[(unsigned char)*c], 10); /* 64 expected */
}
END_TEST

START_TEST(numbers_come_back)
{
    struct rng rng;
    char text[11];

    rng_seed(&rng, 3);
    for (int i = 0; i < 10000; i++) {
        uint64_t value = rng_next(&rng) >> (1 + rng_below(&rng, 63));

        id_encode(text, 11, value);
        ck_assert_int_eq(id_decode(text, 11), (int64_t)value);
        id_encode(text, 6, value);
        ck_assert_int_eq(id_decode(text, 6), (int64_t)(value & 0xfffffffff));
    }
    id_encode(text, 3, 1);
    ck_assert_int_eq(strncmp(text, "BAA", 3), 0); /* least significant first */
    ck_assert_int_eq(id_decode("", 0), 0);
}
END_TEST

START_TEST(bad_letters_and_long_numbers_are_refused)
{
    ck_assert_int_eq(id_decode("AA.A", 4), -1);
    ck_assert_int_eq(id_decode("AA\0A", 4), -1);
    ck_assert_int_eq(id_decode("\xff", 1), -1);
    ck_assert_int_eq(id_decode("___________", 11), -1);            /* 66 bits */
    ck_assert_int_eq(id_decode("AAAAAAAAAAAAAAAAAAAAAB", 22), -1); /* far more */
}
END_TEST

RUN_SUITE("id", random_ids_keep_to_the_alphabet_and_the_length, every_letter_comes_up,
          numbers_come_back, bad_letters_and_long_numbers_are_refused)
